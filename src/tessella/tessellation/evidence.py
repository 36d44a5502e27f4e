"""What a structure test returns, and the lines along which it reads a policy.

``if monotone(t, "stock"):`` works, since evidence is true when the structure holds; when it does
not, each row of ``violations`` lists states that contradict it together, and ``describe`` names
the first row, in one line however many states and axes there are.

A line holds all states that agree on the other axes, by their position z: the value on the axis, or
the sum of the values on several (stock on hand plus in transit). Along one axis the positions of a
line differ; along a sum, states with one z form a group. Sums that differ by rounding are one z.
A text axis has no values; its positions are 0, 1, 2, ... as it lists them, and it is in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, counted
from tessella.grid import StateGrid
from tessella.tessellation.tessellate import Tessellation

LINE_MAX_CHARACTERS = 130  # characters; what does not fit is in ``violations``
NO_VIOLATIONS = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of one structure test."""

    tessellation: Tessellation = field(repr=False)  # what was tested
    # (m, k) flat indices; the k states of a row contradict each other if the structure holds.
    # Pairs, k = 2, unless the class states another number.
    violations: NDArray[np.int64] = field(repr=False)
    claim: str  # the structure in words: ``order falls in stock``
    # How a violation names its states, which have one action: ``{} and {} in separate cells``;
    # empty where their actions differ.
    wording: str = field(default="", repr=False, kw_only=True)

    @property
    def holds(self) -> bool:
        return len(self.violations) == 0

    def describe(self) -> str:
        """One line: the claim and, if it fails, how often and the first contradiction."""
        if self.holds:
            return _fit_to_line(f"{self.claim}: holds{self._describe_finding()}")
        n_violations, n_states = self.violations.shape
        count = f" in {counted(n_violations, 'place')}" if n_states == 2 else ""
        violation = self._describe_violation(self.violations[0])
        return _fit_to_line(f"{self.claim}: fails{count}; {violation}")

    def _describe_finding(self) -> str:
        """What follows the claim of a structure that holds."""
        return ""

    def _describe_violation(self, states: NDArray[np.int64]) -> str:
        """One contradiction in words."""
        t = self.tessellation
        if self.wording:
            places = self.wording.format(*map(t.grid.describe, states))
            return f"{t.action_of(states[0])} at {places}"
        return " but ".join(f"{t.action_of(s)} at {t.grid.describe(s)}" for s in states)

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return self.describe()


def require_numeric_actions(tessellation: Tessellation, subject: str) -> None:
    """Reject to read an order into actions that are names."""
    if tessellation.quantities is None:
        requirement = f"{subject} needs actions that are numbers: names have no order"
        raise ArgumentError(
            requirement, location=tessellation.action_name, value=f"has {tessellation.actions[0]!r}"
        )


def _fit_to_line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= LINE_MAX_CHARACTERS:
        return line
    return line[: LINE_MAX_CHARACTERS - 3].rsplit(" ", 1)[0] + " ..."


AxisOrSum = str | tuple[str, ...]
SUM_RELATIVE_ROUNDING = 64 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class GridLines:
    """The states of a grid, line by line. ``m`` states on each line."""

    name: str  # of the axis, or ``stock + transit``
    positions: NDArray[np.float64]  # (m,) z of each state of a line, ascending
    states: NDArray[np.int64]  # (shape of the other axes, m) flat indices
    group_starts: NDArray[np.int64]  # where in ``positions`` each group of equal z begins


def build_lines(grid: StateGrid, along: AxisOrSum) -> GridLines:
    """The lines along an axis, or along a sum of axes."""
    names = (along,) if isinstance(along, str) else require_sum_axes(grid, along)
    axes = [grid.axis(name) for name in names]
    position = grid.numbers[axes[0]]
    for axis in axes[1:]:
        position = np.add.outer(position, grid.numbers[axis])
    position = position.ravel()
    order = np.argsort(position, kind="stable")
    ascending = position[order]
    scale = sum(np.abs(grid.numbers[k]).max() for k in axes)
    tolerance = SUM_RELATIVE_ROUNDING * scale if len(axes) > 1 else 0.0
    starts = np.diff(ascending, prepend=-np.inf) > tolerance
    groups = np.flatnonzero(starts)
    snapped = ascending[groups][np.cumsum(starts) - 1]
    states = np.moveaxis(np.arange(grid.size).reshape(grid.shape), axes, range(-len(axes), 0))
    states = states.reshape(*states.shape[: grid.ndim - len(axes)], -1)[..., order]
    return GridLines(format_axes(names), snapped, states, groups)


def format_axes(along: AxisOrSum) -> str:
    """``stock + transit``."""
    return along if isinstance(along, str) else " + ".join(along)


def require_sum_axes(grid: StateGrid, names: Iterable[str]) -> tuple[str, ...]:
    """The axes of a sum, or an error that says what is wrong with them."""
    requirement = 'a sum names two or more axes of numbers, as in sums=[("stock", "transit")]'
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ArgumentError(requirement, value=f"got {names!r}")
    axes = tuple(names)
    if len(axes) < 2 or len(set(axes)) < len(axes):
        raise ArgumentError(requirement, value=f"got {axes!r}")
    for name in axes:
        if grid.values[grid.axis(name)].dtype.kind == "U":
            raise ArgumentError(requirement, location=name, value="holds text")
    return axes
