"""Discounted reward: V = E[ sum_t discount^t r_t ].

With c = discount * row sum, between c_low and c_high, gap = 1 - c > 0, and d = T v - v of a point
v, b = T v: the residual of w = b + m lies between c min d - gap m and c max d - gap m. The best m
balances the two sides, and a residual of size r proves |w - V*| <= r / gap. An occupancy is
normalised by 1 - discount, so that it sums to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tessella.criteria.criterion import (
    Criterion,
    CriterionKernel,
    Enclosure,
    NumberOrArray,
    read_discount,
)
from tessella.errors import ModelError, format_value
from tessella.numerics import array_namespace
from tessella.rounding import EPS, OUTWARD_FACTOR, RowSumBounds

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
        constants = (
            self.discount,
            self.discount * row_sums.low,
            self.discount * row_sums.high,
            self.contraction_gap(row_sums),
            (1 - self.discount) + self.discount * min(row_sums.deficit, 1.0),
            self.discount * row_sums.deviation,
            row_sums.deviation <= SHIFT_MAX_DEVIATION_SHARE * backup_rounding,
        )
        return DiscountedKernel(*map(np.float64, constants))

    def fingerprint_key(self) -> float:
        return self.discount


class DiscountedConstants(NamedTuple):
    """The constants of ``DiscountedKernel``."""

    discount: Any
    c_low: Any  # discount times the smallest row sum ...
    c_high: Any  # ... and the largest
    gap_low: Any  # 1 - c_high
    gap_high: Any  # 1 - c_low
    deviation: Any  # discount times the largest distance of a row sum from 1
    use_shift: Any  # 1 where shifting by a constant is worthwhile, else 0


class DiscountedKernel(CriterionKernel, DiscountedConstants):
    """The kernel of a contraction by the factor c."""

    __slots__ = ()

    @property
    def contraction_factor(self):
        return self.c_high

    def split_shift(self, value):
        """With the midrange of the values as the shift, where that is worthwhile."""
        shift = self.use_shift * (value.max() + value.min()) / 2
        return value - shift, shift

    def reward_shift(self, shift):
        return (1 - self.discount) * shift

    def bound_row_sum_error(self, shift, maximum):
        return self.deviation * abs(shift) + 2 * EPS * abs(self.reward_shift(shift))

    def enclose(self, low, high, backup_error, max_size) -> Enclosure:
        xp = array_namespace(low)
        rounding = EPS * xp.maximum(abs(low), abs(high))
        # c, with the row sum that makes the bound hold.
        low = low * xp.where(low < 0, self.c_high, self.c_low)
        high = high * xp.where(high > 0, self.c_high, self.c_low)
        center = (low + high) / (self.gap_low + self.gap_high)
        above = high - center * xp.where(center > 0, self.gap_low, self.gap_high)
        below = center * xp.where(center > 0, self.gap_high, self.gap_low) - low
        # Adding the center and the shift to the backup rounds twice more.
        final_rounding = (1 + self.c_high) * EPS * (max_size + abs(center))
        return Enclosure(
            center,
            self.bound_error(xp.maximum(above, below) + backup_error + final_rounding + rounding),
            self.bound_error(backup_error + final_rounding),
        )

    def bound_error(self, residual):
        return residual / self.gap_low * OUTWARD_FACTOR

    def value_of_constant_reward(self, reward):
        return reward / (1 - self.discount)

    def common_part(self, residual):
        """The middle; 0 where rows sum to less than 1, since not every period would earn it."""
        return self.use_shift * (residual.max() + residual.min()) / 2

    def span(self, residual):
        high = residual.max()
        low = residual.min()
        full_span = 2 * array_namespace(high).maximum(abs(high), abs(low))
        return self.use_shift * (high - low) + (1 - self.use_shift) * full_span

    def report_values(self, backup, center, shift):
        return (backup + center) + shift, None
