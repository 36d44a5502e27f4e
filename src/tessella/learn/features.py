"""From coordinates to features.

    z_i = (x_i - centre_i) / scale_i,        phi(x) = all monomials of z of degree 1 .. degree

Centre and scale come from the sample: mean and standard deviation ("standard"), lowest value and
range ("range"), or 0 and 1 ("none"). Works for any number of axes; degree 1 gives one feature for
each axis, as in the paper.

Centre and scale are kept in units of the axis's largest coordinate, rounded up to a power of two,
so that no coordinate is too small or too large for its square. A point too far from the sample for
floating point counts as LIMIT away.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, is_count

FEATURE_MAX_SIZE = 2.0**500  # its square is a number


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """A fitted map, called with (n, d) points."""

    unit: NDArray[np.float64]  # (d,) powers of two
    centre: NDArray[np.float64]  # (d,) in units
    scale: NDArray[np.float64]  # (d,) in units
    monomials: tuple[tuple[int, ...], ...]  # (m,) which coordinates each feature multiplies

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.monomials)

    def __call__(self, points: NDArray) -> NDArray[np.float64]:
        """(n, d) -> (n, m)."""
        with np.errstate(over="ignore"):
            z = clip_features((points / self.unit - self.centre) / self.scale)
            if self.size == z.shape[1]:
                return z
            products = [z[:, list(axes)].prod(axis=1) for axes in self.monomials]
            return clip_features(np.stack(products, axis=1))


@dataclass(frozen=True)
class Features:
    """How coordinates become features; ``fit`` takes the numbers from a sample.

    Args:
        scaling: "standard", "range" or "none".
        degree: highest degree of the monomials.
    """

    scaling: Literal["standard", "range", "none"] = "standard"
    degree: int = 1

    def fit(self, points: NDArray) -> FeatureMap:
        """The map for a sample of (n, d) points; a coordinate that never varies keeps its scale."""
        if not is_count(self.degree):
            requirement = "degree must be at least 1, a whole number"
            raise ArgumentError(requirement, value=f"got {self.degree!r}")
        varies = (points != points[:1]).any(axis=0) & (self.scaling != "none")
        unit = np.where(varies, find_power_of_two(points), 1.0)
        centre, scale = _compute_scaling(self.scaling, points / unit)
        axes = range(points.shape[1])
        monomials = [
            m for k in range(1, self.degree + 1) for m in combinations_with_replacement(axes, k)
        ]
        return FeatureMap(unit, centre, np.where(scale > 0, scale, 1.0), tuple(monomials))


def find_power_of_two(points: NDArray) -> NDArray:
    """(d,) the least power of two that no coordinate exceeds, as far as floating point has it."""
    _, exponent = np.frexp(np.abs(points).max(axis=0))
    return np.ldexp(1.0, np.clip(exponent, -1022, 1023))


def clip_features(features: NDArray) -> NDArray:
    """No feature beyond LIMIT."""
    return np.clip(features, -FEATURE_MAX_SIZE, FEATURE_MAX_SIZE)


def _compute_scaling(scaling: str, points: NDArray) -> tuple[NDArray, NDArray]:
    if scaling == "standard":
        return points.mean(axis=0), points.std(axis=0)
    if scaling == "range":
        return points.min(axis=0), np.ptp(points, axis=0)
    if scaling == "none":
        return np.zeros(points.shape[1]), np.ones(points.shape[1])
    raise ArgumentError("scaling must be standard, range or none", value=f"got {scaling!r}")
