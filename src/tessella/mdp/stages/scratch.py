"""Scratch axes: coordinates that exist only inside a period.

A period opens them at their first values and forgets them at its end. With s the state that is
decided upon and x the position on scratch axes,

    open    E[w](s) = w(s, first)           forget    E[w](s, x) = w(s)

Scratch axes come last in the wide grid of (s, x). Only the stages from the first to the last that
move along them or depend on them work on it; all others stay on the grid of s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tessella.errors import ModelError
from tessella.grid import StateGrid
from tessella.mdp.context import EvaluationContext, make_context
from tessella.mdp.stages.operation import Reshape, drop_trailing_axes
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
    return replace(wide, time=context.time)


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
    opened = CompiledStage(Reshape(grid.shape, (), wide), None, None, None)
    forgotten = CompiledStage(Reshape(wide.shape, (), grid), None, None, None)
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
