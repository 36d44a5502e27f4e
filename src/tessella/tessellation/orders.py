"""Base-stock and (s, S) form: does the policy order up to a level?

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

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_type
from tessella.tessellation.evidence import Along, Evidence, GridLines, build_lines, format_axes
from tessella.tessellation.tessellate import Tessellation


@dataclass(frozen=True, eq=False)
class LevelBounds:
    """For each line, the values v with above < v <= at_most; arrays of the other axes' shape.

    An end that no state confines is infinite.
    """

    above: NDArray[np.float64]
    at_most: NDArray[np.float64]

    @property
    def empty(self) -> NDArray[np.bool_]:
        return np.asarray(self.above >= self.at_most)


@dataclass(frozen=True, eq=False)
class BaseStock(Evidence):
    """Whether each line orders up to one level; violations are two states that disagree on S.

    Attributes:
        axis: the stock axis, or a sum of axes as ``stock + transit``.
        level: the possible S of each line.
    """

    axis: str
    level: LevelBounds = field(repr=False)

    @property
    def claim(self) -> str:
        return f"{self.tessellation.action_name} is base-stock in {self.axis}"


@dataclass(frozen=True, eq=False)
class ReorderPoint(Evidence):
    """Whether each line has (s, S) form; violations are two states that disagree on s or on S.

    Attributes:
        axis: the stock axis, or a sum of axes as ``stock + transit``.
        point: the possible s of each line.
        level: the possible S of each line.
    """

    axis: str
    point: LevelBounds = field(repr=False)
    level: LevelBounds = field(repr=False)

    @property
    def claim(self) -> str:
        return f"{self.tessellation.action_name} is (s, S) in {self.axis}"


def base_stock(tessellation: Tessellation, axis: Along) -> BaseStock:
    """Test base-stock form along an axis, or a sum of axes given as a tuple of their names.

    Actions and axes must be numbers.
    """
    require_type("base_stock", tessellation, Tessellation)
    grid_lines, low, high = _bound_levels(tessellation, axis)
    level, clashes = _intersect_bounds(grid_lines, low, high)
    return BaseStock(tessellation, clashes, grid_lines.name, level)


def reorder_point(tessellation: Tessellation, axis: Along) -> ReorderPoint:
    """Test (s, S) form along an axis, or a sum of axes given as a tuple of their names.

    Actions and axes must be numbers. The smallest action counts as not ordering.
    """
    require_type("reorder_point", tessellation, Tessellation)
    grid_lines, low, high = _bound_levels(tessellation, axis)
    orders = np.isfinite(low)
    stock = grid_lines.position
    point, early_clashes = _intersect_bounds(
        grid_lines, np.where(orders, stock, -np.inf), np.where(orders, np.inf, stock)
    )
    level, clashes = _intersect_bounds(grid_lines, low, np.where(orders, high, np.inf))
    return ReorderPoint(
        tessellation, np.concatenate([early_clashes, clashes]), grid_lines.name, point, level
    )


def supports_ordering(tessellation: Tessellation, axis: Along) -> bool:
    """Whether the question makes sense: actions and the axes are numbers."""
    grid = tessellation.grid
    values = [grid.values[grid.axis(n)] for n in ((axis,) if isinstance(axis, str) else axis)]
    return tessellation.quantities is not None and all(v.dtype.kind in "iuf" for v in values)


def _bound_levels(tessellation: Tessellation, axis: Along) -> tuple[GridLines, NDArray, NDArray]:
    """Lines, and for each of their states what S must exceed and what it may be at most."""
    if not supports_ordering(tessellation, axis):
        requirement = (
            f"ordering along {format_axes(axis)!r} needs numbers, on the axis and as actions"
        )
        raise ArgumentError(requirement)
    grid_lines = build_lines(tessellation.grid, axis)
    quantity = np.asarray(tessellation.quantities)
    ordered = np.sort(quantity)
    rank = np.searchsorted(ordered, quantity)
    smaller = np.concatenate([[-np.inf], ordered[:-1]])[rank]
    reachable = np.where(quantity == ordered[-1], np.inf, quantity)
    action = tessellation.table.ravel()[grid_lines.states]
    return (
        grid_lines,
        grid_lines.position + smaller[action],
        grid_lines.position + reachable[action],
    )


def _intersect_bounds(
    grid_lines: GridLines, low: NDArray, high: NDArray
) -> tuple[LevelBounds, NDArray]:
    """What all states of each line allow, and for lines without it the two states that clash."""
    bounds = LevelBounds(np.asarray(low.max(axis=-1)), np.asarray(high.min(axis=-1)))
    clashing = np.stack([low.argmax(axis=-1), high.argmin(axis=-1)], axis=-1)
    clashes = np.take_along_axis(grid_lines.states, clashing, axis=-1)
    return bounds, clashes[bounds.empty].reshape(-1, 2)
