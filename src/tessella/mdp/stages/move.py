"""Move: the coordinate along one axis follows a Markov chain.

    E[w](x) = sum_x' M[x, x'] w(x')

A chain with few non-zero diagonals is applied by slices, like a shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.mdp.checks import FunctionChecks, as_numbers, check_probabilities
from tessella.mdp.stages.operation import (
    NO_DISPLACEMENT,
    Displacement,
    RandomOperation,
    compiled_action_slice,
    is_shared_by_actions,
    with_length,
)
from tessella.mdp.stages.shift import AxisShift
from tessella.mdp.stages.stage import Function, Stage
from tessella.mdp.state_action_space import call_if_function, names_time

# A chain with at most this share of non-zero diagonals is applied by slices, not by a matrix.
BANDED_MAX_DIAGONAL_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Move(Stage):
    """The coordinate along ``axis`` follows the Markov chain ``matrix``, (n, n).

    A function of other axes or the action returns (..., n, n): its arguments have two trailing axes
    of length one.

    Args:
        axis: the axis that changes.
        matrix: transition probabilities, or a function that returns them.
        pays, costs, counts: as in ``Pay``.

    Example:
        >>> weather = ts.Move("weather", [[0.8, 0.2], [0.4, 0.6]])
        >>> mdp = ts.MDP.staged({"weather": ["dry", "wet"]}, ("wait",), 0.9, [weather])
        >>> mdp.to_arrays().transition[0, 0]            # after a dry day
        array([0.8, 0.2])
    """

    axis: str
    matrix: ArrayLike | Function
    pays: Function | None = None
    costs: Function | None = None
    counts: Mapping[str, float | Function] | None = None

    subject_template = "the move of {axis}"

    def build_operation(self, checks: FunctionChecks) -> RandomOperation:
        space = checks.space
        subject = self.subject
        axis = space.axis(self.axis)
        n = space.grid.shape[axis]
        mesh = space.mesh(extra_axes=1)
        given = call_if_function(self.matrix, mesh, subject, values_per_point=n * n)
        matrix = as_numbers(given, subject)
        if matrix.ndim < 2 or matrix.shape[-2:] != (n, n):
            requirement = f"{subject} must be a ({n}, {n}) matrix"
            raise ModelError(requirement, value=f"has shape {matrix.shape}")
        matrix = matrix.reshape((1,) * (space.rank + 1 - matrix.ndim) + matrix.shape)
        if matrix.ndim > space.rank + 1 or matrix.shape[axis + 1] != 1:
            raise ModelError(
                f"{subject} cannot be given its own axis: the rows of the matrix are that"
            )
        # As an open mesh: rows along the axis itself, next positions along the axis of the noise.
        rows = np.moveaxis(np.squeeze(matrix, axis + 1), -2, axis + 1)
        rows = check_probabilities(space, rows, n, f"the rows of {subject}")
        operation = AxisMatrix(space.grid.shape, (axis,), np.moveaxis(rows, -1, 1))
        varies_with_time = space.time is not None and names_time(self.matrix)
        return operation if varies_with_time else build_chain(operation)


def build_chain(chain: AxisMatrix) -> AxisMatrix | AxisShift:
    """The chain as slices, if its matrix is banded."""
    n = chain.shape[chain.axis]
    matrix = chain.matrix
    row, column = np.nonzero((matrix != 0).any(axis=tuple(range(matrix.ndim - 2))))
    diagonals = np.unique(column - row)
    if matrix.ndim > 3 or len(diagonals) > max(3, BANDED_MAX_DIAGONAL_SHARE * n):
        return chain
    low = int(min(diagonals.min(), 0))
    high = max(int(diagonals.max()), 0)
    positions = np.arange(n, dtype=np.int32)
    pad_index = np.pad(positions, (-low, high), "edge")
    probs = np.zeros((len(matrix), len(diagonals), n))
    for k, diagonal in enumerate(diagonals):
        is_inside = (positions + diagonal >= 0) & (positions + diagonal < n)
        probs[:, k, is_inside] = matrix[:, positions[is_inside], positions[is_inside] + diagonal]
    probs = probs.reshape(*probs.shape[:2], *with_length((1,) * len(chain.shape), chain.axis, n))
    offsets = (diagonals - low).astype(np.int32)[None]
    return AxisShift(chain.shape, chain.axes, pad_index, offsets, probs)


@dataclass(frozen=True, eq=False)
class AxisMatrix(RandomOperation):
    """A chain along one axis: the k-th outcome leads to position k."""

    probs: NDArray[np.float64]  # (A | 1, n, *broadcast)

    hashed_name = "Matrix"
    mesh_fields = ("probs",)

    def fingerprint_key(self) -> tuple:
        return self.shape, self.axis, self.matrix

    @property
    def matrix(self) -> NDArray[np.float64]:
        """(A | 1, *others, n, n) over all other axes; (A | 1, n, n) if it depends on none."""
        matrix = np.moveaxis(np.moveaxis(self.probs, 1, -1), self.axis + 1, -2)
        if all(length == 1 for length in matrix.shape[1:-2]):
            return matrix.reshape(len(matrix), *matrix.shape[-2:])
        return matrix

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix}

    def positions(self, axis: int) -> NDArray:
        current = self.current_positions(axis)
        return np.moveaxis(current, axis + 2, 1) if axis == self.axis else current

    def max_displacement(self, axis: int) -> Displacement | None:
        return None if axis == self.axis else NO_DISPLACEMENT

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.shape[self.axis]

    def sample(self, states, actions, rng):
        positions, next_position = self.draw(states, actions, rng)
        positions[self.axis] = next_position
        return np.ravel_multi_index(tuple(positions), self.shape), None

    @staticmethod
    def supports_policy_arrays(axes, arrays, /) -> bool:
        return is_shared_by_actions(arrays["matrix"])

    @staticmethod
    def apply(axes, arrays, w, action, /):
        import jax.numpy as jnp

        (axis,) = axes
        action = 0 if jnp.ndim(action) else action  # under a policy, all actions share the matrix
        matrix = compiled_action_slice(arrays["matrix"], action)  # (*others, n, n)
        moved = jnp.moveaxis(w, axis, -1)
        if matrix.ndim == 2:
            out = moved @ matrix.T
        else:
            out = jnp.einsum("...xy,...y->...x", matrix, moved)
        return jnp.moveaxis(out, -1, axis)
