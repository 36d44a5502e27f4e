"""The figures of a study: each draws itself, for a page or for a phone, and says what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from tessella.paper.figures.cost import cost_figure, cost_says
from tessella.paper.figures.heatmap import heatmap, heatmap_says
from tessella.paper.figures.margins import margin_figure, margin_says
from tessella.paper.figures.scaling import scaling_figure, scaling_says
from tessella.paper.figures.seeds import seeds_figure, seeds_say
from tessella.paper.figures.tessellations import landscape, landscape_says, policies, policies_say
from tessella.paper.results import Results


@dataclass(frozen=True)
class Picture:
    """One figure; ``learned`` ones need finished runs of the paper's methods."""

    name: str
    title: str
    draw: Callable[[Results, bool], Figure]
    says: Callable[[Results], str]
    learned: bool = True


PICTURES = (
    Picture("figure-1", "Figure 1. Optimal policies", policies, policies_say, learned=False),
    Picture("figure-2", "Figure 2. Values and margins", landscape, landscape_says, learned=False),
    Picture("figure-3", "Figure 3. Where errors are", margin_figure, margin_says),
    Picture("figure-4", "Figure 4. Error and sample size", scaling_figure, scaling_says),
    Picture("figure-5", "Figure 5. Error in every problem", heatmap, heatmap_says),
    Picture("figure-a1", "Figure A1. Spread over seeds", seeds_figure, seeds_say),
    Picture("figure-cost", "Loss and what was told", cost_figure, cost_says),
)
