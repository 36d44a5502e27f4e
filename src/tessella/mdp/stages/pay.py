"""Pay: a reward is paid and nothing moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.scope import Scope
from tessella.mdp.stages.operation import Operation, Reach, with_length
from tessella.mdp.stages.stage import Function, Stage, StageNumbers, reward_of


@dataclass(frozen=True, eq=False)
class Pay(Stage):
    """Pay ``pays(...)``, or what ``costs(...)`` with a minus sign, and stay."""

    pays: Function | None = None
    costs: Function | None = None

    def __post_init__(self) -> None:
        if self.pays is None and self.costs is None:
            raise ModelError("a Pay stage needs what it pays, or what it costs")

    def numbers(self, scope: Scope) -> StageNumbers:
        paid = reward_of(scope, self.paid, "the reward of a Pay stage")
        return StageNumbers(Stay(scope.grid.shape), paid, self.paid, None)


@dataclass(frozen=True, eq=False)
class Stay(Operation):
    """Every state stays where it is."""

    def without(self, axes: int) -> Stay:
        return Stay(self.shape[:axes])

    def lengths_before(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return after

    def reach(self, axis: int) -> Reach:
        return Reach()

    def window(self, axis: int, first: int, count: int) -> Stay:
        return Stay(with_length(self.shape, axis, count))

    @property
    def acts(self) -> bool:
        return False

    def arrays(self) -> dict[str, NDArray]:
        return {}

    def compiled(self, acts: bool) -> CompiledStay:
        return CompiledStay(acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        yield np.arange(int(np.prod(self.shape))).reshape(self.shape), np.ones(self.shape)

    @property
    def terms(self) -> int:
        return 0

    @property
    def adjoint_terms(self) -> int:
        return 0

    def sample(self, states, actions, rng):
        return states, None


@dataclass(frozen=True)
class CompiledStay:
    """The compiled side of ``Stay``."""

    acts: bool

    stays = True
    takes_open = True

    def follows(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        return w
