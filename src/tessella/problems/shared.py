"""What several problems share: how demand bends with a regime, a walk, and the values of an axis.

Demand bends by g(u) for u = z / z_max in [0, 1]. The names of g are the paper's; it gives no
equations, so the functions are our reading of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NONLINEARITIES = {
    "linear": lambda u: np.zeros_like(u),
    "sinusoidal": lambda u: np.sin(2 * np.pi * u),
    "quadratic": lambda u: 4 * (u - 0.5) ** 2,
    "mixed": lambda u: 0.5 * np.sin(2 * np.pi * u) + 2 * (u - 0.5) ** 2,
    "hard": lambda u: np.sin(4 * np.pi * u) + 4 * (u - 0.5) ** 2,
    "bursty": lambda u: (u > 0.7).astype(float),
}

MIN_MEAN = 0.05  # a mean of demand or arrivals never falls below this


def regime_mean(regime, largest: int, base: float, slope: float, bend: str, strength: float):
    """``max(base + slope z + strength g(z / z_max), 0.05)``."""
    z = np.asarray(regime, dtype=float)
    g = NONLINEARITIES[bend](z / max(largest, 1))
    return np.maximum(base + slope * z + strength * g, MIN_MEAN)


class RandomWalk(NamedTuple):
    """The steps of a random walk, in grid steps, and their probabilities."""

    steps: tuple[int, ...]
    probabilities: tuple[float, ...]


LAZY_WALK = RandomWalk((-1, 0, 1), (0.25, 0.5, 0.25))  # a step outside stays put


def label_index(labels: Sequence[str], values: NDArray) -> NDArray[np.int64]:
    """The position of each value among the labels of an axis."""
    return np.argmax(np.array(labels) == values[..., None], axis=-1)
