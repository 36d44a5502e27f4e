"""The examples on the page for users run, and print what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["models.md", "policies.md"])
def test_the_examples_of_the_page_are_true(name):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), flags=re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, name, None, 0)
    assert len(examples.examples) > 10
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(examples, out=said.append).failed == 0, "".join(said)
