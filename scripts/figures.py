"""Write the pictures of the docs: the paper's Figures 1 and 2 as the report has them, an error map.

python scripts/figures.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import tessella as ts
from tessella.paper.figures import FIGURE_STYLE, draw_landscape, draw_policies
from tessella.paper.published import REPRESENTATIVE_PROBLEM, paper_study
from tessella.paper.report import render_image
from tessella.paper.results import PaperResults
from tessella.plot import error_map
from tessella.tessellation import compare, tessellate


def figure_1() -> Figure:
    """Optimal policies of all eleven benchmarks."""
    return draw_policies(PaperResults(paper_study(), ()), narrow=False)


def figure_2() -> Figure:
    """Value landscape beside margin geometry, of the paper's representative problem."""
    return draw_landscape(PaperResults(paper_study((REPRESENTATIVE_PROBLEM,)), ()), narrow=False)


def error_figure(label: str = "INV-Hard", assumed: str = "INV-Lin") -> Figure:
    """Where the policy for the ``assumed`` demand differs from the right one."""
    figure = Figure(figsize=(4.6, 2.6), layout="constrained")
    maps = [tessellate(ts.solve(ts.benchmark(name))) for name in (label, assumed)]
    axes = error_map(figure.subplots(), compare(maps[0], maps[1]))
    axes.set_title(f"{label}, run with the policy of {assumed}")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(FIGURE_STYLE):
        figures = {"figure-1": figure_1, "figure-2": figure_2, "error-map": error_figure}
        for name, draw in figures.items():
            figure = draw()
            for form in ("svg", "png"):
                (out / f"{name}.{form}").write_bytes(render_image(figure, form))
            print(out / f"{name}.png")


if __name__ == "__main__":
    main()
