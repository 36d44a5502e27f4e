"""The page about problems says what is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from tessella.problems import registry

PAGE = Path(__file__).parents[2] / "docs" / "problems.md"
LOOSELY = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_the_examples_of_the_page_are_true(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, None, 0)
    assert len(examples.examples) > 15
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=LOOSELY)
    assert runner.run(examples, out=said.append).failed == 0, "".join(said)
