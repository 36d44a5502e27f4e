"""A jump that touches few axes of a grid: a matrix on them, and nothing over all states.

With y the coordinates that the jump depends on, x those that it moves, and z all others,

    E[w](y, z) = sum_x M[y, x] w(x, z),        M[y, x] = sum of p_k(y) over k with target_k(y) = x.

Only the columns x that something leads to are kept. A coordinate that is moved and not depended on
does not matter before the jump: the result is an open mesh, of length one along it. Likewise along
all that later stages overwrite or forget: neither is worked out for each of its values. An entry
adds up K probabilities and then so many products as there are columns. Cut along an axis that it
moves, it is a jump over whole states again: windows have different columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.grid import index_type
from tessella.mdp import checks
from tessella.mdp.chance import entries_at
from tessella.mdp.scope import Scope, count_entries
from tessella.mdp.stages.noise import Law
from tessella.mdp.stages.operation import (
    RandomOperation,
    Reach,
    at,
    of_action,
    places,
    shared,
    trimmed,
    with_length,
    within,
)
from tessella.mdp.stages.scatter import Scatter

HASHED = 1 << 26  # targets of whole states up to which a fingerprint is made of these
COLUMNS = 64  # for each outcome at most: more products than that take longer than looking up


def joint(scope: Scope, moved: dict[int, ArrayLike], law: Law, what: str) -> Joint | None:
    """The jump to new values by position of the axis; None where a matrix would be larger."""
    count, shape, axes = len(law.named[1]), scope.grid.shape, tuple(sorted(moved))
    if not axes or scope.period is not None:  # at other times it may depend on other axes
        return None
    where = [checks.positions(scope, a, moved[a], what, law.named, law.probs) for a in axes]
    lengths = tuple(shape[a] for a in axes)
    reached = np.broadcast_shapes(*(place.shape for place in where))
    count_entries(math.prod(reached[:-1]) * count, what)
    flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*where)), lengths)
    flat = flat.astype(index_type(math.prod(lengths)))
    flat = np.broadcast_to(flat, (*flat.shape[:-1], count))
    columns = np.unique(flat)
    rows = math.prod(np.broadcast_shapes(flat.shape, law.probs.shape)[:-1])
    if rows * len(columns) > math.prod(shape) * count or len(columns) > COLUMNS * count:
        return None
    target, probs = np.moveaxis(flat, -1, 1), np.moveaxis(law.probs, -1, 1)
    return Joint(shape, axes, target.copy(), np.ascontiguousarray(probs), columns)


@dataclass(frozen=True, eq=False)
class Joint(RandomOperation):
    """Outcomes on a few axes: ``target`` (A | 1, K, *broadcast) counts states of ``moved`` axes."""

    hashed_as: ClassVar[str] = "Scatter"

    moved: tuple[int, ...]
    target: NDArray[np.integer]
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)
    columns: NDArray[np.integer]  # the targets that there are, in order

    def identity(self) -> tuple:
        """What a fingerprint is made of: as for any jump, unless that is too much."""
        if math.prod(self.shape) * math.prod(self.target.shape[:2]) > HASHED:
            return self.shape, self.moved, self.target, self.probs
        return self.shape, self._whole(), self.probs

    def _whole(self) -> NDArray[np.integer]:
        """(A | 1, K, *grid) the targets as whole states."""
        whole = [[self._flat(to) for to in own] for own in self.target]
        return np.array(whole, dtype=index_type(math.prod(self.shape)))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the moved axes."""
        return tuple(self.shape[axis] for axis in self.moved)

    @property
    def rows(self) -> tuple[int, ...]:
        """(A | 1, *broadcast) the shape of all that it depends on."""
        lengths = np.broadcast_shapes(self.target.shape, self.probs.shape)
        return (lengths[0], *lengths[2:])

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """(A | 1, *broadcast, columns)"""
        rows, width = self.rows, len(self.columns)
        row = np.arange(math.prod(rows)).reshape(rows[0], 1, *rows[1:])
        entry = row * width + np.searchsorted(self.columns, self.target)
        weights = np.broadcast_to(self.probs, entry.shape)
        added = np.zeros(math.prod(rows) * width)
        np.add.at(added, entry.ravel(), weights.ravel())
        return added.reshape(*rows, width)

    def without(self, axes: int) -> Joint | None:
        target, probs = (trimmed(a, axes + 2) for a in (self.target, self.probs))
        if target is None or probs is None or max(self.moved) >= axes:
            return None
        return replace(self, shape=self.shape[:axes], target=target, probs=probs)

    def lengths_before(self, after: tuple[int, ...]) -> tuple[int, ...]:
        others = with_lengths(after, self.moved, (1,) * len(self.moved))
        return np.broadcast_shapes(others, self.rows[1:])

    def reach(self, axis: int) -> Reach:
        if axis not in self.moved:
            return Reach()
        reached = np.unravel_index(self.target, self.lengths)[self.moved.index(axis)]
        own = with_length((1,) * self.target.ndim, axis + 2, -1)
        return Reach.of(reached - np.arange(self.shape[axis]).reshape(own))

    def window(self, axis: int, first: int, count: int) -> RandomOperation:
        target, probs = (places(a, axis + 2, first, count) for a in (self.target, self.probs))
        shape = with_length(self.shape, axis, count)
        if axis not in self.moved:
            return replace(self, shape=shape, target=target, probs=probs)
        reached, own = list(np.unravel_index(target, self.lengths)), self.moved.index(axis)
        reached[own] = within(reached[own], first, count)
        lengths = with_length(self.lengths, own, count)
        part = replace(self, shape=shape, target=np.ravel_multi_index(tuple(reached), lengths))
        return Scatter(shape, part._whole(), probs)

    @property
    def acts(self) -> bool:
        return len(self.target) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix, "columns": self.columns}

    def compiled(self, acts: bool) -> CompiledJoint:
        return CompiledJoint(self.moved, self.lengths, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        for to, p in zip(at(self.target, action), at(self.probs, action), strict=True):
            yield self._flat(to), np.broadcast_to(p, self.shape)

    def _flat(self, to: NDArray) -> NDArray:
        """(grid) whole states, from an open mesh of those of the moved axes."""
        where = self._moved_to(list(np.indices(self.shape, sparse=True)), to)
        flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*where)), self.shape)
        return np.broadcast_to(flat, self.shape)

    def _moved_to(self, where: list[NDArray], to: NDArray) -> list[NDArray]:
        reached = np.unravel_index(to, self.lengths)
        for axis, place in zip(self.moved, reached, strict=True):
            where[axis] = place
        return where

    @property
    def terms(self) -> int:
        return self.target.shape[1] + len(self.columns)

    @property
    def adjoint_terms(self) -> int:
        touched = with_lengths(self.rows[1:], self.moved, self.lengths)
        return self.terms + math.prod(touched)

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        rows = entries_at(np.moveaxis(self.target, 1, -1), actions, where)
        to = self._moved_to(list(where), rows[np.arange(len(states)), k])
        return np.ravel_multi_index(tuple(to), self.shape), k


