"""Greedy trees: CART, on the cheapest action of every state, each weighted by what is at stake.

    stake(s) = second-lowest less lowest cost,    or 1 where it is not 0

It grows one cut at a time and looks at no later one, so it proves nothing, and on a grid of any
size it takes no longer than sorting. What it is good for here: its cuts, of which the cheapest
trees of every size are taken (``Boxes.pruned``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tessella.rules.boxes import Cut, Leaf, Tree, folded

FLOOR = 1e-9  # of the largest stake: states at which nothing is at stake still have a say


def greedy_trees(
    places: NDArray[np.float32], costs: NDArray[np.float64], leaves: int
) -> Iterator[Tree]:
    """Trees of at most so many leaves over (S, F) whole numbers, for (S, A) costs.

    A cut's ``axis`` is a column of ``places``.
    """
    if costs.shape[1] < 2 or leaves < 2:
        return
    low = np.partition(costs, 1, axis=1)
    stake = low[:, 1] - low[:, 0]
    if not stake.any():
        return
    for weights in (stake, (stake > 0).astype(float)):
        floor = FLOOR * weights.max()
        yield _grown(places, costs.argmin(axis=1), np.maximum(weights, floor), leaves)


def _grown(places: NDArray, actions: NDArray, weights: NDArray, leaves: int) -> Tree:
    from sklearn.tree import DecisionTreeClassifier

    made = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
    inside = made.fit(places, actions, sample_weight=weights / weights.mean()).tree_
    most = made.classes_[inside.value[:, 0].argmax(axis=1)]

    def parts(node: int) -> tuple[int, int] | None:
        below = int(inside.children_left[node])
        return None if below < 0 else (below, int(inside.children_right[node]))

    def joined(node: int, below: list[Tree]) -> Tree:
        if not below:
            return Leaf(int(most[node]))
        at = int(np.floor(inside.threshold[node])) + 1
        return Cut(int(inside.feature[node]), at, *below)

    return folded(0, parts, joined)
