"""Fitted Q iteration with extra-trees (Ernst, Geurts, Wehenkel 2005).

    Q_{k+1} = forest fitted to  (s_i, a_i) -> r_i + discount max_{b feasible in s'_i} Q_k(s'_i, b)

from Q_0 = 0, over one fixed set of n transitions. The maximum is taken on the table of next states
that occur, not on n x A rows.

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
    method: FittedQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int], watch: bool = False
) -> dict[tuple[int, int], TrainedPolicy]:
    """A policy for each (seed, budget), each from the seed's first ``budget`` transitions.

    ``watch`` keeps the policy of every iteration for the curve, and not only the last.
    """
    policies = {}
    for seed in seeds:
        transitions = draw_uniform_transitions(mdp, budgets[-1], seed)
        for budget in budgets:
            # The tree builder takes its seeds from a RandomState.
            rng = np.random.RandomState(np.random.PCG64([seed, budget]))
            batch = _prepare_batch(mdp, transitions.take_first(budget))
            policies[seed, budget] = _run_iterations(method, mdp, batch, rng, watch)
    return policies


@dataclass(frozen=True, eq=False)
class _TrainingBatch:
    """Transitions, with everything that stays the same from iteration to iteration."""

    transitions: Transitions
    pair_inputs: NDArray[np.float32]  # (S A, d + 1) inputs of all pairs
    distinct_rows: WeightedRows  # the pairs that occur
    row_index: NDArray[np.intp]  # (n,) which of them
    next_states: NDArray[np.int64]  # (N,) the next states that occur
    next_index: NDArray[np.intp]  # (n,) which of them
    next_inputs: NDArray[np.float32]  # (N A, d + 1) their inputs
    next_feasible: NDArray[np.bool_]  # (N, A)


def _prepare_batch(mdp: MDP, transitions: Transitions) -> _TrainingBatch:
    points = np.repeat(mdp.grid.points, mdp.n_actions, axis=0)
    actions = np.tile(np.arange(mdp.n_actions), mdp.n_states)
    pair_inputs = np.ascontiguousarray(np.column_stack([points, actions]), dtype=np.float32)
    pairs, row_index, counts = np.unique(
        transitions.states * mdp.n_actions + transitions.actions,
        return_inverse=True,
        return_counts=True,
    )
    next_states, next_index = np.unique(transitions.nexts, return_inverse=True)
    next_inputs = pair_inputs.reshape(mdp.n_states, mdp.n_actions, -1)[next_states].reshape(
        -1, pair_inputs.shape[1]
    )
    rows = WeightedRows(pair_inputs[pairs], counts.astype(np.float64))
    return _TrainingBatch(
        transitions,
        pair_inputs,
        rows,
        row_index,
        next_states,
        next_index,
        next_inputs,
        mdp.feasible_mask[next_states],
    )


def _run_iterations(
    method: FittedQ, mdp: MDP, batch: _TrainingBatch, rng: np.random.RandomState, watch: bool
) -> TrainedPolicy:
    future = np.zeros(len(batch.row_index))
    at = []
    tables = []
    residual = []
    for k in range(1, method.iterations + 1):
        use_all_pairs = watch or k == method.iterations
        targets = (
            np.bincount(batch.row_index, batch.transitions.rewards + future)
            / batch.distinct_rows.weights
        )
        queries = batch.pair_inputs if use_all_pairs else batch.next_inputs
        q = predict_with_forest(
            batch.distinct_rows, targets, queries, method.trees, method.leaf, rng
        )
        q = q.reshape(-1, mdp.n_actions)
        best = np.where(
            batch.next_feasible, q[batch.next_states] if use_all_pairs else q, -np.inf
        ).max(axis=1)
        previous = future
        future = mdp.discount * np.where(batch.transitions.ended, 0.0, best[batch.next_index])
        if use_all_pairs:
            at.append(k)
            tables.append(select_greedy(q, mdp))
            residual.append(np.abs(future - previous).mean())
    curve = TrainingCurve("iterations", np.array(at), np.stack(tables), np.array(residual))
    return TrainedPolicy.of_method(method, mdp, tables[-1], curve, len(batch.row_index))
