"""References: what a plain use of the model, or many more simulator calls, would give.

Truncated value iteration from v = 0: after k sweeps of v <- T v, the last of which also names the
greedy action, the cost is k * S full backups.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tessella.baselines.fitted_q import FittedQ
from tessella.baselines.tabular_q import TabularQ
from tessella.runner.methods.method import Fit, Instance, MethodGroup, StudyMethod
from tessella.runner.methods.value_based import ValueBasedMethod
from tessella.runner.record import InformationBudget
from tessella.runner.spec import Spec


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
        from tessella.solvers.solve import solve
        from tessella.solvers.value_iteration import ValueIteration

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
    "exact_table": ExactTable(),
}
