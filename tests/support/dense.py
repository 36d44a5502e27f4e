"""The optimum of an exact period by dense arrays, enclosed in fractions.

NumPy finds a value v by policy iteration, in floats and however roughly. One sweep in fractions,
b = T v and d = b - v, then proves

    b + g(min d) <= V* <= b + g(max d),      g(x) = x c / (1 - c),   c = discount * row sum,

with the largest row sum where that widens and the smallest otherwise.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from support.exact import Period


def enclose_optimum(period: Period, discount: float) -> tuple[list[Fraction], list[Fraction]]:
    """(lower, upper) ends of V*, in every state."""
    exact = period.to_exact(discount)
    v = [Fraction(x) for x in approximate_optimum(period, discount).tolist()]
    options = [np.flatnonzero(row).tolist() for row in period.feasible]
    b = [max(exact.q(v, s, a) for a in options[s]) for s in range(period.n_states)]
    d = [x - y for x, y in zip(b, v, strict=True)]
    sums = [sum(row.values(), Fraction()) for row in period.rows.values()]

    def reach(x: Fraction, outward: bool) -> Fraction:
        c = exact.gamma * (max(sums) if outward else min(sums))
        return x * c / (1 - c)

    low, high = reach(min(d), min(d) < 0), reach(max(d), max(d) > 0)
    return [x + low for x in b], [x + high for x in b]


def approximate_optimum(period: Period, discount: float) -> np.ndarray:
    """(S,) the optimum by policy iteration in floats; near it where rounding makes it circle."""
    n, n_actions = period.n_states, period.n_actions
    P, r = np.zeros((n, n_actions, n)), np.full((n, n_actions), -np.inf)
    for (s, a), row in period.rows.items():
        r[s, a] = float(period.reward[s, a])
        for to, p in row.items():
            P[s, a, to] = float(p)
    policy, at = period.feasible.argmax(axis=1), np.arange(n)
    for _ in range(100):
        v = np.linalg.solve(np.eye(n) - discount * P[at, policy], r[at, policy])
        q = r + discount * P @ v
        better = q.max(axis=1) > q[at, policy] + 1e-12 * np.abs(v).max()
        if not better.any():
            break
        policy = np.where(better, q.argmax(axis=1), policy)
    return v
