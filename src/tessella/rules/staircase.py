"""Staircases: bands along one axis, in each of them ordered cuts along another.

With P bands and K cuts in each, P - 1 + P K numbers are stored; the actions are the first ones of
the list, in order, along the rising or the falling axis. For additive costs

    cost(i, j, K) = least cost of a ladder over the summed rows i..j    (see ``ladder``)
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

from tessella.mdp.program import Among, Node, Split, between
from tessella.rules.ladder import in_order, least_costs, steps_node
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling


@dataclass(frozen=True)
class Staircase(RuleClass):
    """Ordered cuts along an axis, which change from band to band of another.

    Attributes:
        bands: the most places along an axis at which a band may begin.
    """

    bands: int = 60
    name: ClassVar[str] = "staircase"

    def refusal(self, costs: Costs) -> str:
        if not costs.numeric or sum(n > 1 for n in costs.grid.shape) < 2:
            return "a staircase needs two axes, one of them with numbers"
        return ""

    def heuristic(self, costs: Costs) -> str:
        if max(costs.grid.shape) > self.bands:
            return "an axis has too many values for bands to begin at all of them"
        return ""

    def largest(self, costs: Costs) -> float:
        return max(costs.grid.shape) * len(costs.actions) - 1

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        found: list[Fitted] = []
        for across, along in permutations(range(costs.grid.ndim), 2):
            numbers = costs.grid.values[along].dtype.kind != "U"  # one number is enough
            fits = numbers and costs.grid.shape[across] > 1
            if fits and time.perf_counter() < costs.deadline:
                found += self._on(costs, across, along, most)
        return falling(found)

    def _on(self, costs: Costs, across: int, along: int, most: int) -> list[Fitted]:
        table = costs.along((across, along))
        size = -(-len(table) // self.bands)
        starts = np.arange(0, len(table), size)
        rows = np.add.reduceat(table, starts, axis=0)  # (bands, values along, A)
        sums = np.concatenate([np.zeros((1, *rows.shape[1:])), np.cumsum(rows, axis=0)])
        made = []
        for cuts in range(1, min(rows.shape[2] - 1, most) + 1):
            bands = _Bands(sums, cuts)
            for p in range(1, min((most + 1) // (cuts + 1), bands.n) + 1):
                ends = bands.ends(p)
                if ends is None:
                    continue  # two more may save what one more does not: rows A, B, A
                root = _node(costs, (across, along), starts, sums, ends, cuts)
                made.append(Fitted(root, p - 1 + p * cuts, bands.cost(p)))
        return made


class _Bands:
    """The cheapest bands with a given number of cuts in each."""

    def __init__(self, sums: NDArray, cuts: int) -> None:
        n = len(sums) - 1
        self.n, self.by_pair = n, np.full((n + 1, n + 1), np.inf)
        for i in range(n):
            rows = np.maximum(sums[i + 1 :] - sums[i], 0.0)
            both = np.minimum(least_costs(rows)[:, cuts], least_costs(rows[:, ::-1])[:, cuts])
            self.by_pair[i, i + 1 :] = np.maximum(both, 0.0)
        self.best, self.origin = [self.by_pair[0]], [np.zeros(n + 1, dtype=int)]

    def _grow(self, p: int) -> None:
        while len(self.best) < p:
            total = self.best[-1][:, None] + self.by_pair
            self.origin.append(total.argmin(axis=0))
            self.best.append(total.min(axis=0))

    def cost(self, p: int) -> float:
        self._grow(p)
        return float(self.best[p - 1][-1])

    def ends(self, p: int) -> list[int] | None:
        """Where each band ends; None if so many cost no less than fewer."""
        if p > 1 and not self.cost(p) < self.cost(p - 1):
            return None
        found, at = [self.n], self.n
        for k in range(p - 1, 0, -1):
            at = int(self.origin[k][at])
            found.append(at)
        return found[::-1]


def _node(
    costs: Costs, axes: tuple[int, int], starts: NDArray, sums: NDArray, ends: list[int], cuts: int
) -> Node:
    across, along = axes
    weights, values = ((costs.grid.axes[along], 1.0),), costs.rising[along]
    parts = []
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        rows = np.maximum(sums[last] - sums[first], 0.0)
        up, down = in_order(rows, cuts), in_order(rows[::-1], cuts)
        against = down.cost < up.cost
        parts.append(steps_node(weights, values, down if against else up, against))
    places = [int(starts[end]) for end in ends[:-1]]
    labels, name = costs.grid.values[across], costs.grid.axes[across]
    if labels.dtype.kind == "U":
        node = parts[-1]
        for at, part in zip(reversed(places), reversed(parts[:-1]), strict=True):
            node = Among(name, tuple(labels[:at].tolist()), part, node)
        return node
    rising = costs.rising[across]
    limits = tuple(between(rising[at - 1], rising[at]) for at in places)
    return Split(((name, 1.0),), limits, tuple(parts))
