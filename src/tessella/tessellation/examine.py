"""All structure tests on one tessellation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tessella.errors import expect
from tessella.tessellation.dependence import independent, through_sum
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.linear import linear_index, linear_scores
from tessella.tessellation.lines import Along, checked_sum, name_of
from tessella.tessellation.monotone import monotone
from tessella.tessellation.orders import base_stock, reorder_point, takes_orders
from tessella.tessellation.regions import connected, convex
from tessella.tessellation.tessellate import Tessellation
from tessella.tessellation.threshold import threshold
from tessella.tessellation.window import without


@dataclass(frozen=True, eq=False)
class Structure:
    """Which structures a policy has.

    Attributes:
        evidence: name of the test, with its axis where it has one, to what it found; for example
            ``independent of regime``, ``monotone in stock`` or ``connected``.
    """

    evidence: Mapping[str, Evidence]

    @property
    def holds(self) -> tuple[str, ...]:
        """Names of the structures that are there."""
        return tuple(name for name, found in self.evidence.items() if found)

    def describe(self) -> str:
        """One line for each test, what holds before what fails."""
        ordered = sorted(self.evidence.values(), key=lambda found: not found.holds)
        return "\n".join(found.describe() for found in ordered)

    def __str__(self) -> str:
        return self.describe()


def examine(tessellation: Tessellation, sums: Iterable[tuple[str, ...]] = ()) -> Structure:
    """Run every test, along every axis where it can say something.

    Axes on which the action does not depend are named first and left out of all other tests, whose
    evidence is then about the tessellation on the remaining axes. No test reads an order into
    actions that are names.

    Ordering up to a level makes the action fall with the axis, and with two actions is the same as
    falling; so those tests run where the action falls and there are more than two.

    Args:
        sums: axes whose sum may be what matters, such as ``[("stock", "transit")]``: whether the
            action depends on their sum alone, is monotone in it, and orders up to a level of it.
    """
    expect("examine", tessellation, Tessellation)
    grid = tessellation.grid
    sums = [checked_sum(grid, names) for names in sums]
    unused = [axis for axis in grid.axes if independent(tessellation, axis)]
    evidence: dict[str, Evidence] = {
        f"independent of {axis}": independent(tessellation, axis) for axis in unused
    }
    if len(unused) == grid.ndim:
        return Structure(evidence)
    t = without(tessellation, *unused) if unused else tessellation
    for axis in t.grid.axes:
        evidence |= _along(t, axis) | {f"threshold in {axis}": threshold(t, axis)}
        evidence |= _ordering(t, axis)
    for names in sums:
        left = tuple(name for name in names if name not in unused)
        if len(left) > 1:
            evidence |= {f"only by {name_of(left)}": through_sum(t, left)}
            evidence |= _along(t, left) | _ordering(t, left)
    return Structure(evidence | _whole(t))


def _along(t: Tessellation, along: Along) -> dict[str, Evidence]:
    named = t.quantities is None
    return {} if named else {f"monotone in {name_of(along)}": monotone(t, along)}


def _ordering(t: Tessellation, along: Along) -> dict[str, Evidence]:
    if len(t.actions) <= 2 or not takes_orders(t, along) or not monotone(t, along, "falls"):
        return {}
    where = name_of(along)
    return {
        f"base stock in {where}": base_stock(t, along),
        f"(s, S) in {where}": reorder_point(t, along),
    }


def _whole(t: Tessellation) -> dict[str, Evidence]:
    tests = {"connected": connected, "orthogonally convex": convex, "linear scores": linear_scores}
    if t.quantities is not None:
        tests["linear index"] = linear_index
    return {name: test(t) for name, test in tests.items()}
