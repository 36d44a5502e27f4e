"""A jump that touches few axes of a grid: a matrix on them, and nothing over all states.

With y the coordinates that the jump depends on, x those that it moves, and z all others,

    E[w](y, z) = sum_x M[y, x] w(x, z),        M[y, x] = sum of p_k(y) over k with target_k(y) = x.

Only the columns x that something leads to are kept. A coordinate that is moved and not depended on
does not matter before the jump: the result is an open mesh, of length one along it. Likewise along
all that later stages overwrite or forget: neither is worked out for each of its values. An entry
adds up K probabilities and then so many products as there are columns. Cut along an axis that it
moves, it is a jump over whole states again: blocks have different columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.grid import index_type
from tessella.mdp import checks
from tessella.mdp.context import EvaluationContext, count_entries
from tessella.mdp.sampling import entries_for_walkers
from tessella.mdp.stages.noise import NoiseTable
from tessella.mdp.stages.operation import (
    Displacement,
    RandomOperation,
    action_slice,
    compiled_action_slice,
    drop_trailing_axes,
    is_shared_by_actions,
    relative_to_block,
    take_range,
    with_length,
)
from tessella.mdp.stages.scatter import Scatter

# Targets of whole states up to which a fingerprint is made of these.
FINGERPRINT_MAX_TARGETS = 1 << 26
# Columns for each outcome, at most: more products than that take longer than looking up.
MATRIX_MAX_COLUMNS_PER_OUTCOME = 64


def joint_operation(
    context: EvaluationContext, moved: dict[int, ArrayLike], noise_table: NoiseTable, subject: str
) -> JointMatrix | None:
    """The jump to new values by position of the axis; None where a matrix would be larger."""
    count = len(noise_table.variable[1])
    shape = context.grid.shape
    axes = tuple(sorted(moved))
    if not axes or context.period is not None:  # at other times it may depend on other axes
        return None
    where = [
        checks.axis_positions(
            context, a, moved[a], subject, noise_table.variable, noise_table.probs
        )
        for a in axes
    ]
    lengths = tuple(shape[a] for a in axes)
    reached = np.broadcast_shapes(*(place.shape for place in where))
    count_entries(math.prod(reached[:-1]) * count, subject)
    flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*where)), lengths)
    flat = flat.astype(index_type(math.prod(lengths)))
    flat = np.broadcast_to(flat, (*flat.shape[:-1], count))
    columns = np.unique(flat)
    rows = math.prod(np.broadcast_shapes(flat.shape, noise_table.probs.shape)[:-1])
    if (
        rows * len(columns) > math.prod(shape) * count
        or len(columns) > MATRIX_MAX_COLUMNS_PER_OUTCOME * count
    ):
        return None
    target = np.moveaxis(flat, -1, 1)
    probs = np.moveaxis(noise_table.probs, -1, 1)
    return JointMatrix(shape, axes, target.copy(), np.ascontiguousarray(probs), columns)


@dataclass(frozen=True, eq=False)
class JointMatrix(RandomOperation):
    """Outcomes on a few axes: ``target`` (A | 1, K, *broadcast) counts states of ``moved`` axes."""

    moved: tuple[int, ...]
    target: NDArray[np.integer]
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)
    columns: NDArray[np.integer]  # the targets that there are, in order

    def identity(self) -> tuple:
        """What a fingerprint is made of: as for any jump, unless that is too much."""
        if math.prod(self.shape) * math.prod(self.target.shape[:2]) > FINGERPRINT_MAX_TARGETS:
            return self.shape, self.moved, self.target, self.probs
        return self.shape, self._whole_state_targets(), self.probs

    def _whole_state_targets(self) -> NDArray[np.integer]:
        """(A | 1, K, *grid) the targets as whole states."""
        whole = [[self._flat_states(to) for to in own] for own in self.target]
        return np.array(whole, dtype=index_type(math.prod(self.shape)))

    @property
    def moved_lengths(self) -> tuple[int, ...]:
        """Of the moved axes."""
        return tuple(self.shape[axis] for axis in self.moved)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(A | 1, *broadcast) the shape of all that it depends on."""
        lengths = np.broadcast_shapes(self.target.shape, self.probs.shape)
        return (lengths[0], *lengths[2:])

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """(A | 1, *broadcast, columns)"""
        rows = self.row_shape
        width = len(self.columns)
        row = np.arange(math.prod(rows)).reshape(rows[0], 1, *rows[1:])
        entry = row * width + np.searchsorted(self.columns, self.target)
        weights = np.broadcast_to(self.probs, entry.shape)
        added = np.zeros(math.prod(rows) * width)
        np.add.at(added, entry.ravel(), weights.ravel())
        return added.reshape(*rows, width)

    def restrict_to_leading_axes(self, axes: int) -> JointMatrix | None:
        target, probs = (drop_trailing_axes(a, axes + 2) for a in (self.target, self.probs))
        if target is None or probs is None or max(self.moved) >= axes:
            return None
        return replace(self, shape=self.shape[:axes], target=target, probs=probs)

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        others = with_lengths(after, self.moved, (1,) * len(self.moved))
        return np.broadcast_shapes(others, self.row_shape[1:])

    def max_displacement(self, axis: int) -> Displacement:
        if axis not in self.moved:
            return Displacement()
        reached = np.unravel_index(self.target, self.moved_lengths)[self.moved.index(axis)]
        own = with_length((1,) * self.target.ndim, axis + 2, -1)
        return Displacement.covering(reached - np.arange(self.shape[axis]).reshape(own))

    def block(self, axis: int, first: int, count: int) -> RandomOperation:
        target, probs = (take_range(a, axis + 2, first, count) for a in (self.target, self.probs))
        shape = with_length(self.shape, axis, count)
        if axis not in self.moved:
            return replace(self, shape=shape, target=target, probs=probs)
        reached = list(np.unravel_index(target, self.moved_lengths))
        own = self.moved.index(axis)
        reached[own] = relative_to_block(reached[own], first, count)
        lengths = with_length(self.moved_lengths, own, count)
        part = replace(self, shape=shape, target=np.ravel_multi_index(tuple(reached), lengths))
        return Scatter(shape, part._whole_state_targets(), probs)

    @property
    def depends_on_action(self) -> bool:
        return len(self.target) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix, "columns": self.columns}

    def compile(self, depends_on_action: bool) -> CompiledJointMatrix:
        return CompiledJointMatrix(self.moved, self.moved_lengths, depends_on_action)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        for to, p in zip(
            action_slice(self.target, action), action_slice(self.probs, action), strict=True
        ):
            yield self._flat_states(to), np.broadcast_to(p, self.shape)

    def _flat_states(self, to: NDArray) -> NDArray:
        """(grid) whole states, from an open mesh of those of the moved axes."""
        where = self._with_moved_axes(list(np.indices(self.shape, sparse=True)), to)
        flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*where)), self.shape)
        return np.broadcast_to(flat, self.shape)

    def _with_moved_axes(self, where: list[NDArray], to: NDArray) -> list[NDArray]:
        reached = np.unravel_index(to, self.moved_lengths)
        for axis, place in zip(self.moved, reached, strict=True):
            where[axis] = place
        return where

    @property
    def rounding_terms(self) -> int:
        return self.target.shape[1] + len(self.columns)

    @property
    def adjoint_rounding_terms(self) -> int:
        touched = with_lengths(self.row_shape[1:], self.moved, self.moved_lengths)
        return self.rounding_terms + math.prod(touched)

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        rows = entries_for_walkers(np.moveaxis(self.target, 1, -1), actions, where)
        to = self._with_moved_axes(list(where), rows[np.arange(len(states)), k])
        return np.ravel_multi_index(tuple(to), self.shape), k


