"""Fitted Q iteration with extra-trees (Ernst, Geurts, Wehenkel 2005).

    Q_{k+1} = forest fitted to  (s_i, a_i) -> r_i + discount max_{b feasible in s'_i} Q_k(s'_i, b)

from Q_0 = 0, over one fixed set of n transitions. The maximum is taken on a table of all pairs, not
on n x A rows.

In an extremely randomised tree a split is drawn at random for each feature and the best of them is
kept, down to leaves of at least ``leaf`` observations; the forest predicts the mean over its trees.
Equal inputs are one row whose target is their mean and whose weight is their number: the trees have
the same distribution, on fewer rows.

Trees are scikit-learn's ``ExtraTreeRegressor``, whose checks of its arguments are turned off: they
take longer than growing a small tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.baselines.training import (
    TrainedPolicy,
    TrainingCurve,
    Transitions,
    draw_uniform_transitions,
    select_greedy,
)
from tessella.errors import require_whole
from tessella.mdp.model import MDP

if TYPE_CHECKING:
    from sklearn.tree import ExtraTreeRegressor


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Distinct inputs with the number of observations of each."""

    inputs: NDArray[np.float32]  # (m, d), C order
    weights: NDArray[np.float64]  # (m,)


def grow_tree(
    rows: WeightedRows, targets: NDArray[np.float64], leaf: int, rng: np.random.RandomState
) -> ExtraTreeRegressor:
    """One tree for ``targets`` (m,)."""
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    # Half an observation of slack: weights are whole, their sums are compared as floats. A share
    # above 1/2, which scikit-learn's check rejects, means one leaf.
    min_fraction = (leaf - 0.5) / rows.weights.sum()
    tree = ExtraTreeRegressor(
        max_features=1.0, min_weight_fraction_leaf=min_fraction, random_state=rng
    )
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return tree.fit(rows.inputs, targets, rows.weights, check_input=False)


def predict_with_forest(
    rows: WeightedRows,
    targets: NDArray[np.float64],
    queries: NDArray[np.float32],
    trees: int,
    leaf: int,
    rng: np.random.RandomState,
) -> NDArray[np.float64]:
    """(q,) what a new forest predicts at ``queries`` (q, d)."""
    total = np.zeros(len(queries))
    for _ in range(trees):
        total += grow_tree(rows, targets, leaf, rng).predict(queries, check_input=False)
    return total / trees


@dataclass(frozen=True)
class FittedQ:
    """Batch Q-learning with a forest on (coordinates, action index).

    Args:
        trees: trees in each forest; also the paper's count of its size.
        leaf: observations in a leaf, at least.
        iterations: how often a new forest is fitted.

    Example:
        >>> policy = ts.train(ts.FittedQ(), ts.benchmark("QUE-Lin"), updates=200, rng=0)
        >>> policy.simulator_calls
        200
    """

    trees: int = 60
    leaf: int = 2
    iterations: int = 10

    title: ClassVar[str] = "Fitted Q iteration"

    def __post_init__(self) -> None:
        for name in ("trees", "leaf", "iterations"):
            require_whole(name, getattr(self, name), 1)

    def size(self, mdp: MDP) -> int:
        """As the paper counts: trees."""
        return self.trees


def train_forests(
    method: FittedQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> dict[tuple[int, int], TrainedPolicy]:
    """A policy for each (seed, budget), each from the seed's first ``budget`` transitions."""
    policies = {}
    for seed in seeds:
        transitions = draw_uniform_transitions(mdp, budgets[-1], seed)
        for budget in budgets:
            # The tree builder takes its seeds from a RandomState.
            rng = np.random.RandomState(np.random.PCG64([seed, budget]))
            curve = _run_iterations(method, mdp, transitions.take_first(budget), rng)
            policies[seed, budget] = TrainedPolicy.of_method(
                method, mdp, curve.tables[-1], curve, budget
            )
    return policies


def make_pair_inputs(mdp: MDP) -> NDArray[np.float32]:
    """(S A, d + 1) coordinates and action index of all pairs."""
    points = np.repeat(mdp.grid.points, mdp.n_actions, axis=0)
    actions = np.tile(np.arange(mdp.n_actions), mdp.n_states)
    return np.ascontiguousarray(np.column_stack([points, actions]), dtype=np.float32)


def _run_iterations(
    method: FittedQ, mdp: MDP, transitions: Transitions, rng: np.random.RandomState
) -> TrainingCurve:
    inputs = make_pair_inputs(mdp)
    pairs, row_index, counts = np.unique(
        transitions.states * mdp.n_actions + transitions.actions,
        return_inverse=True,
        return_counts=True,
    )
    rows = WeightedRows(inputs[pairs], counts.astype(np.float64))
    future = np.zeros(len(row_index))
    tables = []
    residual = []
    for _ in range(method.iterations):
        targets = np.bincount(row_index, transitions.rewards + future) / rows.weights
        q = predict_with_forest(rows, targets, inputs, method.trees, method.leaf, rng)
        q_SA = np.where(mdp.feasible_mask, q.reshape(-1, mdp.n_actions), -np.inf)
        previous = future
        best_S = q_SA.max(axis=1)
        future = mdp.discount * np.where(transitions.ended, 0.0, best_S[transitions.nexts])
        tables.append(select_greedy(q_SA, mdp))
        residual.append(np.abs(future - previous).mean())
    at = np.arange(1, method.iterations + 1)
    return TrainingCurve("iterations", at, np.stack(tables), np.array(residual))
