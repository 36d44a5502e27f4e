"""Values and margins: maps of both, and policy error against the margin.

The value is what a value method learns, the margin what a decision needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.contour import ContourSet
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.grid import StateGrid
from tessella.plot.frame import LINE_COLOUR, boundary_lines, draw_grid, set_axes
from tessella.tessellation import Tessellation

if TYPE_CHECKING:
    from tessella.certificates.decisions import MarginError
    from tessella.solvers.solution import Solution


VALUE_RAMP = "cividis"
MARGIN_RAMP = "inferno"
ONE_ACTION_COLOUR = "0.85"


def value_map(axes: Axes, solution: Solution) -> Axes:
    """Draw the optimal value on one axis (a curve) or two (a map with contours)."""
    grid = solution.mdp.grid
    value = solution.value
    axes.set_title("optimal value")
    if grid.ndim == 1:
        return _draw_curve(axes, grid, value, "value")
    image = draw_grid(
        axes, grid, value, matplotlib.colormaps[VALUE_RAMP], Normalize(value.min(), value.max())
    )
    bar = axes.figure.colorbar(image, ax=axes, label="value")
    if min(grid.shape) > 1:
        bar.add_lines(_draw_contours(axes, grid, value))
    return axes


def margin_map(axes: Axes, tessellation: Tessellation) -> Axes:
    """Draw the action margin, dark where two actions are nearly as good, and the boundary.

    States with one feasible action are grey. The tessellation must be that of a solution.
    """
    if tessellation.margin is None:
        raise ArgumentError("a margin map needs margins: tessellate a solution")
    axes.set_title("action margin")
    grid = tessellation.grid
    margin = tessellation.margin
    if grid.ndim == 1:
        return _draw_curve(axes, grid, np.where(np.isfinite(margin), margin, np.nan), "margin")
    shown = np.ma.masked_invalid(margin)
    cmap = matplotlib.colormaps[MARGIN_RAMP].with_extremes(bad=ONE_ACTION_COLOUR)
    image = draw_grid(axes, grid, shown, cmap, _make_norm(shown))
    boundary_lines(axes, tessellation, colors="white", linewidths=1.0)
    axes.figure.colorbar(image, ax=axes, label="margin (log scale)", extend="min")
    return axes


def _draw_contours(axes: Axes, grid: StateGrid, value: NDArray) -> ContourSet:
    drawn = set_axes(axes, grid)
    table = drawn.turned(value)
    return axes.contour(
        drawn.x.position(np.arange(table.shape[0])),
        drawn.y.position(np.arange(table.shape[1])),
        table.T,
        levels=8,
        colors="white",
        linewidths=0.6,
        linestyles="solid",
    )


def _make_norm(margin: np.ma.MaskedArray) -> Normalize:
    """Logarithmic over the upper three decades: what is smaller is as good as a tie to the eye."""
    top = float(margin.max()) if margin.count() else 1.0
    return LogNorm(top / 1e3, top, clip=True) if top > 0 else Normalize(0, 1)


def _draw_curve(axes: Axes, grid: StateGrid, values: NDArray, label: str) -> Axes:
    axes.plot(
        set_axes(axes, grid).x.position(np.arange(grid.size)),
        values,
        color=LINE_COLOUR,
        linewidth=1.2,
    )
    axes.set_ylabel(label)
    return axes


def margin_error(axes: Axes, result: MarginError, **style: Any) -> Axes:
    """Draw the share of wrong actions in each margin bin; call again to add another policy.

    The axis of margins is logarithmic where no bin reaches down to 0. ``style`` as for
    matplotlib's ``plot``.
    """
    filled = result.states > 0
    default_style = {
        "marker": "o",
        "markersize": 3.5,
        "linewidth": 1.2,
        "label": result.name or None,
    }
    axes.plot(result.margins[filled], result.rate[filled], **default_style | style)
    if (result.margins[filled] > 0).all():
        axes.set_xscale("log")
    axes.set_xlabel("margin of the best action")
    axes.set_ylabel("policy error")
    axes.set_ylim(bottom=0.0)
    return axes
