"""Methods of one's own in a line: a learner, a baseline, or any function that returns a policy.

Each makes one policy at a time, with randomness that n and seed decide; it may return anything that
``tessella.as_policy`` reads. Its settings are in the spec of each run, so that a changed one is
another run; raise ``edition`` when the code changes the result.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tessella.learn.learner import fit_batch
from tessella.learn.sample import draw
from tessella.mdp.model import MDP
from tessella.runner.methods.method import Fit, FullGridMethod, Instance, MethodGroup
from tessella.runner.record import InformationBudget, Spec
from tessella.support.json_values import setting_to_json


class SingleRunMethod(FullGridMethod, ABC):
    """A method that makes its policies one at a time, for every n and seed."""

    name: str
    about: Mapping[str, Any]

    @property
    def title(self) -> str:
        return self.name

    def settings(self) -> dict[str, Any]:
        return dict(self.about)

    @abstractmethod
    def make_policy(self, instance: Instance, spec: Spec) -> tuple[Any, InformationBudget]:
        """The policy of one run, and the information it was given."""

    def seconds(self, spec: Spec) -> float:
        return 0.01 + 1e-5 * spec.n

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        fits = []
        for spec in specs:
            began = time.perf_counter()
            policy, information = self.make_policy(instance, spec)
            fits.append(Fit(policy, information, time.perf_counter() - began))
        return fits


@dataclass(frozen=True)
class LearnerMethod(SingleRunMethod):
    """A scikit-learn classifier, or a boundary learner, that sees n exact labels.

    Args:
        name: how a study refers to it.
        learner: an object, not a class; each run trains a copy with its own seed.
    """

    name: str
    learner: Any
    edition: int = 1
    group: MethodGroup = "boundary"

    def settings(self) -> dict[str, Any]:
        parameters = self.learner.get_params()
        settings = {k: v for k, v in parameters.items() if k.split("__")[-1] != "random_state"}
        return {"learner": type(self.learner).__name__} | {
            k: setting_to_json(v) for k, v in settings.items()
        }

    def make_policy(self, instance: Instance, spec: Spec) -> tuple[Any, InformationBudget]:
        sample = draw(instance.solution, spec.n, rng=spec.generator("sample"))
        (policy,) = fit_batch(self.learner, [sample], [spec.entropy("training")])
        return policy, InformationBudget(labels=sample.exact_labels, backups=instance.backups)


@dataclass(frozen=True)
class BaselineMethod(SingleRunMethod):
    """A policy trained from a simulator.

    Args:
        name: how a study refers to it.
        train: ``train(mdp, updates, rng) -> policy``; nothing checks that it uses
            the model as a simulator only, and at most ``updates`` times.
        about: its settings, as numbers and text.
    """

    name: str
    train: Callable[[MDP, int, np.random.Generator], Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    edition: int = 1
    group: MethodGroup = "value"

    def make_policy(self, instance: Instance, spec: Spec) -> tuple[Any, InformationBudget]:
        policy = self.train(instance.mdp, spec.n, spec.generator("transitions"))
        return policy, InformationBudget(simulator_calls=getattr(policy, "simulator_calls", spec.n))


@dataclass(frozen=True)
class FunctionMethod(SingleRunMethod):
    """Any way to a policy.

    Args:
        name: how a study refers to it.
        function: ``function(instance, n, rng) -> policy``; ``instance.mdp`` is the model and
            ``instance.solution`` its optimum.
        information: what each run is given.
        once: whether it runs once for each problem, whatever n and seed.
        about: its settings, as numbers and text.
    """

    name: str
    function: Callable[[Instance, int, np.random.Generator], Any]
    information: InformationBudget = field(default_factory=InformationBudget)
    once: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
    edition: int = 1
    group: MethodGroup = "reference"

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(0, 0)] if self.once else super().runs(sizes, seeds)

    def make_policy(self, instance: Instance, spec: Spec) -> tuple[Any, InformationBudget]:
        return self.function(instance, spec.n, spec.generator("policy")), self.information
