"""LibreOffice, which calculates workbooks as users do: Debian's package libreoffice-calc."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl

from tessella.rules.export.export_context import ExportContext, InputRows
from tessella.rules.export.spreadsheet import format_formula

SOFFICE = shutil.which("soffice")
MISSING = "no LibreOffice (apt-get install libreoffice-calc)"
OPTIONS = ("--headless", "--norestore", "--nolockcheck")
Sheets = dict[str, list[tuple[Any, ...]]]  # values of cells, row by row


def calculate(paths: Sequence[Path], folder: Path) -> list[Sheets]:
    """The values of all cells of workbooks, after LibreOffice calculated them."""
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    options = ("--convert-to", "xlsx", "--outdir", str(folder / "calculated"))
    command = [str(SOFFICE), profile, *OPTIONS, *options, *map(str, paths)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    sheets = []
    for path in paths:
        book = openpyxl.load_workbook(folder / "calculated" / path.name, data_only=True)
        sheets.append({sheet.title: [*sheet.iter_rows(values_only=True)] for sheet in book})
    return sheets


def save_rows(cases: Sequence[tuple[ExportContext, InputRows]], path: Path) -> None:
    """A workbook with a sheet for each case: coordinates row by row, and the formulas."""
    book = openpyxl.Workbook()
    for number, (draft, rows) in enumerate(cases):
        sheet = book.create_sheet(str(number))
        for row, values in enumerate(zip(*rows.values(), strict=True), 2):
            for place, value in enumerate(values, 1):
                sheet.cell(row, place).value = value
                if isinstance(value, str):
                    sheet.cell(row, place).data_type = "s"
            for place, name in enumerate(draft.action_columns, draft.grid.ndim + 1):
                sheet.cell(row, place).value = format_formula(draft, name, row)
    book.save(path)


def read_decisions(
    cases: Sequence[tuple[ExportContext, InputRows]], sheets: Sheets
) -> list[np.ndarray]:
    """(n,) action indices of each case that ``save_rows`` wrote, -1 where a row is rejected."""
    decisions = []
    for number, (draft, rows) in enumerate(cases):
        first, count = draft.grid.ndim, len(rows[draft.grid.axes[0]])
        answers = [
            row[first : first + len(draft.action_columns)] for row in sheets[str(number)][1:]
        ]
        assert len(answers) == count
        actions = {_round_number(x): x for column in draft.action_columns.values() for x in column}
        actions["#N/A"] = None
        decisions.append(
            draft.find_actions([[actions.get(_round_number(x), x) for x in row] for row in answers])
        )
    return decisions


def _round_number(x: Any) -> Any:
    """A number with the 14 digits that a saved workbook is sure to hold."""
    return x if isinstance(x, str) else float(f"{x:.14g}")
