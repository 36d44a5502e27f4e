"""Methods for tests, found by workers as ``toy:name``: quick, slow, broken, deadly, careless."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from itertools import cycle
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.runner.methods.method import Fit, Instance, MethodGroup, UnknownNameError
from tessella.runner.record import InformationBudget, Spec


@dataclass(frozen=True)
class Toy:
    """Random actions, decided by the spec; after a pause."""

    title: str = "Toy"
    pause: float = 0.0
    group: MethodGroup = "boundary"
    edition: int = 1
    settings_given: tuple = ()

    def settings(self) -> dict[str, Any]:
        return dict(self.settings_given)

    def runs(self, sizes: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
        return [(n, seed) for n in sizes for seed in seeds]

    def batch_key(self, spec: Spec) -> tuple[str, int]:
        return spec.problem, spec.n

    def seconds(self, spec: Spec) -> float:
        return 0.01 + self.pause

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        time.sleep(self.pause)
        return [self._one(instance, spec) for spec in specs]

    def _one(self, instance: Instance, spec: Spec) -> Fit:
        mdp = instance.mdp
        actions = spec.generator("toy").integers(0, mdp.n_actions, mdp.n_states)
        policy = Policy.from_table(mdp.grid, mdp.actions, actions, size=spec.n)
        return Fit(policy, InformationBudget(labels=spec.n), 0.001)


@dataclass(frozen=True)
class Deadly(Toy):
    """Kills its worker on one seed of one size."""

    def _one(self, instance: Instance, spec: Spec) -> Fit:
        if spec.seed == 1 and spec.n == 200:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._one(instance, spec)


@dataclass(frozen=True)
class Broken(Toy):
    """Raises an error on one seed of one size."""

    def _one(self, instance: Instance, spec: Spec) -> Fit:
        if spec.seed == 1 and spec.n == 200:
            raise ValueError("this one cannot be learned")
        return super()._one(instance, spec)


@dataclass(frozen=True)
class Lacking(Toy):
    """Imports what is not there on one seed of one size."""

    def _one(self, instance: Instance, spec: Spec) -> Fit:
        if spec.seed == 1 and spec.n == 200:
            import_module("nosuch")
        return super()._one(instance, spec)


@dataclass(frozen=True)
class Patient(Toy):
    """Its small samples are quick; the others take until the study is stopped."""

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> list[Fit]:
        while specs[0].n > 200:
            time.sleep(0.05)
        return super().fit(instance, specs)

    def seconds(self, spec: Spec) -> float:
        return 1.0 / spec.n  # the quick ones first


quick = Toy("Quick")
patient = Patient("Patient")
slow = Toy("Slow", pause=0.15)
deadly = Deadly("Deadly")
broken = Broken("Broken")
lacking = Lacking("Lacking")


def trap() -> Any:
    """An object that fails however it is looked at."""

    class Trap:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("hands off")

    return Trap()


def tables(actions: NDArray, mdp: MDP) -> dict[str, Any]:
    """What is no policy of the model, by what is wrong with it."""
    return {
        "too short": actions[:-1],
        "of another shape": np.stack([actions, actions]),
        "a number": 0,
        "nothing": None,
        "text": ["0"] * mdp.n_states,
        "halves": actions + 0.5,
        "not numbers": np.full(mdp.n_states, np.nan),
        "ragged": [[0], [0, 1]],
        "below": np.where(np.arange(mdp.n_states) == 3, -1, actions),
        "above": np.where(np.arange(mdp.n_states) == 3, mdp.n_actions, actions),
        "huge": [2**70] * mdp.n_states,
        "a trap": trap(),
    }


def sized(fit: Fit, size: Any) -> Policy:
    """The same policy as a rule that says so of its size."""

    def rule(points: NDArray) -> NDArray:
        return fit.policy.act(points)

    rule.size = size  # type: ignore[attr-defined]
    return replace(fit.policy, rule=rule)


def garbage(fit: Fit, mdp: MDP) -> dict[str, Any]:
    """What a method may give back instead of ``fit``, by what is wrong with it."""
    counts = {"nothing": None, "2^70": 2**70, "negative": -1, "a half": 0.5, "nan": float("nan")}
    counts |= {"text": "7", "an array": np.arange(3), "true": True, "a trap": trap()}
    times = {"nothing": None, "nan": float("nan"), "inf": float("inf"), "negative": -1.0}
    times |= {"text": "1", "complex": 1j}
    return {
        "None for a fit": None,
        "a tuple for a fit": (fit.policy, fit.information, fit.seconds),
        "a trap for a fit": trap(),
        "information None": replace(fit, information=None),  # type: ignore[arg-type]
        "information a dict": replace(fit, information={"labels": 3}),  # type: ignore[arg-type]
        **{f"size {name}": replace(fit, policy=sized(fit, bad)) for name, bad in counts.items()},
        **{f"seconds {name}": replace(fit, seconds=bad) for name, bad in times.items()},
        **{
            f"policy {name}": replace(fit, policy=bad)
            for name, bad in tables(fit.policy.table.ravel(), mdp).items()
        },
        **{
            f"{part.name} {name}": replace(
                fit, information=replace(fit.information, **{part.name: bad})
            )
            for part in fields(InformationBudget)
            for name, bad in counts.items()
        },
    }


@dataclass(frozen=True)
class Careless(Toy):
    """Gives garbage back, of another kind on each seed but the first."""

    def _one(self, instance: Instance, spec: Spec) -> Fit:
        fit = super()._one(instance, spec)
        return [fit, *garbage(fit, instance.mdp).values()][spec.seed]


class Unspeakable(Exception):  # noqa: N818
    """An error that can neither be put in words nor sent to another process."""

    def __init__(self, lock: Any) -> None:
        super().__init__(lock)

    def __str__(self) -> str:
        raise RuntimeError("no words")


def absent() -> None:
    from tessella import nothing_of_that_name  # noqa: F401  # type: ignore[attr-defined]


def raised(error: BaseException) -> None:
    raise error


WILD = (
    lambda: None,
    lambda: raised(Unspeakable(Lock())),
    lambda: raised(SystemExit(3)),
    lambda: raised(KeyboardInterrupt()),
    lambda: raised(ValueError("half a pair \ud800, and [/b] no markup")),
    lambda: raised(ValueError("long" * 10_000)),
    lambda: raised(UnknownNameError("no method is called 'x'")),
    absent,
)


@dataclass(frozen=True)
class Wild(Toy):
    """Raises whatever can be raised, something else on each seed but the first."""

    def _one(self, instance: Instance, spec: Spec) -> Fit:
        WILD[spec.seed]()
        return super()._one(instance, spec)


@dataclass(frozen=True)
class Miscounting(Toy):
    """Gives back something other than one fit for each run."""

    gives: str = "fewer"

    def fit(self, instance: Instance, specs: Sequence[Spec]) -> Any:
        fits = super().fit(instance, specs)
        return {"fewer": fits[:-1], "more": cycle(fits), "nothing": None}[self.gives]


careless = Careless("Careless [/b]")
wild = Wild("Wild")
fewer = Miscounting("Fewer", gives="fewer")
more = Miscounting("More", gives="more")
nothing = Miscounting("Nothing", gives="nothing")
