"""Total reward: V = E[ r_0 + r_1 + ... ] until the process ends, nothing discounted.

The process ends in a state that is never left and pays nothing, or where the model says so. Error
bounds depend on the time to the end: where w bounds the expected periods to the end, from any state
and for every policy that could be optimal, a residual of size r proves

    |v - V*| <= r max w.

The solvers compute w (``solvers.hitting_times``); until then nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tessella.criteria.criterion import UNKNOWN_VALUE_BOUND, Criterion, CriterionKernel
from tessella.rounding import RowSumBounds


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

    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        return 1.0

    def explain_unbounded(self, row_sums: RowSumBounds) -> str:
        return f"{self} is bounded by the time to the end alone"

    def make_kernel(self, row_sums: RowSumBounds, backup_rounding: float) -> TotalKernel:
        unknown_time = np.float64(np.inf)  # the solvers put a bound in its place
        return TotalKernel(np.float64(1), np.float64(max(row_sums.high, 1.0)), unknown_time)

    def fingerprint_key(self) -> str:
        return "total"


class TotalKernel(CriterionKernel):
    """The kernel of total reward: the error factor bounds the expected periods to the end."""

    __slots__ = ()
    requires_absorption = True

    def bound_value(self, reward_scale):
        return UNKNOWN_VALUE_BOUND + reward_scale
