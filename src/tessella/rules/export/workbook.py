"""A workbook: a sheet with the rule as a formula, and one that holds it against the policy.

    rule     the rule in words, cells for the coordinates, what to do, how many states of the
             sheet 'check' differ, and what the head of a file says
    check    states with what the formula says, what the policy says, and whether they agree

Needs the extra ``xlsx``.
"""

from __future__ import annotations

import io
import re
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, require_extra
from tessella.rules.export.export_context import ExportContext, InputRows
from tessella.rules.export.names import to_comment_text
from tessella.rules.export.spreadsheet import (
    column,
    evaluate_formulas,
    format_formula,
    reject_close,
)
from tessella.rules.export.target import ExportTarget

CHECK_SHEET_MAX_STATES = 1_000  # states on the sheet that checks
INPUT_ROW = 4  # of the sheet 'rule': the coordinates of a state, below their names
COLUMN_MAX_WIDTH = 40  # characters of a column
# What XML, or the way in which workbooks write characters (_x0041_ for A), changes in a text.
CHANGED = re.compile(r"[\x00-\x08\x0b-\x1f]|_x[0-9a-fA-F]{4}_")


class Workbook(ExportTarget):
    """A spreadsheet for Excel or LibreOffice."""

    name: ClassVar[str] = "workbook"
    suffix: ClassVar[str] = ".xlsx"

    def require_packages(self) -> None:
        with require_extra("exporting a workbook", "xlsx"):
            import openpyxl  # noqa: F401

    def write(self, context: ExportContext) -> bytes:
        self.require_packages()
        import openpyxl

        reject_close(context)
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
    words, *more = _words(context)
    _fill_row(sheet, 1, [words])
    _fill_head(sheet, INPUT_ROW - 1, [*context.grid.axes, *context.action_columns])
    _fill_row(sheet, INPUT_ROW, [values.tolist()[0] for values in example.values()])
    for cell in sheet[INPUT_ROW][: context.grid.ndim]:
        cell.fill = PatternFill("solid", "FFF2CC")  # to be filled in
    for i, name in enumerate(context.action_columns):
        sheet.cell(INPUT_ROW, context.grid.ndim + 1 + i).value = format_formula(
            context, name, INPUT_ROW
        )
    differ = f"check!{column(context.grid.ndim + 2 * len(context.action_columns) + 1)}1"
    sheet.cell(INPUT_ROW + 2, 1).value = f"={differ}&\" states on the sheet 'check' differ\""
    for i, line in enumerate([*more, *map(to_comment_text, context.header_lines)]):
        _set_cell(sheet.cell(INPUT_ROW + 4 + i, 1), line)


def _words(draft: ExportContext) -> list[str]:
    """The rule in sentences, one to a line; of another policy, what it is called."""
    explain = getattr(draft.policy, "explain", None)
    return explain().splitlines() if explain else [draft.policy.name or "policy"]


def _fill_check(sheet: Any, context: ExportContext) -> None:
    """A line for each state; above them, how many disagree."""
    grid = context.grid
    parts = [*context.action_columns]
    count = min(grid.size, CHECK_SHEET_MAX_STATES)
    states = np.unique(np.linspace(0, grid.size - 1, count).astype(int))
    expected = context.policy.table.ravel()[states]
    coordinates = [values.tolist() for values in grid.coordinates(states).values()]
    formula_column, expected_column, agree_column = (grid.ndim + i * len(parts) for i in range(3))
    agree_letter = column(agree_column)
    header = [
        *grid.axes,
        *(f"{p} by formula" for p in parts),
        *(f"{p} meant" for p in parts),
        "same",
    ]
    _fill_head(sheet, 1, header)
    sheet.freeze_panes = "A2"
    # An error agrees with nothing.
    agree = f"COUNTIF({agree_letter}2:{agree_letter}{len(states) + 1},TRUE)"
    sheet.cell(1, agree_column + 2).value = f"={len(states)}-{agree}"
    _set_cell(sheet.cell(1, agree_column + 3), "states differ")
    for i, action in enumerate(expected):
        row = i + 2
        _fill_row(sheet, row, [values[i] for values in coordinates])
        for k, name in enumerate(parts):
            sheet.cell(row, formula_column + k + 1).value = format_formula(context, name, row)
            _set_cell(
                sheet.cell(row, expected_column + k + 1), context.action_columns[name][action]
            )
        tests = [
            _same(sheet.cell(row, expected_column + k + 1), len(parts)) for k in range(len(parts))
        ]
        sheet.cell(row, agree_column + 1).value = f"=AND({','.join(tests)})"


def _same(meant: Any, before: int) -> str:
    """Whether a cell so many columns before holds the same text, or number to 12 digits."""
    said = meant.offset(0, -before).coordinate
    told = meant.coordinate
    if isinstance(meant.value, str):
        return f"EXACT({said},{told})"
    return f"ABS({said}-{told})<=1E-12*ABS({told})"


def _fill_head(sheet: Any, row: int, names: list[str]) -> None:
    """Names of columns, in bold, with room for them."""
    from openpyxl.styles import Font

    _fill_row(sheet, row, names)
    for place, name in enumerate(names, 1):
        sheet.cell(row, place).font = Font(bold=True)
        sheet.column_dimensions[column(place - 1)].width = min(
            max(len(name), 8) + 3, COLUMN_MAX_WIDTH
        )


def _fill_row(sheet: Any, row: int, values: list) -> None:
    for position, value in enumerate(values, 1):
        _set_cell(sheet.cell(row, position), value)


def _set_cell(cell: Any, value: Any) -> None:
    """A value as it is: a text is never read as a formula, and never changed."""
    if isinstance(value, str) and CHANGED.search(value):
        requirement = (
            "a workbook cannot hold control characters, nor codes of characters such as _x0041_"
        )
        raise FileError(requirement, value=f"got {value!r}")
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"
        cell.quotePrefix = True
