"""All that a certificate states, in rational arithmetic, and random cases to try it on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import tessella as ts
from support.models import Exact, options


class Truth:
    """All that a certificate states about a policy, in fractions."""

    def __init__(self, transition, reward, discount, feasible, policy, start):
        exact = Exact(transition, reward, discount, feasible)
        self.n, self.gamma = exact.n, exact.gamma
        self.best = exact.solve()
        self.worth = exact.evaluate(policy)
        self.loss = [b - w for b, w in zip(self.best, self.worth, strict=True)]
        self.start = [Fraction(float(x)) for x in start]
        self.mean_loss = self.over(self.start, self.loss)
        options = [np.flatnonzero(row).tolist() for row in feasible]
        self.q = [{a: exact.q(self.best, s, a) for a in options[s]} for s in range(self.n)]
        self.local = [max(q.values()) - q[policy[s]] for s, q in enumerate(self.q)]
        self.optimal = [min(a for a in q if q[a] == max(q.values())) for q in self.q]
        self.wrong = [int(policy[s] != self.optimal[s]) for s in range(self.n)]
        self.occupancy = self.flow(exact, policy)

    def over(self, weights, values):
        return sum(w * v for w, v in zip(weights, values, strict=True))

    def flow(self, exact, policy):
        """d = (1 - gamma) mu (I - gamma P)^-1, one unit reward at a time."""
        shares = []
        for s in range(self.n):
            exact.r = [[Fraction(int(i == s))] * exact.n_actions for i in range(self.n)]
            shares.append((1 - self.gamma) * self.over(self.start, exact.evaluate(policy)))
        return shares


def model(rng: np.random.Generator):
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
        feasible = options(rng)
    return transition, reward, float(rng.choice([0.0, 0.3, 0.9, 0.95, 0.999])), feasible


def case(seed: int):
    """A solved model, a feasible policy (often nearly optimal), a start distribution, the truth."""
    rng = np.random.default_rng(seed)
    transition, reward, discount, feasible = model(rng)
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


def cases():
    return st.integers(0, 2**32 - 1).map(case)


def holds(enclosed, exact) -> bool:
    return Fraction(enclosed.lower) <= exact <= Fraction(enclosed.upper)


def band_holds(band, exact) -> bool:
    ends = zip(np.ravel(band.lower), np.ravel(band.upper), exact, strict=True)
    return all(Fraction(float(low)) <= x <= Fraction(float(high)) for low, high, x in ends)


def contradictions(c, truth) -> list[str]:
    """The statements of a certificate that the rational answer contradicts."""
    discounting = 1 - truth.gamma
    parts = [d * x / discounting for d, x in zip(truth.occupancy, truth.local, strict=True)]
    costly = sum(x > Fraction(c.tolerance) for x in truth.local)
    found = {
        "losses": band_holds(c.losses, truth.loss),
        "local_losses": band_holds(c.local_losses, truth.local),
        "mean_loss": holds(c.mean_loss, truth.mean_loss),
        "worst_loss": holds(c.worst_loss, max(truth.loss)),
        "optimal_mean": holds(c.optimal_mean, truth.over(truth.start, truth.best)),
        "policy_mean": holds(c.policy_mean, truth.over(truth.start, truth.worth)),
        "value_gap": holds(c.value_gap, sum(truth.local) / truth.n / discounting),
        "policy_error": holds(c.policy_error, Fraction(sum(truth.wrong), truth.n)),
        "costly_error": holds(c.costly_error, Fraction(costly, truth.n)),
        "error_share": holds(c.bounds.error_share, truth.over(truth.occupancy, truth.wrong)),
        "decomposition": band_holds(c.decomposition.state, parts),
    }
    return [name for name, fine in found.items() if not fine]
