"""Running tabular methods: one update, from uniform pairs or along a path.

    error = r + discount target(s') - Q_i(s, a),    Q_i(s, a) <- Q_i(s, a) + step error

Along a path the simulator and the update take turns,

    a = argmax_{b feasible in s} sum_i Q_i(s, b),  or, with probability epsilon, a random one.

Tables are Python's lists: an update reads a row or two and writes one entry, which takes half a
microsecond in lists and several in calls of an array library. Infeasible entries are -inf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tessella.baselines.tabular_q import QTables, TabularQ, Trajectory
from tessella.baselines.training import draw_blocks
from tessella.mdp.model import MDP
from tessella.mdp.start import start_distribution

Transition = tuple[int, int, float, int, bool, int]  # the fields of ``Transitions``


@dataclass(frozen=True, eq=False)
class Snapshots:
    """One seed's run."""

    at: NDArray[np.int64]  # (m,) updates done
    q: NDArray[np.float64]  # (m, S, A) sum over the method's tables; -inf where infeasible
    residual: NDArray[np.float64]  # (m,) mean |error| since the last snapshot


def train_tables(method: TabularQ, mdp: MDP, budgets: Sequence[int], seed: int) -> Snapshots:
    """The tables after each of the ascending ``budgets``."""
    start_SA = np.where(mdp.feasible_mask, float(method.start), -np.inf)
    q: QTables = [start_SA.tolist() for _ in range(method.tables)]
    visits = [np.zeros_like(start_SA, dtype=np.int64).tolist() for _ in range(method.tables)]
    transitions = _draw_transitions(method, mdp, q, seed)
    snapshots = []
    residual = []
    done = 0
    for budget in budgets:
        total_error = 0.0
        for s, a, reward, after, ended, coin in islice(transitions, budget - done):
            learner, future = method.target(q, after, coin)
            row = q[learner][s]
            error = reward + (0.0 if ended else mdp.discount * future) - row[a]
            visits[learner][s][a] += 1
            row[a] += method.step.step_size(visits[learner][s][a]) * error
            total_error += abs(error)
        snapshots.append(np.sum(q, axis=0))
        residual.append(total_error / (budget - done))
        done = budget
    return Snapshots(np.asarray(budgets), np.stack(snapshots), np.array(residual))


def _draw_transitions(method: TabularQ, mdp: MDP, q: QTables, seed: int) -> Iterator[Transition]:
    """Transitions without end; along a path they follow the tables ``q`` as these change."""
    if isinstance(method.sampling, Trajectory):
        yield from _follow_path(method.sampling, mdp, q, seed)
    else:
        for block in draw_blocks(mdp, seed):
            yield from zip(*(column.tolist() for column in block), strict=True)


def _follow_path(path: Trajectory, mdp: MDP, q: QTables, seed: int) -> Iterator[Transition]:
    rng = np.random.default_rng(seed)
    start = start_distribution(mdp, None)
    while True:
        state = int(rng.choice(mdp.n_states, p=start))
        for _ in range(path.horizon):
            if rng.random() < path.epsilon:
                action = int(rng.choice(np.flatnonzero(mdp.feasible_mask[state])))
            else:
                action = int(np.sum([table[state] for table in q], axis=0).argmax())
            outcome = mdp.dynamics.step(np.array([state]), np.array([action]), rng)
            after = int(outcome.next_states[0])
            ended = bool(outcome.ended[0])
            yield state, action, float(outcome.rewards[0]), after, ended, int(rng.integers(2))
            if ended:
                break
            state = after
