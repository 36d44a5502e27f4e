"""Write the pictures of the docs: Figures 1, 2 and 4 as the report has them, and three more.

Figure 4 is drawn from the records of the full study, docs/generated/records.parquet.

python scripts/figures.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tessella as ts
from tessella.paper.figures import FIGURE_STYLE, draw_landscape, draw_policies, draw_scaling
from tessella.paper.published import REPRESENTATIVE_PROBLEM, paper_study
from tessella.paper.report import render_image
from tessella.paper.results import PaperResults
from tessella.plot import error_map
from tessella.runner.record import read_parquet
from tessella.tessellation import compare, tessellate

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "generated" / "records.parquet"


def figure_1() -> Figure:
    """Optimal policies of all eleven benchmarks."""
    return draw_policies(PaperResults(paper_study(), ()), narrow=False)


def figure_2() -> Figure:
    """Value landscape and margin geometry of the paper's representative problem."""
    return draw_landscape(PaperResults(paper_study((REPRESENTATIVE_PROBLEM,)), ()), narrow=False)


def figure_4() -> Figure:
    """Policy error against sample size."""
    return draw_scaling(PaperResults(paper_study(), read_parquet(RECORDS)), narrow=False)


def error_figure(label: str = "INV-Hard", assumed: str = "INV-Lin") -> Figure:
    """Where the policy for the ``assumed`` demand differs from the right one."""
    figure = Figure(figsize=(4.6, 2.6), layout="constrained")
    maps = [tessellate(ts.solve(ts.benchmark(name))) for name in (label, assumed)]
    axes = error_map(figure.subplots(), compare(maps[0], maps[1]))
    axes.set_title(f"{label}, run with the policy of {assumed}")
    return figure


def convergence_figure() -> Figure:
    """How fast the proven bound falls, for three methods at two discounts.

    Runs end at a bound of ``tol``; what rounding leaves below it depends on the processor.
    """
    tol = 1e-5
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    methods = (
        ts.ValueIteration(tol),
        ts.ModifiedPolicyIteration(tol),
        ts.InexactPolicyIteration(tol),
    )
    for axes, discount in zip(figure.subplots(1, 2, sharey=True), (0.95, 0.999), strict=True):
        mdp = ts.benchmark("INV-Mix").with_discount(discount)
        for method, line in zip(methods, ("-", "--", "-."), strict=True):
            bounds = np.maximum(ts.solve(mdp, method).history.bound, tol)
            axes.plot(range(1, len(bounds) + 1), bounds, line, label=type(method).__name__)
        axes.set(xscale="log", yscale="log", xlabel="iterations", title=f"discount {discount}")
        axes.grid(alpha=0.25)
    figure.axes[0].set_ylabel("proven bound on |V - V*|")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def period_figure() -> Figure:
    """One period of a shop as boxes: the state before each stage, and what the stage does."""
    figure = Figure(figsize=(7.2, 1.7), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 2)
    states = ("stock 3\nlow season", "stock 8\nlow season", "stock 4\nlow season")
    states += ("stock 4\nhigh season",)
    stages = (("Decide", "order 5"), ("Shift", "demand 4"), ("Move", "season turns"))
    box = {"boxstyle": "round,pad=0.45", "facecolor": "#e8f1f8", "edgecolor": "#0072b2"}
    arrow = {"arrowstyle": "->", "color": "0.3"}
    for k, text in enumerate(states):
        axes.text(0.9 + 2.73 * k, 1, text, ha="center", va="center", fontsize=9, bbox=box)
    for k, (stage, event) in enumerate(stages):
        middle = 2.265 + 2.73 * k
        axes.annotate("", (middle + 0.5, 1), (middle - 0.5, 1), arrowprops=arrow)
        axes.text(middle, 1.35, stage, ha="center", fontsize=9, fontweight="bold")
        axes.text(middle, 0.45, event, ha="center", fontsize=9)
    return figure


FIGURES = {
    "figure-1": figure_1,
    "figure-2": figure_2,
    "figure-4": figure_4,
    "error-map": error_figure,
    "period": period_figure,
    "convergence": convergence_figure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=DOCS / "images")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(FIGURE_STYLE):
        for name, draw in FIGURES.items():
            figure = draw()
            for form in ("svg", "png"):
                (out / f"{name}.{form}").write_bytes(render_image(figure, form))
            print(out / f"{name}.png")


if __name__ == "__main__":
    main()
