"""Enclosures against rational arithmetic that cannot round."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import Exact

import tessella as ts
from tessella.certify import certify


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


@st.composite
def models(draw):
    """(transition, reward, discount, feasible), all rows different: few shapes to compile."""
    n, n_actions = draw(st.sampled_from([(3, 2), (4, 3)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.random((n_actions, n, n)) * (rng.random((n_actions, n, n)) < 0.6)
    weights[..., 0] += 0.01 * rng.random((n_actions, n))
    transition = weights / weights.sum(axis=-1, keepdims=True)
    reward = rng.normal(size=(n, n_actions)) * 10.0 ** draw(st.integers(-12, 12))
    if draw(st.booleans()):
        reward = np.round(rng.normal(size=(n, n_actions)))  # ties
    feasible = np.ones((n, n_actions), bool)
    if n_actions > 2:
        feasible = rng.random((n, n_actions)) < 0.7
        feasible[np.arange(n), rng.integers(n_actions, size=n)] = True
        feasible[0] = rng.permutation([True, True, False])
    return transition, reward, draw(st.sampled_from([0.0, 0.3, 0.9, 0.95, 0.999])), feasible


@st.composite
def cases(draw):
    """A model, a feasible policy (often nearly optimal) and a start distribution."""
    transition, reward, discount, feasible = draw(models())
    mdp = ts.MDP.from_arrays(transition, reward, discount, feasible=feasible)
    solution = ts.solve(mdp)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    other = np.array([rng.choice(np.flatnonzero(row)) for row in feasible])
    changed = rng.random(len(other)) < draw(st.sampled_from([0.0, 0.4, 1.0]))
    policy = np.where(changed, other, solution.policy.table)
    start = rng.random(len(other)) * (rng.random(len(other)) < 0.7)
    start[0] += 0.1
    start /= start.sum()
    truth = Truth(transition, reward, discount, feasible, policy.tolist(), start)
    return solution, policy, start, truth


def holds(enclosed, exact) -> bool:
    return Fraction(enclosed.lower) <= exact <= Fraction(enclosed.upper)


def band_holds(band, exact) -> bool:
    ends = zip(np.ravel(band.lower), np.ravel(band.upper), exact, strict=True)
    return all(Fraction(float(low)) <= x <= Fraction(float(high)) for low, high, x in ends)


@settings(max_examples=80, deadline=None)
@given(case=cases())
def test_every_enclosure_holds_the_rational_answer(case):
    solution, policy, start, truth = case
    c = certify(solution, policy, start)
    discounting = 1 - truth.gamma
    assert band_holds(c.losses, truth.loss)
    assert band_holds(c.local_losses, truth.local)
    assert holds(c.mean_loss, truth.mean_loss)
    assert holds(c.worst_loss, max(truth.loss))
    assert holds(c.optimal_mean, truth.over(truth.start, truth.best))
    assert holds(c.policy_mean, truth.over(truth.start, truth.worth))
    assert holds(c.value_gap, sum(truth.local) / truth.n / discounting)
    assert holds(c.policy_error, Fraction(sum(truth.wrong), truth.n))
    assert holds(c.bounds.error_share, truth.over(truth.occupancy, truth.wrong))
    parts = [d * x / discounting for d, x in zip(truth.occupancy, truth.local, strict=True)]
    assert sum(parts) == truth.mean_loss
    assert band_holds(c.decomposition.state, parts)
    costly = sum(x > Fraction(c.tolerance) for x in truth.local)
    assert holds(c.costly_error, Fraction(costly, truth.n))


@settings(max_examples=80, deadline=None)
@given(case=cases())
def test_enclosures_are_narrow(case):
    solution, policy, start, _ = case
    c = certify(solution, policy, start)
    size = np.abs(solution.value).max() + solution.mdp.dynamics.reward_scale
    discounting = 1 - solution.mdp.discount
    assert c.losses.width <= 1e-10 * size / discounting
    assert c.mean_loss.width <= 1e-10 * size / discounting
    assert c.value_gap.width <= 1e-10 * size / discounting
    assert c.occupancy_error <= 1e-9
    largest = c.local_losses.upper.max() / discounting
    for part in (c.decomposition.state, c.decomposition.region, c.decomposition.pair):
        assert part.width <= 1e-10 * size / discounting + 3e-9 * largest


@settings(max_examples=80, deadline=None)
@given(case=cases(), eps=st.floats(0, 10))
def test_every_bound_is_at_or_above_the_rational_loss(case, eps):
    solution, policy, start, truth = case
    b = certify(solution, policy, start, eps=eps * solution.mdp.dynamics.reward_scale).bounds
    most = max(abs(Fraction(x)) for x in solution.mdp.reward[solution.mdp.feasible_mask].tolist())
    assert (
        most <= Fraction(b.reward_bound) <= most * (1 + Fraction(1, 10**9)) + Fraction(1, 10**300)
    )
    assert truth.mean_loss <= Fraction(b.policy_error.upper)
    margins = [
        sorted(q.values())[-1] - sorted(q.values())[-2] if len(q) > 1 else None for q in truth.q
    ]
    outside = [m is None or m > Fraction(b.localisation.eps) for m in margins]
    errors_outside = sum(w for w, out in zip(truth.wrong, outside, strict=True) if out)
    if b.localisation.holds:
        assert errors_outside == 0
        assert truth.mean_loss <= Fraction(b.localisation.bound.upper)
        near = [int(not out) for out in outside]
        assert holds(b.localisation.neighbourhood, truth.over(truth.occupancy, near))
    else:
        assert b.localisation.bound is None
        assert b.localisation.exceptions <= errors_outside
        assert b.localisation.holds is None or b.localisation.exceptions > 0
    if b.rate is not None and b.rate.bound is not None:
        assert truth.mean_loss <= Fraction(b.rate.bound.upper)
        if b.rate.second_best_bound is not None:
            assert truth.mean_loss <= Fraction(b.rate.second_best_bound.upper)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_with_two_actions_the_loss_is_the_margin_of_the_errors_by_occupancy(case):
    solution, policy, start, truth = case
    second = certify(solution, policy, start).bounds.second_best
    if solution.mdp.n_actions == 2:
        assert second.holds
        assert holds(second.loss, truth.mean_loss)
    if second.holds:
        for q, local, wrong in zip(truth.q, truth.local, truth.wrong, strict=True):
            runner_up = sorted(q.values())[-2] if len(q) > 1 else max(q.values())
            slack = 4 * Fraction(solution.tie_tolerance)
            assert abs(local - wrong * (max(q.values()) - runner_up)) <= slack


@settings(max_examples=40, deadline=None)
@given(case=cases())
def test_the_optimal_policy_loses_nothing_within_its_own_enclosure(case):
    solution, _, start, _ = case
    c = certify(solution, solution, start)
    for figure in (c.mean_loss, c.worst_loss, c.value_gap, c.policy_error, c.costly_error):
        assert 0.0 in figure
    assert (c.losses.lower == 0).all()
    if solution.decided.all():
        assert (c.losses.upper == 0).all()
        assert c.bounds.policy_error.upper == 0
