"""docs/paper.md: every part of the paper has a name and a test, and what is ours is stated."""

from __future__ import annotations

import ast
import dataclasses
import re
from importlib import import_module
from pathlib import Path

from tessella.paper.limits import LEARNER_DIFFERENCES, MODEL_DIFFERENCES
from tessella.problems.shared import NONLINEARITIES

ROOT = Path(__file__).parent.parent
MAP, OURS = (ROOT / "docs" / "paper.md").read_text().split("## What the paper leaves open")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in MAP.splitlines()
    if line.startswith("| ") and "---" not in line and "in the paper" not in line
]
PARTS = [
    *(f"({k})" for k in range(1, 50)),
    *("Proposition 1", "Proposition 2", "Corollary 3"),
    *("Table 1", "Table 2", "Table A1", "Table A2"),
    *(f"Figure {k}" for k in (1, 2, 3, 4, 5, "A1")),
]


def found(name: str) -> bool:
    """Whether ``tessella.`` + name is there: a module's attribute, a member, or a field."""
    words = name.split(".")
    for k in range(len(words), -1, -1):
        try:
            here = import_module(".".join(["tessella", *words[:k]]))
        except ModuleNotFoundError:
            continue
        return _reached(here, words[k:])
    return False


def _reached(here: object, words: list[str]) -> bool:
    for word in words:
        fields = (
            {f.name for f in dataclasses.fields(here)} if dataclasses.is_dataclass(here) else ()
        )
        if word in fields:
            return word == words[-1]
        if not hasattr(here, word):
            return False
        here = getattr(here, word)
    return True


def test_every_numbered_part_of_the_paper_has_one_row():
    numbered = [row[0] for row in ROWS if row[0] != "text"]
    assert sorted(numbered) == sorted(PARTS)


def test_every_name_on_the_page_is_there():
    names = [re.fullmatch(r"`([\w.]+)`", row[2]).group(1) for row in ROWS]
    assert [name for name in names if not found(name)] == []


def test_every_test_on_the_page_is_there():
    missing = []
    for row in ROWS:
        file, name = re.fullmatch(r"`([\w/]+\.py)::(test_\w+)`", row[3]).groups()
        path = ROOT / "tests" / file
        tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            missing.append(row[3])
    assert missing == []


def test_a_name_that_is_not_there_is_seen():
    assert found("Geometry.boundary_length")
    assert found("learn.network.train_layers")
    assert not found("Geometry.boundary_lengths")
    assert not found("learn.network.trains_networks")
    assert not found("Geometry.boundary_length.more")


def test_the_page_about_what_is_ours_says_what_the_report_says():
    said = " ".join(OURS.split())
    assert [
        sentence for sentence in (*MODEL_DIFFERENCES, *LEARNER_DIFFERENCES) if sentence not in said
    ] == []
    assert [name for name in NONLINEARITIES if f"| {name} |" not in said] == []
