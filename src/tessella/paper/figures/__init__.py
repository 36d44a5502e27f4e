"""The figures of a study: each draws itself, for a page or for a phone, and says what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from tessella.paper.figures.cost import describe_cost, draw_cost
from tessella.paper.figures.errors import (
    describe_heatmap,
    describe_margins,
    describe_scaling,
    describe_seeds,
    draw_heatmap,
    draw_margins,
    draw_scaling,
    draw_seeds,
)
from tessella.paper.figures.tessellations import (
    describe_landscape,
    describe_policies,
    draw_landscape,
    draw_policies,
)
from tessella.paper.results import PaperResults


@dataclass(frozen=True)
class FigureSpec:
    """One figure; ``needs_runs``: it needs finished runs of the paper's methods."""

    name: str
    title: str
    draw: Callable[[PaperResults, bool], Figure]
    describe: Callable[[PaperResults], str]
    needs_runs: bool = True


FIGURES = (
    FigureSpec(
        "figure-1", "Figure 1. Optimal policies", draw_policies, describe_policies, needs_runs=False
    ),
    FigureSpec(
        "figure-2",
        "Figure 2. Values and margins",
        draw_landscape,
        describe_landscape,
        needs_runs=False,
    ),
    FigureSpec("figure-3", "Figure 3. Where errors are", draw_margins, describe_margins),
    FigureSpec("figure-4", "Figure 4. Error and sample size", draw_scaling, describe_scaling),
    FigureSpec("figure-5", "Figure 5. Error in every problem", draw_heatmap, describe_heatmap),
    FigureSpec("figure-a1", "Figure A1. Spread over seeds", draw_seeds, describe_seeds),
    FigureSpec("figure-cost", "Loss and information", draw_cost, describe_cost),
)
