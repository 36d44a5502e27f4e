"""Discounted reward: V = E[ sum_t discount^t r_t ].

With c = discount * row sum, between c_low and c_high, rest = 1 - c > 0, and d = T v - v of a point
v, b = T v: the residual of w = b + m lies between c min d - rest m and c max d - rest m. The best m
balances the two sides, and a residual of size r proves |w - V*| <= r / rest. An occupancy is
normalised by 1 - discount, so that it sums to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import Criterion, Proven, X
from tessella.errors import ModelError, shown
from tessella.numerics import numerics
from tessella.rounding import EPS, Mass

OUTWARD = 1 + 32 * EPS  # covers the rounding of a bound's own arithmetic
EVEN = 1 / 4  # of a backup's rounding: row sums this near to 1 pass a constant on as it is


@dataclass(frozen=True)
class Discounted(Criterion):
    """The expected sum of rewards, those of period t multiplied by ``discount**t``."""

    discount: float  # in [0, 1)

    def __post_init__(self) -> None:
        rule = "discount must lie in [0, 1)"
        try:
            number = float(self.discount)
        except OverflowError:
            raise ModelError(rule, value=f"got {shown(self.discount)}") from None
        except (TypeError, ValueError):
            raise ModelError(rule, value=f"got {self.discount!r}") from None
        if number == 1.0:
            rule += "; rewards that are not discounted need Total(), Average() or FiniteHorizon()"
        if not 0.0 <= number < 1.0:
            raise ModelError(rule, value=f"got {shown(number)}")
        object.__setattr__(self, "discount", number)

    def __str__(self) -> str:
        return f"discount {self.discount:g}"

    def forever(self, reward: X) -> X:
        return reward / (1 - self.discount)  # type: ignore[operator]

    def per_period(self, value: X) -> X:
        return (1 - self.discount) * value  # type: ignore[operator]

    def rest(self, mass: Mass) -> float:
        """1 - c for the largest row sum."""
        return (1 - self.discount) - self.discount * mass.over

    def refusal(self, mass: Mass) -> str:
        return f"{self} is too near 1 for rows that sum to 1 + {mass.over}"

    def enclosure(self, mass: Mass, unit: float) -> Contraction:
        numbers = (
            self.discount,
            self.discount * mass.low,
            self.discount * mass.high,
            self.rest(mass),
            (1 - self.discount) + self.discount * min(mass.short, 1.0),
            self.discount * mass.off,
            mass.off <= EVEN * unit,
        )
        return Contraction(*map(np.float64, numbers))

    def source(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.per_period(start)

    def identity(self) -> float:
        return self.discount


class Contraction(NamedTuple):
    """The compiled side: T brings any two points nearer to one another by c."""

    discount: Any
    c_low: Any  # discount times the smallest row sum ...
    c_high: Any  # ... and the largest
    rest_low: Any  # 1 - c_high
    rest_high: Any  # 1 - c_low
    off: Any  # discount times the largest distance of a row sum from 1
    centred: Any  # 1 where taking out a constant pays, else 0

    @property
    def largest(self):
        return self.c_high

    def split(self, value):
        """With the middle of the values as the shift, where that pays."""
        shift = self.centred * (value.max() + value.min()) / 2
        return value - shift, shift

    def gain(self, shift):
        return (1 - self.discount) * shift

    def uneven(self, shift, most):
        return self.off * abs(shift) + 2 * EPS * abs(self.gain(shift))

    def enclose(self, low, high, eta, sizes) -> Proven:
        xp = numerics(low)
        slip = EPS * xp.maximum(abs(low), abs(high))
        # c, with the row sum that makes the bound hold.
        low = low * xp.where(low < 0, self.c_high, self.c_low)
        high = high * xp.where(high > 0, self.c_high, self.c_low)
        middle = (low + high) / (self.rest_low + self.rest_high)
        above = high - middle * xp.where(middle > 0, self.rest_low, self.rest_high)
        below = middle * xp.where(middle > 0, self.rest_high, self.rest_low) - low
        # Whoever adds the middle and the shift to the backup rounds twice more.
        last = (1 + self.c_high) * EPS * (sizes + abs(middle))
        return Proven(
            middle,
            self.error(xp.maximum(above, below) + eta + last + slip),
            self.error(eta + last),
        )

    def error(self, residual):
        return residual / self.rest_low * OUTWARD

    def reach(self, reward_scale):
        return self.error(reward_scale)

    def forever(self, reward):
        return reward / (1 - self.discount)

    def shared(self, residual):
        """The middle; nothing where rows sum to less, so that it would not be paid for ever."""
        return self.centred * (residual.max() + residual.min()) / 2

    def spread(self, residual):
        high, low = residual.max(), residual.min()
        whole = 2 * numerics(high).maximum(abs(high), abs(low))
        return self.centred * (high - low) + (1 - self.centred) * whole

    def step(self, value, backup):
        return backup

    def unknown(self, e):
        return e, 0.0

    def values(self, backup, middle, shift):
        return (backup + middle) + shift, None
