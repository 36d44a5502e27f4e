"""What a study requires of a method.

A method says which runs it needs, which of them train together, and trains them. It never evaluates
itself: it returns policies, and ``tessella.runner.run`` scores them.
"""

from __future__ import annotations

import json
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

from tessella.errors import StudyError, TessellaError
from tessella.mdp.model import MDP
from tessella.problems.problem import Problem
from tessella.problems.registry import problem
from tessella.runner.record import InformationBudget, Spec
from tessella.solvers.solution import Solution
from tessella.support.json_values import to_canonical_json

MethodGroup = Literal["boundary", "value", "reference"]


class UnknownNameError(StudyError):
    """A name that leads to nothing of its kind, here or on a worker."""


def require_own_name(item: object, noun: str, reserved: Container[str] = ()) -> str:
    """The name of an object given to a study; nothing of the package may have the same."""
    name = getattr(item, "name", None)
    if not isinstance(name, str) or not name or ":" in name:
        requirement = f"a {noun} needs a name, without a colon, in its attribute name"
        raise UnknownNameError(requirement, value=f"got {name!r}")
    if name in reserved:
        raise UnknownNameError(f"a {noun} of the package keeps its name", value=f"got {name!r}")
    return name


@dataclass(frozen=True, eq=False)
class Instance:
    """The model of a problem with its settings; its optimum is computed when first needed."""

    mdp: MDP

    @cached_property
    def solution(self) -> Solution:
        """The optimum: the source of labels and the reference for policies.

        By value iteration: the one method whose work is counted in full Bellman backups.
        """
        from tessella.solvers.solve import solve
        from tessella.solvers.value_iteration import ValueIteration

        solution = solve(self.mdp, ValueIteration())
        # Methods see it; none may change what all are measured against.
        for array in (solution.value, solution.decided):
            array.setflags(write=False)
        return solution

    @property
    def backups(self) -> int:
        """Full Bellman backups behind the optimum: one for each state and sweep."""
        return self.solution.sweeps * self.mdp.n_states


@dataclass(frozen=True, eq=False)
class Fit:
    """What a method returns for one spec."""

    # Anything that ``tessella.as_policy`` reads. Its own size is recorded, and measures receive it
    # unchanged.
    policy: Any
    information: InformationBudget  # what the method was given
    seconds: float  # training time


class StudyMethod(Protocol):
    """A way to get a policy; ``title`` and ``group`` are for people, the rest decides runs."""

    @property
    def title(self) -> str: ...

    @property
    def group(self) -> MethodGroup: ...

    @property
    def edition(self) -> int:
        """Raise it when the code changes the result of a spec."""
        ...

    def settings(self) -> dict[str, Any]:
        """Every hyper-parameter, as plain JSON."""
        ...

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        """The (n, seed) that a study with these sizes and seeds needs of this method."""
        ...

    def batch_key(self, spec: Spec) -> Hashable:
        """Specs of equal dynamics and equal keys train in one call.

        The key of a method that sees the noise of observations includes the problem.
        """
        ...

    def seconds(self, spec: Spec) -> float:
        """About how long one run takes; decides the order of work and the time left."""
        ...

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        """One fit for each of ``specs``, which share dynamics and settings.

        One that cannot be scored (a policy of another shape, invalid counts) is recorded as
        failed, with the reason.
        """
        ...


class FullGridMethod:
    """Part of a method that runs for every n and seed, a problem and an n in one batch."""

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(n, seed) for n in sizes for seed in seeds]

    def batch_key(self, spec: Spec) -> Hashable:
        return spec.problem, spec.n


def get_problem(spec: Spec) -> Problem:
    """The registered problem of ``spec``; one of another edition is another problem."""
    try:
        registered = problem(spec.problem)
    except TessellaError as error:
        raise UnknownNameError(str(error)) from error
    edition = spec.model.get("edition", 1)
    if edition != registered.edition:
        raise UnknownNameError(
            f"{registered.name!r} has edition {registered.edition} here; "
            f"the study asks for edition {edition}"
        )
    return registered


def get_instance(spec: Spec) -> Instance:
    """The model of ``spec``, cached for the next batch."""
    settings = {name: value for name, value in spec.model.items() if name != "edition"}
    return _build_instance(get_problem(spec), to_canonical_json(settings))


@lru_cache(maxsize=32)
def _build_instance(registered: Problem, settings: str) -> Instance:
    return Instance(registered.build(**json.loads(settings)))
