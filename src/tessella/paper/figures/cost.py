"""Loss against all information that a method was given, in one unit; see ``mean_costs``."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tessella.paper.derived_numbers import COST_UNIT, mean_costs, method_title
from tessella.paper.figures.style import draw_legend_below, get_style, make_panels
from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults

OVERLAP_OFFSET_FACTOR = 1.17  # factor between methods that would be drawn on one another
LINEAR_SCALE_MAX_LOSS = 1e-3  # losses below this share the scale's linear part, with zero


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
