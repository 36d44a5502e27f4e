"""The plan of a study: its runs, the batches that train together, and its measures.

The longest batches come first, so that the workers finish together, and those that share compiled
code follow each other. What methods state about their runs is checked here, before any work.

    Measure(name, of),   of(solution, policy) -> a finite number

A measure is computed where the policy was trained and stored with its record. Its name is in the
spec of the run: a measure that changes its meaning needs another name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from numbers import Real
from operator import index
from typing import Any, NoReturn

from tessella.errors import StudyError
from tessella.mdp.policy import Policy
from tessella.problems.problem import Problem
from tessella.problems.registry import PACKAGE_PROBLEMS, all_problems, problem, register
from tessella.runner.methods import find_method, register_method
from tessella.runner.methods.method import UnknownNameError, find_named, require_own_name
from tessella.runner.record import RECORD_COLUMNS, Spec
from tessella.solvers.solution import Solution

STUDY_MAX_RUNS = 1_000_000  # runs of one study: their specs are held in memory
# Labels, or updates; a hundred times that, as a reference has it, can be stored.
SAMPLE_MAX_SIZE = 10**9


@dataclass(frozen=True)
class Measure:
    """A number of a policy, by name.

    Args:
        name: its column in results.
        of: a function of a solution and a policy that returns a number.

    Example:
        >>> at_five = ts.Measure("at 5", lambda solution, policy: policy.decide([[5.0, 0.0]])[0])
    """

    name: str
    of: Callable[[Solution, Policy], float]

    def __call__(self, solution: Solution, policy: Policy) -> float:
        """The number; anything but a finite number is rejected."""
        value = self.of(solution, policy)
        if not isinstance(value, Real) or not math.isfinite(value):
            requirement = "a measure gives a finite number"
            raise StudyError(requirement, location=self.name, value=f"is {value}")
        return float(value)


_registered: dict[str, Measure] = {}


def register_measure(measure: Measure) -> str:
    """Register a measure under its name and return the name; a later one replaces an earlier."""
    name = require_own_name(_require_measure(measure), "measure")
    if name in RECORD_COLUMNS:
        requirement = "a measure needs a name that no column of the records has"
        raise UnknownNameError(requirement, value=f"got {name!r}")
    _registered[name] = measure
    return name


def find_measure(name: str) -> Measure:
    """The measure called ``name``; a name with a colon, ``module:attribute``, is imported."""
    return find_named(name, "measure", _registered, _require_measure)


def _require_measure(measure: object, name: str = "") -> Measure:
    if isinstance(measure, Measure):
        return measure
    value = f"{'is' if name else 'got'} {type(measure).__name__}"
    raise UnknownNameError("a measure is a tessella.Measure", location=name, value=value)


@dataclass(frozen=True)
class Study:
    """What to run: every combination of these.

    Problems, methods and measures are given by name, as ``module:attribute``, or as objects, which
    are registered under their own names; afterwards the fields hold only names.

    Args:
        problems: names, or ``Problem`` records.
        methods: names, or anything that is a method; see ``tessella.runner.methods``.
        sizes: labels, or updates, given to a method.
        seeds: how many repetitions; their seeds are 0, 1, ...
        measures: names, or ``Measure`` objects: what else is stored of each policy.

    Example:
        >>> study = ts.Study(problems=["QUE-Lin"], methods=["linear"], sizes=(50, 100), seeds=3)
        >>> len(study.specs)
        6
    """

    problems: tuple[Any, ...]
    methods: tuple[Any, ...]
    sizes: tuple[int, ...] = (100, 400, 1600)
    seeds: int = 5
    measures: tuple[Any, ...] = ()
    objects: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        objects = []
        names = {"problems": _problem_name, "methods": _method_name, "measures": _measure_name}
        for attribute, name_of in names.items():
            given = getattr(self, attribute)
            items = given if isinstance(given, list | tuple) else (given,)
            objects += [item for item in items if not isinstance(item, str)]
            object.__setattr__(self, attribute, tuple(dict.fromkeys(map(name_of, items))))
        object.__setattr__(self, "objects", tuple(objects))
        # In one order: the same study, however its problems were listed.
        object.__setattr__(self, "problems", _sort_problems(self.problems))
        self._check_counts()

    def _check_counts(self) -> None:
        try:
            object.__setattr__(self, "sizes", tuple(sorted(set(map(index, self.sizes)))))
            object.__setattr__(self, "seeds", index(self.seeds))
        except TypeError:
            given = f"got {self.seeds!r} and {self.sizes!r}"
            raise StudyError("seeds and sample sizes are whole numbers", value=given) from None
        if self.seeds < 1:
            raise StudyError(f"a study needs at least one seed; got {self.seeds}")
        if not self.sizes or min(self.sizes) < 1:
            raise StudyError(f"sample sizes must be positive; got {list(self.sizes)}")
        if max(self.sizes) > SAMPLE_MAX_SIZE:
            raise StudyError(f"sample sizes end at {SAMPLE_MAX_SIZE:,}; got {max(self.sizes):,}")
        if not self.problems or not self.methods:
            raise StudyError("a study needs at least one problem and one method")
        counts = self.seeds, len(self.sizes), len(self.methods), len(self.problems)
        if math.prod(counts) > STUDY_MAX_RUNS:
            counts_text = "{:,} seeds, {} sizes, {} methods and {} problems".format(*counts)
            raise StudyError(f"a study has at most {STUDY_MAX_RUNS:,} runs; {counts_text} are more")

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """Every run, once."""
        known = {method: find_method(method) for method in self.methods}
        models = {name: problem(name).identity() for name in self.problems}
        return tuple(
            Spec(
                name,
                problem(name).family,
                models[name],
                method,
                known[method].settings(),
                known[method].edition,
                n,
                seed,
                self.measures,
            )
            for name in self.problems
            for method in self.methods
            for n, seed in _method_runs(method, self.sizes, range(self.seeds))
        )


def _problem_name(item: Any) -> str:
    if isinstance(item, str):
        named_problem = problem(item)
        return item if ":" in item else named_problem.name
    return register(item).name


def _method_name(item: Any) -> str:
    return item if isinstance(item, str) else register_method(item)


def _measure_name(item: Any) -> str:
    if not isinstance(item, str):
        return register_measure(item)
    find_measure(item)
    return item


def _sort_problems(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the registry in its order, then the others."""
    places = {known.name: place for place, known in enumerate(all_problems())}
    return tuple(sorted(names, key=lambda name: places.get(name, len(places))))


