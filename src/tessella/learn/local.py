"""Local boundaries: k nearest neighbours with inverse-distance votes.

    score_a(x) = sum_{i in N_k(x)} w_i 1{y_i = a} / sum_i w_i,     w_i = 1 / |z(x) - z(x_i)|

Distances are in scaled coordinates, and in a unit that is a power of two, in which their squares
neither vanish nor overflow; votes do not depend on it. Observations at distance zero get all votes.
By default k = max(1, round(sqrt(n) / 4)): with more observations, more of them are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from tessella.errors import require_whole
from tessella.learn.learner import (
    BoundaryLearner,
    FeatureMap,
    Features,
    Task,
    clip_features,
    find_power_of_two,
)


@dataclass(frozen=True, eq=False)
class LocalClassifier:
    """The stored observations."""

    features: FeatureMap
    unit: float  # of distances
    tree: KDTree  # of features in units
    labels: NDArray[np.integer]  # (n,)
    n_classes: int
    k: int

    @property
    def size(self) -> int:
        return len(self.labels)

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):
            z = clip_features(self.features(points) / self.unit)
        distance, neighbours = self.tree.query(z, k=np.arange(1, self.k + 1))
        weights = _compute_vote_weights(distance)
        rows = np.repeat(np.arange(len(points)), self.k)
        votes = np.zeros((len(points), self.n_classes))
        np.add.at(votes, (rows, self.labels[neighbours.ravel()]), weights.ravel())
        return votes / votes.sum(axis=1, keepdims=True)


@dataclass(eq=False, repr=False)
class LocalBoundary(BoundaryLearner):
    """k nearest neighbours; stores its sample.

    Args:
        k: neighbours that vote, at most the sample's size; None is a quarter of the root of n.
        features: feature map; None is ``Features("range")``.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> policy = ts.fit(ts.LocalBoundary(), ts.draw(solution, 400, rng=0))
        >>> ts.compare(solution, policy).disagreement < 0.06
        True
    """

    k: int | None = None
    features: Features | None = None

    title = "Local Boundary"

    def learn(self, task: Task) -> LocalClassifier:
        if self.k is not None:
            require_whole("k", self.k, 1)
        n = len(task.points)
        features = (self.features or Features("range")).fit(task.points)
        k = min(self.k or max(1, round(np.sqrt(n) / 4)), n)
        z = features(task.points)
        unit = float(find_power_of_two(z).max())
        return LocalClassifier(features, unit, KDTree(z / unit), task.labels, task.n_classes, k)


def _compute_vote_weights(distance: NDArray) -> NDArray:
    """(n, k) inverse distances; where one is zero, ones for the zeros and nothing for the rest."""
    zero = distance == 0
    # Relative to the nearest, which comes first, so that a tiny distance cannot overflow.
    inverse = distance[:, :1] / np.where(zero, 1.0, distance)
    return np.where(zero[:, :1], zero, inverse)
