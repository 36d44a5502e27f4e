"""A spreadsheet formula: nested IF over the cells that hold the coordinates of a state.

    =IF(ISNUMBER(A2)*(EXACT(B2,"dry")+EXACT(B2,"wet")),IF(A2<=3.5,8,0),NA())

One formula for each component of the action, #N/A for what is refused. It holds in Excel and
LibreOffice (separators as in English). Tests are multiplied and added rather than put into AND and
OR, so that the formula also works on whole columns. A formula has at most 8,192 characters and 64
levels; splits are halved, so that levels grow with their logarithm.

Spreadsheets compare numbers to 15 digits, each in its own way. So no result depends on more: cuts
are clear of all states, and a number is on the grid within a millionth of a step.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.grid import StateGrid
from tessella.mdp.program import Among, Choose, Except, Node, Program, Split
from tessella.rules.export.c99 import number
from tessella.rules.export.draft import Draft, Rows
from tessella.rules.export.lowered import Condition, Range, alone, cell, is_text, span
from tessella.rules.export.names import plain, refuse_nul
from tessella.rules.export.target import Absent, Target

LONGEST, DEEPEST, LONGEST_TEXT = 8192, 64, 255
CLOSEST = 1e-13  # of their size, by which two numbers differ that all spreadsheets tell apart
NEAR_STEPS = 1e-6  # how far from a value of its axis a number still counts as that value
EVEN_STEPS = 1e-9  # how far from an even grid the values of an evenly spaced axis are
CONTROL = re.compile(r"[\x01-\x1f]")


class Formula(Target):
    """A formula as text, with a line for each cell that it reads."""

    name: ClassVar[str] = "spreadsheet formula"
    suffix: ClassVar[str] = ".txt"

    def write(self, draft: Draft) -> bytes:
        reject_close(draft)
        lines = [plain(line) for line in draft.about]
        lines += [f"{cell_of(draft.grid, axis)}: {plain(axis)}" for axis in draft.grid.axes]
        for name in draft.columns:
            lines += ["", f"{plain(name)}:", formula(draft, name)]
        return ("\n".join(lines) + "\n").encode()

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        _, *blocks = content.decode().split("\n\n")
        return calculated([block.split("\n", 1)[1].rstrip("\n") for block in blocks], draft, rows)


def calculated(texts: Sequence[str], draft: Draft, rows: Rows, row: int = 2) -> NDArray[np.int64]:
    """(n,) what formulas of one row say about rows, by a library that knows nothing of this one."""
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # its own
            import formulas
            from formulas.tokens.operand import XlError
    except ImportError as error:
        raise Absent(
            "the library 'formulas' is missing, which comes with the extra 'xlsx'"
        ) from error
    cells = {
        cell_of(draft.grid, axis, row): np.array(rows[axis], dtype=object)[:, None]
        for axis in draft.grid.axes
    }
    count = len(next(iter(cells.values())))
    answers = []
    for text in texts:
        compiled: Any = formulas.Parser().ast(text)[1].compile()
        found = compiled(*(cells[name] for name in compiled.inputs))
        flat = np.broadcast_to(np.asarray(found, dtype=object).reshape(-1), (count,))
        answers.append([None if isinstance(x, XlError) else _plain_value(x) for x in flat])
    return draft.indices(list(zip(*answers, strict=True)))


def _plain_value(x: Any) -> float | str:
    return x if isinstance(x, str) else float(x)


def cell_of(grid: StateGrid, axis: str, row: int = 2) -> str:
    """The cell that holds a coordinate: ``A2`` for the first axis."""
    return f"{column(grid.axis(axis))}{row}"


def column(place: int) -> str:
    """A, B, ..., Z, AA, ..."""
    before, letter = divmod(place, 26)
    return (column(before - 1) if before else "") + chr(ord("A") + letter)


def formula(draft: Draft, name: str, row: int = 2) -> str:
    """The formula for one component of the action, for coordinates in one row."""
    written = Written(draft, draft.columns[name], lambda axis: cell_of(draft.grid, axis, row))
    text, depth = f"={written.text()}", written.depth(draft.root) + 2
    if len(text) > LONGEST or depth > DEEPEST:
        rule = f"a spreadsheet formula has at most {LONGEST:,} characters and {DEEPEST} levels"
        value = f"this rule takes {len(text):,} and {depth}; .csv has room for any"
        raise FileError(rule, value=value)
    return text


def reject_close(draft: Draft) -> None:
    """Reject a rule whose answers depend on digits that spreadsheets do not compare."""
    axes = [axis for axis in draft.grid.axes if not is_text(draft.grid, axis)]
    values = [np.array(draft.values(axis)) for axis in axes]
    gaps = [np.diff(x).min() / np.abs(x).max() for x in values if len(x) > 1]
    closest = min([Program(draft.grid, draft.root, 1).slack, *gaps])
    if closest < CLOSEST:
        rule = "a spreadsheet compares numbers to 15 digits; .csv has room for more"
        raise FileError(rule, value=f"two that this rule tells apart differ by {closest:.0e}")


class Written:
    """A rule as one expression."""

    def __init__(self, draft: Draft, values: tuple, cell_of_axis: Callable[[str], str]) -> None:
        self.draft, self.grid, self.values, self.cell = draft, draft.grid, values, cell_of_axis

    def text(self) -> str:
        known = "*".join(map(self._known, self.grid.axes))
        said = self._said(self.draft.root)
        numeric = [axis for axis in self.grid.axes if not is_text(self.grid, axis)]
        if self.draft.off_grid == "refuse" and numeric:  # within: a text cannot be subtracted from
            said = f"IF({'*'.join(map(self._on_grid, numeric))},{said},NA())"
        return f"IF({known},{said},NA())"

    def _known(self, axis: str) -> str:
        if is_text(self.grid, axis):
            return self._is(axis, self.draft.labels(axis))
        return f"ISNUMBER({self.cell(axis)})"

    def _on_grid(self, axis: str) -> str:
        """Whether a number is one of the axis: a multiple of its step, or near one of a list."""
        of, values = self.cell(axis), np.array(self.draft.values(axis))
        gaps = np.diff(values) if len(values) > 1 else np.array([min(abs(values[0]), 1) or 1])
        step = digits(gaps.mean())
        offset = digits(values[0] - step * np.round(values[0] / step))
        ideal = values[0] + step * np.arange(len(values))
        if len(values) > 2 and np.abs(values - ideal).max() < EVEN_STEPS * step:
            shifted = of if abs(offset) < EVEN_STEPS * step else f"({of}-{value(offset)})"
            steps = shifted if step == 1 else f"{shifted}/{value(step)}"
            low, high = (value(digits(end)) for end in values[[0, -1]] + [-step / 2, step / 2])
            whole = f"(ABS({steps}-ROUND({steps},0))<{value(NEAR_STEPS)})"
            return f"{whole}*({of}>{low})*({of}<{high})"
        near = np.maximum(NEAR_STEPS * gaps.min(), CLOSEST * np.abs(values))
        pairs = zip(map(value, values), (value(digits(x, 1)) for x in near), strict=True)
        return f"({'+'.join(f'(ABS({of}-{x})<{distance})' for x, distance in pairs)})"

    def _is(self, axis: str, labels: Sequence[str]) -> str:
        tests = [f"EXACT({self.cell(axis)},{value(label)})" for label in labels]
        return tests[0] if len(tests) == 1 else f"({'+'.join(tests)})"

    def _said(self, node: Node) -> str:
        if isinstance(node, Choose):
            return value(self.values[node.action])
        if isinstance(node, Among):
            test = self._is(node.axis, node.labels)
            return f"IF({test},{self._said(node.inside)},{self._said(node.outside)})"
        if isinstance(node, Except):
            return self._except(node)
        assert isinstance(node, Split)
        return self._halved(self._sum(node), node.cuts, node.branches)

    def _halved(self, of: str, cuts: Sequence[float], branches: Sequence[Node]) -> str:
        if not cuts:
            return self._said(branches[0])
        at = len(cuts) // 2
        low = self._halved(of, cuts[:at], branches[: at + 1])
        high = self._halved(of, cuts[at + 1 :], branches[at + 1 :])
        return low if low == high else f"IF({of}<={value(cuts[at])},{low},{high})"

    def _except(self, node: Except) -> str:
        """Those of each action together: their tests exclude one another and are added up."""
        groups: dict[str, list[str]] = {}
        for place, action in zip(node.places, node.actions, strict=True):
            met = filter(None, map(self._condition, cell(self.grid, place)))
            groups.setdefault(value(self.values[action]), []).append("*".join(met) or "TRUE")
        text = self._said(node.otherwise)
        for said, tests in groups.items():
            text = f"IF({'+'.join(tests)},{said},{text})"
        return text

    def _condition(self, condition: Condition) -> str:
        if not isinstance(condition, Range):
            return self._is(condition.axis, condition.labels)
        of = self.cell(condition.weights[0][0])
        ends = [] if math.isinf(condition.low) else [f"({of}>{value(condition.low)})"]
        ends += [] if math.isinf(condition.high) else [f"({of}<={value(condition.high)})"]
        return "*".join(ends)

    def _sum(self, node: Split) -> str:
        """A cell alone needs no clamping, since its cuts lie within the axis; a sum does."""
        single = alone(node.weights)
        if single is not None:
            return self.cell(single)
        parts = []
        for axis, weight in node.weights:
            of, (low, high) = self.cell(axis), map(value, span(self.grid, axis))
            if self.draft.off_grid == "clamp":
                of = f"IF({of}<{low},{low},IF({of}>{high},{high},{of}))"
            parts.append(of if weight == 1.0 else f"{value(weight)}*{of}")
        return "+".join(parts)

    def depth(self, node: Node) -> int:
        """How many levels of IF stand within one another."""
        if isinstance(node, Choose):
            return 0
        if isinstance(node, Among):
            return 1 + max(self.depth(node.inside), self.depth(node.outside))
        if isinstance(node, Except):
            return len(set(node.actions)) + self.depth(node.otherwise)
        assert isinstance(node, Split)
        sums = 2 if alone(node.weights) is None else 0
        levels = math.ceil(math.log2(len(node.branches)))
        return max(sums, levels + max(map(self.depth, node.branches)))


def digits(x: float, count: int = 15) -> float:
    """The number with so many digits that is nearest."""
    return float(f"{x:.{count}g}")


def value(x: Any) -> str:
    """A number or a text as a formula reads it; numbers below 0 in brackets, for a product."""
    if isinstance(x, str):
        if len(x) > LONGEST_TEXT:
            rule = f"a text in a formula has at most {LONGEST_TEXT} characters"
            raise FileError(rule, value=f"got {len(x):,}")
        quoted = '"' + refuse_nul(x, "a formula").replace('"', '""') + '"'
        return CONTROL.sub(lambda found: f'"&CHAR({ord(found.group())})&"', quoted)
    whole = float(x).is_integer() and abs(x) < 1e15
    text = str(int(x)) if whole else number(x).upper()
    return f"({text})" if x < 0 else text
