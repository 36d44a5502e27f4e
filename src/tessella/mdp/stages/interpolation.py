"""Interpolation: a coordinate that falls between two values of its axis.

Between neighbours u <= x <= v the state becomes u with weight (v - x) / (v - u) and v with weight
(x - u) / (v - u), axis by axis (multilinear), so that

    E[w](s) = sum_k p_k (w interpolated at target_k(s)).

Rows stay stochastic: interpolation is a distribution over neighbours with the same mean coordinate,
and is exact for a w that is linear along each axis. Solutions, bounds and certificates are those of
this interpolated model. Differences, quotient and product with p are rounded once each, so a stored
probability is off by at most four roundings of its own size for each axis.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, format_value, raise_for_first
from tessella.grid import index_type, require_unmasked
from tessella.mdp.checks import FunctionChecks
from tessella.mdp.stages.scatter import Scatter

OffGridOption = Literal["error", "interpolate"]
EdgeOption = Literal["error", "clip"]
# Positions and weights (open meshes) of the grid points below and above the values of an axis.
Neighbours = list[tuple[NDArray[np.int32], NDArray[np.float64]]]


def require_known_options(subject: str, between: str, edge: str) -> None:
    """Raise an error for unknown values of ``between`` and ``edge``."""
    for name, given, other in (("between", between, "interpolate"), ("edge", edge, "clip")):
        if given not in ("error", other):
            requirement = f"{subject}: {name} must be 'error' or {other!r}"
            raise ModelError(requirement, value=f"got {given!r}")


def clip_to_axis(checks: FunctionChecks, axis: int, values: Any, edge: str) -> Any:
    """``values`` clipped to the ends of an axis of numbers, with ``edge="clip"``."""
    grid = checks.space.grid
    points = grid.values[axis]
    if edge != "clip" or points.dtype.kind == "U":
        return values
    location = f"{checks.subject}: {grid.axes[axis]}"
    numbers = np.asarray(require_unmasked(values, location, checks.space.describe))
    return np.clip(numbers, points.min(), points.max()) if numbers.dtype.kind in "biuf" else values


def find_neighbours(checks: FunctionChecks, axis: int, values: Any, edge: str) -> Neighbours:
    """The grid points on both sides of each value of an open mesh."""
    points = _require_sorted_points(checks, axis)
    name = checks.space.grid.axes[axis]
    x = checks.read_numbers(values, f"{checks.subject}: {name}")
    on_grid = checks.space.grid.locate(axis, x)  # -1 between grid points
    low = points.min()
    high = points.max()
    is_outside = ~((x >= low) & (x <= high)) & (on_grid < 0)
    is_outside &= np.isnan(x) if edge == "clip" else True
    checks.raise_for_first(
        f"{checks.subject} leaves the axis: "
        f"{name} must stay within {format_value(low)}..{format_value(high)}",
        is_outside,
        lambda p: f"goes to {name}={format_value(float(x[p]))}",
    )
    x = np.clip(np.where(np.isnan(x), low, x), low, high)
    return _weigh_neighbours(points, x, on_grid)


def _require_sorted_points(checks: FunctionChecks, axis: int) -> NDArray[np.float64]:
    """The grid points of an axis, which must rise or fall."""
    grid = checks.space.grid
    name = grid.axes[axis]
    values = grid.values[axis]
    if values.dtype.kind == "U":
        requirement = f"{checks.subject} cannot interpolate along an axis of text"
        raise ModelError(requirement, location=name, value=f"holds {values[0]}")
    points = grid.numbers[axis]
    steps = np.sign(np.diff(points))
    raise_for_first(
        f"{checks.subject}: grid points must be in ascending or descending order",
        steps != steps[:1],
        lambda i: f"{name}={format_value(points[i + 1])}",
        lambda i: f"follows {format_value(points[i])}",
        "steps",
    )
    return points


def _weigh_neighbours(
    points: NDArray[np.float64], x: NDArray, on_grid: NDArray[np.int64]
) -> Neighbours:
    """Positions and weights below and above each x; one side if every x is on a grid point."""
    is_on_grid = on_grid >= 0
    if is_on_grid.all() or len(points) == 1:
        return [(np.maximum(on_grid, 0).astype(np.int32), np.ones(x.shape))]
    descends = points[0] > points[-1]
    ascending = points[::-1] if descends else points
    above = np.clip(np.searchsorted(ascending, x), 1, len(points) - 1)
    u = ascending[above - 1]
    v = ascending[above]
    weights = (
        np.where(is_on_grid, 1.0, (v - x) / (v - u)),
        np.where(is_on_grid, 0.0, (x - u) / (v - u)),
    )
    index = (len(points) - above, len(points) - 1 - above) if descends else (above - 1, above)
    sides = [np.where(is_on_grid, on_grid, i).astype(np.int32) for i in index]
    return list(zip(sides, weights, strict=True))


def build_interpolated_scatter(
    checks: FunctionChecks, neighbours_by_axis: dict[int, Neighbours]
) -> Scatter:
    """Targets at the corners of grid cells: noise probabilities times interpolation weights."""
    shape = checks.space.grid.shape
    count = checks.n_outcomes
    axes = tuple(neighbours_by_axis)
    lengths = tuple(shape[axis] for axis in axes)
    moved_shape = (1, *(n if axis in axes else 1 for axis, n in enumerate(shape)), count)
    targets_by_corner = []
    probs_by_corner = []
    for corner in itertools.product(*neighbours_by_axis.values()):
        p = checks.probs
        for _, weight in corner:
            p = p * weight
        positions = [t for t, _ in corner]
        full = np.broadcast_shapes(*(t.shape for t in positions), moved_shape)
        target = np.ravel_multi_index(tuple(np.broadcast_to(t, full) for t in positions), lengths)
        targets_by_corner.append(target.astype(index_type(math.prod(lengths))))
        probs_by_corner.append(np.broadcast_to(p, (*p.shape[:-1], count)))
    return Scatter(
        shape,
        axes,
        _stack_outcomes(targets_by_corner),
        _stack_outcomes(probs_by_corner),
        len(targets_by_corner),
        sum(len(sides) > 1 for sides in neighbours_by_axis.values()),
    )


def _stack_outcomes(meshes: list[NDArray]) -> NDArray:
    """(A | 1, K * n, ...) from n open meshes whose last axis has length K."""
    stacked = np.stack(np.broadcast_arrays(*meshes), axis=-1)
    return np.ascontiguousarray(np.moveaxis(stacked.reshape(*stacked.shape[:-2], -1), -1, 1))
