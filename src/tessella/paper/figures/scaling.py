"""Figure 4: policy error against the number of labels or updates, on one problem."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from tessella.paper.derived_numbers import error_curves, error_decays, method_title
from tessella.paper.figures.style import draw_legend_below, get_style, make_figure
from tessella.paper.results import PaperResults


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
    for group, name in (("boundary", "boundary methods"), ("value", "value-based methods")):
        rates = sorted(
            ((powers[m], method_title(m)) for m in results.finished_methods(group) if m in powers),
            reverse=True,
        )
        if rates:
            listed = ", ".join(f"{t} {p:.2f}" for p, t in rates)
            parts.append(f"for {name}: {listed}")
    caption = "Mean over seeds; bands hold the middle 80% of them."
    if not parts:
        return f"{caption} No method has errors at two sizes or more, so none tells how they fall."
    remark = " Where p is negative the error rises." if min(powers.values()) < 0 else ""
    return f"{caption} The error goes about as n^-p, with p {'; '.join(parts)}.{remark}"
