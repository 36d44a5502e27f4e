"""What the package says about a model, held against rational arithmetic: a list of faults.

    |V - V*| <= error_bound,   |V_pi - V| <= its bound,   each exact figure inside its enclosure,

all decided without rounding, and all bounds narrow: see ``Case.limit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

import tessella as ts
from support import dense
from support.awkward import Case
from support.routes import plan_by
from tessella.certificates.certify import certify

WIDER = 8  # enclosures of losses add up a few bounds of values


def optimum(case: Case, route: str = "rows") -> list[str]:
    """Faults of ``solve``."""
    solution = ts.solve(case.mdp, plan=plan_by(case.mdp, route))
    exact = case.exact
    value = exact.solve()
    found = _off("V*", solution.value, value, solution.error_bound)
    found += _wide("the bound on V*", solution.error_bound, case.limit)
    for s, best in enumerate(value):
        chosen = int(solution.policy.table.ravel()[s])
        options = np.flatnonzero(case.period.feasible[s]).tolist()
        rivals = [a for a in options if a != chosen and exact.q(value, s, a) >= best]
        if solution.decided.ravel()[s] and (rivals or exact.q(value, s, chosen) < best):
            found.append(f"state {s} is decided for {chosen}, and {rivals} are no worse")
    return found


def worth(case: Case, route: str = "rows") -> list[str]:
    """Faults of ``evaluate``."""
    policy = some_policy(case, np.random.default_rng(case.seed))
    plan = plan_by(case.mdp, route)
    answer = ts.evaluate(case.mdp, policy.reshape(case.mdp.grid.shape), plan=plan)
    found = _off("V_pi", answer.value, case.exact.evaluate(policy.tolist()), answer.error_bound)
    return found + _wide("the bound on V_pi", answer.error_bound, case.limit)


def certificate(case: Case, route: str = "rows") -> list[str]:
    """Faults of ``certify``, on a policy that is often nearly optimal."""
    rng = np.random.default_rng(case.seed)
    solution = ts.solve(case.mdp, plan=plan_by(case.mdp, route))
    changed = rng.random(case.mdp.n_states) < rng.choice([0.0, 0.4, 1.0])
    policy = np.where(changed, some_policy(case, rng), solution.policy.table.ravel())
    start = rng.dirichlet(np.ones(case.mdp.n_states))
    c = certify(solution, policy.reshape(case.mdp.grid.shape), start)
    exact, truth = case.exact, Truth(case, policy.tolist())
    weights = [Fraction(x) for x in np.ravel(c.start).tolist()]
    left = 1 - exact.gamma
    figures = {
        "mean_loss": (c.mean_loss, _over(weights, truth.loss)),
        "worst_loss": (c.worst_loss, max(truth.loss)),
        "optimal_mean": (c.optimal_mean, _over(weights, truth.best)),
        "policy_mean": (c.policy_mean, _over(weights, truth.worth)),
        "value_gap": (c.value_gap, sum(truth.local) / len(truth.local) / left),
    }
    found = []
    for name, (stated, x) in figures.items():
        found += _outside(name, [stated.lower], [stated.upper], [x])
    for name, band, x in (
        ("losses", c.losses, truth.loss),
        ("local_losses", c.local_losses, truth.local),
    ):
        found += _outside(name, np.ravel(band.lower), np.ravel(band.upper), x)
    found += _wide("losses", c.losses.width, WIDER * case.limit)
    found += _wide("mean_loss", c.mean_loss.width, WIDER * case.limit)
    return found + _wide("local_losses", c.local_losses.width, WIDER * case.limit)


def against_dense(case: Case, route: str = "rows", method=None) -> list[str]:
    """Faults of ``solve``, for models too large for a rational solution: see ``dense``."""
    solution = ts.solve(case.mdp, plan=plan_by(case.mdp, route, method))
    low, high = dense.enclosed(case.period, case.mdp.discount)
    e = Fraction(solution.error_bound)
    value = [Fraction(v) for v in np.ravel(solution.value).tolist()]
    found = [
        f"V* of state {s} is in {float(a)!r}..{float(b)!r}, stated {float(v)!r} +- {float(e):.3g}"
        for s, (v, a, b) in enumerate(zip(value, low, high, strict=True))
        if v + e < a or v - e > b
    ][:1]
    if method is None:
        found += _wide("the bound on V*", solution.error_bound, case.limit)
    exact = case.exact
    for s in np.flatnonzero(np.ravel(solution.decided)).tolist():
        chosen = int(solution.policy.table.ravel()[s])
        others = [a for a in np.flatnonzero(case.period.feasible[s]).tolist() if a != chosen]
        if any(exact.q(low, s, a) > exact.q(high, s, chosen) for a in others):
            found.append(f"state {s} is decided for {chosen}, which is not the best")
    return found


class Truth:
    """What a policy loses, in fractions."""

    def __init__(self, case: Case, policy: list[int]) -> None:
        exact = case.exact
        self.best, self.worth = exact.solve(), exact.evaluate(policy)
        self.loss = [b - w for b, w in zip(self.best, self.worth, strict=True)]
        self.local = [self.best[s] - exact.q(self.best, s, a) for s, a in enumerate(policy)]


def some_policy(case: Case, rng: np.random.Generator) -> np.ndarray:
    """(S,) feasible actions."""
    return (rng.random(case.period.feasible.shape) * case.period.feasible).argmax(axis=1)


def _over(weights: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction())


def _off(what: str, value, exact: Sequence[Fraction], bound: float) -> list[str]:
    pairs = zip(np.ravel(value).tolist(), exact, strict=True)
    worst = max(abs(Fraction(v) - x) for v, x in pairs)
    if worst <= Fraction(bound):
        return []
    return [f"{what} is off by {float(worst):.3g}, bound {bound:.3g}"]


def _outside(what: str, lower, upper, exact: Sequence[Fraction]) -> list[str]:
    ends = zip(map(float, lower), map(float, upper), exact, strict=True)
    missed = [(low, high, x) for low, high, x in ends if not Fraction(low) <= x <= Fraction(high)]
    return [f"{what} is {float(x)!r}, not in {low!r}..{high!r}" for low, high, x in missed[:1]]


def _wide(what: str, width: float, limit: float) -> list[str]:
    return [] if width <= limit else [f"{what} is {width:.3g} wide, expected {limit:.3g}"]
