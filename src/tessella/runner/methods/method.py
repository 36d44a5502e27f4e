"""What a study requires of a method.

A method states which runs it needs and which of them train together, and it trains them. It never
evaluates itself: it returns policies, and ``tessella.runner.run`` scores them.

A custom method takes one line: a learner, a baseline, or any function that returns a policy. Each
makes one policy at a time, with randomness that n and seed decide; it may return anything that
``tessella.as_policy`` reads. Its settings are in the spec of each run, so that a changed one is
another run; raise ``edition`` when the code changes the result.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

import numpy as np

from tessella.errors import StudyError, TessellaError
from tessella.mdp.model import MDP
from tessella.problems.problem import Problem
from tessella.problems.registry import import_object, problem
from tessella.runner.record import InformationBudget, Spec
from tessella.solvers.solution import Solution
from tessella.support.json_values import setting_to_json, to_canonical_json

MethodGroup = Literal["boundary", "value", "reference"]


class UnknownNameError(StudyError):
    """A name that leads to nothing of its kind, here or on a worker."""


def require_own_name(item: object, noun: str, reserved: Container[str] = ()) -> str:
    """The name of a custom object; it must differ from the names in the package."""
    name = getattr(item, "name", None)
    if not isinstance(name, str) or not name or ":" in name:
        requirement = f"a {noun} needs a name, without a colon, in its attribute name"
        raise UnknownNameError(requirement, value=f"got {name!r}")
    if name in reserved:
        raise UnknownNameError(f"a {noun} of the package keeps its name", value=f"got {name!r}")
    return name


def find_named(name: str, noun: str, known: Mapping[str, Any], check: Callable[..., Any]) -> Any:
    """What ``known`` has under ``name``; a name with a colon, ``module:attribute``, is imported."""
    if ":" in name:
        return check(import_object(name, noun, UnknownNameError), repr(name))
    if name not in known:
        names = ", ".join(known) or "none"
        raise UnknownNameError(f"no {noun} is called {name!r}; there are {names}")
    return known[name]


@dataclass(frozen=True, eq=False)
class Instance:
    """The model of a problem with its settings; its optimum is computed when first needed."""

    mdp: MDP

    @cached_property
    def solution(self) -> Solution:
        """The optimum: the source of labels and the reference for policies.

        By value iteration: the one method whose work is counted in full Bellman backups.
        """
        from tessella.solvers.policy_iteration import ValueIteration
        from tessella.solvers.solve import solve

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
    """A base of methods that run for every n and seed; those of a problem and an n are a batch."""

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(n, seed) for n in sizes for seed in seeds]

    def batch_key(self, spec: Spec) -> Hashable:
        return spec.problem, spec.n

    def seconds(self, spec: Spec) -> float:
        return 0.01 + 1e-5 * spec.n


def get_problem(spec: Spec) -> Problem:
    """The registered problem of ``spec``, which must have the same edition."""
    try:
        registered = problem(spec.problem)
    except TessellaError as error:
        raise UnknownNameError(str(error)) from error
    edition = spec.model.get("edition", 1)
    if edition != registered.edition:
        here = f"{registered.name!r} has edition {registered.edition} here"
        raise UnknownNameError(f"{here}; the study requires edition {edition}")
    return registered


def get_instance(spec: Spec) -> Instance:
    """The model of ``spec``, cached for the next batch."""
    settings = {name: value for name, value in spec.model.items() if name != "edition"}
    return _build_instance(get_problem(spec), to_canonical_json(settings))


@lru_cache(maxsize=32)
def _build_instance(registered: Problem, settings: str) -> Instance:
    return Instance(registered.build(**json.loads(settings)))


@dataclass(frozen=True)
class LearnerMethod(FullGridMethod):
    """A scikit-learn classifier, or a boundary learner, that sees n exact labels.

    Args:
        name: how a study refers to it.
        learner: an object, not a class; each run trains a copy with its own seed.

    Example:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> tree = ts.LearnerMethod("tree", DecisionTreeClassifier(max_depth=3))
    """

    name: str
    learner: Any
    edition: int = 1
    group: MethodGroup = "boundary"

    @property
    def title(self) -> str:
        return self.name

    def settings(self) -> dict[str, Any]:
        parameters = self.learner.get_params()
        settings = {k: v for k, v in parameters.items() if k.split("__")[-1] != "random_state"}
        return {"learner": type(self.learner).__name__} | {
            k: setting_to_json(v) for k, v in settings.items()
        }

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        return fit_learner(self.learner, instance, specs)


def fit_learner(learner: Any, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
    """A fit for each of ``specs``, from n exact labels; drawing them is no part of its time."""
    from tessella.learn import MarginBoundary, draw, fit_batch  # scikit-learn: a second to load

    samples = [draw(instance.solution, spec.n, rng=spec.generator("sample")) for spec in specs]
    seeds = [spec.entropy("training") for spec in specs]
    began = time.perf_counter()
    policies = fit_batch(learner, samples, seeds)
    seconds = (time.perf_counter() - began) / len(specs)
    sees_margins = isinstance(learner, MarginBoundary)
    labels = [sample.exact_labels for sample in samples]
    return [
        Fit(policy, InformationBudget(n, n if sees_margins else 0, instance.backups), seconds)
        for policy, n in zip(policies, labels, strict=True)
    ]


class SingleRunMethod(FullGridMethod, ABC):
    """A method that makes its policies one at a time, for every n and seed."""

    about: Mapping[str, Any]

    def settings(self) -> dict[str, Any]:
        return dict(self.about)

    @abstractmethod
    def make_policy(self, instance: Instance, spec: Spec) -> tuple[Any, InformationBudget]:
        """The policy of one run, and the information it was given."""

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        instance.solution  # noqa: B018  scores need it; its time is not that of the method
        fits = []
        for spec in specs:
            began = time.perf_counter()
            policy, information = self.make_policy(instance, spec)
            fits.append(Fit(policy, information, time.perf_counter() - began))
        return fits


@dataclass(frozen=True)
class BaselineMethod(SingleRunMethod):
    """A policy trained from a simulator.

    Args:
        name: how a study refers to it.
        train: ``train(mdp, updates, rng) -> policy``; nothing checks that it uses
            the model as a simulator only, and at most ``updates`` times.
        about: its settings, as numbers and text.

    Example:
        >>> def never(mdp, updates, rng):
        ...     return np.zeros(mdp.n_states, dtype=int)
        ...
        >>> never_admit = ts.BaselineMethod("never", never)
    """

    name: str
    train: Callable[[MDP, int, np.random.Generator], Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    edition: int = 1
    group: MethodGroup = "value"

    @property
    def title(self) -> str:
        return self.name

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

    Example:
        >>> def below_ten(instance, n, rng):
        ...     return lambda queue: 1 * (queue < 10)
        ...
        >>> rule = ts.FunctionMethod("below ten", below_ten, once=True)
    """

    name: str
    function: Callable[[Instance, int, np.random.Generator], Any]
    information: InformationBudget = field(default_factory=InformationBudget)
    once: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
    edition: int = 1
    group: MethodGroup = "reference"

    @property
    def title(self) -> str:
        return self.name

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(0, 0)] if self.once else super().runs(sizes, seeds)

    def make_policy(self, instance: Instance, spec: Spec) -> tuple[Any, InformationBudget]:
        return self.function(instance, spec.n, spec.generator("policy")), self.information
