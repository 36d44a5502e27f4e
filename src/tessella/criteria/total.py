"""Total reward: V = E[ r_0 + r_1 + ... ] until the process ends, nothing discounted.

It ends where a state is never left and pays nothing, or where the model says that it ends. How far
a residual pins a value down depends on how long it may take: where w bounds the expected periods to
the end, from any state and for every policy that could be best, a residual of size r proves

    |v - V*| <= r max w.

That w is found by the solvers (``solvers.hitting``); until then nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import Criterion, Proven, X
from tessella.numerics import numerics
from tessella.rounding import EPS, Mass

OUTWARD = 1 + 32 * EPS  # covers the rounding of a bound's own arithmetic
FAR = 1e200  # no value is known to be smaller than this beforehand


@dataclass(frozen=True)
class Total(Criterion):
    """The expected sum of rewards until the end (a stochastic shortest path)."""

    discount: ClassVar[float] = 1.0  # type: ignore[misc]

    def __str__(self) -> str:
        return "total reward"

    def forever(self, reward: X) -> X:
        return reward

    def per_period(self, value: X) -> X:
        return value

    def rest(self, mass: Mass) -> float:
        return 1.0

    def refusal(self, mass: Mass) -> str:
        return f"{self} is bounded by the time to the end alone"

    def enclosure(self, mass: Mass, unit: float) -> Ending:
        return Ending(np.float64(max(mass.high, 1.0)), np.float64(np.inf))

    def source(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        return start

    def identity(self) -> str:
        return "total"


class Ending(NamedTuple):
    """The compiled side; ``time`` bounds the expected periods to the end."""

    largest: Any
    time: Any

    @property
    def discount(self):
        return 1.0

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
        return residual * self.time * OUTWARD

    def reach(self, reward_scale):
        return FAR + reward_scale

    def forever(self, reward):
        return reward * self.time

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
