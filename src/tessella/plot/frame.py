"""Placing a grid of one or two axes in a figure.

The first axis runs to the right, the second upwards; of a map of rows and columns, the columns run
to the right and the rows down (``picture_axes``). A state is a box around its point. An axis
whose values are evenly spaced and ascending is drawn in its own values, any other by place with
its values as tick labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.grid import DOWNWARDS, StateGrid, picture_axes
from tessella.tessellation import Tessellation, outline

INK = "0.12"
FEW = 6


@dataclass(frozen=True)
class Scale:
    """Place i on an axis is drawn at start + step * i."""

    start: float
    step: float

    def at(self, places: NDArray) -> NDArray:
        return self.start + self.step * places

    def ends(self, n: int) -> tuple[float, float]:
        return self.start - self.step / 2, self.start + self.step * (n - 0.5)


@dataclass(frozen=True)
class Frame:
    """Where a grid of one or two axes is drawn.

    Attributes:
        order: positions of the grid's axes: to the right, and up or down.
        x, y: where the places along these are drawn.
    """

    order: tuple[int, ...]
    x: Scale
    y: Scale

    def turned(self, values: NDArray) -> NDArray:
        """(to the right, up or down) of (grid shape) values; one axis is a strip."""
        return values.transpose(self.order).reshape(values.shape[self.order[0]], -1)


def frame(axes: Axes, grid: StateGrid) -> Frame:
    """Name the axes, set ticks, and say where places go."""
    if grid.ndim > 2:
        raise ArgumentError(f"a map shows one or two axes, not {grid.ndim}; take a section")
    names = picture_axes(grid.axes)
    order = tuple(map(grid.axes.index, names))
    scales = [_scale(grid.values[k]) for k in order]
    axes.set_xlabel(names[0])
    _ticks(axes.xaxis, grid.values[order[0]], scales[0])
    if grid.ndim == 1:
        return Frame(order, scales[0], Scale(0.0, 1.0))
    axes.set_ylabel(names[1])
    _ticks(axes.yaxis, grid.values[order[1]], scales[1])
    axes.yaxis.set_inverted(names[1] == DOWNWARDS)
    return Frame(order, *scales)


def field(
    axes: Axes, grid: StateGrid, values: NDArray, cmap: Colormap, norm: Normalize
) -> AxesImage:
    """Draw (grid shape) values as coloured boxes."""
    drawn = frame(axes, grid)
    table = drawn.turned(values)
    if grid.ndim == 1:
        axes.set_yticks([])
    extent = (*drawn.x.ends(table.shape[0]), *drawn.y.ends(table.shape[1]))
    image = axes.imshow(
        table.T,
        cmap=cmap,
        norm=norm,
        extent=extent,
        origin="lower",
        aspect="auto",
        interpolation="none",
    )
    frame(axes, grid)  # a picture sets the limits of its axes, and so which way they run
    return image


def boundary_lines(axes: Axes, tessellation: Tessellation, **style: Any) -> Axes:
    """Draw the faces as one collection of lines; ``style`` as for matplotlib's LineCollection."""
    drawn = frame(axes, tessellation.grid)
    places = outline(tessellation)
    if drawn.order == (1, 0):
        places = places[..., ::-1]
    segments = np.stack([drawn.x.at(places[..., 0]), drawn.y.at(places[..., 1])], axis=-1)
    style = {"colors": INK, "linewidths": 0.9, "capstyle": "projecting"} | style
    axes.add_collection(LineCollection(list(segments), **style), autolim=False)
    return axes


def _scale(values: NDArray) -> Scale:
    if _even(values):
        return Scale(float(values[0]), float(values[1] - values[0]))
    return Scale(0.0, 1.0)


def _even(values: NDArray) -> bool:
    if values.dtype.kind not in "iuf" or len(values) < 2:
        return False
    steps = np.diff(values.astype(float))
    return bool(steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-9))


def _ticks(axis: Axis, values: NDArray, scale: Scale) -> None:
    n = len(values)
    if _even(values) and n > FEW:
        whole = values.dtype.kind != "f"
        axis.set_major_locator(MaxNLocator(5, integer=whole, steps=[1, 2, 5, 10]))
        return
    places = np.unique(np.linspace(0, n - 1, min(n, FEW)).round().astype(int))
    axis.set_major_locator(FixedLocator(scale.at(places).tolist()))
    axis.set_major_formatter(
        FixedFormatter([f"{v:g}" if v.dtype.kind == "f" else str(v) for v in values[places]])
    )
