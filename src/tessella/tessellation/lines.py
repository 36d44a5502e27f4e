"""Lines along which a policy is read: along one axis, or along the sum of several.

A line holds all states that agree on the other axes, by their position z: the value on the axis, or
the sum of the values on several (stock on hand plus in transit). Along one axis the positions of a
line differ; along a sum, states with one z form a group. Sums that differ by rounding are one z.

A text axis has no values; its positions are 0, 1, 2, ... as it lists them, and it is in no sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.grid import StateGrid

Along = str | tuple[str, ...]
SUM_RELATIVE_ROUNDING = 64 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class GridLines:
    """The states of a grid, line by line. ``m`` states on each line.

    Attributes:
        name: of the axis, or ``stock + transit``.
        position: (m,) z of each state of a line, ascending.
        states: (shape of the other axes, m) flat indices.
        groups: where in ``position`` each group of equal z begins.
    """

    name: str
    position: NDArray[np.float64]
    states: NDArray[np.int64]
    groups: NDArray[np.int64]


def build_lines(grid: StateGrid, along: Along) -> GridLines:
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
    starts = np.diff(ascending, prepend=-np.inf) > (
        SUM_RELATIVE_ROUNDING * scale if len(axes) > 1 else 0.0
    )
    groups = np.flatnonzero(starts)
    snapped = ascending[groups][np.cumsum(starts) - 1]
    states = np.moveaxis(np.arange(grid.size).reshape(grid.shape), axes, range(-len(axes), 0))
    states = states.reshape(*states.shape[: grid.ndim - len(axes)], -1)[..., order]
    return GridLines(format_axes(names), snapped, states, groups)


def format_axes(along: Along) -> str:
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
