"""Shifts along one axis by slices, the operation behind ``Shift`` and banded chains of ``Move``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.stages.operation import (
    RandomOperation,
    Reach,
    at,
    of_action,
    own,
    places,
    shared,
    trimmed,
    with_length,
    within,
)

FEW_ACTIONS = 8


@dataclass(frozen=True, eq=False)
class Slices(RandomOperation):
    """Shifts along one axis: ``pad`` maps padded positions to it, a slice starts at an offset."""

    axis: int
    pad: NDArray[np.int32]
    offsets: NDArray[np.int32]  # (A | 1, K)
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)

    def without(self, axes: int) -> Slices | None:
        probs = trimmed(self.probs, axes + 2)
        if probs is None or self.axis >= axes:
            return None
        return Slices(self.shape[:axes], self.axis, self.pad, self.offsets, probs)

    def reach(self, axis: int) -> Reach:
        if axis != self.axis:
            return Reach()
        x = np.arange(self.shape[axis])
        moved = [self.pad[x + offset] - x for offset in np.unique(self.offsets)]
        return Reach.of(np.array([[steps.min(), steps.max()] for steps in moved]))

    def window(self, axis: int, first: int, count: int) -> Slices:
        shape, pad = with_length(self.shape, axis, count), self.pad
        if axis == self.axis:
            beyond = np.arange(first, first + count + int(self.offsets.max()))
            pad = within(pad[np.clip(beyond, 0, len(pad) - 1)], first, count)
        probs = places(self.probs, axis + 2, first, count)
        return Slices(shape, self.axis, pad, self.offsets, probs)

    @property
    def acts(self) -> bool:
        return len(self.offsets) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"pad": self.pad, "offsets": self.offsets, "probs": self.probs}

    def compiled(self, acts: bool) -> CompiledSlices:
        return CompiledSlices(self.axis, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        state = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        for offset, p in zip(at(self.offsets, action), at(self.probs, action), strict=True):
            to = self.pad[offset : offset + self.shape[self.axis]]
            yield np.take(state, to, axis=self.axis), np.broadcast_to(p, self.shape)

    @property
    def terms(self) -> int:
        return self.offsets.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return 2 * self.offsets.shape[1] + len(self.pad)

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        start = self.offsets[actions if len(self.offsets) > 1 else 0, k]
        to = list(where)
        to[self.axis] = self.pad[start + where[self.axis]].astype(np.int64)
        return np.ravel_multi_index(tuple(to), self.shape), k


@dataclass(frozen=True)
class CompiledSlices:
    """The compiled side of ``Slices``: ``sum_k p_k * w[x + offset_k]``, each w a slice."""

    axis: int
    acts: bool

    stays = False
    takes_open = False

    def follows(self, arrays) -> bool:
        offsets, probs = arrays["offsets"], arrays["probs"]
        # Slices are so much quicker than single entries that few actions are best done in turn.
        return shared(offsets, probs) or max(len(offsets), len(probs)) > FEW_ACTIONS

    def apply(self, arrays, w, action):
        import jax.numpy as jnp
        from jax import lax

        pad, offsets, probs = arrays["pad"], arrays["offsets"], arrays["probs"]
        padded = jnp.take(w, pad, axis=self.axis, mode="clip")
        size = w.shape[self.axis]

        def add(total, term):
            offset, p = term
            return total + p * lax.dynamic_slice_in_dim(padded, offset, size, self.axis), None

        def add_own(total, k):
            x = lax.broadcasted_iota(jnp.int32, w.shape, self.axis)
            offset = offsets[action if len(offsets) > 1 else 0, k]
            reached = jnp.take_along_axis(padded, x + offset, self.axis, mode="clip")
            return total + own(probs, action, k) * reached, None

        if jnp.ndim(action) and not shared(offsets, probs):
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(offsets.shape[1]))[0]
        action = 0 if jnp.ndim(action) else action
        terms = of_action(offsets, action), of_action(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
