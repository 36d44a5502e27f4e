"""The paper's eleven problems, by label or full name: what differs from the family's defaults.

The label is a problem's name and the full name its alias.
"""

from __future__ import annotations

from typing import Any

from tessella.errors import ArgumentError
from tessella.mdp.model import MDP
from tessella.problems.admission import queue_admission
from tessella.problems.inventory import inventory
from tessella.problems.problem import Problem


def _inv(label: str, full_name: str, bends: str, **settings: Any) -> Problem:
    title = f"Inventory control, {bends}"
    return inventory.variant(label, title, aliases=(full_name,), **settings)


def _que(label: str, full_name: str, bends: str, **settings: Any) -> Problem:
    title = f"Admission to a queue, {bends}"
    return queue_admission.variant(label, title, aliases=(full_name,), **settings)


_MEMBERS = (
    _inv("INV-Mix", "Inventory-Mixed-0.45", "mixed demand"),
    _inv("INV-Lin", "Inventory-Linear-0.45", "linear demand", nonlinearity="linear", strength=0.0),
    _inv(
        "INV-N0",
        "Inventory-Mixed-0.00",
        "mixed demand, no observation noise",
        observation_noise=0.0,
    ),
    _inv(
        "INV-NH",
        "Inventory-Mixed-0.80",
        "mixed demand, high observation noise",
        observation_noise=0.8,
    ),
    _inv("INV-Sin", "Inventory-Sinusoidal-0.45", "sinusoidal demand", nonlinearity="sinusoidal"),
    _inv("INV-Quad", "Inventory-Quadratic-0.45", "quadratic demand", nonlinearity="quadratic"),
    _inv(
        "INV-Hard", "Inventory-Hard-0.45", "a hard mix of demand", nonlinearity="hard", strength=1.2
    ),
    _que("QUE-Mix", "Queue-Mixed-0.25", "mixed arrivals"),
    _que("QUE-Lin", "Queue-Linear-0.25", "linear arrivals", nonlinearity="linear"),
    _que("QUE-Burst", "Queue-Bursty-0.25", "bursty arrivals", nonlinearity="bursty"),
    _que(
        "QUE-N0", "Queue-Mixed-0.00", "mixed arrivals, no observation noise", observation_noise=0.0
    ),
)
BENCHMARKS = {known.name: known for known in _MEMBERS}


def benchmark(label: str) -> MDP:
    """One of the paper's problems: ``benchmark("INV-Mix")``, or by its full name."""
    for known in BENCHMARKS.values():
        if label in (known.name, *known.aliases):
            return known.build()
    there = f"there are {', '.join(BENCHMARKS)}"
    raise ArgumentError(f"no benchmark is called {label!r}", value=there)
