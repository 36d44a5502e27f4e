"""Sweeps in single precision, bounds in double; results that stay on the device until read."""

import pickle
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.mdp.policy import TableRule
from tessella.mdp.stages import stage as rewards
from tessella.mdp.stages.stage import ExpectedReward
from tessella.mdp.stages.staged import Staged
from tessella.solvers import prepared_model
from tessella.solvers.bounds import bound_error
from tessella.solvers.execution_plan import Thresholds, make_plan
from tessella.solvers.mixed_precision import MixedPrecision
from tessella.solvers.plan import estimate_cost
from tessella.solvers.prepared_model import PreparedModel

SETTINGS: dict[str, Any] = {"max_stock": 40, "max_regime": 12}


def test_the_bound_is_one_of_double_precision_and_holds():
    mdp = ts.inventory(**SETTINGS)
    found = ts.solve(mdp, MixedPrecision(1e-9))
    sure = ts.solve(mdp, tol=1e-10)
    assert found.converged
    assert found.error_bound <= 1e-9
    assert np.abs(found.value - sure.value).max() <= found.error_bound + sure.error_bound
    assert bound_error(PreparedModel(make_plan(mdp)), found.value) <= 2e-9
    np.testing.assert_array_equal(found.policy.table, sure.policy.table)


def test_a_periodic_chain_is_solved_without_the_rest_that_would_diverge():
    # Around a ring of two, always: the rest of a sum of corrections alternates for ever.
    turn = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    mdp = ts.MDP.from_arrays(turn, np.array([[1.0], [0.0]]), 0.9)
    found = ts.solve(mdp, MixedPrecision(1e-9, first_sweeps=2, correction_terms=3))
    np.testing.assert_allclose(found.value, np.array([1.0, 0.9]) / (1 - 0.81), atol=1e-8)


def test_a_correction_adds_the_rest_where_the_process_stays_near():
    # Every state stays: after any term the rest is known, so the first correction ends it.
    stay = np.eye(5)[None]
    mdp = ts.MDP.from_arrays(stay, np.arange(5.0)[:, None], 0.9)
    found = ts.solve(mdp, MixedPrecision(1e-6, first_sweeps=2, correction_terms=2))
    assert found.sweeps <= 4  # each would leave nine tenths of nine tenths of nine tenths


def test_solve_takes_it_for_many_states_whose_actions_are_compared_at_little_cost():
    mdp = ts.inventory(**SETTINGS)
    limits = Thresholds(large_min_states=mdp.n_states - 1)

    def takes_it(mdp: ts.MDP, thresholds: Thresholds = limits) -> bool:
        plan = plan_by(mdp, "stages", thresholds=thresholds)
        return isinstance(plan.method, MixedPrecision)

    assert not takes_it(mdp, Thresholds()), "of few states"
    assert not takes_it(mdp, Thresholds(large_min_states=mdp.n_states)), "of just too few"
    assert takes_it(mdp)
    plan = plan_by(mdp, "stages", thresholds=limits, tol=1e-3)
    assert (plan.method, plan.method.tol) == (MixedPrecision(1e-3), 1e-3)
    assert takes_it(mdp.with_discount(0.999999))
    assert takes_it(mdp.with_criterion(ts.Average()))
    assert not takes_it(wholly_decided(20))
    table = make_plan(mdp, thresholds=limits)
    assert not isinstance(table.method, MixedPrecision), "of a small table"


def wholly_decided(n_actions: int) -> ts.MDP:
    """All that happens depends on the action, so a sweep over all of them is as many of one."""

    def law(a):
        return np.concatenate([0.02 * a, 1 - 0.04 * a, 0.02 * a], axis=-1)

    moves = ts.Noise("w", [-1, 0, 1], law)
    shift = ts.Shift("x", moves, edge="clip", pays=lambda x, a: -x - a)
    mdp = ts.MDP.staged({"x": range(2000)}, range(n_actions), 0.9, [shift], action_name="a")
    assert isinstance(mdp.dynamics, Staged)
    assert mdp.dynamics.sweep_products == n_actions * mdp.dynamics.policy_sweep_products
    return mdp


