"""plan(mdp): what a solve will need, before it starts."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.mdp.describe import count_model_bytes
from tessella.mdp.stages.partition import partition_by_size
from tessella.solvers import plan as plans
from tessella.solvers import prepared_model
from tessella.solvers.blocks import InPlaceSweeper
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.mixed_precision import MixedPrecision, to_single_precision
from tessella.solvers.operators import Operators
from tessella.solvers.prepared_model import PreparedModel


def cost(mdp: ts.MDP, *method: ts.Method, **words) -> ts.CostEstimate:
    """What a plan estimates, without timing anything."""
    estimate = ts.plan(mdp, *method, calibrate=False, **words).cost
    assert estimate is not None
    return estimate


def timed(mdp: ts.MDP, *method: ts.Method, **words) -> ts.CostEstimate:
    """The same with the time of a few sweeps."""
    estimate = ts.plan(mdp, *method, **words).cost
    assert estimate is not None
    return estimate


def test_memory_is_counted_array_by_array_and_grows_with_the_states():
    small, large = (cost(ts.inventory(max_stock=n, max_regime=40)) for n in (399, 1599))
    assert small.memory == sum(small.arrays.values())
    assert small.arrays["the model's own"] == count_model_bytes(
        ts.inventory(max_stock=399, max_regime=40).dynamics
    )
    assert 3.5 < large.memory / small.memory < 4.5
    per_state = large.memory / large.states
    assert 80 < per_state < 200  # bytes: ten arrays of the states, and the model's own


def test_sweeps_are_never_more_than_planned():
    for discount, tol in ((0.9, 1e-3), (0.95, 1e-6)):
        mdp = ts.inventory(discount=discount)
        found = ts.solve(mdp, ts.ValueIteration(tol))
        planned = cost(mdp, tol=tol).sweeps
        assert planned is not None
        assert found.sweeps <= planned < 3 * found.sweeps


def test_a_plan_says_what_would_fit_where_a_model_does_not():
    mdp = ts.inventory()
    made = timed(mdp, memory=20_000)
    assert not made.fits
    assert made.sweep_seconds is None  # nothing was started
    assert 0 < made.max_states < mdp.n_states
    assert f"about {made.max_states:,} states would" in made.sentence
    assert cost(mdp, memory=made.memory).fits
    assert not cost(mdp, memory=made.memory - 1).fits


def test_time_is_that_of_a_few_sweeps_times_their_number():
    made = replace(timed(ts.inventory(), tol=1e-6), sweep_seconds=0.5)
    assert made.sweeps is not None
    assert made.seconds == 0.5 * made.sweeps
    assert "A sweep takes 0.5 s" in str(made)


def test_a_calibration_runs_sweeps_of_the_model_itself():
    assert 0 < plans.measure_sweep_seconds(make_plan(ts.inventory())) < np.inf


def test_a_small_model_is_planned_as_the_table_that_it_is_solved_as():
    mdp = ts.inventory()
    plan = ts.plan(mdp, tol=1e-6)
    made = plan.cost
    assert made is not None
    table = plan.backend_model.arrays
    assert made.arrays["its rows"] == count_model_bytes(plan.dynamics) > table.reward.nbytes
    assert not made.compiled
    assert "its rows" not in cost(ts.inventory(max_stock=399)).arrays


def test_a_plan_in_place_counts_what_the_sweeper_holds_and_times_its_sweeps():
    mdp, method = ts.inventory(max_stock=199, max_demand=6), ts.InPlace(1e-3, block_states=1000)
    partition = partition_by_size(mdp.dynamics, 1000)
    run = in_float64(InPlaceSweeper)(PreparedModel(make_plan(mdp, method)), partition)
    made = timed(mdp, method)
    own = sum(
        leaf.nbytes for block in run.block_operators for leaf in jax.tree.leaves(block.data.arrays)
    )
    assert made.arrays["the model's own, in blocks"] == own
    assert made.arrays["values"] == run.value.nbytes
    assert made.compiled
    assert ts.plan(mdp, method, calibrate=False).method is method
    assert made.sweep_seconds is not None
    usual = cost(mdp, tol=1e-3)
    assert made.sweeps == usual.sweeps
    assert made.memory < usual.memory / 2


def test_a_plan_takes_the_words_of_solve():
    mdp = ts.inventory(max_stock=199)
    linear = cost(mdp, ts.PolicyIteration(1e-3))
    plain = cost(mdp, ts.ValueIteration(1e-3))
    assert linear.memory - plain.memory == linear.arrays["linear systems"]
    with pytest.raises(ts.ArgumentError, match="tol is set in the method"):
        ts.plan(mdp, ts.ValueIteration(1e-3), tol=1e-3)
    with pytest.raises(ts.ArgumentError, match="as many devices"):
        ts.plan(mdp, devices=1000)


def test_what_solve_refuses_is_not_planned():
    average = ts.inventory().with_criterion(ts.Average())
    with pytest.raises(ts.ArgumentError, match="method must be a method object"):
        ts.plan(average, 1e-3)  # type: ignore[arg-type]
    for mdp in (average, ts.inventory().with_criterion(ts.FiniteHorizon(3))):
        with pytest.raises(ts.ArgumentError, match="in place serves models of stages with disc"):
            ts.plan(mdp, ts.InPlace(1e-3))


def test_a_small_model_for_a_compiled_method_is_timed_compiled():
    made = timed(ts.inventory(max_stock=9, max_regime=2), MixedPrecision(1e-3))
    assert "its rows" not in made.arrays
    assert made.compiled


def test_sweeps_are_counted_where_their_numbers_would_vanish():
    mdp = ts.MDP.from_arrays(np.eye(3)[None], np.full((3, 1), 1e280), 0.99)
    planned = cost(mdp, tol=1e-40).sweeps
    assert planned == pytest.approx(
        np.log(1e280 * 1e4) / 0.01005 + np.log(1e40) / 0.01005, rel=1e-3
    )


def test_what_later_stages_overwrite_or_forget_is_not_counted_in_between():
    mdp = ts.problem("two_products").build()
    wanted = mdp.parameters["max_demand"] + 1
    made = plans.estimate_cost(plan_by(mdp, "stages"), calibrate=False)
    assert made.arrays["in between"] == 16 * 6**3 * wanted


def test_an_average_says_that_its_sweeps_are_not_known():
    made = cost(ts.inventory().with_criterion(ts.Average()))
    assert made.sweeps is None
    assert made.seconds is None
    assert "how fast the model mixes" in made.sentence


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("shape", [(399, 40), (30_000, 0), (120, 120)], ids=str)
def test_a_plan_of_a_large_average_counts_its_coarse_nodes_and_what_is_in_single_precision(
    shape, on_device, monkeypatch
):
    stock, regime = shape
    monkeypatch.setattr(prepared_model, "results_stay_on_device", lambda: on_device)
    mdp = ts.inventory(max_stock=stock, max_regime=regime).with_criterion(ts.Average())
    plan = plan_by(mdp, "stages")
    made, prepared = plans.estimate_cost(plan, calibrate=False), PreparedModel(plan)
    coarse = in_float64(prepared.build_policy_data)(
        np.zeros(mdp.grid.shape, np.int32)
    ).coarse_correction
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(coarse))
    assert made.arrays["coarse nodes"] == held
    single = in_float64(
        lambda: to_single_precision(Operators(prepared.backend, prepared.data)).data.arrays
    )()
    copied = [leaf for leaf in jax.tree.leaves(single) if leaf.dtype == np.float32]
    points = 3 * 4 * mdp.n_states
    assert made.arrays["in single precision"] >= points + sum(c.nbytes for c in copied)


def test_a_small_average_has_no_coarse_nodes():
    assert "coarse nodes" not in timed(ts.inventory().with_criterion(ts.Average())).arrays


def test_a_horizon_takes_a_sweep_for_each_period():
    assert timed(ts.inventory().with_criterion(ts.FiniteHorizon(7))).sweeps == 7


def test_the_method_named_is_the_one_that_solve_takes():
    discounted = ts.inventory()
    for criterion in (discounted.criterion, ts.Average(), ts.FiniteHorizon(2)):
        mdp = discounted.with_criterion(criterion)
        assert ts.plan(mdp, calibrate=False).method.name == ts.solve(mdp).method


def test_what_is_no_model_or_no_tolerance_is_refused():
    with pytest.raises(ts.ArgumentError):
        ts.plan("inventory")  # type: ignore[arg-type]
    with pytest.raises(ts.ArgumentError, match="tol"):
        ts.plan(ts.inventory(), tol=-1.0)


def test_memory_and_thresholds_are_numbers():
    mdp = ts.inventory(max_stock=4, max_regime=2)
    for memory in ("4GB", -1, float("nan"), True):
        with pytest.raises(ts.ArgumentError, match="memory must be a number of bytes; got"):
            ts.plan(mdp, calibrate=False, memory=memory)  # type: ignore[arg-type]
    for value in ("1", None, -1, float("nan")):
        with pytest.raises(ts.ArgumentError, match="rows_max_entries must be a number, at least 0"):
            ts.Thresholds(rows_max_entries=value)  # type: ignore[arg-type]
