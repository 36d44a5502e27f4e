"""Tables of a model file, and the CSV files in its folder.

    [tables.price]                        [tables.cost]
    by = ["month"]                        by = ["region", "product"]
    values = [1.5, 1.4, 0.8]              csv = "costs.csv"
                                          column = "cost"

Without a file, ``by`` names axes, actions or distributions, and ``values`` has a number for each of
their values, in their order. With a file, ``by`` names the columns of the coordinates, and every
combination of their values has one row; a column with the name of an axis has values of the same
kind. An entry that a table does not have is NaN.

The first line of a CSV file names its columns; every other has a field for each. A message has
file, line and column, and the number of cells with the same mistake. Each file is read once,
however many parts of a model name it, and their total size is bounded.

A file must be in the folder of the model file or below: its path is relative, without ``..``, and
no part of it is a symbolic link. Each part is opened relative to the folder before it, so what was
checked is what is read; where a system cannot do that (Windows), each part of the path is checked,
and then that the opened file is the checked one. A read never waits for a pipe or a device.
"""

from __future__ import annotations

import csv
import functools
import io
import math
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, ModelError, format_brief, raise_for_first
from tessella.files import OPEN_FLAGS, read_open_file, require_regular
from tessella.grid import StateGrid
from tessella.modelfiles.expressions import NUMBER
from tessella.modelfiles.toml_document import ReadLimits

TABLE_MAX_NUMBERS = 10_000_000  # numbers in a table
CSV_MAX_COLUMNS = 1000

NO_FOLLOW_FLAG = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, eq=False)
class LookupTable:
    """(n1, n2, ...) numbers, by the values of n1, n2, ... coordinates."""

    grid: StateGrid
    numbers: NDArray[np.float64]

    def look_up(self, *coordinates: NDArray) -> NDArray[np.float64]:
        """The numbers at these coordinates, which broadcast."""
        indices = [self.grid.locate(axis, np.asarray(x)) for axis, x in enumerate(coordinates)]
        missing = functools.reduce(np.logical_or, (index < 0 for index in indices))
        return np.where(missing, np.nan, self.numbers[tuple(indices)])


def make_inline_table(
    by: Sequence[str], values: object, values_by_name: Mapping[str, Sequence]
) -> LookupTable:
    """A table given in place, over the values (``values_by_name``) of the names in ``by``."""
    grid = StateGrid({name: values_by_name[name] for name in by})
    try:
        numbers = np.asarray(values)
    except ValueError:
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "iuf" or numbers.shape != grid.shape:
        shape = " rows of ".join(map(str, grid.shape))
        raise ModelError(f"its values must be {shape} numbers, in the order of {', '.join(by)}")
    return LookupTable(grid, numbers.astype(float))


def make_csv_table(
    by: Sequence[str], columns: CsvColumns, column: str, kinds: Mapping[str, str]
) -> LookupTable:
    """A table from the columns of a CSV file, given the ``kinds`` of values that a model names."""
    file = columns.file
    keys = [np.asarray(columns.read_values(key, kinds.get(key))) for key in by]
    grid = StateGrid({key: [*dict.fromkeys(v.tolist())] for key, v in zip(by, keys, strict=True)})
    if grid.size > TABLE_MAX_NUMBERS:
        raise FileError(f"{file} would be a table of more than {TABLE_MAX_NUMBERS:,} numbers")
    indices = tuple(grid.locate(axis, key) for axis, key in enumerate(keys))
    flat_indices = np.ravel_multi_index(indices, grid.shape)
    _require_distinct_rows(grid, flat_indices, columns)
    numbers = np.full(grid.size, np.nan)
    numbers[flat_indices] = columns.read_numbers(column)
    raise_for_first(
        f"{file} must have a row for every combination of {', '.join(by)}",
        np.isnan(numbers),
        grid.describe,
        lambda _: "has none",
        "combinations",
        error=FileError,
    )
    return LookupTable(grid, numbers.reshape(grid.shape))


def _require_distinct_rows(
    grid: StateGrid, flat_indices: NDArray[np.int64], columns: CsvColumns
) -> None:
    _, first = np.unique(flat_indices, return_index=True)
    repeated = np.setdiff1d(np.arange(len(flat_indices)), first)
    if repeated.size:
        row = int(repeated[0])
        raise FileError(
            "a combination must have one row only",
            location=f"{columns.file}, line {columns.lines[row]}:",
            value=f"{grid.describe(int(flat_indices[row]))} is there again",
        )


