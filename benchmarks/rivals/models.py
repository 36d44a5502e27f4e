"""The models of the comparison, in a form that every rival can read: feasible pairs and their rows.

    state[i], action[i], reward[i], rows[i, :]    for each of L feasible pairs, with a discount

Structured models are told by their settings alone: whoever needs arrays makes them, and the time
that takes is part of building; whoever can state the structure does so. NumPy and SciPy only, so
that this file runs in every rival's environment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

ORDERS = (0, 4, 8, 12, 16)
MOST = 55  # the largest demand
HOLD, LACK, UNIT, FIXED = 0.08, 1.55, 0.25, 0.2


@dataclass(frozen=True)
class Model:
    """One model of the set."""

    name: str
    kind: str  # which of the makers below
    settings: tuple
    discount: float

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
        return [self.rows[self.action == a] for a in range(self.n_actions)]

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
    X, Z, K, A = stock + 1, regime + 1, MOST + 1, len(ORDERS)
    demand, walk = demand_law(Z), walk_law(Z)
    x, z, a = (m.ravel() for m in np.meshgrid(range(X), range(Z), range(A), indexing="ij"))
    level = np.minimum(x + np.asarray(ORDERS)[a], stock)
    k = np.arange(K)
    left = np.maximum(level[:, None] - k, 0)
    short = np.maximum(k - level[:, None], 0)
    paid = (demand[z] * (HOLD * left + LACK * short)).sum(axis=1)
    order = np.asarray(ORDERS)[a]
    reward = -(paid + UNIT * order + FIXED * (order > 0))
    to = left[:, :, None] * Z + np.clip(z[:, None, None] + np.array([-1, 0, 1]), 0, Z - 1)
    p = demand[z][:, :, None] * walk[z][:, None, :]
    rows = sp.csr_matrix(
        (p.ravel(), to.ravel(), np.arange(0, p.size + 1, 3 * K)), shape=(len(x), X * Z)
    )
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return Pairs(x * Z + z, a, reward, rows)


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


MAKERS = {"inventory": inventory, "random": random_rows, "lake": lake}

INVENTORY = ((32, 24), (100, 50), (200, 100), (500, 250), (1000, 500))


def the_set(largest: bool) -> list[Model]:
    """The models of the comparison; the largest one needs 6 GB from whoever holds matrices."""
    sizes = INVENTORY if largest else INVENTORY[:-1]
    structured = [
        Model(f"inventory {(x + 1) * (z + 1):,}", "inventory", (x, z), 0.95) for x, z in sizes
    ]
    discounts = [
        Model(f"inventory 825, {g}", "inventory", (32, 24), g) for g in (0.9, 0.99, 0.999, 0.9999)
    ]
    sparse = [
        Model(f"random {n:,} x {a} x {k}, {g}", "random", (n, a, k), g)
        for n, a, k, g in (
            (200, 4, 10, 0.95),
            (5_000, 5, 20, 0.95),
            (20_000, 5, 20, 0.95),
            (20_000, 5, 20, 0.999),
            (100_000, 4, 8, 0.99),
        )
    ]
    lakes = [Model(f"lake {n} x {n}", "lake", (n,), 0.99) for n in (10, 30, 100, 300)]
    return structured + discounts + sparse + lakes
