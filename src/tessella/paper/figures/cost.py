"""Loss against everything that a method was told, in one unit; see ``costs``."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tessella.paper.figures.looks import canvas, legend_below, look
from tessella.paper.published import FAMILIES
from tessella.paper.readings import UNIT, costs, title
from tessella.paper.results import Results

APART = 1.17  # factor between methods that would be drawn on one another
SMALLEST = 1e-3  # losses below this share the scale's linear part, with zero


def cost_figure(results: Results, narrow: bool) -> Figure:
    families = results.families()
    figure = canvas(narrow, 3.4, 1.3 + 2.5 * len(families))
    shape = (len(families), 1) if narrow else (1, len(families))
    places = figure.subplots(*shape, squeeze=False).ravel()
    table = costs(results)
    for axes, family in zip(places, families, strict=True):
        _panel(axes, results, table[table["family"] == family])
        axes.set_title(FAMILIES[family])
    legend_below(figure, narrow)
    return figure


def _panel(axes: Axes, results: Results, table: Any) -> None:
    boundary = results.group("boundary")
    for method in results.group("boundary", "value", "reference"):
        of = table[table["method"] == method]
        if of.empty:
            continue
        # All boundary methods rest on the same solve: drawn side by side, or they would hide.
        aside = APART ** boundary.index(method) if method in boundary else 1.0
        axes.plot(of["cost"] * aside, of["mean_loss"], label=title(method), **look(method).curve())
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=SMALLEST, linscale=0.4)
    axes.set_ylim(bottom=-SMALLEST / 4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_xlabel("state-action evaluations behind the policy")
    axes.set_ylabel("mean loss")
    axes.grid(visible=True)


def cost_says(results: Results) -> str:
    """For each family: what is the cheapest way to lose less than the best boundary method?"""
    table = costs(results)
    parts = []
    for family in results.families():
        of = table[table["family"] == family]
        ours = of[of["method"].isin(results.group("boundary"))]
        if ours.empty:
            continue
        best = ours.loc[ours["mean_loss"].idxmin()]
        cheaper = of[(of["cost"] < best["cost"]) & (of["mean_loss"] <= best["mean_loss"])]
        text = (
            f"{FAMILIES[family]}: the best boundary policy ({title(best['method'])}) loses "
            f"{best['mean_loss']:.2g} on average and rests on {best['cost']:,.0f} evaluations"
        )
        if len(cheaper):
            cheapest = cheaper.loc[cheaper["cost"].idxmin()]
            text += (
                f"; {title(cheapest['method'])} loses no more with {cheapest['cost']:,.0f}, "
                f"{best['cost'] / cheapest['cost']:,.0f} times fewer"
            )
        else:
            text += "; nothing cheaper in this study loses as little"
        parts.append(text)
    aside = "Boundary methods rest on one and the same solve and are drawn side by side."
    return " ".join([UNIT, *(f"{part}." for part in parts), aside])