@dataclass(frozen=True, eq=False)
class CsvColumns:
    """The columns of a file, as text, with the line of each row."""

    file: str
    cells: dict[str, list[str]]
    lines: list[int]
    number_cache: dict[str, list[float]] = field(default_factory=dict)  # columns of numbers, so far

    def read_numbers(self, name: str) -> list[float]:
        """The column ``name``, every cell a finite number."""
        if name in self.number_cache:
            return self.number_cache[name]
        cells = self.cells[name]
        values = [_parse_number(cell) for cell in cells]
        raise_for_first(
            "a cell must be a finite number",
            np.array([value is None for value in values]),
            lambda row: f"{self.file}, line {self.lines[row]}, column {name!r}",
            lambda row: f"has {format_brief(cells[row])}",
            "cells",
            error=FileError,
        )
        self.number_cache[name] = [value for value in values if value is not None]
        return self.number_cache[name]

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
    limits: ReadLimits
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
        content = read_data_file(self.folder, name, self.limits.csv_max_bytes)
        self.total_bytes += len(content)
        limit = self.limits.csv_max_total_bytes
        if self.total_bytes > limit:
            requirement = f"the data of a model file have at most {limit:,} bytes together"
            raise FileError(requirement, value=f"with {name} they have {self.total_bytes:,}")
        try:
            return _parse_columns(name, content.decode("utf-8-sig"), self.limits.csv_max_rows)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise FileError(f"{name}, line {line} is not text in UTF-8") from None
        except csv.Error as error:
            raise FileError(f"{name} is no CSV file", value=str(error)) from None


def _parse_columns(name: str, text: str, max_rows: int) -> CsvColumns:
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
            first_empty_line = first_empty_line or reader.line_num  # an empty last line is fine
            continue
        if first_empty_line and len(titles) == 1:
            location = f"{name}, line {first_empty_line}"
            raise FileError("a cell must not be empty", location=location, value="is")
        if len(row) != len(titles):
            requirement = "every line must have as many fields as the first"
            location = f"{name}, line {reader.line_num}"
            value = f"has {len(row)}, the first has {len(titles)}"
            raise FileError(requirement, location=location, value=value)
        if len(rows) == max_rows:
            requirement = f"a data file has at most {max_rows:,} rows"
            location = f"{name}, line {reader.line_num}"
            raise FileError(requirement, location=location, value="is one more")
        rows.append(row)
        lines.append(reader.line_num)
    if not rows:
        raise FileError(f"{name} has no rows below the names of its columns")
    columns = map(list, zip(*rows, strict=True))
    return CsvColumns(name, dict(zip(titles, columns, strict=True)), lines)


def _parse_number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def read_data_file(folder: Path, name: str, max_bytes: int) -> bytes:
    """The bytes of the file that a model file in ``folder`` names."""
    requirement = f"{name!r} cannot be read"
    parts = _require_relative(name, requirement)
    can_open_relative = hasattr(os, "O_DIRECTORY") and {os.open, os.stat} <= os.supports_dir_fd
    try:
        descriptor = (
            _open_relative(folder, parts, requirement)
            if can_open_relative
            else _open_by_path(folder, name, requirement)
        )
    except FileNotFoundError:
        raise FileError(requirement, value="it is missing") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(requirement, value=reason) from error
    return read_open_file(descriptor, requirement, max_bytes)


def _require_relative(name: str, requirement: str) -> tuple[str, ...]:
    posix_path = PurePosixPath(name)
    climbs = ".." in (*posix_path.parts, *PureWindowsPath(name).parts)
    if posix_path.is_absolute() or PureWindowsPath(name).drive or climbs or not posix_path.parts:
        reason = "data must be in the folder of the model file, or below it"
        raise FileError(requirement, value=reason)
    return posix_path.parts


def _open_relative(folder: Path, parts: tuple[str, ...], requirement: str) -> int:
    """The last part, opened from folder to folder; each of these is closed again."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for k, part in enumerate(parts, 1):
        parent = descriptor
        try:
            status = os.stat(part, dir_fd=parent, follow_symlinks=False)
            _require_no_link(status, requirement)
            flags = os.O_DIRECTORY
            if k == len(parts):
                require_regular(status, requirement)
                flags = OPEN_FLAGS
            descriptor = os.open(part, os.O_RDONLY | flags | NO_FOLLOW_FLAG, dir_fd=parent)
        finally:
            os.close(parent)
    return descriptor


def _open_by_path(folder: Path, name: str, requirement: str) -> int:
    path = folder
    status = os.stat(folder)
    for part in PureWindowsPath(name).parts:
        path = path / part
        status = os.lstat(path)
        _require_no_link(status, requirement)
    require_regular(status, requirement)
    descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS | NO_FOLLOW_FLAG)
    if os.path.samestat(status, os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    raise FileError(requirement, value="it changes while it is read")


def _require_no_link(status: os.stat_result, requirement: str) -> None:
    """Reject symbolic links, and their like on Windows."""
    is_reparse_point = getattr(status, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT
    if stat.S_ISLNK(status.st_mode) or is_reparse_point:
        raise FileError(requirement, value="it is a symbolic link")
