"""Tables of a model file: numbers looked up by coordinates, told in place or in a CSV file.

    [tables.price]                        [tables.cost]
    by = ["month"]                        by = ["region", "product"]
    values = [1.5, 1.4, 0.8]              csv = "costs.csv"
                                          column = "cost"

Told in place, ``by`` names axes, actions or distributions, and there is a number for each of their
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
from tessella.modelfiles.data import Columns

LARGEST = 10_000_000  # numbers in a table


@dataclass(frozen=True, eq=False)
class LookUpTable:
    """(n1, n2, ...) numbers, by the values of so many coordinates."""

    grid: StateGrid
    numbers: NDArray[np.float64]

    @property
    def arity(self) -> int:
        return self.grid.ndim

    def look_up(self, *coordinates: NDArray) -> NDArray[np.float64]:
        """The numbers at these coordinates, which broadcast."""
        places = [self.grid.locate(axis, np.asarray(x)) for axis, x in enumerate(coordinates)]
        missing = np.zeros((), dtype=bool)
        for place in places:
            missing = missing | (place < 0)
        return np.where(missing, np.nan, self.numbers[tuple(places)])


def told_table(by: Sequence[str], values: object, known: Mapping[str, Sequence]) -> LookUpTable:
    """A table told in place, over the ``known`` values of the names in ``by``."""
    grid = StateGrid({name: known[name] for name in by})
    try:
        numbers = np.asarray(values)
    except ValueError:
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "iuf" or numbers.shape != grid.shape:
        shape = " rows of ".join(map(str, grid.shape))
        raise ModelError(f"its values must be {shape} numbers, in the order of {', '.join(by)}")
    return LookUpTable(grid, numbers.astype(float))


def read_table(
    by: Sequence[str], columns: Columns, column: str, kinds: Mapping[str, str]
) -> LookUpTable:
    """A table from the columns of a CSV file, given the ``kinds`` of values that a model names."""
    name = columns.file
    keys = [np.asarray(columns.values(key, kinds.get(key))) for key in by]
    grid = StateGrid({key: [*dict.fromkeys(v.tolist())] for key, v in zip(by, keys, strict=True)})
    if grid.size > LARGEST:
        raise FileError(f"{name} would be a table of more than {LARGEST:,} numbers")
    places = tuple(grid.locate(axis, key) for axis, key in enumerate(keys))
    flat = np.ravel_multi_index(places, grid.shape)
    _refuse_repeated(grid, flat, columns)
    numbers = np.full(grid.size, np.nan)
    numbers[flat] = columns.numbers(column)
    if len(flat) < grid.size:
        first = int(np.flatnonzero(np.isnan(numbers))[0])
        raise FileError(
            f"{name} must have a row for every combination of {', '.join(by)}",
            place=grid.describe(first),
            value="has none",
            count=grid.size - len(flat),
            total=grid.size,
            noun="combinations",
        )
    return LookUpTable(grid, numbers.reshape(grid.shape))


def _refuse_repeated(grid: StateGrid, flat: NDArray[np.int64], columns: Columns) -> None:
    _, first = np.unique(flat, return_index=True)
    again = np.setdiff1d(np.arange(len(flat)), first)
    if again.size:
        row = int(again[0])
        raise FileError(
            "a combination stands in one row",
            place=f"{columns.file}, line {columns.lines[row]}:",
            value=f"{grid.describe(int(flat[row]))} stands there again",
        )
