"""Shifts along one axis by slices, the operation behind ``Shift`` and banded chains of ``Move``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.stages.operation import (
    Displacement,
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

SLICED_MAX_ACTIONS = 8


@dataclass(frozen=True, eq=False)
class AxisShift(RandomOperation):
    """Shifts along one axis: ``pad`` maps padded positions to it, a slice starts at an offset."""

    axis: int
    pad: NDArray[np.int32]
    offsets: NDArray[np.int32]  # (A | 1, K)
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)

    def restrict_to_leading_axes(self, axes: int) -> AxisShift | None:
        probs = drop_trailing_axes(self.probs, axes + 2)
        if probs is None or self.axis >= axes:
            return None
        return AxisShift(self.shape[:axes], self.axis, self.pad, self.offsets, probs)

    def max_displacement(self, axis: int) -> Displacement:
        if axis != self.axis:
            return Displacement()
        x = np.arange(self.shape[axis])
        moved = [self.pad[x + offset] - x for offset in np.unique(self.offsets)]
        return Displacement.covering(np.array([[steps.min(), steps.max()] for steps in moved]))

    def block(self, axis: int, first: int, count: int) -> AxisShift:
        shape = with_length(self.shape, axis, count)
        pad = self.pad
        if axis == self.axis:
            beyond = np.arange(first, first + count + int(self.offsets.max()))
            pad = relative_to_block(pad[np.clip(beyond, 0, len(pad) - 1)], first, count)
        probs = take_range(self.probs, axis + 2, first, count)
        return AxisShift(shape, self.axis, pad, self.offsets, probs)

    @property
    def depends_on_action(self) -> bool:
        return len(self.offsets) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"pad": self.pad, "offsets": self.offsets, "probs": self.probs}

    def compile(self, depends_on_action: bool) -> CompiledAxisShift:
        return CompiledAxisShift(self.axis, depends_on_action)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        state = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        for offset, p in zip(
            action_slice(self.offsets, action), action_slice(self.probs, action), strict=True
        ):
            to = self.pad[offset : offset + self.shape[self.axis]]
            yield np.take(state, to, axis=self.axis), np.broadcast_to(p, self.shape)

    @property
    def rounding_terms(self) -> int:
        return self.offsets.shape[1]

    @property
    def adjoint_rounding_terms(self) -> int:
        return 2 * self.offsets.shape[1] + len(self.pad)

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        start = self.offsets[actions if len(self.offsets) > 1 else 0, k]
        to = list(where)
        to[self.axis] = self.pad[start + where[self.axis]].astype(np.int64)
        return np.ravel_multi_index(tuple(to), self.shape), k


@dataclass(frozen=True)
class CompiledAxisShift:
    """The compiled side of ``AxisShift``: ``sum_k p_k * w[x + offset_k]``, each w a slice."""

    axis: int
    depends_on_action: bool

    is_identity = False
    accepts_broadcast_input = False

    def supports_policy_arrays(self, arrays) -> bool:
        offsets = arrays["offsets"]
        probs = arrays["probs"]
        # Slices are so much quicker than single entries that few actions are best done in turn.
        return (
            is_shared_by_actions(offsets, probs)
            or max(len(offsets), len(probs)) > SLICED_MAX_ACTIONS
        )

    def apply(self, arrays, w, action):
        import jax.numpy as jnp
        from jax import lax

        pad = arrays["pad"]
        offsets = arrays["offsets"]
        probs = arrays["probs"]
        padded = jnp.take(w, pad, axis=self.axis, mode="clip")
        size = w.shape[self.axis]

        def add(total, term):
            offset, p = term
            return total + p * lax.dynamic_slice_in_dim(padded, offset, size, self.axis), None

        def add_own(total, k):
            x = lax.broadcasted_iota(jnp.int32, w.shape, self.axis)
            offset = offsets[action if len(offsets) > 1 else 0, k]
            reached = jnp.take_along_axis(padded, x + offset, self.axis, mode="clip")
            return total + gather_policy_entries(probs, action, k) * reached, None

        if jnp.ndim(action) and not is_shared_by_actions(offsets, probs):
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(offsets.shape[1]))[0]
        action = 0 if jnp.ndim(action) else action
        terms = compiled_action_slice(offsets, action), compiled_action_slice(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
