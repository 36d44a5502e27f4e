"""The page about comparisons says what is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from tessella.problems import registry
from tessella.runner import measure
from tessella.runner.methods import registry as methods

PAGE = Path(__file__).parents[2] / "docs" / "comparisons.md"


def test_the_examples_of_the_page_are_true(monkeypatch):
    for module in (registry, methods, measure):
        monkeypatch.setattr(module, "_registered", {})
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, None, 0)
    assert len(examples.examples) > 10
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(examples, out=said.append).failed == 0, "".join(said)
