"""How the figures of a study look: colours and marks of the methods, sizes, fonts.

Boundary methods are drawn solid in blues and greens, value-based ones dashed in warm colours,
references in greys; every method has a mark of its own, so that no reader depends on colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

WIDE, NARROW = 7.0, 3.7  # inches

STYLE: dict[Any, Any] = {
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


@dataclass(frozen=True)
class Look:
    """How one method is drawn."""

    colour: str
    marker: str
    line: str
    width: float = 1.3

    def points(self, size: float = 4.5) -> dict[str, Any]:
        thin = self.marker in "PX*<>"
        return {
            "color": self.colour,
            "marker": self.marker,
            "markersize": size + 1.8 * thin,
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
        }

    def curve(self, size: float = 4.5) -> dict[str, Any]:
        return {**self.points(size), "linestyle": self.line, "linewidth": self.width}


LOOKS = {
    "linear": Look("#4fa3d9", "o", "-"),
    "neural": Look("#08519c", "s", "-"),
    "margin": Look("#1b9e77", "D", "-"),
    "local": Look("#66c2a5", "v", "-"),
    # Wider: the two Q-learners nearly agree, and this one is drawn first.
    "double_q": Look("#b2182b", "^", "--", 2.4),
    "fitted_q": Look("#e08214", "P", "--"),
    "tabular_q": Look("#d6609a", "X", "--"),
    "value_iteration_2": Look("#969696", "<", ":"),
    "value_iteration_4": Look("#636363", ">", ":"),
    "tabular_q_100": Look("#7a4b66", "X", ":"),
    "fitted_q_tuned": Look("#8a6d3b", "P", ":"),
    "exact_table": Look("#111111", "*", ":"),
}
OTHER = Look("#54278f", "h", "-.")


def look(method: str) -> Look:
    return LOOKS.get(method, OTHER)


def canvas(narrow: bool, wide_height: float, narrow_height: float) -> Figure:
    """An empty figure, of a page's width or a phone's."""
    size = (NARROW, narrow_height) if narrow else (WIDE, wide_height)
    return Figure(figsize=size, layout="constrained")


def legend_below(figure: Figure, narrow: bool, columns: int = 4) -> None:
    """One legend for all axes, under them; what only some of them show is in it too."""
    shown: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        shown = dict(zip(labels, handles, strict=True)) | shown
    figure.legend(
        list(shown.values()),
        list(shown),
        loc="outside lower center",
        ncols=2 if narrow else columns,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.4,
    )
