"""Where a learned policy differs from its reference."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, NoNorm

from tessella.plot.colours import action_colours, lighten
from tessella.plot.frame import LINE_COLOUR, boundary_lines, draw_grid
from tessella.plot.policy import draw_legend, draw_regions, make_action_swatches, make_swatch
from tessella.tessellation import Comparison

ERROR_COLOUR = "#a50f15"


def error_map(axes: Axes, comparison: Comparison) -> Axes:
    """Draw the reference in pale colours, its boundary, and the states where the other differs.

    Beside a solution, an action that ties with the best one is no difference.
    """
    reference = comparison.a
    colours = lighten(action_colours(reference))
    draw_regions(axes, reference, colours)
    wrong = np.ma.masked_where(~comparison.worse, np.zeros(reference.grid.shape, dtype=int))
    draw_grid(axes, reference.grid, wrong, ListedColormap([ERROR_COLOUR]), NoNorm(0, 1))
    boundary_lines(axes, reference, colors=LINE_COLOUR, linewidths=0.7)
    patches = make_action_swatches(reference, colours)
    patches.append(make_swatch(ERROR_COLOUR, f"differs ({comparison.worse.mean():.2%})"))
    draw_legend(axes, reference, patches)
    axes.set_title(reference.name)
    return axes
