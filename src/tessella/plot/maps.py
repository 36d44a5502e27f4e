"""Maps of a policy over two axes: its actions, its errors, and the landscape of values and margins.

The value is what a value method learns, the margin what a decision needs.

Rules are drawn by their boundary over the optimal map, and by size against loss; a change of policy
by what it is worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, NoNorm, Normalize
from matplotlib.contour import ContourSet
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_type
from tessella.grid import StateGrid, spaced_indices
from tessella.plot.frame import (
    LEGEND_POSITION,
    LINE_COLOUR,
    MAX_TICKS,
    action_colours,
    boundary_lines,
    draw_grid,
    lighten,
    set_axes,
)
from tessella.support.sense import sense_of
from tessella.tessellation import Comparison, Tessellation
from tessella.tessellation.tessellate import build_tessellation

if TYPE_CHECKING:
    from tessella.certificates.decisions import MarginError
    from tessella.rules.diff import Difference
    from tessella.rules.rule import Frontier, FrontierPoint, Rule
    from tessella.solvers.constraints.tradeoff import Tradeoff
    from tessella.solvers.solution import Solution


LEGEND_MAX_ACTIONS = 10
VALUE_RAMP = "cividis"
MARGIN_RAMP = "inferno"
ONE_ACTION_COLOUR = "0.85"


def policy_map(axes: Axes, tessellation: Tessellation, *, legend: bool = True) -> Axes:
    """Draw regions, boundary and legend of a tessellation on one or two axes.

    Args:
        axes: of matplotlib.
        tessellation: on one or two axes.
        legend: whether to draw the legend.

    Returns:
        The axes.

    Raises:
        ArgumentError: the grid has more than two axes; take a section.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import policy_map
        >>> optimal = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> axes = policy_map(Figure().subplots(), optimal)
    """
    image = _draw_regions(axes, tessellation, action_colours(tessellation))
    few = len(tessellation.actions) <= LEGEND_MAX_ACTIONS
    boundary_lines(axes, tessellation, linewidths=0.9 if few else 0.25)
    axes.set_title(tessellation.name)
    if legend and few:
        action_legend(axes, tessellation)
    elif legend:
        _draw_action_bar(axes, tessellation, image)
    return axes


def action_legend(axes: Axes, tessellation: Tessellation, **style: Any) -> Axes:
    """Draw the legend alone, to the right of the axes.

    Args:
        axes: of matplotlib.
        tessellation: of any policy.
        style: as for matplotlib's ``legend``.

    Returns:
        The axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import action_legend
        >>> optimal = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> axes = action_legend(Figure().subplots(), optimal)
    """
    patches = _make_action_swatches(tessellation, action_colours(tessellation))
    return _draw_legend(axes, tessellation, patches, **style)


def _make_action_swatches(tessellation: Tessellation, colours: ListedColormap) -> list[Patch]:
    """One patch for each action, the highest rank first, as quantities stack up."""
    order = np.argsort(tessellation.ranks)[::-1]
    return [_make_swatch(colours(int(a)), str(tessellation.actions[a])) for a in order]


def _draw_legend(
    axes: Axes, tessellation: Tessellation, patches: list[Patch], **style: Any
) -> Axes:
    """Draw a legend of these patches, titled with the name of the actions."""
    layout = {"frameon": False, "handlelength": 1.2, "handleheight": 1.2, "alignment": "left"}
    style = LEGEND_POSITION | layout | {"title": tessellation.action_name} | style
    # An artist of its own, not the legend of the axes, of which there can be only one.
    legend = Legend(axes, patches, [str(p.get_label()) for p in patches], **style)
    legend.set_clip_on(False)  # else layouts leave no space for it
    axes.add_artist(legend)
    return axes


def _draw_regions(axes: Axes, tessellation: Tessellation, colours: ListedColormap) -> AxesImage:
    """Draw the regions alone, in these colours."""
    norm = BoundaryNorm(np.arange(colours.N + 1) - 0.5, colours.N)
    shown = np.ma.masked_less(tessellation.table, 0)  # where there is no state
    return draw_grid(axes, tessellation.grid, shown, colours, norm)


def _make_swatch(colour: Any, label: str) -> Patch:
    return Patch(facecolor=colour, edgecolor=LINE_COLOUR, linewidth=0.6, label=label)


def _draw_action_bar(axes: Axes, tessellation: Tessellation, image: AxesImage) -> None:
    n = len(tessellation.actions)
    ticks = spaced_indices(n, MAX_TICKS)
    bar = axes.figure.colorbar(image, ax=axes, label=tessellation.action_name, ticks=ticks)
    bar.ax.minorticks_off()
    bar.ax.set_yticklabels([str(tessellation.actions[i]) for i in ticks])


ERROR_COLOUR = "#a50f15"


def error_map(axes: Axes, comparison: Comparison) -> Axes:
    """Draw the reference in pale colours, its boundary, and the states where the other differs.

    Compared with a solution, an action that ties with the best one is no difference.

    Args:
        axes: of matplotlib.
        comparison: of two policies, on one or two axes.

    Returns:
        The axes.

    Raises:
        ArgumentError: the grid has more than two axes; take a section.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import error_map
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> difference = ts.compare(solution, lambda queue: np.where(queue < 20, 1, 0))
        >>> axes = error_map(Figure().subplots(), difference)
    """
    reference = comparison.a
    colours = lighten(action_colours(reference))
    _draw_regions(axes, reference, colours)
    wrong = np.ma.masked_where(~comparison.worse, np.zeros(reference.grid.shape, dtype=int))
    draw_grid(axes, reference.grid, wrong, ListedColormap([ERROR_COLOUR]), NoNorm(0, 1))
    boundary_lines(axes, reference, colors=LINE_COLOUR, linewidths=0.7)
    patches = _make_action_swatches(reference, colours)
    patches.append(_make_swatch(ERROR_COLOUR, f"differs ({comparison.worse.mean():.2%})"))
    _draw_legend(axes, reference, patches)
    axes.set_title(reference.name)
    return axes


def small_multiples(
    axes: Iterable[Any] | Axes,
    tessellations: Iterable[Tessellation] | Tessellation,
    *,
    legend: bool = True,
) -> list[Axes]:
    """Draw one map on each of the axes, in order; axes left over are switched off.

    The first axes left over carries the legends, one for each set of actions; without any, the last
    map carries them at its side. Slices of a higher-dimensional grid come from `sections`.

    Args:
        axes: those of ``figure.subplots(rows, columns)``, filled row by row, or a list of axes.
        tessellations: one for each map.
        legend: whether to draw legends.

    Returns:
        The axes with maps.

    Raises:
        ArgumentError: there are more maps than axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import small_multiples
        >>> optimal = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> len(small_multiples(Figure().subplots(1, 2), [optimal]))
        1
    """
    all_axes = list(_flatten_axes(axes))
    tessellations = _as_list(tessellations)
    if len(all_axes) < len(tessellations):
        raise ArgumentError(
            f"{len(tessellations)} maps need as many axes", value=f"got {len(all_axes)}"
        )
    used_axes = all_axes[: len(tessellations)]
    spare_axes = all_axes[len(tessellations) :]
    for one_axes, tessellation in zip(used_axes, tessellations, strict=True):
        policy_map(one_axes, tessellation, legend=False)
    for one_axes in spare_axes:
        one_axes.axis("off")
    if legend and tessellations:
        kinds = {(t.actions, t.action_name): t for t in tessellations}
        place = spare_axes[0] if spare_axes else used_axes[-1]
        legends(place, list(kinds.values()), outside=not spare_axes)
    return used_axes


def _flatten_axes(axes: Any) -> Iterator[Axes]:
    if isinstance(axes, Axes):
        yield axes
    elif isinstance(axes, Iterable) and not isinstance(axes, str):
        for part in axes:
            yield from _flatten_axes(part)
    else:
        requirement = "small_multiples draws on axes, as figure.subplots(2, 3) makes them"
        raise ArgumentError(requirement, value=f"got {axes!r}")


def _as_list(tessellations: Iterable[Tessellation] | Tessellation) -> list[Tessellation]:
    is_single = isinstance(tessellations, Tessellation)
    maps: list[Tessellation] = [tessellations] if is_single else list(tessellations)
    for each in maps:
        require_type("a policy map", each, Tessellation)
    return maps


def legends(axes: Axes, tessellations: Sequence[Tessellation], *, outside: bool = False) -> Axes:
    """Draw the legends of several tessellations from left to right, on the axes or next to them.

    Args:
        axes: of matplotlib.
        tessellations: one for each legend.
        outside: True to draw them to the right of the axes.

    Returns:
        The axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import legends
        >>> optimal = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> axes = legends(Figure().subplots(), [optimal], outside=True)
    """
    left = 1.04 if outside else 0.0
    for k, tessellation in enumerate(tessellations):
        action_legend(axes, tessellation, bbox_to_anchor=(left + 0.45 * k, 1.0))
    return axes


def value_map(axes: Axes, solution: Solution) -> Axes:
    """Draw the optimal value on one axis (a curve) or two (a map with contours).

    Args:
        axes: of matplotlib.
        solution: on one or two axes.

    Returns:
        The axes.

    Raises:
        ArgumentError: the grid has more than two axes; take a section.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import value_map
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> axes = value_map(Figure().subplots(), solution)
    """
    grid = solution.mdp.grid
    value = solution.value
    axes.set_title("optimal value")
    if grid.ndim == 1:
        return _draw_curve(axes, grid, value, "value")
    norm = Normalize(value.min(), value.max())
    image = draw_grid(axes, grid, value, matplotlib.colormaps[VALUE_RAMP], norm)
    bar = axes.figure.colorbar(image, ax=axes)
    if min(grid.shape) > 1:
        bar.add_lines(_draw_contours(axes, grid, value))
    return axes


def margin_map(axes: Axes, tessellation: Tessellation) -> Axes:
    """Draw the action margin and the boundary; dark is where two actions are nearly as good.

    States with one feasible action are grey.

    Args:
        axes: of matplotlib.
        tessellation: of a solution, on one or two axes.

    Returns:
        The axes.

    Raises:
        ArgumentError: it is not of a solution, or the grid has more than two axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import margin_map
        >>> optimal = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> axes = margin_map(Figure().subplots(), optimal)
    """
    if tessellation.margin is None:
        raise ArgumentError("a margin map needs margins: tessellate a solution")
    axes.set_title("action margin")
    grid = tessellation.grid
    margin = tessellation.margin
    if grid.ndim == 1:
        return _draw_curve(axes, grid, np.where(np.isfinite(margin), margin, np.nan), "margin")
    shown = np.ma.masked_invalid(margin)
    cmap = matplotlib.colormaps[MARGIN_RAMP].with_extremes(bad=ONE_ACTION_COLOUR)
    # Logarithmic over the upper three decades: what is smaller is as good as a tie to the eye.
    top = float(shown.max()) if shown.count() else 1.0
    norm = LogNorm(top / 1e3, top, clip=True) if top > 0 else Normalize(0, 1)
    image = draw_grid(axes, grid, shown, cmap, norm)
    boundary_lines(axes, tessellation, colors="white", linewidths=1.0)
    axes.figure.colorbar(image, ax=axes, label="log scale", extend="min")
    return axes


def _draw_contours(axes: Axes, grid: StateGrid, value: NDArray) -> ContourSet:
    frame = set_axes(axes, grid)
    table = frame.orient(value)
    return axes.contour(
        frame.x.position(np.arange(table.shape[0])),
        frame.y.position(np.arange(table.shape[1])),
        table.T,
        levels=8,
        colors="white",
        linewidths=0.6,
        linestyles="solid",
    )


def _draw_curve(axes: Axes, grid: StateGrid, values: NDArray, label: str) -> Axes:
    places = set_axes(axes, grid).x.position(np.arange(grid.size))
    axes.plot(places, values, color=LINE_COLOUR, linewidth=1.2)
    axes.set_ylabel(label)
    return axes


def margin_error(axes: Axes, result: MarginError, **style: Any) -> Axes:
    """Draw the share of wrong actions in each margin bin; call again to add another policy.

    The axis of margins is logarithmic where no bin reaches down to 0.

    Args:
        axes: of matplotlib.
        result: of ``Certificate.margin_error``.
        style: as for matplotlib's ``plot``.

    Returns:
        The axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import margin_error
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> proof = ts.certify(solution, lambda queue: np.where(queue < 20, 1, 0))
        >>> axes = margin_error(Figure().subplots(), proof.margin_error())
    """
    filled = result.states > 0
    style = {
        "marker": "o",
        "markersize": 3.5,
        "linewidth": 1.2,
        "label": result.name or None,
    } | style
    axes.plot(result.margins[filled], result.rate[filled], **style)
    if (result.margins[filled] > 0).all():
        axes.set_xscale("log")
    axes.set_xlabel("margin of the best action")
    axes.set_ylabel("policy error")
    axes.set_ylim(bottom=0.0)
    return axes


STAKE_RAMP = "PuOr"
UNCHANGED_COLOUR = "0.93"
CLASS_MARKERS = "osD^vPX*<>"
MAX_DECADE_LABELS = 6  # decades with a number, at most
SIZE_TICKS = [m * 10**k for k in range(8) for m in (1, 2, 5)]  # of parameters


def rule_plot(
    axes: Sequence[Axes],
    optimal: Tessellation,
    drawn: Tessellation,
    rule: Rule,
    frontier: Frontier | None = None,
) -> Sequence[Axes]:
    """Draw a rule on two axes: its map with the optimal boundary, and its place on a frontier.

    Args:
        axes: two of them.
        optimal: the tessellation of the optimal policy.
        drawn: the tessellation of the rule: ``ts.tessellate(mdp, rule)``.
        rule: what ``compress`` returned.
        frontier: of ``ts.frontier``; without it, only the rules that the search met are drawn.

    Returns:
        The axes.

    Raises:
        ArgumentError: the grid has more than two axes; take a section.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import rule_plot
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "1%", classes=["linear index"])
        >>> drawn = ts.tessellate(solution.mdp, rule)
        >>> axes = rule_plot(Figure().subplots(1, 2), ts.tessellate(solution), drawn, rule)
    """
    left, right = axes
    policy_map(left, keep_used_actions(drawn))
    boundary_lines(left, optimal, linewidths=2.6, colors="white")
    boundary_lines(left, optimal, linewidths=1.2, colors=LINE_COLOUR, linestyles=(0, (3, 2)))
    left.set_title("the rule (colours), the optimal boundary (dashed)")
    frontier_plot(right, rule.frontier if frontier is None else frontier, chosen=rule)
    return axes


def keep_used_actions(tessellation: Tessellation) -> Tessellation:
    """The same without actions that no state takes, so that colours are far apart."""
    used, table = np.unique(tessellation.table, return_inverse=True)
    actions = tuple(tessellation.actions[k] for k in used)
    table = table.reshape(tessellation.grid.shape).astype(np.int32)
    return build_tessellation(
        tessellation.grid, actions, tessellation.action_name, table, None, tessellation.name
    )


def rule_map(axes: Axes, optimal: Tessellation, rule: Tessellation) -> Axes:
    """Draw the boundary of a rule, dashed, over the map of the optimal policy.

    Args:
        axes: of matplotlib.
        optimal: the tessellation of the optimal policy.
        rule: the tessellation of the rule: ``ts.tessellate(mdp, rule)``.

    Returns:
        The axes.

    Raises:
        ArgumentError: the grid has more than two axes; take a section.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import rule_map
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.tessellate(solution.mdp, lambda queue: np.where(queue < 20, 1, 0))
        >>> axes = rule_map(Figure().subplots(), ts.tessellate(solution), rule)
    """
    policy_map(axes, optimal)
    boundary_lines(axes, rule, linewidths=2.4, colors="white")
    boundary_lines(axes, rule, linewidths=1.4, colors=LINE_COLOUR, linestyles=(0, (4, 1.6)))
    axes.set_title("the rule (dashed) over the optimal policy")
    return axes


def difference_map(axes: Axes, difference: Difference) -> Axes:
    """Draw the states in which two policies differ, by what the difference is worth there.

    States that do not change are grey.

    Args:
        axes: of matplotlib.
        difference: what ``ts.diff`` returned.

    Returns:
        The axes.

    Raises:
        ArgumentError: the grid has more than two axes; take a section.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import difference_map
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> change = ts.diff(solution.mdp, solution, lambda queue: np.where(queue < 20, 1, 0))
        >>> axes = difference_map(Figure().subplots(), change)
    """
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
    """Draw loss against parameters: the least loss of all as steps, and every rule as a point.

    Classes that reach the least loss somewhere have marks of their own. Rules that lose nothing are
    drawn at 0, the foot of the axis.

    Args:
        axes: of matplotlib.
        frontier: of ``ts.frontier``, or ``rule.frontier``.
        chosen: a rule to mark with a ring.

    Returns:
        The axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import frontier_plot
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "1%", classes=["linear index"])
        >>> axes = frontier_plot(Figure().subplots(), rule.frontier, rule)
    """
    losses = [point.loss for point in frontier.all_points if point.loss > 0]
    lowest = 10 ** np.floor(np.log10(min(losses, default=1.0) / 2))
    steps = {"where": "post", "linewidth": 1.4, "color": LINE_COLOUR}
    axes.step(*_place_points(frontier.points, lowest), label="least of all", zorder=2, **steps)
    dots = {"linestyle": "none", "marker": ".", "markersize": 4, "color": "0.75", "zorder": 1}
    others = _place_points(frontier.all_points, lowest)
    axes.plot(*others, label="other rules", clip_on=False, **dots)
    for i, kind in enumerate(dict.fromkeys(point.kind for point in frontier.points)):
        places = _place_points((p for p in frontier.points if p.kind == kind), lowest)
        marks = {"marker": CLASS_MARKERS[i % len(CLASS_MARKERS)], "markersize": 5, "zorder": 3}
        axes.plot(*places, label=kind, linestyle="none", clip_on=False, **marks)
    if chosen is not None:
        _draw_ring(axes, frontier, chosen, lowest)
    largest = max((point.size for point in frontier.all_points), default=1)
    _set_log_axes(axes, largest, lowest, max(losses, default=1.0))
    axes.set_title("loss of rules, by size")
    axes.legend(frameon=False, fontsize="small", **LEGEND_POSITION)
    return axes


def _place_points(points: Iterable[FrontierPoint], lowest: float) -> tuple[list, list]:
    """Sizes, and losses of at least the lowest place of the axis."""
    sizes_losses = [(point.size, max(point.loss, lowest)) for point in points]
    return [size for size, _ in sizes_losses], [loss for _, loss in sizes_losses]


def tradeoff_plot(axes: Axes, tradeoff: Tradeoff) -> Axes:
    """Draw the proven bound as steps, and policies as points.

    Between two levels no policy is better than the bound of the less demanding one.

    Args:
        axes: of matplotlib.
        tradeoff: what ``ts.tradeoff`` returned.

    Returns:
        The axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from tessella.plot import tradeoff_plot
        >>> shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
        >>> curve = ts.tradeoff(shop, "cost", "fill_rate", points=[0.8, 0.9])
        >>> axes = tradeoff_plot(Figure().subplots(), curve)
    """
    is_cost = tradeoff.objective == "cost"
    points = sorted(tradeoff.points, key=lambda p: p.level, reverse=tradeoff.better == "less")
    bounds = [(p.level, p.low if is_cost else p.high) for p in points]
    label = f"no policy {'costs less' if is_cost else 'earns more'}"
    line = {"where": "post", "color": LINE_COLOUR, "linewidth": 1.2, "label": label}
    axes.step(*zip(*bounds, strict=True), **line)
    found = [(p.value, p.objective) for p in points]
    dots = {"marker": "o", "markersize": 4, "linestyle": "none", "label": "policies without draws"}
    axes.plot(*zip(*found, strict=True), **dots)
    axes.set(xlabel=tradeoff.measure, ylabel=tradeoff.objective)
    axes.legend(frameon=False, fontsize="small")
    return axes


def _draw_ring(axes: Axes, frontier: Frontier, rule: Rule, lowest: float) -> None:
    """Ring a rule at its size and loss."""
    same = [p.loss for p in frontier.all_points if (p.kind, p.size) == (rule.kind, rule.size)]
    losses = same or [p.loss for p in rule.frontier.all_points if p.kind == rule.kind]
    loss = max(min(losses, default=lowest), lowest)
    ring = {"marker": "o", "markersize": 12, "fillstyle": "none", "linestyle": "none"}
    axes.plot([rule.size], [loss], color=LINE_COLOUR, label="this rule", zorder=9, **ring)


def _set_log_axes(axes: Axes, largest: int, lowest: float, max_loss: float) -> None:
    """Logarithmic axes, the lowest place of which is 0."""
    axes.set(xscale="log", yscale="log", xlabel="parameters", ylabel="loss")
    axes.set_xticks([n for n in SIZE_TICKS if n <= 1.2 * largest])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")
    decades = np.arange(np.log10(lowest), np.floor(np.log10(max_loss)) + 1)
    decades = decades[:: -(-len(decades) // MAX_DECADE_LABELS)]
    axes.set_yticks(10.0**decades, ["0", *(f"$10^{{{k:.0f}}}$" for k in decades[1:])])
    axes.set_ylim(bottom=lowest)
    axes.minorticks_off()
