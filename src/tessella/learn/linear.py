"""Linear boundaries: multinomial logistic regression.

    minimise  sum_i -log p(y_i | x_i) + |W|^2 / (2 C),    p(. | x) = softmax(B (W phi(x) + b))

B is the identity for three classes or more, K rows; with two classes B = (0, 1)', one row. The
problem is convex; Newton steps with backtracking reach the optimum in about ten rounds. With K
rows the biases b are free up to a common shift, which the start (zero) and a term sum(b)^2 / 2,
zero at the optimum, hold at sum(b) = 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from tessella.errors import ArgumentError, is_positive
from tessella.learn.learner import (
    BoundaryLearner,
    Classifier,
    ConstantClassifier,
    FeatureMap,
    Features,
    Task,
)


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """R rows of weights; classes that the sample never shows get no row and no probability."""

    features: FeatureMap
    weights: NDArray[np.float64]  # (R, m + 1), the bias last
    seen_classes: NDArray[np.integer]  # (C,) classes with a row
    n_classes: int

    @property
    def size(self) -> int:
        return self.weights.size

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = (
            _make_design(self.features(points))
            @ self.weights.T
            @ _make_contrasts(len(self.seen_classes)).T
        )
        result = np.zeros((len(points), self.n_classes))
        result[:, self.seen_classes] = softmax(scores, axis=1)
        return result


@dataclass(eq=False, repr=False)
class LinearBoundary(BoundaryLearner):
    """Multinomial logistic regression on scaled coordinates: straight boundaries.

    Args:
        C: weight of the data against the penalty, as in scikit-learn.
        tol: largest entry of the gradient, per observation, at which to stop.
        features: feature map; None is ``Features("standard")``.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> policy = ts.fit(ts.LinearBoundary(), ts.draw(solution, 400, rng=0))
        >>> ts.compare(solution, policy).disagreement < 0.06
        True
    """

    C: float = 1.0
    tol: float = 1e-10
    features: Features | None = None

    title = "Linear Boundary"
    newton_max_steps = 100

    def learn(self, tasks: Sequence[Task]) -> list[Classifier]:
        for name, number in (("C", self.C), ("tol", self.tol)):
            if not is_positive(number):
                raise ArgumentError(f"{name} must be positive", value=f"got {number!r}")
        # These matrices are too thin to be worth a second thread.
        with threadpool_limits(1, user_api="blas"):
            return [self._learn(task) for task in tasks]

    def _learn(self, task: Task) -> Classifier:
        seen_classes, labels = np.unique(task.labels, return_inverse=True)
        if len(seen_classes) == 1:
            return ConstantClassifier(int(seen_classes[0]), task.n_classes)
        features = (self.features or Features("standard")).fit(task.points)
        design = _make_design(features(task.points))
        problem = _LogisticProblem(design, labels, _make_contrasts(len(seen_classes)), self.C)
        weights = _minimise_by_newton(problem, self.tol, self.newton_max_steps)
        return LinearClassifier(features, weights, seen_classes, task.n_classes)


def _make_design(features: NDArray) -> NDArray:
    return np.column_stack([features, np.ones(len(features))])


def _make_contrasts(n_classes: int) -> NDArray:
    """(C, R) the matrix B."""
    return np.eye(n_classes) if n_classes > 2 else np.array([[0.0], [1.0]])


@dataclass(frozen=True, eq=False)
class _LogisticProblem:
    """The penalised likelihood of one sample; W are weights (R, p)."""

    X: NDArray[np.float64]  # (n, p) design, ones last
    y: NDArray[np.integer]  # (n,)
    B: NDArray[np.float64]  # (C, R)
    C: float

    @cached_property
    def penalty(self) -> NDArray[np.float64]:
        """(p,) weights of the squares; 0 for the bias."""
        return np.append(np.full(self.X.shape[1] - 1, 1.0 / self.C), 0.0)

    @cached_property
    def feature_products(self) -> NDArray[np.float64]:
        """(n, p p) products of features."""
        return (self.X[:, :, None] * self.X[:, None, :]).reshape(len(self.X), -1)

    def evaluate(self, W: NDArray) -> tuple[float, NDArray]:
        """The objective, and (C, n) class probabilities."""
        scores = self.B @ (W @ self.X.T)
        scores -= scores.max(axis=0)
        P = np.exp(scores)
        total = P.sum(axis=0)
        loss = np.log(total).sum() - scores[self.y, np.arange(len(self.y))].sum()
        return loss + (self.penalty * W * W).sum() / 2, P / total

    def gradient(self, W: NDArray, P: NDArray) -> NDArray:
        """(R, p) first derivatives."""
        return (self.B.T @ P - self.B[self.y].T) @ self.X + self.penalty * W

    def hessian(self, P: NDArray) -> NDArray:
        """(R p, R p) second derivatives; no two columns of B overlap."""
        Q = self.B.T @ P
        R = len(Q)
        p = self.X.shape[1]
        spread = (Q.T[:, :, None] * self.X[:, None, :]).reshape(-1, R * p)
        H = (-spread.T @ spread).reshape(R, p, R, p)
        H[np.arange(R), :, np.arange(R), :] += (Q @ self.feature_products).reshape(R, p, p)
        if R > 1:
            H[:, -1, :, -1] += 1.0
        return H.reshape(R * p, R * p) + np.diag(np.tile(self.penalty, R))


def _minimise_by_newton(problem: _LogisticProblem, tol: float, max_steps: int) -> NDArray:
    """(R, p) optimal weights."""
    W = np.zeros((problem.B.shape[1], problem.X.shape[1]))
    loss, P = problem.evaluate(W)
    for _ in range(max_steps):
        gradient = problem.gradient(W, P)
        if np.abs(gradient).max() <= tol * len(problem.y):
            return W
        # Least squares: identical or constant features make the curvature singular.
        step = np.linalg.lstsq(problem.hessian(P), gradient.ravel())[0].reshape(W.shape)
        W, loss, P = _backtrack(problem, W, loss, step, (step * gradient).sum())
    warnings.warn(f"no optimum within {max_steps} Newton steps", ConvergenceWarning, stacklevel=2)
    return W


def _backtrack(
    problem: _LogisticProblem, W: NDArray, loss: float, step: NDArray, expected_decrease: float
) -> tuple[NDArray, float, NDArray]:
    """Halve the Newton step until it keeps a share of the decrease that the slope predicts."""
    step_size = 1.0
    rounding = 1e-14 * abs(loss)
    while True:
        new_loss, P = problem.evaluate(W - step_size * step)
        if new_loss <= loss - 1e-4 * step_size * expected_decrease + rounding or step_size < 1e-10:
            return W - step_size * step, new_loss, P
        step_size /= 2
