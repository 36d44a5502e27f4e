"""The paper's eleven environments, by label or full name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tessella.errors import ArgumentError
from tessella.mdp.model import MDP
from tessella.problems.inventory import inventory
from tessella.problems.queue_admission import queue_admission


@dataclass(frozen=True)
class Benchmark:
    """One row of the paper's environment table: what differs from the family's defaults."""

    label: str
    full_name: str
    family: str
    make: Callable[..., MDP]
    settings: dict[str, Any] = field(default_factory=dict)

    def build(self) -> MDP:
        return self.make(**self.settings, name=self.label)


def _inv(label: str, full_name: str, **settings: Any) -> Benchmark:
    return Benchmark(label, full_name, "inventory", inventory, settings)


def _que(label: str, full_name: str, **settings: Any) -> Benchmark:
    return Benchmark(label, full_name, "queue", queue_admission, settings)


BENCHMARKS = {
    b.label: b
    for b in (
        _inv("INV-Mix", "Inventory-Mixed-0.45"),
        _inv("INV-Lin", "Inventory-Linear-0.45", nonlinearity="linear", strength=0.0),
        _inv("INV-N0", "Inventory-Mixed-0.00", observation_noise=0.0),
        _inv("INV-NH", "Inventory-Mixed-0.80", observation_noise=0.8),
        _inv("INV-Sin", "Inventory-Sinusoidal-0.45", nonlinearity="sinusoidal"),
        _inv("INV-Quad", "Inventory-Quadratic-0.45", nonlinearity="quadratic"),
        _inv("INV-Hard", "Inventory-Hard-0.45", nonlinearity="hard", strength=1.2),
        _que("QUE-Mix", "Queue-Mixed-0.25"),
        _que("QUE-Lin", "Queue-Linear-0.25", nonlinearity="linear"),
        _que("QUE-Burst", "Queue-Bursty-0.25", nonlinearity="bursty"),
        _que("QUE-N0", "Queue-Mixed-0.00", observation_noise=0.0),
    )
}


def benchmark(label: str) -> MDP:
    """One of the paper's environments: ``benchmark("INV-Mix")``, or by its full name."""
    for known in BENCHMARKS.values():
        if label in (known.label, known.full_name):
            return known.build()
    there = f"there are {', '.join(BENCHMARKS)}"
    raise ArgumentError(f"no benchmark is called {label!r}", value=there)
