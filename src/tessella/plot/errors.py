"""Where a learned policy differs from its reference."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, NoNorm

from tessella.plot.colours import action_colours, faded
from tessella.plot.frame import INK, boundary_lines, field
from tessella.plot.policy import action_swatches, legend_of, regions, swatch
from tessella.tessellation import Comparison

WRONG = "#a50f15"


def error_map(axes: Axes, comparison: Comparison) -> Axes:
    """Draw the reference in pale colours, its boundary, and the states where the other differs.

    Beside a solution, an action that ties with the best one is no difference.
    """
    reference = comparison.a
    colours = faded(action_colours(reference))
    regions(axes, reference, colours)
    wrong = np.ma.masked_where(~comparison.worse, np.zeros(reference.grid.shape, dtype=int))
    field(axes, reference.grid, wrong, ListedColormap([WRONG]), NoNorm(0, 1))
    boundary_lines(axes, reference, colors=INK, linewidths=0.7)
    patches = action_swatches(reference, colours)
    patches.append(swatch(WRONG, f"differs ({comparison.worse.mean():.2%})"))
    legend_of(axes, reference, patches)
    axes.set_title(reference.name)
    return axes
