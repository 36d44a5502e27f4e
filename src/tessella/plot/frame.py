"""Colours of actions, and the frame of a picture: axes, labels and boundary lines.

All colours of one map have different lightness L* (CIE 1976), in equal steps of at most 32, so that
lightness alone separates them and a line can be seen on any:

    L* = 116 Y^(1/3) - 16,   Y = 0.2126 R + 0.7152 G + 0.0722 B   (linear light, Y > 0.0089)

Quantities run through one ramp, the larger the darker. Quantities below and above 0 run from 0
through two ramps, the larger their absolute value the darker: a warm ramp below 0, a cool one
above, the one difference of hue that the common deficiencies leave. Names, which have no order,
alternate between the same two.

The first axis runs to the right, the second upwards; of a map of rows and columns, the columns run
to the right and the rows down (``StateGrid.downward_axis``). A state is a box around its point. An
axis whose values are evenly spaced and ascending is drawn in its own values, any other by place
with its values as tick labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError
from tessella.grid import StateGrid, spaced_indices
from tessella.tessellation import Tessellation, outline

MAX_LIGHTNESS = 97.0  # CIE L*, 0 to 100: of the first action
MIN_LIGHTNESS = 32.0  # CIE L*: of the last action
MAX_LIGHTNESS_STEP = 32.0  # CIE L*: between one action and the next
QUANTITY_RAMP = "YlGnBu"
WARM_RAMP = "YlOrBr"
COOL_RAMP = "PuBu"
LINE_COLOUR = "0.12"
MAX_TICKS = 6  # ticks of an axis or a bar
# A legend to the right of its axes.
LEGEND_POSITION = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}


def action_colours(tessellation: Tessellation) -> ListedColormap:
    """One colour for each action, by action index.

    Args:
        tessellation: of any policy.

    Returns:
        The colours.

    Example:
        >>> optimal = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> from tessella.plot import action_colours
        >>> action_colours(optimal).N
        2
    """
    n = len(tessellation.actions)
    darkest = max(MIN_LIGHTNESS, MAX_LIGHTNESS - MAX_LIGHTNESS_STEP * (n - 1))
    levels = np.linspace(MAX_LIGHTNESS, darkest, n)
    quantities = tessellation.quantities
    if quantities is not None and quantities.min() < 0 < quantities.max():
        return ListedColormap(_pick_signed_shades(quantities, levels))
    if quantities is not None:
        return ListedColormap(pick_shades(QUANTITY_RAMP, levels)[tessellation.ranks])
    colours = pick_shades(WARM_RAMP, levels)
    colours[1::2] = pick_shades(COOL_RAMP, levels[1::2])
    return ListedColormap(colours)


def _pick_signed_shades(quantities: NDArray, levels: NDArray) -> NDArray[np.float64]:
    """(n, 3) colours: 0 is the lightest, and -q is the next darker level after q."""
    from_lightest = np.lexsort((quantities < 0, np.abs(quantities)))
    levels_by_action = np.empty(len(levels))
    levels_by_action[from_lightest] = levels
    warm = pick_shades(WARM_RAMP, levels_by_action)
    cool = pick_shades(COOL_RAMP, levels_by_action)
    return np.where(quantities[:, None] < 0, warm, cool)


def pick_shades(ramp: str, levels: NDArray) -> NDArray[np.float64]:
    """(n, 3) colours of a matplotlib colour map at the (n,) given lightnesses."""
    colours = matplotlib.colormaps[ramp](np.linspace(0, 1, 1024))[:, :3]
    light = compute_lightness(colours)
    order = np.argsort(light)
    return np.stack([np.interp(levels, light[order], c[order]) for c in colours.T], axis=-1)


def compute_lightness(colours: ArrayLike) -> NDArray[np.float64]:
    """(...) L* of (..., 3) sRGB colours in 0..1."""
    c = np.asarray(colours, dtype=float)
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    return np.where(y > 216 / 24389, 116 * np.cbrt(y) - 16, y * 24389 / 27)


def lighten(colours: ListedColormap, share: float = 0.55) -> ListedColormap:
    """The same colours, mixed with this share of white."""
    original = colours(np.arange(colours.N))[:, :3]
    return ListedColormap(share + (1 - share) * original)


@dataclass(frozen=True)
class AxisScale:
    """Place i on an axis is drawn at start + step * i."""

    start: float
    step: float

    def position(self, places: NDArray) -> NDArray:
        return self.start + self.step * places

    def limits(self, n: int) -> tuple[float, float]:
        return self.start - self.step / 2, self.start + self.step * (n - 0.5)


@dataclass(frozen=True)
class Frame:
    """Where a grid of one or two axes is frame."""

    order: tuple[int, ...]  # positions of the grid's axes: to the right, and up or down
    x: AxisScale  # where the places along the first of these are drawn
    y: AxisScale

    def orient(self, values: NDArray) -> NDArray:
        """(to the right, up or down) of (grid shape) values; one axis is a strip."""
        return values.transpose(self.order).reshape(values.shape[self.order[0]], -1)


def set_axes(axes: Axes, grid: StateGrid) -> Frame:
    """Name the axes, set ticks, and return the frame."""
    if grid.ndim > 2:
        raise ArgumentError(f"a map shows one or two axes, not {grid.ndim}; take a section")
    names = grid.picture_order(grid.axes)
    order = tuple(map(grid.axes.index, names))
    scales = [_choose_scale(grid.values[k]) for k in order]
    axes.set_xlabel(names[0])
    _set_ticks(axes.xaxis, grid.values[order[0]], scales[0])
    if grid.ndim == 1:
        return Frame(order, scales[0], AxisScale(0.0, 1.0))
    axes.set_ylabel(names[1])
    _set_ticks(axes.yaxis, grid.values[order[1]], scales[1])
    axes.yaxis.set_inverted(names[1] == grid.downward_axis)
    return Frame(order, *scales)


def draw_grid(
    axes: Axes, grid: StateGrid, values: NDArray, cmap: Colormap, norm: Normalize
) -> AxesImage:
    """Draw (grid shape) values as coloured boxes."""
    frame = set_axes(axes, grid)
    table = frame.orient(values)
    if grid.ndim == 1:
        axes.set_yticks([])
    extent = (*frame.x.limits(table.shape[0]), *frame.y.limits(table.shape[1]))
    image = axes.imshow(
        table.T,
        cmap=cmap,
        norm=norm,
        extent=extent,
        origin="lower",
        aspect="auto",
        interpolation="none",
    )
    set_axes(axes, grid)  # a picture sets the limits of its axes, and so which way they run
    return image


def boundary_lines(axes: Axes, tessellation: Tessellation, **style: Any) -> Axes:
    """Draw the faces as one collection of lines; ``style`` as for matplotlib's LineCollection.

    Args:
        axes: of matplotlib.
        tessellation: on one or two axes.
        style: as for matplotlib's ``LineCollection``.

    Returns:
        The axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import boundary_lines
        >>> optimal = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> axes = boundary_lines(Figure().subplots(), optimal, colors="black")
    """
    frame = set_axes(axes, tessellation.grid)
    places = outline(tessellation)
    if frame.order == (1, 0):
        places = places[..., ::-1]
    coordinates = frame.x.position(places[..., 0]), frame.y.position(places[..., 1])
    segments = np.stack(coordinates, axis=-1)
    style = {"colors": LINE_COLOUR, "linewidths": 0.9, "capstyle": "projecting"} | style
    axes.add_collection(LineCollection(list(segments), **style), autolim=False)
    return axes


def _choose_scale(values: NDArray) -> AxisScale:
    if _is_even(values):
        return AxisScale(float(values[0]), float(values[1] - values[0]))
    return AxisScale(0.0, 1.0)


def _is_even(values: NDArray) -> bool:
    if values.dtype.kind not in "iuf" or len(values) < 2:
        return False
    steps = np.diff(values.astype(float))
    return bool(steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-9))


def _set_ticks(axis: Axis, values: NDArray, scale: AxisScale) -> None:
    n = len(values)
    if _is_even(values) and n > MAX_TICKS:
        whole = values.dtype.kind != "f"
        axis.set_major_locator(MaxNLocator(5, integer=whole, steps=[1, 2, 5, 10]))
        return
    places = spaced_indices(n, MAX_TICKS)
    axis.set_major_locator(FixedLocator(scale.position(places).tolist()))
    labels = [f"{v:g}" if v.dtype.kind == "f" else str(v) for v in values[places]]
    axis.set_major_formatter(FixedFormatter(labels))
