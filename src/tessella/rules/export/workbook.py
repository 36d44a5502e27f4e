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

from tessella.errors import FileError, needs
from tessella.rules.export.draft import Draft, Rows
from tessella.rules.export.formula import calculated, column, formula, reject_close
from tessella.rules.export.names import plain
from tessella.rules.export.target import Target

MOST = 1_000  # states on the sheet that checks
INPUT_ROW = 4  # of the sheet 'rule': the coordinates of a state, below their names
WIDEST = 40  # characters of a column
# What XML, or the way in which workbooks write characters (_x0041_ for A), changes in a text.
CHANGED = re.compile(r"[\x00-\x08\x0b-\x1f]|_x[0-9a-fA-F]{4}_")


class Workbook(Target):
    """A spreadsheet for Excel or LibreOffice."""

    name: ClassVar[str] = "workbook"
    suffix: ClassVar[str] = ".xlsx"

    def require(self) -> None:
        with needs("exporting a workbook", "xlsx"):
            import openpyxl  # noqa: F401

    def write(self, draft: Draft) -> bytes:
        self.require()
        import openpyxl

        reject_close(draft)
        book = openpyxl.Workbook()
        _fill_rule(book.active, draft)
        _fill_check(book.create_sheet("check"), draft)
        content = io.BytesIO()
        book.save(content)
        return content.getvalue()

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        import openpyxl

        sheet = openpyxl.load_workbook(io.BytesIO(content))["rule"]
        first = draft.grid.ndim + 1
        texts = [sheet.cell(INPUT_ROW, first + i).value for i in range(len(draft.columns))]
        return calculated([str(text) for text in texts], draft, rows, INPUT_ROW)


def _fill_rule(sheet: Any, draft: Draft) -> None:
    """The rule in words; an example state, which a user overwrites, with formulas; the facts."""
    from openpyxl.styles import PatternFill

    sheet.title, example = "rule", draft.grid.coordinates([0])
    words, *more = _words(draft)
    _fill_row(sheet, 1, [words])
    _fill_head(sheet, INPUT_ROW - 1, [*draft.grid.axes, *draft.columns])
    _fill_row(sheet, INPUT_ROW, [values.tolist()[0] for values in example.values()])
    for cell in sheet[INPUT_ROW][: draft.grid.ndim]:
        cell.fill = PatternFill("solid", "FFF2CC")  # to be filled in
    for i, name in enumerate(draft.columns):
        sheet.cell(INPUT_ROW, draft.grid.ndim + 1 + i).value = formula(draft, name, INPUT_ROW)
    differ = f"check!{column(draft.grid.ndim + 2 * len(draft.columns) + 1)}1"
    sheet.cell(INPUT_ROW + 2, 1).value = f"={differ}&\" states on the sheet 'check' differ\""
    for i, line in enumerate([*more, *map(plain, draft.about)]):
        _put(sheet.cell(INPUT_ROW + 4 + i, 1), line)


def _words(draft: Draft) -> list[str]:
    """The rule in sentences, one to a line; of another policy, what it is called."""
    explain = getattr(draft.policy, "explain", None)
    return explain().splitlines() if explain else [draft.policy.name or "policy"]


def _fill_check(sheet: Any, draft: Draft) -> None:
    """A line for each state; above them, how many disagree."""
    grid, parts = draft.grid, [*draft.columns]
    count = min(grid.size, MOST)
    states = np.unique(np.linspace(0, grid.size - 1, count).astype(int))
    meant = draft.policy.table.ravel()[states]
    coordinates = [values.tolist() for values in grid.coordinates(states).values()]
    said, told, same = (grid.ndim + i * len(parts) for i in range(3))
    last = column(same)
    head = [*grid.axes, *(f"{p} by formula" for p in parts), *(f"{p} meant" for p in parts), "same"]
    _fill_head(sheet, 1, head)
    sheet.freeze_panes = "A2"
    agree = f"COUNTIF({last}2:{last}{len(states) + 1},TRUE)"  # an error agrees with nothing
    sheet.cell(1, same + 2).value = f"={len(states)}-{agree}"
    _put(sheet.cell(1, same + 3), "states differ")
    for i, action in enumerate(meant):
        row = i + 2
        _fill_row(sheet, row, [values[i] for values in coordinates])
        for k, name in enumerate(parts):
            sheet.cell(row, said + k + 1).value = formula(draft, name, row)
            _put(sheet.cell(row, told + k + 1), draft.columns[name][action])
        tests = [_same(sheet.cell(row, told + k + 1), len(parts)) for k in range(len(parts))]
        sheet.cell(row, same + 1).value = f"=AND({','.join(tests)})"


def _same(meant: Any, before: int) -> str:
    """Whether a cell so many columns before holds the same text, or number to 12 digits."""
    said, told = meant.offset(0, -before).coordinate, meant.coordinate
    if isinstance(meant.value, str):
        return f"EXACT({said},{told})"
    return f"ABS({said}-{told})<=1E-12*ABS({told})"


def _fill_head(sheet: Any, row: int, names: list[str]) -> None:
    """Names of columns, in bold, with room for them."""
    from openpyxl.styles import Font

    _fill_row(sheet, row, names)
    for place, name in enumerate(names, 1):
        sheet.cell(row, place).font = Font(bold=True)
        sheet.column_dimensions[column(place - 1)].width = min(max(len(name), 8) + 3, WIDEST)


def _fill_row(sheet: Any, row: int, values: list) -> None:
    for place, value in enumerate(values, 1):
        _put(sheet.cell(row, place), value)


def _put(cell: Any, value: Any) -> None:
    """A value as it is: a text is never read as a formula, and never changed."""
    if isinstance(value, str) and CHANGED.search(value):
        rule = "a workbook cannot hold control characters, nor codes of characters such as _x0041_"
        raise FileError(rule, value=f"got {value!r}")
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"
        cell.quotePrefix = True