def test_solve_takes_it_for_large_models_of_any_kind_on_an_accelerator(monkeypatch):
    mdp = ts.MDP.from_arrays(np.eye(40)[None], np.arange(40.0)[:, None], 0.9)
    limits = Thresholds(large_min_states=30, accelerator_min_states=40, accelerator_min_entries=30)
    on_processor = make_plan(mdp, thresholds=limits)
    assert not isinstance(on_processor.method, MixedPrecision)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    terms = limits.accelerator_correction_terms
    expected = MixedPrecision(1e-3, correction_terms=terms)
    assert make_plan(mdp, tol=1e-3, thresholds=limits).method == expected
    near_one = make_plan(mdp.with_discount(0.999), thresholds=limits)
    assert isinstance(near_one.method, MixedPrecision)


def test_an_accelerator_has_coarse_grids_for_larger_models(monkeypatch):
    mdp = ts.inventory(**SETTINGS)
    n = mdp.n_states
    few = {"large_min_states": 1, "coarse_max_states": n - 1}

    def planned(n_states: int) -> str:
        limits = Thresholds(**few, accelerator_coarse_max_states=n_states)
        return make_plan(mdp, representation="stages", thresholds=limits).preconditioner

    assert planned(n) == "none"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert (planned(n), planned(n - 1)) == ("coarse", "none")


class CountingTerms(MixedPrecision):
    """It notes how many terms each sum has, and the bound before."""

    seen: ClassVar[list[tuple[int, float]]] = []

    def _count_terms(self, operators, state):
        count = super()._count_terms(operators, state)
        jax.debug.callback(lambda n, b: self.seen.append((int(n), float(b))), count, state.bound)
        return count


@pytest.mark.parametrize("discount", [0.5, 0.9])
def test_a_sum_has_no_more_terms_than_the_target_needs(discount):
    mdp = ts.inventory(**SETTINGS, discount=discount)
    tol, limit = 1e-9, 150
    CountingTerms.seen.clear()
    found = ts.solve(mdp, CountingTerms(tol, first_sweeps=2, correction_terms=limit))
    jax.effects_barrier()
    assert found.error_bound <= tol
    assert 0 < min(CountingTerms.seen)[0] < limit
    for count, bound in CountingTerms.seen:
        needed = np.log(0.5 * tol / bound) / np.log(discount)
        assert count == pytest.approx(np.clip(needed, 1, limit), abs=1)


def test_sums_of_averages_have_all_terms():
    mdp = ts.inventory(**SETTINGS).with_criterion(ts.Average())
    CountingTerms.seen.clear()
    found = ts.solve(mdp, CountingTerms(1e-7, correction_terms=7))
    jax.effects_barrier()
    assert found.error_bound <= 1e-7
    assert {count for count, _ in CountingTerms.seen} == {7}


@pytest.mark.parametrize("criterion", [ts.Discounted(0.999), ts.Average()])
def test_an_accelerator_factorises_its_own_coarse_grid(criterion, monkeypatch):
    mdp = ts.inventory(max_stock=60, max_regime=400, demand_slope=0.02).with_criterion(criterion)
    options = {"representation": "stages", "thresholds": Thresholds(large_min_states=1)}
    usual = ts.solve(mdp, plan=make_plan(mdp, tol=1e-4, **options))
    monkeypatch.setattr(prepared_model, "results_stay_on_device", lambda: True)
    prepared = PreparedModel(make_plan(mdp, tol=1e-4, **options))
    data = in_float64(prepared.build_policy_data)(jnp.zeros(mdp.grid.shape, jnp.int32))
    assert isinstance(data.coarse_correction.node_sizes, jax.Array)
    held = ts.solve(mdp, plan=make_plan(mdp, tol=1e-4, **options))
    assert held.converged
    assert held.sweeps <= usual.sweeps + 1
    apart = usual.error_bound + held.error_bound
    if usual.gain is None:
        np.testing.assert_allclose(held.value, usual.value, atol=apart, rtol=0)
    else:
        assert held.gain == pytest.approx(usual.gain, abs=apart)


