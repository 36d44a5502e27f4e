"""The examples on the page about geometry run, and print what they say."""

from __future__ import annotations

import doctest
import re

import pytest
from support.pages import check_page


class Checker(doctest.OutputChecker):
    """Which linear index is found, of all that would do, is the linear program's choice."""

    def check_output(self, want, got, optionflags):
        return super().check_output(
            *(re.sub("; index .*", "", t) for t in (want, got)), optionflags
        )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place where the examples may write."""
    monkeypatch.chdir(tmp_path)


def test_the_examples_of_the_page_on_geometry_are_true(folder):
    check_page("geometry.md", Checker(), at_least=5)
