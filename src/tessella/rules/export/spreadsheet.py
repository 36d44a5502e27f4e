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
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Node, RuleTree, Split
from tessella.rules.export.c99 import format_number
from tessella.rules.export.comparisons import (
    Condition,
    SumRange,
    axis_ends,
    is_text_axis,
    nearest_cell,
    single_axis,
)
from tessella.rules.export.export_context import ExportContext, InputRows
from tessella.rules.export.names import require_no_nul, to_comment_text
from tessella.rules.export.target import ExportTarget, ToolMissing

FORMULA_MAX_CHARACTERS = 8192  # characters of a formula
FORMULA_MAX_LEVELS = 64  # nested function calls of a formula
TEXT_MAX_CHARACTERS = 255  # characters of a text in a formula
COMPARISON_RELATIVE_RESOLUTION = 1e-13  # by which numbers differ that all spreadsheets distinguish
ON_GRID_TOLERANCE_STEPS = 1e-6  # steps from a value of its axis, within which a number counts as it
EVEN_GRID_TOLERANCE_STEPS = 1e-9  # steps from an even grid of the values of an even axis
CONTROL_CHARACTERS = re.compile(r"[\x01-\x1f]")


class SpreadsheetFormula(ExportTarget):
    """A formula as text, with a line for each cell that it reads."""

    name: ClassVar[str] = "spreadsheet formula"
    suffix: ClassVar[str] = ".txt"

    def write(self, context: ExportContext) -> bytes:
        reject_close(context)
        lines = [to_comment_text(line) for line in context.header_lines]
        lines += [
            f"{format_cell(context.grid, axis)}: {to_comment_text(axis)}"
            for axis in context.grid.axes
        ]
        for name in context.action_columns:
            lines += ["", f"{to_comment_text(name)}:", format_formula(context, name)]
        return ("\n".join(lines) + "\n").encode()

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        _, *blocks = content.decode().split("\n\n")
        return evaluate_formulas(
            [block.split("\n", 1)[1].rstrip("\n") for block in blocks], context, rows
        )


def evaluate_formulas(
    texts: Sequence[str], context: ExportContext, rows: InputRows, row: int = 2
) -> NDArray[np.int64]:
    """(n,) what formulas of one row say about rows, by a library that knows nothing of this one."""
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # its own
            import formulas
            from formulas.tokens.operand import XlError
    except ImportError as error:
        raise ToolMissing(
            "the library 'formulas' is missing, which comes with the extra 'xlsx'"
        ) from error
    cells = {
        format_cell(context.grid, axis, row): np.array(rows[axis], dtype=object)[:, None]
        for axis in context.grid.axes
    }
    count = len(next(iter(cells.values())))
    answers = []
    for text in texts:
        compiled: Any = formulas.Parser().ast(text)[1].compile()
        result = compiled(*(cells[name] for name in compiled.inputs))
        flat = np.broadcast_to(np.asarray(result, dtype=object).reshape(-1), (count,))
        answers.append([None if isinstance(x, XlError) else _to_plain_value(x) for x in flat])
    return context.indices(list(zip(*answers, strict=True)))


def _to_plain_value(x: Any) -> float | str:
    return x if isinstance(x, str) else float(x)


def format_cell(grid: StateGrid, axis: str, row: int = 2) -> str:
    """The cell that holds a coordinate: ``A2`` for the first axis."""
    return f"{column(grid.axis(axis))}{row}"


def column(position: int) -> str:
    """A, B, ..., Z, AA, ..."""
    before, letter = divmod(position, 26)
    return (column(before - 1) if before else "") + chr(ord("A") + letter)


def format_formula(context: ExportContext, name: str, row: int = 2) -> str:
    """The formula for one component of the action, for coordinates in one row."""
    expression = FormulaExpression(
        context, context.action_columns[name], lambda axis: format_cell(context.grid, axis, row)
    )
    text = f"={expression.render()}"
    depth = expression.count_levels(context.root) + 2
    if len(text) > FORMULA_MAX_CHARACTERS or depth > FORMULA_MAX_LEVELS:
        limits = f"{FORMULA_MAX_CHARACTERS:,} characters and {FORMULA_MAX_LEVELS} levels"
        requirement = f"a spreadsheet formula has at most {limits}"
        value = f"this rule takes {len(text):,} and {depth}; .csv has room for any"
        raise FileError(requirement, value=value)
    return text


