"""The methods of the package: boundary learners, value-based baselines, and references.

All budgets of a seed are one run: a smaller budget is its beginning. A baseline never sees the
observation noise, so problems that differ in nothing else are one to it: trained once, recorded
for each.

Truncated value iteration from v = 0: after k sweeps of v <- T v, the last of which also names the
greedy action, the cost is k * S full backups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from tessella.learn import LEARNERS, Features
from tessella.mdp.policy import Policy
from tessella.runner.methods.method import (
    Fit,
    FullGridMethod,
    Instance,
    LearnerMethod,
    MethodGroup,
    SingleRunMethod,
    StudyMethod,
    fit_learner,
)
from tessella.runner.record import InformationBudget, Spec
from tessella.solvers.policy_iteration import ValueIteration
from tessella.solvers.solve import solve
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


def _read_settings(spec: Spec, kinds: tuple[type, ...]) -> dict[str, Any]:
    return {name: setting_from_json(value, kinds) for name, value in spec.settings.items()}


@dataclass(frozen=True)
class BoundaryMethod(LearnerMethod):
    """A boundary learner with its own defaults."""

    edition: int = 2

    @property
    def title(self) -> str:
        return self.learner.title

    def settings(self) -> dict[str, Any]:
        settings = self.learner.get_params(deep=False)
        # The seed of a run decides its randomness.
        settings.pop("random_state", None)
        return {name: setting_to_json(value, (Features,)) for name, value in settings.items()}

    def seconds(self, spec: Spec) -> float:
        base_seconds, seconds_per_label = LEARNER_SECONDS[self.name]
        return base_seconds + seconds_per_label * spec.n

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        learner = type(self.learner)(**_read_settings(specs[0], (Features,)))
        return fit_learner(learner, instance, specs)


BOUNDARY_METHODS: dict[str, StudyMethod] = {
    name: BoundaryMethod(name, learner()) for name, learner in LEARNERS.items()
}


@dataclass(frozen=True)
class ValueBasedMethod(FullGridMethod):
    """A baseline with its own defaults.

    A run takes about ``base_seconds + seconds_per_update * n`` seconds.
    """

    title: str
    algorithm: Callable[..., Any]
    base_seconds: float
    seconds_per_update: float
    edition: int = 2
    budgets_together: bool = True  # whether all budgets train in one call, or each in its own
    group: MethodGroup = "value"

    def settings(self) -> dict[str, Any]:
        default = self.algorithm()
        return {
            f.name: setting_to_json(getattr(default, f.name), OPTION_CLASSES)
            for f in fields(default)
        }

    def seconds(self, spec: Spec) -> float:
        return self.base_seconds + self.seconds_per_update * spec.n

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


@dataclass(frozen=True)
class DeterministicMethod(SingleRunMethod):
    """A method of one run for each problem, whatever n and seed."""

    title: str
    algorithm: Callable[[Instance, Spec], tuple[Any, InformationBudget]]
    about: Mapping[str, Any] = field(default_factory=dict)
    group: MethodGroup = "reference"
    edition: int = 1

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(0, 0)]

    def make_policy(self, instance: Instance, spec: Spec) -> tuple[Any, InformationBudget]:
        return self.algorithm(instance, spec)


def _sweep_few_times(instance: Instance, spec: Spec) -> tuple[NDArray[np.intp], InformationBudget]:
    """The greedy policy of the k-th sweep of value iteration."""
    sweeps = spec.settings["sweeps"]
    # The action values are one sweep more than the value they come from.
    q = solve(instance.mdp, ValueIteration(max_sweeps=sweeps - 1), partial=True).q
    return q.argmax(axis=-1), InformationBudget(backups=sweeps * instance.mdp.n_states)


def _solve_again(instance: Instance, spec: Spec) -> tuple[Policy, InformationBudget]:
    """The optimal policy, as a table; the first solve of a process may have compiled."""
    solution = Instance(instance.mdp).solution
    information = InformationBudget(labels=instance.mdp.n_states, backups=instance.backups)
    return solution.policy, information


@dataclass(frozen=True)
class ReferenceBaseline(ValueBasedMethod):
    """A value-based baseline with ``budget_factor`` times the largest budget."""

    group: MethodGroup = "reference"
    budget_factor: int = 1

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(self.budget_factor * max(sizes), seed) for seed in seeds]


REFERENCES: dict[str, StudyMethod] = {
    "value_iteration_2": DeterministicMethod(
        "Value iteration, 2 sweeps", _sweep_few_times, {"sweeps": 2}
    ),
    "value_iteration_4": DeterministicMethod(
        "Value iteration, 4 sweeps", _sweep_few_times, {"sweeps": 4}
    ),
    "tabular_q_100": ReferenceBaseline(
        "Tabular Q-learning × 100",
        TabularQ,
        base_seconds=0.0,
        seconds_per_update=5e-7,
        budget_factor=100,
    ),
    # The lowest sum of both families' errors on other seeds.
    "fitted_q_tuned": ReferenceBaseline(
        "Fitted Q iteration, tuned",
        partial(FittedQ, leaf=10, iterations=5),
        base_seconds=0.0,
        seconds_per_update=5e-5,
    ),
    "exact_table": DeterministicMethod("Exact table", _solve_again),
}
