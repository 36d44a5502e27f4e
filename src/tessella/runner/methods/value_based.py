"""The three value-based baselines: they are given sampled transitions and learn values.

All budgets of a seed are one run: a smaller budget is its beginning. A baseline never sees the
observation noise, so problems that differ in nothing else are one to it: trained once, recorded
for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tessella.baselines.double_q import DoubleQ
from tessella.baselines.fitted_q import FittedQ
from tessella.baselines.options import ConstantStep, DecayingStep, Trajectory, UniformPairs
from tessella.baselines.tabular_q import TabularQ
from tessella.baselines.train import Baseline, train_batch
from tessella.runner.methods.method import Fit, FullGridMethod, Instance, MethodGroup, StudyMethod
from tessella.runner.record import InformationBudget
from tessella.runner.spec import Spec, setting_from_json, setting_to_json

OPTION_CLASSES = (ConstantStep, DecayingStep, Trajectory, UniformPairs)


@dataclass(frozen=True)
class ValueBasedMethod(FullGridMethod):
    """A baseline with its own defaults.

    Args:
        base_seconds, seconds_per_update: one run of n updates takes about
            ``base_seconds + seconds_per_update * n`` seconds.
        budgets_together: whether all budgets train in one call, or each in its own.
    """

    title: str
    baseline: Callable[..., Baseline]
    base_seconds: float
    seconds_per_update: float
    budgets_together: bool = True
    group: MethodGroup = "value"
    edition: int = 2

    def settings(self) -> dict[str, Any]:
        default = self.baseline()
        return {
            f.name: setting_to_json(getattr(default, f.name), OPTION_CLASSES)
            for f in fields(default)
        }

    def batch_key(self, spec: Spec) -> Hashable:
        return None if self.budgets_together else spec.n

    def seconds(self, spec: Spec) -> float:
        return self.base_seconds + self.seconds_per_update * spec.n

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        settings = {
            name: setting_from_json(value, OPTION_CLASSES)
            for name, value in specs[0].settings.items()
        }
        seeds = [spec.entropy("transitions", every_n=True) for spec in specs]
        budgets = [spec.n for spec in specs]
        began = time.perf_counter()
        policies = train_batch(self.baseline(**settings), instance.mdp, budgets, seeds)
        # One call trains every seed up to the largest budget.
        seconds_per_update = (time.perf_counter() - began) / (len(set(seeds)) * max(budgets))
        return [
            Fit(
                policies[seed, spec.n],
                InformationBudget(simulator_calls=policies[seed, spec.n].simulator_calls),
                seconds_per_update * spec.n,
            )
            for seed, spec in zip(seeds, specs, strict=True)
        ]


VALUE_BASED_METHODS: dict[str, StudyMethod] = {
    "double_q": ValueBasedMethod(
        "Double Q-learning", DoubleQ, base_seconds=0.007, seconds_per_update=1e-6
    ),
    "fitted_q": ValueBasedMethod(
        "Fitted Q iteration",
        FittedQ,
        base_seconds=0.07,
        seconds_per_update=1.8e-4,
        budgets_together=False,
    ),
    "tabular_q": ValueBasedMethod(
        "Tabular Q-learning", TabularQ, base_seconds=0.007, seconds_per_update=1e-6
    ),
}
