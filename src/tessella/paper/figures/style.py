"""How the figures of a study look: colours and marks of the methods, sizes, fonts.

Boundary methods are drawn solid in blues and greens, value-based ones dashed in warm colours,
references in greys; every method has its own mark, so that no reader depends on colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

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


def draw_legend_below(figure: Figure, narrow: bool, columns: int = 4) -> None:
    """One legend for all axes, under them, also of what only some of them show."""
    handle_by_label: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        handle_by_label = dict(zip(labels, handles, strict=True)) | handle_by_label
    figure.legend(
        list(handle_by_label.values()),
        list(handle_by_label),
        loc="outside lower center",
        ncols=2 if narrow else columns,
        frameon=False,
        handlelength=2.6,
        columnspacing=1.4,
    )
