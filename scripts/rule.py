"""Draw the rule of the README over the optimal policy, and size against loss.

python scripts/rule.py [--out FOLDER] [--form svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import tessella as ts
from tessella.paper.figures.looks import STYLE
from tessella.paper.outputs import image
from tessella.plot import frontier_plot, rule_map


def draw() -> Figure:
    """The rule's boundary over the optimal map, and the frontier beside it."""
    mdp = ts.problem("perishable").build()
    solution = ts.solve(mdp)
    rule = ts.compress(solution, loss=0.005, time_limit=5)
    figure = Figure(figsize=(7.6, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    rule_map(left, ts.tessellate(solution), ts.tessellate(mdp, rule))
    frontier_plot(right, ts.frontier(solution, 12))
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    parser.add_argument("--form", choices=("svg", "png"), default="svg")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        path = given.out / f"rule.{given.form}"
        path.write_bytes(image(draw(), given.form))
        print(path)


if __name__ == "__main__":
    main()
