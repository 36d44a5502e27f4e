"""Draw the paper's Figures 1 and 2, and an error map, from our own solutions.

python scripts/figures.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

import tessella as ts
from tessella.plot import error_map, legends, margin_map, small_multiples, value_map
from tessella.problems.benchmarks import BENCHMARKS
from tessella.tessellation import Tessellation, compare, tessellate

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.hashsalt": "tessella",
}


def figure_1() -> Figure:
    """Optimal policies of all eleven benchmarks."""
    figure = Figure(figsize=(7.0, 5.4), layout="constrained")
    rows = figure.subplots(3, 4)
    families: dict[str, list[Tessellation]] = {}
    for label, known in BENCHMARKS.items():
        solved = tessellate(ts.solve(ts.benchmark(label)))
        families.setdefault(known.family, []).append(solved)
    inventory, queue = families["inventory"], families["queue"]
    small_multiples([*rows[0][:3], *rows[1]], inventory, legend=False)
    small_multiples(rows[2], queue, legend=False)
    legends(rows[0][3], [inventory[0], queue[0]])
    rows[0][3].axis("off")
    for axes in rows[0][:3]:  # the panel below has the same axis
        axes.set_xlabel("")
        axes.tick_params(labelbottom=False)
    for axes in rows[:, 1:].flat:
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    return figure


def figure_2(label: str = "INV-Mix") -> Figure:
    """Value landscape beside margin geometry."""
    figure = Figure(figsize=(7.0, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    solution = ts.solve(ts.benchmark(label))
    value_map(left, solution)
    margin_map(right, tessellate(solution))
    return figure


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
    with matplotlib.rc_context(STYLE):
        figures = {"figure-1": figure_1, "figure-2": figure_2, "error-map": error_figure}
        for name, draw in figures.items():
            figure = draw()
            figure.savefig(out / f"{name}.png", dpi=200, metadata={"Software": None})
            figure.savefig(out / f"{name}.svg", metadata={"Date": None, "Creator": None})
            print(out / f"{name}.png")


if __name__ == "__main__":
    main()
