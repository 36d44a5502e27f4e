"""Shifts and chains along one axis, as the operation that applies them fastest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.operations import Matrix, Operation, Slices

# A chain with at most this share of non-zero diagonals is applied by slices, not by a matrix.
BANDED = 0.2


def shifts(
    shape: tuple[int, ...], axis: int, steps: NDArray[np.int64], probs: NDArray, edge: str
) -> Slices:
    """Moves by ``steps`` (A | 1, K) positions with ``probs`` (A | 1, K, *broadcast)."""
    n = shape[axis]
    if edge != "reflect":
        steps = np.clip(steps, 1 - n, n - 1)
    elif n > 1:  # turning back at both ends repeats after a whole round
        steps = np.where(np.abs(steps) < n, steps, steps % (2 * (n - 1)))
    else:
        steps = np.zeros_like(steps)
    low, high = min(int(steps.min()), 0), max(int(steps.max()), 0)
    padded = np.arange(low, n + high)
    if edge == "reflect":
        pad = np.abs((padded + n - 1) % max(2 * (n - 1), 1) - (n - 1))
    else:
        pad = np.clip(padded, 0, n - 1)
    offsets = (steps - low).astype(np.int32)
    return Slices(shape, axis, pad.astype(np.int32), offsets, np.ascontiguousarray(probs))


def chain(shape: tuple[int, ...], axis: int, matrix: NDArray[np.float64]) -> Operation:
    """A chain along an axis, by slices when its matrix is banded."""
    n = shape[axis]
    row, column = np.nonzero((matrix != 0).any(axis=tuple(range(matrix.ndim - 2))))
    diagonals = np.unique(column - row)
    if matrix.ndim > 3 or len(diagonals) > max(3, BANDED * n):
        return Matrix(shape, axis, matrix)
    low = int(min(diagonals.min(), 0))
    pad = np.clip(np.arange(low, n + max(int(diagonals.max()), 0)), 0, n - 1).astype(np.int32)
    at_x = np.arange(n)
    probs = np.zeros((len(matrix), len(diagonals), n))
    for k, diagonal in enumerate(diagonals):
        inside = (at_x + diagonal >= 0) & (at_x + diagonal < n)
        probs[:, k, inside] = matrix[:, at_x[inside], at_x[inside] + diagonal]
    lengths = [1] * len(shape)
    lengths[axis] = n
    offsets = (diagonals - low).astype(np.int32)[None]
    return Slices(shape, axis, pad, offsets, probs.reshape(len(matrix), len(diagonals), *lengths))
