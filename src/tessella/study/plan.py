"""The plan of a study: its runs, and the batches in which they train.

The dearest batches come first, so that the workers finish together, and those that share compiled
code follow each other. What a method says about its own runs is checked here, before any work.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from operator import index
from typing import NoReturn

from tessella.errors import ModelError
from tessella.problems.benchmarks import BENCHMARKS
from tessella.study.methods import UnknownMethodError, by_name, known
from tessella.study.published import SEEDS, SIZES
from tessella.study.spec import Spec

RUNS = 1_000_000  # of one study: their specs are held in memory
LARGEST = 10**9  # labels, or updates; a hundred times that, as a reference has it, can be stored


@dataclass(frozen=True)
class Study:
    """What to run: every combination of these. The defaults are the paper's, with references.

    Args:
        environments: labels of benchmarks.
        methods: names, or ``module:attribute``; None means all that are known.
        sizes: labels, or updates, given to a method.
        seeds: how many repetitions; their seeds are 0, 1, ...
    """

    environments: tuple[str, ...] = tuple(BENCHMARKS)
    methods: tuple[str, ...] | None = None
    sizes: tuple[int, ...] = SIZES
    seeds: int = SEEDS

    def __post_init__(self) -> None:
        unknown = [label for label in self.environments if label not in BENCHMARKS]
        if unknown:
            raise ModelError(
                f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}"
            )
        try:
            object.__setattr__(self, "sizes", tuple(map(index, self.sizes)))
            object.__setattr__(self, "seeds", index(self.seeds))
        except TypeError:
            given = f"got {self.seeds!r} and {self.sizes!r}"
            raise ModelError("seeds and sample sizes are whole numbers", "", given) from None
        # In one order, each once: the same study however it was asked for.
        asked = set(self.environments)
        object.__setattr__(self, "environments", tuple(e for e in BENCHMARKS if e in asked))
        object.__setattr__(self, "sizes", tuple(sorted(set(self.sizes))))
        if self.methods is not None:
            object.__setattr__(self, "methods", tuple(dict.fromkeys(self.methods)))
        if self.seeds < 1:
            raise ModelError(f"a study needs at least one seed; got {self.seeds}")
        if not self.sizes or min(self.sizes) < 1:
            raise ModelError(f"sample sizes must be positive; got {list(self.sizes)}")
        if max(self.sizes) > LARGEST:
            raise ModelError(f"sample sizes end at {LARGEST:,}; got {max(self.sizes):,}")
        if not self.environments or self.methods == ():
            raise ModelError("a study needs at least one environment and one method")
        counts = self.seeds, len(self.sizes), len(self.names), len(self.environments)
        if math.prod(counts) > RUNS:
            each = "{:,} seeds, {} sizes, {} methods and {} environments".format(*counts)
            raise ModelError(f"a study has at most {RUNS:,} runs; {each} are more")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The methods' names."""
        return tuple(known()) if self.methods is None else self.methods

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """Every run, once."""
        seeds = range(self.seeds)
        return tuple(
            Spec(
                label,
                BENCHMARKS[label].family,
                model,
                name,
                by_name(name).settings(),
                by_name(name).edition,
                n,
                seed,
            )
            for label, model in self._models.items()
            for name in self.names
            for n, seed in _runs(name, self.sizes, seeds)
        )

    @property
    def _models(self) -> dict[str, dict]:
        return {e: BENCHMARKS[e].identity() for e in self.environments}


@dataclass(frozen=True, eq=False)
class Batch:
    """Specs that train together, in one task of the sweep."""

    specs: tuple[Spec, ...]

    @property
    def name(self) -> str:
        first = self.specs[0]
        return f"{first.method}-{first.environment}-{first.n}-{first.key[:8]}"

    def apart(self) -> list[Batch]:
        """The same specs, each alone."""
        return [Batch((spec,)) for spec in self.specs]


def batches(specs: Iterable[Spec]) -> list[Batch]:
    """``specs`` grouped by what trains together, the dearest group of methods and sizes first."""
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
    dearest = max(map(seconds, batch.specs))
    return -dearest, first.method, first.family, first.n, first.environment


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
    raise UnknownMethodError(f"a method {what}", repr(name), f"gives {given!r}")
