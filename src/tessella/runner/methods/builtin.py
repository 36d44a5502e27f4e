"""The methods of the package: boundary learners, value-based baselines, and references.

All budgets of a seed are one run: a smaller budget is its beginning. A baseline never sees the
observation noise, so problems that differ in nothing else are one to it: trained once, recorded
for each.

Truncated value iteration from v = 0: after k sweeps of v <- T v, the last of which also names the
greedy action, the cost is k * S full backups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from tessella.baselines import (
    BASELINES,
    ConstantStep,
    DecayingStep,
    FittedQ,
    TabularQ,
    Trajectory,
    UniformPairs,
    train_batch,
)
from tessella.learn import LEARNERS, Features, MarginBoundary, draw, fit_batch
from tessella.runner.methods.method import Fit, FullGridMethod, Instance, MethodGroup, StudyMethod
from tessella.runner.record import InformationBudget, Spec
from tessella.support.json_values import setting_from_json, setting_to_json

OPTION_CLASSES = (ConstantStep, DecayingStep, Trajectory, UniformPairs)
# About how long a run takes: seconds of any run, and of each label or update.
LEARNER_SECONDS = {
    "linear": (0.01, 2e-6),
    "neural": (0.04, 1e-5),
    "margin": (0.04, 1e-5),
    "local": (0.008, 1e-6),
}
BASELINE_SECONDS = {
    "double_q": (0.007, 1e-6),
    "fitted_q": (0.07, 1.8e-4),
    "tabular_q": (0.007, 1e-6),
}


@dataclass(frozen=True)
class _TimedMethod(FullGridMethod):
    """A method of which one run takes about ``base_seconds + seconds_per_step * n`` seconds."""

    title: str
    algorithm: Callable[..., Any]
    base_seconds: float
    seconds_per_step: float
    edition: int = 2

    def seconds(self, spec: Spec) -> float:
        return self.base_seconds + self.seconds_per_step * spec.n


@dataclass(frozen=True)
class BoundaryMethod(_TimedMethod):
    """A boundary learner with its own defaults."""

    sees_margins: bool = False  # whether it is given the margin of each labelled state as well
    group: MethodGroup = "boundary"

    def settings(self) -> dict[str, Any]:
        settings = self.algorithm().get_params(deep=False)
        # The seed of a run decides its randomness.
        settings.pop("random_state", None)
        return {name: setting_to_json(value, (Features,)) for name, value in settings.items()}

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        samples = [draw(instance.solution, s.n, rng=s.generator("sample")) for s in specs]
        seeds = [spec.entropy("training") for spec in specs]
        learner = self.algorithm(**_read_settings(specs[0], (Features,)))
        began = time.perf_counter()
        policies = fit_batch(learner, samples, seeds)
        seconds = (time.perf_counter() - began) / len(specs)
        labels = [sample.exact_labels for sample in samples]
        return [
            Fit(
                policy,
                InformationBudget(n, n if self.sees_margins else 0, instance.backups),
                seconds,
            )
            for policy, n in zip(policies, labels, strict=True)
        ]


def _read_settings(spec: Spec, kinds: tuple[type, ...]) -> dict[str, Any]:
    return {name: setting_from_json(value, kinds) for name, value in spec.settings.items()}


BOUNDARY_METHODS: dict[str, StudyMethod] = {
    name: BoundaryMethod(
        learner.title, learner, *LEARNER_SECONDS[name], sees_margins=learner is MarginBoundary
    )
    for name, learner in LEARNERS.items()
}


@dataclass(frozen=True)
class ValueBasedMethod(_TimedMethod):
    """A baseline with its own defaults."""

    budgets_together: bool = True  # whether all budgets train in one call, or each in its own
    group: MethodGroup = "value"

    def settings(self) -> dict[str, Any]:
        default = self.algorithm()
        return {
            f.name: setting_to_json(getattr(default, f.name), OPTION_CLASSES)
            for f in fields(default)
        }

    def batch_key(self, spec: Spec) -> Hashable:
        return None if self.budgets_together else spec.n

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        baseline = self.algorithm(**_read_settings(specs[0], OPTION_CLASSES))
        seeds = [spec.entropy("transitions", every_n=True) for spec in specs]
        budgets = [spec.n for spec in specs]
        began = time.perf_counter()
        policies = train_batch(baseline, instance.mdp, budgets, seeds)
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
    name: ValueBasedMethod(
        baseline.title, baseline, *BASELINE_SECONDS[name], budgets_together=baseline is not FittedQ
    )
    for name, baseline in BASELINES.items()
}


class DeterministicMethod:
    """A method of one run for each problem, whatever n and seed."""

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(0, 0)]

    def batch_key(self, spec: Spec) -> Hashable:
        return spec.problem

    def seconds(self, spec: Spec) -> float:
        return 0.01


@dataclass(frozen=True)
class TruncatedValueIteration(DeterministicMethod):
    """The greedy policy of the k-th sweep of value iteration."""

    sweeps: int
    group: MethodGroup = "reference"
    edition: int = 1

    @property
    def title(self) -> str:
        return f"Value iteration, {self.sweeps} sweeps"

    def settings(self) -> dict[str, Any]:
        return {"sweeps": self.sweeps}

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        from tessella.solvers.policy_iteration import ValueIteration
        from tessella.solvers.solve import solve

        sweeps = specs[0].settings["sweeps"]
        began = time.perf_counter()
        # The action values are one sweep more than the value they come from.
        method = ValueIteration(max_sweeps=sweeps - 1)
        q = solve(instance.mdp, method, partial=True).q
        seconds = time.perf_counter() - began
        information = InformationBudget(backups=sweeps * instance.mdp.n_states)
        return [Fit(np.argmax(q, axis=-1), information, seconds) for _ in specs]


@dataclass(frozen=True)
class ExactTable(DeterministicMethod):
    """The optimal policy itself, as a table with an entry for each state."""

    title: str = "Exact table"
    group: MethodGroup = "reference"
    edition: int = 1

    def settings(self) -> dict[str, Any]:
        return {}

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        solution = instance.solution
        n_states = instance.mdp.n_states
        information = InformationBudget(labels=n_states, backups=instance.backups)
        # The first solve of a process compiles; the second shows what solving takes.
        began = time.perf_counter()
        Instance(instance.mdp).solution  # noqa: B018
        seconds = time.perf_counter() - began
        return [Fit(solution.policy, information, seconds) for _ in specs]


@dataclass(frozen=True)
class ReferenceBaseline(ValueBasedMethod):
    """A value-based baseline with ``budget_factor`` times the largest budget."""

    group: MethodGroup = "reference"
    budget_factor: int = 1

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(self.budget_factor * max(sizes), seed) for seed in seeds]


REFERENCES: dict[str, StudyMethod] = {
    "value_iteration_2": TruncatedValueIteration(2),
    "value_iteration_4": TruncatedValueIteration(4),
    "tabular_q_100": ReferenceBaseline(
        "Tabular Q-learning × 100",
        TabularQ,
        base_seconds=0.0,
        seconds_per_step=5e-7,
        budget_factor=100,
    ),
    # The lowest sum of both families' errors on other seeds.
    "fitted_q_tuned": ReferenceBaseline(
        "Fitted Q iteration, tuned",
        partial(FittedQ, leaf=10, iterations=5),
        base_seconds=0.0,
        seconds_per_step=5e-5,
    ),
    "exact_table": ExactTable(),
}