def with_lengths(
    shape: tuple[int, ...], axes: tuple[int, ...], lengths: tuple[int, ...]
) -> tuple[int, ...]:
    """``shape`` with other lengths of some axes."""
    for axis, length in zip(axes, lengths, strict=True):
        shape = with_length(shape, axis, length)
    return shape


@dataclass(frozen=True)
class CompiledJointMatrix:
    """The compiled side of ``JointMatrix``."""

    moved: tuple[int, ...]
    moved_lengths: tuple[int, ...]
    depends_on_action: bool

    is_identity = False
    accepts_broadcast_input = True

    def supports_policy_arrays(self, arrays) -> bool:
        return is_shared_by_actions(arrays["matrix"])

    def apply(self, arrays, w, action):
        import jax.numpy as jnp

        action = 0 if jnp.ndim(action) else action  # a policy comes here only where all share it
        matrix = compiled_action_slice(arrays["matrix"], action)
        columns = arrays["columns"]
        reached = self._columns_of(w, columns)
        kept = self._unmoved_axes(w.ndim)
        depends = [axis for axis in range(w.ndim) if matrix.shape[axis] > 1]
        left = [axis for axis in kept if w.shape[axis] > 1]
        product = jnp.einsum(
            reached.reshape(*(w.shape[axis] for axis in left), len(columns)),
            [*left, w.ndim],
            matrix.reshape(*(matrix.shape[axis] for axis in depends), len(columns)),
            [*depends, w.ndim],
            sorted({*left, *depends}),
            precision="highest",
        )
        others = with_lengths(w.shape, self.moved, (1,) * len(self.moved))
        return product.reshape(np.broadcast_shapes(others, matrix.shape[:-1]))

    def _unmoved_axes(self, rank: int) -> list[int]:
        return [axis for axis in range(rank) if axis not in self.moved]

    def _columns_of(self, w, columns):
        """(*others, columns) what w is where the jump leads."""
        import jax.numpy as jnp

        w = jnp.broadcast_to(w, with_lengths(w.shape, self.moved, self.moved_lengths))
        others = self._unmoved_axes(w.ndim)
        flat = jnp.transpose(w, (*others, *self.moved))
        flat = flat.reshape(*(w.shape[axis] for axis in others), -1)
        if len(columns) == flat.shape[-1]:
            return flat
        return jnp.take(flat, columns, axis=-1, mode="clip")
