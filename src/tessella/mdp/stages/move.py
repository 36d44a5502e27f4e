"""Move: the coordinate along one axis follows a Markov chain.

    E[w](x) = sum_x' M[x, x'] w(x')

A chain with few non-zero diagonals is applied by slices, like a shift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.mdp import checks
from tessella.mdp.context import EvaluationContext, call_if_function, names_time
from tessella.mdp.stages.operation import (
    Displacement,
    Operation,
    RandomOperation,
    compiled_action_slice,
    is_shared_by_actions,
    take_range,
    with_length,
)
from tessella.mdp.stages.shift import AxisShift
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
        given = call_if_function(self.matrix, context.mesh(extra_axes=1), subject, each=n * n)
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
        if context.time is not None and names_time(self.matrix):
            operation = AxisMatrix(context.grid.shape, (axis,), matrix)  # other diagonals later
        else:
            operation = chain_operation(context.grid.shape, axis, matrix)
        paid = stage_reward(context, self.net_reward, f"the reward of {subject}")
        return CompiledStage(operation, paid, self.net_reward, None)


def chain_operation(shape: tuple[int, ...], axis: int, matrix: NDArray[np.float64]) -> Operation:
    """A chain along an axis, by slices when its matrix is banded."""
    n = shape[axis]
    row, column = np.nonzero((matrix != 0).any(axis=tuple(range(matrix.ndim - 2))))
    diagonals = np.unique(column - row)
    if matrix.ndim > 3 or len(diagonals) > max(3, BANDED_MAX_DIAGONAL_SHARE * n):
        return AxisMatrix(shape, (axis,), matrix)
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
        shape, (axis,), pad, offsets, probs.reshape(len(matrix), len(diagonals), *lengths)
    )


@dataclass(frozen=True, eq=False)
class AxisMatrix(RandomOperation):
    """A chain along one axis: ``matrix`` (A | 1, *given, n, n), given axes in grid order.

    Its own axis is not given. A matrix that depends on no other axis is (A | 1, n, n).
    """

    matrix: NDArray[np.float64]

    @property
    def hashed_name(self) -> str:
        return "Matrix"

    def identity(self) -> tuple:
        return self.shape, self.axis, self.matrix

    @property
    def probs(self) -> NDArray[np.float64]:  # type: ignore[override]
        """(A | 1, n, *broadcast) the k-th outcome leads to position k."""
        if self.matrix.ndim > 3:
            return np.moveaxis(np.moveaxis(self.matrix, -2, self.axis + 1), -1, 1)
        own = with_length((1,) * len(self.shape), self.axis, -1)
        n = self.shape[self.axis]
        return np.moveaxis(self.matrix, -1, 1).reshape(len(self.matrix), n, *own)

    def positions(self, axis: int) -> NDArray:
        own = self.own_positions(axis)
        return np.moveaxis(own, axis + 2, 1) if axis == self.axis else own

    @property
    def row_sums(self) -> RowSumBounds:
        return bound_sums(self.matrix, -1)

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix}

    @property
    def depends_on_action(self) -> bool:
        return len(self.matrix) > 1

    def restrict_to_leading_axes(self, count: int) -> AxisMatrix | None:
        if self.axis >= count:
            return None
        matrix = self.matrix
        if matrix.ndim > 3:
            if np.prod(matrix.shape[count:-2]) > 1:
                return None
            matrix = matrix.reshape(*matrix.shape[:count], *matrix.shape[-2:])
        return AxisMatrix(self.shape[:count], self.axes, matrix)

    def max_displacement(self, axis: int) -> Displacement | None:
        return None if axis == self.axis else Displacement()

    def block(self, axis: int, first: int, count: int) -> AxisMatrix:
        matrix = self.matrix
        if matrix.ndim > 3:
            matrix = take_range(matrix, 1 + axis - (axis > self.axis), first, count)
        return AxisMatrix(with_length(self.shape, axis, count), self.axes, matrix)

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.matrix.shape[-1]

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        where[self.axis] = k
        return np.ravel_multi_index(tuple(where), self.shape), None

    @staticmethod
    def supports_policy_arrays(axes, arrays, /) -> bool:
        return is_shared_by_actions(arrays["matrix"])

    @staticmethod
    def apply(axes, arrays, w, action, /):
        import jax.numpy as jnp

        (axis,) = axes
        action = 0 if jnp.ndim(action) else action  # a policy comes here only where all share it
        matrix = compiled_action_slice(arrays["matrix"], action)  # (*given, n, n)
        moved = jnp.moveaxis(w, axis, -1)
        if matrix.ndim == 2:
            out = moved @ matrix.T
        else:
            out = jnp.einsum("...xy,...y->...x", matrix, moved)
        return jnp.moveaxis(out, -1, axis)
