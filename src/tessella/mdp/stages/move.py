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
from tessella.mdp.context import EvaluationContext, call_by_name
from tessella.mdp.sampling import draw_indices
from tessella.mdp.stages.axis_shift import AxisShift
from tessella.mdp.stages.operation import (
    Displacement,
    Operation,
    action_slice,
    compiled_action_slice,
    is_shared_by_actions,
    take_range,
    with_length,
)
from tessella.mdp.stages.stage import CompiledStage, Function, Stage, stage_reward
from tessella.rounding import RowSumBounds, bound_sums

# A chain with at most this share of non-zero diagonals is applied by slices, not by a matrix.
BANDED_MAX_DIAGONAL_SHARE = 0.2


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

    def compile(self, context: EvaluationContext) -> CompiledStage:
        axis = context.axis(self.axis)
        n = context.grid.shape[axis]
        subject = f"the move of {self.axis}"
        given = self.matrix
        if callable(given):
            names = {name: a[..., None] for name, a in context.mesh().items()}
            given = call_by_name(given, names, subject, each=n * n)
        matrix = checks.as_numbers(given, subject)
        if matrix.ndim < 2 or matrix.shape[-2:] != (n, n):
            raise ModelError(
                f"{subject} must be a ({n}, {n}) matrix", value=f"has shape {matrix.shape}"
            )
        matrix = matrix.reshape((1,) * (context.rank + 1 - matrix.ndim) + matrix.shape)
        if matrix.ndim > context.rank + 1 or matrix.shape[axis + 1] != 1:
            raise ModelError(
                f"{subject} cannot be given its own axis: the rows of the matrix are that"
            )
        # Rows along the axis itself, the place reached as the noise: an open mesh like any other.
        noise_table = checks.check_probabilities(
            context,
            np.moveaxis(np.squeeze(matrix, axis + 1), -2, axis + 1),
            n,
            f"the rows of {subject}",
        )
        matrix = np.moveaxis(noise_table, axis + 1, -2)
        if all(length == 1 for length in matrix.shape[1:-2]):
            matrix = matrix.reshape(len(matrix), n, n)
        paid = stage_reward(context, self.net_reward, f"the reward of {subject}")
        return CompiledStage(
            chain_operation(context.grid.shape, axis, matrix), paid, self.net_reward, None
        )


def chain_operation(shape: tuple[int, ...], axis: int, matrix: NDArray[np.float64]) -> Operation:
    """A chain along an axis, by slices when its matrix is banded."""
    n = shape[axis]
    row, column = np.nonzero((matrix != 0).any(axis=tuple(range(matrix.ndim - 2))))
    diagonals = np.unique(column - row)
    if matrix.ndim > 3 or len(diagonals) > max(3, BANDED_MAX_DIAGONAL_SHARE * n):
        return AxisMatrix(shape, axis, matrix)
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
    return AxisShift(
        shape, axis, pad, offsets, probs.reshape(len(matrix), len(diagonals), *lengths)
    )


@dataclass(frozen=True, eq=False)
class AxisMatrix(Operation):
    """A chain along one axis: ``matrix`` (A | 1, *given, n, n), given axes in grid order."""

    axis: int
    matrix: NDArray[np.float64]

    def restrict_to_leading_axes(self, axes: int) -> AxisMatrix | None:
        if self.axis >= axes:
            return None
        if self.matrix.ndim == 3:
            return AxisMatrix(self.shape[:axes], self.axis, self.matrix)
        # its own axis is not given
        lead = self.matrix.shape[:axes]
        own = self.matrix.shape[-2:]
        if np.prod(self.matrix.shape[axes:-2]) > 1:
            return None
        return AxisMatrix(self.shape[:axes], self.axis, self.matrix.reshape(*lead, *own))

    def max_displacement(self, axis: int) -> Displacement | None:
        return None if axis == self.axis else Displacement()

    def block(self, axis: int, first: int, count: int) -> AxisMatrix:
        # its own axis is not given
        matrix = self.matrix
        given = 1 + axis - (axis > self.axis)
        if matrix.ndim > 3:
            matrix = take_range(matrix, given, first, count)
        return AxisMatrix(with_length(self.shape, axis, count), self.axis, matrix)

    @property
    def depends_on_action(self) -> bool:
        return len(self.matrix) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix}

    def compile(self, depends_on_action: bool) -> CompiledAxisMatrix:
        return CompiledAxisMatrix(self.axis, depends_on_action)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        state = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        matrix = action_slice(self.matrix, action)
        for k in range(matrix.shape[-1]):
            to = np.take(state, np.full(self.shape[self.axis], k), axis=self.axis)
            given = matrix.ndim > 2
            p = (
                np.moveaxis(matrix[..., k], -1, self.axis)
                if given
                else self._axis_column(matrix, k)
            )
            yield to, np.broadcast_to(p, self.shape)

    def _axis_column(self, matrix: NDArray, k: int) -> NDArray:
        shape = [1] * len(self.shape)
        shape[self.axis] = -1
        return matrix[:, k].reshape(shape)

    @property
    def row_sums(self) -> RowSumBounds:
        return bound_sums(self.matrix, -1)

    @property
    def rounding_terms(self) -> int:
        return self.matrix.shape[-1]

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.matrix.shape[-1]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        matrix = self.matrix
        own = where[self.axis]
        a = actions if len(matrix) > 1 else np.zeros_like(actions)
        if matrix.ndim == 3:
            rows = matrix[a, own]
        else:
            others = [w for i, w in enumerate(where) if i != self.axis]
            index = [w if n > 1 else 0 for w, n in zip(others, matrix.shape[1:-2], strict=True)]
            rows = matrix[(a, *index, own)]
        where[self.axis] = draw_indices(rows, rng)
        return np.ravel_multi_index(tuple(where), self.shape), None


@dataclass(frozen=True)
class CompiledAxisMatrix:
    """The compiled side of ``AxisMatrix``; M may depend on the other axes."""

    axis: int
    depends_on_action: bool

    is_identity = False
    accepts_broadcast_input = False

    def supports_policy_arrays(self, arrays) -> bool:
        return is_shared_by_actions(arrays["matrix"])

    def apply(self, arrays, w, action):
        import jax.numpy as jnp

        action = 0 if jnp.ndim(action) else action  # a policy comes here only where all share it
        matrix = compiled_action_slice(
            arrays["matrix"], action
        )  # (*given, n, n), given axis of length 1
        moved = jnp.moveaxis(w, self.axis, -1)
        if matrix.ndim == 2:
            out = moved @ matrix.T
        else:
            out = jnp.einsum("...xy,...y->...x", matrix, moved)
        return jnp.moveaxis(out, -1, self.axis)
