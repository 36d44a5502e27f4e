"""Averages of nearly decomposable chains, of walks along a line, and of expensive switches."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import block_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from support import nearly_decomposable

import tessella as ts
from tessella.rounding import round_down, round_up
from tessella.rules.evaluator import PolicyEvaluator
from tessella.solvers.elimination import compute_policy_residuals


@pytest.mark.parametrize("seed", range(12))
def test_gains_and_losses_of_nearly_decomposable_chains_hold_in_rational_arithmetic(seed):
    assert nearly_decomposable.find_faults(seed, rules=seed < 2) == []


def leaking(leak: float) -> ts.MDP:
    """Two states that one action leaves with a chance of ``leak``, or twice that."""
    rows = np.array([[[1 - leak, leak], [2 * leak, 1 - 2 * leak]], [[0.5, 0.5], [0.5, 0.5]]])
    return ts.MDP.from_arrays(rows, np.array([[10.0, 0.0], [73.5, 30.0]]), ts.Average())


@pytest.mark.parametrize("leak", [1e-8, 1e-10, 1e-14, 1e-15])
def test_a_policy_of_two_states_with_a_small_leak_earns_its_closed_form(leak):
    mdp = leaking(leak)
    found, lost = ts.evaluate(mdp, [0, 0]), ts.loss(ts.solve(mdp), [0, 0])
    exact = Fraction(10) * 2 / 3 + Fraction(73.5) / 3  # for rows divided by their sums, nearly
    assert abs(Fraction(found.gain) - exact) <= Fraction(1e-12)
    assert found.error_bound < 1e-11
    assert found.converged
    assert lost.mean == pytest.approx(ts.solve(mdp).gain - float(exact), abs=1e-10)


@pytest.fixture(scope="module")
def crowded() -> ts.MDP:
    """The same with so many states in place of the first that elimination would take too long."""
    leak, many = 1e-15, 1300
    rows = np.zeros((2, many + 1, many + 1))
    rows[:, :, :many] = 1 / many
    rows[0, :many, :many] *= 1 - leak
    rows[0, :many, many], rows[0, many] = leak, rows[0, many] * 2 * leak
    rows[0, many, many] = 1 - 2 * leak
    rows[1, :, :many], rows[1, :, many] = 0.5 / many, 0.5
    reward = np.repeat([[10.0, 0.0], [73.5, 30.0]], [many, 1], axis=0)
    return ts.MDP.from_arrays(rows, reward, ts.Average())


EARNED, LEAST_LOST = 10 * 2 / 3 + 73.5 / 3, 73.5 - 1e-6 - (10 * 2 / 3 + 73.5 / 3)


@pytest.fixture(scope="module")
def optimum(crowded) -> ts.Solution:
    return ts.solve(crowded)


def leaks(crowded: ts.MDP) -> np.ndarray:
    return np.zeros(crowded.n_states, int)


def test_an_average_that_rounding_hides_is_not_called_converged(crowded):
    with pytest.raises(ts.NotConverged, match="too wide to be of use"):
        ts.evaluate(crowded, leaks(crowded))
    found = ts.evaluate(crowded, leaks(crowded), partial=True)
    assert not found.converged
    low, high = found.gain - found.error_bound, found.gain + found.error_bound
    assert f"between {round_down(low, 8)} and {round_up(high, 8)} per period" in str(found)
    assert low < EARNED < high


def test_a_loss_that_rounding_hides_is_told_by_its_ends_and_holds(crowded, optimum):
    lost = ts.loss(optimum, leaks(crowded))
    assert lost.mean - lost.error_bound <= LEAST_LOST <= lost.mean + lost.error_bound
    assert "mean between " in str(lost)
    text = " ".join(ts.certify(optimum, leaks(crowded)).summary().split())
    assert "No loss can be seen" not in text
    assert "Its loss is between 0 and" in text
    assert "this policy reaches between -" in text


def test_a_rule_whose_loss_rounding_hides_is_judged_by_what_it_loses_at_most(crowded, optimum):
    evaluator = PolicyEvaluator(optimum, np.full(crowded.n_states, 1 / crowded.n_states))
    assert evaluator.evaluate(leaks(crowded)).mean_loss >= LEAST_LOST
    assert evaluator.evaluate(optimum.policy.table).mean_loss == pytest.approx(0, abs=1e-9)


def switched(cost: float) -> ts.MDP:
    """Stay, for 0 or for a little, or change over at a cost."""
    rows = np.array([np.eye(2), np.eye(2)[::-1]])
    reward = np.array([[0.0, -cost], [1e-3, -cost]])
    return ts.MDP.from_arrays(rows, reward, ts.Average())


@pytest.mark.parametrize("method", [None, ts.ValueIteration(), ts.PolicyIteration()])
@pytest.mark.parametrize("cost", [1e2, 1e5, 1e10])
def test_an_expensive_switch_that_pays_a_little_for_ever_leaves_one_gain(cost, method):
    found = ts.solve(switched(cost), method)
    assert abs(found.gain - 1e-3) <= found.error_bound < 1e-12
    assert found.policy.table.tolist() == [1, 0]


def test_a_better_class_that_cannot_be_reached_is_rejected_with_both_averages():
    """State 2 earns most and can be left; the others cannot reach it."""
    rows = np.zeros((2, 3, 3))
    rows[0], rows[1, :2, :2], rows[1, 2, 0] = np.eye(3), np.eye(2)[::-1], 1
    reward = np.array([[0.0, -1e6], [1.0, -1e6], [2.0, 0.0]])
    mdp = ts.MDP.from_arrays(rows, reward, ts.Average())
    with pytest.raises(ts.ModelError, match=r"needs one average.*they earn .* and 2 a period"):
        ts.solve(mdp)


def test_a_class_that_is_left_and_entered_in_turn_by_better_policies_is_rejected():
    """State 3 earns 0 and can stay; state 2 earns -1, is never left, and all others reach it."""
    rows = np.zeros((3, 4, 4))
    rows[1, 0, 2:], rows[2, 0, [1, 3]] = [0.9, 0.1], 0.5
    rows[0, 1, [0, 2]], rows[1, 1, [1, 3]] = [0.9, 0.1], 0.5
    rows[0, 2, 2], rows[0, 3, 1:] = 1, [0.5, 0.4, 0.1]
    rows[1, 3, 2:], rows[2, 3, 3] = 0.5, 1
    reward = np.array([[0, 2, 1], [1, -1, 0], [-1, 0, 0], [0, 0, 0]], float)
    feasible = rows.sum(axis=-1).T > 0
    mdp = ts.MDP.from_arrays(rows, reward, ts.Average(), feasible=feasible)
    with pytest.raises(ts.ModelError, match="needs one average"):
        ts.solve(mdp)


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_a_rule_of_two_states_with_a_small_leak_keeps_its_loss(loss):
    """Relative values are as large as 1 / leak, and their rounding hides a loss of 30."""
    leak = 1e-14
    rows = np.array([[[1 - leak, leak], [leak, 1 - leak]]] * 2)
    rows[1, 1] = [3 * leak, 1 - 3 * leak]
    mdp = ts.MDP.from_arrays(rows, np.array([[100.0, 60.0], [-30.0, -31.0]]), ts.Average())
    solution = ts.solve(mdp)
    assert solution.gain == pytest.approx((3 * 100 - 31) / 4)
    rule = ts.compress(solution, loss=loss)
    assert ts.loss(solution, rule).mean <= loss * solution.gain + 1e-11
    assert rule.facts["mean_loss"] <= loss * solution.gain + 1e-10


@pytest.mark.parametrize("leak", [1e-100, 1e-300])
def test_rounds_that_stand_still_end_once_elimination_has_failed(leak):
    rows = np.array([[[1, leak], [leak, 1]], [[1, 2 * leak], [leak / 2, 1]]])
    mdp = ts.MDP.from_arrays(rows, np.array([[100.0, 60.0], [-30.0, -31.0]]), ts.Average())
    with pytest.raises(ts.NotConverged, match="no further progress after"):
        ts.solve(mdp)


def line(n: int) -> csr_array:
    """A walk to and fro along a line of states."""
    sides = np.full(n - 1, 0.3)
    walk = diags_array([sides, sides], offsets=[-1, 1]).tocsr()
    return csr_array(walk + diags_array(1 - walk.sum(axis=1)))


def test_a_chain_that_drifts_away_from_its_first_state_keeps_its_digits():
    """Its values relative to that state are as large as 3^200: those of the last state are not."""
    n = 200
    up = np.full(n - 1, 0.6)
    walk = diags_array([up / 3, up], offsets=[-1, 1]).tocsr()
    walk = csr_array(walk + diags_array(1 - walk.sum(axis=1)))
    reward = 100 * np.cos(np.arange(n))
    mdp = ts.MDP.from_arrays([walk], reward[:, None], ts.Average())
    residuals = compute_policy_residuals(mdp, 0.0, np.zeros(n, int))
    low, high = residuals.enclose_gain()
    visits = 3.0 ** np.arange(1 - n, 1)
    assert (low + high) / 2 == pytest.approx(visits @ reward / visits.sum(), abs=1e-11)
    assert high - low < 1e-11


def test_a_policy_on_a_long_line_earns_the_mean_of_its_rewards():
    """Up and down are as likely, so that all states are visited as often."""
    n = 20_001
    reward = np.sin(np.arange(n))[:, None]
    mdp = ts.MDP.from_arrays([line(n)], reward, ts.Average())
    found = ts.evaluate(mdp, np.zeros(n, int))
    assert found.gain == pytest.approx(reward.mean(), abs=1e-12)
    assert found.error_bound < 1e-12


def test_a_large_model_of_two_closed_sets_is_rejected_as_soon_as_their_averages_differ():
    """Two lines, each connected, with rewards that vary along them."""
    n = ts.Thresholds().large_min_states // 2 + 1
    both = csr_array(block_array([[line(n), None], [None, line(n)]]))
    assert connected_components(both)[0] == 2
    reward = (np.arange(2 * n) >= n) + 0.1 * np.sin(np.arange(2 * n))
    mdp = ts.MDP.from_arrays([both, both], np.stack([reward, reward], axis=1), ts.Average())
    with pytest.raises(ts.ModelError, match="needs one average"):
        ts.solve(mdp)


@pytest.mark.parametrize("cheap", [1e-3, 1e-6])
def test_waiting_that_costs_little_for_ever_is_no_reason_to_reject_a_total(cheap):
    """Ending costs 100 at once; waiting costs ``cheap`` a period, and so infinitely much."""
    rows = np.array([np.eye(2), [[0, 1], [0, 1]]])
    mdp = ts.MDP.from_arrays(rows, np.array([[-cheap, -100.0], [0, 0]]), ts.Total())
    found = ts.solve(mdp)
    assert found.value[0] == pytest.approx(-100)
    assert found.policy.table[0] == 1
