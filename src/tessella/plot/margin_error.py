"""Policy error against the margin: are errors where they cost little?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes

if TYPE_CHECKING:
    from tessella.certificates.decisions import MarginError


def margin_error(axes: Axes, result: MarginError, **style: Any) -> Axes:
    """Draw the share of wrong actions in each margin bin; call again to add another policy.

    The axis of margins is logarithmic where no bin reaches down to 0. ``style`` as for
    matplotlib's ``plot``.
    """
    filled = result.states > 0
    default_style = {
        "marker": "o",
        "markersize": 3.5,
        "linewidth": 1.2,
        "label": result.name or None,
    }
    axes.plot(result.margins[filled], result.rate[filled], **default_style | style)
    if (result.margins[filled] > 0).all():
        axes.set_xscale("log")
    axes.set_xlabel("margin of the best action")
    axes.set_ylabel("policy error")
    axes.set_ylim(bottom=0.0)
    return axes
