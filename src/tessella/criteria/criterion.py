"""The interface of every criterion: the meaning of a value, and the error bound of a residual.

A criterion is an attribute of the model. It converts values to constant rewards for reports
(``value_of_constant_reward``, ``equivalent_constant_reward``), and it gives the compiled loop a
``CriterionKernel``: how values are centred, and what the residual d = T v - v of an iterate v
proves about the optimal value. All that distinguishes one criterion from another is in its file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, ModelError, format_value
from tessella.numerics import array_namespace
from tessella.rounding import EPS, OUTWARD_FACTOR, RowSumBounds

NumberOrArray = TypeVar("NumberOrArray")  # a number, or an array of them
CRITERION_NAMES = {
    "is_discounted": "Discounted",
    "has_horizon": "FiniteHorizon",
    "has_gain": "Average",
    "requires_absorption": "Total",
}
UNKNOWN_VALUE_BOUND = 1e200  # bound on values where no smaller one is known in advance


class Enclosure(NamedTuple):
    """What a residual proves of a backup b: the value is within ``radius`` of b + ``center``."""

    center: Any
    radius: Any  # rounding included
    floor: Any  # what rounding alone contributes


class CriterionKernel(NamedTuple):
    """The compiled side of a criterion: its numbers, which can change without recompilation.

    Arguments are arrays of the backend; ``backup_error`` bounds the rounding of a computed backup.
    These methods serve sums of rewards: see ``discounted`` for the mathematics. Values are shifted,
    and a backup is improved by a constant, only where the criterion says so.
    """

    discount: Any  # what multiplies the value of the next state
    contraction_factor: Any  # discount times the largest row sum: what a backup keeps of an error
    error_factor: Any  # a residual of size r proves an error of at most r times this
    c_low: Any = np.float64(0)  # discount times the smallest row sum
    gap_low: Any = np.float64(1)  # 1 - contraction_factor
    gap_high: Any = np.float64(1)  # 1 - c_low
    deviation: Any = np.float64(0)  # discount times the largest distance of a row sum from 1
    use_center: Any = np.float64(0)  # 1 where a constant improves a backup, else 0
    use_shift: Any = np.float64(0)  # 1 where shifting by a constant is worthwhile, else 0

    # See ``Criterion``; an annotation would make a field of it.
    requires_absorption = False

    def split_shift(self, value: Any) -> tuple[Any, Any]:
        """(value - shift, shift): a constant that all states share is kept out of the sweeps.

        It is the midrange of the values, where that is worthwhile.
        """
        shift = self.use_shift * (value.max() + value.min()) / 2
        return value - shift, shift

    def reward_shift(self, shift: Any) -> Any:
        """How much lower the reward of a period must be for values lower by ``shift``."""
        return self.use_shift * (1 - self.discount) * shift

    def bound_row_sum_error(self, shift: Any, maximum: Any) -> Any:
        """How far a backup is off because rows do not sum to 1; values are up to ``maximum``."""
        return self.deviation * abs(shift) + 2 * EPS * abs(self.reward_shift(shift))

    def enclose(self, low: Any, high: Any, backup_error: Any, max_size: Any) -> Enclosure:
        """From the ends of the residual d; ``max_size`` bounds |b| + |shift|, which are summed."""
        xp = array_namespace(low)
        c_high = self.contraction_factor
        rounding = EPS * xp.maximum(abs(low), abs(high))
        # c, with the row sum that makes the bound hold.
        low = low * xp.where(low < 0, c_high, self.c_low)
        high = high * xp.where(high > 0, c_high, self.c_low)
        center = self.use_center * (low + high) / (self.gap_low + self.gap_high)
        above = high - center * xp.where(center > 0, self.gap_low, self.gap_high)
        below = center * xp.where(center > 0, self.gap_high, self.gap_low) - low
        # Adding the center and the shift to the backup rounds twice more.
        final_rounding = (1 + c_high) * EPS * (max_size + abs(center))
        return Enclosure(
            center,
            self.bound_error(xp.maximum(above, below) + backup_error + final_rounding + rounding),
            self.bound_error(backup_error + final_rounding),
        )

    def bound_error(self, residual: Any) -> Any:
        """Bound on the error of a value whose residual is at most this, rounding included."""
        return residual * self.error_factor * OUTWARD_FACTOR

    def bound_value(self, reward_scale: Any) -> Any:
        """No value is larger than this, with rewards of this size."""
        return self.bound_error(reward_scale)

    def value_of_constant_reward(self, reward: Any) -> Any:
        """The value of a reward that every period pays."""
        return reward * self.error_factor

    def common_part(self, residual: Any) -> Any:
        """The constant part of a residual, if every period earns it; else 0."""
        return self.use_shift * (residual.max() + residual.min()) / 2

    def span(self, residual: Any) -> Any:
        """The size of a residual without its common part: its span, or twice its maximum norm."""
        high = residual.max()
        low = residual.min()
        xp = array_namespace(high)
        return xp.where(self.use_shift, high - low, 2 * xp.maximum(abs(high), abs(low)))

    def next_iterate(self, value: Any, backup: Any) -> Any:
        """The next iterate of plain value iteration."""
        return backup

    def split_unknowns(self, unknown: Any) -> tuple[Any, Any]:
        """(values, gain): the parts of the unknown of a policy's linear system."""
        return unknown, 0.0

    def report_values(self, backup: Any, center: Any, shift: Any) -> tuple[Any, Any]:
        """(values to report, gain or None), from NumPy's arrays and numbers."""
        return (backup + center) + shift, None


