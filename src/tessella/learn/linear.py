"""Linear boundaries: multinomial logistic regression.

    minimise  sum_i -log p(y_i | x_i) + |W|^2 / (2 C),    p(. | x) = softmax(W phi(x) + b)

by scikit-learn's Newton method, which reaches the optimum in about ten steps. With two classes W
has one row, and the other class has the score 0.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import ThreadpoolController

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
    """A fitted regression; classes that the sample never shows get no probability."""

    features: FeatureMap
    regression: Any  # a fitted ``LogisticRegression``
    n_classes: int

    @property
    def size(self) -> int:
        return self.regression.coef_.size + self.regression.intercept_.size

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.zeros((len(points), self.n_classes))
        result[:, self.regression.classes_] = self.regression.predict_proba(self.features(points))
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

    def learn(self, task: Task) -> Classifier:
        for name, number in (("C", self.C), ("tol", self.tol)):
            if not is_positive(number):
                raise ArgumentError(f"{name} must be positive", value=f"got {number!r}")
        if (task.labels == task.labels[0]).all():
            return ConstantClassifier(int(task.labels[0]), task.n_classes)
        features = (self.features or Features("standard")).fit(task.points)
        regression = LogisticRegression(
            C=self.C, tol=self.tol, solver="newton-cholesky", max_iter=self.newton_max_steps
        )
        # These matrices are too thin to be worth a second thread.
        with _find_thread_pools().limit(limits=1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            regression.fit(features(task.points), task.labels)
        # A singular curvature ends the Newton steps too.
        if any(issubclass(w.category, ConvergenceWarning | LinAlgWarning) for w in caught):
            message = f"no optimum within {self.newton_max_steps} Newton steps"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return LinearClassifier(features, regression, task.n_classes)


@cache
def _find_thread_pools() -> ThreadpoolController:
    """Those of linear algebra; it takes longer to find them than to fit a small sample."""
    return ThreadpoolController().select(user_api="blas")
