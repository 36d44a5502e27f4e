"""Scratch axes: coordinates that exist only inside a period.

A period opens them at their first values and forgets them at its end. With s the state that is
decided upon and x what stands on scratch axes,

    open    E[w](s) = w(s, first)           forget    E[w](s, x) = w(s)

Scratch axes come last in the wide grid of (s, x). Only the stages from the first to the last that
move along them or depend on them work on it; all others stay on the grid of s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.grid import StateGrid
from tessella.mdp.scope import Scope, make_scope
from tessella.mdp.stages.operation import Operation, Reach, trimmed, with_length
from tessella.mdp.stages.stage import StageNumbers


def widened(scope: Scope, scratch: Mapping[str, Sequence]) -> Scope:
    """The scope with scratch axes, for the functions of stages."""
    if not isinstance(scratch, Mapping):
        rule = "scratch axes need names and values, as in {'delivery': range(5)}"
        raise ModelError(rule, value=f"got {scratch!r}")
    grid = scope.grid
    for name in scratch:
        if name in grid.axes:
            raise ModelError(f"a scratch axis cannot be called {name!r}: an axis is")
    axes = dict(zip(grid.axes, grid.values, strict=True)) | dict(scratch)
    wide = make_scope(StateGrid(axes), scope.actions, scope.action_name)
    return replace(wide, period=scope.period)


def fold(
    wide: StateGrid, grid: StateGrid, numbers: Sequence[StageNumbers]
) -> tuple[StageNumbers, ...]:
    """Stages on the ``wide`` grid as stages that begin and end on ``grid``."""
    narrow = [_without(stage, grid.ndim) for stage in numbers]
    used = [i for i, stage in enumerate(narrow) if stage is None]
    if not used:
        return tuple(stage for stage in narrow if stage is not None)
    first, last = used[0], used[-1] + 1
    opened = StageNumbers(Open(grid.shape, wide), None, None, None)
    forgotten = StageNumbers(Forget(wide.shape, grid), None, None, None)
    middle = (opened, *numbers[first:last], forgotten)
    kept = [*narrow[:first], *middle, *narrow[last:]]
    return tuple(stage for stage in kept if stage is not None)


def _without(stage: StageNumbers, axes: int) -> StageNumbers | None:
    """The stage on the first ``axes`` alone; None where it needs the others."""
    operation = stage.operation.without(axes)
    reward = None if stage.reward is None else trimmed(np.asarray(stage.reward), axes + 1)
    if operation is None or (reward is None) != (stage.reward is None):
        return None
    return replace(stage, operation=operation, reward=reward)


@dataclass(frozen=True, eq=False)
class Resting(Operation):
    """Nothing moves but the grid on which states are counted."""

    grid: StateGrid  # of the states reached

    @property
    def reached(self) -> tuple[int, ...]:
        return self.grid.shape

    def reach(self, axis: int) -> Reach:
        return Reach()

    def window(self, axis: int, first: int, count: int) -> Resting:
        lengths = with_length(self.grid.shape, axis, count)
        grid = StateGrid({n: range(k) for n, k in zip(self.grid.axes, lengths, strict=True)})
        return replace(self, shape=with_length(self.shape, axis, count), grid=grid)

    @property
    def acts(self) -> bool:
        return False

    def arrays(self) -> dict[str, NDArray]:
        return {}

    @property
    def terms(self) -> int:
        return 0

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        states = np.arange(math.prod(self.shape))
        to, _ = self.sample(states, states, np.random.default_rng(0))
        yield to.reshape(self.shape), np.ones(self.shape)


@dataclass(frozen=True, eq=False)
class Open(Resting):
    """Scratch axes appear, at their first values: the last axes of ``grid``."""

    def lengths_before(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return after[: len(self.shape)]

    def compiled(self, acts: bool) -> CompiledOpen:
        return CompiledOpen(acts, len(self.grid.shape) - len(self.shape))

    @property
    def adjoint_terms(self) -> int:
        return 0

    def sample(self, states, actions, rng):
        return states * math.prod(self.grid.shape[len(self.shape) :]), None


@dataclass(frozen=True, eq=False)
class Forget(Resting):
    """Scratch axes, the last of ``shape``, are summed out."""

    @property
    def _values(self) -> int:
        return math.prod(self.shape[self.grid.ndim :])

    def lengths_before(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return (*after, *(1,) * (len(self.shape) - len(after)))

    def compiled(self, acts: bool) -> CompiledForget:
        return CompiledForget(acts, self.shape[self.grid.ndim :])

    @property
    def adjoint_terms(self) -> int:
        return self._values

    def sample(self, states, actions, rng):
        return states // self._values, None


@dataclass(frozen=True)
class CompiledOpen:
    """The compiled side of ``Open``: the first of ``axes`` last axes."""

    acts: bool
    axes: int

    stays = True  # what a policy says of a state, it says of the state with scratch axes
    takes_open = True

    def follows(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        return w[(..., *(0,) * self.axes)]


@dataclass(frozen=True)
class CompiledForget:
    """The compiled side of ``Forget``: an open mesh, the same for all values of scratch axes."""

    acts: bool
    lengths: tuple[int, ...]

    stays = False
    takes_open = True

    def follows(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        return w[(..., *(None,) * len(self.lengths))]


def begun_on(operation: object, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The grid on which an operation begins that leaves states on one of this shape."""
    if isinstance(operation, CompiledForget):
        return (*shape, *operation.lengths)
    return shape[: -operation.axes] if isinstance(operation, CompiledOpen) else shape