class Criterion(ABC):
    """A criterion of a model: see the head of this file.

    Code outside of ``criteria`` reads these flags and ``periods``, and does not test for a type.
    """

    is_discounted: ClassVar[bool] = False  # values are the one fixed point of a contraction
    has_gain: ClassVar[bool] = False  # values are relative to the gain, a reward per period
    requires_absorption: ClassVar[bool] = False  # bounds rest on the expected time to the end
    rewrites_model: ClassVar[bool] = False  # ``transform`` builds another model

    discount: float  # what multiplies the value of the next state
    periods: int | None = None  # after which the process ends; then time is an axis of the model

    @property
    def has_horizon(self) -> bool:
        """Whether the process ends after ``periods``, with time as an axis of the model."""
        return self.periods is not None

    def transform(self, parts: Any, minimise: bool) -> tuple[Any, Criterion]:
        """The ``ModelParts`` of the model that this criterion solves, and its criterion there.

        ``minimise`` says that rewards and final values were given in costs.
        """
        return parts, self

    def value_of_constant_reward(self, reward: NumberOrArray) -> NumberOrArray:
        """The value of a reward that every period pays; by default that reward."""
        return reward

    def equivalent_constant_reward(self, value: NumberOrArray) -> NumberOrArray:
        """The reward that, paid in every period, is worth ``value``; by default that value."""
        return value

    @abstractmethod
    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        """The divisor that turns a residual into an error bound; not positive where none exists."""

    @abstractmethod
    def explain_unbounded(self, row_sums: RowSumBounds) -> str:
        """The reason why no bound exists, where ``contraction_gap`` is not positive."""

    @abstractmethod
    def make_kernel(self, row_sums: RowSumBounds, backup_rounding: float) -> CriterionKernel:
        """The kernel for these ``row_sums`` and this relative rounding of a backup."""

    def occupancy_rhs(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        """The right side of the system whose solution is a policy's occupancy from ``start``."""
        return self.equivalent_constant_reward(start)

    def remaining_time_share(self, start: NDArray[np.float64]) -> float:
        """The discounted share of all periods that lies after ``start``: 1 without a horizon."""
        return 1.0

    @abstractmethod
    def fingerprint_key(self) -> Any:
        """What enters the fingerprint of a model."""


def read_discount(source: Any, requirement: str) -> float:
    """``source`` as a float, or an error with this ``requirement``."""
    try:
        return float(source)
    except OverflowError:
        raise ModelError(requirement, value=f"got {format_value(source)}") from None
    except (TypeError, ValueError):
        raise ModelError(requirement, value=f"got {source!r}") from None


def require_criterion(verb: str, criterion: Criterion, *flags: str) -> None:
    """Raise an error for a criterion with none of ``flags``, which ``verb`` does not support."""
    if not any(getattr(criterion, flag) for flag in flags):
        names = " or ".join(CRITERION_NAMES[flag] for flag in flags)
        requirement = f"{verb} serves models with the criterion {names}, not {criterion}"
        raise ArgumentError(requirement)
