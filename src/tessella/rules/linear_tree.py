"""Trees whose cuts may slant: k leaves store 2 (k - 1) + k numbers, as trees along axes do.

A cut compares an axis, or p x_a + q x_b of two axes with small whole p and q (in steps of these
axes), with a place. Which sum it compares is one number, for the sums are the class's own. Trees
are grown greedily over all of them (see ``cart``), and what is left of these when they are
pruned is the best for its cuts; which cuts would be best of all is not known, so nothing is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.rule_tree import LabelSplit, Leaf, Node, short_number_between
from tessella.rules.axis_tree import compute_max_leaves, compute_tree_size, join_splits
from tessella.rules.boxes import BoxCut, BoxLeaf, BoxTree, count_leaves, fold_tree, prune_trees
from tessella.rules.cart import grow_cart_trees
from tessella.rules.rule_class import Costs, Fitted, RuleClass, pareto_front

MAX_STATE_SUMS = 3_000_000  # states x sums, at most
GROWN_MAX_LEAVES = 600  # leaves of a tree, before it is pruned


@dataclass(frozen=True)
class LinearTree(RuleClass):
    """Trees with cuts along single axes and along sums of two.

    Attributes:
        most: the largest p and q of a sum.
    """

    most: int = 3
    name: ClassVar[str] = "linear tree"

    def why_not_applicable(self, costs: Costs) -> str:
        if len(costs.numeric_axes) < 2:
            return "slanting cuts need two axes of numbers"
        if costs.unsummable:
            return costs.unsummable
        sums = (
            len(self._list_weight_pairs()) * math.comb(len(costs.numeric_axes), 2) + costs.grid.ndim
        )
        if sums * costs.grid.size > MAX_STATE_SUMS:
            return f"{sums} sums of {costs.grid.size:,} states are too many to look at"
        return ""

    def why_not_exact(self, costs: Costs) -> str:
        return "trees with slanting cuts are grown greedily"

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        leaves = compute_max_leaves(most)
        if leaves < 2:
            return []
        features = [*self._list_axis_features(costs), *self._list_sum_features(costs)]
        positions = np.stack([feature.ranks for feature in features], axis=-1).astype(np.float32)

        def split_rows(rows: NDArray, cut: BoxCut) -> tuple[NDArray, NDArray]:
            is_below = features[cut.axis].ranks[rows] < cut.position
            return rows[is_below], rows[~is_below]

        def sum_costs(rows: NDArray) -> NDArray[np.float64]:
            return costs.by_state[rows].sum(axis=0)

        trees = grow_cart_trees(positions, costs.by_state, min(2 * leaves, GROWN_MAX_LEAVES))
        results = prune_trees(trees, leaves, np.arange(costs.grid.size), split_rows, sum_costs)
        candidates = [
            Fitted(_build_node(tree, features), compute_tree_size(count_leaves(tree)), cost)
            for cost, tree in results
        ]
        return pareto_front(candidates)

    def _list_weight_pairs(self) -> list[tuple[int, int]]:
        """(p, q) without a common factor, q of either sign."""
        numbers = range(1, self.most + 1)
        positive = [(p, q) for p in numbers for q in numbers if math.gcd(p, q) == 1]
        return [(p, sign * q) for p, q in positive for sign in (1, -1)]

    def _list_axis_features(self, costs: Costs) -> list[CutFeature]:
        grid = costs.grid
        points = costs.grid.points
        features = []
        for k, name in enumerate(grid.axes):
            if grid.values[k].dtype.kind == "U":
                labels = tuple(map(str, grid.values[k]))
                features.append(CutFeature((name,), points[:, k].astype(int), labels))
            else:
                features.append(_make_feature(((name, 1.0),), points[:, k]))
        return features

    def _list_sum_features(self, costs: Costs) -> list[CutFeature]:
        grid = costs.grid
        features = []
        for a, b in combinations(costs.numeric_axes, 2):
            spacings = [
                (v[-1] - v[0]) / (len(v) - 1)
                for v in (costs.sorted_values[a], costs.sorted_values[b])
            ]
            for p, q in self._list_weight_pairs():
                weights = (float(p), float(np.round(q * spacings[0] / spacings[1], 9)))
                sums = grid.points[:, [a, b]] @ np.array(weights)
                named_weights = tuple(zip((grid.axes[a], grid.axes[b]), weights, strict=True))
                features.append(_make_feature(named_weights, sums))
        return features


@dataclass(frozen=True, eq=False)
class CutFeature:
    """What a cut may compare.

    Attributes:
        definition: the weights of a sum; or the name of a text axis alone.
        ranks: (S,) of the states.
        values: the sums by rank; or labels.
    """

    definition: tuple
    ranks: NDArray[np.int64]
    values: Any


def _make_feature(weights: tuple, sums: NDArray) -> CutFeature:
    """A sum, those values as one that differ by rounding alone."""
    resolution = 1e-9 * max(float(np.abs(sums).max()), 1e-300)
    values, ranks = np.unique(np.round(sums / resolution) * resolution, return_inverse=True)
    return CutFeature(weights, ranks.ravel(), values)


def _build_node(tree: BoxTree, features: list[CutFeature]) -> Node:
    def get_children(tree: BoxTree) -> tuple[BoxTree, BoxTree] | None:
        return (tree.below, tree.above) if isinstance(tree, BoxCut) else None

    def build(tree: BoxTree, children: list[Node]) -> Node:
        if isinstance(tree, BoxLeaf):
            return Leaf(tree.action)
        definition = features[tree.axis].definition
        values = features[tree.axis].values
        if isinstance(values, tuple):
            return LabelSplit(definition[0], values[: tree.position], *children)
        cut = short_number_between(float(values[tree.position - 1]), float(values[tree.position]))
        return join_splits(definition, cut, children)

    return fold_tree(tree, get_children, build)
