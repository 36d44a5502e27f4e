"""Working an expression out on arrays, and how many numbers that holds at once.

Parts are worked out from the left. Those of a sum, of ``min`` or of a row of comparisons are put
together as they come, so that of many parts two are there at once; ``where`` and a table need all
of theirs. What is held is told in doubles for each combination of coordinates, before there is any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.errors import shown
from tessella.modelfiles.expressions.tree import (
    OPERATIONS,
    Apply,
    Compare,
    Constant,
    LookUp,
    Name,
    Node,
    Table,
    both,
    comparison,
    lacks_value,
)


def work_out(node: Node, values: Mapping[str, Any], tables: Mapping[str, Table]) -> Any:
    """The array that an expression is, given arrays for its names."""

    def worked(part: Node) -> Any:
        return work_out(part, values, tables)

    if isinstance(node, Constant):
        return np.str_(node.value) if isinstance(node.value, str) else np.float64(node.value)
    if isinstance(node, Name):
        return values[node.name]
    if isinstance(node, LookUp):
        return tables[node.table].look_up(*map(worked, node.of))
    if isinstance(node, Compare):
        return _compared(node, worked)
    assert isinstance(node, Apply)
    operation = OPERATIONS[node.word]
    if not operation.folds:
        return operation.apply(*map(worked, node.of))
    found = worked(node.of[0])
    for part in node.of[1:]:  # functools.reduce would hold on to the parts before
        found = operation.apply(found, worked(part))
    return found


def _compared(node: Compare, worked: Callable[[Node], Any]) -> Any:
    before, found = worked(node.of[0]), None
    for sign, part in zip(node.signs, node.of[1:], strict=True):
        value = worked(part)
        link = comparison(sign, before, value)
        found = link if found is None else both(found, link)
        before = value
    return found


def not_in_table(node: Node, values: Mapping[str, Any], tables: Mapping[str, Table]) -> str | None:
    """The first entry of a tree, as ``limit[7]``, that its table does not have; numbers given."""
    for part in node.parts:
        found = not_in_table(part, values, tables)
        if found:
            return found
    if not isinstance(node, LookUp) or not lacks_value(work_out(node, values, tables)).any():
        return None
    at = [work_out(part, values, tables) for part in node.of]
    return f"{node.table}[{', '.join(shown(np.asarray(x).item()) for x in at)}]"


@dataclass(frozen=True)
class Held:
    """Doubles for each combination: at most at once, by the result, and as wide as an entry is."""

    most: float
    kept: float  # nothing by a name, whose array is there anyway
    width: float


def held(node: Node, widths: Mapping[str, float]) -> Held:
    """What working out a tree holds, given the widths of the arrays that it names."""
    if isinstance(node, Constant):
        return Held(0.0, 0.0, width(node.value))
    if isinstance(node, Name):
        return Held(0.0, 0.0, widths.get(node.name, 1.0))
    parts = [held(part, widths) for part in node.parts]
    wide = max(part.width for part in parts[1:]) if _chooses(node) else 1.0
    spare = len(parts) + 7 if isinstance(node, LookUp) else wide  # places, and finding them
    most = now = 0.0
    for i, part in enumerate(parts):
        most = max(most, now + part.most)
        now += part.kept
        if i and isinstance(node, Compare):
            most, now = max(most, now + 3.0), 1.0 + part.kept
        elif i and isinstance(node, Apply) and OPERATIONS[node.word].folds:
            most, now = max(most, now + 1.0 + spare), 1.0
    return Held(max(most, now + wide + spare), wide, wide)


def held_by_all(terms: Iterable[tuple[str, Node]], last: Node, widths: Mapping[str, float]) -> Held:
    """What a tree holds whose terms are worked out before it, and stay."""
    known, most, now = dict(widths), 0.0, 0.0
    for name, tree in terms:
        found = held(tree, known)
        most, now = max(most, now + found.most), now + found.kept
        known[name] = found.width
    found = held(last, known)
    return Held(max(most, now + found.most), found.kept, found.width)


def width(value: Any) -> float:
    """Doubles that an entry like this one takes: a letter is half of one."""
    return max(len(value) / 2, 1.0) if isinstance(value, str) else 1.0


def _chooses(node: Node) -> bool:
    return isinstance(node, Apply) and node.word == "where"