def pack_objects(objects: Sequence[Any]) -> bytes:
    """The objects of a study as bytes for workers; empty where there are none.

    Objects of a script or a notebook are sent whole; those of a module by their name in it, so the
    worker must be able to import that module.
    """
    import cloudpickle

    return cloudpickle.dumps(tuple(objects)) if objects else b""


def register_packed(packed: bytes) -> None:
    """Register packed objects in this process, under their names."""
    for item in _unpack_objects(packed) if packed else ():
        if isinstance(item, Problem):
            if item.name not in PACKAGE_PROBLEMS:
                register(item)
        elif isinstance(item, Measure):
            register_measure(item)
        else:
            register_method(item)


@lru_cache(maxsize=8)
def _unpack_objects(packed: bytes) -> tuple[Any, ...]:
    """The objects, unpacked once: the caches of models and optima are keyed by them."""
    import cloudpickle

    try:
        return cloudpickle.loads(packed)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        requirement = "the objects of the study cannot be unpacked here"
        raise UnknownNameError(f"{requirement}: {reason}") from error


Batch = tuple[Spec, ...]  # specs that train together, in one task of a worker


def make_batches(specs: Iterable[Spec]) -> list[Batch]:
    """``specs`` grouped by what trains together, the longest runs first."""
    groups: dict[tuple, list[Spec]] = defaultdict(list)
    for spec in specs:
        batch_key = find_method(spec.method).batch_key(spec)
        try:
            hash(batch_key)
        except TypeError:
            _raise_for_method(spec.method, "needs a hashable batch key", batch_key)
        groups[spec.method, spec.dynamics, batch_key].append(spec)
    return sorted(map(tuple, groups.values()), key=_sort_key)


def _sort_key(batch: Batch) -> tuple:
    first = batch[0]
    longest = max(map(estimate_seconds, batch))
    return -longest, first.method, first.family, first.n, first.problem


def estimate_seconds(spec: Spec) -> float:
    """About how long a run takes, as its method says."""
    given = find_method(spec.method).seconds(spec)
    if not isinstance(given, Real) or not 0 <= given < math.inf:
        _raise_for_method(spec.method, "says how many seconds a run takes", given)
    return float(given)


def _method_runs(name: str, sizes: tuple[int, ...], seeds: range) -> list[tuple[int, int]]:
    returned = find_method(name).runs(sizes, seeds)
    if not isinstance(returned, Iterable):
        _raise_for_method(name, "names its runs", returned)
    pairs = list(returned)
    for pair in pairs:
        are_integers = isinstance(pair, tuple) and [type(part) for part in pair] == [int, int]
        if not are_integers or not 0 <= min(pair) <= max(pair) < 2**63:
            _raise_for_method(name, "names its runs as pairs of n and seed", pair)
    return pairs


def _raise_for_method(name: str, requirement: str, given: object) -> NoReturn:
    raise UnknownNameError(f"a method {requirement}", location=repr(name), value=f"gives {given!r}")
