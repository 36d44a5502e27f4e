"""The four boundary methods: they are given exact labels and learn the regions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tessella.learn.learner import Features, fit_batch
from tessella.learn.linear import LinearBoundary
from tessella.learn.local import LocalBoundary
from tessella.learn.neural import MarginBoundary, NeuralBoundary
from tessella.learn.sample import Sample, draw
from tessella.runner.methods.method import Fit, FullGridMethod, Instance, MethodGroup, StudyMethod
from tessella.runner.record import InformationBudget
from tessella.runner.spec import Spec, setting_from_json, setting_to_json


@dataclass(frozen=True)
class BoundaryMethod(FullGridMethod):
    """A boundary learner with its own defaults.

    Args:
        base_seconds, seconds_per_label: one fit of n labels takes about
            ``base_seconds + seconds_per_label * n`` seconds.
        sees_margins: whether it is given the margin of each labelled state as well.
    """

    title: str
    learner: type
    base_seconds: float
    seconds_per_label: float
    sees_margins: bool = False
    group: MethodGroup = "boundary"
    edition: int = 2

    def settings(self) -> dict[str, Any]:
        settings = self.learner().get_params(deep=False)
        # The seed of a run decides its randomness.
        settings.pop("random_state", None)
        return {name: setting_to_json(value, (Features,)) for name, value in settings.items()}

    def seconds(self, spec: Spec) -> float:
        return self.base_seconds + self.seconds_per_label * spec.n

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        samples = [draw(instance.solution, s.n, rng=s.generator("sample")) for s in specs]
        seeds = [spec.entropy("training") for spec in specs]
        began = time.perf_counter()
        policies = fit_batch(self._make_learner(specs[0]), samples, seeds)
        seconds = (time.perf_counter() - began) / len(specs)
        return [
            Fit(policy, self._information_used(instance, sample), seconds)
            for policy, sample in zip(policies, samples, strict=True)
        ]

    def _information_used(self, instance: Instance, sample: Sample) -> InformationBudget:
        labels = sample.exact_labels
        return InformationBudget(labels, labels if self.sees_margins else 0, instance.backups)

    def _make_learner(self, spec: Spec) -> Any:
        settings = {
            name: setting_from_json(value, (Features,)) for name, value in spec.settings.items()
        }
        return self.learner(**settings)


BOUNDARY_METHODS: dict[str, StudyMethod] = {
    "linear": BoundaryMethod(
        "Linear Boundary", LinearBoundary, base_seconds=0.01, seconds_per_label=2e-6
    ),
    "neural": BoundaryMethod(
        "Neural Boundary", NeuralBoundary, base_seconds=0.04, seconds_per_label=1e-5
    ),
    "margin": BoundaryMethod(
        "Margin Boundary",
        MarginBoundary,
        base_seconds=0.04,
        seconds_per_label=1e-5,
        sees_margins=True,
    ),
    "local": BoundaryMethod(
        "Local Boundary", LocalBoundary, base_seconds=0.008, seconds_per_label=1e-6
    ),
}
