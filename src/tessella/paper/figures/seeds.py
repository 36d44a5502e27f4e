"""Figure A1: final policy error of every seed, on one problem."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from tessella.paper.derived_numbers import final_runs, method_title
from tessella.paper.figures.style import get_style, make_figure
from tessella.paper.results import PaperResults


def draw_seeds(results: PaperResults, narrow: bool) -> Figure:
    runs = final_runs(results)
    figure = make_figure(narrow, 3.0, 5.2)
    rows, columns = (2, 1) if narrow else (1, 2)
    errors, spread = figure.subplots(rows, columns, sharex=True)
    _draw_points(errors, runs)
    smallest = min((r[r > 0].min(initial=1.0) for r in runs.values()), default=1.0)
    errors.set_yscale("symlog", linthresh=smallest, linscale=0.3)
    errors.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    errors.set_ylim(-smallest / 4, 1)
    errors.set_ylabel("policy error")
    errors.set_title(f"{results.representative}, every seed (bar: mean)")
    _draw_points(spread, {method: r - r.mean() for method, r in runs.items()})
    spread.set_ylabel("policy error minus its mean")
    spread.set_title("the same, around the mean")
    return figure


def _draw_points(axes: Axes, runs: dict[str, NDArray]) -> None:
    for position, (method, values) in enumerate(runs.items()):
        style = get_style(method)
        # Seeds side by side in their order: no two points hide each other.
        offsets = np.linspace(-0.36, 0.36, len(values)) if len(values) > 1 else np.zeros(1)
        axes.plot(position + offsets, values, linestyle="", **style.marker_options(2.6))
        axes.hlines(
            values.mean(), position - 0.4, position + 0.4, color=style.colour, linewidth=1.2
        )
    names = [method_title(method) for method in runs]
    axes.set_xticks(range(len(runs)), names, rotation=35, ha="right", rotation_mode="anchor")
    axes.grid(visible=True, axis="y")


def describe_seeds(results: PaperResults) -> str:
    spread = {m: float(r.std(ddof=1)) for m, r in final_runs(results).items() if r.size > 1}
    if not spread:
        return "One seed only: nothing can be said about spread."
    listed = ", ".join(f"{method_title(m)} {s:.4f}" for m, s in spread.items())
    return f"Standard deviation over seeds on {results.representative}: {listed}."
