"""The figures of a study: each draws itself for a page or for one column, and describes itself.

The narrow form has the width of a column of a two-column paper and text of 8 points; phones show it
too. Boundary methods are drawn solid in blues and greens, value-based ones dashed in warm colours,
references in greys; every method has its own marker, so that no reader depends on colour.

Figure 3   policy error given the margin, for each family and group of methods
Figure 4   policy error against the number of labels or updates, on one problem
Figure 5   final policy error of every method in every problem
Figure A1  final policy error of every seed, on one problem
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import NDArray

from tessella.paper.derived_numbers import (
    COST_UNIT,
    TABULAR_METHODS,
    Effect,
    bootstrap,
    error_curves,
    error_decays,
    explain_first_action,
    final_errors,
    final_runs,
    format_effect,
    format_range,
    low_margin_shares,
    mean_costs,
    method_title,
    select_runs,
    spread_over_seeds,
)
from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.plot import margin_map, small_multiples, value_map
from tessella.plot.frame import boundary_lines
from tessella.plot.maps import draw_legends
from tessella.tessellation import Tessellation

WIDE_INCHES = 7.0  # width of a figure on a page
NARROW_INCHES = 3.4  # width of a figure in a column
FIGURE_STYLE: dict[Any, Any] = {
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
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "grid.color": "0.88",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "svg.hashsalt": "tessella",
}
COLUMN_STYLE: dict[Any, Any] = FIGURE_STYLE | {
    **{f"{part}.labelsize": 8 for part in ("xtick", "ytick")},
    **{"axes.titlesize": 8, "legend.fontsize": 8},
}
MARGIN_BINS = 10  # bins of about equally many states
COLOUR_MIN_ERROR = 1e-4  # errors below this share the lightest colour
DARK_CELL_MIN_ERROR = 0.05  # errors above this are written in white
GROUP_TITLES = {"boundary": "boundary methods", "value": "value-based methods"}
OVERLAP_OFFSET_FACTOR = 1.16  # factor between methods that would be drawn on one another
QUEUE_ACTIONS = ("reject", "admit")  # of the paper's indices 0 and 1
MAX_LABEL_LINES = 14  # lines of text in the height of a panel
LABEL_SPACE_FACTOR = 100.0  # from the largest cost to the end of its axis: space for names
SHORT_TITLES = {
    **{"linear": "Linear", "neural": "Neural", "margin": "Margin", "local": "Local"},
    **{"double_q": "Double Q", "fitted_q": "Fitted Q", "tabular_q": "Tabular Q"},
    **{"value_iteration_2": "2 sweeps", "value_iteration_4": "4 sweeps"},
    **{"tabular_q_100": "Tabular Q × 100", "fitted_q_tuned": "Fitted, tuned"},
}
ERROR_DIGITS = 2  # decimals of a policy error in percent


@dataclass(frozen=True)
class MethodStyle:
    """How one method is drawn."""

    colour: str
    marker: str
    line: str
    width: float = 1.3

    def marker_options(self, size: float = 4.5) -> dict[str, Any]:
        is_small_marker = self.marker in "PX*<>"
        return {
            "color": self.colour,
            "marker": self.marker,
            "markersize": size + 1.8 * is_small_marker,
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
        }

    def line_options(self, size: float = 4.5) -> dict[str, Any]:
        return {**self.marker_options(size), "linestyle": self.line, "linewidth": self.width}


METHOD_STYLES = {
    "linear": MethodStyle("#4fa3d9", "o", "-"),
    "neural": MethodStyle("#08519c", "s", "-"),
    "margin": MethodStyle("#1b9e77", "D", "-"),
    "local": MethodStyle("#66c2a5", "v", "-"),
    # Wider: the two Q-learners nearly agree, and this one is drawn first.
    "double_q": MethodStyle("#b2182b", "^", "--", 2.4),
    "fitted_q": MethodStyle("#e08214", "P", "--"),
    "tabular_q": MethodStyle("#d6609a", "X", "--"),
    "value_iteration_2": MethodStyle("#969696", "<", ":"),
    "value_iteration_4": MethodStyle("#636363", ">", ":"),
    "tabular_q_100": MethodStyle("#7a4b66", "X", ":"),
    "fitted_q_tuned": MethodStyle("#8a6d3b", "P", ":"),
    "exact_table": MethodStyle("#111111", "*", ":"),
}
DEFAULT_STYLE = MethodStyle("#54278f", "h", "-.")


def get_style(method: str) -> MethodStyle:
    return METHOD_STYLES.get(method, DEFAULT_STYLE)


def make_figure(narrow: bool, wide_height: float, narrow_height: float) -> Figure:
    """An empty figure, of a page's width or a column's."""
    size = (NARROW_INCHES, narrow_height) if narrow else (WIDE_INCHES, wide_height)
    return Figure(figsize=size, layout="constrained")


def make_panels(
    narrow: bool, count: int, wide_height: float, narrow_height: float, **options: Any
) -> tuple[Figure, NDArray]:
    """A figure of ``count`` axes, side by side on a page, one above the other in a column."""
    figure = make_figure(narrow, wide_height, narrow_height)
    shape = (count, 1) if narrow else (1, count)
    return figure, figure.subplots(*shape, squeeze=False, **options).ravel()


def draw_legend_below(figure: Figure, narrow: bool) -> None:
    """One legend for all axes, below them."""
    handle_by_label: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        handle_by_label |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(handle_by_label.values()),
        list(handle_by_label),
        loc="outside lower center",
        ncols=2 if narrow else 4,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.4,
    )


def draw_policies(results: PaperResults, narrow: bool) -> Figure:
    """Every optimal policy, by family; the legends use the first free place."""
    families: dict[str, list[Tessellation]] = {}
    for label, tessellation in results.tessellations.items():
        family = results.family(label)
        if family == "queue":
            tessellation = replace(tessellation, actions=QUEUE_ACTIONS, action_name="arrivals")
        families.setdefault(family, []).append(tessellation)
    columns = 2 if narrow else 4
    # One place more than maps, for the legends.
    rows = [-(-(len(maps) + (i == 0)) // columns) for i, maps in enumerate(families.values())]
    figure = make_figure(narrow, 0.2 + 1.75 * sum(rows), 0.2 + 1.6 * sum(rows))
    axes_grid = np.atleast_2d(figure.subplots(sum(rows), columns, squeeze=False))
    first_row = 0
    family_examples = []
    for count, maps in zip(rows, families.values(), strict=True):
        block = axes_grid[first_row : first_row + count].ravel()
        small_multiples(block, maps, legend=False)
        family_examples.append(maps[0])
        first_row += count
    draw_legends(axes_grid[rows[0] - 1, columns - 1], family_examples)
    _hide_inner_labels(axes_grid, rows)
    return figure


def _hide_inner_labels(axes_grid: np.ndarray, rows: list[int]) -> None:
    """Remove the labels between maps of one family, which share their axes."""
    for axes in axes_grid[:, 1:].ravel():
        axes.set_ylabel("")
        axes.tick_params(labelleft=False)
    inner_rows = np.setdiff1d(np.arange(len(axes_grid)), np.cumsum(rows) - 1)
    for axes in axes_grid[inner_rows].ravel():
        axes.set_xlabel("")
        axes.tick_params(labelbottom=False)


def describe_policies(results: PaperResults) -> str:
    parts = []
    for family in results.families():
        labels = results.problems_of(family)
        geometries = [results.geometry[label] for label in labels]
        regions = format_range([g.region_components for g in geometries], "")
        parts.append(
            f"{FAMILY_TITLES[family]}: {regions} connected regions in each problem, and at most "
            f"{max(g.boundary_length for g in geometries):.1%} of neighbouring states act "
            "differently"
        )
        same: dict[bytes, list[str]] = {}
        for label in labels:
            same.setdefault(results.tessellations[label].table.tobytes(), []).append(label)
        parts += [f"{' = '.join(group)}: the same map" for group in same.values() if group[1:]]
    return ". ".join(parts) + ". Observation noise does not enter the optimal policy."


def draw_landscape(results: PaperResults, narrow: bool) -> Figure:
    solution = results.solutions[results.representative]
    figure, (value_axes, margin_axes) = make_panels(narrow, 2, 2.8, 5.4)
    tessellation = results.tessellations[results.representative]
    value_map(value_axes, solution)
    boundary_lines(value_axes, tessellation, linewidths=2.0, colors="white")
    boundary_lines(value_axes, tessellation, linewidths=1.0)
    margin_map(margin_axes, tessellation)
    return figure


def describe_landscape(results: PaperResults) -> str:
    solution = results.solutions[results.representative]
    value = solution.value
    margin = solution.margin
    low = np.quantile(margin, 0.1)
    boundary = results.tessellations[results.representative].boundary
    boundary_share = boundary[margin <= low].mean()
    return (
        f"{results.representative}: the value falls from {value.max():,.1f} to {value.min():,.1f} "
        f"across the whole grid, while the margin is small only in a band: of the tenth of states "
        f"with the smallest margins (at most {low:.2g}), {boundary_share:.0%} touch the boundary, "
        "which is drawn in both panels."
    )


def draw_margins(results: PaperResults, narrow: bool) -> Figure:
    families = results.families()
    figure = make_figure(narrow, 4.4, 4.6)
    axes_grid = figure.subplots(
        len(GROUP_TITLES), len(families), squeeze=False, sharex="col", sharey="row"
    )
    for row, group in zip(axes_grid, GROUP_TITLES, strict=True):
        for axes, family in zip(row, families, strict=True):
            _draw_margin_curves(axes, results, family, results.finished_methods(group), narrow)
        row[0].set_ylabel(f"policy error,\n{GROUP_TITLES[group]}")
        row[0].set_ylim(bottom=0)
    for axes, family in zip(axes_grid[0], families, strict=True):
        axes.set_title(FAMILY_TITLES[family])
    for axes in axes_grid[-1]:
        axes.set_xlabel("mean margin" if narrow else "mean margin of a tenth of the states")
    draw_legend_below(figure, narrow)
    return figure


def _draw_margin_curves(
    axes: Axes, results: PaperResults, family: str, methods: Sequence[str], narrow: bool
) -> None:
    """A method is drawn a little to the right of the one before, so that none hides another."""
    margins, bins = bin_margins(results, family)
    places = np.arange(MARGIN_BINS)
    for k, method in enumerate(methods):
        errors = pool_errors(results, bins, method)
        if errors:
            rates = np.array([e.mean for e in errors])
            ends = np.abs(np.array([[e.low, e.high] for e in errors]).T - rates)
            style = replace(get_style(method), width=1.0).line_options(3.5)
            label = method_title(method)
            axes.errorbar(
                places + 0.16 * (k - 1), rates, ends, label=label, elinewidth=0.9, **style
            )
    ticks = places[:: 3 if narrow else 1]
    axes.set_xticks(ticks, [f"{margins[k]:.2g}" for k in ticks])
    axes.grid(visible=True)


def bin_margins(results: PaperResults, family: str) -> tuple[NDArray, dict[str, NDArray]]:
    """Mean margin of each bin, and the bin of each state by problem.

    Bins have about equally many states of the family.
    """
    labels = results.problems_of(family)
    margins = [results.solutions[label].margin.ravel() for label in labels]
    pooled = np.concatenate(margins)
    edges = np.quantile(pooled, np.linspace(0, 1, MARGIN_BINS + 1)[1:-1])
    bins = [np.searchsorted(edges, margin) for margin in margins]
    sums, states = (
        np.bincount(np.concatenate(bins), weights, MARGIN_BINS) for weights in (pooled, None)
    )
    return sums / np.maximum(states, 1), dict(zip(labels, bins, strict=True))


def pool_errors(results: PaperResults, bins: dict[str, NDArray], method: str) -> list[Effect]:
    """Policy error in each bin over all seeds and problems; none where the method has no runs."""
    counts: dict[int, Any] = {}  # by seed: (errors, states) of each bin
    for label, bin_of in bins.items():
        states = np.bincount(bin_of, minlength=MARGIN_BINS)
        records = results.final_records(label, method)
        for record, wrong in zip(records, results.wrong_actions(label, method), strict=True):
            errors = np.bincount(bin_of, wrong, MARGIN_BINS)
            counts[record.spec.seed] = counts.get(record.spec.seed, 0) + np.stack([errors, states])
    by_seed = np.stack([*counts.values()]) if counts else np.zeros((0, 2, 0))

    def rate(k: int, drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        errors, states = by_seed[drawn, :, k].sum(axis=1).T
        return errors / np.maximum(states, 1)

    return [bootstrap(partial(rate, k), len(by_seed)) for k in range(by_seed.shape[2])]


def describe_margins(results: PaperResults) -> str:
    """Where the errors of either group are."""
    shares = low_margin_shares(results)
    parts = []
    for family in results.families():
        group_texts = []
        for group, title in GROUP_TITLES.items():
            runs = [(family, method) for method in results.finished_methods(group)]
            group_shares = [shares[run] for run in runs if run in shares]
            if group_shares:
                group_texts.append(_format_shares(group_shares, title))
        parts.append(f"{FAMILY_TITLES[family]}: {', '.join(group_texts) or 'no finished runs'}")
    return (
        "Each point is a tenth of the family's states, ordered by margin; bars are 95 % bootstrap "
        "intervals over seeds. Methods are drawn side by side. Share "
        "of all errors on the quarter of states with the smallest margins (25% if margins did not "
        f"matter). {'; '.join(parts)}."
    )


def _format_shares(shares: list[float], title: str) -> str:
    """``boundary methods 60% to 70%``; the share of a method without errors is nan."""
    known_shares = [share for share in shares if not np.isnan(share)]
    if not known_shares:
        return f"{title} make no errors"
    return f"{title} {format_range(known_shares, '.0%')}"


def draw_scaling(results: PaperResults, narrow: bool) -> Figure:
    figure = make_figure(narrow, 3.6, 4.0)
    axes = figure.subplots()
    states = results.solutions[results.representative].mdp.n_states
    for method in results.finished_methods("boundary", "value"):
        runs = error_curves(results, method, results.representative).dropna(axis=1)
        if runs.empty:
            continue
        # Half an error in all runs: a place on the logarithmic axis for none.
        floor = 0.5 / (states * runs.shape[1])
        errors = [
            bootstrap(lambda drawn, row=row: row[drawn].mean(axis=-1), row.size)
            for row in runs.to_numpy(dtype=float)
        ]
        mean, low, high = (
            np.maximum([getattr(e, part) for e in errors], floor)
            for part in ("mean", "low", "high")
        )
        style = get_style(method)
        axes.fill_between(runs.index, low, high, color=style.colour, alpha=0.2, linewidth=0)
        axes.plot(runs.index, mean, label=method_title(method), **style.line_options())
    label = "labels (boundary methods) or" + ("\n" if narrow else " ") + "transitions (baselines)"
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="policy error")
    sizes = results.study.sizes[:: 2 if narrow else 1]
    axes.set_xticks(list(sizes), [f"{n:,}" for n in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_title(results.representative)
    axes.grid(visible=True)
    draw_legend_below(figure, narrow)
    return figure


def describe_scaling(results: PaperResults) -> str:
    powers = {m: p for m, p in error_decays(results).items() if not np.isnan(p.mean)}
    parts = []
    for group, title in GROUP_TITLES.items():
        methods = [m for m in results.finished_methods(group) if m in powers]
        methods.sort(key=lambda method: powers[method].mean, reverse=True)
        listed = ", ".join(f"{method_title(m)} {format_effect(powers[m], '')}" for m in methods)
        if methods:
            parts.append(f"for {title}: {listed}")
    caption = "Mean over seeds; bands are its 95 % bootstrap intervals."
    if not parts:
        return f"{caption} No method has errors at two sizes or more, so no power is known."
    remark = _describe_rising_errors(results, powers)
    return f"{caption} The error goes about as n^-p, with p {'; '.join(parts)}.{remark}"


def _describe_rising_errors(results: PaperResults, powers: dict[str, Effect]) -> str:
    """A remark about methods whose error rises with n; empty where there are none."""
    rising = {method for method, power in powers.items() if power.mean < 0}
    if not rising:
        return ""
    reason = "." if rising.isdisjoint(TABULAR_METHODS) else explain_first_action(results)
    return f" Where p is negative the error rises{reason}"


def draw_heatmap(results: PaperResults, narrow: bool) -> Figure:
    table, spread = (final_errors(results, statistic) for statistic in ("mean", "std"))
    names = [method_title(m) for m in table.index]
    if narrow:
        table, spread = table.T, spread.T
    figure = make_figure(narrow, 0.9 + 0.38 * len(table), 1.5 + 0.36 * len(table))
    axes = figure.subplots()
    clipped = np.clip(table.to_numpy(), COLOUR_MIN_ERROR, 1)
    image = axes.imshow(clipped, norm=LogNorm(COLOUR_MIN_ERROR, 1), cmap="YlOrRd", aspect="auto")
    rows, columns = (list(table.index), names) if narrow else (names, list(table.columns))
    axes.set_xticks(
        range(len(columns)),
        columns,
        rotation=60 if narrow else 35,
        ha="right",
        rotation_mode="anchor",
    )
    axes.set_yticks(range(len(rows)), rows)
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        _write_cell(axes, i, j, value, spread.iloc[i, j])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _draw_dividers(axes, results, narrow)
    if not narrow:
        bar = figure.colorbar(image, ax=axes, extend="min", shrink=0.9, pad=0.015)
        bar.set_label("policy error, %")
        bar.set_ticks([1e-4, 1e-3, 1e-2, 1e-1, 1], labels=["0.01", "0.1", "1", "10", "100"])
    return figure


def _write_cell(axes: Axes, row: int, column: int, error: float, deviation: float) -> None:
    """An error in percent, with its deviation below where that is known and not zero."""
    colour = "white" if error > DARK_CELL_MIN_ERROR else "0.1"
    options: dict[str, Any] = {"ha": "center", "color": colour}
    text = _format_percent(error)
    if not deviation > 0:
        axes.text(column, row, text, va="center", fontsize=8, **options)
        return
    axes.text(column, row, text, va="bottom", fontsize=8, **options)
    deviation_text = f"±{_format_percent(deviation)}"
    axes.text(column, row + 0.05, deviation_text, va="top", fontsize=7, **options)


def _format_percent(share: float) -> str:
    if np.isnan(share):
        return "–"
    return f"{100 * share:.{ERROR_DIGITS}f}" if share else "0"


def _draw_dividers(axes, results: PaperResults, narrow: bool) -> None:
    """White lines between the groups of methods and between the families."""
    methods = [len(results.planned_methods("boundary"))]
    families = np.cumsum([len(results.problems_of(family)) for family in results.families()])[:-1]
    horizontal, vertical = (families, methods) if narrow else (methods, families)
    for position in horizontal:
        axes.axhline(position - 0.5, color="white", linewidth=3)
    for position in vertical:
        axes.axvline(position - 0.5, color="white", linewidth=3)


HEATMAP_CAPTION = (
    "Policy error in percent at the largest sample size: mean ± standard deviation over seeds."
)


def describe_heatmap(results: PaperResults) -> str:
    table = final_errors(results)
    ours = table.loc[results.planned_methods("boundary")]
    theirs = table.loc[results.planned_methods("value")]
    complete = table.columns[table.notna().all()]
    if ours.empty or theirs.empty or complete.empty:
        return HEATMAP_CAPTION
    wins = (ours[complete].max() < theirs[complete].min()).sum()
    restriction = (
        " in which every method has finished runs" if len(complete) < table.shape[1] else ""
    )
    boundary_errors = ours.stack()
    method, problem = boundary_errors.idxmax()
    return (
        f"{HEATMAP_CAPTION} In {wins} of {len(complete)} problems{restriction} the worst boundary "
        "method errs less than the best value-based one. The largest boundary error is "
        f"{boundary_errors.max():.3f} "
        f"({method_title(method)} on {problem}), the smallest value-based one "
        f"{theirs.min().min():.3f}."
    )


def draw_seeds(results: PaperResults, narrow: bool) -> Figure:
    runs = final_runs(results)
    figure, (errors, spread) = make_panels(narrow, 2, 3.0, 5.4, sharex=True)
    _draw_points(errors, runs)
    smallest = min((r[r > 0].min(initial=1.0) for r in runs.values()), default=1.0)
    if any((r == 0).any() for r in runs.values()):
        errors.set_yscale("symlog", linthresh=smallest, linscale=0.3)
        errors.set_ylim(-smallest / 4, 1)
    else:
        errors.set_yscale("log")
    errors.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    errors.set_ylabel("policy error")
    errors.set_title(f"{results.representative}: every seed, and the mean")
    _draw_points(spread, {method: r - r.mean() for method, r in runs.items()})
    spread.set_ylabel("policy error minus the mean")
    spread.set_title("deviation from each method's mean")
    return figure


def _draw_points(axes: Axes, runs: dict[str, NDArray]) -> None:
    for position, (method, values) in enumerate(runs.items()):
        colour = get_style(method).colour
        # Seeds next to each other in their order, the mean to their right: nothing is hidden.
        offsets = np.linspace(-0.34, 0.16, len(values)) if len(values) > 1 else np.zeros(1)
        axes.plot(position + offsets, values, ".", markersize=3.5, color=colour)
        axes.hlines(values.mean(), position + 0.22, position + 0.42, color="0.1", linewidth=1.6)
    names = [method_title(method) for method in runs]
    axes.set_xticks(range(len(runs)), names, rotation=35, ha="right", rotation_mode="anchor")
    axes.grid(visible=True, axis="y")


def describe_seeds(results: PaperResults) -> str:
    spread = spread_over_seeds(results)
    if not spread:
        return "One seed only: the spread is unknown."
    listed = ", ".join(f"{method_title(m)} {s:.4f}" for m, s in spread.items())
    return f"Standard deviation over seeds on {results.representative}: {listed}."


def draw_cost(results: PaperResults, narrow: bool) -> Figure:
    families = results.families()
    figure, axes_list = make_panels(narrow, len(families), 3.6, 0.4 + 3.1 * len(families))
    table = mean_costs(results)
    for axes, family in zip(axes_list, families, strict=True):
        _draw_family(axes, results, select_runs(table, family=family))
        axes.set_title(FAMILY_TITLES[family])
        axes.set_xlabel("state-action evaluations")
    axes_list[0].set_ylabel("mean loss")
    return figure


def _draw_family(axes: Axes, results: PaperResults, table: Any) -> None:
    """Every method at its largest n, in two clusters: cheap ones, and those of an exact solve."""
    points = _final_costs(results, table)
    if not points:
        return
    costs, losses = np.array(list(points.values())).T
    positive = losses[losses > 0] if losses.any() else np.ones(1)
    floor = 10 ** np.floor(np.log10(positive.min()) - 0.5)  # where a loss of zero is drawn
    top = 3 * positive.max()
    middle = np.sqrt(costs.min() * costs.max())
    cheap = {method: point for method, point in points.items() if point[0] <= middle}
    costly = {method: point for method, point in points.items() if method not in cheap}
    _draw_cluster(axes, "samples or\na few sweeps", cheap, (floor, top))
    _draw_cluster(axes, "exact solve, or\n100 × samples", costly, (floor, top))
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(costs.min() / 2, LABEL_SPACE_FACTOR * costs.max())
    axes.set_ylim(floor / 2.5, top * (top / floor) ** 0.25)
    decades = np.arange(np.log10(floor) + 1, np.log10(top))
    decades = decades[:: -(-len(decades) // 5)]
    axes.set_yticks([floor, *10.0**decades], ["0", *(f"$10^{{{k:.0f}}}$" for k in decades)])
    axes.set_xticks(10.0 ** np.arange(np.ceil(np.log10(costs.min())), np.log10(costs.max())))
    axes.axhline(2.5 * floor, color="0.6", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.minorticks_off()
    axes.grid(visible=True, axis="y")


def _final_costs(results: PaperResults, table: Any) -> dict[str, tuple[float, float]]:
    """Cost and mean loss of each method with runs at its largest n."""
    points = {}
    for method in results.finished_methods("value", "reference", "boundary"):
        rows = select_runs(table, method=method, n=results.planned_runs[method].n)
        if len(rows):
            points[method] = (float(rows["cost"].iloc[0]), float(rows["mean_loss"].iloc[0]))
    return points


def _draw_cluster(
    axes: Axes, title: str, points: dict[str, tuple[float, float]], span: tuple[float, float]
) -> None:
    """Methods of similar cost, with their names; those of one cost are set apart."""
    if not points:
        return
    floor, top = span
    seen: Counter[float] = Counter()
    places = []
    for cost, loss in points.values():
        places.append((cost * OVERLAP_OFFSET_FACTOR ** seen[cost], max(loss, floor)))
        seen[cost] += 1
    for method, place in zip(points, places, strict=True):
        axes.plot(*place, linestyle="", **get_style(method).marker_options(5.5))
    label_points(axes, [SHORT_TITLES.get(m, method_title(m)) for m in points], places, span)
    left = min(x for x, _ in places)
    axes.axvspan(left / 1.4, 1.4 * max(x for x, _ in places), color="0.94", zorder=0)
    axes.text(left / 1.3, 1.5 * top, title, fontweight="bold", va="bottom")


def label_points(
    axes: Axes,
    titles: Sequence[str],
    places: Sequence[tuple[float, float]],
    span: tuple[float, float],
) -> None:
    """Names to the right of a cluster, in the order of its points and a line apart."""
    order = sorted(range(len(places)), key=lambda i: places[i][1])
    low, high = np.log10(span)
    gap = (high - low) / MAX_LABEL_LINES
    heights = np.log10([places[i][1] for i in order])
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + gap)
    heights = np.minimum(heights, high - gap * np.arange(len(heights))[::-1])
    x = 1.6 * max(x for x, _ in places)
    line = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
    line["relpos"] = (0, 0.5)  # from the left end of a name, so that no line crosses one
    for i, height in zip(order, heights, strict=True):
        axes.annotate(titles[i], places[i], (x, 10**height), va="center", arrowprops=line)


def describe_cost(results: PaperResults) -> str:
    """For each family, the cheapest method that loses no more than the best boundary method."""
    table = mean_costs(results)
    parts = []
    for family in results.families():
        rows = table[table["family"] == family]
        ours = rows[rows["method"].isin(results.finished_methods("boundary"))]
        if ours.empty:
            continue
        best = ours.loc[ours["mean_loss"].idxmin()]
        cheaper = rows[(rows["cost"] < best["cost"]) & (rows["mean_loss"] <= best["mean_loss"])]
        text = (
            f"{FAMILY_TITLES[family]}: the best boundary policy ({method_title(best['method'])}) "
            f"loses {best['mean_loss']:.2g} on average and rests on {best['cost']:,.0f} evaluations"
        )
        if len(cheaper):
            cheapest = cheaper.loc[cheaper["cost"].idxmin()]
            text += (
                f"; {method_title(cheapest['method'])} loses no more with {cheapest['cost']:,.0f}, "
                f"{best['cost'] / cheapest['cost']:,.0f} times fewer"
            )
        else:
            text += "; nothing cheaper in this study loses as little"
        parts.append(text)
    scope = (
        "Every method at its largest n; points of one cost are drawn side by side, and losses of "
        "zero below the dashed line."
    )
    return " ".join([scope, COST_UNIT, *(f"{part}." for part in parts)])


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
