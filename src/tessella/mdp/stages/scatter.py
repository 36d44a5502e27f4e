"""Jumps of several coordinates at once: over whole states, or as a matrix on few axes.

A scatter looks up every target: ``E[w](s) = sum_k p_k(s) w(target_k(s))`` over whole states s.

A jump on few axes needs no array over all states. With y the coordinates that it depends on, x
those that it moves, and z all others,

    E[w](y, z) = sum_x M[y, x] w(x, z),        M[y, x] = sum of p_k(y) over k with target_k(y) = x.

Only columns x with a positive probability are kept. The result does not depend on a coordinate that
is moved without affecting the jump, nor on one that later stages overwrite or forget: it is an open
mesh, of length one along these. An entry adds up K probabilities and then one product for each
column. Cut along an axis that it moves, it becomes a scatter, since blocks have different columns.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.grid import index_type
from tessella.mdp.checks import FunctionChecks
from tessella.mdp.dynamics import take_walker_entries
from tessella.mdp.stages.operation import (
    Operation,
    RandomOperation,
    action_slice,
    compiled_action_slice,
    drop_trailing_axes,
    gather_along,
    gather_policy_entries,
    is_shared_by_actions,
    relative_to_block,
    take_range,
    with_length,
)
from tessella.mdp.state_action_space import charge_entries
from tessella.rounding import EPS

# Number of targets over whole states up to which these enter a fingerprint.
FINGERPRINT_MAX_TARGETS = 1 << 26
INTERPOLATION_ROUNDING = 2 * EPS  # of a probability, for each axis that is interpolated
# Columns for each outcome, at most: with more, products take longer than looking up targets.
MATRIX_MAX_COLUMNS_PER_OUTCOME = 64


@dataclass(frozen=True, eq=False)
class Scatter(RandomOperation):
    """Any map of some axes: ``target`` holds flat indices over these axes.

    Compiled, ``sum_k p_k w[target_k(s)]``, along one axis or over whole states. With ``n_corners``,
    each value of the noise leads to that many neighbours, with the weights of an interpolation
    between grid points (``interpolation``).
    """

    target: NDArray[np.integer]  # (A | 1, K, *broadcast)
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)
    n_corners: int = 0  # 0 without interpolation
    n_interpolated_axes: int = 0  # axes that are interpolated along

    mesh_fields = ("target", "probs")

    @property
    def is_along_axis(self) -> bool:
        """Whether targets are positions on one axis rather than whole states."""
        return self.n_corners > 0 and len(self.axes) == 1

    @property
    def static_args(self) -> Hashable:
        """The axis of the targets; None for whole states."""
        return self.axis if self.is_along_axis else None

    @property
    def hashed_name(self) -> str:  # type: ignore[override]
        if self.is_along_axis:
            return "Blend"
        return "Corners" if self.n_corners else "Scatter"

    def fingerprint_key(self) -> tuple:
        if self.is_along_axis:
            return self.shape, self.axis, self.target, self.probs, self.n_corners
        numbers = self.shape, self.target, self.probs
        return (*numbers, self.n_corners, self.n_interpolated_axes) if self.n_corners else numbers

    @property
    def targets_per_value(self) -> int:
        return max(self.n_corners, 1)

    @property
    def relative_rounding(self) -> float:
        return INTERPOLATION_ROUNDING * self.n_interpolated_axes

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the axes that it moves along."""
        return tuple(self.shape[axis] for axis in self.axes)

    def positions(self, axis: int) -> NDArray:
        if axis not in self.axes:
            return self.current_positions(axis)
        k = self.axes.index(axis)
        return self.target // math.prod(self.lengths[k + 1 :]) % self.lengths[k]

    def target_states(self, action: int) -> Iterator[NDArray]:
        if len(self.axes) < len(self.shape):
            return super().target_states(action)
        return (np.broadcast_to(target, self.shape) for target in action_slice(self.target, action))

    def restrict_to_leading_axes(self, count: int) -> Operation | None:
        if self.is_along_axis:
            return None
        probs = drop_trailing_axes(self.probs, count + 2)
        shape = self.shape[:count]
        full_target = self.target.reshape(*self.target.shape[: count + 2], -1)
        n_others = full_target.shape[-1]
        stays = probs is not None and (full_target % n_others == np.arange(n_others)).all()
        if (
            probs is None
            or not stays
            or (full_target // n_others != full_target[..., :1] // n_others).any()
        ):
            return None
        target = (full_target[..., 0] // n_others).astype(index_type(math.prod(shape)))
        return replace(self, shape=shape, axes=self.axes[:count], target=target, probs=probs)

    def block(self, axis: int, first: int, count: int) -> Scatter:
        shape = with_length(self.shape, axis, count)
        target, probs = (take_range(a, axis + 2, first, count) for a in (self.target, self.probs))
        if axis in self.axes:
            positions = list(np.unravel_index(target, self.lengths))
            k = self.axes.index(axis)
            positions[k] = relative_to_block(positions[k], first, count)
            lengths = with_length(self.lengths, k, count)
            target = np.ravel_multi_index(tuple(positions), lengths).astype(self.target.dtype)
        return replace(self, shape=shape, target=target, probs=probs)

    @property
    def adjoint_rounding_terms(self) -> int:
        if self.is_along_axis:
            return self.target.shape[1] * (1 + self.shape[self.axis])
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    def sample(self, states, actions, rng):
        coordinates, outcome = self.draw(states, actions, rng)
        reached = take_walker_entries(self.target, actions, [outcome, *coordinates])
        for axis, positions in zip(self.axes, np.unravel_index(reached, self.lengths), strict=True):
            coordinates[axis] = positions
        return np.ravel_multi_index(
            tuple(coordinates), self.shape
        ), outcome // self.targets_per_value

    @staticmethod
    def supports_policy_arrays(axis, arrays, /) -> bool:
        return axis is None or is_shared_by_actions(arrays["target"], arrays["probs"])

    @staticmethod
    def apply(axis, arrays, w, action, /):
        import jax.numpy as jnp
        from jax import lax

        target = arrays["target"]
        probs = arrays["probs"]
        flat = w.ravel()

        def add(total, term):
            target_k, prob_k = term
            reached = (
                jnp.take(flat, target_k, mode="clip")
                if axis is None
                else gather_along(w, target_k, axis)
            )
            return total + prob_k * reached, None

        def add_own(total, k):
            target_k = gather_policy_entries(target, action, k)
            return add(total, (target_k, gather_policy_entries(probs, action, k)))

        if jnp.ndim(action) and axis is None:
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(target.shape[1]))[0]
        terms = compiled_action_slice(target, action), compiled_action_slice(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]


def build_joint_matrix(checks: FunctionChecks, moved: dict[int, ArrayLike]) -> JointMatrix | None:
    """The jump to new values by axis; None where a scatter over whole states is smaller."""
    count = checks.n_outcomes
    shape = checks.space.grid.shape
    axes = tuple(sorted(moved))
    if not axes or checks.space.time is not None:  # it may depend on other axes at other times
        return None
    positions = [checks.locate(axis, moved[axis]) for axis in axes]
    lengths = tuple(shape[a] for a in axes)
    reached = np.broadcast_shapes(*(place.shape for place in positions))
    charge_entries(math.prod(reached[:-1]) * count, checks.subject)
    target_mesh = np.ravel_multi_index(tuple(np.broadcast_arrays(*positions)), lengths)
    target_mesh = target_mesh.astype(index_type(math.prod(lengths)))
    target_mesh = np.broadcast_to(target_mesh, (*target_mesh.shape[:-1], count))
    columns = np.unique(target_mesh)
    rows = math.prod(np.broadcast_shapes(target_mesh.shape, checks.probs.shape)[:-1])
    if (
        rows * len(columns) > math.prod(shape) * count
        or len(columns) > MATRIX_MAX_COLUMNS_PER_OUTCOME * count
    ):
        return None
    target = np.moveaxis(target_mesh, -1, 1)
    probs = np.moveaxis(checks.probs, -1, 1)
    return JointMatrix(shape, axes, target.copy(), np.ascontiguousarray(probs), columns=columns)


@dataclass(frozen=True, eq=False)
class JointMatrix(Scatter):
    """A scatter on a few axes, as a matrix from the axes it depends on to its targets."""

    columns: NDArray[np.integer] = field(kw_only=True)  # the distinct targets, ascending

    accepts_broadcast_input = True

    def fingerprint_key(self) -> tuple:
        """The key of a scatter over whole states, unless there are too many."""
        if math.prod(self.shape) * math.prod(self.target.shape[:2]) > FINGERPRINT_MAX_TARGETS:
            return self.shape, self.axes, self.target, self.probs
        return self.over_whole_states().fingerprint_key()

    def over_whole_states(self) -> Scatter:
        """The same with whole states as targets."""
        actions = range(len(self.target))
        targets = [list(self.target_states(action)) for action in actions]
        target = np.array(targets, dtype=index_type(math.prod(self.shape)))
        return Scatter(self.shape, tuple(range(len(self.shape))), target, self.probs)

    @property
    def static_args(self) -> Hashable:
        return self.axes, self.lengths

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(A | 1, *broadcast) the shape of the mesh that it depends on."""
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
        entries = np.zeros(math.prod(rows) * width)
        np.add.at(entries, entry.ravel(), weights.ravel())
        return entries.reshape(*rows, width)

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix, "columns": self.columns}

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        others = with_lengths(after, self.axes, (1,) * len(self.axes))
        return np.broadcast_shapes(others, self.row_shape[1:])

    def restrict_to_leading_axes(self, count: int) -> Operation | None:
        return Operation.restrict_to_leading_axes(self, count)

    def block(self, axis: int, first: int, count: int) -> Scatter:
        part = super().block(axis, first, count)
        if axis in self.axes and isinstance(part, JointMatrix):  # blocks have different columns
            return part.over_whole_states()
        return part

    @property
    def rounding_terms(self) -> int:
        return self.target.shape[1] + len(self.columns)

    @property
    def adjoint_rounding_terms(self) -> int:
        touched = with_lengths(self.row_shape[1:], self.axes, self.lengths)
        return self.rounding_terms + math.prod(touched)

    @staticmethod
    def supports_policy_arrays(static_args, arrays, /) -> bool:
        return is_shared_by_actions(arrays["matrix"])

    @staticmethod
    def apply(static_args, arrays, w, action, /):
        import jax.numpy as jnp

        moved, lengths = static_args
        action = 0 if jnp.ndim(action) else action  # under a policy, all actions share the matrix
        matrix = compiled_action_slice(arrays["matrix"], action)
        columns = arrays["columns"]
        reached = _select_columns(w, columns, moved, lengths)
        row_axes = [axis for axis in range(w.ndim) if matrix.shape[axis] > 1]
        kept_axes = [axis for axis in range(w.ndim) if axis not in moved and w.shape[axis] > 1]
        product = jnp.einsum(
            reached.reshape(*(w.shape[axis] for axis in kept_axes), len(columns)),
            [*kept_axes, w.ndim],
            matrix.reshape(*(matrix.shape[axis] for axis in row_axes), len(columns)),
            [*row_axes, w.ndim],
            sorted({*kept_axes, *row_axes}),
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
