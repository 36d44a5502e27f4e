"""Staircases: bands along one axis, in each of them ordered cuts along another.

With P bands and K cuts in each, P - 1 + P K numbers are stored; the actions are the first ones of
the list, in order, along the rising or the falling axis. For additive costs

    cost(i, j, K) = least cost of K ordered cuts in the summed rows i..j    (see ``ordered_cuts``)
    F(p, j) = min_i F(p - 1, i) + cost(i, j, K),

both exact. Axes other than the two are not looked at.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.rule_tree import LabelSplit, Node, Split, short_number_between
from tessella.rules.ordered_cuts import build_split, compute_least_costs, find_optimal_cuts
from tessella.rules.rule_class import Costs, Fitted, RuleClass, pareto_front


@dataclass(frozen=True)
class Staircase(RuleClass):
    """Ordered cuts along an axis, which change from band to band of another.

    Attributes:
        bands: the most places along an axis at which a band may begin.
    """

    bands: int = 60
    name: ClassVar[str] = "staircase"

    def why_not_applicable(self, costs: Costs) -> str:
        if not costs.numeric_axes or sum(n > 1 for n in costs.grid.shape) < 2:
            return "a staircase needs two axes, one of them with numbers"
        return ""

    def why_not_exact(self, costs: Costs) -> str:
        if max(costs.grid.shape) > self.bands:
            return "an axis has too many values for bands to begin at all of them"
        return ""

    def max_size(self, costs: Costs) -> float:
        return max(costs.grid.shape) * len(costs.actions) - 1

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        results: list[Fitted] = []
        for across, along in permutations(range(costs.grid.ndim), 2):
            numbers = costs.grid.values[along].dtype.kind != "U"  # one number is enough
            is_usable = numbers and costs.grid.shape[across] > 1
            if is_usable and time.perf_counter() < costs.deadline:
                results += self._fit_axes(costs, across, along, most)
        return pareto_front(results)

    def _fit_axes(self, costs: Costs, across: int, along: int, max_size: int) -> list[Fitted]:
        table = costs.sum_to_axes((across, along))
        band_width = -(-len(table) // self.bands)
        starts = np.arange(0, len(table), band_width)
        rows = np.add.reduceat(table, starts, axis=0)  # (bands, values along, A)
        sums = np.concatenate([np.zeros((1, *rows.shape[1:])), np.cumsum(rows, axis=0)])
        candidates = []
        for cuts in range(1, min(rows.shape[2] - 1, max_size) + 1):
            bands = _BandSolver(sums, cuts)
            for p in range(1, min((max_size + 1) // (cuts + 1), bands.n) + 1):
                ends = bands.find_ends(p)
                if ends is None:
                    continue  # two more may save what one more does not: rows A, B, A
                root = _build_node(costs, (across, along), starts, sums, ends, cuts)
                candidates.append(Fitted(root, p - 1 + p * cuts, bands.cost(p)))
        return candidates


class _BandSolver:
    """The cheapest bands with a given number of cuts in each."""

    def __init__(self, sums: NDArray, cuts: int) -> None:
        n = len(sums) - 1
        self.n = n
        self.interval_costs = np.full((n + 1, n + 1), np.inf)
        for i in range(n):
            rows = np.maximum(sums[i + 1 :] - sums[i], 0.0)
            least = np.minimum(
                compute_least_costs(rows)[:, cuts], compute_least_costs(rows[:, ::-1])[:, cuts]
            )
            self.interval_costs[i, i + 1 :] = np.maximum(least, 0.0)
        self.least_costs = [self.interval_costs[0]]
        self.predecessors = [np.zeros(n + 1, dtype=int)]

    def _extend(self, p: int) -> None:
        while len(self.least_costs) < p:
            total = self.least_costs[-1][:, None] + self.interval_costs
            self.predecessors.append(total.argmin(axis=0))
            self.least_costs.append(total.min(axis=0))

    def cost(self, p: int) -> float:
        self._extend(p)
        return float(self.least_costs[p - 1][-1])

    def find_ends(self, p: int) -> list[int] | None:
        """Where each band ends; None if so many cost no less than fewer."""
        if p > 1 and not self.cost(p) < self.cost(p - 1):
            return None
        ends = [self.n]
        end = self.n
        for k in range(p - 1, 0, -1):
            end = int(self.predecessors[k][end])
            ends.append(end)
        return ends[::-1]


def _build_node(
    costs: Costs, axes: tuple[int, int], starts: NDArray, sums: NDArray, ends: list[int], cuts: int
) -> Node:
    across, along = axes
    weights = ((costs.grid.axes[along], 1.0),)
    values = costs.sorted_values[along]
    branches = []
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        rows = np.maximum(sums[last] - sums[first], 0.0)
        up = find_optimal_cuts(rows, cuts)
        down = find_optimal_cuts(rows[::-1], cuts)
        is_reversed = down.cost < up.cost
        branches.append(build_split(weights, values, down if is_reversed else up, is_reversed))
    band_starts = [int(starts[end]) for end in ends[:-1]]
    labels = costs.grid.values[across]
    name = costs.grid.axes[across]
    if labels.dtype.kind == "U":
        node = branches[-1]
        for start, branch in zip(reversed(band_starts), reversed(branches[:-1]), strict=True):
            node = LabelSplit(name, tuple(labels[:start].tolist()), branch, node)
        return node
    sorted_values = costs.sorted_values[across]
    limits = tuple(
        short_number_between(sorted_values[start - 1], sorted_values[start])
        for start in band_starts
    )
    return Split(((name, 1.0),), limits, tuple(branches))
