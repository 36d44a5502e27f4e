"""A stage: what the user writes, and the numbers that become of it.

Its functions are called once, on the grid, and their results are checked and kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.mdp import checks
from tessella.mdp.scope import NamedValues, Scope, call
from tessella.mdp.stages.operation import Operation

Function = Callable[..., ArrayLike]


class Stage(ABC):
    """One event of a period, as the user writes it."""

    @abstractmethod
    def numbers(self, scope: Scope) -> StageNumbers:
        """The stage as arrays over the grid of ``scope``."""


@dataclass(frozen=True, eq=False)
class StageNumbers:
    """A stage made of numbers: what happens to the state, and what it pays."""

    hashed_as: ClassVar[str] = "Compiled"  # saved files hold fingerprints of this word

    operation: Operation
    reward: NDArray[np.float64] | None  # (A | 1, *broadcast) expected over the stage's noise
    pays: Function | None  # the stage's own reward function, for simulation
    noise: NamedValues | None  # its name and (K,) values
    reward_error: float = 0.0  # bound on what rounding did to the expected reward

    @property
    def acts(self) -> bool:
        return self.operation.acts or (self.reward is not None and len(self.reward) > 1)

    def arrays(self) -> dict[str, NDArray]:
        reward = {} if self.reward is None else {"reward": self.reward}
        return self.operation.arrays() | reward


def reward_of(scope: Scope, pays: Function | None, what: str) -> NDArray[np.float64] | None:
    """(A | 1, *broadcast) reward of a stage that pays on no noise."""
    if pays is None:
        return None
    return checks.rewards(scope, call(pays, scope.mesh(), what), what)[..., 0]
