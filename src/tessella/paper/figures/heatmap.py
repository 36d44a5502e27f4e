"""Figure 5: final policy error of every method in every problem."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from tessella.paper.derived_numbers import final_errors, method_title
from tessella.paper.figures.style import make_figure
from tessella.paper.results import PaperResults

COLOUR_MIN_ERROR = 1e-4  # errors below this share the lightest colour


def draw_heatmap(results: PaperResults, narrow: bool) -> Figure:
    table = final_errors(results)
    names = [method_title(m) for m in table.index]
    if narrow:
        table = table.T
    figure = make_figure(narrow, 0.9 + 0.3 * len(table), 1.7 + 0.27 * len(table))
    axes = figure.subplots()
    clipped = np.clip(table.to_numpy(), COLOUR_MIN_ERROR, 1)
    image = axes.imshow(clipped, norm=LogNorm(COLOUR_MIN_ERROR, 1), cmap="YlOrRd", aspect="auto")
    rows, columns = (list(table.index), names) if narrow else (names, list(table.columns))
    axes.set_xticks(range(len(columns)), columns, rotation=55 if narrow else 35, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        dark = value > 0.05
        axes.text(
            j,
            i,
            _format_error(value),
            ha="center",
            va="center",
            fontsize=6 if narrow else 6.8,
            color="white" if dark else "0.1",
        )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _draw_dividers(axes, results, narrow)
    bar = figure.colorbar(image, ax=axes, extend="min", shrink=0.9, pad=0.015)
    bar.set_label("policy error")
    bar.set_ticks([1e-4, 1e-3, 1e-2, 1e-1, 1], labels=["0.0001", "0.001", "0.01", "0.1", "1"])
    return figure


def _format_error(value: float) -> str:
    if np.isnan(value):
        return "–"
    if value < 5e-5:
        return "0"
    return f"{value:.4f}".lstrip("0") if value < 0.01 else f"{value:.3f}".lstrip("0")


def _draw_dividers(axes, results: PaperResults, narrow: bool) -> None:
    """White lines between the groups of methods and between the families."""
    methods = [len(results.planned_methods("boundary"))]
    families = np.cumsum([len(results.problems_of(family)) for family in results.families()])[:-1]
    horizontal, vertical = (families, methods) if narrow else (methods, families)
    for position in horizontal:
        axes.axhline(position - 0.5, color="white", linewidth=3)
    for position in vertical:
        axes.axvline(position - 0.5, color="white", linewidth=3)


def describe_heatmap(results: PaperResults) -> str:
    table = final_errors(results)
    ours = table.loc[results.planned_methods("boundary")]
    theirs = table.loc[results.planned_methods("value")]
    complete = table.columns[table.notna().all()]
    if ours.empty or theirs.empty or complete.empty:
        return "Mean policy error over seeds at the largest sample size."
    wins = (ours[complete].max() < theirs[complete].min()).sum()
    restriction = (
        " in which every method has finished runs" if len(complete) < table.shape[1] else ""
    )
    boundary_errors = ours.stack()
    method, problem = boundary_errors.idxmax()
    return (
        f"In {wins} of {len(complete)} problems{restriction} the worst boundary method errs less "
        f"than the best value-based one. The largest boundary error is {boundary_errors.max():.3f} "
        f"({method_title(method)} on {problem}), the smallest value-based one "
        f"{theirs.min().min():.3f}."
    )
