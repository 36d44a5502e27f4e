"""All structure tests on one tessellation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tessella.tessellation.dependence import (
    base_stock,
    independent,
    monotone,
    reorder_point,
    supports_ordering,
    threshold,
    through_sum,
)
from tessella.tessellation.evidence import AxisOrSum, Evidence, format_axes, require_sum_axes
from tessella.tessellation.regions import connected, convex, linear_index, linear_scores
from tessella.tessellation.tessellate import Tessellation, require_all_states, section


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
        return tuple(name for name, test in self.evidence.items() if test)

    def records(self) -> list[dict[str, Any]]:
        """For programs: the name of each test, whether the structure holds, and its description."""
        return [
            {"name": name, "holds": test.holds, "says": test.describe()}
            for name, test in self.evidence.items()
        ]

    def describe(self) -> str:
        """One line for each test, what holds before what fails."""
        ordered = sorted(self.evidence.values(), key=lambda test: not test.holds)
        return "\n".join(test.describe() for test in ordered)

    def __str__(self) -> str:
        return self.describe()


def examine(tessellation: Tessellation, sums: Iterable[tuple[str, ...]] = ()) -> Structure:
    """Run every test along every axis to which it applies.

    Axes on which the action does not depend are named first and left out of all other tests, whose
    evidence is then about the tessellation on the remaining axes. No test reads an order into
    actions that are names.

    Ordering up to a level makes the action fall with the axis, and with two actions is the same as
    falling; so those tests run where the action falls and there are more than two.

    Args:
        tessellation: of any number of axes.
        sums: axes whose sum may be what matters, such as ``[("stock", "transit")]``: whether the
            action depends on their sum alone, is monotone in it, and orders up to a level of it.

    Returns:
        The evidence of each test: true, or false with the states that contradict it.

    Raises:
        ArgumentError: a sum names fewer than two axes of numbers.

    Example:
        >>> t = ts.tessellate(ts.solve(ts.problem("machine_replacement").build()))
        >>> print(str(ts.examine(t)).splitlines()[0])
        replace rises in wear: holds
    """
    require_all_states("examine", tessellation)
    grid = tessellation.grid
    sums = [require_sum_axes(grid, names) for names in sums]
    by_axis = {axis: independent(tessellation, axis) for axis in grid.axes}
    unused = [axis for axis, is_independent in by_axis.items() if is_independent]
    evidence: dict[str, Evidence] = {f"independent of {axis}": by_axis[axis] for axis in unused}
    if len(unused) == grid.ndim:
        return Structure(evidence)
    # The section at their first values represents all of them.
    first_values = {axis: grid.values[grid.axis(axis)][0] for axis in unused}
    t = section(tessellation, **first_values) if unused else tessellation
    remaining_sums = [tuple(name for name in names if name in t.grid.axes) for names in sums]
    for along in [*t.grid.axes, *(names for names in remaining_sums if len(names) > 1)]:
        evidence |= _test_along(t, along)
    tests = {"connected": connected, "orthogonally convex": convex, "linear scores": linear_scores}
    if t.quantities is not None:
        tests["linear index"] = linear_index
    regions = {name: test(t) for name, test in tests.items()}
    return Structure(evidence | regions)


def _test_along(t: Tessellation, along: AxisOrSum) -> dict[str, Evidence]:
    """The tests along an axis, or a sum of axes, that apply to it."""
    where = format_axes(along)
    evidence: dict[str, Evidence] = {}
    if not isinstance(along, str):
        evidence[f"only by {where}"] = through_sum(t, along)
    if t.quantities is not None:
        evidence[f"monotone in {where}"] = monotone(t, along)
    if isinstance(along, str):
        evidence[f"threshold in {where}"] = threshold(t, along)
    if len(t.actions) > 2 and supports_ordering(t, along) and monotone(t, along, "falls"):
        evidence[f"base stock in {where}"] = base_stock(t, along)
        evidence[f"(s, S) in {where}"] = reorder_point(t, along)
    return evidence
