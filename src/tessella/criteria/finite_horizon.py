"""A finite horizon: V_t = E[ sum_{k >= t} discount^(k - t) r_k + discount^(periods - t) final ].

The model has ``time`` as an axis of its own, 0 .. periods - 1, and every period moves it on by one;
after the last the process ends and pays what is final. So a value at any time is a state's value
like any other, and an error of a backup is carried on for no more than all periods: with c the
discount times the largest row sum, a residual of size r proves

    |v - V*| <= r H,      H = 1 + c + ... + c^(periods - 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.criteria.criterion import Criterion, Proven, X
from tessella.errors import ModelError, is_count, shown
from tessella.numerics import numerics
from tessella.rounding import EPS, Mass

LONGEST = 100_000  # periods; with time as an axis, more would be more states than anybody has
OUTWARD = 1 + 32 * EPS  # covers the rounding of a bound's own arithmetic


@dataclass(frozen=True)
class FiniteHorizon(Criterion):
    """The expected sum of rewards over so many periods, and of what is paid at the end.

    Args:
        periods: how many decisions are made, at times 0, 1, ..., periods - 1.
        discount: in (0, 1]; 1 for a plain sum.
        final: what the end pays: a number, a function of axes, or an array of the grid's shape. In
            a model told in costs it is what the end costs.
    """

    periods: int
    discount: float = 1.0
    final: float | ArrayLike | Callable[..., ArrayLike] = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if not (is_count(self.periods) and self.periods <= LONGEST):
            rule = f"a horizon is a whole number of periods, at least 1 and at most {LONGEST:,}"
            raise ModelError(rule, value=f"got {shown(self.periods)}")
        rule = "the discount of a finite horizon must lie in (0, 1]"
        try:
            number = float(self.discount)
        except OverflowError:
            raise ModelError(rule, value=f"got {shown(self.discount)}") from None
        except (TypeError, ValueError):
            raise ModelError(rule, value=f"got {self.discount!r}") from None
        if not 0.0 < number <= 1.0:
            raise ModelError(rule, value=f"got {shown(number)}")
        object.__setattr__(self, "periods", int(self.periods))
        object.__setattr__(self, "discount", number)

    def __str__(self) -> str:
        discount = "" if self.discount == 1 else f", discount {self.discount:g}"
        return f"horizon of {self.periods} periods{discount}"

    def total(self, c: float) -> float:
        """1 + c + ... + c^(periods - 1)."""
        return _total(self.periods, c)

    def forever(self, reward: X) -> X:
        return reward * self.total(self.discount)  # type: ignore[operator]

    def per_period(self, value: X) -> X:
        return value / self.total(self.discount)  # type: ignore[operator]

    def rest(self, mass: Mass) -> float:
        """1 / H for the largest row sum."""
        return 1 / (self.total(self.discount * mass.high) * (1 + 2 * self.periods * EPS))

    def refusal(self, mass: Mass) -> str:
        return f"{self}: rows that sum to 1 + {mass.over} leave no bound"

    def enclosure(self, mass: Mass, unit: float) -> Horizon:
        numbers = self.discount, self.discount * mass.high, 1 / self.rest(mass)
        return Horizon(*map(np.float64, numbers))

    def source(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.per_period(start)

    def remaining(self, start: NDArray[np.float64]) -> float:
        """H from the times of ``start`` on, over H from time 0; time is its first axis."""
        by_time = start.reshape(self.periods, -1).sum(axis=1)
        powers = self.discount ** np.arange(self.periods)
        left = np.cumsum(powers)[::-1]  # 1 + c + ... over the periods that are left at each time
        return float(by_time @ left / left[0])

    def identity(self) -> list[Any]:
        return ["horizon", self.periods, self.discount]


@lru_cache(maxsize=64)
def _total(periods: int, c: float) -> float:
    return float(np.polyval(np.ones(periods), c))


class Horizon(NamedTuple):
    """The compiled side: nothing is taken out of the values, and errors add up over periods."""

    discount: Any
    largest: Any
    total: Any  # H

    def split(self, value):
        return value, 0.0 * value.max()

    def gain(self, shift):
        return 0.0 * shift

    def uneven(self, shift, most):
        return 0.0 * most

    def enclose(self, low, high, eta, sizes) -> Proven:
        most = numerics(low).maximum(abs(low), abs(high))
        carried = self.largest * most * (1 + EPS)
        last = (1 + self.largest) * EPS * sizes
        return Proven(0.0 * low, self.error(carried + eta + last), self.error(eta + last))

    def error(self, residual):
        return residual * self.total * OUTWARD

    def reach(self, reward_scale):
        return self.error(reward_scale)

    def forever(self, reward):
        return reward * self.total

    def shared(self, residual):
        return 0.0 * residual.max()

    def spread(self, residual):
        return 2 * abs(residual).max()

    def step(self, value, backup):
        return backup

    def unknown(self, e):
        return e, 0.0

    def values(self, backup, middle, shift):
        return backup, None
