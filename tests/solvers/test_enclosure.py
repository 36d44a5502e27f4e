"""The stated bounds, against rational arithmetic that cannot round."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
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
