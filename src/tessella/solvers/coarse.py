"""A coarse correction: what one coordinate decides slowly is solved for at once, by a small matrix.

Let A be the linear system of a policy, I - discount P_pi (and the mean, for averages). Where one
coordinate wanders slowly, A nearly vanishes on functions of that coordinate, and Krylov methods get
nowhere. Let the columns of Z be functions of one coordinate each, piecewise linear between at most
``NODES`` cut points of its axis, for every axis, and W average against the same functions. Then

    M = I + Z (W A Z)^+ W

is near I where A is harmless, and near the inverse of A where it is not. It is a preconditioner and
nothing else: whichever policy it was made for decides how long a solve takes, not what it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import numerics

NODES = 33  # along an axis: twice as many save few products, and cost as many again
VANISHING = 1e-12  # of the largest singular value: each axis has the constants once more


def hats(length: int) -> NDArray[np.float64]:
    """(m, length) hat functions over the cut points of an axis; they sum to 1."""
    nodes = np.unique(np.linspace(0, length - 1, min(NODES, length)).round())
    return np.stack([np.interp(np.arange(length), nodes, row) for row in np.eye(len(nodes))])


def drawn_out(c: Any, shape: tuple[int, ...]) -> Any:
    """(grid) Z c: the sum of functions of one coordinate each."""
    xp = numerics(c)
    total, begun = xp.zeros(shape, c.dtype), 0
    for axis, length in enumerate(shape):
        basis = xp.asarray(hats(length), c.dtype)
        along = c[begun : begun + len(basis)] @ basis
        total = total + xp.expand_dims(along, [k for k in range(len(shape)) if k != axis])
        begun += len(basis)
    return total


def gathered(x: Any) -> Any:
    """W x = Z' x / size: averages against each of the functions."""
    xp = numerics(x)

    def along(axis: int):
        rest = tuple(k for k in range(x.ndim) if k != axis)
        return xp.asarray(hats(x.shape[axis]), x.dtype) @ x.mean(rest) / x.shape[axis]

    return xp.concatenate([along(axis) for axis in range(x.ndim)])


def small_system(left: Callable[[Any], Any], like: Any) -> Any:
    """W A Z, with a product ``left`` of A for each column; arrays are like ``like``."""
    size, xp = sum(len(hats(length)) for length in like.shape), numerics(like)
    return xp.each(lambda c: gathered(left(drawn_out(c, like.shape))), xp.eye(size)).T


def inverted(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """(W A Z)^+; zeros, which correct nothing, where the matrix is not finite."""
    if not np.isfinite(matrix).all():
        return np.zeros(matrix.shape)
    return np.asarray(np.linalg.pinv(matrix, rcond=VANISHING), dtype=float)


def corrected(inverse: Any, residual: Any) -> Any:
    """M residual; with the inverse transposed, M' residual."""
    return residual + drawn_out(inverse @ gathered(residual), residual.shape)
