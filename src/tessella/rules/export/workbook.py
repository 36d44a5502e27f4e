"""A workbook: a sheet with the rule as a formula, and one that holds it against the policy.

    rule     what the head of a file says, cells for the coordinates, and what to do
    check    states with what the formula says, what the policy says, and whether they agree

Needs the extra ``xlsx``.
"""

from __future__ import annotations

import io
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, needs
from tessella.rules.export.draft import Draft, Rows
from tessella.rules.export.formula import calculated, column, formula
from tessella.rules.export.names import plain
from tessella.rules.export.target import Absent, Target

MOST = 1_000  # states on the sheet that checks


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

        book = openpyxl.Workbook()
        _fill_rule(book.active, draft)
        _fill_check(book.create_sheet("check"), draft)
        content = io.BytesIO()
        book.save(content)
        return content.getvalue()

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        try:
            import openpyxl
        except ImportError as error:
            raise Absent("openpyxl is not installed") from error
        sheet = openpyxl.load_workbook(io.BytesIO(content))["rule"]
        first = draft.grid.ndim + 1
        texts = [sheet.cell(2, first + i).value for i in range(len(draft.columns))]
        return calculated([str(text) for text in texts], draft, rows)


def _fill_rule(sheet: Any, draft: Draft) -> None:
    """Names in the first row, an example state and the formulas in the second, then the facts."""
    sheet.title = "rule"
    _fill_row(sheet, 1, [*draft.grid.axes, *draft.columns])
    example = draft.grid.coordinates([0])
    _fill_row(sheet, 2, [values.tolist()[0] for values in example.values()])
    for i, name in enumerate(draft.columns):
        sheet.cell(2, draft.grid.ndim + 1 + i).value = formula(draft, name)
    for i, line in enumerate(draft.about):
        _put(sheet.cell(4 + i, 1), plain(line))


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
    _fill_row(sheet, 1, head)
    sheet.cell(1, same + 2).value = f"=COUNTIF({last}2:{last}{len(states) + 1},FALSE)"
    _put(sheet.cell(1, same + 3), "states differ")
    for i, action in enumerate(meant):
        row = i + 2
        _fill_row(sheet, row, [values[i] for values in coordinates])
        for k, name in enumerate(parts):
            sheet.cell(row, said + k + 1).value = formula(draft, name, row)
            _put(sheet.cell(row, told + k + 1), draft.columns[name][action])
        pairs = [
            (f"{column(said + k)}{row}", f"{column(told + k)}{row}") for k in range(len(parts))
        ]
        sheet.cell(row, same + 1).value = f"=AND({','.join(f'{a}={b}' for a, b in pairs)})"


def _fill_row(sheet: Any, row: int, values: list) -> None:
    for place, value in enumerate(values, 1):
        _put(sheet.cell(row, place), value)


def _put(cell: Any, value: Any) -> None:
    """A value as it is: a text is never read as a formula."""
    from openpyxl.utils.exceptions import IllegalCharacterError

    try:
        cell.value = value
    except IllegalCharacterError as error:
        rule = "a workbook cannot hold control characters"
        raise FileError(rule, value=f"got {value!r}") from error
    if isinstance(value, str):
        cell.data_type = "s"
        cell.quotePrefix = True
