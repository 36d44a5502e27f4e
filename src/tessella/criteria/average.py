"""Average reward: the gain g = lim (1/n) E[ r_0 + ... + r_{n-1} ], the same from every start.

With relative values h, g + h = T h. For any h, with d = T h - h,

    min d <= g <= max d,

in every model, whatever its chains: min d bounds the gain of the worst start from below, max d that
of the best from above. So a narrow enclosure proves by itself that there is one gain. Values are
known up to a constant, which the linear system of a policy settles by the mean of the values,

    h + g - P_pi h = r_pi,   g = mean h;

it has one solution where the policy has one recurrent class, periodic or not. Reported values are 0
in the first state. Plain sweeps are damped by half: on a periodic chain they would never converge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import (
    UNKNOWN_VALUE_BOUND,
    Criterion,
    CriterionKernel,
    Enclosure,
)
from tessella.rounding import EPS, OUTWARD_FACTOR, RowSumBounds

ENDING_MIN_DEFICIT = 1e-6  # a larger distance of a row sum from 1 means that the process ends


@dataclass(frozen=True)
class Average(Criterion):
    """The long-run reward per period.

    Example:
        >>> mdp = ts.benchmark("QUE-Lin").with_criterion(ts.Average())
        >>> round(ts.solve(mdp).gain, 3)
        5.242
    """

    has_gain = True
    discount: ClassVar[float] = 1.0  # type: ignore[misc]

    def __str__(self) -> str:
        return "average reward"

    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        return 1.0 if row_sums.deviation < ENDING_MIN_DEFICIT else 0.0

    def explain_unbounded(self, row_sums: RowSumBounds) -> str:
        requirement = "average reward needs a process that never ends"
        return f"{requirement}; rows sum to 1 - {row_sums.deficit:.3g}"

    def make_kernel(self, row_sums: RowSumBounds, backup_rounding: float) -> AverageKernel:
        one = np.float64(1)
        deviation = np.float64(row_sums.deviation)
        return AverageKernel(one, one, one, deviation=deviation, use_shift=one)

    def occupancy_rhs(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(start.shape, 1 / start.size)  # the average does not depend on the start

    def fingerprint_key(self) -> str:
        return "average"


class AverageKernel(CriterionKernel):
    """The kernel of average reward."""

    __slots__ = ()

    def split_shift(self, value):
        """The midrange is subtracted and dropped: values are relative here."""
        return value - (value.max() + value.min()) / 2, 0.0 * value.max()

    def bound_row_sum_error(self, shift, maximum):
        return self.deviation * maximum

    def enclose(self, low, high, backup_error, max_size) -> Enclosure:
        rounding = backup_error + 4 * EPS * (abs(low) + abs(high))
        return Enclosure(
            (low + high) / 2,
            ((high - low) / 2 + rounding) * OUTWARD_FACTOR,
            rounding * OUTWARD_FACTOR,
        )

    def bound_value(self, reward_scale):
        return UNKNOWN_VALUE_BOUND + reward_scale

    def next_iterate(self, value, backup):
        return (value + backup) / 2

    def split_unknowns(self, unknown):
        return unknown, unknown.mean()

    def report_values(self, backup, center, shift):
        return backup - backup[(0,) * backup.ndim], center
