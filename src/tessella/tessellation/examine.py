"""All structure tests on one tessellation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tessella.tessellation.evidence import Evidence
from tessella.tessellation.linear import linear_index, linear_scores
from tessella.tessellation.monotone import monotone
from tessella.tessellation.orders import base_stock, reorder_point, takes_orders
from tessella.tessellation.regions import connected, convex
from tessella.tessellation.tessellate import Tessellation
from tessella.tessellation.threshold import threshold


@dataclass(frozen=True, eq=False)
class Structure:
    """Which structures a policy has.

    Attributes:
        evidence: name of the test, with its axis where it has one, to what it found; for example
            ``monotone in stock`` or ``connected``.
    """

    evidence: Mapping[str, Evidence]

    @property
    def holds(self) -> tuple[str, ...]:
        """Names of the structures that are there."""
        return tuple(name for name, found in self.evidence.items() if found)

    def describe(self) -> str:
        """One line for each test."""
        return "\n".join(found.describe() for found in self.evidence.values())

    def __str__(self) -> str:
        return self.describe()


def examine(tessellation: Tessellation) -> Structure:
    """Run every test, along every axis where it can say something.

    Ordering up to a level makes the action fall with the axis, and with two actions is the same as
    falling; so those tests run where the action falls and there are more than two.
    """
    along = {"monotone": monotone, "threshold": threshold}
    ordering = {"base stock": base_stock, "(s, S)": reorder_point}
    whole = {
        "connected": connected,
        "convex": convex,
        "linear scores": linear_scores,
        "linear index": linear_index,
    }
    evidence = {}
    for axis in tessellation.grid.axes:
        tests = along | (ordering if _may_order(tessellation, axis) else {})
        evidence |= {f"{name} in {axis}": test(tessellation, axis) for name, test in tests.items()}
    evidence |= {name: test(tessellation) for name, test in whole.items()}
    return Structure(evidence)


def _may_order(tessellation: Tessellation, axis: str) -> bool:
    return (
        len(tessellation.actions) > 2
        and takes_orders(tessellation, axis)
        and monotone(tessellation, axis, "falls").holds
    )
