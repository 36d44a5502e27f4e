"""Extremely randomised regression trees, grown without ceremony.

A split is drawn at random for each feature and the best of them is kept, down to leaves of at least
``leaf`` observations; the forest predicts the mean over its trees. Equal inputs are one row whose
target is their mean and whose weight is their number: the same trees in law, on fewer rows.

scikit-learn's compiled builder is called directly. Through ``ExtraTreeRegressor.fit`` the checks
of a small tree take three times as long as growing it; a test holds the two routes together. The
builder is private and may change, so scikit-learn is held below the first version not tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

UNLIMITED_DEPTH = np.iinfo(np.int32).max
SKLEARN_CHANGED_TEXT = (
    f"FittedQ grows trees with parts of scikit-learn that version {sklearn.__version__} does not "
    "have as they were; install scikit-learn>=1.6,<1.10"
)
CLASSES_PER_OUTPUT = np.array([1], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Distinct inputs with the number of observations of each."""

    inputs: NDArray[np.float32]  # (m, d), C order
    weights: NDArray[np.float64]  # (m,)


@cache
def _load_tree_parts() -> SimpleNamespace:
    """What scikit-learn grows trees with; loaded when the first tree is grown."""
    try:
        from sklearn.tree._criterion import MSE
        from sklearn.tree._splitter import RandomSplitter
        from sklearn.tree._tree import DepthFirstTreeBuilder, Tree
    except ImportError as error:
        raise ImportError(SKLEARN_CHANGED_TEXT) from error
    return SimpleNamespace(
        MSE=MSE,
        RandomSplitter=RandomSplitter,
        DepthFirstTreeBuilder=DepthFirstTreeBuilder,
        Tree=Tree,
    )


def grow_tree(
    rows: WeightedRows, targets: NDArray[np.float64], leaf: int, rng: np.random.RandomState
) -> Any:
    """One tree for ``targets`` (m,)."""
    m, d = rows.inputs.shape
    # Half an observation of slack: weights are whole, their sums are compared as floats.
    min_leaf_weight = leaf - 0.5
    parts = _load_tree_parts()
    try:
        splitter = parts.RandomSplitter(parts.MSE(1, m), d, 1, min_leaf_weight, rng, None)
        tree = parts.Tree(d, CLASSES_PER_OUTPUT, 1)
        builder = parts.DepthFirstTreeBuilder(splitter, 2, 1, min_leaf_weight, UNLIMITED_DEPTH, 0.0)
        builder.build(tree, rows.inputs, targets[:, None], rows.weights, None)
    except TypeError as error:  # another signature
        raise ImportError(SKLEARN_CHANGED_TEXT) from error
    return tree


def predict_with_forest(
    rows: WeightedRows,
    targets: NDArray[np.float64],
    queries: NDArray[np.float32],
    trees: int,
    leaf: int,
    rng: np.random.RandomState,
) -> NDArray[np.float64]:
    """(q,) what a new forest predicts at ``queries`` (q, d)."""
    targets = np.ascontiguousarray(targets, dtype=np.float64)
    total = np.zeros(len(queries))
    for _ in range(trees):
        total += grow_tree(rows, targets, leaf, rng).predict(queries)[:, 0]
    return total / trees
