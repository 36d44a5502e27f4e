"""Columns of CSV files that lie beside a model file, checked cell by cell.

The first line names the columns; every other has a field for each. A message says file, line and
column, and how many cells are wrong alike. Each file is read once, however many parts of a model
name it, and all of them together have a bounded size.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field
from pathlib import Path

from tessella.errors import FileError
from tessella.modelfiles.expressions.tree import NUMBER
from tessella.modelfiles.mistakes import brief
from tessella.modelfiles.sources import read_beside

LARGEST = 16 << 20  # bytes of a file
LARGEST_TOGETHER = 32 << 20  # of all that a model file names
MOST_COLUMNS = 1000
MOST_ROWS = 1_000_000


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a file, as text, with the line of each row."""

    file: str
    cells: dict[str, list[str]]
    lines: list[int]
    read: dict[str, list[float]] = field(default_factory=dict)  # columns of numbers, so far

    def numbers(self, name: str) -> list[float]:
        """The column ``name``, every cell a finite number."""
        if name not in self.read:
            self.read[name] = self._numbers(name)
        return self.read[name]

    def _numbers(self, name: str) -> list[float]:
        cells = self.cells[name]
        values = [_number(cell) for cell in cells]
        bad = [i for i, value in enumerate(values) if value is None]
        if bad:
            raise FileError(
                "a cell must be a finite number",
                place=f"{self.file}, line {self.lines[bad[0]]}, column {name!r}",
                value=f"has {brief(cells[bad[0]])}",
                count=len(bad),
                total=len(cells),
                noun="cells",
            )
        return [value for value in values if value is not None]

    def values(self, name: str, kind: str | None) -> list[float] | list[int] | list[str]:
        """The column ``name`` as numbers or text; with no ``kind``, as numbers if all of it is."""
        cells = self.cells[name]
        fine = kind is None and all(_number(cell) is not None for cell in cells)
        if kind == NUMBER or fine:
            return as_whole(self.numbers(name))
        return [cell.strip() for cell in cells]


def as_whole(values: list[float]) -> list[float] | list[int]:
    """Numbers as integers, if all of them are."""
    if all(value == round(value) and abs(value) < 2**53 for value in values):
        return [int(value) for value in values]
    return values


@dataclass(eq=False)
class DataFiles:
    """The CSV files in ``folder`` that a model file names, each read once."""

    folder: Path
    found: dict[str, Columns | FileError] = field(default_factory=dict)
    size: int = 0  # bytes of all that were read

    def columns(self, name: str) -> Columns:
        """The columns of the file ``name``; what is wrong with it is said each time."""
        if name not in self.found:
            try:
                self.found[name] = self._read(name)
            except FileError as error:
                self.found[name] = error
        found = self.found[name]
        if isinstance(found, FileError):
            raise found
        return found

    def _read(self, name: str) -> Columns:
        content = read_beside(self.folder, name, LARGEST)
        self.size += len(content)
        if self.size > LARGEST_TOGETHER:
            rule = f"the data of a model file have at most {LARGEST_TOGETHER:,} bytes together"
            raise FileError(rule, value=f"with {name} they have {self.size:,}")
        try:
            return _columns(name, content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise FileError(f"{name}, line {line} is not text in UTF-8") from None
        except csv.Error as error:
            raise FileError(f"{name} is no CSV file", value=str(error)) from None


def _columns(name: str, text: str) -> Columns:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    titles = [title.strip() for title in next(reader, [])]
    if not titles or len(set(titles)) < len(titles) or len(titles) > MOST_COLUMNS:
        rule = f"the first line of {name} must name its columns, each differently"
        raise FileError(rule, value=f"got {brief(', '.join(titles))}")
    rows, lines, empty = [], [], 0
    for row in reader:
        if not row:
            empty = empty or reader.line_num  # which is fine at the end
            continue
        if empty and len(titles) == 1:
            rule = "a cell must not be empty"
            raise FileError(rule, place=f"{name}, line {empty}", value="is")
        if len(row) != len(titles):
            fields = f"has {len(row)}, the first has {len(titles)}"
            rule = "every line must have as many fields as the first"
            raise FileError(rule, place=f"{name}, line {reader.line_num}", value=fields)
        if len(rows) == MOST_ROWS:
            rule = f"a data file has at most {MOST_ROWS:,} rows"
            raise FileError(rule, place=f"{name}, line {reader.line_num}", value="is one more")
        rows.append(row)
        lines.append(reader.line_num)
    if not rows:
        raise FileError(f"{name} has no rows below the names of its columns")
    columns = zip(*rows, strict=True)
    return Columns(name, {t: [*column] for t, column in zip(titles, columns, strict=True)}, lines)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None
