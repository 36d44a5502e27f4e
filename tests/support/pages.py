"""The examples on a page of the docs, run from top to bottom."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
LOOSELY = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks_of(name: str) -> list[str]:
    """The Python blocks of the page ``name``."""
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), flags=re.DOTALL)


def check_page(name: str, checker: doctest.OutputChecker | None = None, at_least: int = 10) -> None:
    """Run every block, each with the names of those before, and hold what it says it prints."""
    names: dict = {}
    said: list[str] = []
    runner = doctest.DocTestRunner(checker, optionflags=LOOSELY)
    count = 0
    for k, block in enumerate(blocks_of(name)):
        if ">>>" not in block:
            exec(compile(block, name, "exec"), names)
            continue
        place = f"{name}, block {k}"  # of its own: Python looks sources up by it
        examples = doctest.DocTestParser().get_doctest(block, names, place, None, 0)
        count += len(examples.examples)
        runner.run(examples, out=said.append, clear_globs=False)
        names = examples.globs
    assert count >= at_least, f"{name} has {count} examples"
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
