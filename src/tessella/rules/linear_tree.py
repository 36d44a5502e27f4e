"""Trees whose cuts may slant: k leaves store 2 (k - 1) + k numbers, as trees along axes do.

A cut compares an axis, or p x_a + q x_b of two axes with small whole p and q (in steps of these
axes), with a place. Which sum it compares is one number, for the sums are the class's own. Trees
are grown greedily over all of them (see ``greedy_tree``), and what is left of these when they are
pruned is the best for its cuts; which cuts would be best of all is not known, so nothing is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.program import Among, Choose, Node, between
from tessella.rules.axis_tree import joined_split, leaves_within, size_of
from tessella.rules.boxes import Cut, Leaf, Tree, folded, n_leaves, pruned
from tessella.rules.greedy_tree import greedy_trees
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

ENTRIES = 3_000_000  # states x sums, at most
GROWN = 600  # leaves of a tree, before it is pruned


@dataclass(frozen=True)
class LinearTree(RuleClass):
    """Trees with cuts along single axes and along sums of two.

    Attributes:
        most: the largest p and q of a sum.
    """

    most: int = 3
    name: ClassVar[str] = "linear tree"

    def refusal(self, costs: Costs) -> str:
        if len(costs.numeric) < 2:
            return "slanting cuts need two axes of numbers"
        if costs.unsummable:
            return costs.unsummable
        sums = len(self._pairs()) * math.comb(len(costs.numeric), 2) + costs.grid.ndim
        if sums * costs.grid.size > ENTRIES:
            return f"{sums} sums of {costs.grid.size:,} states are too many to look at"
        return ""

    def heuristic(self, costs: Costs) -> str:
        return "trees with slanting cuts are grown greedily"

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        leaves = leaves_within(most)
        if leaves < 2:
            return []
        seen = [*self._axes(costs), *self._sums(costs)]
        places = np.stack([one.places for one in seen], axis=-1).astype(np.float32)

        def halves(rows: NDArray, cut: Cut) -> tuple[NDArray, NDArray]:
            below = seen[cut.axis].places[rows] < cut.at
            return rows[below], rows[~below]

        def alone(rows: NDArray) -> NDArray[np.float64]:
            return costs.by_state[rows].sum(axis=0)

        grown = greedy_trees(places, costs.by_state, min(2 * leaves, GROWN))
        found = pruned(grown, leaves, np.arange(costs.grid.size), halves, alone)
        made = [Fitted(_node(tree, seen), size_of(n_leaves(tree)), cost) for cost, tree in found]
        return falling(made)

    def _pairs(self) -> list[tuple[int, int]]:
        """(p, q) without a common factor, q of either sign."""
        numbers = range(1, self.most + 1)
        plain = [(p, q) for p in numbers for q in numbers if math.gcd(p, q) == 1]
        return [(p, sign * q) for p, q in plain for sign in (1, -1)]

    def _axes(self, costs: Costs) -> list[Seen]:
        grid, points = costs.grid, costs.grid.points
        made = []
        for k, name in enumerate(grid.axes):
            if grid.values[k].dtype.kind == "U":
                labels = tuple(map(str, grid.values[k]))
                made.append(Seen((name,), points[:, k].astype(int), labels))
            else:
                made.append(_seen(((name, 1.0),), points[:, k]))
        return made

    def _sums(self, costs: Costs) -> list[Seen]:
        grid, made = costs.grid, []
        for a, b in combinations(costs.numeric, 2):
            steps = [(v[-1] - v[0]) / (len(v) - 1) for v in (costs.rising[a], costs.rising[b])]
            for p, q in self._pairs():
                weights = (float(p), float(np.round(q * steps[0] / steps[1], 9)))
                sums = grid.points[:, [a, b]] @ np.array(weights)
                named = tuple(zip((grid.axes[a], grid.axes[b]), weights, strict=True))
                made.append(_seen(named, sums))
        return made


@dataclass(frozen=True, eq=False)
class Seen:
    """What a cut may compare.

    Attributes:
        what: the weights of a sum; or the name of a text axis alone.
        places: (S,) ranks of the states.
        values: the sums by rank; or labels.
    """

    what: tuple
    places: NDArray[np.int64]
    values: Any


def _seen(weights: tuple, sums: NDArray) -> Seen:
    """A sum, those values as one that differ by rounding alone."""
    near = 1e-9 * max(float(np.abs(sums).max()), 1e-300)
    values, places = np.unique(np.round(sums / near) * near, return_inverse=True)
    return Seen(weights, places.ravel(), values)


def _node(tree: Tree, seen: list[Seen]) -> Node:
    def parts(tree: Tree) -> tuple[Tree, Tree] | None:
        return (tree.below, tree.above) if isinstance(tree, Cut) else None

    def joined(tree: Tree, below: list[Node]) -> Node:
        if isinstance(tree, Leaf):
            return Choose(tree.action)
        what, values = seen[tree.axis].what, seen[tree.axis].values
        if isinstance(values, tuple):
            return Among(what[0], values[: tree.at], *below)
        here = between(float(values[tree.at - 1]), float(values[tree.at]))
        return joined_split(what, here, below)

    return folded(tree, parts, joined)
