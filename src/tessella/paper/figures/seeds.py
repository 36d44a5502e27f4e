"""Figure A1: final policy error of every seed, on one problem."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from tessella.paper.figures.looks import canvas, look
from tessella.paper.readings import final_runs, title
from tessella.paper.results import Results


def seeds_figure(results: Results, narrow: bool) -> Figure:
    runs = final_runs(results)
    figure = canvas(narrow, 3.0, 5.2)
    rows, columns = (2, 1) if narrow else (1, 2)
    errors, spread = figure.subplots(rows, columns, sharex=True)
    _points(errors, runs)
    smallest = min((r[r > 0].min(initial=1.0) for r in runs.values()), default=1.0)
    errors.set_yscale("symlog", linthresh=smallest, linscale=0.3)
    errors.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    errors.set_ylim(-smallest / 4, 1)
    errors.set_ylabel("policy error")
    errors.set_title(f"{results.representative}, every seed (bar: mean)")
    _points(spread, {method: r - r.mean() for method, r in runs.items()})
    spread.set_ylabel("policy error minus its mean")
    spread.set_title("the same, around the mean")
    return figure


def _points(axes: Axes, runs: dict[str, NDArray]) -> None:
    for place, (method, values) in enumerate(runs.items()):
        style = look(method)
        # Seeds side by side in their order: no two points hide each other.
        offsets = np.linspace(-0.36, 0.36, len(values)) if len(values) > 1 else np.zeros(1)
        axes.plot(place + offsets, values, linestyle="", **style.points(2.6))
        axes.hlines(values.mean(), place - 0.4, place + 0.4, color=style.colour, linewidth=1.2)
    names = [title(method) for method in runs]
    axes.set_xticks(range(len(runs)), names, rotation=35, ha="right", rotation_mode="anchor")
    axes.grid(visible=True, axis="y")


def seeds_say(results: Results) -> str:
    spread = {m: float(r.std(ddof=1)) for m, r in final_runs(results).items() if r.size > 1}
    if not spread:
        return "One seed only: nothing can be said about spread."
    listed = ", ".join(f"{title(m)} {s:.4f}" for m, s in spread.items())
    return f"Standard deviation over seeds on {results.representative}: {listed}."
