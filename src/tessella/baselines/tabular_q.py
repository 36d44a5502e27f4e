"""Tabular Q-learning, with one table or two.

    Q(s, a) <- Q(s, a) + step [ r + discount max_{b feasible in s'} Q(s', b) - Q(s, a) ]

with no future after a transition that ended the process. Double Q-learning has two tables, each
valuing the other's choice:

    with probability 1/2, b* = argmax_{b feasible in s'} Q_1(s', b),
    Q_1(s, a) <- Q_1(s, a) + step [ r + discount Q_2(s', b*) - Q_1(s, a) ],

else the same with the tables exchanged; the policy is greedy in Q_1 + Q_2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tessella.errors import ArgumentError, is_positive, require_whole
from tessella.mdp.model import MDP


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
        require_whole("horizon", self.horizon, 1)


@dataclass(frozen=True)
class ConstantStep:
    """The same step size for every update."""

    size: float = 0.1

    def __post_init__(self) -> None:
        if not (is_positive(self.size) and self.size <= 1):
            raise ArgumentError("a step size must lie in (0, 1]", value=f"got {self.size!r}")

    def step_size(self, visits: int) -> float:
        """Step size of a pair's update number ``visits`` (1, 2, ...)."""
        return self.size


@dataclass(frozen=True)
class DecayingStep:
    """1 / visits^power for each pair; with power in (1/2, 1] Q-learning converges."""

    power: float = 0.8

    def __post_init__(self) -> None:
        if not (is_positive(self.power) and 0.5 < self.power <= 1):
            raise ArgumentError("power must lie in (1/2, 1]", value=f"got {self.power!r}")

    def step_size(self, visits: int) -> float:
        """Step size of a pair's update number ``visits`` (1, 2, ...)."""
        return visits**-self.power


Sampling = UniformPairs | Trajectory
StepSize = ConstantStep | DecayingStep
QTables = list[list[list[float]]]  # by table, state and action; -inf where infeasible


@dataclass(frozen=True)
class TabularQ:
    """Q-learning with one table.

    Args:
        step: step size, ``ConstantStep`` or ``DecayingStep``.
        sampling: ``UniformPairs``, the paper's protocol as reconstructed, or ``Trajectory``.
        start: the value every entry begins with.

    Example:
        >>> policy = ts.train(ts.TabularQ(), ts.benchmark("QUE-Lin"), updates=200, rng=0)
        >>> policy.simulator_calls
        200
    """

    step: StepSize = field(default_factory=ConstantStep)
    sampling: Sampling = field(default_factory=UniformPairs)
    start: float = 0.0

    title: ClassVar[str] = "Tabular Q-learning"
    tables: ClassVar[int] = 1

    def size(self, mdp: MDP) -> int:
        """Numbers stored."""
        return self.tables * mdp.n_states * mdp.n_actions

    def target(self, q: QTables, next_state: int, coin: int) -> tuple[int, float]:
        """Which table learns, and its target: the value of the future after ``next_state``."""
        return 0, max(q[0][next_state])


@dataclass(frozen=True)
class DoubleQ(TabularQ):
    """Q-learning with two tables.

    Args:
        step, sampling, start: as in ``TabularQ``.

    Example:
        >>> policy = ts.train(ts.DoubleQ(), ts.benchmark("QUE-Lin"), updates=200, rng=0)
        >>> policy.simulator_calls
        200
    """

    title: ClassVar[str] = "Double Q-learning"
    tables: ClassVar[int] = 2

    def target(self, q: QTables, next_state: int, coin: int) -> tuple[int, float]:
        """The table that ``coin`` names learns; the other one values its choice."""
        row = q[coin][next_state]
        return coin, q[1 - coin][next_state][row.index(max(row))]
