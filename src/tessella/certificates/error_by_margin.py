"""Policy error given the margin (the paper's Figure 3): are errors where they cost little?

In a bin b of margins, error(b) = #{s in b : pi(s) != pi*(s)} / #{s in b}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class MarginError:
    """Policy error in each of n bins of margins.

    Attributes:
        edges: (n + 1,) a bin holds its lower edge, the last bin both of its edges.
        states: (n,) states in each bin.
        errors: (n,) of these, states whose action differs from the optimal one.
        margins: (n,) mean margin of the states of each bin; nan in a bin without states.
        name: of the policy.
    """

    edges: NDArray[np.float64]
    states: NDArray[np.int64]
    errors: NDArray[np.int64]
    margins: NDArray[np.float64]
    name: str = ""

    @property
    def rate(self) -> NDArray[np.float64]:
        """(n,) share of wrong actions in each bin; nan in a bin without states."""
        return _divide_by_counts(self.errors, self.states)


def count_errors_by_margin(
    margin: NDArray[np.float64], wrong: NDArray[np.bool_], bins: int | NDArray, name: str = ""
) -> MarginError:
    """Count errors by margin; states with only one feasible action have none and are left out.

    Args:
        margin: (grid) margins.
        wrong: (grid) whether the action differs from the optimal one.
        bins: edges, or how many bins with about as many states each.
    """
    has_choice = np.isfinite(margin)
    edges = _choose_edges(margin[has_choice], bins)
    states, _ = np.histogram(margin[has_choice], edges)
    errors, _ = np.histogram(margin[has_choice & wrong], edges)
    sums, _ = np.histogram(margin[has_choice], edges, weights=margin[has_choice])
    return MarginError(edges, states, errors, _divide_by_counts(sums, states), name)


def _divide_by_counts(sums: NDArray, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(counts == 0, np.nan, sums / np.maximum(counts, 1))


def _choose_edges(margin: NDArray[np.float64], bins: int | NDArray) -> NDArray[np.float64]:
    edges = np.asarray(bins)
    if edges.ndim == 0:
        if edges < 1:
            raise ArgumentError("there must be at least one bin", value=f"got {edges}")
        sample = margin if margin.size else np.array([0.0, 1.0])
        edges = np.unique(np.quantile(sample, np.linspace(0, 1, int(edges) + 1)))
        if edges.size == 1:
            edges = np.array([edges[0], edges[0] + 1.0])
    edges = edges.astype(float)
    if edges.ndim != 1 or edges.size < 2 or not (np.diff(edges) > 0).all():
        raise ArgumentError("bin edges must increase", value=f"got {edges}")
    return edges
