"""Neural boundaries: a small network, trained by cross-entropy.

    p(. | x) = softmax(g(phi(x))),    g with two hidden layers of 64 unless given otherwise

The paper's sizes follow: with 2 features 4,677 numbers for 5 actions, 4,417 for 2 (one output).

Margin boundaries give most weight to states where two actions are nearly as good,

    w_i = 1 / (margin_i + eta),    eta > 0.

With noisy observations a small eta amplifies the noise of just those labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from tessella.errors import ArgumentError, is_count, is_positive, require_extra
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
        learning_rate: first step size; it falls to zero along a cosine.
        epochs: passes over the sample, at least.
        min_steps: steps, at least; decides for small samples.
        batch_size: observations in a batch, halved (twice at most) while an epoch has fewer than
            16 batches.
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

    def learn(self, task: Task) -> Classifier:
        with require_extra("training a network", "study"):
            from tessella.learn.network import init_layers, shuffle_epochs, train_layers

        self._check_plan()
        if task.n_classes == 1:
            return ConstantClassifier(0, 1)
        features = (self.features or Features("standard")).fit(task.points)
        X = features(task.points)
        batch_size = self._batch_size_for(len(X))
        n_outputs = task.n_classes if task.n_classes > 2 else 1
        # The start is drawn first and the shuffles second.
        rng = np.random.default_rng(task.seed)
        start = init_layers((X.shape[1], *self.hidden, n_outputs), rng)
        order = shuffle_epochs(len(X), self._steps_for(len(X)), batch_size, rng)
        weights = self._compute_weights(task)
        layers = train_layers(start, X, task.labels, weights, order, self.learning_rate)
        layers64 = tuple((w.astype(float), b.astype(float)) for w, b in layers)
        return NetworkClassifier(features, layers64)

    def _check_plan(self) -> None:
        whole = (*self.hidden, self.epochs, self.min_steps, self.batch_size)
        if not all(map(is_count, whole)) or not is_positive(self.learning_rate):
            raise ArgumentError(
                "numbers of a training plan must be positive, all but the learning rate whole",
                value=f"got {self}",
            )

    def _batch_size_for(self, n: int) -> int:
        """Observations in a batch of a sample of n."""
        batch = self.batch_size
        for _ in range(2):
            if n < 16 * batch and batch % 2 == 0:
                batch //= 2
        return batch

    def _steps_for(self, n: int) -> int:
        return max(self.min_steps, -(-self.epochs * n // self._batch_size_for(n)))

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