def test_a_plan_puts_no_model_on_a_device(monkeypatch):
    mdp = ts.inventory(max_stock=60, max_regime=400).with_criterion(ts.Average())
    monkeypatch.setattr(prepared_model, "results_stay_on_device", lambda: True)
    monkeypatch.setattr(Staged, "compile", None)
    made = estimate_cost(make_plan(mdp, representation="stages"), calibrate=False)
    assert made.arrays["coarse nodes"] > 0
    assert made.arrays["to factorise them"] > 0


@pytest.fixture(scope="module")
def pair():
    """A solution in NumPy's arrays, and the same with arrays that stay on the device."""
    mdp = ts.inventory(**SETTINGS)
    usual = ts.solve(mdp, MixedPrecision(1e-9))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prepared_model, "results_stay_on_device", lambda: True)
        return usual, ts.solve(mdp, MixedPrecision(1e-9))


def test_a_solution_pulls_no_array_that_nobody_reads(pair):
    usual, held = pair
    rule = held.policy.rule
    assert isinstance(rule, TableRule)
    assert isinstance(held.get_raw("value"), jax.Array)
    assert isinstance(held.get_raw("margin"), jax.Array)
    assert isinstance(vars(rule)["actions"], jax.Array)
    part = held.part("value", np.s_[3:5, 2:4])
    np.testing.assert_array_equal(part, usual.value[3:5, 2:4])
    assert isinstance(held.get_raw("value"), jax.Array), "a part pulls no more than itself"


def test_what_is_read_is_numpys_and_the_same(pair):
    usual, held = pair
    for name in ("value", "margin"):
        array = getattr(held, name)
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
        np.testing.assert_array_equal(array, getattr(usual, name))
        assert getattr(held, name) is array, "pulled once"
    np.testing.assert_array_equal(held.policy.table, usual.policy.table)


def test_what_is_pickled_keeps_double_precision(pair):
    usual, _ = pair
    on_device: Any = jax.numpy.zeros(usual.mdp.grid.shape, "int32")
    record = TableRule(usual.mdp.grid, on_device)
    again = pickle.loads(pickle.dumps(record))
    assert isinstance(vars(again)["actions"], np.ndarray)


def staged(**settings: Any):
    mdp = ts.inventory(**settings)
    assert isinstance(mdp.dynamics, Staged)
    return mdp, mdp.dynamics.stages


def test_expected_rewards_of_a_very_large_grid_are_kept_as_factors():
    with rewards.factor_rewards_above(10):
        lean, lean_stages = staged(max_stock=600, max_regime=90, max_demand=9)
        _, small_stages = staged(**SETTINGS)  # small beside its factors, whatever the limit
    kinds = [type(stage.reward) for stage in lean_stages if stage.reward is not None]
    assert ExpectedReward in kinds
    assert not any(isinstance(s.reward, ExpectedReward) for s in small_stages)
    whole, whole_stages = staged(max_stock=600, max_regime=90, max_demand=9)
    at_ends = [0, whole.n_states - 1]
    np.testing.assert_allclose(lean.reward[at_ends], whole.reward[at_ends], rtol=1e-14)
    arrays: Any = lean.dynamics.backend_model.arrays
    usual: Any = whole_stages[1].reward
    np.testing.assert_allclose(arrays[1]["reward"], usual, rtol=1e-13)
    assert lean.dynamics.reward_scale >= whole.dynamics.reward_scale * (1 - 1e-15)
    assert lean.dynamics.reward_scale <= whole.dynamics.reward_scale * 1.02
