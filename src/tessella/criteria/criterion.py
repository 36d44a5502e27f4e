"""What every criterion is: the meaning of a value, and how far a residual pins it down.

A criterion is a record that the model carries. It answers in numbers for whoever reports values
(``value_of_constant_reward``, ``equivalent_constant_reward``), and it gives the compiled loop a
``CriterionKernel``: how values are centred, and what the residual d = T v - v of a point proves
about the value that is sought. So all that distinguishes one criterion from another is in one file
here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.rounding import RowSumBounds

X = TypeVar("X")  # a number, or an array of them
UNKNOWN_VALUE_BOUND = 1e200  # size of a value where none is known to be smaller beforehand


class Enclosure(NamedTuple):
    """What a residual proves of a backup b: the value is within ``radius`` of b + ``center``."""

    center: Any
    radius: Any  # rounding included
    floor: Any  # what rounding alone contributes


class CriterionKernel(Protocol):
    """The compiled side of a criterion: numbers, so that changing them compiles nothing new.

    Arguments are arrays of the backend; ``eta`` is how far a computed backup may be off.
    """

    @property
    def discount(self) -> Any:
        """What multiplies the value of the next state."""
        ...

    @property
    def contraction_factor(self) -> Any:
        """Discount times the largest row sum: how much of an error a backup keeps."""
        ...

    def split_shift(self, value: Any) -> tuple[Any, Any]:
        """(value - shift, shift): what all states share need not go through the sweeps."""
        ...

    def gain(self, shift: Any) -> Any:
        """What a period's reward is lowered by, when values are lowered by ``shift``."""
        ...

    def row_sum_error(self, shift: Any, maximum: Any) -> Any:
        """How far a backup is off because rows do not sum to 1; values are up to ``maximum``."""
        ...

    def enclose(self, low: Any, high: Any, eta: Any, max_size: Any) -> Enclosure:
        """From the ends of the residual d; ``max_size`` bounds |b| + |shift|, which are summed."""
        ...

    def bound_error(self, residual: Any) -> Any:
        """Bound on the error of a value whose residual is at most this, rounding included."""
        ...

    def value_bound(self, reward_scale: Any) -> Any:
        """No value is larger than this, with rewards of this size."""
        ...

    def value_of_constant_reward(self, reward: Any) -> Any:
        """The value of a reward that every period pays."""
        ...

    def common_part(self, residual: Any) -> Any:
        """The part of a residual that all states share, if every period earns it; else 0."""
        ...

    def span(self, residual: Any) -> Any:
        """How large the rest of it is."""
        ...

    def step(self, value: Any, backup: Any) -> Any:
        """The next point of plain sweeps."""
        ...

    def split_unknowns(self, e: Any) -> tuple[Any, Any]:
        """(values, gain): what the unknown of a policy's linear system holds."""
        ...

    def report_values(self, backup: Any, center: Any, shift: Any) -> tuple[Any, Any]:
        """(values to report, gain or None), from NumPy's arrays and numbers."""
        ...


class Criterion(ABC):
    """A criterion of a model: see the head of this file."""

    discount: float  # what multiplies the value of the next state

    @abstractmethod
    def value_of_constant_reward(self, reward: X) -> X:
        """The value of a reward that every period pays."""

    @abstractmethod
    def equivalent_constant_reward(self, value: X) -> X:
        """The reward that, paid in every period, is worth ``value``."""

    @abstractmethod
    def contraction_gap(self, row_sums: RowSumBounds) -> float:
        """What a residual is divided by to bound an error; not positive where it bounds nothing."""

    @abstractmethod
    def why_unbounded(self, row_sums: RowSumBounds) -> str:
        """Why it bounds nothing, where ``contraction_gap`` is not positive."""

    @abstractmethod
    def make_kernel(self, row_sums: RowSumBounds, unit: float) -> CriterionKernel:
        """The compiled side, for these ``row_sums``; ``unit`` is the rounding of a backup."""

    @abstractmethod
    def occupancy_rhs(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        """The right side of the system whose solution is a policy's occupancy from ``start``."""

    def remaining_time_share(self, start: NDArray[np.float64]) -> float:
        """How much of all time, as it is weighed, lies after ``start``: 1 unless time runs out."""
        return 1.0

    @abstractmethod
    def identity(self) -> Any:
        """What enters the fingerprint of a model."""


def require_criterion(verb: str, criterion: Criterion, *supported: type[Criterion]) -> None:
    """Refuse a criterion that ``verb`` cannot serve."""
    if not isinstance(criterion, supported):
        names = " or ".join(kind.__name__ for kind in supported)
        requirement = f"{verb} serves models with the criterion {names}, not {criterion}"
        raise ArgumentError(requirement)
