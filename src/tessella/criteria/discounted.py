"""Discounted reward: V = E[ sum_t discount^t r_t ].

With c = discount * row sum, between c_low and c_high, gap = 1 - c > 0, and d = T v - v of a point
v, b = T v: the residual of w = b + m lies between c min d - gap m and c max d - gap m. The best m
balances the two sides, and a residual of size r proves |w - V*| <= r / gap. An occupancy is
normalised by 1 - discount, so that it sums to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessella.criteria.criterion import Criterion, CriterionKernel, NumberOrArray, read_discount
from tessella.errors import ModelError, format_value
from tessella.rounding import RowSumBounds

# As a share of a backup's rounding: row sums this close to 1 leave a constant unchanged.
SHIFT_MAX_DEVIATION_SHARE = 1 / 4


@dataclass(frozen=True)
class Discounted(Criterion):
    """The expected sum of rewards, those of period t multiplied by ``discount**t``.

    Args:
        discount: at least 0 and less than 1.

    Example:
        >>> ts.benchmark("QUE-Lin").with_criterion(ts.Discounted(0.9)).discount
        0.9
    """

    is_discounted = True

    discount: float  # in [0, 1)

    def __post_init__(self) -> None:
        requirement = "discount must lie in [0, 1)"
        number = read_discount(self.discount, requirement)
        if number == 1.0:
            requirement += (
                "; rewards that are not discounted need Total(), Average() or FiniteHorizon()"
            )
        if not 0.0 <= number < 1.0:
            raise ModelError(requirement, value=f"got {format_value(number)}")
        object.__setattr__(self, "discount", number)

    def __str__(self) -> str:
        return f"discount {self.discount:g}"

    def value_of_constant_reward(self, reward: NumberOrArray) -> NumberOrArray:
        return reward / (1 - self.discount)  # type: ignore[operator]

    def equivalent_constant_reward(self, value: NumberOrArray) -> NumberOrArray:
        return (1 - self.discount) * value  # type: ignore[operator]

    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        """1 - c for the largest row sum."""
        return (1 - self.discount) - self.discount * row_sums.excess

    def explain_unbounded(self, row_sums: RowSumBounds) -> str:
        return f"discount {self.discount} is too near 1 for rows that sum to 1 + {row_sums.excess}"

    def make_kernel(self, row_sums: RowSumBounds, backup_rounding: float) -> DiscountedKernel:
        gap = self.contraction_gap(row_sums)
        numbers = {
            "discount": self.discount,
            "contraction_factor": self.discount * row_sums.high,
            "error_factor": 1 / gap,
            "c_low": self.discount * row_sums.low,
            "gap_low": gap,
            "gap_high": (1 - self.discount) + self.discount * min(row_sums.deficit, 1.0),
            "deviation": self.discount * row_sums.deviation,
            "use_center": 1.0,
            "use_shift": row_sums.deviation <= SHIFT_MAX_DEVIATION_SHARE * backup_rounding,
        }
        return DiscountedKernel(**{name: np.float64(number) for name, number in numbers.items()})

    def fingerprint_key(self) -> float:
        return self.discount


class DiscountedKernel(CriterionKernel):
    """The kernel of discounted reward."""

    __slots__ = ()

    def value_of_constant_reward(self, reward):
        return reward / (1 - self.discount)
