"""Decide: a map to the post-decision state, ``w[target(x)]`` along one axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp import checks
from tessella.mdp.chance import entries_at
from tessella.mdp.scope import Scope, call
from tessella.mdp.stages.between import Between, End, along, clipped, land, refuse_unknown
from tessella.mdp.stages.operation import (
    Operation,
    Reach,
    at,
    gathered,
    of_action,
    places,
    trimmed,
    with_length,
    within,
)
from tessella.mdp.stages.stage import Function, Stage, StageNumbers, reward_of


@dataclass(frozen=True, eq=False)
class Decide(Stage):
    """The coordinate along ``axis`` becomes ``to(...)``, which must lie on the grid.

    With ``between="interpolate"`` it may lie between cut points, see ``between``; with
    ``edge="clip"`` what lies past the ends of the axis stops there.
    """

    axis: str
    to: Function
    pays: Function | None = None
    between: Between = "error"
    edge: End = "error"
    costs: Function | None = None

    def numbers(self, scope: Scope) -> StageNumbers:
        what = f"deciding {self.axis}"
        refuse_unknown(what, self.between, self.edge)
        operation = self._operation(scope, scope.axis(self.axis), what)
        paid = reward_of(scope, self.paid, f"the reward of {what}")
        return StageNumbers(operation, paid, self.paid, None)

    def _operation(self, scope: Scope, axis: int, what: str) -> Operation:
        values = call(self.to, scope.mesh(), what)
        if self.between == "interpolate":
            landing = land(scope, axis, values, what, self.edge)
            return along(scope, axis, landing, np.ones((1,) * scope.rank))
        values = clipped(scope, axis, values, what, self.edge)
        target = checks.positions(scope, axis, values, what)[..., 0]
        own = target.shape[axis + 1] > 1 or scope.period is not None  # it may be at other times
        kind = Gather if own else Overwrite
        lengths = with_length(target.shape, axis + 1, scope.grid.shape[axis])
        return kind(scope.grid.shape, axis, np.broadcast_to(target, lengths).copy())


@dataclass(frozen=True, eq=False)
class Gather(Operation):
    """A map along one axis: ``target`` (A | 1, *broadcast) holds positions on that axis."""

    axis: int
    target: NDArray[np.int32]

    def without(self, axes: int) -> Gather | None:
        target = trimmed(self.target, axes + 1)
        if target is None or self.axis >= axes:
            return None
        return replace(self, shape=self.shape[:axes], target=target)

    def lengths_before(self, after: tuple[int, ...]) -> tuple[int, ...]:
        target = self.arrays()["target"].shape[1:]
        return np.broadcast_shapes(with_length(after, self.axis, 1), target)

    def reach(self, axis: int) -> Reach:
        if axis != self.axis:
            return Reach()
        return Reach.of(self.target - np.arange(self.shape[axis]).reshape(self._along))

    @property
    def _along(self) -> tuple[int, ...]:
        """The shape of what depends on its own axis alone."""
        return with_length((1,) * self.target.ndim, self.axis + 1, -1)

    def window(self, axis: int, first: int, count: int) -> Gather:
        target = places(self.target, axis + 1, first, count)
        if axis == self.axis:
            target = within(target, first, count)
        return Gather(with_length(self.shape, axis, count), self.axis, target)

    @property
    def acts(self) -> bool:
        return len(self.target) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target}

    def compiled(self, acts: bool) -> CompiledGather:
        return CompiledGather(self.axis, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        where = list(np.indices(self.shape, sparse=True))
        where[self.axis] = at(self.target, action)
        to = np.ravel_multi_index(np.broadcast_arrays(*where), self.shape)
        yield np.broadcast_to(to, self.shape), np.ones(self.shape)

    @property
    def terms(self) -> int:
        return 0

    @property
    def adjoint_terms(self) -> int:
        return self.shape[self.axis]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        where[self.axis] = entries_at(self.target, actions, where).astype(np.int64)
        return np.ravel_multi_index(tuple(where), self.shape), None


@dataclass(frozen=True, eq=False)
class Overwrite(Gather):
    """A map that says the same wherever the coordinate was: from here back it does not matter."""

    hashed_as: ClassVar[str] = "Gather"

    def arrays(self) -> dict[str, NDArray]:
        return {"target": places(self.target, self.axis + 1, 0, 1)}


@dataclass(frozen=True)
class CompiledGather:
    """The compiled side of ``Gather``: ``w[target(x)]`` along one axis."""

    axis: int
    acts: bool

    stays = False
    takes_open = True

    def follows(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        return gathered(w, of_action(arrays["target"], action), self.axis)