def with_lengths(
    shape: tuple[int, ...], axes: tuple[int, ...], lengths: tuple[int, ...]
) -> tuple[int, ...]:
    """``shape`` with other lengths of some axes."""
    for axis, length in zip(axes, lengths, strict=True):
        shape = with_length(shape, axis, length)
    return shape


@dataclass(frozen=True)
class CompiledJoint:
    """The compiled side of ``Joint``."""

    moved: tuple[int, ...]
    lengths: tuple[int, ...]
    acts: bool

    stays = False
    takes_open = True

    def follows(self, arrays) -> bool:
        return shared(arrays["matrix"])

    def apply(self, arrays, w, action):
        import jax.numpy as jnp

        action = 0 if jnp.ndim(action) else action  # a policy comes here only where all share it
        matrix, columns = of_action(arrays["matrix"], action), arrays["columns"]
        reached, kept = self._reached(w, columns), self._others(w.ndim)
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

    def _others(self, rank: int) -> list[int]:
        return [axis for axis in range(rank) if axis not in self.moved]

    def _reached(self, w, columns):
        """(*others, columns) what w is where the jump leads."""
        import jax.numpy as jnp

        w = jnp.broadcast_to(w, with_lengths(w.shape, self.moved, self.lengths))
        others = self._others(w.ndim)
        flat = jnp.transpose(w, (*others, *self.moved))
        flat = flat.reshape(*(w.shape[axis] for axis in others), -1)
        if len(columns) == flat.shape[-1]:
            return flat
        return jnp.take(flat, columns, axis=-1, mode="clip")
