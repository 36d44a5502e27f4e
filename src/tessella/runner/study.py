"""The plan of a study: its runs, and the batches in which they train.

The longest batches come first, so that the workers finish together, and those that share compiled
code follow each other. What a method says about its own runs is checked here, before any work.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from operator import index
from typing import Any, NoReturn

from tessella.errors import StudyError
from tessella.problems.registry import all_problems, problem, register
from tessella.runner.measure import find_measure, register_measure
from tessella.runner.methods import find_method, register_method
from tessella.runner.names import UnknownNameError
from tessella.runner.spec import Spec

STUDY_MAX_RUNS = 1_000_000  # runs of one study: their specs are held in memory
# Labels, or updates; a hundred times that, as a reference has it, can be stored.
SAMPLE_MAX_SIZE = 10**9


@dataclass(frozen=True)
class Study:
    """What to run: every combination of these.

    Problems, methods and measures are given by name, as ``module:attribute``, or as objects, which
    are then known by their own names; afterwards the fields hold names alone.

    Args:
        problems: names, or ``Problem`` records.
        methods: names, or anything that is a method; see ``tessella.runner.methods``.
        sizes: labels, or updates, given to a method.
        seeds: how many repetitions; their seeds are 0, 1, ...
        measures: names, or ``Measure`` objects: what else is stored of each policy.
    """

    problems: tuple[Any, ...]
    methods: tuple[Any, ...]
    sizes: tuple[int, ...] = (100, 400, 1600)
    seeds: int = 5
    measures: tuple[Any, ...] = ()
    objects: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = [*map(_as_tuple, (self.problems, self.methods, self.measures))]
        objects = [item for items in given for item in items if not isinstance(item, str)]
        object.__setattr__(self, "objects", tuple(objects))
        name_functions = (_problem_name, _method_name, _measure_name)
        names = [
            tuple(dict.fromkeys(map(name_of, items)))
            for name_of, items in zip(name_functions, given, strict=True)
        ]
        # In one order, each once: the same study however it was asked for.
        for attribute, value in zip(("problems", "methods", "measures"), names, strict=True):
            object.__setattr__(self, attribute, value)
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
        seeds = range(self.seeds)
        return tuple(
            Spec(
                name,
                problem(name).family,
                model,
                method,
                find_method(method).settings(),
                find_method(method).edition,
                n,
                seed,
                self.measures,
            )
            for name, model in {name: problem(name).identity() for name in self.problems}.items()
            for method in self.methods
            for n, seed in _method_runs(method, self.sizes, seeds)
        )


def _as_tuple(items: Any) -> tuple[Any, ...]:
    """One thing may stand for a list of one."""
    return tuple(items) if isinstance(items, list | tuple) else (items,)


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
    registered = [entry.name for entry in all_problems()]
    return tuple(
        sorted(names, key=lambda n: registered.index(n) if n in registered else len(registered))
    )


@dataclass(frozen=True, eq=False)
class Batch:
    """Specs that train together, in one task of a worker."""

    specs: tuple[Spec, ...]

    @property
    def name(self) -> str:
        first = self.specs[0]
        return f"{first.method}-{first.problem}-{first.n}-{first.key[:8]}"

    def split(self) -> list[Batch]:
        """The same specs, each alone."""
        return [Batch((spec,)) for spec in self.specs]


def make_batches(specs: Iterable[Spec]) -> list[Batch]:
    """``specs`` grouped by what trains together, the longest runs first."""
    groups: dict[tuple, list[Spec]] = defaultdict(list)
    for spec in specs:
        batch_key = find_method(spec.method).batch_key(spec)
        try:
            hash(batch_key)
        except TypeError:
            _refuse_method(
                spec.method, "says what trains together by something hashable", batch_key
            )
        groups[spec.method, spec.dynamics, batch_key].append(spec)
    return sorted((Batch(tuple(group)) for group in groups.values()), key=_sort_key)


def _sort_key(batch: Batch) -> tuple:
    first = batch.specs[0]
    longest = max(map(estimate_seconds, batch.specs))
    return -longest, first.method, first.family, first.n, first.problem


def estimate_seconds(spec: Spec) -> float:
    """About how long a run takes, as its method says."""
    given = find_method(spec.method).seconds(spec)
    if not isinstance(given, Real) or not 0 <= given < math.inf:
        _refuse_method(spec.method, "says how many seconds a run takes", given)
    return float(given)


def _method_runs(name: str, sizes: tuple[int, ...], seeds: range) -> list[tuple[int, int]]:
    returned = find_method(name).runs(sizes, seeds)
    if not isinstance(returned, Iterable):
        _refuse_method(name, "names its runs", returned)
    pairs = list(returned)
    for pair in pairs:
        are_integers = isinstance(pair, tuple) and [type(part) for part in pair] == [int, int]
        if not are_integers or not 0 <= min(pair) <= max(pair) < 2**63:
            _refuse_method(name, "names its runs as pairs of n and seed", pair)
    return pairs


def _refuse_method(name: str, subject: str, given: object) -> NoReturn:
    raise UnknownNameError(f"a method {subject}", location=repr(name), value=f"gives {given!r}")
