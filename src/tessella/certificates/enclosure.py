"""Numbers with an enclosure: an interval that holds the exact number, whatever the rounding.

A float operation is off by at most ``u |result|`` with u = EPS / 2, so one step outward covers it.
A sum of n products is off by at most ``(n + 1) u sum|w_i x_i|``, in whatever order it is added up;
``(n + 2) EPS`` times the computed sum of sizes covers that and its own rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EPS = float(np.finfo(float).eps)


class Enclosed(float):
    """A number that is also an interval: the exact one lies in ``lower..upper``.

    It is a float wherever a float is wanted; arithmetic with it gives plain floats.
    """

    __slots__ = ("lower", "upper")
    lower: float
    upper: float

    def __new__(cls, value: float, lower: float, upper: float) -> Enclosed:
        if not lower <= value <= upper:
            raise ArithmeticError(
                f"an enclosure must hold its value: {lower} <= {value} <= {upper}"
            )
        self = super().__new__(cls, value)
        self.lower, self.upper = float(lower), float(upper)
        return self

    @staticmethod
    def of(value: float, error: float) -> Enclosed:
        """``value`` known within ``error``."""
        return Enclosed(value, down(value - error), up(value + error))

    @property
    def width(self) -> float:
        return self.upper - self.lower

    def __contains__(self, number: float) -> bool:
        return bool(self.lower <= number <= self.upper)

    def times(self, factor: float) -> Enclosed:
        """``factor`` times this, for a positive factor that is right to a few units of rounding."""
        reach = (1 - 4 * EPS, 1 + 4 * EPS)
        lower = min(self.lower * factor * r for r in reach)
        return Enclosed(self * factor, lower, max(self.upper * factor * r for r in reach))

    def over(self, other: Enclosed) -> Enclosed | None:
        """This divided by the size of ``other``; None where that may be 0."""
        if 0.0 in other:
            return None
        least, most = sorted((abs(other.lower), abs(other.upper)))
        ends = [end / size for end in (self.lower, self.upper) for size in (least, most)]
        return Enclosed(self / abs(other), down(min(ends)), up(max(ends)))

    def within(self, other: Enclosed, what: str) -> Enclosed:
        """What both enclosures leave; they enclose one number, so they cannot be disjoint."""
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        if lower > upper:
            raise ArithmeticError(f"two ways to {what} exclude one another: {self!r} and {other!r}")
        return Enclosed(min(max(self, lower), upper), lower, upper)

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.lower, self.upper

    def __repr__(self) -> str:
        return f"{float(self):.6g} [{self.lower!r}, {self.upper!r}]"

    __str__ = float.__repr__
    __hash__ = float.__hash__


@dataclass(frozen=True, eq=False)
class Band:
    """An array of numbers, each with its enclosure; all three have one shape."""

    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def __post_init__(self) -> None:
        for part in (self.value, self.lower, self.upper):
            part.setflags(write=False)

    @property
    def width(self) -> float:
        """Of the widest enclosure."""
        return float(np.max(self.upper - self.lower, initial=0.0))

    def max(self) -> Enclosed:
        """The largest of the numbers."""
        return Enclosed(*(float(part.max()) for part in (self.value, self.lower, self.upper)))


def up(number: float) -> float:
    """The next float above; 0 stays, as products and quotients that are 0 are exact."""
    return math.nextafter(number, math.inf) if number else 0.0


def down(number: float) -> float:
    """The next float below; 0 stays."""
    return math.nextafter(number, -math.inf) if number else 0.0


def mean(weights: NDArray[np.float64], band: Band) -> Enclosed:
    """``sum_s w_s x_s`` for weights that are not negative and x in the band."""
    w = weights.ravel()
    value, lower, upper = (float(np.vdot(w, part)) for part in (band.value, band.lower, band.upper))
    size = float(np.vdot(w, np.abs(band.lower))) + float(np.vdot(w, np.abs(band.upper)))
    slack = (w.size + 2) * EPS * size
    return Enclosed(value, lower - slack, upper + slack)


def share(weights: NDArray[np.float64], surely: NDArray, perhaps: NDArray, guess: NDArray, error):
    """Enclosed weight of a set of states, whose weights are off by ``error`` in all.

    Args:
        surely, perhaps: (grid) states that belong to the set, and those that may.
        guess: (grid) the set as computed, between the two.
    """
    value, lower, upper = (
        float(weights[part].sum(dtype=float)) for part in (guess, surely, perhaps)
    )
    slack = (weights.size + 2) * EPS * upper
    floor = max(lower - slack - error, 0.0)
    # No weight at all is certain only where no state may belong.
    return Enclosed(value, floor, (upper + slack + error) * (1 + 4 * EPS) if perhaps.any() else 0.0)
