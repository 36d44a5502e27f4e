"""Methods for tests, found by workers as ``toy:name``: quick, slow, broken and deadly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tessella.study.methods.method import Fit, Group, Problem
from tessella.study.record import Told
from tessella.study.spec import Spec


@dataclass(frozen=True)
class Toy:
    """Random actions, decided by the spec; after a pause."""

    title: str = "Toy"
    pause: float = 0.0
    group: Group = "boundary"
    edition: int = 1
    settings_given: tuple = ()

    def settings(self) -> dict[str, Any]:
        return dict(self.settings_given)

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(n, seed) for n in sizes for seed in seeds]

    def together(self, spec: Spec) -> tuple[str, int]:
        return spec.environment, spec.n

    def seconds(self, spec: Spec) -> float:
        return 0.01 + self.pause

    def fit(self, problem: Problem, specs: Sequence[Spec]) -> list[Fit]:
        time.sleep(self.pause)
        return [self._one(problem, spec) for spec in specs]

    def _one(self, problem: Problem, spec: Spec) -> Fit:
        mdp = problem.mdp
        actions = spec.generator("toy").integers(0, mdp.n_actions, mdp.n_states)
        return Fit(actions, spec.n, Told(labels=spec.n), 0.001)


@dataclass(frozen=True)
class Deadly(Toy):
    """Kills its worker on one seed of one size."""

    def _one(self, problem: Problem, spec: Spec) -> Fit:
        if spec.seed == 1 and spec.n == 200:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._one(problem, spec)


@dataclass(frozen=True)
class Broken(Toy):
    """Raises an error on one seed of one size."""

    def _one(self, problem: Problem, spec: Spec) -> Fit:
        if spec.seed == 1 and spec.n == 200:
            raise ValueError("this one cannot be learned")
        return super()._one(problem, spec)


@dataclass(frozen=True)
class Lacking(Toy):
    """Imports what is not there on one seed of one size."""

    def _one(self, problem: Problem, spec: Spec) -> Fit:
        if spec.seed == 1 and spec.n == 200:
            import_module("nosuch")
        return super()._one(problem, spec)


quick = Toy("Quick")
slow = Toy("Slow", pause=0.15)
deadly = Deadly("Deadly")
broken = Broken("Broken")
lacking = Lacking("Lacking")
