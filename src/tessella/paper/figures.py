"""The figures of a study: each draws itself, for a page or for a phone, and says what it shows.

Boundary methods are drawn solid in blues and greens, value-based ones dashed in warm colours,
references in greys; every method has its own mark, so that no reader depends on colour.

Figure 3   policy error given the margin, for each family
Figure 4   policy error against the number of labels or updates, on one problem
Figure 5   final policy error of every method in every problem
Figure A1  final policy error of every seed, on one problem
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import NDArray

from tessella.certificates.decisions import MarginError, count_errors_by_margin
from tessella.paper.derived_numbers import (
    COST_UNIT,
    error_curves,
    error_decays,
    final_errors,
    final_runs,
    format_range,
    low_margin_shares,
    mean_costs,
    method_title,
    spread_over_seeds,
)
from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.plot import legends, margin_map, small_multiples, value_map
from tessella.plot.maps import margin_error
from tessella.tessellation import Tessellation

WIDE_INCHES = 7.0  # width of a figure on a page
NARROW_INCHES = 3.7  # width of a figure on a phone
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
MARGIN_BINS = 10  # bins of about equally many states
LINEAR_SCALE_MAX_SHARE = 1e-3  # below this share the scale is linear, so that it includes zero
COLOUR_MIN_ERROR = 1e-4  # errors below this share the lightest colour
DARK_CELL_MIN_ERROR = 0.05  # errors above this are written in white
GROUP_TITLES = {"boundary": "boundary methods", "value": "value-based methods"}
OVERLAP_OFFSET_FACTOR = 1.17  # factor between methods that would be drawn on one another
LINEAR_SCALE_MAX_LOSS = 1e-3  # losses below this share the scale's linear part, with zero


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
    """An empty figure, of a page's width or a phone's."""
    size = (NARROW_INCHES, narrow_height) if narrow else (WIDE_INCHES, wide_height)
    return Figure(figsize=size, layout="constrained")


def make_panels(
    narrow: bool, count: int, wide_height: float, narrow_height: float, **options: Any
) -> tuple[Figure, NDArray]:
    """A figure of ``count`` axes, side by side on a page and one above the other on a phone."""
    figure = make_figure(narrow, wide_height, narrow_height)
    shape = (count, 1) if narrow else (1, count)
    return figure, figure.subplots(*shape, squeeze=False, **options).ravel()


def draw_legend_below(figure: Figure, narrow: bool) -> None:
    """One legend for all axes, under them, also of what only some of them show."""
    handle_by_label: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        handle_by_label = dict(zip(labels, handles, strict=True)) | handle_by_label
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
        families.setdefault(results.family(label), []).append(tessellation)
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
    legends(axes_grid[rows[0] - 1, columns - 1], family_examples)
    _hide_inner_labels(axes_grid, rows)
    return figure


def _hide_inner_labels(axes_grid: np.ndarray, rows: list[int]) -> None:
    """Maps of one family share their axes."""
    for row in axes_grid:
        for axes in row[1:]:
            axes.set_ylabel("")
            axes.tick_params(labelleft=False)
    last_rows = np.cumsum(rows) - 1
    for row_index, row in enumerate(axes_grid):
        for column, axes in enumerate(row):
            has_axes_below = (
                row_index + 1 < len(axes_grid) and axes_grid[row_index + 1, column].axison
            )
            if row_index not in last_rows and has_axes_below:
                axes.set_xlabel("")
                axes.tick_params(labelbottom=False)


def describe_policies(results: PaperResults) -> str:
    parts = []
    for family in results.families():
        geometries = [g for label, g in results.geometry.items() if results.family(label) == family]
        regions = format_range([g.region_components for g in geometries], "")
        parts.append(
            f"{FAMILY_TITLES[family]}: {regions} connected regions in each problem, and at most "
            f"{max(g.boundary_length for g in geometries):.1%} of neighbouring states act "
            "differently"
        )
    return ". ".join(parts) + "."


def draw_landscape(results: PaperResults, narrow: bool) -> Figure:
    solution = results.solutions[results.representative]
    figure, (value_axes, margin_axes) = make_panels(narrow, 2, 2.8, 5.4)
    value_map(value_axes, solution)
    margin_map(margin_axes, results.tessellations[results.representative])
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
        f"with the smallest margins (at most {low:.2g}), {boundary_share:.0%} touch the boundary."
    )


def draw_margins(results: PaperResults, narrow: bool) -> Figure:
    families = results.families()
    figure, axes_list = make_panels(narrow, len(families), 3.1, 0.9 + 2.4 * len(families))
    for axes, family in zip(axes_list, families, strict=True):
        for method in results.finished_methods("boundary", "value"):
            curve = pool_errors(results, family, method)
            if curve.states.any():
                options = get_style(method).line_options()
                margin_error(axes, curve, **options, label=method_title(method))
        axes.set_yscale("symlog", linthresh=LINEAR_SCALE_MAX_SHARE, linscale=0.4)
        axes.set_yticks([0, 1e-3, 1e-2, 1e-1, 1], ["0", "0.001", "0.01", "0.1", "1"])
        axes.set_ylim(-2e-4, 1.3)
        axes.set_title(FAMILY_TITLES[family])
        axes.set_ylabel("policy error in the bin")
        axes.grid(visible=True)
    draw_legend_below(figure, narrow)
    return figure


def pool_errors(results: PaperResults, family: str, method: str) -> MarginError:
    """Errors of all seeds and problems of the family, in bins of about equally many states."""
    margins = []
    wrong = []
    for label in results.problems_of(family):
        errors = results.wrong_actions(label, method)
        margin = results.solutions[label].margin.ravel()
        margins.append(np.tile(margin, len(errors)))
        wrong.append(errors.ravel())
    margin = np.concatenate(margins)
    return count_errors_by_margin(margin, np.concatenate(wrong), MARGIN_BINS, method_title(method))


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
        "Share of all errors that fall on the quarter of states with the smallest margins (25% if "
        f"margins did not matter). {'; '.join(parts)}."
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
    smallest = 1.0
    for method in results.finished_methods("boundary", "value"):
        runs = error_curves(results, method, results.representative)
        if runs.empty:
            continue
        n = runs.index.to_numpy()
        mean = runs.mean(axis=1).to_numpy()
        low = runs.quantile(0.1, axis=1)
        high = runs.quantile(0.9, axis=1)
        style = get_style(method)
        axes.fill_between(n, low, high, color=style.colour, alpha=0.15, linewidth=0)
        axes.plot(n, mean, label=method_title(method), **style.line_options())
        smallest = min(smallest, mean[mean > 0].min(initial=1.0))
    axes.set(xscale="log", yscale="log", xlabel="labels, or Bellman updates", ylabel="policy error")
    axes.set_ylim(bottom=smallest / 2)
    axes.set_xticks(list(results.study.sizes), [f"{n:,}" for n in results.study.sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_title(results.representative)
    axes.grid(visible=True)
    draw_legend_below(figure, narrow)
    return figure


def describe_scaling(results: PaperResults) -> str:
    powers = {m: p for m, p in error_decays(results).items() if not np.isnan(p)}
    parts = []
    for group, title in GROUP_TITLES.items():
        methods = [m for m in results.finished_methods(group) if m in powers]
        methods.sort(key=lambda method: (powers[method], method_title(method)), reverse=True)
        if methods:
            listed = ", ".join(f"{method_title(m)} {powers[m]:.2f}" for m in methods)
            parts.append(f"for {title}: {listed}")
    caption = "Mean over seeds; bands hold the middle 80% of them."
    if not parts:
        return f"{caption} No method has errors at two sizes or more, so none tells how they fall."
    remark = " Where p is negative the error rises." if min(powers.values()) < 0 else ""
    return f"{caption} The error goes about as n^-p, with p {'; '.join(parts)}.{remark}"


def draw_heatmap(results: PaperResults, narrow: bool) -> Figure:
    table = final_errors(results)
    names = [method_title(m) for m in table.index]
    if narrow:
        table = table.T
    figure = make_figure(narrow, 0.9 + 0.3 * len(table), 1.7 + 0.27 * len(table))
    axes = figure.subplots()
    clipped = np.clip(table.to_numpy(), COLOUR_MIN_ERROR, 1)
    image = axes.imshow(clipped, norm=LogNorm(COLOUR_MIN_ERROR, 1), cmap="YlOrRd", aspect="auto")
    rows, columns = (list(table.index), names) if narrow else (names, list(table.columns))
    axes.set_xticks(range(len(columns)), columns, rotation=55 if narrow else 35, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        colour = "white" if value > DARK_CELL_MIN_ERROR else "0.1"
        options = {"ha": "center", "va": "center", "fontsize": 6 if narrow else 6.8}
        axes.text(j, i, _format_error(value), color=colour, **options)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _draw_dividers(axes, results, narrow)
    bar = figure.colorbar(image, ax=axes, extend="min", shrink=0.9, pad=0.015)
    bar.set_label("policy error")
    bar.set_ticks([1e-4, 1e-3, 1e-2, 1e-1, 1], labels=["0.0001", "0.001", "0.01", "0.1", "1"])
    return figure


def _format_error(value: float) -> str:
    if np.isnan(value):
        return "–"
    if value < 5e-5:
        return "0"
    return f"{value:.4f}".lstrip("0") if value < 0.01 else f"{value:.3f}".lstrip("0")


def _draw_dividers(axes, results: PaperResults, narrow: bool) -> None:
    """White lines between the groups of methods and between the families."""
    methods = [len(results.planned_methods("boundary"))]
    families = np.cumsum([len(results.problems_of(family)) for family in results.families()])[:-1]
    horizontal, vertical = (families, methods) if narrow else (methods, families)
    for position in horizontal:
        axes.axhline(position - 0.5, color="white", linewidth=3)
    for position in vertical:
        axes.axvline(position - 0.5, color="white", linewidth=3)


def describe_heatmap(results: PaperResults) -> str:
    table = final_errors(results)
    ours = table.loc[results.planned_methods("boundary")]
    theirs = table.loc[results.planned_methods("value")]
    complete = table.columns[table.notna().all()]
    if ours.empty or theirs.empty or complete.empty:
        return "Mean policy error over seeds at the largest sample size."
    wins = (ours[complete].max() < theirs[complete].min()).sum()
    restriction = (
        " in which every method has finished runs" if len(complete) < table.shape[1] else ""
    )
    boundary_errors = ours.stack()
    method, problem = boundary_errors.idxmax()
    return (
        f"In {wins} of {len(complete)} problems{restriction} the worst boundary method errs less "
        f"than the best value-based one. The largest boundary error is {boundary_errors.max():.3f} "
        f"({method_title(method)} on {problem}), the smallest value-based one "
        f"{theirs.min().min():.3f}."
    )


def draw_seeds(results: PaperResults, narrow: bool) -> Figure:
    runs = final_runs(results)
    figure, (errors, spread) = make_panels(narrow, 2, 3.0, 5.2, sharex=True)
    _draw_points(errors, runs)
    smallest = min((r[r > 0].min(initial=1.0) for r in runs.values()), default=1.0)
    errors.set_yscale("symlog", linthresh=smallest, linscale=0.3)
    errors.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    errors.set_ylim(-smallest / 4, 1)
    errors.set_ylabel("policy error")
    errors.set_title(f"{results.representative}, every seed (bar: mean)")
    _draw_points(spread, {method: r - r.mean() for method, r in runs.items()})
    spread.set_ylabel("policy error minus its mean")
    spread.set_title("the same, around the mean")
    return figure


def _draw_points(axes: Axes, runs: dict[str, NDArray]) -> None:
    for position, (method, values) in enumerate(runs.items()):
        style = get_style(method)
        # Seeds next to each other in their order: no point hides another.
        offsets = np.linspace(-0.36, 0.36, len(values)) if len(values) > 1 else np.zeros(1)
        axes.plot(position + offsets, values, linestyle="", **style.marker_options(2.6))
        axes.hlines(
            values.mean(), position - 0.4, position + 0.4, color=style.colour, linewidth=1.2
        )
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
    figure, axes_list = make_panels(narrow, len(families), 3.4, 1.3 + 2.5 * len(families))
    table = mean_costs(results)
    for axes, family in zip(axes_list, families, strict=True):
        _draw_family(axes, results, table[table["family"] == family])
        axes.set_title(FAMILY_TITLES[family])
    draw_legend_below(figure, narrow)
    return figure


def _draw_family(axes: Axes, results: PaperResults, table: Any) -> None:
    boundary = results.finished_methods("boundary")
    for method in results.finished_methods("boundary", "value", "reference"):
        rows = table[table["method"] == method]
        if rows.empty:
            continue
        # All boundary methods rest on the same solve: drawn side by side, or they would hide.
        offset = OVERLAP_OFFSET_FACTOR ** boundary.index(method) if method in boundary else 1.0
        axes.plot(
            rows["cost"] * offset,
            rows["mean_loss"],
            label=method_title(method),
            **get_style(method).line_options(),
        )
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=LINEAR_SCALE_MAX_LOSS, linscale=0.4)
    axes.set_ylim(bottom=-LINEAR_SCALE_MAX_LOSS / 4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_xlabel("state-action evaluations behind the policy")
    axes.set_ylabel("mean loss")
    axes.grid(visible=True)


def describe_cost(results: PaperResults) -> str:
    """For each family: what is the cheapest way to lose less than the best boundary method?"""
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
    aside = "Boundary methods rest on one and the same solve and are drawn side by side."
    return " ".join([COST_UNIT, *(f"{part}." for part in parts), aside])


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
