"""Stages on an accelerator: the backend of ``staged`` with its sums done by ``gpu_kernels``.

It is chosen where a model is compiled (``choose_tiles``). All other operations, and the maximum
over actions, are what the compiler makes of them, which is as fast. A kernel has no transpose, so
that of the plain form stands in for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.custom_derivatives import linear_call
from numpy.typing import NDArray

from tessella.mdp.stages.decide import AxisMap
from tessella.mdp.stages.gpu_kernels import ShiftTerms, expected_value
from tessella.mdp.stages.operation import (
    CompiledOperation,
    Operation,
    compiled_action_slice,
    is_shared_by_actions,
)
from tessella.mdp.stages.shift import SLICED_MAX_ACTIONS, AxisShift
from tessella.mdp.stages.tiling import TILED_MIN_LAST_AXIS, TileSizes


def tiled_operation(
    operation: Operation, acts: bool, tiles: TileSizes, for_any_block: bool = False
) -> CompiledOperation:
    """The compiled form of an operation, in tiles where it has one.

    Blocks of one model stop at different ends; ``for_any_block`` makes a form that serves them all.
    """
    if isinstance(operation, AxisMap):
        return TiledAxisMap(AxisMap, operation.axis, acts)
    if type(operation) is not AxisShift:
        return operation.compile(acts)
    along = _constant_step(operation.offsets)
    low = (
        None
        if for_any_block
        else _first_padded_position(operation.pad, operation.shape[operation.axis])
    )
    return TiledAxisShift(AxisShift, operation.axis, acts, along, low, tiles)


def _constant_step(offsets: NDArray) -> int | None:
    """1 or -1 where the offsets (A | 1, K) of all actions go up or down by one; else None."""
    steps = np.unique(np.diff(offsets, axis=1))
    return int(steps[0]) if len(steps) == 1 and steps[0] in (1, -1) else None


def _first_padded_position(pad: NDArray, length: int) -> int | None:
    """The position padded as the first, where padding stops at the ends of the axis; else None."""
    for low in range(0, length - len(pad) - 1, -1):
        if np.array_equal(pad, np.clip(np.arange(low, low + len(pad)), 0, length - 1)):
            return low
    return None


@dataclass(frozen=True)
class TiledAxisMap(CompiledOperation):
    """A map along an axis where rows are read more quickly than single entries."""

    def supports_policy_arrays(self, arrays: Any) -> bool:
        return len(arrays["target"]) > SLICED_MAX_ACTIONS


@dataclass(frozen=True)
class TiledAxisShift(CompiledOperation):
    """A shift along an axis as a kernel."""

    step_sign: int | None
    low: int | None
    tiles: TileSizes

    def apply(self, arrays: Any, w: Any, action: Any) -> Any:
        if not self._is_supported(arrays, w, action):
            return super().apply(arrays, w, action)
        numbers = {name: arrays[name] for name in ("pad", "offsets", "probs")}
        taken = 0 if np.ndim(action) else action

        def forward(held, w):
            return expected_value(self.tiles, w, self._terms(*held))

        def backward(held, w):
            def plain(v):
                return AxisShift.apply(self.settings, held[0], v, held[1])

            return jax.linear_transpose(plain, w)(w)[0]

        return linear_call(forward, backward, (numbers, taken), w)

    def apply_with_reward(self, arrays: Any, w: Any, action: Any) -> Any:
        """The same with the stage's reward, by one kernel."""
        if not self._is_supported(arrays, w, action):
            return super().apply_with_reward(arrays, w, action)
        reward = compiled_action_slice(arrays["reward"], action)
        taken = 0 if np.ndim(action) else action
        if np.ndim(action) and len(arrays["reward"]) > 1:
            return expected_value(self.tiles, w, self._terms(arrays, taken)) + reward
        return expected_value(self.tiles, w, self._terms(arrays, taken), reward)

    def _is_supported(self, arrays: Any, w: Any, action: Any) -> bool:
        same = not np.ndim(action) or is_shared_by_actions(arrays["offsets"], arrays["probs"])
        return same and w.shape[-1] >= TILED_MIN_LAST_AXIS

    def _terms(self, arrays: Any, action: Any) -> ShiftTerms:
        offsets = compiled_action_slice(arrays["offsets"], action)
        probs = compiled_action_slice(arrays["probs"], action)
        axis: Any = self.settings
        return ShiftTerms(axis, self.step_sign, self.low, arrays["pad"], offsets, probs)
