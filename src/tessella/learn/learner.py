"""What the boundary learners share.

A learner turns a task (features, labels, perhaps margins) into a classifier, K scores for each
point; the class with the highest score wins, the lowest index among those that tie. It is also a
scikit-learn estimator: ``fit`` is one task, ``learn`` many at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

# Scores closer than this are a tie: sums of the same terms in another order differ by rounding.
TIE_TOLERANCE = 1e-12  # scores this close to the best tie with it


@dataclass(frozen=True, eq=False)
class Task:
    """One supervised problem."""

    points: NDArray[np.float64]  # (n, d)
    labels: NDArray[np.integer]  # (n,) in 0..n_classes - 1
    n_classes: int
    margins: NDArray[np.float64] | None = None  # (n,)
    seed: Any = 0  # whatever np.random.default_rng takes


class Classifier(Protocol):
    """What was fitted; picklable, and free of any training machinery."""

    @property
    def size(self) -> int:
        """How much it stores, as it counts that itself: weights, or observations."""
        ...

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, d) points -> (n, K) class probabilities."""
        ...


@dataclass(frozen=True)
class ConstantClassifier:
    """The classifier of a sample with one label only: K columns, all weight on ``label``."""

    label: int
    n_classes: int
    size: int = 1

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.zeros((len(points), self.n_classes))
        result[:, self.label] = 1.0
        return result


class BoundaryLearner(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose work is done by ``learn``.

    After ``fit``: ``classes_``, ``classifier_``, ``size_`` (how much it stores).
    """

    title = "Boundary"
    random_state: Any = 0

    @abstractmethod
    def learn(self, tasks: Sequence[Task]) -> list[Classifier]:
        """One classifier for each task; none depends on which others are there."""

    def fit(self, X: Any, y: Any) -> Self:
        return self._fit(X, y, None)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.classifier_.proba(X)

    def predict(self, X: Any) -> NDArray:
        scores = self.predict_proba(X)
        return self.classes_[pick_first_best(scores)]

    def _fit(self, X: Any, y: Any, margins: ArrayLike | None) -> Self:
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if margins is not None:
            margins = np.asarray(margins, dtype=float)
        task = Task(X, labels, len(self.classes_), margins, self.random_state)
        self.classifier_ = self.learn([task])[0]
        self.size_ = self.classifier_.size
        return self


def pick_first_best(scores: NDArray[np.float64]) -> NDArray[np.int32]:
    """(n, K) -> (n,) lowest index whose score ties with the best."""
    best = scores.max(axis=1, keepdims=True)
    return (scores >= best - TIE_TOLERANCE).argmax(axis=1).astype(np.int32)
