"""Structure in the dependence of actions on the axes: monotone, thresholds, and order policies.

    independent   pi(s) = pi(s + e_k) for all neighbours along axis k: no face lies across it
    through sum   pi is a function of x_i + x_j + ... and of the axes that are not in the sum
    monotone      z(s) < z(s') implies r(pi(s)) <= r(pi(s')), or >=, on every line
    threshold     there is one order of the actions such that on every line along the axis the
                  policy runs through some of them in that order, each on one interval

Along an axis on which the action does not depend, it is constant: it rises, falls and has
thresholds only in that trivial sense.

With r the order of the actions and z the position on a line (see `GridLines`), next groups are
enough for monotonicity: with g and g' two groups of equal z that follow each other, the action
rises when max r over g <= min r over g', since then max g <= min g' <= max g' <= min g'' and so on.
States of one z are not compared.

For thresholds, draw an arrow a -> b for every face across the axis from action a to action b. If
the arrows have no cycle, a topological order of them is such an order; a line that breaks the form,
or two lines that disagree, close a cycle. So the test is whether a graph of at most A nodes has a
cycle. A monotone policy is the special case where the natural order of the actions will do.

Along a stock axis with levels x and order quantities a, let a- be the next smaller quantity. A
policy orders up to S in batches if it takes the smallest quantity that reaches S, or the largest
one if none does: S <= x + a unless a is the largest, and x + a- < S unless a is the smallest. Each
state thus confines S to an interval (above, at_most]; the form holds on a line when they meet.

    base stock   every state of a line agrees on one S
    (s, S)       no order where x >= s; below s, all states agree on one S

x is the value on an axis or a sum of several, such as stock on hand plus in transit; a line holds
the states that agree on the other axes (see `GridLines`). S and s may differ from line to line.
With quantities 0, 1, 2, ... S is a single integer; with batches of Q, an interval of length Q. (The
reading "the largest quantity that stays within S" is the same form with S moved by less than one
batch.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, format_value
from tessella.tessellation.evidence import (
    NO_VIOLATIONS,
    AxisOrSum,
    Evidence,
    GridLines,
    build_lines,
    format_axes,
    require_numeric_actions,
)
from tessella.tessellation.tessellate import Tessellation, require_all_states


def independent(tessellation: Tessellation, axis: str) -> Evidence:
    """Test whether the action is the same all along ``axis``.

    Violations are neighbours that differ.
    """
    require_all_states("independent", tessellation)
    faces = tessellation.face_states(tessellation.grid.axis(axis))
    return Evidence(tessellation, faces, f"{tessellation.action_name} does not depend on {axis}")


def through_sum(tessellation: Tessellation, axes: tuple[str, ...]) -> Evidence:
    """Test whether the action depends on ``axes`` through their sum alone.

    Violations have one sum and act differently.
    """
    require_all_states("through_sum", tessellation)
    grid_lines = build_lines(tessellation.grid, tuple(axes))
    starts = grid_lines.group_starts
    first = np.repeat(starts, np.diff(starts, append=len(grid_lines.positions)))
    flat = tessellation.table.ravel()
    differs = np.nonzero(flat[grid_lines.states] != flat[grid_lines.states[..., first]])
    pairs = np.stack([grid_lines.states[..., first][differs], grid_lines.states[differs]], axis=-1)
    *most, last = axes
    named = f"{', '.join(most)} and {last}"
    claim = f"{tessellation.action_name} depends on {named} only by {grid_lines.name}"
    return Evidence(tessellation, pairs[np.argsort(pairs[:, 0], kind="stable")], claim)


Direction = Literal["rises", "falls"]


@dataclass(frozen=True, eq=False)
class Monotone(Evidence):
    """Whether the action rises (or falls) in an axis; violations are neighbours, lower z first."""

    axis: str  # the axis, or the sum of axes as ``stock + transit``
    # "rises" or "falls", both in the weak sense; "stays" where no state of a line acts differently
    # from another, whatever the argument.
    direction: Literal["rises", "falls", "stays"]


def monotone(
    tessellation: Tessellation, axis: AxisOrSum, direction: Direction | None = None
) -> Monotone:
    """Test monotonicity along an axis, or a sum of axes given as a tuple of their names.

    Actions must be numbers. Without a direction, the one that has fewer violations is tested.
    """
    require_all_states("monotone", tessellation)
    if direction not in (None, *get_args(Direction)):
        raise ArgumentError(
            "an action rises or falls", location="direction", value=f"is {direction!r}"
        )
    require_numeric_actions(tessellation, "monotonicity")
    grid_lines = build_lines(tessellation.grid, axis)
    name = grid_lines.name
    action = tessellation.action_name
    rank = tessellation.ranks[tessellation.table.ravel()[grid_lines.states]]
    if (rank == rank[..., :1]).all():
        claim = f"{action} does not depend on {name}"
        return Monotone(tessellation, NO_VIOLATIONS, claim, name, "stays")
    # Falling ranks are rising ranks counted from the other end.
    rising = {"rises": rank, "falls": rank.max() - rank}
    tested = get_args(Direction) if direction is None else (direction,)
    violations = {candidate: _find_drops(grid_lines, rising[candidate]) for candidate in tested}
    chosen = min(tested, key=lambda candidate: len(violations[candidate]))
    claim = f"{action} {chosen} in {name}"
    return Monotone(tessellation, violations[chosen], claim, name, chosen)


def _find_drops(grid_lines: GridLines, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n, 2) states of next groups whose ranks fall: a highest one, and a lowest one after it."""
    m = len(grid_lines.positions)
    position = np.arange(m)
    # Rank and position in one number, so that an extreme gives its first position too.
    highest = np.maximum.reduceat(rank * m + (m - 1 - position), grid_lines.group_starts, axis=-1)
    lowest = np.minimum.reduceat(rank * m + position, grid_lines.group_starts, axis=-1)
    drop = np.nonzero(highest[..., :-1] // m > lowest[..., 1:] // m)
    places = m - 1 - highest[..., :-1][drop] % m, lowest[..., 1:][drop] % m
    pairs = np.stack([grid_lines.states[(*drop[:-1], place)] for place in places], axis=-1)
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


@dataclass(frozen=True, eq=False)
class Threshold(Evidence):
    """Whether the policy has threshold form; the violation is one cycle of faces, (1, 2 faces)."""

    axis: str
    # Indices of the actions in use, in the order along the axis; empty if there is none.
    order: tuple[int, ...]

    def _describe_violation(self, states: NDArray[np.int64]) -> str:
        t = self.tessellation
        pairs = states.reshape(-1, 2)
        first = "; ".join(
            f"{t.actions[t.table.flat[s]]} to {t.actions[t.table.flat[u]]} after "
            f"{t.grid.describe(s)}"
            for s, u in pairs[:2]
        )
        return first + (f"; and {len(pairs) - 2} more" if len(pairs) > 2 else "")


def threshold(tessellation: Tessellation, axis: str) -> Threshold:
    """Test threshold form along ``axis``."""
    require_all_states("threshold", tessellation)
    pairs = tessellation.face_states(tessellation.grid.axis(axis))
    arrows = tessellation.table.ravel()[pairs]
    distinct, first = np.unique(arrows, axis=0, return_index=True)
    by_rank = sorted(np.unique(tessellation.cell_actions), key=lambda a: tessellation.ranks[a])
    graph = {int(a): [int(p) for p, q in distinct if q == a] for a in by_rank}
    claim = f"{tessellation.action_name} switches at thresholds in {axis}"
    try:
        order = tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = error.args[1]
        face_index = {(int(p), int(q)): i for (p, q), i in zip(distinct, first, strict=True)}
        steps = [face_index[step] for step in pairwise(cycle)]
        return Threshold(tessellation, pairs[steps].reshape(1, -1), claim, axis, ())
    return Threshold(tessellation, NO_VIOLATIONS, claim, axis, order)


@dataclass(frozen=True, eq=False)
class LevelBounds:
    """For each line, the values v with above < v <= at_most; arrays of the other axes' shape.

    An end that no state confines is infinite.
    """

    above: NDArray[np.float64]
    at_most: NDArray[np.float64]

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        return np.asarray(self.above >= self.at_most)


@dataclass(frozen=True, eq=False)
class BaseStock(Evidence):
    """Whether each line orders up to one level; violations are two states that disagree on S."""

    axis: str  # the stock axis, or a sum of axes as ``stock + transit``
    level: LevelBounds = field(repr=False)  # the possible S of each line


@dataclass(frozen=True, eq=False)
class ReorderPoint(Evidence):
    """Whether each line has (s, S) form; violations are two states that disagree on s or on S."""

    axis: str  # the stock axis, or a sum of axes as ``stock + transit``
    point: LevelBounds = field(repr=False)  # the possible s of each line
    level: LevelBounds = field(repr=False)  # the possible S of each line

    def _describe_finding(self) -> str:
        """The highest stock at which an order is placed, and the largest S; of all lines."""
        point = _format_range(self.point.above)
        level = _format_range(self.level.at_most)
        if not (point and level):
            return ""
        return f", s = {point} (orders where {self.axis} is at most s), S = {level}"


def _format_range(numbers: NDArray) -> str:
    """``14``, or ``3 to 14`` where lines differ; empty where no line has one."""
    finite = np.unique(numbers[np.isfinite(numbers)]).tolist()
    return " to ".join(map(format_value, dict.fromkeys([*finite[:1], *finite[-1:]])))


def base_stock(tessellation: Tessellation, axis: AxisOrSum) -> BaseStock:
    """Test base-stock form along an axis, or a sum of axes given as a tuple of their names.

    Actions and axes must be numbers.
    """
    require_all_states("base_stock", tessellation)
    grid_lines, low, high = _bound_levels(tessellation, axis)
    level, clashes = _intersect_bounds(grid_lines, low, high)
    claim = f"{tessellation.action_name} is base-stock in {grid_lines.name}"
    return BaseStock(tessellation, clashes, claim, grid_lines.name, level)


def reorder_point(tessellation: Tessellation, axis: AxisOrSum) -> ReorderPoint:
    """Test (s, S) form along an axis, or a sum of axes given as a tuple of their names.

    Actions and axes must be numbers. The smallest action counts as not ordering.
    """
    require_all_states("reorder_point", tessellation)
    grid_lines, low, high = _bound_levels(tessellation, axis)
    orders = np.isfinite(low)
    stock = grid_lines.positions
    point, early_clashes = _intersect_bounds(
        grid_lines, np.where(orders, stock, -np.inf), np.where(orders, np.inf, stock)
    )
    level, clashes = _intersect_bounds(grid_lines, low, np.where(orders, high, np.inf))
    violations = np.concatenate([early_clashes, clashes])
    claim = f"{tessellation.action_name} is (s, S) in {grid_lines.name}"
    return ReorderPoint(tessellation, violations, claim, grid_lines.name, point, level)


def supports_ordering(tessellation: Tessellation, axis: AxisOrSum) -> bool:
    """Whether order quantities and levels exist: actions and axes are numbers."""
    grid = tessellation.grid
    values = [grid.values[grid.axis(n)] for n in ((axis,) if isinstance(axis, str) else axis)]
    return tessellation.quantities is not None and all(v.dtype.kind in "iuf" for v in values)


def _bound_levels(
    tessellation: Tessellation, axis: AxisOrSum
) -> tuple[GridLines, NDArray, NDArray]:
    """Lines, and for each of their states what S must exceed and what it may be at most."""
    if not supports_ordering(tessellation, axis):
        along = format_axes(axis)
        raise ArgumentError(f"ordering along {along!r} needs numbers, on the axis and as actions")
    grid_lines = build_lines(tessellation.grid, axis)
    quantity = np.asarray(tessellation.quantities)
    ordered = np.sort(quantity)
    rank = np.searchsorted(ordered, quantity)
    smaller = np.concatenate([[-np.inf], ordered[:-1]])[rank]
    reachable = np.where(quantity == ordered[-1], np.inf, quantity)
    action = tessellation.table.ravel()[grid_lines.states]
    stock = grid_lines.positions
    return grid_lines, stock + smaller[action], stock + reachable[action]


def _intersect_bounds(
    grid_lines: GridLines, low: NDArray, high: NDArray
) -> tuple[LevelBounds, NDArray]:
    """The levels that all states of each line allow; two clashing states of lines with none."""
    bounds = LevelBounds(np.asarray(low.max(axis=-1)), np.asarray(high.min(axis=-1)))
    clashing = np.stack([low.argmax(axis=-1), high.argmin(axis=-1)], axis=-1)
    clashes = np.take_along_axis(grid_lines.states, clashing, axis=-1)
    return bounds, clashes[bounds.is_empty].reshape(-1, 2)
