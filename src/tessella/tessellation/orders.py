"""Base-stock and (s, S) form: does the policy order up to a level?

Along a stock axis with levels x and order quantities a, let a- be the next smaller quantity. A
policy orders up to S in batches if it takes the smallest quantity that reaches S, or the largest
one if none does: S <= x + a unless a is the largest, and x + a- < S unless a is the smallest. Each
state thus confines S to an interval (above, at_most]; the form holds on a line when they meet.

    base stock   every state of a line agrees on one S
    (s, S)       no order where x >= s; below s, all states agree on one S

S and s may differ from line to line. With quantities 0, 1, 2, ... S is a single integer; with
batches of Q, an interval of length Q. (The reading "the largest quantity that stays within S" is
the same form with S moved by less than one batch.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.tessellate import Tessellation


@dataclass(frozen=True, eq=False)
class Interval:
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
        axis: the stock axis.
        level: the possible S of each line.
    """

    axis: str
    level: Interval = field(repr=False)

    @property
    def claim(self) -> str:
        return f"{self.tessellation.action_name} is base-stock in {self.axis}"


@dataclass(frozen=True, eq=False)
class ReorderPoint(Evidence):
    """Whether each line has (s, S) form; violations are two states that disagree on s or on S.

    Attributes:
        axis: the stock axis.
        point: the possible s of each line.
        level: the possible S of each line.
    """

    axis: str
    point: Interval = field(repr=False)
    level: Interval = field(repr=False)

    @property
    def claim(self) -> str:
        return f"{self.tessellation.action_name} is (s, S) in {self.axis}"


def base_stock(tessellation: Tessellation, axis: str) -> BaseStock:
    """Test base-stock form along ``axis``; actions and axis must be numbers."""
    low, high = _confines(tessellation, axis)
    level, clashes = _meet(tessellation, axis, low, high)
    return BaseStock(tessellation, clashes, axis, level)


def reorder_point(tessellation: Tessellation, axis: str) -> ReorderPoint:
    """Test (s, S) form along ``axis``; actions and axis must be numbers.

    The smallest action counts as not ordering.
    """
    low, high = _confines(tessellation, axis)
    orders = np.isfinite(low)
    stock = _along(tessellation, axis)
    point, early = _meet(
        tessellation, axis, np.where(orders, stock, -np.inf), np.where(orders, np.inf, stock)
    )
    level, clashes = _meet(tessellation, axis, low, np.where(orders, high, np.inf))
    return ReorderPoint(tessellation, np.concatenate([early, clashes]), axis, point, level)


def takes_orders(tessellation: Tessellation, axis: str) -> bool:
    """Whether the question makes sense: actions and the axis are numbers."""
    values = tessellation.grid.values[tessellation.grid.axis(axis)]
    return tessellation.quantities is not None and values.dtype.kind in "iuf"


def _confines(tessellation: Tessellation, axis: str) -> tuple[NDArray, NDArray]:
    """(grid shape) twice: each state wants S above the first and at most the second."""
    if not takes_orders(tessellation, axis):
        raise ModelError(f"ordering along {axis!r} needs numbers, on the axis and as actions")
    quantity = np.asarray(tessellation.quantities)
    ordered = np.sort(quantity)
    place = np.searchsorted(ordered, quantity)
    smaller = np.concatenate([[-np.inf], ordered[:-1]])[place]
    reach = np.where(quantity == ordered[-1], np.inf, quantity)
    stock = _along(tessellation, axis)
    return stock + smaller[tessellation.table], stock + reach[tessellation.table]


def _along(tessellation: Tessellation, axis: str) -> NDArray[np.float64]:
    """Axis values, shaped to broadcast over the grid."""
    grid = tessellation.grid
    k = grid.axis(axis)
    return grid.numbers[k].reshape([-1 if i == k else 1 for i in range(grid.ndim)])


def _meet(
    tessellation: Tessellation, axis: str, low: NDArray, high: NDArray
) -> tuple[Interval, NDArray]:
    """What all states of each line allow, and for lines without it the two states that clash."""
    grid = tessellation.grid
    k = grid.axis(axis)
    interval = Interval(np.asarray(low.max(axis=k)), np.asarray(high.min(axis=k)))
    # The axis is kept, with length one: a grid of one axis would have no place for its line.
    lines = np.nonzero(np.expand_dims(interval.empty, k))
    ends = [np.argmax(low, axis=k, keepdims=True), np.argmin(high, axis=k, keepdims=True)]
    spots = ([*lines[:k], end[lines], *lines[k + 1 :]] for end in ends)
    flat = [np.ravel_multi_index(tuple(spot), grid.shape) for spot in spots]
    return interval, np.stack(flat, axis=-1)
