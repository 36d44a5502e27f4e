"""The three value-based baselines: they are told sampled transitions and learn values.

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
from tessella.runner.methods.method import Fit, Group, Instance, Method
from tessella.runner.record import Told
from tessella.runner.spec import Spec, setting_from_json, setting_to_json

OPTIONS = (ConstantStep, DecayingStep, Trajectory, UniformPairs)


@dataclass(frozen=True)
class ValueBased:
    """A baseline with its own defaults.

    Args:
        start, each: about the seconds of one run: ``start + each * n``.
        budgets_together: whether all budgets train in one call, or each in its own.
    """

    title: str
    baseline: Callable[..., Baseline]
    start: float
    each: float
    budgets_together: bool = True
    group: Group = "value"
    edition: int = 2

    def settings(self) -> dict[str, Any]:
        default = self.baseline()
        return {f.name: setting_to_json(getattr(default, f.name), OPTIONS) for f in fields(default)}

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(n, seed) for n in sizes for seed in seeds]

    def together(self, spec: Spec) -> Hashable:
        return None if self.budgets_together else spec.n

    def seconds(self, spec: Spec) -> float:
        return self.start + self.each * spec.n

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        settings = {
            name: setting_from_json(value, OPTIONS) for name, value in specs[0].settings.items()
        }
        seeds = [spec.entropy("transitions", every_n=True) for spec in specs]
        budgets = [spec.n for spec in specs]
        began = time.perf_counter()
        trained = train_batch(self.baseline(**settings), instance.mdp, budgets, seeds)
        # One call trains every seed up to the largest budget.
        pace = (time.perf_counter() - began) / (len(set(seeds)) * max(budgets))
        return [
            Fit(
                trained[seed, spec.n],
                Told(simulator_calls=trained[seed, spec.n].simulator_calls),
                pace * spec.n,
            )
            for seed, spec in zip(seeds, specs, strict=True)
        ]


VALUE_BASED: dict[str, Method] = {
    "double_q": ValueBased("Double Q-learning", DoubleQ, 0.007, 1e-6),
    "fitted_q": ValueBased("Fitted Q iteration", FittedQ, 0.07, 1.8e-4, budgets_together=False),
    "tabular_q": ValueBased("Tabular Q-learning", TabularQ, 0.007, 1e-6),
}
