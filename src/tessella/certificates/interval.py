"""Numbers with an enclosure: an interval that holds the exact number, whatever the rounding.

A float operation is off by at most ``u |result|`` with u = EPS / 2, so one step outward covers it.
A sum of n products is off by at most ``(n + 1) u sum|w_i x_i|``, in whatever order it is added up;
``(n + 2) EPS`` times the computed sum of sizes covers that and its own rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EPS = float(np.finfo(float).eps)


class Interval(float):
    """A number that is also an interval: the exact one lies in ``lower..upper``.

    It is a float wherever a float is wanted; arithmetic with it gives plain floats.
    """

    __slots__ = ("lower", "upper")
    lower: float
    upper: float

    def __new__(cls, value: float, lower: float, upper: float) -> Interval:
        if not lower <= value <= upper:
            raise ArithmeticError(
                f"an enclosure must hold its value: {lower} <= {value} <= {upper}"
            )
        self = super().__new__(cls, value)
        self.lower = float(lower)
        self.upper = float(upper)
        return self

    @staticmethod
    def from_error(value: float, error: float) -> Interval:
        """``value`` known within ``error``."""
        return Interval(value, next_down(value - error), next_up(value + error))

    def record(self) -> dict[str, float]:
        """The number and its ends by name, as replies to programs hold them."""
        return {"value": float(self), "lower": self.lower, "upper": self.upper}

    @property
    def parts(self) -> tuple[float, float, float]:
        """(value, lower, upper)."""
        return float(self), self.lower, self.upper

    @property
    def width(self) -> float:
        return self.upper - self.lower

    def __contains__(self, number: float) -> bool:
        return bool(self.lower <= number <= self.upper)

    def scale(self, factor: float) -> Interval:
        """``factor`` times this, for a positive factor that is right to a few units of rounding."""
        rounding_factors = (1 - 4 * EPS, 1 + 4 * EPS)
        lower = min(self.lower * factor * r for r in rounding_factors)
        return Interval(
            self * factor, lower, max(self.upper * factor * r for r in rounding_factors)
        )

    def divide(self, other: Interval) -> Interval | None:
        """This divided by the size of ``other``; None where that may be 0 or is not finite."""
        if 0.0 in other:
            return None
        sizes = (abs(other.lower), abs(other.upper))
        quotients = [end / size for end in (self.lower, self.upper) for size in sizes]
        if not all(map(math.isfinite, quotients)):
            return None
        return Interval(self / abs(other), next_down(min(quotients)), next_up(max(quotients)))

    def intersect(self, other: Interval, subject: str) -> Interval:
        """What both enclosures leave; they enclose one number, so they cannot be disjoint."""
        lower = max(self.lower, other.lower)
        upper = min(self.upper, other.upper)
        if lower > upper:
            raise ArithmeticError(
                f"internal error: two enclosures of {subject} do not intersect: {self!r}, {other!r}"
            )
        return Interval(min(max(self, lower), upper), lower, upper)

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return self.parts

    def __repr__(self) -> str:
        return f"{float(self):.6g} [{self.lower!r}, {self.upper!r}]"

    __str__ = float.__repr__
    __hash__ = float.__hash__


@dataclass(frozen=True, eq=False)
class IntervalArray:
    """An array of numbers, each with its enclosure; all three have one shape."""

    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def __post_init__(self) -> None:
        for array in self.parts:
            array.setflags(write=False)

    @staticmethod
    def from_error(value: NDArray[np.float64], error: float) -> IntervalArray:
        """``value``, each known within ``error``."""
        return IntervalArray(value.view(), value - error, value + error)

    @property
    def parts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(value, lower, upper)."""
        return self.value, self.lower, self.upper

    @property
    def width(self) -> float:
        """Of the widest enclosure."""
        return float(np.max(self.upper - self.lower, initial=0.0))

    def max(self) -> Interval:
        """The largest of the numbers."""
        return Interval(*(float(array.max()) for array in self.parts))


def next_up(number: float) -> float:
    """The next float above; 0 stays, as products and quotients that are 0 are exact."""
    return math.nextafter(number, math.inf) if number else 0.0


def next_down(number: float) -> float:
    """The next float below; 0 stays."""
    return math.nextafter(number, -math.inf) if number else 0.0


class IntervalSum:
    """``sum_s w_s x_s`` over blocks of states, for weights w >= 0 and x in intervals."""

    def __init__(self) -> None:
        self.totals = np.zeros(3)
        self.size = 0.0
        self.largest_block = 0
        self.n_blocks = 0

    def add(self, weights: NDArray[np.float64], intervals: IntervalArray) -> None:
        w = weights.ravel()
        self.totals = self.totals + [float(np.vdot(w, array)) for array in intervals.parts]
        ends = intervals.lower, intervals.upper
        self.size += sum(float(np.vdot(w, np.abs(array))) for array in ends)
        self.largest_block = max(self.largest_block, w.size)
        self.n_blocks += 1

    def enclose(self) -> Interval:
        # Products and sums within a block, then one sum over blocks: in whatever order.
        slack = (self.largest_block + self.n_blocks + 1) * EPS * self.size
        value, lower, upper = self.totals.tolist()
        return Interval(value, lower - slack, upper + slack)


def enclose_mean(weights: NDArray[np.float64], intervals: IntervalArray) -> Interval:
    """``sum_s w_s x_s`` for weights that are not negative and x in ``intervals``."""
    total = IntervalSum()
    total.add(weights, intervals)
    return total.enclose()


def enclose_share(counts: Iterable[int], total: int) -> Interval:
    """A set's share of ``total`` states: computed, certain and possible ``counts`` of the set."""
    value, lower, upper = (int(count) / total for count in counts)
    return Interval(value, next_down(lower), next_up(upper))


def enclose_weight(
    weights: NDArray[np.float64],
    certain: NDArray,
    possible: NDArray,
    estimated: NDArray,
    error: float,
) -> Interval:
    """Enclosed weight of a set of states, whose weights are off by ``error`` in all.

    Args:
        certain, possible: (grid) states that belong to the set, and those that may.
        estimated: (grid) the set as computed, between the two.
    """
    value, lower, upper = (
        float(weights[mask].sum(dtype=float)) for mask in (estimated, certain, possible)
    )
    slack = (weights.size + 2) * EPS * upper
    lowest = max(lower - slack - error, 0.0)
    # No weight at all is certain only where no state may belong.
    return Interval(
        value, lowest, (upper + slack + error) * (1 + 4 * EPS) if possible.any() else 0.0
    )
