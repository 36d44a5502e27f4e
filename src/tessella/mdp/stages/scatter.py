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
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.grid import index_type
from tessella.mdp.checks import FunctionChecks
from tessella.mdp.dynamics import gather_walker_entries
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

# Targets of whole states up to which a fingerprint is made of these.
FINGERPRINT_MAX_TARGETS = 1 << 26
INTERPOLATION_ROUNDING = 2 * EPS  # of a probability, for each axis that is interpolated
# Columns for each outcome, at most: more products than that take longer than looking up.
MATRIX_MAX_COLUMNS_PER_OUTCOME = 64


@dataclass(frozen=True, eq=False)
class Scatter(RandomOperation):
    """Any map of some axes: ``target`` counts states of these.

    Compiled, ``sum_k p_k w[target_k(s)]``, along one axis or over whole states. With ``n_corners``,
    each value of the noise leads to so many neighbours side by side, with the weights of a landing
    between grid points (``interpolation``).
    """

    target: NDArray[np.integer]  # (A | 1, K, *broadcast)
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)
    n_corners: int = 0  # 0 where values lead to one target each
    n_interpolated_axes: int = 0  # axes that are interpolated along

    mesh_fields = ("target", "probs")

    @property
    def is_along_axis(self) -> bool:
        """Whether targets are positions on one axis; else they are whole states."""
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
        return (np.broadcast_to(to, self.shape) for to in action_slice(self.target, action))

    def restrict_to_leading_axes(self, count: int) -> Operation | None:
        if self.is_along_axis:
            return None
        probs = drop_trailing_axes(self.probs, count + 2)
        short = self.shape[:count]
        to = self.target.reshape(*self.target.shape[: count + 2], -1)
        others = to.shape[-1]
        stays = probs is not None and (to % others == np.arange(others)).all()
        if probs is None or not stays or (to // others != to[..., :1] // others).any():
            return None
        target = (to[..., 0] // others).astype(index_type(math.prod(short)))
        return replace(self, shape=short, axes=self.axes[:count], target=target, probs=probs)

    def block(self, axis: int, first: int, count: int) -> Scatter:
        shape = with_length(self.shape, axis, count)
        target, probs = (take_range(a, axis + 2, first, count) for a in (self.target, self.probs))
        if axis in self.axes:
            where = list(np.unravel_index(target, self.lengths))
            k = self.axes.index(axis)
            where[k] = relative_to_block(where[k], first, count)
            lengths = with_length(self.lengths, k, count)
            target = np.ravel_multi_index(tuple(where), lengths).astype(self.target.dtype)
        return replace(self, shape=shape, target=target, probs=probs)

    @property
    def adjoint_rounding_terms(self) -> int:
        if self.is_along_axis:
            return self.target.shape[1] * (1 + self.shape[self.axis])
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        reached = gather_walker_entries(self.target, actions, [k, *where])
        for axis, positions in zip(self.axes, np.unravel_index(reached, self.lengths), strict=True):
            where[axis] = positions
        return np.ravel_multi_index(tuple(where), self.shape), k // self.targets_per_value

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
            to, p = term
            reached = jnp.take(flat, to, mode="clip") if axis is None else gather_along(w, to, axis)
            return total + p * reached, None

        def add_own(total, k):
            to = gather_policy_entries(target, action, k)
            return add(total, (to, gather_policy_entries(probs, action, k)))

        if jnp.ndim(action) and axis is None:
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(target.shape[1]))[0]
        terms = compiled_action_slice(target, action), compiled_action_slice(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]


def build_joint_matrix(checks: FunctionChecks, moved: dict[int, ArrayLike]) -> JointMatrix | None:
    """The jump to new values by position of the axis; None where a matrix would be larger."""
    count = checks.n_outcomes
    shape = checks.space.grid.shape
    axes = tuple(sorted(moved))
    if not axes or checks.space.time is not None:  # at other times it may depend on other axes
        return None
    where = [checks.locate(axis, moved[axis]) for axis in axes]
    lengths = tuple(shape[a] for a in axes)
    reached = np.broadcast_shapes(*(place.shape for place in where))
    charge_entries(math.prod(reached[:-1]) * count, checks.subject)
    flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*where)), lengths)
    flat = flat.astype(index_type(math.prod(lengths)))
    flat = np.broadcast_to(flat, (*flat.shape[:-1], count))
    columns = np.unique(flat)
    rows = math.prod(np.broadcast_shapes(flat.shape, checks.probs.shape)[:-1])
    if (
        rows * len(columns) > math.prod(shape) * count
        or len(columns) > MATRIX_MAX_COLUMNS_PER_OUTCOME * count
    ):
        return None
    target = np.moveaxis(flat, -1, 1)
    probs = np.moveaxis(checks.probs, -1, 1)
    return JointMatrix(shape, axes, target.copy(), np.ascontiguousarray(probs), columns=columns)


@dataclass(frozen=True, eq=False)
class JointMatrix(Scatter):
    """A scatter on a few axes, as a matrix of what it depends on and of where it may lead."""

    columns: NDArray[np.integer] = field(kw_only=True)  # the targets that there are, in order

    accepts_broadcast_input = True

    def fingerprint_key(self) -> tuple:
        """That of a scatter over whole states, unless these are too many."""
        if math.prod(self.shape) * math.prod(self.target.shape[:2]) > FINGERPRINT_MAX_TARGETS:
            return self.shape, self.axes, self.target, self.probs
        return self.over_whole_states().fingerprint_key()

    def over_whole_states(self) -> Scatter:
        """The same with whole states as targets."""
        own = range(len(self.target))
        whole = [list(self.target_states(action)) for action in own]
        target = np.array(whole, dtype=index_type(math.prod(self.shape)))
        return Scatter(self.shape, tuple(range(len(self.shape))), target, self.probs)

    @property
    def static_args(self) -> Hashable:
        return self.axes, self.lengths

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
