"""Figure 1: the optimal policies of all problems. Figure 2: values beside margins."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tessella.paper.figures.looks import canvas
from tessella.paper.published import FAMILIES
from tessella.paper.results import Results
from tessella.plot import legends, margin_map, small_multiples, value_map
from tessella.tessellation import Tessellation


def policies(results: Results, narrow: bool) -> Figure:
    """Every optimal policy, by family; the legends stand in the first free place."""
    families: dict[str, list[Tessellation]] = {}
    for label, tessellation in results.tessellations.items():
        families.setdefault(results.family(label), []).append(tessellation)
    columns = 2 if narrow else 4
    # One place more than maps, for the legends.
    rows = [-(-(len(maps) + (i == 0)) // columns) for i, maps in enumerate(families.values())]
    figure = canvas(narrow, 0.2 + 1.75 * sum(rows), 0.2 + 1.6 * sum(rows))
    places = np.atleast_2d(figure.subplots(sum(rows), columns, squeeze=False))
    top, kinds = 0, []
    for count, maps in zip(rows, families.values(), strict=True):
        block = places[top : top + count].ravel()
        small_multiples(block, maps, legend=False)
        kinds.append(maps[0])
        top += count
    legends(places[rows[0] - 1, columns - 1], kinds)
    _only_outer_labels(places, rows)
    return figure


def _only_outer_labels(places: np.ndarray, rows: list[int]) -> None:
    """Maps of one family share their axes."""
    for row in places:
        for axes in row[1:]:
            axes.set_ylabel("")
            axes.tick_params(labelleft=False)
    ends = np.cumsum(rows) - 1
    for number, row in enumerate(places):
        for column, axes in enumerate(row):
            below = number + 1 < len(places) and places[number + 1, column].axison
            if number not in ends and below:
                axes.set_xlabel("")
                axes.tick_params(labelbottom=False)


def policies_say(results: Results) -> str:
    parts = []
    for family in results.families():
        of = [g for label, g in results.geometry.items() if results.family(label) == family]
        cells = sorted({g.region_components for g in of})
        count = str(cells[0]) if len(cells) == 1 else f"{cells[0]} to {cells[-1]}"
        parts.append(
            f"{FAMILIES[family]}: {count} connected regions in each problem, and at most "
            f"{max(g.boundary_length for g in of):.1%} of neighbouring states act differently"
        )
    return ". ".join(parts) + "."


def landscape(results: Results, narrow: bool) -> Figure:
    solution = results.solutions[results.representative]
    figure = canvas(narrow, 2.8, 5.4)
    first, second = figure.subplots(*((2, 1) if narrow else (1, 2)))
    value_map(first, solution)
    margin_map(second, results.tessellations[results.representative])
    return figure


def landscape_says(results: Results) -> str:
    solution = results.solutions[results.representative]
    value, margin = solution.value, solution.margin
    low = np.quantile(margin, 0.1)
    boundary = results.tessellations[results.representative].boundary
    near = boundary[margin <= low].mean()
    return (
        f"{results.representative}: the value falls from {value.max():,.1f} to {value.min():,.1f} "
        f"across the whole grid, while the margin is small only in a band: of the tenth of states "
        f"with the smallest margins (at most {low:.2g}), {near:.0%} touch the boundary."
    )
