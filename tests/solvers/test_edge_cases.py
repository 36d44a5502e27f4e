"""Where solvers usually go wrong: discounts near 1, ties, scales, limits, stops."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support.models import random_model

import tessella as ts
from tessella.mdp.tabular.rows import PolicyRows

METHODS = [
    ts.ValueIteration,
    ts.ModifiedPolicyIteration,
    ts.PolicyIteration,
    ts.InexactPolicyIteration,
    ts.LinearProgramming,
]


@pytest.mark.parametrize("method", METHODS[1:], ids=lambda m: m.__name__)
def test_discount_near_one_is_solved_with_an_honest_bound(method):
    mdp = random_model(np.random.default_rng(0), discount=0.9999)
    solution = ts.solve(mdp, method())
    sparse = mdp.to_sparse()
    rows = np.stack([p.toarray() for p in sparse.transition])
    table = solution.policy.table
    chosen, s = rows[table, np.arange(mdp.n_states)], np.arange(mdp.n_states)
    exact = np.linalg.solve(np.eye(mdp.n_states) - 0.9999 * chosen, sparse.reward[s, table])
    assert np.abs(solution.value - exact).max() <= solution.error_bound + 1e-7
    assert solution.error_bound < 1e-6 * np.abs(exact).max()


def test_a_long_deterministic_cycle_near_discount_one_is_solved():
    """Krylov methods need as many steps as the cycle is long; the loop must not stall."""
    n, g = 300, 0.9999
    cycle = np.roll(np.eye(n), 1, axis=1)[None]
    reward = np.zeros((n, 1))
    reward[0] = 1.0
    solution = ts.solve(ts.MDP.from_arrays(cycle, reward, g))
    exact = g ** ((n - np.arange(n)) % n) / (1 - g**n)
    assert np.abs(solution.value - exact).max() <= solution.error_bound + 1e-10


def test_a_cycle_of_3000_states_at_0_999999_ends_in_an_answer():
    """27 million sweeps would be needed; a stalled tabular model is factorised instead."""
    n, g = 3000, 0.999999
    cycle = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)))
    reward = np.zeros((n, 1))
    reward[0] = 1.0
    mdp = ts.MDP.from_arrays([cycle], reward, g)
    solution = ts.solve(mdp)
    exact = g ** ((n - np.arange(n)) % n) / -np.expm1(n * np.log(g))
    assert np.abs(solution.value - exact).max() <= solution.error_bound + 1e-9
    assert ts.occupancy(mdp, solution.policy).share == pytest.approx(1 / n, abs=1e-9)


def test_a_loose_bound_still_gives_the_greedy_policy():
    mdp = ts.benchmark("INV-Mix")
    optimum = ts.solve(mdp)
    early = ts.solve(mdp, ts.ValueIteration(max_sweeps=10), partial=True)
    assert not early.decided.all()
    assert np.array_equal(early.policy.table, early.q.argmax(axis=-1))
    loose = ts.solve(mdp, tol=1.0)
    lost = optimum.value - ts.evaluate(mdp, loose.policy).value
    assert lost.max() < 1e-6


def test_a_linear_program_that_answers_wrongly_is_found_out(monkeypatch):
    def wrong(self, mdp):
        return np.random.default_rng(0).normal(size=mdp.n_states)

    monkeypatch.setattr(ts.LinearProgramming, "init", wrong)
    with pytest.raises(ts.NotConverged, match="linear program's answer was only looked at"):
        ts.solve(ts.benchmark("QUE-Mix"), ts.LinearProgramming(1e-9))


@pytest.mark.parametrize("method", ["vi", ts.ValueIteration])
def test_what_is_no_method_is_refused(method):
    with pytest.raises(ts.ArgumentError, match="method must be a method object"):
        ts.solve(ts.benchmark("QUE-Mix"), method)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        (ts.ValueIteration, {"max_sweeps": 0}, "max_sweeps must be a whole number, at least 1"),
        (ts.ValueIteration, {"max_sweeps": True}, "max_sweeps must be a whole number"),
        (ts.MixedPrecision, {"forcing": -3}, "forcing must lie in"),
        (ts.ValueIteration, {"tol": "x"}, "tol must be a positive number"),
        (ts.ModifiedPolicyIteration, {"partial_sweeps": -3}, "partial_sweeps must be a whole"),
        (ts.PolicyIteration, {"max_products": 0}, "max_products must be a whole number"),
        (ts.InexactPolicyIteration, {"forcing": 2.0}, "forcing must lie in"),
        (ts.LinearProgramming, {"max_states": 2.5}, "max_states must be a whole number"),
    ],
)
def test_a_method_checks_its_own_settings(method, settings, message):
    with pytest.raises(ts.ArgumentError, match=message):
        method(**settings)


@pytest.mark.parametrize("start", [np.nan, np.inf])
def test_a_guess_that_is_not_finite_is_refused(start):
    mdp = ts.benchmark("QUE-Mix")
    policy = np.zeros(mdp.grid.shape, int)
    with pytest.raises(ts.ArgumentError, match="a guess must hold finite values"):
        ts.evaluate(mdp, policy, guess=np.full(mdp.grid.shape, start))


def test_a_far_off_start_is_no_excuse_for_a_wide_bound():
    mdp = ts.benchmark("QUE-Mix")
    policy = np.zeros(mdp.grid.shape, int)
    near = ts.evaluate(mdp, policy)
    far = ts.evaluate(mdp, policy, guess=np.full(mdp.grid.shape, 1e20))
    assert far.error_bound <= 1e-9
    assert np.abs(far.value - near.value).max() <= far.error_bound + near.error_bound


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
def test_ties_everywhere_take_the_lowest_action_and_decide_nothing(method):
    rng = np.random.default_rng(1)
    transition = rng.dirichlet(np.ones(5), size=(3, 5))
    solution = ts.solve(ts.MDP.from_arrays(transition, np.full((5, 3), 2.0), 0.9), method())
    assert (solution.policy.table == 0).all()
    assert not solution.decided.any()
    assert np.allclose(solution.value, 20.0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_policy_does_not_depend_on_the_unit_of_money(method, scale):
    rng = np.random.default_rng(2)
    transition, reward = rng.dirichlet(np.ones(6), size=(3, 6)), rng.normal(size=(6, 3))
    plain = ts.solve(ts.MDP.from_arrays(transition, reward, 0.95))
    scaled = ts.solve(ts.MDP.from_arrays(transition, reward * scale, 0.95), method())
    assert np.array_equal(plain.policy.table, scaled.policy.table)
    assert scaled.decided.all()
    apart = np.abs(scaled.value - plain.value * scale).max()
    assert apart <= scaled.error_bound + plain.error_bound * scale + 1e-15 * scale


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.__name__)
def test_absorbing_and_unreachable_states_and_infeasible_actions(method):
    """0 -> 1 -> 1 for ever; 2 is never reached; action 1 is only feasible in 0 and would pay 5."""
    stay = np.array([[0, 1, 0], [0, 1, 0], [1, 0, 0]], dtype=float)
    transition = np.stack([stay, stay])
    reward = np.array([[1.0, 5.0], [2.0, 99.0], [3.0, 99.0]])
    feasible = np.array([[True, True], [True, False], [True, False]])
    solution = ts.solve(ts.MDP.from_arrays(transition, reward, 0.5, feasible=feasible), method())
    assert np.allclose(solution.value, [5 + 2, 4, 3 + 3.5], atol=1e-9)
    assert solution.policy.table.tolist() == [1, 0, 0]
    assert np.isinf(solution.margin[1:]).all()
    assert np.isneginf(solution.q[1:, 1]).all()
    assert solution.decided.all()


def test_a_single_action_leaves_nothing_to_decide():
    mdp = random_model(np.random.default_rng(3), n_actions=1)
    solution = ts.solve(mdp)
    assert solution.decided.all()
    assert np.isinf(solution.margin).all()
    assert np.abs(solution.value - ts.evaluate(mdp, solution.policy).value).max() < 1e-9


def test_many_actions_go_through_the_looped_path():
    mdp = random_model(np.random.default_rng(4), n_actions=12)
    a, b = ts.solve(mdp), ts.solve(mdp, ts.LinearProgramming())
    assert np.abs(a.value - b.value).max() <= a.error_bound + b.error_bound
    assert np.array_equal(a.policy.table, b.policy.table)


def test_a_limit_raises_with_the_partial_result_unless_it_is_asked_for():
    mdp = ts.benchmark("INV-Mix")
    with pytest.raises(ts.NotConverged, match=r"limit of 3 sweeps .* bound"):
        ts.solve(mdp, ts.ValueIteration(1e-9, max_sweeps=3))
    partial = ts.solve(mdp, ts.ValueIteration(1e-9, max_sweeps=3), partial=True)
    full = ts.solve(mdp)
    assert not partial.converged
    assert partial.sweeps == 3
    assert np.abs(partial.value - full.value).max() <= partial.error_bound + full.error_bound


def test_sweeps_that_bring_little_each_go_on_to_a_tolerance_near_what_rounding_leaves():
    """At discount 0.9995, 200 sweeps bring a tenth, and thousands what was asked for."""

    class Near(ts.ValueIteration):
        def init(self, mdp):
            return best.value + np.array([4e-13, -4e-13])

    rows, reward = np.array([[[0.0, 1.0], [1.0, 0.0]]]), np.array([[1.0], [0.0]])
    mdp = ts.MDP.from_arrays(rows, reward, 0.9995)
    best = ts.solve(mdp)
    found = ts.solve(mdp, Near(1.3 * best.error_bound, max_sweeps=20_000))
    assert found.converged
    assert found.sweeps > 1000


def test_a_tolerance_below_rounding_is_refused_with_what_can_be_had():
    mdp = random_model(np.random.default_rng(5), discount=0.9999)
    with pytest.raises(ts.NotConverged, match=r"float64 cannot certify tol=1e-14 .* rounding"):
        ts.solve(mdp, tol=1e-14)


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan, np.inf])
def test_a_senseless_tolerance_is_refused(tol):
    with pytest.raises(ts.ArgumentError, match="tol must be a positive number"):
        ts.solve(ts.benchmark("INV-Mix"), ts.ValueIteration(tol))


def test_a_callback_sees_every_sweep_and_can_stop_the_run():
    seen = []

    def watch(progress):
        seen.append(progress)
        return progress.sweep == 5

    solution = ts.solve(ts.benchmark("INV-Mix"), ts.ValueIteration(), callback=watch)
    assert [p.sweep for p in seen] == [1, 2, 3, 4, 5]
    assert not solution.converged
    assert "callback" in solution.reason
    assert [p.bound for p in seen] == solution.history.bound.tolist()
    assert (np.diff(solution.history.seconds) > 0).all()


def test_a_callback_runs_in_the_precision_of_its_caller():
    mdp, seen, inner = random_model(np.random.default_rng(1)), [], []

    def watch(progress):
        seen.append(str(jnp.asarray(0.5).dtype))
        if progress.sweep == 1:  # the engine works within a callback, and leaves it as it was
            with jax.enable_x64(seen[0] == "float32"):
                ts.solve(mdp, callback=lambda _: inner.append(str(jnp.asarray(0.5).dtype)))
            seen.append(str(jnp.asarray(0.5).dtype))
        return progress.sweep == 2

    for x64, own, other in ((False, "float32", "float64"), (True, "float64", "float32")):
        for work in (
            lambda: ts.solve(mdp, ts.ValueIteration(), callback=watch),
            lambda: ts.solve(mdp, ts.LinearProgramming(), callback=watch),
            lambda: ts.evaluate(mdp, [0] * mdp.n_states, callback=watch),
        ):
            with jax.enable_x64(x64):
                work()
                assert jnp.asarray(0.5).dtype == own
            assert (set(seen), set(inner)) == ({own}, {other})
            seen.clear()
            inner.clear()


def test_a_callback_that_fails_leaves_the_precision_as_it_was():
    def fail(progress):
        raise KeyError("mine")

    mdp = random_model(np.random.default_rng(1))
    with jax.enable_x64(False):
        with pytest.raises(KeyError, match="mine"):
            ts.solve(mdp, callback=fail)
        assert jnp.asarray(0.5).dtype == "float32"
    assert ts.solve(mdp).value.dtype == "float64"


def test_overflowing_rewards_end_in_a_clear_error():
    mdp = ts.MDP.from_arrays(np.ones((1, 1, 1)), np.array([[1.7e308]]), 0.99)
    with pytest.raises(ts.ModelError, match="would overflow float64; rescale"):
        ts.solve(mdp)


def test_history_bounds_hold_at_every_sweep():
    mdp = ts.benchmark("QUE-Mix")
    optimum = ts.solve(mdp, ts.LinearProgramming())
    for sweeps in (1, 2, 5, 20):
        early = ts.solve(mdp, ts.ValueIteration(1e-9, max_sweeps=sweeps), partial=True)
        gap = np.abs(early.value - optimum.value).max()
        assert gap <= early.error_bound + optimum.error_bound
        assert early.history.bound[-1] <= early.error_bound


@pytest.mark.parametrize(
    ("reward", "policy"),
    [([[0, 1], [1, 0], [1, 0]], [0, 0, 1]), ([[0, -2], [0, 0], [-2, 1]], [0, 1, 0])],
)
def test_a_model_without_a_future_is_evaluated_in_a_few_sweeps(reward, policy):
    mdp = ts.MDP.from_arrays(np.tile(np.eye(3), (2, 1, 1)), np.array(reward, float), 0.0)
    best = ts.solve(mdp)
    # The optimum may be known better than rounding lets this policy be: that must not go on.
    found = ts.evaluate(mdp, policy, tol=best.error_bound, guess=best.value, partial=True)
    assert found.sweeps <= 3


def test_the_long_rows_of_a_large_random_table_are_never_factorised(monkeypatch):
    """Their factors fill up: those of these 20,000 states would take hours."""
    rng = np.random.default_rng(0)
    states, actions, successors = 20_000, 5, 20
    n = states * actions
    to = rng.integers(0, states, (n, successors))
    p = rng.dirichlet(np.ones(successors), n)
    rows = sp.csr_array(
        (p.ravel(), to.ravel(), np.arange(0, n * successors + 1, successors)), shape=(n, states)
    )
    state, action = np.divmod(np.arange(n), actions)
    mdp = ts.MDP.from_pairs(state, action, rows, rng.random(n), 0.999)

    def factorise(*args, **kwargs):
        raise AssertionError("a large table of long rows was factorised")

    monkeypatch.setattr(PolicyRows, "solve_system", factorise)
    solution = ts.solve(mdp)
    assert solution.converged
    assert solution.error_bound < 1e-8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callback": 3}, "callback must be a function; got 3"),
        ({"checkpoint": 3}, "a checkpoint ends in .npz; got '3'"),
        (
            {"until": "policy", "guess": np.zeros(3)},
            "without method, tol, checkpoint or guess; got guess",
        ),
        ({"subject_to": {"fill_rate": ts.AtLeast(0.5)}, "guess": np.zeros(3)}, "got guess"),
    ],
)
def test_options_that_would_be_ignored_are_rejected(options, message):
    shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
    with pytest.raises(ts.ArgumentError, match=re.escape(message)):
        ts.solve(shop, **options)
