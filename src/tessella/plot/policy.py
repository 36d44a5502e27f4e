"""The policy map: which action each state gets."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.patches import Patch

from tessella.plot.colours import action_colours
from tessella.plot.frame import LINE_COLOUR, boundary_lines, draw_grid
from tessella.tessellation import Tessellation

LEGEND_MAX_ACTIONS = 10


def policy_map(axes: Axes, tessellation: Tessellation, *, legend: bool = True) -> Axes:
    """Draw regions, boundary, and a legend beside them; of a tessellation on one or two axes."""
    image = draw_regions(axes, tessellation, action_colours(tessellation))
    few = len(tessellation.actions) <= LEGEND_MAX_ACTIONS
    boundary_lines(axes, tessellation, linewidths=0.9 if few else 0.25)
    axes.set_title(tessellation.name)
    if legend and few:
        action_legend(axes, tessellation)
    elif legend:
        _draw_action_bar(axes, tessellation, image)
    return axes


def action_legend(axes: Axes, tessellation: Tessellation, **style: Any) -> Axes:
    """Draw the legend alone, beside the axes; ``style`` as for matplotlib's legend."""
    patches = make_action_swatches(tessellation, action_colours(tessellation))
    return draw_legend(axes, tessellation, patches, **style)


def make_action_swatches(tessellation: Tessellation, colours: ListedColormap) -> list[Patch]:
    """One patch for each action, the highest rank first, as quantities stack up."""
    order = np.argsort(tessellation.ranks)[::-1]
    return [make_swatch(colours(int(a)), str(tessellation.actions[a])) for a in order]


def draw_legend(axes: Axes, tessellation: Tessellation, patches: list[Patch], **style: Any) -> Axes:
    """Draw a legend of these patches, titled with the name of the actions."""
    beside = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}
    layout = {"frameon": False, "handlelength": 1.2, "handleheight": 1.2, "alignment": "left"}
    style = beside | layout | {"title": tessellation.action_name} | style
    # An artist of its own, not the legend of the axes, of which there can be only one.
    legend = Legend(axes, patches, [str(p.get_label()) for p in patches], **style)
    legend.set_clip_on(False)  # else layouts leave no room for it
    axes.add_artist(legend)
    return axes


def draw_regions(axes: Axes, tessellation: Tessellation, colours: ListedColormap) -> AxesImage:
    """Draw the regions alone, in these colours."""
    norm = BoundaryNorm(np.arange(colours.N + 1) - 0.5, colours.N)
    return draw_grid(axes, tessellation.grid, tessellation.table, colours, norm)


def make_swatch(colour: Any, label: str) -> Patch:
    return Patch(facecolor=colour, edgecolor=LINE_COLOUR, linewidth=0.6, label=label)


def _draw_action_bar(axes: Axes, tessellation: Tessellation, image: AxesImage) -> None:
    n = len(tessellation.actions)
    ticks = np.unique(np.linspace(0, n - 1, 6).round().astype(int))
    bar = axes.figure.colorbar(image, ax=axes, label=tessellation.action_name, ticks=ticks)
    bar.ax.minorticks_off()
    bar.ax.set_yticklabels([str(tessellation.actions[i]) for i in ticks])
