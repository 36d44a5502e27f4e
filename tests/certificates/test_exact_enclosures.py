"""Enclosures against rational arithmetic that cannot round."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support import exact_checks
from support.awkward import make_numbered_case
from support.truth import contains, draw_cases, find_contradictions

import tessella as ts
from tessella.certificates.certify import certify
from tessella.checker import check
from tessella.solvers.result import ValueAccuracy


@settings(max_examples=80, deadline=None)
@given(case=draw_cases())
def test_every_enclosure_holds_the_rational_answer_and_is_narrow(case):
    solution, policy, start, truth = case
    parts = [d * x for d, x in zip(truth.occupancy, truth.local, strict=True)]
    assert sum(parts) == (1 - truth.gamma) * truth.mean_loss  # the decomposition itself
    c = certify(solution, policy, start)
    assert find_contradictions(c, truth) == []
    size = np.abs(solution.value).max() + solution.mdp.dynamics.reward_scale
    discounting = 1 - solution.mdp.discount
    assert c.losses.width <= 1e-10 * size / discounting
    assert c.mean_loss.width <= 1e-10 * size / discounting
    assert c.optimal_value_error <= 1e-10 * size / discounting
    # Local losses compare action values, each known within the error of the optimum's value.
    local = (1e-10 * size + 4 * c.optimal_value_error) / discounting
    assert c.value_gap.width <= local
    assert c.occupancy_error <= 1e-9
    largest = c.local_losses.upper.max() / discounting
    for part in (c.decomposition.state, c.decomposition.region, c.decomposition.pair):
        assert part.width <= local + 3e-9 * largest  # sums of local losses by occupancy


@settings(max_examples=80, deadline=None)
@given(case=draw_cases(), eps=st.floats(0, 10))
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
        assert contains(b.localisation.neighbourhood, truth.weigh(truth.occupancy, near))
    else:
        assert b.localisation.bound is None
        assert b.localisation.exceptions <= errors_outside
        assert b.localisation.holds is None or b.localisation.exceptions > 0
    if b.rate is not None and b.rate.bound is not None:
        assert truth.mean_loss <= Fraction(b.rate.bound.upper)
        if b.rate.second_best_bound is not None:
            assert truth.mean_loss <= Fraction(b.rate.second_best_bound.upper)


@settings(max_examples=40, deadline=None)
@given(case=draw_cases())
def test_with_two_actions_the_loss_is_the_margin_of_the_errors_by_occupancy(case):
    solution, policy, start, truth = case
    second = certify(solution, policy, start).bounds.second_best
    if solution.mdp.n_actions == 2:
        assert second.holds
        assert contains(second.loss, truth.mean_loss)
    if second.holds:
        for q, local, wrong in zip(truth.q, truth.local, truth.wrong, strict=True):
            runner_up = sorted(q.values())[-2] if len(q) > 1 else max(q.values())
            slack = 4 * Fraction(solution.tie_tolerance)
            assert abs(local - wrong * (max(q.values()) - runner_up)) <= slack


@settings(max_examples=40, deadline=None)
@given(case=draw_cases())
def test_the_optimal_policy_loses_nothing_within_its_own_enclosure(case):
    solution, _, start, _ = case
    c = certify(solution, solution, start)
    for figure in (c.mean_loss, c.worst_loss, c.value_gap, c.policy_error, c.costly_error):
        assert 0.0 in figure
    assert (c.losses.lower == 0).all()
    if solution.decided.all():
        assert (c.losses.upper == 0).all()
        assert c.bounds.policy_error.upper == 0


def test_actions_that_only_the_certificate_tells_apart_have_an_optimum_of_their_own(tmp_path):
    """Found by a sweep: the error proven anew was smaller than the one of the solution."""
    made = make_numbered_case(799153000694)
    assert exact_checks.check_certificate(made) == []
    found = ts.solve(made.mdp)
    near = float(found.margin.min())
    assert near > found.tie_tolerance
    # A solution that states less than is known: the nearest actions are a tie for all it says.
    solution = dataclasses.replace(found, error_bound=near, accuracy=ValueAccuracy(near, 2 * near))
    undecided = ~solution.decided
    assert undecided.any()
    other = np.where(undecided, 1 - solution.policy.table, solution.policy.table)
    made.mdp.save(tmp_path / "model.nc")
    certify(solution, other).save(tmp_path / "certificate.json")
    files = [str(tmp_path / name) for name in ("model.nc", "certificate.json")]
    assert check.main(files) == 0


def test_states_of_one_margin_are_reached_together_in_whatever_order_they_stand(tmp_path):
    """Two states as near to a tie, of which one is never seen: the rate does not ask which."""
    reward, constants = np.array([[2.0, 1.0], [2.0, 1.0], [3.0, 1.0]]), []
    for seen in (0, 1):
        rows = np.zeros((3, 2, 3))
        rows[..., seen] = 1.0
        mdp = ts.MDP.from_arrays(rows, reward, 0.5, layout="SAS")
        solution = ts.solve(mdp)
        proof = certify(solution, solution.policy, start=seen)
        assert proof.bounds.rate is not None
        constants.append(proof.bounds.rate.constant)
        proof.save(tmp_path / "c.json")
        mdp.save(tmp_path / "m.nc")
        assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 0
    assert constants[0] == constants[1]


def test_a_rate_that_only_the_checkers_rounding_would_reach_may_be_left_out(tmp_path):
    """Found by a sweep: half of the time ends just where a margin above 0 begins."""
    seed = 823271000635
    made = make_numbered_case(seed)
    policy = exact_checks.draw_policy(made, np.random.default_rng(seed))
    proof = certify(ts.solve(made.mdp), policy)
    assert proof.bounds.rate is None
    proof.save(tmp_path / "c.json")
    made.mdp.save(tmp_path / "m.nc")
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 0
