"""Tabular methods along a trajectory: simulator and update take turns.

    a = argmax_{b feasible in s} sum_i Q_i(s, b),  or, with probability epsilon, a random one

The next pair depends on the table, so nothing can be drawn beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tessella.baselines.options import Trajectory
from tessella.baselines.q_learning import (
    QTables,
    Snapshots,
    Transition,
    make_initial_tables,
    update_tables,
)
from tessella.baselines.tabular_q import TabularQ
from tessella.mdp.compilation import compile_per_shape, in_float64
from tessella.mdp.model import MDP
from tessella.mdp.start import start_distribution


class PathPosition(NamedTuple):
    """Where the path is."""

    state: int
    steps_since_start: int  # steps since the path last began
    greedy_action: int  # what the tables would do here


def train_along_path(
    method: TabularQ, path: Trajectory, mdp: MDP, budgets: Sequence[int], seed: int
) -> Snapshots:
    """Updates along an epsilon-greedy path; ``budgets`` ascend."""
    rng = np.random.default_rng(seed)
    tables = make_initial_tables(method, mdp)
    state = _draw_start(mdp, rng)
    position = PathPosition(state, 0, int(mdp.feasible_mask[state].argmax()))
    q = []
    residual = []
    for begin, end in zip((0, *budgets), budgets, strict=False):
        tables = tables._replace(errors=np.zeros(()))
        for _ in range(begin, end):
            tables, position = _take_step(method, path, mdp, tables, position, rng)
        q.append(np.asarray(tables.q).sum(axis=0))
        residual.append(float(tables.errors) / (end - begin))
    return Snapshots(np.asarray(budgets, dtype=np.int64), np.stack(q), np.array(residual))


def _take_step(
    method: TabularQ,
    path: Trajectory,
    mdp: MDP,
    tables: QTables,
    position: PathPosition,
    rng: np.random.Generator,
) -> tuple[QTables, PathPosition]:
    """One period: act, see, learn, go on or start again."""
    feasible = mdp.feasible_mask
    is_exploring = rng.random() < path.epsilon
    action = (
        rng.choice(np.flatnonzero(feasible[position.state]))
        if is_exploring
        else position.greedy_action
    )
    outcome = mdp.dynamics.step(np.array([position.state]), np.array([action]), rng)
    next_state = int(outcome.states[0])
    ended = bool(outcome.ended[0])
    seen = Transition(
        position.state, action, outcome.rewards[0], next_state, ended, rng.integers(2)
    )
    restarts = ended or position.steps_since_start + 1 == path.horizon
    state, steps_since_start = (
        (_draw_start(mdp, rng), 0) if restarts else (next_state, position.steps_since_start + 1)
    )
    tables, greedy = _learn(method, tables, seen, state, mdp.discount, feasible)
    return tables, PathPosition(state, steps_since_start, int(greedy))


def _draw_start(mdp: MDP, rng: np.random.Generator) -> int:
    return int(rng.choice(mdp.n_states, p=start_distribution(mdp, None)))


@in_float64  # not around ``train_along_path``: rewards are the user's functions, in their setting
@compile_per_shape("method")
def _learn(method, tables, seen, state, discount, feasible_SA):
    """The tables after ``seen``, and their greedy action in ``state``."""
    tables = update_tables(method, tables, seen, discount, feasible_SA)
    best = jnp.where(feasible_SA[state], tables.q[:, state].sum(axis=0), -jnp.inf).argmax()
    return tables, best
