"""Rules: their boundary over the optimal map, and size against loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from tessella.plot.frame import INK, boundary_lines
from tessella.plot.policy import policy_map
from tessella.tessellation import Tessellation

if TYPE_CHECKING:
    from tessella.rules.frontier import Frontier
    from tessella.rules.rule import Rule


def rule_plot(
    axes: Sequence[Axes], optimal: Tessellation, drawn: Tessellation, rule: Rule
) -> Sequence[Axes]:
    """Draw a rule on two axes: over the optimal map, and where it stands among those found.

    ``drawn`` is the tessellation of the rule: ``ts.tessellate(mdp, rule)``.
    """
    left, right = axes
    rule_map(left, optimal, drawn)
    frontier_plot(right, rule.frontier, chosen=rule)
    return axes


def rule_map(axes: Axes, optimal: Tessellation, rule: Tessellation) -> Axes:
    """Draw the boundary of a rule, dashed, over the map of the optimal policy."""
    policy_map(axes, optimal)
    boundary_lines(axes, rule, linewidths=1.8, colors="white")
    boundary_lines(axes, rule, linewidths=1.2, colors=INK, linestyles="dashed")
    axes.set_title("the rule (dashed) over the optimal policy")
    return axes


TICKS = [m * 10**k for k in range(8) for m in (1, 2, 5)]  # of numbers stored


def frontier_plot(axes: Axes, frontier: Frontier, chosen: Rule | None = None) -> Axes:
    """Draw loss against numbers stored, one line for each class, as steps; a rule of it ringed."""
    kinds = sorted({point.kind for point in frontier.everything})
    losses = [point.loss for point in frontier.everything if point.loss > 0]
    floor = min(losses, default=1.0) / 3
    for kind, mark in zip(kinds, "osD^vPX*" * len(kinds), strict=False):
        points = frontier.of(kind)
        sizes = [point.size for point in points]
        lost = [max(point.loss, floor) for point in points]
        axes.step(sizes, lost, where="post", marker=mark, markersize=4, linewidth=1, label=kind)
    if chosen is not None:
        here = [p for p in frontier.everything if (p.kind, p.size) == (chosen.kind, chosen.size)]
        at = [(p.size, max(p.loss, floor)) for p in here]
        ring = {"marker": "o", "markersize": 12, "fillstyle": "none", "linestyle": "none"}
        axes.plot(*zip(*at, strict=True), color=INK, label="this rule", **ring)
    axes.set_yscale("log")
    axes.set_xscale("log")
    largest = max((point.size for point in frontier.everything), default=1)
    axes.set_xticks([n for n in TICKS if n <= 1.2 * largest])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("numbers stored")
    axes.set_ylabel("loss (none: lowest mark)")
    axes.legend(frameon=False, fontsize="small")
    return axes
