"""A rule as a spreadsheet formula, in a text file or in a workbook that checks it.

    =IF(ISNUMBER(A2)*(EXACT(B2,"dry")+EXACT(B2,"wet")),IF(A2<=3.5,8,0),NA())

One formula for each component of the action, #N/A for what is rejected. It holds in Excel and
LibreOffice (separators as in English). Tests are multiplied and added rather than put into AND and
OR, so that the formula also works on whole columns. A formula has at most 8,192 characters and 64
levels; splits are halved, so that levels grow with their logarithm.

Spreadsheets compare numbers to 15 digits, each in its own way. So no result depends on more: cuts
are clear of all states, and a number is on the grid within a millionth of a step.

The workbook needs the extra ``xlsx``. Its sheets are

    rule     the rule in words, cells for the coordinates, what to do, how many states of the
             sheet 'check' differ, and the head of a file
    check    states with the formula's action, the policy's action, and whether they agree
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, require_extra
from tessella.grid import StateGrid
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Node, RuleTree, Split, is_text_axis
from tessella.rules.comparisons import (
    Condition,
    SumRange,
    get_axis_ends,
    get_single_axis,
    list_finite_ends,
    list_nearest_conditions,
)
from tessella.rules.export.export_context import (
    ExportContext,
    ExportFormat,
    InputRows,
    ToolMissing,
    format_number,
    require_no_nul,
    to_comment_text,
)

CHECK_SHEET_MAX_STATES = 1_000  # states on the sheet that checks
INPUT_ROW = 4  # of the sheet 'rule': the coordinates of a state, below their names
COLUMN_MAX_WIDTH = 40  # characters of a column
# Characters that XML, or the escapes of workbooks (_x0041_ for A), change in a text.
ALTERED_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f]|_x[0-9a-fA-F]{4}_")
FORMULA_MAX_CHARACTERS = 8192  # characters of a formula
FORMULA_MAX_LEVELS = 64  # nested function calls of a formula
TEXT_MAX_CHARACTERS = 255  # characters of a text in a formula
COMPARISON_RELATIVE_RESOLUTION = 1e-13  # by which numbers differ that all spreadsheets distinguish
ON_GRID_TOLERANCE_STEPS = 1e-6  # steps from a value of its axis, within which a number counts as it
EVEN_GRID_TOLERANCE_STEPS = 1e-9  # steps from an even grid of the values of an even axis
CONTROL_CHARACTERS = re.compile(r"[\x01-\x1f]")


class SpreadsheetFormula(ExportFormat):
    """A formula as text, with a line for each cell that it reads."""

    name: ClassVar[str] = "spreadsheet formula"
    suffix: ClassVar[str] = ".txt"

    def write(self, context: ExportContext) -> bytes:
        reject_close_numbers(context)
        lines = [to_comment_text(line) for line in context.header_lines]
        for axis in context.grid.axes:
            lines.append(f"{format_cell(context.grid, axis)}: {to_comment_text(axis)}")
        for name in context.action_columns:
            lines += ["", f"{to_comment_text(name)}:", format_formula(context, name)]
        return ("\n".join(lines) + "\n").encode()

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        _, *blocks = content.decode().split("\n\n")
        formulas = [block.split("\n", 1)[1].rstrip("\n") for block in blocks]
        return evaluate_formulas(formulas, context, rows)


def evaluate_formulas(
    texts: Sequence[str], context: ExportContext, rows: InputRows, row: int = 2
) -> NDArray[np.int64]:
    """(n,) action indices that formulas of one row give, computed by another library."""
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
        plain = (x if isinstance(x, str | XlError) else float(x) for x in flat)
        answers.append([None if isinstance(x, XlError) else x for x in plain])
    return context.find_actions(list(zip(*answers, strict=True)))


def format_cell(grid: StateGrid, axis: str, row: int = 2) -> str:
    """The cell that holds a coordinate: ``A2`` for the first axis."""
    return f"{format_column(grid.axis(axis))}{row}"


def format_column(position: int) -> str:
    """A, B, ..., Z, AA, ..."""
    before, letter = divmod(position, 26)
    return (format_column(before - 1) if before else "") + chr(ord("A") + letter)


def format_formula(context: ExportContext, name: str, row: int = 2) -> str:
    """The formula for one component of the action, for coordinates in one row."""
    expression = FormulaExpression(context, context.action_columns[name], row)
    text = f"={expression.render()}"
    depth = expression.count_levels(context.root) + 2
    if len(text) > FORMULA_MAX_CHARACTERS or depth > FORMULA_MAX_LEVELS:
        limits = f"{FORMULA_MAX_CHARACTERS:,} characters and {FORMULA_MAX_LEVELS} levels"
        requirement = f"a spreadsheet formula has at most {limits}"
        value = f"this rule takes {len(text):,} and {depth}; .csv has no such limit"
        raise FileError(requirement, value=value)
    return text


def reject_close_numbers(context: ExportContext) -> None:
    """Reject a rule whose answers depend on digits that spreadsheets do not compare."""
    axes = [axis for axis in context.grid.axes if not is_text_axis(context.grid, axis)]
    values = [np.array(context.axis_values(axis)) for axis in axes]
    gaps = [np.diff(x).min() / np.abs(x).max() for x in values if len(x) > 1]
    closest = min([RuleTree(context.grid, context.root, 1).cut_clearance, *gaps])
    if closest < COMPARISON_RELATIVE_RESOLUTION:
        requirement = "a spreadsheet compares numbers to 15 digits; .csv holds all digits"
        raise FileError(
            requirement, value=f"two that this rule distinguishes differ by {closest:.0e}"
        )


class FormulaExpression:
    """A rule as one expression."""

    def __init__(self, context: ExportContext, values: tuple, row: int) -> None:
        self.context = context
        self.grid = context.grid
        self.values = values
        self.row = row

    def get_cell(self, axis: str) -> str:
        return format_cell(self.grid, axis, self.row)

    def render(self) -> str:
        is_valid = "*".join(map(self._format_input_test, self.grid.axes))
        expression = self._format_node(self.context.root)
        numeric = [axis for axis in self.grid.axes if not is_text_axis(self.grid, axis)]
        if self.context.off_grid == "refuse" and numeric:
            # Inside the other test, since nothing can be subtracted from a text.
            is_on_grid = "*".join(map(self._format_grid_test, numeric))
            expression = f"IF({is_on_grid},{expression},NA())"
        return f"IF({is_valid},{expression},NA())"

    def _format_input_test(self, axis: str) -> str:
        if is_text_axis(self.grid, axis):
            return self._format_label_test(axis, self.context.axis_labels(axis))
        return f"ISNUMBER({self.get_cell(axis)})"

    def _format_grid_test(self, axis: str) -> str:
        """Whether a number is one of the axis: a multiple of its step, or near one of a list."""
        cell = self.get_cell(axis)
        values = np.array(self.context.axis_values(axis))
        gaps = np.diff(values) if len(values) > 1 else np.array([min(abs(values[0]), 1) or 1])
        step = round_to_digits(gaps.mean())
        ideal = values[0] + step * np.arange(len(values))
        if len(values) > 2 and np.abs(values - ideal).max() < EVEN_GRID_TOLERANCE_STEPS * step:
            return _format_even_grid_test(cell, values, step)
        tolerances = np.maximum(
            ON_GRID_TOLERANCE_STEPS * gaps.min(), COMPARISON_RELATIVE_RESOLUTION * np.abs(values)
        )
        distances = (round_to_digits(distance, 1) for distance in tolerances)
        tests = (
            f"(ABS({cell}-{format_cell_value(x)})<{format_cell_value(distance)})"
            for x, distance in zip(values, distances, strict=True)
        )
        return f"({'+'.join(tests)})"

    def _format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        tests = [f"EXACT({self.get_cell(axis)},{format_cell_value(label)})" for label in labels]
        return tests[0] if len(tests) == 1 else f"({'+'.join(tests)})"

    def _format_node(self, node: Node) -> str:
        if isinstance(node, Leaf):
            return format_cell_value(self.values[node.action])
        if isinstance(node, LabelSplit):
            test = self._format_label_test(node.axis, node.labels)
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
        cut = format_cell_value(cuts[middle])
        return low if low == high else f"IF({operand}<={cut},{low},{high})"

    def _format_exceptions(self, node: Exceptions) -> str:
        """Those of each action together: their tests exclude one another and are added up."""
        groups: dict[str, list[str]] = {}
        for state, action in zip(node.places, node.actions, strict=True):
            nearest = list_nearest_conditions(self.grid, state)
            test = "*".join(filter(None, map(self._format_condition, nearest))) or "TRUE"
            groups.setdefault(format_cell_value(self.values[action]), []).append(test)
        text = self._format_node(node.otherwise)
        for result, tests in groups.items():
            text = f"IF({'+'.join(tests)},{result},{text})"
        return text

    def _format_condition(self, condition: Condition) -> str:
        if not isinstance(condition, SumRange):
            return self._format_label_test(condition.axis, condition.labels)
        operand = self.get_cell(condition.weights[0][0])
        ends = list_finite_ends(condition)
        return "*".join(
            f"({operand}{comparison}{format_cell_value(end)})" for comparison, end in ends
        )

    def _format_sum(self, node: Split) -> str:
        """A cell alone needs no clamping, since its cuts lie within the axis; a sum does."""
        single = get_single_axis(node.weights)
        if single is not None:
            return self.get_cell(single)
        parts = []
        for axis, weight in node.weights:
            operand = self.get_cell(axis)
            low, high = map(format_cell_value, get_axis_ends(self.grid, axis))
            if self.context.off_grid == "clamp":
                operand = f"IF({operand}<{low},{low},IF({operand}>{high},{high},{operand}))"
            parts.append(operand if weight == 1.0 else f"{format_cell_value(weight)}*{operand}")
        return "+".join(parts)

    def count_levels(self, node: Node) -> int:
        """How deeply IFs are nested."""
        if isinstance(node, Leaf):
            return 0
        if isinstance(node, LabelSplit):
            return 1 + max(self.count_levels(node.inside), self.count_levels(node.outside))
        if isinstance(node, Exceptions):
            return len(set(node.actions)) + self.count_levels(node.otherwise)
        assert isinstance(node, Split)
        sums = 2 if get_single_axis(node.weights) is None else 0
        levels = math.ceil(math.log2(len(node.branches)))
        return max(sums, levels + max(map(self.count_levels, node.branches)))


def _format_even_grid_test(cell: str, values: NDArray, step: float) -> str:
    """Whether a cell holds a number of an evenly spaced axis."""
    offset = round_to_digits(values[0] - step * np.round(values[0] / step))
    steps = cell
    if abs(offset) >= EVEN_GRID_TOLERANCE_STEPS * step:
        steps = f"({cell}-{format_cell_value(offset)})"
    if step != 1:
        steps = f"{steps}/{format_cell_value(step)}"
    low = format_cell_value(round_to_digits(values[0] - step / 2))
    high = format_cell_value(round_to_digits(values[-1] + step / 2))
    is_whole = f"(ABS({steps}-ROUND({steps},0))<{format_cell_value(ON_GRID_TOLERANCE_STEPS)})"
    return f"{is_whole}*({cell}>{low})*({cell}<{high})"


def round_to_digits(x: float, count: int = 15) -> float:
    """The number with that many digits that is nearest."""
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


class Workbook(ExportFormat):
    """A spreadsheet for Excel or LibreOffice."""

    name: ClassVar[str] = "workbook"
    suffix: ClassVar[str] = ".xlsx"

    def require_packages(self) -> None:
        with require_extra("exporting a workbook", "xlsx"):
            import openpyxl  # noqa: F401

    def write(self, context: ExportContext) -> bytes:
        self.require_packages()
        import openpyxl

        reject_close_numbers(context)
        book = openpyxl.Workbook()
        _fill_rule(book.active, context)
        _fill_check(book.create_sheet("check"), context)
        content = io.BytesIO()
        book.save(content)
        return content.getvalue()

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        import openpyxl

        sheet = openpyxl.load_workbook(io.BytesIO(content))["rule"]
        first = context.grid.ndim + 1
        texts = [sheet.cell(INPUT_ROW, first + i).value for i in range(len(context.action_columns))]
        return evaluate_formulas([str(text) for text in texts], context, rows, INPUT_ROW)


def _fill_rule(sheet: Any, context: ExportContext) -> None:
    """The rule in words; an example state, which a user overwrites, with formulas; the facts."""
    from openpyxl.styles import PatternFill

    sheet.title = "rule"
    example = context.grid.coordinates([0])
    explain = getattr(context.policy, "explain", None)  # in sentences, one to a line
    words, *more = explain().splitlines() if explain else [context.policy.name or "policy"]
    _fill_row(sheet, 1, [words])
    _fill_head(sheet, INPUT_ROW - 1, [*context.grid.axes, *context.action_columns])
    _fill_row(sheet, INPUT_ROW, [values.tolist()[0] for values in example.values()])
    for cell in sheet[INPUT_ROW][: context.grid.ndim]:
        cell.fill = PatternFill("solid", "FFF2CC")  # to be filled in
    for i, name in enumerate(context.action_columns):
        formula = format_formula(context, name, INPUT_ROW)
        sheet.cell(INPUT_ROW, context.grid.ndim + 1 + i).value = formula
    count_cell = f"check!{format_column(context.grid.ndim + 2 * len(context.action_columns) + 1)}1"
    sheet.cell(INPUT_ROW + 2, 1).value = f"={count_cell}&\" states on the sheet 'check' differ\""
    for i, line in enumerate([*more, *map(to_comment_text, context.header_lines)]):
        _set_cell(sheet.cell(INPUT_ROW + 4 + i, 1), line)


def _fill_check(sheet: Any, context: ExportContext) -> None:
    """A line for each state; above them, how many disagree."""
    grid = context.grid
    parts = [*context.action_columns]
    count = min(grid.size, CHECK_SHEET_MAX_STATES)
    states = np.unique(np.linspace(0, grid.size - 1, count).astype(int))
    expected = context.policy.table.ravel()[states]
    coordinates = [values.tolist() for values in grid.coordinates(states).values()]
    actions = list(context.action_columns.values())
    formula_column, expected_column, agree_column = (grid.ndim + i * len(parts) for i in range(3))
    agree_letter = format_column(agree_column)
    by_formula = (f"{part} by formula" for part in parts)
    by_policy = (f"{part} meant" for part in parts)
    _fill_head(sheet, 1, [*grid.axes, *by_formula, *by_policy, "same"])
    sheet.freeze_panes = "A2"
    # An error agrees with nothing.
    n_agreeing = f"COUNTIF({agree_letter}2:{agree_letter}{len(states) + 1},TRUE)"
    sheet.cell(1, agree_column + 2).value = f"={len(states)}-{n_agreeing}"
    _set_cell(sheet.cell(1, agree_column + 3), "states differ")
    for i, action in enumerate(expected):
        row = i + 2
        _fill_row(sheet, row, [values[i] for values in coordinates])
        for k, name in enumerate(parts):
            sheet.cell(row, formula_column + k + 1).value = format_formula(context, name, row)
        _fill_row(sheet, row, [values[action] for values in actions], expected_column + 1)
        expected_cells = sheet[row][expected_column:agree_column]
        tests = [_format_equality(cell, len(parts)) for cell in expected_cells]
        sheet.cell(row, agree_column + 1).value = f"=AND({','.join(tests)})"


def _format_equality(expected: Any, before: int) -> str:
    """Whether a cell that many columns before holds the same text, or number to 12 digits."""
    actual = expected.offset(0, -before).coordinate
    reference = expected.coordinate
    if isinstance(expected.value, str):
        return f"EXACT({actual},{reference})"
    return f"ABS({actual}-{reference})<=1E-12*ABS({reference})"


def _fill_head(sheet: Any, row: int, names: list[str]) -> None:
    """Names of columns, in bold, with columns wide enough for them."""
    from openpyxl.styles import Font

    _fill_row(sheet, row, names)
    for place, name in enumerate(names, 1):
        sheet.cell(row, place).font = Font(bold=True)
        width = min(max(len(name), 8) + 3, COLUMN_MAX_WIDTH)
        sheet.column_dimensions[format_column(place - 1)].width = width


def _fill_row(sheet: Any, row: int, values: list, first: int = 1) -> None:
    for position, value in enumerate(values, first):
        _set_cell(sheet.cell(row, position), value)


def _set_cell(cell: Any, value: Any) -> None:
    """A value as it is: a text is never read as a formula, and never changed."""
    if isinstance(value, str) and ALTERED_CHARACTERS.search(value):
        requirement = (
            "a workbook cannot hold control characters, nor codes of characters such as _x0041_"
        )
        raise FileError(requirement, value=f"got {value!r}")
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"
        cell.quotePrefix = True
