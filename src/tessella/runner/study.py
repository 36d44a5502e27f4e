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
from tessella.runner.measure import measure_by_name, register_measure
from tessella.runner.methods import by_name, register_method
from tessella.runner.names import UnknownNameError
from tessella.runner.spec import Spec

RUNS = 1_000_000  # of one study: their specs are held in memory
LARGEST = 10**9  # labels, or updates; a hundred times that, as a reference has it, can be stored


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
    carried: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = [*map(_listed, (self.problems, self.methods, self.measures))]
        objects = [thing for things in given for thing in things if not isinstance(thing, str)]
        object.__setattr__(self, "carried", tuple(objects))
        known = (_problem_name, _method_name, _measure_name)
        names = [
            tuple(dict.fromkeys(map(name_of, things)))
            for name_of, things in zip(known, given, strict=True)
        ]
        # In one order, each once: the same study however it was asked for.
        for attribute, value in zip(("problems", "methods", "measures"), names, strict=True):
            object.__setattr__(self, attribute, value)
        object.__setattr__(self, "problems", _in_order(self.problems))
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
        if max(self.sizes) > LARGEST:
            raise StudyError(f"sample sizes end at {LARGEST:,}; got {max(self.sizes):,}")
        if not self.problems or not self.methods:
            raise StudyError("a study needs at least one problem and one method")
        counts = self.seeds, len(self.sizes), len(self.methods), len(self.problems)
        if math.prod(counts) > RUNS:
            each = "{:,} seeds, {} sizes, {} methods and {} problems".format(*counts)
            raise StudyError(f"a study has at most {RUNS:,} runs; {each} are more")

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
                by_name(method).settings(),
                by_name(method).edition,
                n,
                seed,
                self.measures,
            )
            for name, model in {name: problem(name).identity() for name in self.problems}.items()
            for method in self.methods
            for n, seed in _runs(method, self.sizes, seeds)
        )


def _listed(things: Any) -> tuple[Any, ...]:
    """One thing may stand for a list of one."""
    return tuple(things) if isinstance(things, list | tuple) else (things,)


def _problem_name(thing: Any) -> str:
    if isinstance(thing, str):
        found = problem(thing)
        return thing if ":" in thing else found.name
    return register(thing).name


def _method_name(thing: Any) -> str:
    return thing if isinstance(thing, str) else register_method(thing)


def _measure_name(thing: Any) -> str:
    if not isinstance(thing, str):
        return register_measure(thing)
    measure_by_name(thing)
    return thing


def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the registry in its order, then the others."""
    there = [known.name for known in all_problems()]
    return tuple(sorted(names, key=lambda n: there.index(n) if n in there else len(there)))


@dataclass(frozen=True, eq=False)
class Batch:
    """Specs that train together, in one task of a worker."""

    specs: tuple[Spec, ...]

    @property
    def name(self) -> str:
        first = self.specs[0]
        return f"{first.method}-{first.environment}-{first.n}-{first.key[:8]}"

    def apart(self) -> list[Batch]:
        """The same specs, each alone."""
        return [Batch((spec,)) for spec in self.specs]


def batches(specs: Iterable[Spec]) -> list[Batch]:
    """``specs`` grouped by what trains together, the longest runs first."""
    groups: dict[tuple, list[Spec]] = defaultdict(list)
    for spec in specs:
        together = by_name(spec.method).together(spec)
        try:
            hash(together)
        except TypeError:
            _refuse(spec.method, "says what trains together by something hashable", together)
        groups[spec.method, spec.dynamics, together].append(spec)
    return sorted((Batch(tuple(group)) for group in groups.values()), key=_order)


def _order(batch: Batch) -> tuple:
    first = batch.specs[0]
    longest = max(map(seconds, batch.specs))
    return -longest, first.method, first.family, first.n, first.environment


def seconds(spec: Spec) -> float:
    """About how long a run takes, as its method says."""
    given = by_name(spec.method).seconds(spec)
    if not isinstance(given, Real) or not 0 <= given < math.inf:
        _refuse(spec.method, "says how many seconds a run takes", given)
    return float(given)


def _runs(name: str, sizes: tuple[int, ...], seeds: range) -> list[tuple[int, int]]:
    given = by_name(name).runs(sizes, seeds)
    if not isinstance(given, Iterable):
        _refuse(name, "names its runs", given)
    pairs = list(given)
    for pair in pairs:
        whole = isinstance(pair, tuple) and [type(part) for part in pair] == [int, int]
        if not whole or not 0 <= min(pair) <= max(pair) < 2**63:
            _refuse(name, "names its runs as pairs of n and seed", pair)
    return pairs


def _refuse(name: str, what: str, given: object) -> NoReturn:
    raise UnknownNameError(f"a method {what}", place=repr(name), value=f"gives {given!r}")
