"""Neural boundaries: a small network, trained by cross-entropy.

    p(. | x) = softmax(g(phi(x))),    g with two hidden layers of 64 unless given otherwise

The paper's sizes follow: with 2 features 4,677 numbers for 5 actions, 4,417 for 2 (one output).

Margin boundaries give most weight to states where two actions are nearly as good,

    w_i = 1 / (margin_i + eta),    eta > 0.

With noisy observations a small eta amplifies the noise of just those labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from tessella.errors import ArgumentError, is_positive, require_extra
from tessella.learn.learner import (
    BoundaryLearner,
    Classifier,
    ConstantClassifier,
    FeatureMap,
    Features,
    Task,
)


@dataclass(frozen=True, eq=False)
class NetworkClassifier:
    """The trained layers; predicts in NumPy, in float64."""

    features: FeatureMap
    layers: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]  # (in, out) and (out,)

    @property
    def size(self) -> int:
        return sum(weights.size + bias.size for weights, bias in self.layers)

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        *hidden, (weights, bias) = self.layers
        x = self.features(points)
        for inner, shift in hidden:
            x = np.maximum(x @ inner + shift, 0.0)
        scores = x @ weights + bias
        if scores.shape[1] == 1:
            return np.concatenate([expit(-scores), expit(scores)], axis=1)
        return softmax(scores, axis=1)


@dataclass(eq=False, repr=False, kw_only=True)
class NeuralBoundary(BoundaryLearner):
    """A feed-forward network with ReLU layers: curved boundaries, disconnected regions.

    Args:
        hidden: widths of the hidden layers.
        learning_rate, epochs, min_steps, batch_size: how it trains, see ``TrainingPlan``.
        features: feature map; None is ``Features("standard")``.
        random_state: seed of the start and of the shuffles.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> policy = ts.fit(ts.NeuralBoundary(), ts.draw(solution, 400, rng=0))
        >>> ts.compare(solution, policy).disagreement < 0.06
        True
    """

    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 2e-2
    epochs: int = 30
    min_steps: int = 960
    batch_size: int = 200
    features: Features | None = None
    random_state: Any = 0

    title = "Neural Boundary"

    def learn(self, tasks: Sequence[Task]) -> list[Classifier]:
        with require_extra("training a network", "study"):
            from tessella.learn.network import TrainingJob, TrainingPlan, train_networks

        fitted: list[Classifier] = [ConstantClassifier(0, 1)] * len(tasks)
        trainable = [i for i, task in enumerate(tasks) if task.n_classes > 1]
        chosen = self.features or Features("standard")
        feature_maps = [chosen.fit(tasks[i].points) for i in trainable]
        jobs = [
            TrainingJob(
                features(tasks[i].points),
                tasks[i].labels,
                self._compute_weights(tasks[i]),
                tasks[i].n_classes if tasks[i].n_classes > 2 else 1,
                np.random.default_rng(tasks[i].seed),
            )
            for i, features in zip(trainable, feature_maps, strict=True)
        ]
        plan = TrainingPlan(
            tuple(self.hidden), self.learning_rate, self.epochs, self.min_steps, self.batch_size
        )
        networks = train_networks(jobs, plan)
        for i, features, layers in zip(trainable, feature_maps, networks, strict=True):
            layers64 = tuple((w.astype(float), b.astype(float)) for w, b in layers)
            fitted[i] = NetworkClassifier(features, layers64)
        return fitted

    def _compute_weights(self, task: Task) -> NDArray[np.float64]:
        return np.ones(len(task.points))


@dataclass(eq=False, repr=False)
class MarginBoundary(NeuralBoundary):
    """``NeuralBoundary`` with observations weighted by 1 / (margin + eta).

    Args:
        eta: in the model's units of reward; large values bring the plain learner back.

    The rest is as in ``NeuralBoundary``.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> policy = ts.fit(ts.MarginBoundary(), ts.draw(solution, 400, rng=0))
        >>> ts.compare(solution, policy).disagreement < 0.06
        True
    """

    eta: float = 1.0

    title = "Margin Boundary"

    def fit(self, X: Any, y: Any, margins: ArrayLike | None = None) -> Self:
        """``margins`` (n,) of the observations; without them all weigh the same."""
        return self._fit(X, y, margins)

    def _compute_weights(self, task: Task) -> NDArray[np.float64]:
        if not is_positive(self.eta):
            raise ArgumentError("eta must be positive", value=f"got {self.eta!r}")
        if task.margins is None:
            return super()._compute_weights(task)
        weights = 1.0 / (task.margins + self.eta)
        # Where only one action is feasible the margin is infinite; a sample of such states alone
        # has no boundary to look at.
        return weights if weights.any() else super()._compute_weights(task)
