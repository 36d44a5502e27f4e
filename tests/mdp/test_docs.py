"""The examples on the page for users run, and print what they say."""

from __future__ import annotations

import pytest
from support.pages import check_page


@pytest.mark.parametrize("name", ["models.md", "policies.md"])
def test_the_examples_of_the_page_are_true(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    check_page(name)
