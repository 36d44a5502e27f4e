"""All that a certificate states, in rational arithmetic, and random cases to try it on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import tessella as ts
from support.models import Exact, draw_feasible


def find_first_best(q: dict[int, Fraction]) -> int:
    """The lowest index among the best actions."""
    best = max(q.values())
    return min(a for a, value in q.items() if value == best)


class Truth:
    """All that a certificate states about a policy, in fractions."""

    def __init__(self, transition, reward, discount, feasible, policy, start):
        exact = Exact(transition, reward, discount, feasible)
        self.n, self.gamma = exact.n, exact.gamma
        self.best = exact.solve()
        self.worth = exact.evaluate(policy)
        self.loss = [b - w for b, w in zip(self.best, self.worth, strict=True)]
        self.start = [Fraction(float(x)) for x in start]
        self.mean_loss = self.weigh(self.start, self.loss)
        self.q = [
            {int(a): exact.q(self.best, s, a) for a in np.flatnonzero(feasible[s])}
            for s in range(self.n)
        ]
        self.local = [max(q.values()) - q[policy[s]] for s, q in enumerate(self.q)]
        self.optimal = [find_first_best(q) for q in self.q]
        self.wrong = [int(policy[s] != self.optimal[s]) for s in range(self.n)]
        self.occupancy = self.compute_occupancy(exact, policy)

    def weigh(self, weights, values):
        return sum(w * v for w, v in zip(weights, values, strict=True))

    def compute_occupancy(self, exact, policy):
        """d = (1 - gamma) mu (I - gamma P)^-1, one unit reward at a time."""
        shares = []
        for s in range(self.n):
            exact.r = [[Fraction(int(i == s))] * exact.n_actions for i in range(self.n)]
            shares.append((1 - self.gamma) * self.weigh(self.start, exact.evaluate(policy)))
        return shares


def draw_model(rng: np.random.Generator):
    """(transition, reward, discount, feasible) of two shapes, since each compiles for seconds.

    Up to eight distinct rows count as eight; so of twelve pairs eight are feasible.
    """
    n, n_actions = [(3, 2), (4, 3)][rng.integers(2)]
    weights = rng.random((n_actions, n, n)) * (rng.random((n_actions, n, n)) < 0.6)
    weights[..., 0] += 0.01 * rng.random((n_actions, n))
    transition = weights / weights.sum(axis=-1, keepdims=True)
    if rng.random() < 0.2:  # rows may be off 1 by this much
        transition *= 1 + rng.uniform(-9e-10, 9e-10, (n_actions, n, 1))
    reward = rng.normal(size=(n, n_actions)) * 10.0 ** rng.integers(-12, 13)
    if rng.random() < 0.5:
        reward = np.round(rng.normal(size=(n, n_actions)))  # ties
    feasible = np.ones((n, n_actions), bool)
    if n_actions > 2:
        feasible = draw_feasible(rng)
    return transition, reward, float(rng.choice([0.0, 0.3, 0.9, 0.95, 0.999])), feasible


def draw_case(seed: int):
    """A solved model, a feasible policy (often nearly optimal), a start distribution, the truth."""
    rng = np.random.default_rng(seed)
    transition, reward, discount, feasible = draw_model(rng)
    mdp = ts.MDP.from_arrays(transition, reward, discount, feasible=feasible)
    solution = ts.solve(mdp)
    other = np.array([rng.choice(np.flatnonzero(row)) for row in feasible])
    changed = rng.random(len(other)) < rng.choice([0.0, 0.4, 1.0])
    policy = np.where(changed, other, solution.policy.table)
    start = rng.random(len(other)) * (rng.random(len(other)) < 0.7)
    start[rng.integers(len(other))] += 0.1
    if rng.random() < 0.3:  # one state, from which others may never be met
        start = np.eye(len(other))[rng.integers(len(other))]
    start /= start.sum()
    truth = Truth(transition, reward, discount, feasible, policy.tolist(), start)
    return solution, policy, start, truth


def draw_cases():
    return st.integers(0, 2**32 - 1).map(draw_case)


def contains(figure, exact) -> bool:
    return Fraction(figure.lower) <= exact <= Fraction(figure.upper)


def contains_all(band, exact) -> bool:
    ends = zip(np.ravel(band.lower), np.ravel(band.upper), exact, strict=True)
    return all(Fraction(float(low)) <= x <= Fraction(float(high)) for low, high, x in ends)


def find_contradictions(c, truth) -> list[str]:
    """The statements of a certificate that the rational answer contradicts."""
    discounting = 1 - truth.gamma
    parts = [d * x / discounting for d, x in zip(truth.occupancy, truth.local, strict=True)]
    n_costly = sum(x > Fraction(c.tolerance) for x in truth.local)
    checks = {
        "losses": contains_all(c.losses, truth.loss),
        "local_losses": contains_all(c.local_losses, truth.local),
        "mean_loss": contains(c.mean_loss, truth.mean_loss),
        "worst_loss": contains(c.worst_loss, max(truth.loss)),
        "optimal_mean": contains(c.optimal_mean, truth.weigh(truth.start, truth.best)),
        "policy_mean": contains(c.policy_mean, truth.weigh(truth.start, truth.worth)),
        "value_gap": contains(c.value_gap, sum(truth.local) / truth.n / discounting),
        "policy_error": contains(c.policy_error, Fraction(sum(truth.wrong), truth.n)),
        "costly_error": contains(c.costly_error, Fraction(n_costly, truth.n)),
        "error_share": contains(c.bounds.error_share, truth.weigh(truth.occupancy, truth.wrong)),
        "decomposition": contains_all(c.decomposition.state, parts),
    }
    return [name for name, holds in checks.items() if not holds]
