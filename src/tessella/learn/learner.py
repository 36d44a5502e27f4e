"""Boundary learners: features of a state, what every learner shares, and how policies are fitted.

    z_i = (x_i - centre_i) / scale_i,        phi(x) = all monomials of z of degree 1 .. degree

Centre and scale come from the sample: mean and standard deviation ("standard"), lowest value and
range ("range"), or 0 and 1 ("none"). Works for any number of axes; degree 1 gives one feature for
each axis, as in the paper.

Centre and scale are kept in units of the axis's largest coordinate, rounded up to a power of two,
so that no coordinate is too small or too large for its square. A point too far from the sample for
floating point counts as FEATURE_MAX_SIZE away.

A learner turns a task (features, labels, perhaps margins) into a classifier, K scores for each
point; the class with the highest score wins, the lowest index among those that tie. It is also a
scikit-learn estimator.

    pi(s) = lowest index in argmax_{a feasible in s} score_a(point of s)

Off the grid a point may take what the nearest grid state may take.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tessella.errors import ArgumentError, require_type, require_whole
from tessella.grid import StateGrid
from tessella.learn.sample import Sample
from tessella.mdp.policy import Policy, measure_storage

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
    """How coordinates become features; ``fit`` takes the numbers from a sample."""

    scaling: Literal["standard", "range", "none"] = "standard"
    degree: int = 1  # highest degree of the monomials

    def fit(self, points: NDArray) -> FeatureMap:
        """The map for a sample of (n, d) points; a coordinate that never varies keeps its scale."""
        require_whole("degree", self.degree, 1)
        varies = (points != points[:1]).any(axis=0) & (self.scaling != "none")
        unit = np.where(varies, find_power_of_two(points), 1.0)
        centre, scale = _compute_scaling(self.scaling, points / unit)
        axes = range(points.shape[1])
        monomials = [
            m for k in range(1, self.degree + 1) for m in combinations_with_replacement(axes, k)
        ]
        return FeatureMap(unit, centre, np.where(scale > 0, scale, 1.0), tuple(monomials))


def find_power_of_two(points: NDArray) -> NDArray:
    """(d,) the least power of two that no coordinate exceeds, within the range of doubles."""
    _, exponent = np.frexp(np.abs(points).max(axis=0))
    return np.ldexp(1.0, np.clip(exponent, -1022, 1023))


def clip_features(features: NDArray) -> NDArray:
    """No feature beyond FEATURE_MAX_SIZE."""
    return np.clip(features, -FEATURE_MAX_SIZE, FEATURE_MAX_SIZE)


def _compute_scaling(scaling: str, points: NDArray) -> tuple[NDArray, NDArray]:
    if scaling == "standard":
        return points.mean(axis=0), points.std(axis=0)
    if scaling == "range":
        return points.min(axis=0), np.ptp(points, axis=0)
    if scaling == "none":
        return np.zeros(points.shape[1]), np.ones(points.shape[1])
    raise ArgumentError("scaling must be standard, range or none", value=f"got {scaling!r}")


TIE_TOLERANCE = 1e-12  # of scores: sums of the same terms in another order differ by rounding


@dataclass(frozen=True, eq=False)
class Task:
    """One supervised problem."""

    points: NDArray[np.float64]  # (n, d)
    labels: NDArray[np.integer]  # (n,) in 0..n_classes - 1
    n_classes: int
    margins: NDArray[np.float64] | None = None  # (n,)
    seed: Any = 0  # whatever np.random.default_rng takes


class Classifier(Protocol):
    """A fitted classifier; it can be pickled, and needs nothing of its training."""

    @property
    def size(self) -> int:
        """How much it stores: weights, or observations."""
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
    def learn(self, task: Task) -> Classifier:
        """The classifier of a task."""

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
        self.classifier_ = self.learn(task)
        self.size_ = self.classifier_.size
        return self


def pick_first_best(scores: NDArray[np.float64]) -> NDArray[np.int32]:
    """(n, K) -> (n,) lowest index whose score ties with the best."""
    best = scores.max(axis=1, keepdims=True)
    return (scores >= best - TIE_TOLERANCE).argmax(axis=1).astype(np.int32)


@dataclass(frozen=True, eq=False)
class BoundaryRule:
    """A fitted classifier as a rule: (n, d) points -> (n,) action indices."""

    classifier: Classifier
    grid: StateGrid
    feasible: NDArray[np.bool_] | None  # (S, A)

    @property
    def size(self) -> int:
        return self.classifier.size

    def __call__(self, points: NDArray) -> NDArray[np.int32]:
        scores = self.classifier.proba(points)
        if self.feasible is not None:
            scores = np.where(self.feasible[self.grid.nearest(points)], scores, -np.inf)
        return pick_first_best(scores)


@dataclass(frozen=True, eq=False)
class ExternalClassifier:
    """A fitted scikit-learn classifier, its columns put where the actions are."""

    classifier: Any
    n_classes: int

    @property
    def size(self) -> int:
        """The classifier's file, in numbers of eight bytes: it does not say how much it stores."""
        return measure_storage(self.classifier)

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = self.classifier.classes_
        result = np.zeros((len(points), self.n_classes))
        if hasattr(self.classifier, "predict_proba"):
            result[:, columns] = self.classifier.predict_proba(points)
        else:
            result[np.arange(len(points)), self.classifier.predict(points)] = 1.0
        return result


