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
DOCTEST_OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```output\n(.*?)```)?", re.DOTALL)
DECIMAL_NUMBER = re.compile(r"\d+\.\d+(?:e-?\d+)?")  # numbers that may differ in their last digits
RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 1e-3, 1e-6


def list_blocks(name: str) -> list[tuple[str, str | None]]:
    """The Python blocks of the page ``name``, and what it says that each prints."""
    text = (DOCS / name).read_text()
    return [(match[1], match[2]) for match in BLOCK.finditer(text)]


def check_page(name: str, checker: doctest.OutputChecker | None = None, at_least: int = 10) -> None:
    """Run every block, each with the names of those before, and hold what it says it prints."""
    names: dict = {}
    messages: list[str] = []
    runner = doctest.DocTestRunner(checker, optionflags=DOCTEST_OPTIONS)
    count = 0
    for k, (block, output) in enumerate(list_blocks(name)):
        place = f"{name}, block {k}"  # of its own: Python looks sources up by it
        if ">>>" not in block:
            count += 1
            check_program(block, output, place, names)
            continue
        examples = doctest.DocTestParser().get_doctest(block, names, place, None, 0)
        count += len(examples.examples)
        runner.run(examples, out=messages.append, clear_globs=False)
        names = examples.globs
    assert count >= at_least, f"{name} has {count} examples"
    assert runner.summarize(verbose=False).failed == 0, "".join(messages)


def check_examples(text: str, place: str, names: dict) -> int:
    """Run the session in ``text`` with these names, and return how many examples it has."""
    messages: list[str] = []
    runner = doctest.DocTestRunner(optionflags=DOCTEST_OPTIONS)
    examples = doctest.DocTestParser().get_doctest(text, names, place, None, 0)
    runner.run(examples, out=messages.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(messages)
    return len(examples.examples)


def check_program(program: str, output: str | None, place: str, names: dict) -> None:
    """Run a program, and hold what it prints against ``output``, where that is given."""
    if output is None:
        exec(compile(program, place, "exec"), names)
        return
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, place, "exec"), names)
    assert are_alike(output, printed.getvalue()), f"{place} prints\n{printed.getvalue()}"


def are_alike(one: str, other: str) -> bool:
    """Whether two texts are the same, but for the last digits of numbers with a point."""
    if DECIMAL_NUMBER.sub("0", one) != DECIMAL_NUMBER.sub("0", other):
        return False
    numbers = [[float(x) for x in DECIMAL_NUMBER.findall(text)] for text in (one, other)]
    return np.allclose(*numbers, rtol=RELATIVE_TOLERANCE, atol=ABSOLUTE_TOLERANCE)
