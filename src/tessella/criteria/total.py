"""Total reward: V = E[ r_0 + r_1 + ... ] until the process ends, nothing discounted.

It ends where a state is never left and pays nothing, or where the model says that it ends. How far
a residual pins a value down depends on how long it may take: where w bounds the expected periods to
the end, from any state and for every policy that could be best, a residual of size r proves

    |v - V*| <= r max w.

That w is found by the solvers (``solvers.hitting_times``); until then nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import UNKNOWN_VALUE_BOUND, Criterion, Enclosure, X
from tessella.numerics import array_namespace
from tessella.rounding import EPS, OUTWARD_FACTOR, RowSumBounds


@dataclass(frozen=True)
class Total(Criterion):
    """The expected sum of rewards until the end (a stochastic shortest path)."""

    discount: ClassVar[float] = 1.0  # type: ignore[misc]

    def __str__(self) -> str:
        return "total reward"

    def value_of_constant_reward(self, reward: X) -> X:
        return reward

    def equivalent_constant_reward(self, value: X) -> X:
        return value

    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        return 1.0

    def why_unbounded(self, row_sums: RowSumBounds) -> str:
        return f"{self} is bounded by the time to the end alone"

    def make_kernel(self, row_sums: RowSumBounds, unit: float) -> TotalKernel:
        return TotalKernel(np.float64(max(row_sums.high, 1.0)), np.float64(np.inf))

    def occupancy_rhs(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        return start

    def identity(self) -> str:
        return "total"


class TotalKernel(NamedTuple):
    """The compiled side; ``absorption_time`` bounds the expected periods to the end."""

    contraction_factor: Any
    absorption_time: Any

    @property
    def discount(self):
        return 1.0

    def split_shift(self, value):
        return value, 0.0 * value.max()

    def gain(self, shift):
        return 0.0 * shift

    def row_sum_error(self, shift, maximum):
        return 0.0 * maximum

    def enclose(self, low, high, eta, max_size) -> Enclosure:
        max_residual = array_namespace(low).maximum(abs(low), abs(high))
        carried = self.contraction_factor * max_residual * (1 + EPS)
        final_rounding = (1 + self.contraction_factor) * EPS * max_size
        return Enclosure(
            0.0 * low,
            self.bound_error(carried + eta + final_rounding),
            self.bound_error(eta + final_rounding),
        )

    def bound_error(self, residual):
        return residual * self.absorption_time * OUTWARD_FACTOR

    def value_bound(self, reward_scale):
        return UNKNOWN_VALUE_BOUND + reward_scale

    def value_of_constant_reward(self, reward):
        return reward * self.absorption_time

    def common_part(self, residual):
        return 0.0 * residual.max()

    def span(self, residual):
        return 2 * abs(residual).max()

    def step(self, value, backup):
        return backup

    def split_unknowns(self, e):
        return e, 0.0

    def report_values(self, backup, center, shift):
        return backup, None
