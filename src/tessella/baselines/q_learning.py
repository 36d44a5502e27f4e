"""Running tabular methods: one update, from uniform pairs or along a path.

    error = r + discount target(s') - Q_i(s, a),    Q_i(s, a) <- Q_i(s, a) + step error

Transitions from uniform pairs do not depend on what was learned, so they are drawn beforehand and
all seeds go through one compiled loop (vmap over seeds); a snapshot is that loop's state at a
budget. The loop always has SEEDS_PER_CALL lanes, whatever the number of seeds: compiled for another
width it might round differently, and a seed's numbers must not depend on the other seeds.

Along a path the simulator and the update take turns,

    a = argmax_{b feasible in s} sum_i Q_i(s, b),  or, with probability epsilon, a random one,

so the next pair depends on the table and nothing can be drawn beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tessella.baselines.tabular_q import TabularQ, Trajectory
from tessella.baselines.training import TRANSITIONS_PER_BLOCK, Transitions, draw_uniform_transitions
from tessella.mdp.compilation import compile_per_shape, in_float64
from tessella.mdp.model import MDP
from tessella.mdp.start import start_distribution

SEEDS_PER_CALL = 16  # seeds in one compiled call
# Updates whose transitions are held in memory at a time.
UPDATES_PER_PIECE = 16 * TRANSITIONS_PER_BLOCK


class QTables(NamedTuple):
    """What a run has learned; T tables."""

    q: Any  # (T, S, A)
    visits: Any  # (T, S, A) updates of each entry
    errors: Any  # () sum of |error| since the last snapshot


@dataclass(frozen=True, eq=False)
class Snapshots:
    """One seed's run."""

    at: NDArray[np.int64]  # (m,) updates done
    q: NDArray[np.float64]  # (m, S, A) sum over the method's tables
    residual: NDArray[np.float64]  # (m,) mean |error| since the last snapshot


def make_initial_tables(method: TabularQ, mdp: MDP) -> QTables:
    """Before the first update."""
    shape = (method.tables, mdp.n_states, mdp.n_actions)
    return QTables(np.full(shape, float(method.start)), np.zeros(shape), np.zeros(()))


def update_tables(
    method: TabularQ, tables: QTables, transition: Transitions, discount, feasible_SA
) -> QTables:
    """One update, for compiled code."""
    q, visits, errors = tables
    learner, future = method.target(q, transition.nexts, transition.coins, feasible_SA)
    entry = (learner, transition.states, transition.actions)
    visits = visits.at[entry].add(1.0)
    error = transition.rewards + discount * jnp.where(transition.ended, 0.0, future) - q[entry]
    q = q.at[entry].add(method.step.step_size(visits[entry]) * error)
    return QTables(q, visits, errors + jnp.abs(error))


def train_uniformly(
    method: TabularQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> list[Snapshots]:
    """Updates from uniform pairs, for each seed; ``budgets`` ascend."""
    seed_groups = [seeds[i : i + SEEDS_PER_CALL] for i in range(0, len(seeds), SEEDS_PER_CALL)]
    return [
        run
        for seed_group in seed_groups
        for run in _train_seed_group(method, mdp, budgets, seed_group)
    ]


def _train_seed_group(
    method: TabularQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> list[Snapshots]:
    tables = QTables(
        *(np.stack([array] * SEEDS_PER_CALL) for array in make_initial_tables(method, mdp))
    )
    feasible = mdp.feasible_mask
    q = []
    residual = []
    done = 0
    for first in range(0, budgets[-1], UPDATES_PER_PIECE):
        last = min(first + UPDATES_PER_PIECE, budgets[-1])
        transitions = _draw_transitions(mdp, first, last, seeds)
        snapshots = [budget for budget in budgets if first < budget <= last]
        for end in dict.fromkeys([*snapshots, last]):
            tables = _run_updates(
                method,
                tables,
                transitions,
                max(done, first) - first,
                end - first,
                mdp.discount,
                feasible,
            )
            if end in snapshots:
                previous = budgets[len(q) - 1] if q else 0
                q.append(np.asarray(tables.q)[: len(seeds)].sum(axis=1))
                residual.append(np.asarray(tables.errors)[: len(seeds)] / (end - previous))
                tables = tables._replace(errors=np.zeros(SEEDS_PER_CALL))
            done = end
    at = np.asarray(budgets, dtype=np.int64)
    columns = zip(np.stack(q, axis=1), np.stack(residual, axis=1), strict=True)
    return [Snapshots(at, *column) for column in columns]


def _draw_transitions(mdp: MDP, begin: int, end: int, seeds: Sequence[int]) -> Transitions:
    """(SEEDS_PER_CALL, length) arrays; the length is a power of two, so that few are compiled."""
    batches = [draw_uniform_transitions(mdp, end, seed, begin) for seed in seeds]
    n = end - begin
    padding = (
        (0, SEEDS_PER_CALL - len(seeds)),
        (0, max(TRANSITIONS_PER_BLOCK, 1 << (n - 1).bit_length()) - n),
    )
    columns = zip(*batches, strict=True)
    return Transitions(*(np.pad(np.stack(column), padding) for column in columns))


@in_float64  # here, not around ``train_uniformly``: rewards are the user's, in their setting
@compile_per_shape("method")
def _run_updates(method, tables, transitions, begin, end, discount, feasible_SA):
    """Updates ``begin`` to ``end`` of every seed."""

    def update_seed(tables, transitions):
        def body(t, tables):
            transition = jax.tree.map(lambda array: array[t], transitions)
            return update_tables(method, tables, transition, discount, feasible_SA)

        return lax.fori_loop(begin, end, body, tables)

    return jax.vmap(update_seed)(tables, transitions)


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
    """One period: act, observe, learn, continue or restart."""
    feasible = mdp.feasible_mask
    is_exploring = rng.random() < path.epsilon
    action = (
        rng.choice(np.flatnonzero(feasible[position.state]))
        if is_exploring
        else position.greedy_action
    )
    outcome = mdp.dynamics.step(np.array([position.state]), np.array([action]), rng)
    next_state = int(outcome.next_states[0])
    ended = bool(outcome.ended[0])
    transition = Transitions(
        position.state, action, outcome.rewards[0], next_state, ended, rng.integers(2)
    )
    restarts = ended or position.steps_since_start + 1 == path.horizon
    state, steps_since_start = (
        (_draw_start(mdp, rng), 0) if restarts else (next_state, position.steps_since_start + 1)
    )
    tables, greedy = _learn(method, tables, transition, state, mdp.discount, feasible)
    return tables, PathPosition(state, steps_since_start, int(greedy))


def _draw_start(mdp: MDP, rng: np.random.Generator) -> int:
    return int(rng.choice(mdp.n_states, p=start_distribution(mdp, None)))


@in_float64  # not around ``train_along_path``: rewards are the user's functions, in their setting
@compile_per_shape("method")
def _learn(method, tables, transition, state, discount, feasible_SA):
    """The tables after ``transition``, and their greedy action in ``state``."""
    tables = update_tables(method, tables, transition, discount, feasible_SA)
    best = jnp.where(feasible_SA[state], tables.q[:, state].sum(axis=0), -jnp.inf).argmax()
    return tables, best
