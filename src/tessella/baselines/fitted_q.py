"""Fitted Q iteration with extra-trees (Ernst, Geurts, Wehenkel 2005).

    Q_{k+1} = forest fitted to  (s_i, a_i) -> r_i + discount max_{b feasible in s'_i} Q_k(s'_i, b)

from Q_0 = 0, over one fixed set of n transitions. The maximum is taken on the table of next states
that occur, not on n x A rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.baselines.forest import Rows, forest_mean
from tessella.baselines.trained import Curve, Trained, greedy
from tessella.baselines.transitions import Transitions, uniform_transitions
from tessella.errors import ArgumentError, is_count
from tessella.mdp.model import MDP


@dataclass(frozen=True)
class FittedQ:
    """Batch Q-learning with a forest on (coordinates, action index).

    Args:
        trees: trees in each forest; also the paper's count of its size.
        leaf: observations in a leaf, at least.
        iterations: how often a new forest is fitted.
    """

    trees: int = 60
    leaf: int = 2
    iterations: int = 10

    title: ClassVar[str] = "Fitted Q iteration"

    def __post_init__(self) -> None:
        if not all(map(is_count, (self.trees, self.leaf, self.iterations))):
            raise ArgumentError(
                "trees, leaf and iterations must be at least 1, whole numbers", value=f"got {self}"
            )

    def size(self, mdp: MDP) -> int:
        """As the paper counts: trees."""
        return self.trees


def train_forests(
    method: FittedQ,
    mdp: MDP,
    budgets: Sequence[int],
    seeds: Sequence[int],
    watch: bool = False,
) -> dict[tuple[int, int], Trained]:
    """A policy for each (seed, budget), each from the seed's first ``budget`` transitions.

    ``watch`` keeps the policy of every iteration for the curve, and not only the last.
    """
    found = {}
    for seed in seeds:
        seen = uniform_transitions(mdp, budgets[-1], seed)
        for budget in budgets:
            # The tree builder takes its seeds from a RandomState.
            rng = np.random.RandomState(np.random.PCG64([seed, budget]))
            batch = _prepare(mdp, seen.first(budget))
            found[seed, budget] = _iterate(method, mdp, batch, rng, watch)
    return found


@dataclass(frozen=True, eq=False)
class _Batch:
    """Transitions, with everything that stays the same from iteration to iteration."""

    seen: Transitions
    table: NDArray[np.float32]  # (S A, d + 1) inputs of all pairs
    rows: Rows  # the pairs that occur
    row: NDArray[np.intp]  # (n,) which of them
    nexts: NDArray[np.int64]  # (N,) the next states that occur
    next: NDArray[np.intp]  # (n,) which of them
    reached: NDArray[np.float32]  # (N A, d + 1) their inputs
    feasible: NDArray[np.bool_]  # (N, A)


def _prepare(mdp: MDP, seen: Transitions) -> _Batch:
    points = np.repeat(mdp.grid.points, mdp.n_actions, axis=0)
    actions = np.tile(np.arange(mdp.n_actions), mdp.n_states)
    table = np.ascontiguousarray(np.column_stack([points, actions]), dtype=np.float32)
    pairs, row, counts = np.unique(
        seen.states * mdp.n_actions + seen.actions, return_inverse=True, return_counts=True
    )
    nexts, place = np.unique(seen.nexts, return_inverse=True)
    reached = table.reshape(mdp.n_states, mdp.n_actions, -1)[nexts].reshape(-1, table.shape[1])
    rows = Rows(table[pairs], counts.astype(np.float64))
    return _Batch(seen, table, rows, row, nexts, place, reached, mdp.feasible_mask[nexts])


def _iterate(
    method: FittedQ, mdp: MDP, batch: _Batch, rng: np.random.RandomState, watch: bool
) -> Trained:
    future = np.zeros(len(batch.seen))
    at, tables, residual = [], [], []
    for k in range(1, method.iterations + 1):
        whole = watch or k == method.iterations
        targets = np.bincount(batch.row, batch.seen.rewards + future) / batch.rows.weights
        queries = batch.table if whole else batch.reached
        q = forest_mean(batch.rows, targets, queries, method.trees, method.leaf, rng)
        q = q.reshape(-1, mdp.n_actions)
        best = np.where(batch.feasible, q[batch.nexts] if whole else q, -np.inf).max(axis=1)
        before, future = future, mdp.discount * np.where(batch.seen.ended, 0.0, best[batch.next])
        if whole:
            at.append(k)
            tables.append(greedy(q, mdp))
            residual.append(np.abs(future - before).mean())
    curve = Curve("iterations", np.array(at), np.stack(tables), np.array(residual))
    return Trained.of(
        mdp.grid,
        mdp.actions,
        tables[-1],
        size=method.size(mdp),
        name=method.title,
        action_name=mdp.action_name,
        curve=curve,
        simulator_calls=len(batch.seen),
    )
