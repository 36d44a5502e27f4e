"""The models of the comparison, as arrays that every rival can read: feasible pairs and their rows.

    state[i], action[i], reward[i], rows[i, :]    for each of L feasible pairs, with a discount

A structured model is defined by its settings. A package that needs arrays computes them, and that
time is part of building; a package that supports the structure uses it. Published models are read
from a file of arrays. A discount of 1 means the average per period. This file needs only NumPy and
SciPy, so that it runs in every rival's environment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

ORDERS = (0, 4, 8, 12, 16)
MAX_DEMAND = 55
BLOCK_PAIRS = 20_000  # rows are built in blocks of this many pairs, to use little memory
HOLDING_COST, SHORTAGE_COST, UNIT_COST, FIXED_COST = 0.08, 1.55, 0.25, 0.2


@dataclass(frozen=True)
class Model:
    """One model of the set."""

    name: str
    kind: str  # a key of BUILDERS
    settings: tuple
    discount: float  # 1 for the average
    states: int = 0
    group: str = ""  # a package that fails on one model skips larger ones of its group

    @property
    def is_average(self) -> bool:
        return self.discount == 1

    def build_pairs(self) -> Pairs:
        """Compute or load its arrays."""
        return BUILDERS[self.kind](*self.settings)


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

    def split_by_action(self) -> list[sp.csr_matrix]:
        """One (S, S) matrix for each action, where every pair is feasible."""
        if len(self.state) < self.n_states * self.n_actions:
            raise NotImplementedError("some actions are not feasible everywhere")
        return [self.rows[self.action == a] for a in range(self.n_actions)]

    def find_actions(self, choice: np.ndarray) -> np.ndarray:
        """(S,) actions; a choice is a position among the feasible actions of its state."""
        first = np.searchsorted(self.state, np.arange(self.n_states))
        return self.action[first + choice]

    def compute_gain(self, value: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """(1,) the average of a policy, from relative values: the increase in one more period."""
        is_chosen = self.action == policy[self.state]
        increase = self.reward[is_chosen] + self.rows[is_chosen] @ value - value
        return np.array([(increase.max() + increase.min()) / 2])

    def make_reward_table(self) -> np.ndarray:
        """(S, A), -inf where infeasible."""
        table = np.full((self.n_states, self.n_actions), -np.inf)
        table[self.state, self.action] = self.reward[: len(self.state)]
        extra = self.reward[len(self.state) :]  # only in a faulty model
        return table if not extra.size else np.vstack([table, np.full(self.n_actions, extra[0])])


def compute_demand_law(regimes: int) -> np.ndarray:
    """(Z, K) Poisson demand in each regime; the largest demand takes the tail."""
    z = np.arange(regimes)
    share = z / max(regimes - 1, 1)
    mean = 1.8 + 0.36 * 24 * share + 0.5 * np.sin(2 * np.pi * share) + 2 * (share - 0.5) ** 2
    k = np.arange(MAX_DEMAND + 1)
    log = k * np.log(mean)[:, None] - mean[:, None] - np.cumsum(np.log(np.maximum(k, 1)))
    law = np.exp(log)
    law[:, -1] += np.maximum(1 - law.sum(axis=1), 0)
    return law / law.sum(axis=1, keepdims=True)


def compute_walk_law(regimes: int) -> np.ndarray:
    """(Z, 3) probabilities of down, stay and up; at an end, a step outside stays."""
    law = np.tile([0.25, 0.5, 0.25], (regimes, 1))
    law[0] += [-0.25, 0.25, 0]
    law[-1] += [0, 0.25, -0.25]
    return law


def build_inventory(stock: int, regime: int) -> Pairs:
    """Inventory with limited storage; demand is Poisson given a regime that walks."""
    X, Z, A = stock + 1, regime + 1, len(ORDERS)
    x, z, a = (m.ravel() for m in np.meshgrid(range(X), range(Z), range(A), indexing="ij"))
    n, row_max_entries = len(x), 3 * (MAX_DEMAND + 1)
    data, to = np.empty(n * row_max_entries), np.empty(n * row_max_entries, dtype=np.int32)
    reward, start = np.empty(n), np.zeros(n + 1, dtype=np.int64)
    laws = compute_demand_law(Z), compute_walk_law(Z)
    for begin in range(0, n, BLOCK_PAIRS):
        block = slice(begin, min(begin + BLOCK_PAIRS, n))
        reward[block], rows = _build_inventory_rows(
            stock, regime, x[block], z[block], a[block], laws
        )
        first = start[begin]
        start[begin + 1 : block.stop + 1] = first + rows.indptr[1:]
        data[first : first + rows.nnz], to[first : first + rows.nnz] = rows.data, rows.indices
    if start[-1] < np.iinfo(np.int32).max:
        start = start.astype(np.int32)
    full = sp.csr_matrix((data[: start[-1]], to[: start[-1]], start), shape=(n, X * Z))
    return Pairs(x * Z + z, a, reward, full)


def _build_inventory_rows(stock, regime, x, z, a, laws) -> tuple[np.ndarray, sp.csr_matrix]:
    """Rewards and rows of one block of pairs."""
    (demand, walk), Z, k = laws, regime + 1, np.arange(MAX_DEMAND + 1)
    order = np.asarray(ORDERS)[a]
    level = np.minimum(x + order, stock)[:, None]
    left, short = np.maximum(level - k, 0), np.maximum(k - level, 0)
    cost = (demand[z] * (HOLDING_COST * left + SHORTAGE_COST * short)).sum(axis=1)
    to = left[:, :, None] * Z + np.clip(z[:, None, None] + np.array([-1, 0, 1]), 0, Z - 1)
    p = demand[z][:, :, None] * walk[z][:, None, :]
    places = np.arange(0, p.size + 1, 3 * len(k))
    rows = sp.csr_matrix((p.ravel(), to.ravel(), places), shape=(len(x), (stock + 1) * Z))
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return -(cost + UNIT_COST * order + FIXED_COST * (order > 0)), rows


def build_random_rows(states: int, actions: int, successors: int) -> Pairs:
    """Rows of random successors with random weights: no structure."""
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


def build_lake(side: int) -> Pairs:
    """A slippery map with holes, like FrozenLake: a move may slip to either side."""
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


def load_published(name: str, path: str) -> Pairs:
    """Load the arrays that ``write_arrays`` saved for a published model."""
    with np.load(path) as saved:
        state, action, reward = saved["state"], saved["action"], saved["reward"]
        shape = len(state), int(state.max()) + 1
        rows = sp.csr_matrix((saved["data"], saved["to"], saved["start"]), shape=shape)
    return Pairs(state, action, reward, rows)


BUILDERS = {
    "inventory": build_inventory,
    "random": build_random_rows,
    "lake": build_lake,
    "published": load_published,
}
