"""From coordinates to features.

    z_i = (x_i - centre_i) / scale_i,        phi(x) = all monomials of z of degree 1 .. degree

Centre and scale come from the sample: mean and standard deviation ("standard"), lowest value and
range ("range"), or 0 and 1 ("none"). Works for any number of axes; degree 1 gives one feature for
each axis, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """A fitted map, called with (n, d) points."""

    centre: NDArray[np.float64]  # (d,)
    scale: NDArray[np.float64]  # (d,)
    monomials: tuple[tuple[int, ...], ...]  # (m,) which coordinates each feature multiplies

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.monomials)

    def __call__(self, points: NDArray) -> NDArray[np.float64]:
        """(n, d) -> (n, m)."""
        z = (points - self.centre) / self.scale
        if self.size == z.shape[1]:
            return z
        return np.stack([z[:, list(axes)].prod(axis=1) for axes in self.monomials], axis=1)


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
        centre, scale = _scaling(self.scaling, points)
        if self.degree < 1:
            raise ModelError("degree must be at least 1", "", f"got {self.degree}")
        axes = range(points.shape[1])
        monomials = [
            m for k in range(1, self.degree + 1) for m in combinations_with_replacement(axes, k)
        ]
        return FeatureMap(centre, np.where(scale > 0, scale, 1.0), tuple(monomials))


def _scaling(scaling: str, points: NDArray) -> tuple[NDArray, NDArray]:
    if scaling == "standard":
        return points.mean(axis=0), points.std(axis=0)
    if scaling == "range":
        return points.min(axis=0), np.ptp(points, axis=0)
    if scaling == "none":
        return np.zeros(points.shape[1]), np.ones(points.shape[1])
    raise ModelError("scaling must be standard, range or none", "", f"got {scaling!r}")
