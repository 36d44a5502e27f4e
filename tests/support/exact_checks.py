"""Compare results of the package with rational arithmetic; each check returns a list of faults.

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

LOSS_BOUND_FACTOR = 8  # enclosures of losses add up a few bounds of values


def check_optimum(case: Case, route: str = "rows") -> list[str]:
    """Faults of ``solve``."""
    solution = ts.solve(case.mdp, plan=plan_by(case.mdp, route))
    exact = case.exact
    value = exact.solve()
    messages = _check_error("V*", solution.value, value, solution.error_bound)
    messages += _check_width("the bound on V*", solution.error_bound, case.limit)
    for s, best in enumerate(value):
        chosen = int(solution.policy.table.ravel()[s])
        options = np.flatnonzero(case.period.feasible[s]).tolist()
        rivals = [a for a in options if a != chosen and exact.q(value, s, a) >= best]
        if solution.decided.ravel()[s] and (rivals or exact.q(value, s, chosen) < best):
            messages.append(f"state {s} is decided for {chosen}, and {rivals} are no worse")
    return messages


def check_evaluation(case: Case, route: str = "rows") -> list[str]:
    """Faults of ``evaluate``."""
    policy = draw_policy(case, np.random.default_rng(case.seed))
    plan = plan_by(case.mdp, route)
    evaluation = ts.evaluate(case.mdp, policy.reshape(case.mdp.grid.shape), plan=plan)
    found = _check_error(
        "V_pi", evaluation.value, case.exact.evaluate(policy.tolist()), evaluation.error_bound
    )
    return found + _check_width("the bound on V_pi", evaluation.error_bound, case.limit)


def check_certificate(case: Case, route: str = "rows") -> list[str]:
    """Faults of ``certify``, on a policy that is often nearly optimal."""
    rng = np.random.default_rng(case.seed)
    solution = ts.solve(case.mdp, plan=plan_by(case.mdp, route))
    is_changed = rng.random(case.mdp.n_states) < rng.choice([0.0, 0.4, 1.0])
    policy = np.where(is_changed, draw_policy(case, rng), solution.policy.table.ravel())
    start = rng.dirichlet(np.ones(case.mdp.n_states))
    c = certify(solution, policy.reshape(case.mdp.grid.shape), start)
    exact, losses = case.exact, ExactLosses(case, policy.tolist())
    weights = [Fraction(x) for x in np.ravel(c.start).tolist()]
    remaining = 1 - exact.gamma
    figures = {
        "mean_loss": (c.mean_loss, _weigh(weights, losses.loss)),
        "worst_loss": (c.worst_loss, max(losses.loss)),
        "optimal_mean": (c.optimal_mean, _weigh(weights, losses.best)),
        "policy_mean": (c.policy_mean, _weigh(weights, losses.worth)),
        "value_gap": (c.value_gap, sum(losses.local) / len(losses.local) / remaining),
    }
    messages = []
    for name, (stated, x) in figures.items():
        messages += _check_enclosure(name, [stated.lower], [stated.upper], [x])
    for name, band, x in (
        ("losses", c.losses, losses.loss),
        ("local_losses", c.local_losses, losses.local),
    ):
        messages += _check_enclosure(name, np.ravel(band.lower), np.ravel(band.upper), x)
    messages += _check_width("losses", c.losses.width, LOSS_BOUND_FACTOR * case.limit)
    messages += _check_width("mean_loss", c.mean_loss.width, LOSS_BOUND_FACTOR * case.limit)
    return messages + _check_width(
        "local_losses", c.local_losses.width, LOSS_BOUND_FACTOR * case.limit
    )


def check_against_dense(case: Case, route: str = "rows", method=None) -> list[str]:
    """Faults of ``solve``, for models too large for a rational solution: see ``dense``."""
    solution = ts.solve(case.mdp, plan=plan_by(case.mdp, route, method))
    low, high = dense.enclose_optimum(case.period, case.mdp.discount)
    bound = Fraction(solution.error_bound)
    value = [Fraction(v) for v in np.ravel(solution.value).tolist()]
    messages = [
        f"V* of state {s} is in {float(a)!r}..{float(b)!r}, "
        f"stated {float(v)!r} +- {float(bound):.3g}"
        for s, (v, a, b) in enumerate(zip(value, low, high, strict=True))
        if v + bound < a or v - bound > b
    ][:1]
    if method is None:
        messages += _check_width("the bound on V*", solution.error_bound, case.limit)
    return messages + _check_decided(case, solution, low, high)


def _check_decided(case: Case, solution: ts.Solution, low, high) -> list[str]:
    """Decided actions that are not the best, given an enclosure of V*."""
    exact, messages = case.exact, []
    for s in np.flatnonzero(np.ravel(solution.decided)).tolist():
        chosen = int(solution.policy.table.ravel()[s])
        others = [a for a in np.flatnonzero(case.period.feasible[s]).tolist() if a != chosen]
        if any(exact.q(low, s, a) > exact.q(high, s, chosen) for a in others):
            messages.append(f"state {s} is decided for {chosen}, which is not the best")
    return messages


class ExactLosses:
    """What a policy loses, in fractions."""

    def __init__(self, case: Case, policy: list[int]) -> None:
        exact = case.exact
        self.best, self.worth = exact.solve(), exact.evaluate(policy)
        self.loss = [b - w for b, w in zip(self.best, self.worth, strict=True)]
        self.local = [self.best[s] - exact.q(self.best, s, a) for s, a in enumerate(policy)]


def draw_policy(case: Case, rng: np.random.Generator) -> np.ndarray:
    """(S,) feasible actions."""
    return (rng.random(case.period.feasible.shape) * case.period.feasible).argmax(axis=1)


def _weigh(weights: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction())


def _check_error(what: str, value, exact: Sequence[Fraction], bound: float) -> list[str]:
    pairs = zip(np.ravel(value).tolist(), exact, strict=True)
    worst = max(abs(Fraction(v) - x) for v, x in pairs)
    if worst <= Fraction(bound):
        return []
    return [f"{what} is off by {float(worst):.3g}, bound {bound:.3g}"]


def _check_enclosure(what: str, lower, upper, exact: Sequence[Fraction]) -> list[str]:
    ends = zip(map(float, lower), map(float, upper), exact, strict=True)
    missed = [(low, high, x) for low, high, x in ends if not Fraction(low) <= x <= Fraction(high)]
    return [f"{what} is {float(x)!r}, not in {low!r}..{high!r}" for low, high, x in missed[:1]]


def _check_width(what: str, width: float, limit: float) -> list[str]:
    return [] if width <= limit else [f"{what} is {width:.3g} wide, expected {limit:.3g}"]
