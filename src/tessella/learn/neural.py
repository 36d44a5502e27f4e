"""Neural boundaries: a small network, trained by cross-entropy.

    p(. | x) = softmax(g(phi(x))),    g with two hidden layers of 64 unless said otherwise

The paper's sizes follow: with 2 features 4,677 numbers for 5 actions, 4,417 for 2 (one output).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from tessella.learn.features import FeatureMap, Features
from tessella.learn.learner import BoundaryLearner, Classifier, ConstantClassifier, Task
from tessella.learn.training_plan import TrainingPlan


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


class NeuralBoundary(BoundaryLearner):
    """A feed-forward network with ReLU layers: curved boundaries, disconnected regions.

    Args:
        hidden: widths of the hidden layers.
        learning_rate, epochs, min_steps, batch_size: how it trains, see ``TrainingPlan``.
        features: feature map; None is ``Features("standard")``.
        random_state: seed of the start and of the shuffles.
    """

    title = "Neural Boundary"

    def __init__(
        self,
        hidden: tuple[int, ...] = (64, 64),
        learning_rate: float = 2e-2,
        epochs: int = 30,
        min_steps: int = 960,
        batch_size: int = 200,
        features: Features | None = None,
        random_state: Any = 0,
    ):
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.min_steps = min_steps
        self.batch_size = batch_size
        self.features = features
        self.random_state = random_state

    def learn(self, tasks: Sequence[Task]) -> list[Classifier]:
        from tessella.learn.network import TrainingJob, train_networks

        fitted: list[Classifier] = [ConstantClassifier(0, 1)] * len(tasks)
        trainable = [i for i, task in enumerate(tasks) if task.n_classes > 1]
        feature_maps = [self._fit_features(tasks[i]) for i in trainable]
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
        for i, features, layers in zip(
            trainable, feature_maps, train_networks(jobs, self._make_plan()), strict=True
        ):
            layers64 = tuple((w.astype(float), b.astype(float)) for w, b in layers)
            fitted[i] = NetworkClassifier(features, layers64)
        return fitted

    def _fit_features(self, task: Task) -> FeatureMap:
        return (self.features or Features("standard")).fit(task.points)

    def _make_plan(self) -> TrainingPlan:
        hidden = tuple(self.hidden)
        return TrainingPlan(
            hidden, self.learning_rate, self.epochs, self.min_steps, self.batch_size
        )

    def _compute_weights(self, task: Task) -> NDArray[np.float64]:
        return np.ones(len(task.points))
