"""A finite horizon: V_t = E[ sum_{k >= t} discount^(k - t) r_k + discount^(periods - t) final ].

The model has ``time`` as an axis of its own, 0 .. periods - 1, and every period moves it on by one;
after the last the process ends and pays the final value. The value at a time is the value of a
state like any other, and the error of a backup is carried over at most all periods: with c the
discount times the largest row sum, a residual of size r proves

    |v - V*| <= r H,      H = 1 + c + ... + c^(periods - 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.criteria.criterion import Criterion, CriterionKernel, NumberOrArray, read_discount
from tessella.errors import ModelError, format_value, is_whole
from tessella.rounding import EPS, RowSumBounds

HORIZON_MAX_PERIODS = 100_000  # periods


@dataclass(frozen=True)
class FiniteHorizon(Criterion):
    """The expected sum of rewards over a number of periods, and of what is paid at the end.

    Args:
        periods: how many decisions are made, at times 0, 1, ..., periods - 1.
        discount: in (0, 1]; 1 for a plain sum.
        final: what the end pays: a number, a function of axes, or an array of the grid's shape. In
            a model given in costs it is what the end costs.

    Example:
        >>> season = ts.benchmark("QUE-Lin").with_criterion(ts.FiniteHorizon(12))
        >>> ts.solve(season).policy.table.shape      # time comes first
        (12, 31, 21)
    """

    rewrites_model = True  # with time as an axis

    periods: int = field()  # type: ignore[misc]
    discount: float = 1.0
    final: float | ArrayLike | Callable[..., ArrayLike] = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if not is_whole(self.periods, 1, HORIZON_MAX_PERIODS):
            requirement = (
                "a horizon is a whole number of periods, "
                f"at least 1 and at most {HORIZON_MAX_PERIODS:,}"
            )
            raise ModelError(requirement, value=f"got {format_value(self.periods)}")
        requirement = "the discount of a finite horizon must lie in (0, 1]"
        number = read_discount(self.discount, requirement)
        if not 0.0 < number <= 1.0:
            raise ModelError(requirement, value=f"got {format_value(number)}")
        object.__setattr__(self, "periods", int(self.periods))
        object.__setattr__(self, "discount", number)

    def __str__(self) -> str:
        discount = "" if self.discount == 1 else f", discount {self.discount:g}"
        return f"horizon of {self.periods} periods{discount}"

    def discount_sum(self, c: float) -> float:
        """1 + c + ... + c^(periods - 1)."""
        return float((c ** np.arange(self.periods)).sum())

    def value_of_constant_reward(self, reward: NumberOrArray) -> NumberOrArray:
        return reward * self.discount_sum(self.discount)  # type: ignore[operator]

    def equivalent_constant_reward(self, value: NumberOrArray) -> NumberOrArray:
        return value / self.discount_sum(self.discount)  # type: ignore[operator]

    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        """1 / H for the largest row sum."""
        return 1 / (self.discount_sum(self.discount * row_sums.high) * (1 + 2 * self.periods * EPS))

    def explain_unbounded(self, row_sums: RowSumBounds) -> str:
        return f"{self}: rows that sum to 1 + {row_sums.excess} leave no bound"

    def make_kernel(self, row_sums: RowSumBounds, backup_rounding: float) -> CriterionKernel:
        constants = self.discount, self.discount * row_sums.high, 1 / self.contraction_gap(row_sums)
        return CriterionKernel(*map(np.float64, constants))

    def remaining_time_share(self, start: NDArray[np.float64]) -> float:
        """H from the times of ``start`` on, over H from time 0; time is its first axis."""
        by_time = start.reshape(self.periods, -1).sum(axis=1)
        powers = self.discount ** np.arange(self.periods)
        # 1 + c + ... over the periods that are left at each time
        remaining = np.cumsum(powers)[::-1]
        return float(by_time @ remaining / remaining[0])

    def fingerprint_key(self) -> list[Any]:
        return ["horizon", self.periods, self.discount]
