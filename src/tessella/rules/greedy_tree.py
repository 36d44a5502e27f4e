"""Greedy trees: CART, on the cheapest action of every state, each weighted by what is at stake.

    stake(s) = second-lowest less lowest cost,    or 1 where it is not 0

It grows one cut at a time and looks at no later one, so it proves nothing, and on a grid of any
size it takes no longer than sorting. What it is good for here: its cuts, of which the cheapest
trees of every size are taken (``Boxes.pruned``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.rules.boxes import Cut, Leaf, Tree, folded

FLOOR = 1e-9  # of the usual stake: states at which nothing is at stake still have a say
PATH, ALPHAS = 5_000, 40  # states, up to which trees are cut back by prices, and such prices


def greedy_trees(
    places: NDArray[np.float32], costs: NDArray[np.float64], leaves: int
) -> Iterator[Tree]:
    """Trees of at most so many leaves over (S, F) whole numbers, for (S, A) costs.

    A cut's ``axis`` is a column of ``places``.
    """
    stake = _stake(costs)
    if stake.any() and leaves > 1:
        for weights in (stake, (stake > 0).astype(float)):
            yield _until(_grown(places, costs, weights, leaves), 2 * leaves)


def growing_trees(
    places: NDArray[np.float32], costs: NDArray[np.float64], leaves: int
) -> Iterator[Tree]:
    """The same tree with 1, 2, ... leaves, as it grows, each leaf with CART's own action.

    Then those of its cost-complexity path: grown to the end, and cut back more and more.
    """
    stake = _stake(costs)
    if not stake.any() or leaves < 2:
        return
    grown = _grown(places, costs, stake, leaves)
    for k in range(1, grown.get_n_leaves() + 1):
        yield _until(grown, 2 * k - 1)
    for alpha in _path(places, costs, stake) if len(places) <= PATH else ():
        left = _grown(places, costs, stake, None, alpha)
        if left.get_n_leaves() <= leaves:
            yield _until(left, left.tree_.node_count)


def _stake(costs: NDArray) -> NDArray[np.float64]:
    """(S,) what is at stake in each state."""
    if costs.shape[1] < 2:
        return np.zeros(len(costs))
    low = np.partition(costs, 1, axis=1)
    return low[:, 1] - low[:, 0]


def _grown(
    places: NDArray, costs: NDArray, weights: NDArray, leaves: int | None, alpha: float = 0.0
) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    made = DecisionTreeClassifier(max_leaf_nodes=leaves, ccp_alpha=alpha, random_state=0)
    return made.fit(places, costs.argmin(axis=1), sample_weight=_shares(weights))


def _path(places: NDArray, costs: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Prices of a leaf at which CART cuts its tree back."""
    from sklearn.tree import DecisionTreeClassifier

    made = DecisionTreeClassifier(random_state=0)
    best = costs.argmin(axis=1)
    path = made.cost_complexity_pruning_path(places, best, sample_weight=_shares(weights))
    alphas = np.unique(np.maximum(path.ccp_alphas, 0.0))
    return alphas[:: max(1, len(alphas) // ALPHAS)]


def _shares(weights: NDArray) -> NDArray[np.float64]:
    return np.maximum(weights / weights.mean(), FLOOR)


def _until(grown: Any, nodes: int) -> Tree:
    """The tree as it was when it had so many nodes: the best cut comes first, its parts next."""
    inside = grown.tree_
    most = grown.classes_[inside.value[:, 0].argmax(axis=1)]

    def parts(node: int) -> tuple[int, int] | None:
        below = int(inside.children_left[node])
        return (below, int(inside.children_right[node])) if 0 <= below < nodes else None

    def joined(node: int, below: list[Tree]) -> Tree:
        if not below:
            return Leaf(int(most[node]))
        at = int(np.floor(inside.threshold[node])) + 1
        return Cut(int(inside.feature[node]), at, *below)

    return folded(0, parts, joined)
