"""Stages on an accelerator: the program of ``staged`` with its sums over slices done by ``tiles``.

It is chosen where a model is lowered (``tiling``). All other operations, and the maximum over
actions, are what the compiler makes of them, which is as fast. A kernel has no transpose, so that
of the plain form stands in for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.custom_derivatives import linear_call
from numpy.typing import NDArray

from tessella.mdp.stages.decide import CompiledGather, Gather
from tessella.mdp.stages.operation import CompiledOperation, Operation, of_action, shared
from tessella.mdp.stages.slices import FEW_ACTIONS, CompiledSlices, Slices
from tessella.mdp.stages.tiles import Steps, expected
from tessella.mdp.stages.tiling import NARROW, Tiles


def in_tiles(
    operation: Operation, acts: bool, tiles: Tiles, anywhere: bool = False
) -> CompiledOperation:
    """The compiled form of an operation, in tiles where it has one.

    Windows of one model stop at different ends; ``anywhere`` makes a form that serves them all.
    """
    if isinstance(operation, Gather):
        return GatherInTurn(operation.axis, acts)
    if type(operation) is not Slices:
        return operation.compiled(acts)
    along = _following(operation.offsets)
    low = None if anywhere else _clipping(operation.pad, operation.shape[operation.axis])
    return TiledSlices(operation.axis, acts, along, low, tiles)


def _following(offsets: NDArray) -> int | None:
    """1 or -1 where the offsets (A | 1, K) of all actions go up or down by one; else None."""
    steps = np.unique(np.diff(offsets, axis=1))
    return int(steps[0]) if len(steps) == 1 and steps[0] in (1, -1) else None


def _clipping(pad: NDArray, length: int) -> int | None:
    """The position padded as the first, where padding stops at the ends of the axis; else None."""
    for low in range(0, length - len(pad) - 1, -1):
        if np.array_equal(pad, np.clip(np.arange(low, low + len(pad)), 0, length - 1)):
            return low
    return None


@dataclass(frozen=True)
class GatherInTurn(CompiledGather):
    """``CompiledGather`` where rows are read more quickly than single entries."""

    def follows(self, arrays: Any) -> bool:
        return len(arrays["target"]) > FEW_ACTIONS


@dataclass(frozen=True)
class TiledSlices(CompiledSlices):
    """``CompiledSlices`` as a kernel."""

    along: int | None
    low: int | None
    tiles: Tiles

    def apply(self, arrays: Any, w: Any, action: Any) -> Any:
        if not self._serves(arrays, w, action):
            return super().apply(arrays, w, action)
        numbers = {name: arrays[name] for name in ("pad", "offsets", "probs")}
        taken = 0 if np.ndim(action) else action

        def forward(held, w):
            return expected(self.tiles, w, self._steps(*held))

        def backward(held, w):
            plain = CompiledSlices(self.axis, self.acts)
            return jax.linear_transpose(lambda v: plain.apply(held[0], v, held[1]), w)(w)[0]

        return linear_call(forward, backward, (numbers, taken), w)

    def paid(self, arrays: Any, w: Any, action: Any) -> Any:
        """The same with what the stage pays, in one go."""
        if not self._serves(arrays, w, action):
            return super().apply(arrays, w, action) + of_action(arrays["reward"], action)
        reward = of_action(arrays["reward"], action)
        taken = 0 if np.ndim(action) else action
        if np.ndim(action) and len(arrays["reward"]) > 1:
            return expected(self.tiles, w, self._steps(arrays, taken)) + reward
        return expected(self.tiles, w, self._steps(arrays, taken), reward)

    def _serves(self, arrays: Any, w: Any, action: Any) -> bool:
        same = not np.ndim(action) or shared(arrays["offsets"], arrays["probs"])
        return same and w.shape[-1] >= NARROW

    def _steps(self, arrays: Any, action: Any) -> Steps:
        numbers = of_action(arrays["offsets"], action), of_action(arrays["probs"], action)
        return Steps(self.axis, self.along, self.low, arrays["pad"], *numbers)
