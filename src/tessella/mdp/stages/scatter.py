"""Jumps of several coordinates at once: over whole states, or a matrix on the few axes it touches.

A scatter looks every target up: ``E[w](s) = sum_k p_k(s) w(target_k(s))`` over whole states s.

A jump that touches few axes needs nothing over all states. With y the coordinates that it depends
on, x those that it moves, and z all others,

    E[w](y, z) = sum_x M[y, x] w(x, z),        M[y, x] = sum of p_k(y) over k with target_k(y) = x.

Only the columns x that something leads to are kept. A coordinate that is moved and not depended on
does not matter before the jump: the result is an open mesh, of length one along it. Likewise along
all that later stages overwrite or forget: neither is worked out for each of its values. An entry
adds up K probabilities and then as many products as there are columns. Cut along an axis that it
moves, it is a scatter again: blocks have different columns.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.grid import index_type
from tessella.mdp import checks
from tessella.mdp.context import EvaluationContext, NoiseTable, charge_entries
from tessella.mdp.dynamics import entries_for_walkers
from tessella.mdp.stages.interpolation import INTERPOLATION_ROUNDING
from tessella.mdp.stages.operation import (
    RandomOperation,
    action_slice,
    compiled_action_slice,
    drop_trailing_axes,
    gather_policy_entries,
    is_shared_by_actions,
    relative_to_block,
    take_range,
    with_length,
)

# Targets of whole states up to which a fingerprint is made of these.
FINGERPRINT_MAX_TARGETS = 1 << 26
# Columns for each outcome, at most: more products than that take longer than looking up.
MATRIX_MAX_COLUMNS_PER_OUTCOME = 64


@dataclass(frozen=True, eq=False)
class Scatter(RandomOperation):
    """Any map: ``target`` (A | 1, K, *grid) flat states, ``probs`` (A | 1, K, *broadcast)."""

    target: NDArray[np.integer]
    probs: NDArray[np.float64]

    meshes = ("target", "probs")

    @property
    def moved_axes(self) -> tuple[int, ...]:
        return tuple(range(len(self.shape)))

    def positions(self, axis: int) -> NDArray:
        return self.target // math.prod(self.shape[axis + 1 :]) % self.shape[axis]

    def target_states(self, action: int, k: int) -> NDArray:
        return action_slice(self.target, action)[k]

    def restrict_to_leading_axes(self, axes: int) -> Scatter | None:
        probs = drop_trailing_axes(self.probs, axes + 2)
        short = self.shape[:axes]
        to = self.target.reshape(*self.target.shape[: axes + 2], -1)
        others = to.shape[-1]
        stays = probs is not None and (to % others == np.arange(others)).all()
        if probs is None or not stays or (to // others != to[..., :1] // others).any():
            return None
        target = (to[..., 0] // others).astype(index_type(math.prod(short)))
        return replace(self, shape=short, target=target, probs=probs)

    def block(self, axis: int, first: int, count: int) -> Scatter:
        shape = with_length(self.shape, axis, count)
        where = list(np.unravel_index(take_range(self.target, axis + 2, first, count), self.shape))
        where[axis] = relative_to_block(where[axis], first, count)
        target = np.ravel_multi_index(tuple(where), shape).astype(self.target.dtype)
        probs = take_range(self.probs, axis + 2, first, count)
        return replace(self, shape=shape, target=target, probs=probs)

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        a = actions if len(self.target) > 1 else 0
        return self.target[(a, k, *where)].astype(np.int64), k

    @staticmethod
    def apply(settings, arrays, w, action, /):
        import jax.numpy as jnp
        from jax import lax

        flat = w.ravel()
        target = arrays["target"]
        probs = arrays["probs"]

        def add(total, term):
            to, p = term
            return total + p * jnp.take(flat, to, mode="clip"), None

        def add_own(total, k):
            to = gather_policy_entries(target, action, k)
            return add(total, (to, gather_policy_entries(probs, action, k)))

        if jnp.ndim(action):
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(target.shape[1]))[0]
        terms = compiled_action_slice(target, action), compiled_action_slice(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]


@dataclass(frozen=True, eq=False)
class InterpolatedScatter(Scatter):
    """Landings between cut points: each value of the noise leads to the corners of a cell."""

    corners: int
    interpolated_axes: int  # axes that are interpolated along

    @property
    def targets_per_value(self) -> int:
        return self.corners

    @property
    def relative_rounding(self) -> float:
        return INTERPOLATION_ROUNDING * self.interpolated_axes

    @property
    def is_interpolating(self) -> bool:
        return self.interpolated_axes > 0

    def sample(self, states, actions, rng):
        states, j = super().sample(states, actions, rng)
        return states, j // self.corners


def joint_operation(
    context: EvaluationContext, moved: dict[int, ArrayLike], noise_table: NoiseTable, subject: str
) -> JointMatrix | None:
    """The jump to new values by position of the axis; None where a matrix would be larger."""
    count = len(noise_table)
    shape = context.grid.shape
    axes = tuple(sorted(moved))
    if not axes or context.period is not None:  # at other times it may depend on other axes
        return None
    where = [checks.axis_positions(context, a, moved[a], subject, noise_table) for a in axes]
    lengths = tuple(shape[a] for a in axes)
    reached = np.broadcast_shapes(*(place.shape for place in where))
    charge_entries(math.prod(reached[:-1]) * count, subject)
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

    meshes = ("target", "probs")
    accepts_broadcast_input = True

    def identity(self) -> tuple:
        """What a fingerprint is made of: as for any jump, unless that is too much."""
        if math.prod(self.shape) * math.prod(self.target.shape[:2]) > FINGERPRINT_MAX_TARGETS:
            return self.shape, self.moved, self.target, self.probs
        return self.shape, self._whole_state_targets(), self.probs

    def _whole_state_targets(self) -> NDArray[np.integer]:
        """(A | 1, K, *grid) the targets as whole states."""
        count = self.target.shape[1]
        own = range(len(self.target))
        whole = [[self.target_states(action, k) for k in range(count)] for action in own]
        return np.array(whole, dtype=index_type(math.prod(self.shape)))

    @property
    def settings(self) -> Hashable:
        return self.moved, self.moved_lengths

    @property
    def moved_axes(self) -> tuple[int, ...]:
        return self.moved

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

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix, "columns": self.columns}

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        others = with_lengths(after, self.moved, (1,) * len(self.moved))
        return np.broadcast_shapes(others, self.row_shape[1:])

    def positions(self, axis: int) -> NDArray:
        if axis not in self.moved:
            return self.own_positions(axis)
        return np.unravel_index(self.target, self.moved_lengths)[self.moved.index(axis)]

    def target_states(self, action: int, k: int) -> NDArray:
        to = np.unravel_index(action_slice(self.target, action)[k], self.moved_lengths)
        return self.flat_states(dict(zip(self.moved, to, strict=True)))

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
    def rounding_terms(self) -> int:
        return self.target.shape[1] + len(self.columns)

    @property
    def adjoint_rounding_terms(self) -> int:
        touched = with_lengths(self.row_shape[1:], self.moved, self.moved_lengths)
        return self.rounding_terms + math.prod(touched)

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        rows = entries_for_walkers(np.moveaxis(self.target, 1, -1), actions, where)
        reached = np.unravel_index(rows[np.arange(len(states)), k], self.moved_lengths)
        for axis, position in zip(self.moved, reached, strict=True):
            where[axis] = position
        return np.ravel_multi_index(tuple(where), self.shape), k

    @staticmethod
    def supports_policy_arrays(arrays, /) -> bool:
        return is_shared_by_actions(arrays["matrix"])

    @staticmethod
    def apply(settings, arrays, w, action, /):
        import jax.numpy as jnp

        moved, lengths = settings
        action = 0 if jnp.ndim(action) else action  # a policy comes here only where all share it
        matrix = compiled_action_slice(arrays["matrix"], action)
        columns = arrays["columns"]
        reached = _select_columns(w, columns, moved, lengths)
        depends = [axis for axis in range(w.ndim) if matrix.shape[axis] > 1]
        left = [axis for axis in range(w.ndim) if axis not in moved and w.shape[axis] > 1]
        product = jnp.einsum(
            reached.reshape(*(w.shape[axis] for axis in left), len(columns)),
            [*left, w.ndim],
            matrix.reshape(*(matrix.shape[axis] for axis in depends), len(columns)),
            [*depends, w.ndim],
            sorted({*left, *depends}),
            precision="highest",
        )
        others = with_lengths(w.shape, moved, (1,) * len(moved))
        return product.reshape(np.broadcast_shapes(others, matrix.shape[:-1]))


def _select_columns(w, columns, moved: tuple[int, ...], lengths: tuple[int, ...]):
    """(*others, columns) the values of w at the targets of a jump, compiled."""
    import jax.numpy as jnp

    w = jnp.broadcast_to(w, with_lengths(w.shape, moved, lengths))
    others = [axis for axis in range(w.ndim) if axis not in moved]
    flat = jnp.transpose(w, (*others, *moved))
    flat = flat.reshape(*(w.shape[axis] for axis in others), -1)
    if len(columns) == flat.shape[-1]:
        return flat
    return jnp.take(flat, columns, axis=-1, mode="clip")


def with_lengths(
    shape: tuple[int, ...], axes: tuple[int, ...], lengths: tuple[int, ...]
) -> tuple[int, ...]:
    """``shape`` with other lengths of some axes."""
    for axis, length in zip(axes, lengths, strict=True):
        shape = with_length(shape, axis, length)
    return shape