def reject_close(draft: ExportContext) -> None:
    """Reject a rule whose answers depend on digits that spreadsheets do not compare."""
    axes = [axis for axis in draft.grid.axes if not is_text_axis(draft.grid, axis)]
    values = [np.array(draft.axis_values(axis)) for axis in axes]
    gaps = [np.diff(x).min() / np.abs(x).max() for x in values if len(x) > 1]
    closest = min([RuleTree(draft.grid, draft.root, 1).cut_clearance, *gaps])
    if closest < COMPARISON_RELATIVE_RESOLUTION:
        requirement = "a spreadsheet compares numbers to 15 digits; .csv has room for more"
        raise FileError(
            requirement, value=f"two that this rule tells apart differ by {closest:.0e}"
        )


class FormulaExpression:
    """A rule as one expression."""

    def __init__(
        self, context: ExportContext, values: tuple, cell_of_axis: Callable[[str], str]
    ) -> None:
        self.draft = context
        self.grid = context.grid
        self.values = values
        self.cell = cell_of_axis

    def render(self) -> str:
        is_valid = "*".join(map(self._input_test, self.grid.axes))
        said = self._format_node(self.draft.root)
        numeric = [axis for axis in self.grid.axes if not is_text_axis(self.grid, axis)]
        if self.draft.off_grid == "refuse" and numeric:  # within: a text cannot be subtracted from
            said = f"IF({'*'.join(map(self._on_grid, numeric))},{said},NA())"
        return f"IF({is_valid},{said},NA())"

    def _input_test(self, axis: str) -> str:
        if is_text_axis(self.grid, axis):
            return self._label_test(axis, self.draft.axis_labels(axis))
        return f"ISNUMBER({self.cell(axis)})"

    def _on_grid(self, axis: str) -> str:
        """Whether a number is one of the axis: a multiple of its step, or near one of a list."""
        of = self.cell(axis)
        values = np.array(self.draft.axis_values(axis))
        gaps = np.diff(values) if len(values) > 1 else np.array([min(abs(values[0]), 1) or 1])
        step = digits(gaps.mean())
        offset = digits(values[0] - step * np.round(values[0] / step))
        ideal = values[0] + step * np.arange(len(values))
        if len(values) > 2 and np.abs(values - ideal).max() < EVEN_GRID_TOLERANCE_STEPS * step:
            shifted = (
                of
                if abs(offset) < EVEN_GRID_TOLERANCE_STEPS * step
                else f"({of}-{format_cell_value(offset)})"
            )
            steps = shifted if step == 1 else f"{shifted}/{format_cell_value(step)}"
            low, high = (
                format_cell_value(digits(end)) for end in values[[0, -1]] + [-step / 2, step / 2]
            )
            whole = f"(ABS({steps}-ROUND({steps},0))<{format_cell_value(ON_GRID_TOLERANCE_STEPS)})"
            return f"{whole}*({of}>{low})*({of}<{high})"
        near = np.maximum(
            ON_GRID_TOLERANCE_STEPS * gaps.min(), COMPARISON_RELATIVE_RESOLUTION * np.abs(values)
        )
        pairs = zip(
            map(format_cell_value, values),
            (format_cell_value(digits(x, 1)) for x in near),
            strict=True,
        )
        return f"({'+'.join(f'(ABS({of}-{x})<{distance})' for x, distance in pairs)})"

    def _label_test(self, axis: str, labels: Sequence[str]) -> str:
        tests = [f"EXACT({self.cell(axis)},{format_cell_value(label)})" for label in labels]
        return tests[0] if len(tests) == 1 else f"({'+'.join(tests)})"

    def _format_node(self, node: Node) -> str:
        if isinstance(node, Leaf):
            return format_cell_value(self.values[node.action])
        if isinstance(node, LabelSplit):
            test = self._label_test(node.axis, node.labels)
            return f"IF({test},{self._format_node(node.inside)},{self._format_node(node.outside)})"
        if isinstance(node, Exceptions):
            return self._format_exceptions(node)
        assert isinstance(node, Split)
        return self._format_halves(self._format_sum(node), node.cuts, node.branches)

    def _format_halves(self, operand: str, cuts: Sequence[float], branches: Sequence[Node]) -> str:
        if not cuts:
            return self._format_node(branches[0])
        middle = len(cuts) // 2
        low = self._format_halves(operand, cuts[:middle], branches[: middle + 1])
        high = self._format_halves(operand, cuts[middle + 1 :], branches[middle + 1 :])
        return (
            low if low == high else f"IF({operand}<={format_cell_value(cuts[middle])},{low},{high})"
        )

    def _format_exceptions(self, node: Exceptions) -> str:
        """Those of each action together: their tests exclude one another and are added up."""
        groups: dict[str, list[str]] = {}
        for state, action in zip(node.places, node.actions, strict=True):
            tests_met = filter(None, map(self._format_condition, nearest_cell(self.grid, state)))
            groups.setdefault(format_cell_value(self.values[action]), []).append(
                "*".join(tests_met) or "TRUE"
            )
        text = self._format_node(node.otherwise)
        for result, tests in groups.items():
            text = f"IF({'+'.join(tests)},{result},{text})"
        return text

    def _format_condition(self, condition: Condition) -> str:
        if not isinstance(condition, SumRange):
            return self._label_test(condition.axis, condition.labels)
        operand = self.cell(condition.weights[0][0])
        ends = (
            [] if math.isinf(condition.low) else [f"({operand}>{format_cell_value(condition.low)})"]
        )
        ends += (
            []
            if math.isinf(condition.high)
            else [f"({operand}<={format_cell_value(condition.high)})"]
        )
        return "*".join(ends)

    def _format_sum(self, node: Split) -> str:
        """A cell alone needs no clamping, since its cuts lie within the axis; a sum does."""
        single = single_axis(node.weights)
        if single is not None:
            return self.cell(single)
        parts = []
        for axis, weight in node.weights:
            operand, (low, high) = (
                self.cell(axis),
                map(format_cell_value, axis_ends(self.grid, axis)),
            )
            if self.draft.off_grid == "clamp":
                operand = f"IF({operand}<{low},{low},IF({operand}>{high},{high},{operand}))"
            parts.append(operand if weight == 1.0 else f"{format_cell_value(weight)}*{operand}")
        return "+".join(parts)

    def count_levels(self, node: Node) -> int:
        """How many levels of IF stand within one another."""
        if isinstance(node, Leaf):
            return 0
        if isinstance(node, LabelSplit):
            return 1 + max(self.count_levels(node.inside), self.count_levels(node.outside))
        if isinstance(node, Exceptions):
            return len(set(node.actions)) + self.count_levels(node.otherwise)
        assert isinstance(node, Split)
        sums = 2 if single_axis(node.weights) is None else 0
        levels = math.ceil(math.log2(len(node.branches)))
        return max(sums, levels + max(map(self.count_levels, node.branches)))


def digits(x: float, count: int = 15) -> float:
    """The number with so many digits that is nearest."""
    return float(f"{x:.{count}g}")


def format_cell_value(x: Any) -> str:
    """A number or a text as a formula reads it; numbers below 0 in brackets, for a product."""
    if isinstance(x, str):
        if len(x) > TEXT_MAX_CHARACTERS:
            requirement = f"a text in a formula has at most {TEXT_MAX_CHARACTERS} characters"
            raise FileError(requirement, value=f"got {len(x):,}")
        quoted = '"' + require_no_nul(x, "a formula").replace('"', '""') + '"'
        return CONTROL_CHARACTERS.sub(lambda found: f'"&CHAR({ord(found.group())})&"', quoted)
    is_integer = float(x).is_integer() and abs(x) < 1e15
    text = str(int(x)) if is_integer else format_number(x).upper()
    return f"({text})" if x < 0 else text
