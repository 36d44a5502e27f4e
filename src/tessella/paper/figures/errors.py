"""Figures of policy errors.

Figure 3   policy error given the margin, for each family
Figure 4   policy error against the number of labels or updates, on one problem
Figure 5   final policy error of every method in every problem
Figure A1  final policy error of every seed, on one problem
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import NDArray

from tessella.certificates.error_by_margin import MarginError, count_errors_by_margin
from tessella.paper.derived_numbers import (
    error_curves,
    error_decays,
    final_errors,
    final_runs,
    format_range,
    low_margin_shares,
    method_title,
    spread_over_seeds,
)
from tessella.paper.figures.style import draw_legend_below, get_style, make_figure, make_panels
from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.plot.margin_error import margin_error

MARGIN_BINS = 10  # bins of about equally many states
LINEAR_SCALE_MAX_SHARE = 1e-3  # below this share the scale is linear, so that it includes zero
COLOUR_MIN_ERROR = 1e-4  # errors below this share the lightest colour
DARK_CELL_MIN_ERROR = 0.05  # errors above this are written in white
GROUP_TITLES = {"boundary": "boundary methods", "value": "value-based methods"}


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
