"""Tables of a model file: numbers looked up by coordinates, given in place or in a CSV file.

    [tables.price]                        [tables.cost]
    by = ["month"]                        by = ["region", "product"]
    values = [1.5, 1.4, 0.8]              csv = "costs.csv"
                                          column = "cost"

Given in place, ``by`` names axes, actions or distributions, and there is a number for each of their
values, in their order; in a file, ``by`` names the columns that say where, and every combination of
their values stands in one row; a column called like an axis has values of the same kind. What is
not in a table has no value there: it is not a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, ModelError
from tessella.grid import StateGrid
from tessella.modelfiles.csv_columns import CsvColumns

TABLE_MAX_NUMBERS = 10_000_000  # numbers in a table


@dataclass(frozen=True, eq=False)
class LookupTable:
    """(n1, n2, ...) numbers, by the values of so many coordinates."""

    grid: StateGrid
    numbers: NDArray[np.float64]

    @property
    def arity(self) -> int:
        return self.grid.ndim

    def look_up(self, *coordinates: NDArray) -> NDArray[np.float64]:
        """The numbers at these coordinates, which broadcast."""
        indices = [self.grid.locate(axis, np.asarray(x)) for axis, x in enumerate(coordinates)]
        missing = np.zeros((), dtype=bool)
        for index in indices:
            missing = missing | (index < 0)
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
    _refuse_repeated(grid, flat_indices, columns)
    numbers = np.full(grid.size, np.nan)
    numbers[flat_indices] = columns.read_numbers(column)
    if len(flat_indices) < grid.size:
        first = int(np.flatnonzero(np.isnan(numbers))[0])
        raise FileError(
            f"{file} must have a row for every combination of {', '.join(by)}",
            location=grid.describe(first),
            value="has none",
            count=grid.size - len(flat_indices),
            total=grid.size,
            noun="combinations",
        )
    return LookupTable(grid, numbers.reshape(grid.shape))


def _refuse_repeated(grid: StateGrid, flat_indices: NDArray[np.int64], columns: CsvColumns) -> None:
    _, first = np.unique(flat_indices, return_index=True)
    repeated = np.setdiff1d(np.arange(len(flat_indices)), first)
    if repeated.size:
        row = int(repeated[0])
        raise FileError(
            "a combination stands in one row",
            location=f"{columns.file}, line {columns.lines[row]}:",
            value=f"{grid.describe(int(flat_indices[row]))} stands there again",
        )
