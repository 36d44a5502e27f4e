"""Figure 3: policy error given the margin, for each family."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from tessella.certificates.margins import MarginError, conditional
from tessella.paper.figures.looks import canvas, legend_below, look
from tessella.paper.localisation import low_margin_shares
from tessella.paper.published import FAMILIES
from tessella.paper.readings import between, title
from tessella.paper.results import Results
from tessella.plot.margin_error import margin_error

BINS = 10
SMALLEST = 1e-3  # below this share the scale is linear, so that "none" has a place


def margin_figure(results: Results, narrow: bool) -> Figure:
    families = results.families()
    figure = canvas(narrow, 3.1, 0.9 + 2.4 * len(families))
    shape = (len(families), 1) if narrow else (1, len(families))
    places = figure.subplots(*shape, squeeze=False).ravel()
    for axes, family in zip(places, families, strict=True):
        for method in results.group("boundary", "value"):
            curve = pooled(results, family, method)
            if not curve.states.any():
                continue
            margin_error(axes, curve, **look(method).curve(), label=title(method))
        axes.set_yscale("symlog", linthresh=SMALLEST, linscale=0.4)
        axes.set_yticks([0, 1e-3, 1e-2, 1e-1, 1], ["0", "0.001", "0.01", "0.1", "1"])
        axes.set_ylim(-2e-4, 1.3)
        axes.set_title(FAMILIES[family])
        axes.set_ylabel("policy error in the bin")
        axes.grid(visible=True)
    legend_below(figure, narrow)
    return figure


def pooled(results: Results, family: str, method: str) -> MarginError:
    """Errors of all seeds and problems of the family, in bins of about equally many states."""
    margins, wrong = [], []
    for label in results.members(family):
        errors = results.wrong(label, method)
        margin = results.solutions[label].margin.ravel()
        margins.append(np.tile(margin, len(errors)))
        wrong.append(errors.ravel())
    margin = np.concatenate(margins)
    return conditional(margin, np.concatenate(wrong), BINS, title(method))


def margin_says(results: Results) -> str:
    """Where the errors of either group are."""
    shares = low_margin_shares(results)
    parts = []
    for family in results.families():
        of = {m: s for (f, m), s in shares.items() if f == family}
        groups = {"boundary": "boundary methods", "value": "value-based methods"}
        said = (_share([of[m] for m in results.group(g) if m in of], groups[g]) for g in groups)
        parts.append(f"{FAMILIES[family]}: {', '.join(filter(None, said)) or 'no finished runs'}")
    return (
        "Share of all errors that fall on the quarter of states with the smallest margins (25% if "
        f"margins did not matter). {'; '.join(parts)}."
    )


def _share(shares: list[float], name: str) -> str:
    """``boundary methods 60% to 70%``; nothing where no method has runs."""
    some = [share for share in shares if not np.isnan(share)]
    if not some:
        return f"{name} make no errors" if shares else ""
    return f"{name} {between(some, '.0%')}"
