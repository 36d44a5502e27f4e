"""What a study asks of a method.

A method says which runs it needs, which of them train together, and trains them. It never judges
itself: it returns policies, and ``score`` measures them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

from tessella.errors import TessellaError
from tessella.mdp.model import MDP
from tessella.problems.problem import Problem
from tessella.problems.registry import problem
from tessella.runner.names import UnknownNameError
from tessella.runner.record import InformationBudget
from tessella.runner.spec import Spec, to_canonical_json
from tessella.solvers.solution import Solution

MethodGroup = Literal["boundary", "value", "reference"]


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem with its settings, built: the model, and its optimum when first asked for."""

    mdp: MDP

    @cached_property
    def solution(self) -> Solution:
        """The optimum: the source of labels and the measure of policies.

        By value iteration: the one method whose work is counted in full Bellman backups.
        """
        from tessella.solvers.solve import solve
        from tessella.solvers.value_iteration import ValueIteration

        solution = solve(self.mdp, ValueIteration())
        # Methods are shown it; none may change what all are measured against.
        for array in (solution.value, solution.decided):
            array.setflags(write=False)
        return solution

    @property
    def backups(self) -> int:
        """Full Bellman backups behind the optimum: one for each state and sweep."""
        return self.solution.sweeps * self.mdp.n_states


@dataclass(frozen=True, eq=False)
class Fit:
    """What a method gives back for one spec.

    Attributes:
        policy: whatever decides (see ``tessella.as_policy``). What it is stays: its own size is
            recorded, and measures are given it as it came.
        information: what it was given.
        seconds: how long it took to make.
    """

    policy: Any
    information: InformationBudget
    seconds: float


class StudyMethod(Protocol):
    """A way to get a policy; ``title`` and ``group`` are for people, the rest decides runs."""

    @property
    def title(self) -> str: ...

    @property
    def group(self) -> MethodGroup: ...

    @property
    def edition(self) -> int:
        """Raise it when the code changes what a spec gives."""
        ...

    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter, as plain JSON."""
        ...

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        """The (n, seed) that a study with these sizes and seeds needs of this method."""
        ...

    def batch_key(self, spec: Spec) -> Hashable:
        """Specs of equal dynamics and equal answers train in one call.

        A method that sees the noise of observations answers with the problem.
        """
        ...

    def seconds(self, spec: Spec) -> float:
        """About how long one run takes; decides the order of work and the time left."""
        ...

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        """One fit for each of ``specs``, which share dynamics and settings.

        What cannot be scored (a policy of another shape, counts that are none) is recorded as
        failed, with the reason.
        """
        ...


def get_problem(spec: Spec) -> Problem:
    """The record that ``spec`` names; one of another edition is another problem."""
    try:
        found_problem = problem(spec.problem)
    except TessellaError as error:
        raise UnknownNameError(str(error)) from error
    edition = spec.model.get("edition", 1)
    if edition != found_problem.edition:
        raise UnknownNameError(
            f"{found_problem.name!r} has edition {found_problem.edition} here; "
            f"the study asks for edition {edition}"
        )
    return found_problem


def get_instance(spec: Spec) -> Instance:
    """The model of ``spec``, kept for the next batch."""
    settings = {name: value for name, value in spec.model.items() if name != "edition"}
    return _build_instance(get_problem(spec), to_canonical_json(settings))


@lru_cache(maxsize=32)
def _build_instance(found_problem: Problem, settings: str) -> Instance:
    return Instance(found_problem.build(**json.loads(settings)))
