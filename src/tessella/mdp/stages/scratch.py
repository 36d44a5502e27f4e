"""Scratch axes: coordinates that exist only inside a period.

A period opens them at their first values and forgets them at its end. With s the state that is
decided upon and x what stands on scratch axes,

    open    E[w](s) = w(s, first)           forget    E[w](s, x) = w(s)

Scratch axes come last in the wide grid of (s, x). Only the stages from the first to the last that
move along them or depend on them work on it; all others stay on the grid of s.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.grid import StateGrid
from tessella.mdp.context import EvaluationContext, make_context
from tessella.mdp.stages.operation import Operation, drop_trailing_axes, with_length
from tessella.mdp.stages.stage import CompiledStage


def add_scratch_axes(
    context: EvaluationContext, scratch: Mapping[str, Sequence]
) -> EvaluationContext:
    """The context with scratch axes, for the functions of stages."""
    if not isinstance(scratch, Mapping):
        requirement = "scratch axes need names and values, as in {'delivery': range(5)}"
        raise ModelError(requirement, value=f"got {scratch!r}")
    grid = context.grid
    for name in scratch:
        if name in grid.axes:
            raise ModelError(f"a scratch axis cannot be called {name!r}: an axis is")
    axes = dict(zip(grid.axes, grid.values, strict=True)) | dict(scratch)
    wide = make_context(StateGrid(axes), context.actions, context.action_name)
    return replace(wide, period=context.period)


def restrict_scratch_axes(
    wide: StateGrid, grid: StateGrid, stages: Sequence[CompiledStage]
) -> tuple[CompiledStage, ...]:
    """Stages on the ``wide`` grid as stages that begin and end on ``grid``."""
    narrow = [_restrict_stage(stage, grid.ndim) for stage in stages]
    used = [i for i, stage in enumerate(narrow) if stage is None]
    if not used:
        return tuple(stage for stage in narrow if stage is not None)
    first = used[0]
    last = used[-1] + 1
    opened = CompiledStage(AddAxes(grid.shape, wide), None, None, None)
    forgotten = CompiledStage(DropAxes(wide.shape, grid), None, None, None)
    middle = (opened, *stages[first:last], forgotten)
    kept = [*narrow[:first], *middle, *narrow[last:]]
    return tuple(stage for stage in kept if stage is not None)


def _restrict_stage(stage: CompiledStage, axes: int) -> CompiledStage | None:
    """The stage on the first ``axes`` alone; None where it needs the others."""
    operation = stage.operation.restrict_to_leading_axes(axes)
    reward = (
        None if stage.reward is None else drop_trailing_axes(np.asarray(stage.reward), axes + 1)
    )
    if operation is None or (reward is None) != (stage.reward is None):
        return None
    return replace(stage, operation=operation, reward=reward)


@dataclass(frozen=True, eq=False)
class GridChange(Operation):
    """Nothing moves but the grid on which states are counted."""

    grid: StateGrid  # of the states reached

    accepts_broadcast_input = True

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.grid.shape

    def block(self, axis: int, first: int, count: int) -> GridChange:
        lengths = with_length(self.grid.shape, axis, count)
        grid = StateGrid({n: range(k) for n, k in zip(self.grid.axes, lengths, strict=True)})
        return replace(self, shape=with_length(self.shape, axis, count), grid=grid)

    def target_states(self, action: int, k: int) -> NDArray:
        states = np.arange(math.prod(self.shape))
        to, _ = self.sample(states, states, np.random.default_rng(0))
        return to.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class AddAxes(GridChange):
    """Scratch axes appear, at their first values: the last axes of ``grid``."""

    is_identity = True  # what a policy says of a state, it says of the state with scratch axes

    @property
    def settings(self) -> Hashable:
        """How many axes appear."""
        return len(self.grid.shape) - len(self.shape)

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return after[: len(self.shape)]

    def sample(self, states, actions, rng):
        return states * math.prod(self.grid.shape[len(self.shape) :]), None

    @staticmethod
    def compiled_input_shape(added, shape, /):
        return shape[:-added]

    @staticmethod
    def apply(added, arrays, w, action, /):
        return w[(..., *(0,) * added)]


@dataclass(frozen=True, eq=False)
class DropAxes(GridChange):
    """Scratch axes, the last of ``shape``, are summed out."""

    @property
    def settings(self) -> tuple[int, ...]:
        """The lengths of the axes that disappear."""
        return self.shape[self.grid.ndim :]

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return (*after, *(1,) * (len(self.shape) - len(after)))

    @property
    def adjoint_rounding_terms(self) -> int:
        return math.prod(self.settings)

    def sample(self, states, actions, rng):
        return states // math.prod(self.settings), None

    @staticmethod
    def compiled_input_shape(dropped, shape, /):
        return (*shape, *dropped)

    @staticmethod
    def apply(dropped, arrays, w, action, /):
        return w[(..., *(None,) * len(dropped))]  # an open mesh, the same for all their values
