"""Rules: their boundary over the optimal map, size against loss, and what a change is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from tessella.plot.frame import LEGEND_POSITION, LINE_COLOUR, boundary_lines, draw_grid
from tessella.plot.maps import policy_map
from tessella.support.sense import sense_of
from tessella.tessellation import Tessellation

if TYPE_CHECKING:
    from tessella.rules.diff import Difference
    from tessella.rules.rule import Frontier, Rule


STAKE_RAMP = "PuOr"
UNCHANGED_COLOUR = "0.93"
CLASS_MARKERS = "osD^vPX*<>"
MAX_DECADE_LABELS = 6  # decades with a number, at most
SIZE_TICKS = [m * 10**k for k in range(8) for m in (1, 2, 5)]  # of numbers stored


def rule_plot(
    axes: Sequence[Axes],
    optimal: Tessellation,
    drawn: Tessellation,
    rule: Rule,
    frontier: Frontier | None = None,
) -> Sequence[Axes]:
    """Draw a rule on two axes: over the optimal map, and among the rules of a frontier.

    ``drawn`` is the tessellation of the rule: ``ts.tessellate(mdp, rule)``. ``frontier`` is that of
    ``ts.frontier``; without it, only the rules that the search met are drawn.
    """
    left, right = axes
    rule_map(left, optimal, drawn)
    frontier_plot(right, rule.frontier if frontier is None else frontier, chosen=rule)
    return axes


def rule_map(axes: Axes, optimal: Tessellation, rule: Tessellation) -> Axes:
    """Draw the boundary of a rule, dashed, over the map of the optimal policy."""
    policy_map(axes, optimal)
    boundary_lines(axes, rule, linewidths=2.4, colors="white")
    boundary_lines(axes, rule, linewidths=1.4, colors=LINE_COLOUR, linestyles=(0, (4, 1.6)))
    axes.set_title("the rule (dashed) over the optimal policy")
    return axes


def difference_map(axes: Axes, difference: Difference) -> Axes:
    """Draw the states that change, each with its part of the money at stake; others are grey."""
    parts = np.ma.masked_where(~difference.where, difference.by_state)
    max_stake = float(np.abs(difference.by_state).max()) or 1.0
    colours = matplotlib.colormaps[STAKE_RAMP].with_extremes(bad=UNCHANGED_COLOUR)
    image = draw_grid(axes, difference.a.grid, parts, colours, Normalize(-max_stake, max_stake))
    gained = sense_of(difference.minimise).improvement_verb
    axes.figure.colorbar(image, ax=axes, label=f"{gained} in this state, from the start on")
    n = int(difference.where.sum())
    before = f"{difference.time_a:.2%} of the time"
    axes.set_title(f"{n:,} of {difference.where.size:,} states change: {before}")
    return axes


def frontier_plot(axes: Axes, frontier: Frontier, chosen: Rule | None = None) -> Axes:
    """Draw loss against numbers stored, as steps: one line for each class, and the best of all.

    Rules that lose nothing are drawn at 0, the foot of the axis. One rule may be ringed.
    """
    kinds = sorted({point.kind for point in frontier.all_points})
    losses = [point.loss for point in frontier.all_points if point.loss > 0]
    foot = 10 ** np.floor(np.log10(min(losses, default=1.0) / 2))
    best = [(point.size, max(point.loss, foot)) for point in frontier.points]
    broad = {"where": "post", "linewidth": 5, "color": "0.85", "solid_joinstyle": "miter"}
    axes.step(*zip(*best, strict=True), label="least of all", zorder=1, **broad)
    for i, kind in enumerate(kinds):
        points = frontier.of_class(kind)
        sizes = [point.size for point in points]
        lost = [max(point.loss, foot) for point in points]
        line_style = {
            "marker": CLASS_MARKERS[i % len(CLASS_MARKERS)],
            "markersize": 4,
            "linewidth": 1,
            "alpha": 0.9,
        }
        axes.step(sizes, lost, where="post", label=kind, clip_on=False, **line_style)
    if chosen is not None:
        _draw_ring(axes, frontier, chosen, foot)
    largest = max((point.size for point in frontier.all_points), default=1)
    _set_log_axes(axes, largest, foot, max(losses, default=1.0))
    axes.set_title("what rules lose, by the numbers they store")
    axes.legend(frameon=False, fontsize="small", **LEGEND_POSITION)
    return axes


def _draw_ring(axes: Axes, frontier: Frontier, rule: Rule, foot: float) -> None:
    """Ring a rule at its size and loss."""
    here = [p.loss for p in frontier.all_points if (p.kind, p.size) == (rule.kind, rule.size)]
    lost = here or [p.loss for p in rule.frontier.all_points if p.kind == rule.kind]
    ring = {"marker": "o", "markersize": 12, "fillstyle": "none", "linestyle": "none"}
    at = max(min(lost), foot) if lost else foot
    axes.plot([rule.size], [at], color=LINE_COLOUR, label="this rule", zorder=9, **ring)


def _set_log_axes(axes: Axes, largest: int, foot: float, max_loss: float) -> None:
    """Logarithmic axes, the lowest place of which is 0."""
    axes.set(xscale="log", yscale="log", xlabel="numbers stored", ylabel="loss")
    axes.set_xticks([n for n in SIZE_TICKS if n <= 1.2 * largest])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")
    decades = np.arange(np.log10(foot), np.floor(np.log10(max_loss)) + 1)
    decades = decades[:: -(-len(decades) // MAX_DECADE_LABELS)]
    axes.set_yticks(10.0**decades, ["0", *(f"$10^{{{k:.0f}}}$" for k in decades[1:])])
    axes.set_ylim(bottom=foot)
    axes.minorticks_off()
