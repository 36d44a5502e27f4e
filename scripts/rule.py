"""Draw the rule of the README over the optimal policy, and size against loss.

python scripts/rule.py [--out FOLDER] [--form svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import tessella as ts
from tessella.paper.figures import FIGURE_STYLE
from tessella.paper.report import render_image
from tessella.plot import rule_plot


def draw(solution: ts.Solution, rule: ts.Rule, frontier: ts.Frontier) -> Figure:
    """The rule's boundary over the optimal map, and the frontier beside it."""
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, width_ratios=[1.1, 1])
    rule_plot(axes, ts.tessellate(solution), ts.tessellate(solution.mdp, rule), rule, frontier)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    parser.add_argument("--form", choices=("svg", "png"), default="svg")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    solution = ts.solve(ts.problem("perishable").build())
    rule, frontier = ts.compress(solution, loss=0.005), ts.frontier(solution, 60)
    with matplotlib.rc_context(FIGURE_STYLE):
        path = options.out / f"rule.{options.form}"
        path.write_bytes(render_image(draw(solution, rule, frontier), options.form))
        print(path)


if __name__ == "__main__":
    main()
