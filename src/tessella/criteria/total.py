"""Total reward: V = E[ r_0 + r_1 + ... ] until the process ends, nothing discounted.

The process ends in a state that is never left and pays nothing, or where the model says so. Error
bounds depend on the time to the end: where w bounds the expected periods to the end, from any state
and for every policy that could be optimal, a residual of size r proves

    |v - V*| <= r max w.

The solvers compute w (``solvers.hitting_times``); until then nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tessella.criteria.criterion import (
    UNKNOWN_VALUE_BOUND,
    Criterion,
    CriterionKernel,
    NumberOrArray,
)
from tessella.rounding import OUTWARD_FACTOR, RowSumBounds


@dataclass(frozen=True)
class Total(Criterion):
    """The expected sum of rewards until the end (a stochastic shortest path).

    Example:
        >>> trip = ts.MDP.from_arrays([[[0.2, 0.8], [0.0, 1.0]]], [[-1.0], [0.0]], ts.Total())
        >>> ts.solve(trip).value
        array([-1.25,  0.  ])
    """

    requires_absorption = True
    discount: ClassVar[float] = 1.0  # type: ignore[misc]

    def __str__(self) -> str:
        return "total reward"

    def value_of_constant_reward(self, reward: NumberOrArray) -> NumberOrArray:
        return reward

    def equivalent_constant_reward(self, value: NumberOrArray) -> NumberOrArray:
        return value

    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        return 1.0

    def explain_unbounded(self, row_sums: RowSumBounds) -> str:
        return f"{self} is bounded by the time to the end alone"

    def make_kernel(self, row_sums: RowSumBounds, backup_rounding: float) -> TotalKernel:
        return TotalKernel(np.float64(max(row_sums.high, 1.0)), np.float64(np.inf))

    def fingerprint_key(self) -> str:
        return "total"


class TotalConstants(NamedTuple):
    """The constants of ``TotalKernel``."""

    contraction_factor: Any
    absorption_time: Any  # bounds the expected periods to the end


class TotalKernel(CriterionKernel, TotalConstants):
    """The kernel of total reward: errors add up over the periods to the end."""

    __slots__ = ()
    requires_absorption = True
    discount = 1.0

    def with_absorption_time(self, periods):
        return self._replace(absorption_time=periods)

    def bound_error(self, residual):
        return residual * self.absorption_time * OUTWARD_FACTOR

    def bound_value(self, reward_scale):
        return UNKNOWN_VALUE_BOUND + reward_scale

    def value_of_constant_reward(self, reward):
        return reward * self.absorption_time
