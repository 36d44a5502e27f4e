"""Parts that several problems share: the mean of demand in a regime, a walk, departures, labels.

Demand depends on the regime z by a function g(u) of u = z / z_max in [0, 1]. The names of g are the
paper's; it gives no equations, so the functions are our reading of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.stages import Event, Noise
from tessella.rounding import portable_sin

NONLINEARITIES = {
    "linear": lambda u: np.zeros_like(u),
    "sinusoidal": lambda u: portable_sin(2 * np.pi * u),
    "quadratic": lambda u: 4 * (u - 0.5) ** 2,
    "mixed": lambda u: 0.5 * portable_sin(2 * np.pi * u) + 2 * (u - 0.5) ** 2,
    "hard": lambda u: portable_sin(4 * np.pi * u) + 4 * (u - 0.5) ** 2,
    "bursty": lambda u: (u > 0.7).astype(float),
}

MIN_MEAN = 0.05  # a mean of demand or arrivals never falls below this


def regime_mean(
    regime, largest: int, base: float, slope: float, nonlinearity: str, strength: float
):
    """``max(base + slope z + strength g(z / z_max), 0.05)``."""
    z = np.asarray(regime, dtype=float)
    g = NONLINEARITIES[nonlinearity](z / max(largest, 1))
    return np.maximum(base + slope * z + strength * g, MIN_MEAN)


LAZY_WALK = Noise("drift", (-1, 0, 1), (0.25, 0.5, 0.25))  # in grid steps


def departure(name: str, axis: str, rate: Callable[..., NDArray]) -> Event:
    """An event after which there is one less on an axis."""
    return Event(name, rate, to=lambda **names: {axis: names[axis] - 1})


def label_index(labels: Sequence[str], values: NDArray) -> NDArray[np.int64]:
    """The position of each value among the labels of an axis."""
    return np.argmax(np.array(labels) == values[..., None], axis=-1)
