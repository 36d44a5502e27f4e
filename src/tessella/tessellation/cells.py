"""Connected components of equal values on a grid, in one pass for all values.

A *run* is a maximal stretch of equal values along the last axis. Two runs that overlap across
another axis, with the same value, belong to one component; the first place of their overlap is the
start of one of the two, so it is enough to look where a run starts. Components of the small graph
(runs, overlaps) are the cells. With R runs there are at most 2 R (d - 1) overlaps, whatever the
number of different values; for a policy with structure R is far below the number of states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tessella.grid import index_type


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of an array, numbered by their first element in C order.

    Attributes:
        labels: (array shape) the cell of each element.
        values: (n,) the value that each cell holds.
        sizes: (n,) elements in each cell.
    """

    labels: NDArray[np.integer]
    values: NDArray
    sizes: NDArray[np.int64]


def find_cells(table: NDArray) -> Cells:
    """Cells of ``table`` (any shape with at least one axis) under nearest-neighbour connection."""
    starts = _run_starts(table)
    run = np.cumsum(starts, dtype=index_type(table.size + 1)).reshape(table.shape)
    run -= 1
    values = table[starts]
    lengths = np.diff(np.flatnonzero(starts), append=table.size)
    count, cell = _join_runs(table, starts, run, len(values))
    cell_values = np.empty(count, dtype=table.dtype)
    cell_values[cell] = values
    sizes = np.bincount(cell, weights=lengths, minlength=count).astype(np.int64)
    return Cells(cell[run], cell_values, sizes)


def _run_starts(table: NDArray) -> NDArray[np.bool_]:
    starts = np.ones(table.shape, dtype=bool)
    np.not_equal(table[..., 1:], table[..., :-1], out=starts[..., 1:])
    return starts


def _join_runs(table: NDArray, starts: NDArray, run: NDArray, runs: int) -> tuple[int, NDArray]:
    """Number of components, and the component of each run."""
    links = [_find_overlaps(table, starts, run, axis) for axis in range(table.ndim - 1)]
    if not links:
        return runs, np.arange(runs, dtype=index_type(runs))
    here, there = (np.concatenate(side) for side in zip(*links, strict=True))
    graph = coo_array((np.ones(len(here), dtype=np.int8), (here, there)), shape=(runs, runs))
    return connected_components(graph, directed=False)


def _find_overlaps(
    table: NDArray, starts: NDArray, run: NDArray, axis: int
) -> tuple[NDArray, NDArray]:
    """Pairs of runs that touch across ``axis`` and hold the same value."""
    below, above = neighbour_slices(table.ndim, axis)
    touch = starts[below] | starts[above]
    touch &= table[below] == table[above]
    return run[below][touch], run[above][touch]


def neighbour_slices(ndim: int, axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Slices that pair each element with the next one along ``axis``."""
    below = [slice(None)] * ndim
    above = [slice(None)] * ndim
    below[axis] = slice(None, -1)
    above[axis] = slice(1, None)
    return tuple(below), tuple(above)