def fit(learner: Any, sample: Sample) -> Policy:
    """The policy that ``learner`` learns from ``sample``; the learner itself does not change.

    ``learner`` is a boundary learner, or any scikit-learn classifier, a pipeline for example. The
    network learners take their randomness from ``random_state``.

    Args:
        learner: see above.
        sample: what ``draw`` returned.

    Returns:
        The learned policy, which takes feasible actions only.

    Raises:
        ArgumentError: the learner is no classifier.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> policy = ts.fit(ts.LinearBoundary(), ts.draw(solution, 400, rng=0))
        >>> ts.compare(solution, policy).disagreement < 0.05
        True
    """
    _require_samples("fit", [sample])
    return fit_batch(learner, [sample])[0]


def fit_batch(
    learner: Any, samples: Sequence[Sample], seeds: Sequence | None = None
) -> list[Policy]:
    """One policy for each sample, the same as ``fit`` makes of it.

    ``seeds`` takes the place of every ``random_state`` in the learner, those of a pipeline's steps
    included, one for each sample.

    Args:
        learner: as for ``fit``.
        samples: what ``draw`` returned, one for each policy.
        seeds: one for each sample.

    Returns:
        The policies, in the order of the samples.

    Raises:
        ArgumentError: the learner cannot be fitted, or seeds and samples differ in number.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> samples = [ts.draw(solution, 100, rng=seed) for seed in range(3)]
        >>> len(ts.fit_batch(ts.LocalBoundary(), samples))
        3
    """
    _require_samples("fit_batch", samples)
    if seeds is not None and not isinstance(seeds, Sized):
        raise ArgumentError("seeds must be a list, one for each sample", value=f"got {seeds!r}")
    if seeds is not None and len(seeds) != len(samples):
        raise ArgumentError(f"{len(samples)} samples need as many seeds", value=f"got {len(seeds)}")
    if isinstance(learner, BoundaryLearner):
        task_seeds = [learner.random_state] * len(samples) if seeds is None else seeds
        fitted = [
            learner.learn(Task(s.points, s.labels, len(s.actions), s.margins, seed))
            for s, seed in zip(samples, task_seeds, strict=True)
        ]
        title = learner.title
    else:
        fitted = _fit_external(learner, samples, seeds)
        title = type(learner).__name__
    return [
        Policy(s.grid, s.actions, BoundaryRule(c, s.grid, s.feasible), title, s.action_name)
        for c, s in zip(fitted, samples, strict=True)
    ]


def _require_samples(verb: str, samples: Any) -> None:
    if isinstance(samples, Sample) or not isinstance(samples, Iterable):
        requirement = f"{verb} needs a list of samples"
        raise ArgumentError(requirement, value=f"got {type(samples).__name__}")
    for sample in samples:
        require_type(verb, sample, Sample)


def _fit_external(
    learner: Any, samples: Sequence[Sample], seeds: Sequence | None
) -> list[Classifier]:
    from sklearn.base import clone

    _require_classifier(learner)
    fitted: list[Classifier] = []
    for index, sample in enumerate(samples):
        copy: Any = clone(learner)
        if seeds is not None:
            # Of the learner, its steps, and whatever they hold.
            names = [name for name in copy.get_params() if name.split("__")[-1] == "random_state"]
            copy.set_params(**dict.fromkeys(names, _to_sklearn_seed(seeds[index])))
        fitted.append(
            ExternalClassifier(copy.fit(sample.points, sample.labels), len(sample.actions))
        )
    return fitted


def _require_classifier(learner: Any) -> None:
    from sklearn.base import is_classifier

    requirement = "fit needs a boundary learner or a scikit-learn classifier"
    if isinstance(learner, type):
        raise ArgumentError(
            requirement, value=f"got the class {learner.__name__}, not one of its objects"
        )
    if not hasattr(learner, "__sklearn_tags__") or not is_classifier(learner):
        raise ArgumentError(requirement, value=f"got {type(learner).__name__}")


def _to_sklearn_seed(seed: Any) -> Any:
    """``seed`` as scikit-learn takes it: 32 bits, where NumPy takes more."""
    is_accepted = seed is None or isinstance(seed, np.random.RandomState)
    if is_accepted or (isinstance(seed, int | np.integer) and 0 <= seed < 2**32):
        return seed
    try:
        return int(np.random.default_rng(seed).integers(2**32))
    except (TypeError, ValueError):
        raise ArgumentError("a seed must be what np.random takes", value=f"got {seed!r}") from None
