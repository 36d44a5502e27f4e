"""From a sample to a policy.

    pi(s) = lowest index in argmax_{a feasible in s} score_a(point of s)

Off the grid a point may take what the nearest grid state may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_type
from tessella.grid import StateGrid
from tessella.learn.learner import BoundaryLearner, Classifier, Task, pick_first_best
from tessella.learn.sample import Sample
from tessella.mdp.policy import Policy, storage_size


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
        return storage_size(self.classifier)

    def proba(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        known = self.classifier.classes_
        result = np.zeros((len(points), self.n_classes))
        if hasattr(self.classifier, "predict_proba"):
            result[:, known] = self.classifier.predict_proba(points)
        else:
            result[np.arange(len(points)), self.classifier.predict(points)] = 1.0
        return result


def fit(learner: Any, sample: Sample) -> Policy:
    """The policy that ``learner`` makes of ``sample``; the learner itself is left as it was.

    ``learner`` is a boundary learner, or any scikit-learn classifier, a pipeline for example. The
    network learners take their randomness from ``random_state``.
    """
    _require_samples("fit", [sample])
    return fit_batch(learner, [sample])[0]


def fit_batch(
    learner: Any, samples: Sequence[Sample], seeds: Sequence | None = None
) -> list[Policy]:
    """One policy for each sample, trained together and the same as if trained alone.

    ``seeds`` takes the place of every ``random_state`` in the learner, those of a pipeline's steps
    included, one for each sample. Samples of equal length, axes and number of actions share
    compiled code.
    """
    _require_samples("fit_batch", samples)
    if seeds is not None and not isinstance(seeds, Sized):
        raise ArgumentError("seeds must be a list, one for each sample", value=f"got {seeds!r}")
    if seeds is not None and len(seeds) != len(samples):
        raise ArgumentError(f"{len(samples)} samples need as many seeds", value=f"got {len(seeds)}")
    if isinstance(learner, BoundaryLearner):
        task_seeds = [learner.random_state] * len(samples) if seeds is None else seeds
        tasks = [
            Task(s.points, s.labels, len(s.actions), s.margins, seed)
            for s, seed in zip(samples, task_seeds, strict=True)
        ]
        fitted = learner.learn(tasks)
        title = learner.title
    else:
        fitted = _fit_external(learner, samples, seeds)
        title = type(learner).__name__
    return [_make_policy(c, s, title) for c, s in zip(fitted, samples, strict=True)]


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
            copy.set_params(
                **dict.fromkeys(_find_random_states(copy), _to_sklearn_seed(seeds[index]))
            )
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


def _find_random_states(learner: Any) -> list[str]:
    """Names of the parameters that seed a learner, its steps, and whatever they hold."""
    return [name for name in learner.get_params() if name.split("__")[-1] == "random_state"]


def _to_sklearn_seed(seed: Any) -> Any:
    """``seed`` as scikit-learn takes it: 32 bits, where NumPy takes more."""
    known = seed is None or isinstance(seed, np.random.RandomState)
    if known or (isinstance(seed, int | np.integer) and 0 <= seed < 2**32):
        return seed
    try:
        return int(np.random.default_rng(seed).integers(2**32))
    except (TypeError, ValueError):
        raise ArgumentError("a seed must be what np.random takes", value=f"got {seed!r}") from None


def _make_policy(classifier: Classifier, sample: Sample, title: str) -> Policy:
    rule = BoundaryRule(classifier, sample.grid, sample.feasible)
    return Policy(sample.grid, sample.actions, rule, title, sample.action_name)
