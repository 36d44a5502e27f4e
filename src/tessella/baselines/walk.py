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
from tessella.baselines.q_learning import Snapshots, Tables, Transition, blank, update
from tessella.baselines.tabular_q import TabularQ
from tessella.mdp.engine import compiled, in_float64
from tessella.mdp.model import MDP
from tessella.mdp.start import start_distribution


class Place(NamedTuple):
    """Where the path is."""

    state: int
    age: int  # steps since the path last began
    greedy: int  # what the tables would do here


def walk(
    method: TabularQ, path: Trajectory, mdp: MDP, budgets: Sequence[int], seed: int
) -> Snapshots:
    """Updates along an epsilon-greedy path; ``budgets`` ascend."""
    rng = np.random.default_rng(seed)
    tables, state = blank(method, mdp), _begin(mdp, rng)
    place = Place(state, 0, int(mdp.feasible_mask[state].argmax()))
    q, residual = [], []
    for begin, end in zip((0, *budgets), budgets, strict=False):
        tables = tables._replace(errors=np.zeros(()))
        for _ in range(begin, end):
            tables, place = _step(method, path, mdp, tables, place, rng)
        q.append(np.asarray(tables.q).sum(axis=0))
        residual.append(float(tables.errors) / (end - begin))
    return Snapshots(np.asarray(budgets, dtype=np.int64), np.stack(q), np.array(residual))


def _step(
    method: TabularQ,
    path: Trajectory,
    mdp: MDP,
    tables: Tables,
    place: Place,
    rng: np.random.Generator,
) -> tuple[Tables, Place]:
    """One period: act, see, learn, go on or start again."""
    feasible = mdp.feasible_mask
    explores = rng.random() < path.epsilon
    action = rng.choice(np.flatnonzero(feasible[place.state])) if explores else place.greedy
    steps = mdp.dynamics.step(np.array([place.state]), np.array([action]), rng)
    after, ended = int(steps.states[0]), bool(steps.ended[0])
    seen = Transition(place.state, action, steps.rewards[0], after, ended, rng.integers(2))
    again = ended or place.age + 1 == path.horizon
    state, age = (_begin(mdp, rng), 0) if again else (after, place.age + 1)
    tables, greedy = _learn(method, tables, seen, state, mdp.discount, feasible)
    return tables, Place(state, age, int(greedy))


def _begin(mdp: MDP, rng: np.random.Generator) -> int:
    return int(rng.choice(mdp.n_states, p=start_distribution(mdp, None)))


@in_float64  # here and not around ``walk``: rewards are the user's functions, in their setting
@compiled("method")
def _learn(method, tables, seen, state, discount, feasible_SA):
    """The tables after ``seen``, and their greedy action in ``state``."""
    tables = update(method, tables, seen, discount, feasible_SA)
    best = jnp.where(feasible_SA[state], tables.q[:, state].sum(axis=0), -jnp.inf).argmax()
    return tables, best
