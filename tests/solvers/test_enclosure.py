"""The stated bounds, against rational arithmetic that cannot round."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from support.criteria import compute_optimum
from support.models import Exact, small_models

import tessella as ts

METHODS = [
    ts.ValueIteration(),
    ts.ModifiedPolicyIteration(),
    ts.PolicyIteration(),
    ts.InexactPolicyIteration(),
    ts.LinearProgramming(),
]


def inside(value, bound, exact):
    """|value - exact| <= bound, decided without rounding."""
    return all(
        abs(Fraction(float(v)) - x) <= Fraction(bound)
        for v, x in zip(np.ravel(value), exact, strict=True)
    )


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@settings(max_examples=40, deadline=None)
@given(model=small_models())
def test_the_rational_optimum_lies_inside_the_stated_bounds(method, model):
    transition, reward, discount, feasible = model
    mdp = ts.MDP.from_arrays(transition, reward, discount, feasible=feasible)
    if isinstance(method, ts.ValueIteration) and discount > 0.999:
        discount = 0.99  # 100,000s of sweeps say no more than the other methods do
        mdp = mdp.with_discount(discount)
    solution = ts.solve(mdp, method)
    exact = Exact(transition, reward, discount, feasible)
    value = exact.solve()
    assert solution.converged
    assert inside(solution.value, solution.error_bound, value)
    size = max(np.abs(reward[feasible]).max() / (1 - discount), 1e-300)
    assert solution.error_bound <= 1e-9 * size / (1 - discount) ** 0.5
    for s in range(len(value)):
        q = {a: exact.q(value, s, a) for a in np.flatnonzero(feasible[s]).tolist()}
        chosen = solution.policy.table.ravel()[s]
        if solution.decided.ravel()[s]:
            assert all(q[chosen] > q[a] for a in q if a != chosen)
        assert max(q.values()) - q[chosen] <= 2 * Fraction(solution.tie_tolerance)


@settings(max_examples=40, deadline=None)
@given(model=small_models())
def test_the_rational_value_of_a_policy_lies_inside_its_bounds(model):
    transition, reward, discount, feasible = model
    mdp = ts.MDP.from_arrays(transition, reward, discount, feasible=feasible)
    policy = feasible.argmax(axis=1)
    evaluation = ts.evaluate(mdp, policy)
    value = Exact(transition, reward, discount, feasible).evaluate(policy.tolist())
    assert inside(evaluation.value, evaluation.error_bound, value)


def test_a_wrong_value_would_be_outside():
    assert not inside(np.array([1.0]), 1e-12, [Fraction(1) + Fraction(1, 10**11)])


def largest_decision_loss(solution, exact):
    """max over s of V*(s) - Q*(s, pi(s)), without rounding."""
    best, policy = exact.solve(), solution.policy.table.ravel().tolist()
    return max(best[s] - exact.q(best, s, policy[s]) for s in range(exact.n))


def two_cycles(payment):
    """From state 0 to one of two states that pay 1 and -1 for ever; the worse pays at once."""
    transition = np.zeros((2, 3, 3))
    transition[0, 0, 2] = transition[1, 0, 1] = 1.0
    transition[:, 1, 1] = transition[:, 2, 2] = 1.0
    return transition, np.array([[payment, 0.0], [1.0, 1.0], [-1.0, -1.0]])


@pytest.mark.parametrize(
    "method", [ts.ValueIteration(0.3), ts.ModifiedPolicyIteration(0.3)], ids=lambda m: m.name
)
def test_a_decision_may_lose_more_than_the_tie_tolerance_but_never_twice_as_much(method):
    discount = 0.99
    # The values of both cycles are off by the whole bound, in opposite directions.
    value = ts.solve(ts.MDP.from_arrays(*two_cycles(0.0), discount), method).value
    window = 1e-9 / (1 - discount)
    payment = discount * (value[1] - value[2]) - 0.9 * window
    solution = ts.solve(ts.MDP.from_arrays(*two_cycles(payment), discount), method)
    lost = largest_decision_loss(solution, Exact(*two_cycles(payment), discount))
    tie = Fraction(solution.tie_tolerance)
    assert tie < lost <= tie + 2 * Fraction(window) < 2 * tie


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_on_deterministic_cycles_a_loose_policy_loses_at_most_twice_the_tie_tolerance(method):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, discount = int(rng.integers(2, 6)), float(rng.choice([0.3, 0.5, 0.9, 0.99]))
        transition = np.eye(n)[rng.integers(n, size=(2, n))]
        reward = np.round(rng.normal(size=(n, 2)), int(rng.integers(3)))
        exact = Exact(transition, reward, discount)
        loose = replace(method, tol=10.0 ** rng.uniform(-6, 1))
        solution = ts.solve(ts.MDP.from_arrays(transition, reward, discount), loose)
        twice = 2 * Fraction(solution.tie_tolerance)
        assert largest_decision_loss(solution, exact) <= twice
        worth = exact.evaluate(solution.policy.table.tolist())
        lost = max(best - w for best, w in zip(exact.solve(), worth, strict=True))
        assert lost <= twice / (1 - exact.gamma)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("criterion", [0.9, ts.FiniteHorizon(12)], ids=str)
def test_a_penalty_that_nobody_pays_does_not_widen_the_bound_of_a_table(criterion, seed):
    rng = np.random.default_rng(seed)
    rows = rng.multinomial(8, np.full(4, 0.25), size=(3, 4)) / 8  # eighths, which floats hold
    reward = np.round(rng.normal(size=(4, 3)), 1)
    reward[np.arange(4), rng.integers(3, size=4)] *= 10.0 ** rng.integers(0, 3)
    reward[:, 2] = -1e12 * (1 + rng.random(4))
    mdp = ts.MDP.from_arrays(rows, reward, criterion)
    solution = ts.solve(mdp)
    if isinstance(criterion, ts.FiniteHorizon):
        exact = compute_optimum(mdp, solution.policy.table)
    else:
        exact = Exact(rows, reward, criterion).solve()
    assert inside(solution.value, solution.error_bound, exact)
    assert solution.error_bound <= 1e-11 * float(max(map(abs, exact)))


def test_values_that_nearly_vanish_beside_a_penalty_are_inside_a_bound_that_can_be_stated():
    rows, reward = np.eye(2)[None].repeat(2, axis=0), np.array([[0.0, -1.0], [0.0, -1e12]])
    solution = ts.solve(ts.MDP.from_arrays(rows, reward, 0.9))
    wrong = replace(solution, value=np.array([1e-309, -3e-310]))
    assert 0 < ts.certify(wrong, [0, 0]).optimal_value_error < 1e-280
    assert ts.certify(wrong, [0, 0]).optimal_value_error >= 1e-308


def test_a_final_payment_that_cancels_large_rewards_is_inside_the_bound_by_every_method():
    rows = np.eye(2)[None]
    horizon = ts.FiniteHorizon(2, final=np.array([1e12 + 0.1, 1e12 + 0.2]))
    mdp = ts.MDP.from_arrays(rows, np.array([[-1e12 / 3], [-1e12 / 7]]), horizon)
    for method in (None, ts.ValueIteration(), ts.PolicyIteration()):
        solution = ts.solve(mdp, method)
        final, paid = map(Fraction, (1e12 + 0.1, -1e12 / 3))
        last = solution.value[1, 0]
        assert abs(Fraction(float(last)) - (final + paid)) <= Fraction(solution.error_bound)
        assert solution.error_bound >= 1e-5  # what cancels is rounded first
