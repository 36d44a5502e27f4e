"""The examples on the page about geometry run, and print what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "geometry.md"


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
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 3
    names: dict = {}
    said: list[str] = []
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.NORMALIZE_WHITESPACE)
    for block in blocks:
        if ">>>" not in block:
            exec(compile(block, PAGE.name, "exec"), names)
            continue
        examples = doctest.DocTestParser().get_doctest(block, names, PAGE.name, None, 0)
        runner.run(examples, out=said.append, clear_globs=False)
        names |= examples.globs
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
