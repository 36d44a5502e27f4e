"""How the tabular methods sample and step."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.errors import ArgumentError, is_count, is_positive


@dataclass(frozen=True)
class UniformPairs:
    """Every update starts from a uniform feasible (state, action) pair."""


@dataclass(frozen=True)
class Trajectory:
    """Updates along a path: greedy, but with probability epsilon a uniform feasible action.

    The path starts as the model does, and again when the process ends or after ``horizon`` steps.
    """

    epsilon: float = 0.1
    horizon: int = 200

    def __post_init__(self) -> None:
        if not (self.epsilon == 0 or (is_positive(self.epsilon) and self.epsilon <= 1)):
            raise ArgumentError("epsilon must lie in [0, 1]", value=f"got {self.epsilon!r}")
        if not is_count(self.horizon):
            raise ArgumentError("horizon must be at least 1", value=f"got {self.horizon!r}")


@dataclass(frozen=True)
class ConstantStep:
    """The same step size for every update."""

    size: float = 0.1

    def __post_init__(self) -> None:
        if not (is_positive(self.size) and self.size <= 1):
            raise ArgumentError("a step size must lie in (0, 1]", value=f"got {self.size!r}")

    def step_size(self, visits):
        """Step size of a pair's update number ``visits`` (1, 2, ...)."""
        return self.size


@dataclass(frozen=True)
class DecayingStep:
    """1 / visits^power for each pair; with power in (1/2, 1] Q-learning converges."""

    power: float = 0.8

    def __post_init__(self) -> None:
        if not (is_positive(self.power) and 0.5 < self.power <= 1):
            raise ArgumentError("power must lie in (1/2, 1]", value=f"got {self.power!r}")

    def step_size(self, visits):
        """Step size of a pair's update number ``visits`` (1, 2, ...)."""
        return visits**-self.power


Sampling = UniformPairs | Trajectory
StepSize = ConstantStep | DecayingStep
