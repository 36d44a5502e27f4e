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
from tessella.modelfiles.expressions import NUMBER
from tessella.modelfiles.mistakes import format_brief
from tessella.modelfiles.read_files import read_data_file

CSV_MAX_BYTES = 16 << 20  # bytes of a file
CSV_MAX_TOTAL_BYTES = 32 << 20  # of all that a model file names
CSV_MAX_COLUMNS = 1000
CSV_MAX_ROWS = 1_000_000


@dataclass(frozen=True, eq=False)
class CsvColumns:
    """The columns of a file, as text, with the line of each row."""

    file: str
    cells: dict[str, list[str]]
    lines: list[int]
    number_cache: dict[str, list[float]] = field(default_factory=dict)  # columns of numbers, so far

    def read_numbers(self, name: str) -> list[float]:
        """The column ``name``, every cell a finite number."""
        if name not in self.number_cache:
            self.number_cache[name] = self._parse_numbers(name)
        return self.number_cache[name]

    def _parse_numbers(self, name: str) -> list[float]:
        cells = self.cells[name]
        values = [_parse_number(cell) for cell in cells]
        bad_rows = [i for i, value in enumerate(values) if value is None]
        if bad_rows:
            raise FileError(
                "a cell must be a finite number",
                location=f"{self.file}, line {self.lines[bad_rows[0]]}, column {name!r}",
                value=f"has {format_brief(cells[bad_rows[0]])}",
                count=len(bad_rows),
                total=len(cells),
                noun="cells",
            )
        return [value for value in values if value is not None]

    def read_values(self, name: str, kind: str | None) -> list[float] | list[int] | list[str]:
        """The column ``name`` as numbers or text; with no ``kind``, as numbers if all of it is."""
        cells = self.cells[name]
        all_numbers = kind is None and all(_parse_number(cell) is not None for cell in cells)
        if kind == NUMBER or all_numbers:
            return to_integers(self.read_numbers(name))
        return [cell.strip() for cell in cells]


def to_integers(values: list[float]) -> list[float] | list[int]:
    """Numbers as integers, if all of them are."""
    if all(value == round(value) and abs(value) < 2**53 for value in values):
        return [int(value) for value in values]
    return values


@dataclass(eq=False)
class CsvFiles:
    """The CSV files in ``folder`` that a model file names, each read once."""

    folder: Path
    cache: dict[str, CsvColumns | FileError] = field(default_factory=dict)
    total_bytes: int = 0  # bytes of all that were read

    def read_columns(self, name: str) -> CsvColumns:
        """The columns of the file ``name``; its mistakes are reported each time."""
        if name not in self.cache:
            try:
                self.cache[name] = self._read(name)
            except FileError as error:
                self.cache[name] = error
        entry = self.cache[name]
        if isinstance(entry, FileError):
            raise entry
        return entry

    def _read(self, name: str) -> CsvColumns:
        content = read_data_file(self.folder, name, CSV_MAX_BYTES)
        self.total_bytes += len(content)
        if self.total_bytes > CSV_MAX_TOTAL_BYTES:
            requirement = (
                f"the data of a model file have at most {CSV_MAX_TOTAL_BYTES:,} bytes together"
            )
            raise FileError(requirement, value=f"with {name} they have {self.total_bytes:,}")
        try:
            return _parse_columns(name, content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise FileError(f"{name}, line {line} is not text in UTF-8") from None
        except csv.Error as error:
            raise FileError(f"{name} is no CSV file", value=str(error)) from None


def _parse_columns(name: str, text: str) -> CsvColumns:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    titles = [title.strip() for title in next(reader, [])]
    if not titles or len(set(titles)) < len(titles) or len(titles) > CSV_MAX_COLUMNS:
        requirement = f"the first line of {name} must name its columns, each differently"
        raise FileError(requirement, value=f"got {format_brief(', '.join(titles))}")
    rows = []
    lines = []
    first_empty_line = 0
    for row in reader:
        if not row:
            first_empty_line = first_empty_line or reader.line_num  # which is fine at the end
            continue
        if first_empty_line and len(titles) == 1:
            requirement = "a cell must not be empty"
            raise FileError(requirement, location=f"{name}, line {first_empty_line}", value="is")
        if len(row) != len(titles):
            fields = f"has {len(row)}, the first has {len(titles)}"
            requirement = "every line must have as many fields as the first"
            raise FileError(requirement, location=f"{name}, line {reader.line_num}", value=fields)
        if len(rows) == CSV_MAX_ROWS:
            requirement = f"a data file has at most {CSV_MAX_ROWS:,} rows"
            raise FileError(
                requirement, location=f"{name}, line {reader.line_num}", value="is one more"
            )
        rows.append(row)
        lines.append(reader.line_num)
    if not rows:
        raise FileError(f"{name} has no rows below the names of its columns")
    columns = zip(*rows, strict=True)
    return CsvColumns(
        name, {t: [*column] for t, column in zip(titles, columns, strict=True)}, lines
    )


def _parse_number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None
