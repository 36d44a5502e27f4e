"""Figure 3: policy error given the margin, for each family."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tessella.certificates.decisions import MarginError, count_errors_by_margin
from tessella.paper.derived_numbers import format_range, method_title
from tessella.paper.figures.style import draw_legend_below, get_style, make_figure
from tessella.paper.localisation import low_margin_shares
from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.plot.margin_error import margin_error

MARGIN_BINS = 10
LINEAR_SCALE_MAX_SHARE = 1e-3  # below this share the scale is linear, so that "none" has a place


def draw_margins(results: PaperResults, narrow: bool) -> Figure:
    families = results.families()
    figure = make_figure(narrow, 3.1, 0.9 + 2.4 * len(families))
    shape = (len(families), 1) if narrow else (1, len(families))
    axes_list = figure.subplots(*shape, squeeze=False).ravel()
    for axes, family in zip(axes_list, families, strict=True):
        for method in results.finished_methods("boundary", "value"):
            curve = pool_errors(results, family, method)
            if not curve.states.any():
                continue
            margin_error(
                axes, curve, **get_style(method).line_options(), label=method_title(method)
            )
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
        shares_by_method = {m: s for (f, m), s in shares.items() if f == family}
        groups = {"boundary": "boundary methods", "value": "value-based methods"}
        group_texts = (
            _format_shares(
                [shares_by_method[m] for m in results.finished_methods(g) if m in shares_by_method],
                groups[g],
            )
            for g in groups
        )
        parts.append(
            f"{FAMILY_TITLES[family]}: {', '.join(filter(None, group_texts)) or 'no finished runs'}"
        )
    return (
        "Share of all errors that fall on the quarter of states with the smallest margins (25% if "
        f"margins did not matter). {'; '.join(parts)}."
    )


def _format_shares(shares: list[float], name: str) -> str:
    """``boundary methods 60% to 70%``; nothing where no method has runs."""
    known_shares = [share for share in shares if not np.isnan(share)]
    if not known_shares:
        return f"{name} make no errors" if shares else ""
    return f"{name} {format_range(known_shares, '.0%')}"
