"""Greedy trees: CART, on the cheapest action of every state, each weighted by its cost margin.

    margin(s) = second-lowest less lowest cost,    or 1 where it is not 0

It grows one cut at a time without looking ahead, so it proves nothing, and on a grid of any size it
takes no longer than sorting. Its cuts are used: ``boxes.prune_trees`` takes the cheapest trees of
every size from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.rules.boxes import BoxCut, BoxLeaf, BoxTree, fold_tree
from tessella.rules.rule_class import compute_cost_margins

MIN_RELATIVE_WEIGHT = 1e-9  # of the mean margin: states with a margin of 0 still count


def grow_cart_trees(
    positions: NDArray[np.float32], costs: NDArray[np.float64], max_leaves: int
) -> Iterator[BoxTree]:
    """Trees of at most that many leaves over (S, F) whole numbers, for (S, A) costs.

    A cut's ``axis`` is a column of ``positions``.
    """
    margins = compute_cost_margins(costs)
    if margins.any() and max_leaves > 1:
        for weights in (margins, (margins > 0).astype(float)):
            yield _truncate_tree(_fit_cart(positions, costs, weights, max_leaves), 2 * max_leaves)


def grow_nested_trees(
    positions: NDArray[np.float32], costs: NDArray[np.float64], max_leaves: int
) -> Iterator[BoxTree]:
    """The same tree with 1, 2, ... leaves, as it grows, each leaf with CART's own action."""
    margins = compute_cost_margins(costs)
    if not margins.any() or max_leaves < 2:
        return
    classifier = _fit_cart(positions, costs, margins, max_leaves)
    for k in range(1, classifier.get_n_leaves() + 1):
        yield _truncate_tree(classifier, 2 * k - 1)


def list_cuts(tree: BoxTree) -> list[tuple[int, int]]:
    """Axes and positions of the cuts of a tree, those near the root first."""
    cuts = []
    level = [tree]
    while level:
        found = [node for node in level if isinstance(node, BoxCut)]
        cuts += [(node.axis, node.position) for node in found]
        level = [child for node in found for child in (node.below, node.above)]
    return cuts


def _fit_cart(positions: NDArray, costs: NDArray, weights: NDArray, max_leaves: int) -> Any:
    """CART on the states, their cheapest actions, and their relative weights."""
    from sklearn.tree import DecisionTreeClassifier

    classifier = DecisionTreeClassifier(max_leaf_nodes=max_leaves, random_state=0)
    relative_weights = np.maximum(weights / weights.mean(), MIN_RELATIVE_WEIGHT)
    return classifier.fit(positions, costs.argmin(axis=1), relative_weights)


def _truncate_tree(classifier: Any, n_nodes: int) -> BoxTree:
    """The tree as it was when it had that many nodes: the best cut comes first, its parts next."""
    fitted_tree = classifier.tree_
    majority = classifier.classes_[fitted_tree.value[:, 0].argmax(axis=1)]

    def get_children(node: int) -> tuple[int, int] | None:
        below = int(fitted_tree.children_left[node])
        return (below, int(fitted_tree.children_right[node])) if 0 <= below < n_nodes else None

    def build(node: int, children: list[BoxTree]) -> BoxTree:
        if not children:
            return BoxLeaf(int(majority[node]))
        position = int(np.floor(fitted_tree.threshold[node])) + 1
        return BoxCut(int(fitted_tree.feature[node]), position, *children)

    return fold_tree(0, get_children, build)
