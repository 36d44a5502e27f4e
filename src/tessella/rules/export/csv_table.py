"""CSV: a row for each state, its coordinates and what to do; any policy is read back from it.

A table has no room for a head that every reader passes over, so it states no facts.
"""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.rules.export.comparisons import is_text_axis
from tessella.rules.export.export_context import REFUSED_INDEX, ExportContext, InputRows
from tessella.rules.export.target import ExportTarget


class CsvTable(ExportTarget):
    """A table of all states."""

    name: ClassVar[str] = "CSV"
    suffix: ClassVar[str] = ".csv"
    is_data: ClassVar[bool] = True

    def write(self, context: ExportContext) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rule.csv")
            context.policy.to_csv(path)
            return path.read_bytes()

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """Look the rows up."""
        axes = context.grid.axes
        columns = list(context.action_columns.values())
        numeric = [not is_text_axis(context.grid, axis) for axis in axes]
        numeric += [not isinstance(values[0], str) for values in columns]
        results = {}
        _, *lines = csv.reader(io.StringIO(content.decode(), newline=""))
        for line in filter(None, lines):
            cells = [float(c) if n else c for c, n in zip(line, numeric, strict=True)]
            results[tuple(cells[: len(axes)])] = tuple(cells[len(axes) :])
        states = zip(*(rows[axis] for axis in axes), strict=True)
        known = {key: i for i, key in enumerate(zip(*columns, strict=True))}
        return np.array([known.get(results.get(row, ()), REFUSED_INDEX) for row in states])
