"""Random models, and their optimum in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import tessella as ts


class Exact:
    """Policy iteration in rational arithmetic: no rounding anywhere."""

    def __init__(self, transition, reward, discount, feasible=None):
        self.n_actions, self.n, _ = transition.shape
        self.P = [[[Fraction(x) for x in row] for row in matrix] for matrix in transition.tolist()]
        self.r = [[Fraction(x) for x in row] for row in reward.tolist()]
        self.gamma = Fraction(float(discount))
        self.feasible = np.ones(reward.shape, bool) if feasible is None else feasible

    def q(self, value, s, a):
        return self.r[s][a] + self.gamma * sum(
            p * v for p, v in zip(self.P[a][s], value, strict=True) if p
        )

    def evaluate(self, policy):
        n = self.n
        rows = [
            [Fraction(int(i == j)) - self.gamma * self.P[policy[i]][i][j] for j in range(n)]
            + [self.r[i][policy[i]]]
            for i in range(n)
        ]
        for i in range(n):
            pivot = next(k for k in range(i, n) if rows[k][i] != 0)
            rows[i], rows[pivot] = rows[pivot], rows[i]
            eliminate(rows, i)
        return [row[-1] for row in rows]

    def solve(self):
        options = [np.flatnonzero(row).tolist() for row in self.feasible]
        policy = [choices[0] for choices in options]
        while True:
            value = self.evaluate(policy)
            improved = [
                max(options[s], key=lambda a, s=s, v=value: (self.q(v, s, a), a == policy[s]))
                for s in range(self.n)
            ]
            if all(self.q(value, s, improved[s]) == value[s] for s in range(self.n)):
                return value
            policy = improved


def eliminate(rows, i):
    """Scale row i to 1 in column i, and subtract it from all other rows."""
    rows[i] = [x / rows[i][i] for x in rows[i]]
    for k, row in enumerate(rows):
        if k != i and row[i]:
            rows[k] = [x - row[i] * y for x, y in zip(row, rows[i], strict=True)]


@st.composite
def small_models(draw):
    """(transition, reward, discount, feasible) with awkward numbers and few array shapes.

    Each shape compiles for seconds, for each method. Up to eight distinct rows count as eight; so
    a third of the twelve rows repeat others, and of twelve pairs all are feasible or eight.
    """
    n, n_actions = draw(st.sampled_from([(1, 2), (4, 3)]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    density = draw(_DENSITIES)
    weights = rng.random((n_actions, n, n)) * (rng.random((n_actions, n, n)) < density)
    weights[weights.sum(axis=-1) == 0, 0] = 1.0  # absorb what has nowhere to go
    transition = weights / weights.sum(axis=-1, keepdims=True)
    if n > 1:
        first, *_, last = np.split(rng.permutation(n_actions * n), 3)
        rows = transition.reshape(-1, n)
        rows[first] = rows[last]
    reward = rng.normal(size=(n, n_actions)) * 10.0 ** draw(st.integers(-12, 12))
    if draw(st.booleans()):
        reward = np.round(rng.normal(size=(n, n_actions)))  # ties
    discount = draw(st.sampled_from([0.0, 0.3, 0.9, 0.95, 0.99, 0.999, 0.9999]))
    feasible = np.ones((n, n_actions), bool)
    if n > 1 and draw(st.booleans()):
        feasible = draw_feasible(rng)
    return transition, reward, discount, feasible


def draw_feasible(rng: np.random.Generator) -> np.ndarray:
    """(4, 3) which actions are feasible: two in state 0; one, two and three in the others."""
    counts = np.array([2, *rng.permutation([1, 2, 3])])
    return rng.permuted(np.arange(3) < counts[:, None], axis=1)


_DENSITIES = st.sampled_from([0.4, 1.0])


def random_model(rng, n=60, n_actions=3, links=6, discount=0.95):
    """A random sparse model as an MDP."""
    transition = np.zeros((n_actions, n, n))
    for a in range(n_actions):
        for s in range(n):
            to = rng.choice(n, size=links, replace=False)
            transition[a, s, to] = rng.dirichlet(np.ones(links))
    return ts.MDP.from_arrays(transition, rng.normal(size=(n, n_actions)), discount)
