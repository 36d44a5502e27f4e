"""Running tabular methods: one update, and many seeds at once with snapshots at given budgets.

    error = r + discount target(s') - Q_i(s, a),    Q_i(s, a) <- Q_i(s, a) + step error

Transitions from uniform pairs do not depend on what was learned, so they are drawn beforehand and
all seeds go through one compiled loop (vmap over seeds); a snapshot is that loop's state at a
budget. The loop always has LANES lanes, whatever the number of seeds: compiled for another width it
might round differently, and a seed's numbers must not depend on which others run along.
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

from tessella.baselines.tabular_q import TabularQ
from tessella.baselines.transitions import BLOCK, uniform_transitions
from tessella.mdp.engine import compiled, in_float64
from tessella.mdp.model import MDP

LANES = 16
PIECE = 16 * BLOCK  # updates whose transitions are held in memory at a time


class Tables(NamedTuple):
    """What a run has learned; T tables."""

    q: Any  # (T, S, A)
    visits: Any  # (T, S, A) updates of each entry
    errors: Any  # () sum of |error| since the last snapshot


class Transition(NamedTuple):
    """One transition, or an array of them in each field."""

    state: Any
    action: Any
    reward: Any
    next: Any
    ended: Any
    coin: Any


@dataclass(frozen=True, eq=False)
class Snapshots:
    """One seed's run."""

    at: NDArray[np.int64]  # (m,) updates done
    q: NDArray[np.float64]  # (m, S, A) sum over the method's tables
    residual: NDArray[np.float64]  # (m,) mean |error| since the last snapshot


def blank(method: TabularQ, mdp: MDP) -> Tables:
    """Before the first update."""
    shape = (method.tables, mdp.n_states, mdp.n_actions)
    return Tables(np.full(shape, float(method.start)), np.zeros(shape), np.zeros(()))


def update(method: TabularQ, tables: Tables, seen: Transition, discount, feasible_SA) -> Tables:
    """One update, for compiled code."""
    q, visits, errors = tables
    learner, future = method.target(q, seen.next, seen.coin, feasible_SA)
    entry = (learner, seen.state, seen.action)
    visits = visits.at[entry].add(1.0)
    error = seen.reward + discount * jnp.where(seen.ended, 0.0, future) - q[entry]
    q = q.at[entry].add(method.step.after(visits[entry]) * error)
    return Tables(q, visits, errors + jnp.abs(error))


def uniform_updates(
    method: TabularQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> list[Snapshots]:
    """Updates from uniform pairs, for each seed; ``budgets`` ascend."""
    parts = [seeds[i : i + LANES] for i in range(0, len(seeds), LANES)]
    return [run for part in parts for run in _updates_part(method, mdp, budgets, part)]


def _updates_part(
    method: TabularQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> list[Snapshots]:
    tables = Tables(*(np.stack([array] * LANES) for array in blank(method, mdp)))
    feasible = mdp.feasible_mask
    q, residual, done = [], [], 0
    for first in range(0, budgets[-1], PIECE):
        last = min(first + PIECE, budgets[-1])
        seen = _transitions(mdp, first, last, seeds)
        stops = [budget for budget in budgets if first < budget <= last]
        for end in dict.fromkeys([*stops, last]):
            tables = _advance(
                method, tables, seen, max(done, first) - first, end - first, mdp.discount, feasible
            )
            if end in stops:
                before = budgets[len(q) - 1] if q else 0
                q.append(np.asarray(tables.q)[: len(seeds)].sum(axis=1))
                residual.append(np.asarray(tables.errors)[: len(seeds)] / (end - before))
                tables = tables._replace(errors=np.zeros(LANES))
            done = end
    at = np.asarray(budgets, dtype=np.int64)
    columns = zip(np.stack(q, axis=1), np.stack(residual, axis=1), strict=True)
    return [Snapshots(at, *column) for column in columns]


def _transitions(mdp: MDP, begin: int, end: int, seeds: Sequence[int]) -> Transition:
    """(LANES, length) arrays; the length is a power of two, so that few are compiled."""
    drawn = [uniform_transitions(mdp, end, seed, begin) for seed in seeds]
    n = end - begin
    padding = (0, LANES - len(seeds)), (0, max(BLOCK, 1 << (n - 1).bit_length()) - n)
    names = ("states", "actions", "rewards", "nexts", "ended", "coins")
    stacked = (np.stack([getattr(one, name) for one in drawn]) for name in names)
    return Transition(*(np.pad(array, padding) for array in stacked))


@in_float64  # here, not around ``uniform_updates``: rewards are the user's, in their setting
@compiled("method")
def _advance(method, tables, seen, begin, end, discount, feasible_SA):
    """Updates ``begin`` to ``end`` of every seed."""

    def one(tables, seen):
        def body(t, tables):
            now = jax.tree.map(lambda array: array[t], seen)
            return update(method, tables, now, discount, feasible_SA)

        return lax.fori_loop(begin, end, body, tables)

    return jax.vmap(one)(tables, seen)
