"""Move: the coordinate along one axis follows a Markov chain.

    E[w](x) = sum_x' M[x, x'] w(x')

A chain with few non-zero diagonals is applied by slices, like a shift.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.mdp import checks
from tessella.mdp.chance import draw
from tessella.mdp.scope import Scope, call
from tessella.mdp.stages.operation import (
    Operation,
    Reach,
    at,
    of_action,
    places,
    shared,
    with_length,
)
from tessella.mdp.stages.slices import Slices
from tessella.mdp.stages.stage import Function, Stage, StageNumbers, reward_of
from tessella.rounding import Mass, mass_of

# A chain with at most this share of non-zero diagonals is applied by slices, not by a matrix.
BANDED = 0.2


@dataclass(frozen=True, eq=False)
class Move(Stage):
    """The coordinate along ``axis`` follows the Markov chain ``matrix``, (n, n).

    A function of other axes or the action returns (..., n, n): it is called with arrays that carry
    two trailing axes of length one.
    """

    axis: str
    matrix: ArrayLike | Function
    pays: Function | None = None
    costs: Function | None = None

    def numbers(self, scope: Scope) -> StageNumbers:
        axis = scope.axis(self.axis)
        n = scope.grid.shape[axis]
        what = f"the move of {self.axis}"
        given = self.matrix
        if callable(given):
            names = {name: a[..., None] for name, a in scope.mesh().items()}
            given = call(given, names, what, each=n * n)
        matrix = checks.as_numbers(given, what)
        if matrix.ndim < 2 or matrix.shape[-2:] != (n, n):
            raise ModelError(
                f"{what} must be a ({n}, {n}) matrix", value=f"has shape {matrix.shape}"
            )
        matrix = matrix.reshape((1,) * (scope.rank + 1 - matrix.ndim) + matrix.shape)
        if matrix.ndim > scope.rank + 1 or matrix.shape[axis + 1] != 1:
            raise ModelError(
                f"{what} cannot be given its own axis: the rows of the matrix are that"
            )
        # Rows along the axis itself, the place reached as the noise: an open mesh like any other.
        law = checks.probabilities(
            scope, np.moveaxis(np.squeeze(matrix, axis + 1), -2, axis + 1), n, f"the rows of {what}"
        )
        matrix = np.moveaxis(law, axis + 1, -2)
        if all(length == 1 for length in matrix.shape[1:-2]):
            matrix = matrix.reshape(len(matrix), n, n)
        paid = reward_of(scope, self.paid, f"the reward of {what}")
        return StageNumbers(chain(scope.grid.shape, axis, matrix), paid, self.paid, None)


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


@dataclass(frozen=True, eq=False)
class Matrix(Operation):
    """A chain along one axis: ``matrix`` (A | 1, *given, n, n), given axes in grid order."""

    axis: int
    matrix: NDArray[np.float64]

    def without(self, axes: int) -> Matrix | None:
        if self.axis >= axes:
            return None
        if self.matrix.ndim == 3:
            return Matrix(self.shape[:axes], self.axis, self.matrix)
        lead, own = self.matrix.shape[:axes], self.matrix.shape[-2:]  # its own axis is not given
        if np.prod(self.matrix.shape[axes:-2]) > 1:
            return None
        return Matrix(self.shape[:axes], self.axis, self.matrix.reshape(*lead, *own))

    def reach(self, axis: int) -> Reach | None:
        return None if axis == self.axis else Reach()

    def window(self, axis: int, first: int, count: int) -> Matrix:
        matrix, given = self.matrix, 1 + axis - (axis > self.axis)  # its own axis is not given
        if matrix.ndim > 3:
            matrix = places(matrix, given, first, count)
        return Matrix(with_length(self.shape, axis, count), self.axis, matrix)

    @property
    def acts(self) -> bool:
        return len(self.matrix) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix}

    def compiled(self, acts: bool) -> CompiledMatrix:
        return CompiledMatrix(self.axis, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        state = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        matrix = at(self.matrix, action)
        for k in range(matrix.shape[-1]):
            to = np.take(state, np.full(self.shape[self.axis], k), axis=self.axis)
            given = matrix.ndim > 2
            p = np.moveaxis(matrix[..., k], -1, self.axis) if given else self._own(matrix, k)
            yield to, np.broadcast_to(p, self.shape)

    def _own(self, matrix: NDArray, k: int) -> NDArray:
        shape = [1] * len(self.shape)
        shape[self.axis] = -1
        return matrix[:, k].reshape(shape)

    @property
    def mass(self) -> Mass:
        return mass_of(self.matrix, -1)

    @property
    def terms(self) -> int:
        return self.matrix.shape[-1]

    @property
    def adjoint_terms(self) -> int:
        return self.matrix.shape[-1]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        matrix, own = self.matrix, where[self.axis]
        a = actions if len(matrix) > 1 else np.zeros_like(actions)
        if matrix.ndim == 3:
            rows = matrix[a, own]
        else:
            others = [w for i, w in enumerate(where) if i != self.axis]
            index = [w if n > 1 else 0 for w, n in zip(others, matrix.shape[1:-2], strict=True)]
            rows = matrix[(a, *index, own)]
        where[self.axis] = draw(rows, rng)
        return np.ravel_multi_index(tuple(where), self.shape), None


@dataclass(frozen=True)
class CompiledMatrix:
    """The compiled side of ``Matrix``; M may depend on the other axes."""

    axis: int
    acts: bool

    stays = False
    takes_open = False

    def follows(self, arrays) -> bool:
        return shared(arrays["matrix"])

    def apply(self, arrays, w, action):
        import jax.numpy as jnp

        action = 0 if jnp.ndim(action) else action  # a policy comes here only where all share it
        matrix = of_action(arrays["matrix"], action)  # (*given, n, n), given axis of length 1
        moved = jnp.moveaxis(w, self.axis, -1)
        if matrix.ndim == 2:
            out = moved @ matrix.T
        else:
            out = jnp.einsum("...xy,...y->...x", matrix, moved)
        return jnp.moveaxis(out, -1, self.axis)
