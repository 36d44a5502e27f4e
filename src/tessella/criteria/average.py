"""Average reward: the gain g = lim (1/n) E[ r_0 + ... + r_{n-1} ], the same from every start.

With relative values h, g + h = T h. For any h, with d = T h - h,

    min d <= g <= max d,

in every model, whatever its chains: min d bounds the gain of the worst start from below, max d that
of the best from above. So a narrow enclosure proves by itself that there is one gain. Values are
known up to a constant, which the linear system of a policy settles by the mean of the values,

    h + g - P_pi h = r_pi,   g = mean h;

it has one solution where the policy has one recurrent class, periodic or not. Reported values are 0
in the first state. Plain sweeps are damped by half: a periodic chain would go round for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import Criterion, Proven, X
from tessella.rounding import EPS, Mass

OUTWARD = 1 + 32 * EPS  # covers the rounding of a bound's own arithmetic
ENDS = 1e-6  # row sums further from 1 than this are no rounding: the process ends
FAR = 1e200  # no relative value is known to be smaller than this beforehand


@dataclass(frozen=True)
class Average(Criterion):
    """The long-run reward per period."""

    discount: ClassVar[float] = 1.0  # type: ignore[misc]

    def __str__(self) -> str:
        return "average reward"

    def forever(self, reward: X) -> X:
        return reward

    def per_period(self, value: X) -> X:
        return value

    def rest(self, mass: Mass) -> float:
        return 1.0 if mass.off < ENDS else 0.0

    def refusal(self, mass: Mass) -> str:
        return f"average reward needs a process that never ends; rows sum to 1 - {mass.short:.3g}"

    def enclosure(self, mass: Mass, unit: float) -> Gain:
        return Gain(np.float64(mass.off))

    def source(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(start.shape, 1 / start.size)  # the start is forgotten

    def identity(self) -> str:
        return "average"


class Gain(NamedTuple):
    """The compiled side."""

    off: Any  # largest distance of a row sum from 1

    @property
    def discount(self):
        return 1.0

    @property
    def largest(self):
        return 1.0

    def split(self, value):
        """Nothing but the middle of the values is taken out: it has no meaning here."""
        return value - (value.max() + value.min()) / 2, 0.0 * value.max()

    def gain(self, shift):
        return 0.0 * shift

    def uneven(self, shift, most):
        return self.off * most

    def enclose(self, low, high, eta, sizes) -> Proven:
        slip = eta + 4 * EPS * (abs(low) + abs(high))
        return Proven((low + high) / 2, ((high - low) / 2 + slip) * OUTWARD, slip * OUTWARD)

    def error(self, residual):
        return residual * OUTWARD

    def reach(self, reward_scale):
        return FAR + reward_scale

    def forever(self, reward):
        return reward

    def shared(self, residual):
        return (residual.max() + residual.min()) / 2

    def spread(self, residual):
        return residual.max() - residual.min()

    def step(self, value, backup):
        return (value + backup) / 2

    def unknown(self, e):
        return e, e.mean()

    def values(self, backup, middle, shift):
        return backup - backup[(0,) * backup.ndim], middle
