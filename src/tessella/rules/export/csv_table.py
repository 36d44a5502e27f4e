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

from tessella.rules.export.draft import REFUSED, Draft, Rows
from tessella.rules.export.lowered import is_text
from tessella.rules.export.target import Target


class CsvTable(Target):
    """A table of all states."""

    name: ClassVar[str] = "CSV"
    suffix: ClassVar[str] = ".csv"
    data: ClassVar[bool] = True

    def write(self, draft: Draft) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rule.csv")
            draft.policy.to_csv(path)
            return path.read_bytes()

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        """Look the rows up."""
        axes, columns = draft.grid.axes, list(draft.columns.values())
        numeric = [not is_text(draft.grid, axis) for axis in axes]
        numeric += [not isinstance(values[0], str) for values in columns]
        found = {}
        _, *lines = csv.reader(io.StringIO(content.decode(), newline=""))
        for line in filter(None, lines):
            cells = [float(c) if n else c for c, n in zip(line, numeric, strict=True)]
            found[tuple(cells[: len(axes)])] = tuple(cells[len(axes) :])
        asked = zip(*(rows[axis] for axis in axes), strict=True)
        known = {key: i for i, key in enumerate(zip(*columns, strict=True))}
        return np.array([known.get(found.get(row, ()), REFUSED) for row in asked])
