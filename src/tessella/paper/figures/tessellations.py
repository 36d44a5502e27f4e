"""Figure 1: the optimal policies of all problems. Figure 2: values and margins."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tessella.paper.derived_numbers import format_range
from tessella.paper.figures.style import make_figure, make_panels
from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.plot import legends, margin_map, small_multiples, value_map
from tessella.tessellation import Tessellation


def draw_policies(results: PaperResults, narrow: bool) -> Figure:
    """Every optimal policy, by family; the legends use the first free place."""
    families: dict[str, list[Tessellation]] = {}
    for label, tessellation in results.tessellations.items():
        families.setdefault(results.family(label), []).append(tessellation)
    columns = 2 if narrow else 4
    # One place more than maps, for the legends.
    rows = [-(-(len(maps) + (i == 0)) // columns) for i, maps in enumerate(families.values())]
    figure = make_figure(narrow, 0.2 + 1.75 * sum(rows), 0.2 + 1.6 * sum(rows))
    axes_grid = np.atleast_2d(figure.subplots(sum(rows), columns, squeeze=False))
    first_row = 0
    family_examples = []
    for count, maps in zip(rows, families.values(), strict=True):
        block = axes_grid[first_row : first_row + count].ravel()
        small_multiples(block, maps, legend=False)
        family_examples.append(maps[0])
        first_row += count
    legends(axes_grid[rows[0] - 1, columns - 1], family_examples)
    _hide_inner_labels(axes_grid, rows)
    return figure


def _hide_inner_labels(axes_grid: np.ndarray, rows: list[int]) -> None:
    """Maps of one family share their axes."""
    for row in axes_grid:
        for axes in row[1:]:
            axes.set_ylabel("")
            axes.tick_params(labelleft=False)
    last_rows = np.cumsum(rows) - 1
    for row_index, row in enumerate(axes_grid):
        for column, axes in enumerate(row):
            has_axes_below = (
                row_index + 1 < len(axes_grid) and axes_grid[row_index + 1, column].axison
            )
            if row_index not in last_rows and has_axes_below:
                axes.set_xlabel("")
                axes.tick_params(labelbottom=False)


def describe_policies(results: PaperResults) -> str:
    parts = []
    for family in results.families():
        geometries = [g for label, g in results.geometry.items() if results.family(label) == family]
        regions = format_range([g.region_components for g in geometries], "")
        parts.append(
            f"{FAMILY_TITLES[family]}: {regions} connected regions in each problem, and at most "
            f"{max(g.boundary_length for g in geometries):.1%} of neighbouring states act "
            "differently"
        )
    return ". ".join(parts) + "."


def draw_landscape(results: PaperResults, narrow: bool) -> Figure:
    solution = results.solutions[results.representative]
    figure, (value_axes, margin_axes) = make_panels(narrow, 2, 2.8, 5.4)
    value_map(value_axes, solution)
    margin_map(margin_axes, results.tessellations[results.representative])
    return figure


def describe_landscape(results: PaperResults) -> str:
    solution = results.solutions[results.representative]
    value = solution.value
    margin = solution.margin
    low = np.quantile(margin, 0.1)
    boundary = results.tessellations[results.representative].boundary
    boundary_share = boundary[margin <= low].mean()
    return (
        f"{results.representative}: the value falls from {value.max():,.1f} to {value.min():,.1f} "
        f"across the whole grid, while the margin is small only in a band: of the tenth of states "
        f"with the smallest margins (at most {low:.2g}), {boundary_share:.0%} touch the boundary."
    )
