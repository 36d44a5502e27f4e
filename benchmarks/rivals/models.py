"""The models of the comparison, in a form that every rival can read: feasible pairs and their rows.

    state[i], action[i], reward[i], rows[i, :]    for each of L feasible pairs, with a discount

Structured models are told by their settings alone: whoever needs arrays makes them, and the time
that takes is part of building; whoever can state the structure does so. Published models of the zoo
are handed over as arrays in a file. A discount of 1 stands for the average per period. NumPy and
SciPy only, so that this file runs in every rival's environment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

ORDERS = (0, 4, 8, 12, 16)
MOST = 55  # the largest demand
BLOCK = 20_000  # pairs whose rows are made at once, so that making them takes no memory of note
HOLD, LACK, UNIT, FIXED = 0.08, 1.55, 0.25, 0.2


@dataclass(frozen=True)
class Model:
    """One model of the set."""

    name: str
    kind: str  # which of the makers below
    settings: tuple
    discount: float  # 1 for the average
    states: int = 0
    group: str = ""  # models of one group grow; who fails at one is not asked for the next

    @property
    def average(self) -> bool:
        return self.discount == 1

    def pairs(self) -> Pairs:
        """Its arrays."""
        return MAKERS[self.kind](*self.settings)


@dataclass(frozen=True)
class Pairs:
    """Feasible pairs and their rows."""

    state: np.ndarray  # (L,)
    action: np.ndarray  # (L,)
    reward: np.ndarray  # (L,)
    rows: sp.csr_matrix  # (L, S)

    @property
    def n_states(self) -> int:
        return self.rows.shape[1]

    @property
    def n_actions(self) -> int:
        return int(self.action.max()) + 1

    def by_action(self) -> list[sp.csr_matrix]:
        """One (S, S) matrix for each action, where every pair is feasible."""
        if len(self.state) < self.n_states * self.n_actions:
            raise NotImplementedError("some actions are not feasible everywhere")
        return [self.rows[self.action == a] for a in range(self.n_actions)]

    def taken(self, choice: np.ndarray) -> np.ndarray:
        """(S,) actions, from the place of each state's choice among its own feasible ones."""
        first = np.searchsorted(self.state, np.arange(self.n_states))
        return self.action[first + choice]

    def gain(self, value: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """(1,) the average of a policy, from values that tell it: what one more period adds."""
        own = self.action == policy[self.state]
        added = self.reward[own] + self.rows[own] @ value - value
        return np.array([(added.max() + added.min()) / 2])

    def reward_table(self) -> np.ndarray:
        """(S, A), -inf where infeasible."""
        table = np.full((self.n_states, self.n_actions), -np.inf)
        table[self.state, self.action] = self.reward[: len(self.state)]
        extra = self.reward[len(self.state) :]  # of a faulty model, which has some too many
        return table if not extra.size else np.vstack([table, np.full(self.n_actions, extra[0])])


def demand_law(regimes: int) -> np.ndarray:
    """(Z, K) a Poisson law of demand in each regime, the rest of it on the largest demand."""
    z = np.arange(regimes)
    share = z / max(regimes - 1, 1)
    mean = 1.8 + 0.36 * 24 * share + 0.5 * np.sin(2 * np.pi * share) + 2 * (share - 0.5) ** 2
    k = np.arange(MOST + 1)
    log = k * np.log(mean)[:, None] - mean[:, None] - np.cumsum(np.log(np.maximum(k, 1)))
    law = np.exp(log)
    law[:, -1] += np.maximum(1 - law.sum(axis=1), 0)
    return law / law.sum(axis=1, keepdims=True)


def walk_law(regimes: int) -> np.ndarray:
    """(Z, 3) down, stay, up; a step past an end stays."""
    law = np.tile([0.25, 0.5, 0.25], (regimes, 1))
    law[0] += [-0.25, 0.25, 0]
    law[-1] += [0, 0.25, -0.25]
    return law


def inventory(stock: int, regime: int) -> Pairs:
    """Orders up to a full store, Poisson demand by regime, which walks."""
    X, Z, A = stock + 1, regime + 1, len(ORDERS)
    x, z, a = (m.ravel() for m in np.meshgrid(range(X), range(Z), range(A), indexing="ij"))
    n, most = len(x), 3 * (MOST + 1)
    data, to = np.empty(n * most), np.empty(n * most, dtype=np.int32)
    reward, start = np.empty(n), np.zeros(n + 1, dtype=np.int64)
    laws = demand_law(Z), walk_law(Z)
    for begin in range(0, n, BLOCK):
        some = slice(begin, min(begin + BLOCK, n))
        reward[some], rows = _inventory_rows(stock, regime, x[some], z[some], a[some], laws)
        first = start[begin]
        start[begin + 1 : some.stop + 1] = first + rows.indptr[1:]
        data[first : first + rows.nnz], to[first : first + rows.nnz] = rows.data, rows.indices
    if start[-1] < np.iinfo(np.int32).max:
        start = start.astype(np.int32)
    full = sp.csr_matrix((data[: start[-1]], to[: start[-1]], start), shape=(n, X * Z))
    return Pairs(x * Z + z, a, reward, full)


def _inventory_rows(stock, regime, x, z, a, laws) -> tuple[np.ndarray, sp.csr_matrix]:
    """Rewards and rows of some pairs."""
    (demand, walk), Z, k = laws, regime + 1, np.arange(MOST + 1)
    order = np.asarray(ORDERS)[a]
    level = np.minimum(x + order, stock)[:, None]
    left, short = np.maximum(level - k, 0), np.maximum(k - level, 0)
    paid = (demand[z] * (HOLD * left + LACK * short)).sum(axis=1)
    to = left[:, :, None] * Z + np.clip(z[:, None, None] + np.array([-1, 0, 1]), 0, Z - 1)
    p = demand[z][:, :, None] * walk[z][:, None, :]
    places = np.arange(0, p.size + 1, 3 * len(k))
    rows = sp.csr_matrix((p.ravel(), to.ravel(), places), shape=(len(x), (stock + 1) * Z))
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return -(paid + UNIT * order + FIXED * (order > 0)), rows


def random_rows(states: int, actions: int, successors: int) -> Pairs:
    """Rows of random successors with random weights: nothing to make use of."""
    rng = np.random.default_rng(0)
    n = states * actions
    to = rng.integers(0, states, (n, successors))
    p = rng.dirichlet(np.ones(successors), n)
    rows = sp.csr_matrix(
        (p.ravel(), to.ravel(), np.arange(0, n * successors + 1, successors)), shape=(n, states)
    )
    rows.sum_duplicates()
    state, action = np.divmod(np.arange(n), actions)
    return Pairs(state, action, rng.random(n), rows)


def lake(side: int) -> Pairs:
    """A slippery map with holes, as FrozenLake: each move goes astray to either side."""
    rng = np.random.default_rng(1)
    n, holes = side * side, rng.random(side * side) < 0.15
    holes[0], goal = False, side * side - 1
    holes[goal] = False
    y, x = np.divmod(np.arange(n), side)
    move = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])
    state, action = np.divmod(np.arange(4 * n), 4)
    to = np.empty((4 * n, 3), dtype=np.int64)
    for j, turn in enumerate((-1, 0, 1)):
        dy, dx = move[(action + turn) % 4].T
        to[:, j] = np.clip(y[state] + dy, 0, side - 1) * side + np.clip(x[state] + dx, 0, side - 1)
    ends = holes[state] | (state == goal)
    to[ends] = state[ends][:, None]
    reward = np.where(ends, 0.0, (to == goal).mean(axis=1))
    rows = sp.csr_matrix(
        (np.full(12 * n, 1 / 3), to.ravel(), np.arange(0, 12 * n + 1, 3)), shape=(4 * n, n)
    )
    rows.sum_duplicates()
    return Pairs(state, action, reward, rows)


def published(name: str, path: str) -> Pairs:
    """A model of the zoo, from the arrays that were written for it."""
    with np.load(path) as saved:
        state, action, reward = saved["state"], saved["action"], saved["reward"]
        shape = len(state), int(state.max()) + 1
        rows = sp.csr_matrix((saved["data"], saved["to"], saved["start"]), shape=shape)
    return Pairs(state, action, reward, rows)


MAKERS = {"inventory": inventory, "random": random_rows, "lake": lake, "zoo": published}
