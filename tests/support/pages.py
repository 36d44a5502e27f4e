"""The examples on a page of the docs, run from top to bottom.

A block of Python either holds a session (``>>>``), or a program to be copied as it stands; what it
prints may follow in a block of its own, called ``output``.
"""

from __future__ import annotations

import doctest
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parents[2] / "docs"
LOOSELY = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```output\n(.*?)```)?", re.DOTALL)
MEASURED = re.compile(r"\d+\.\d+(?:e-?\d+)?")  # numbers that may differ in their last digits
DIGITS, NOTHING = 1e-3, 1e-6


def blocks_of(name: str) -> list[tuple[str, str | None]]:
    """The Python blocks of the page ``name``, and what it says that each prints."""
    text = (DOCS / name).read_text()
    return [(found[1], found[2]) for found in BLOCK.finditer(text)]


def check_page(name: str, checker: doctest.OutputChecker | None = None, at_least: int = 10) -> None:
    """Run every block, each with the names of those before, and hold what it says it prints."""
    names: dict = {}
    said: list[str] = []
    runner = doctest.DocTestRunner(checker, optionflags=LOOSELY)
    count = 0
    for k, (block, output) in enumerate(blocks_of(name)):
        place = f"{name}, block {k}"  # of its own: Python looks sources up by it
        if ">>>" not in block:
            count += 1
            check_program(block, output, place, names)
            continue
        examples = doctest.DocTestParser().get_doctest(block, names, place, None, 0)
        count += len(examples.examples)
        runner.run(examples, out=said.append, clear_globs=False)
        names = examples.globs
    assert count >= at_least, f"{name} has {count} examples"
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def check_program(program: str, output: str | None, place: str, names: dict) -> None:
    """Run a program, and hold what it prints against ``output``, where that is given."""
    if output is None:
        exec(compile(program, place, "exec"), names)
        return
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, place, "exec"), names)
    assert alike(output, printed.getvalue()), f"{place} prints\n{printed.getvalue()}"


def alike(one: str, other: str) -> bool:
    """Whether two texts are the same, but for the last digits of numbers with a point."""
    if MEASURED.sub("0", one) != MEASURED.sub("0", other):
        return False
    numbers = [[float(x) for x in MEASURED.findall(text)] for text in (one, other)]
    return np.allclose(*numbers, rtol=DIGITS, atol=NOTHING)
