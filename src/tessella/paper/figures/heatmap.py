"""Figure 5: final policy error of every method in every problem."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from tessella.paper.figures.looks import canvas
from tessella.paper.readings import final_errors, title
from tessella.paper.results import Results

FLOOR = 1e-4  # errors below this share the lightest colour


def heatmap(results: Results, narrow: bool) -> Figure:
    table = final_errors(results)
    names = [title(m) for m in table.index]
    if narrow:
        table = table.T
    figure = canvas(narrow, 0.9 + 0.3 * len(table), 1.7 + 0.27 * len(table))
    axes = figure.subplots()
    shown = np.clip(table.to_numpy(), FLOOR, 1)
    image = axes.imshow(shown, norm=LogNorm(FLOOR, 1), cmap="YlOrRd", aspect="auto")
    rows, columns = (list(table.index), names) if narrow else (names, list(table.columns))
    axes.set_xticks(range(len(columns)), columns, rotation=55 if narrow else 35, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        dark = value > 0.05
        axes.text(
            j,
            i,
            _short(value),
            ha="center",
            va="center",
            fontsize=6 if narrow else 6.8,
            color="white" if dark else "0.1",
        )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _divide(axes, results, narrow)
    bar = figure.colorbar(image, ax=axes, extend="min", shrink=0.9, pad=0.015)
    bar.set_label("policy error")
    bar.set_ticks([1e-4, 1e-3, 1e-2, 1e-1, 1], labels=["0.0001", "0.001", "0.01", "0.1", "1"])
    return figure


def _short(value: float) -> str:
    if np.isnan(value):
        return "–"
    if value < 5e-5:
        return "0"
    return f"{value:.4f}".lstrip("0") if value < 0.01 else f"{value:.3f}".lstrip("0")


def _divide(axes, results: Results, narrow: bool) -> None:
    """White lines between the groups of methods and between the families."""
    methods = [len(results.planned("boundary"))]
    families = np.cumsum([len(results.members(family)) for family in results.families()])[:-1]
    across, along = (families, methods) if narrow else (methods, families)
    for place in across:
        axes.axhline(place - 0.5, color="white", linewidth=3)
    for place in along:
        axes.axvline(place - 0.5, color="white", linewidth=3)


def heatmap_says(results: Results) -> str:
    table = final_errors(results)
    ours, theirs = table.loc[results.planned("boundary")], table.loc[results.planned("value")]
    whole = table.columns[table.notna().all()]
    if ours.empty or theirs.empty or whole.empty:
        return "Mean policy error over seeds at the largest sample size."
    wins = (ours[whole].max() < theirs[whole].min()).sum()
    some = " in which every method has finished runs" if len(whole) < table.shape[1] else ""
    worst = ours.stack()
    method, problem = worst.idxmax()
    return (
        f"In {wins} of {len(whole)} problems{some} the worst boundary method errs less than "
        f"the best value-based one. The largest boundary error is {worst.max():.3f} "
        f"({title(method)} on {problem}), the smallest value-based one "
        f"{theirs.min().min():.3f}."
    )
