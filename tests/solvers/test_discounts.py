"""One method for all discounts: its answers are those of dense systems, and cost about the same."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import tessella as ts
from tessella.solvers.execution_plan import Thresholds, make_plan
from tessella.solvers.loop import RunLog
from tessella.solvers.mixed_precision import make_phases
from tessella.solvers.prepared_model import PreparedModel

DISCOUNTS = (0.95, 0.999, 0.9999, 0.999999)


def plan_as_large(mdp: ts.MDP, **requests) -> ts.ExecutionPlan:
    """The plan of a large model, for a small one."""
    limits = Thresholds(large_min_states=1)
    return make_plan(mdp, representation="stages", thresholds=limits, **requests)


def solve_exactly(mdp: ts.MDP) -> np.ndarray:
    """(S,) the optimal values by Howard's policy iteration with dense systems."""
    arrays = mdp.to_arrays()
    every = np.arange(mdp.n_states)
    policy = np.zeros(mdp.n_states, int)
    while True:
        rows, reward = arrays.transition[policy, every], arrays.reward[every, policy]
        value = np.linalg.solve(np.eye(mdp.n_states) - mdp.discount * rows, reward)
        q = arrays.reward + mdp.discount * np.einsum("ast,t->sa", arrays.transition, value)
        if (q.max(1) <= q[every, policy] + 1e-9 * np.abs(value).max()).all():
            return value
        policy = q.argmax(1)


def inventory(discount: float) -> ts.MDP:
    return ts.inventory(max_stock=24, max_regime=30, demand_slope=0.3, discount=discount)


def ring(discount: float) -> ts.MDP:
    """Around a ring of seasons, always: every chain is periodic."""
    turn = ts.Decide("season", to=lambda season: (season + 1) % 12)
    order = ts.Decide(
        "stock",
        to=lambda stock, order: np.minimum(stock + 3 * order, 9),
        pays=lambda order: -2.0 * order,
    )
    sell = ts.Shift(
        "stock",
        ts.Noise("demand", [0, 1, 2], [0.2, 0.5, 0.3]),
        by=lambda demand: -demand,
        pays=lambda season, stock: np.minimum(stock, 2) * (1.0 + (season < 6)) - 0.1 * stock,
    )
    axes = {"season": range(12), "stock": range(10)}
    return ts.MDP.staged(axes, (0, 1), discount, [order, sell, turn], action_name="order")


def separate(discount: float) -> ts.MDP:
    """Three lines that are never left, each with rewards of its own."""
    wander = ts.Shift(
        "x",
        ts.Noise("step", (-1, 0, 1), (0.25, 0.5, 0.25)),
        edge="clip",
        pays=lambda x, line, effort: np.sin(x) * (1 + effort) + 3.0 * line - effort,
    )
    axes = {"line": range(3), "x": range(40)}
    return ts.MDP.staged(axes, (0, 1), discount, [wander], action_name="effort")


MODELS = {"inventory": inventory, "ring": ring, "separate lines": separate}


@pytest.mark.parametrize("discount", DISCOUNTS)
@pytest.mark.parametrize("name", MODELS)
def test_values_and_bounds_are_those_of_dense_systems(name, discount):
    mdp = MODELS[name](discount)
    tol = 1e-7 / (1 - discount)
    found = ts.solve(mdp, plan=plan_as_large(mdp, tol=tol))
    assert found.method == "MixedPrecision"
    assert found.converged
    exact = solve_exactly(mdp).reshape(mdp.grid.shape)
    slack = 1e-12 * np.abs(exact).max() / (1 - discount)  # of the dense solve
    assert found.error_bound <= tol
    assert np.abs(found.value - exact).max() <= found.error_bound + slack


def test_sweeps_hardly_depend_on_the_discount():
    counts = []
    for discount in DISCOUNTS:
        mdp = inventory(discount)
        plan = plan_as_large(mdp, tol=1e-7 / (1 - discount))
        counts.append(ts.solve(mdp, plan=plan).sweeps)
    assert max(counts) <= 2 * min(counts) + 2


@pytest.mark.parametrize("discount", [0.99, 0.9999])
def test_a_policy_is_evaluated_by_the_same_route(discount):
    mdp = inventory(discount)
    table = np.where(np.arange(25)[:, None] < 8, 2, 0) + np.zeros((1, 31), int)
    tol = 1e-7 / (1 - discount)
    found = ts.evaluate(mdp, table, plan=plan_as_large(mdp), tol=tol)
    arrays, every = mdp.to_arrays(), np.arange(mdp.n_states)
    rows = np.eye(mdp.n_states) - discount * arrays.transition[table.ravel(), every]
    exact = np.linalg.solve(rows, arrays.reward[every, table.ravel()])
    assert found.error_bound <= tol
    assert np.abs(found.value.ravel() - exact).max() <= found.error_bound + 1e-8 / (1 - discount)
    visits = ts.occupancy(mdp, table, plan=plan_as_large(mdp))
    start = np.full(mdp.n_states, (1 - discount) / mdp.n_states)
    shares = np.linalg.solve(rows.T, start)
    assert np.abs(visits.share.ravel() - shares).sum() <= visits.error_bound + 1e-10 / (
        1 - discount
    )
    assert visits.error_bound <= 1e-6


def log_of(bounds: list[float], changes: list[int], target: float) -> RunLog:
    """The log of a run with these iterations."""
    log = RunLog(None)
    log.add(bounds, changes, target)
    return log


def test_phases_follow_one_another_where_linear_systems_achieve_little():
    mdp = inventory(0.9999)
    plan = plan_as_large(mdp)
    phases = make_phases(PreparedModel(plan), plan.method)
    uses = [(phase.method.name, phase.uses_coarse_correction) for phase in phases]
    assert uses == [
        ("MixedPrecision", False),
        ("MixedPrecision", True),
        ("MixedPrecision", False),
        ("InexactPolicyIteration", False),
    ]
    first, second, third, last = (cast(Any, phase) for phase in phases)
    assert last.has_ended is None
    slow, quick = [1e6, 9e5, 8e5], [1e6, 1e3, 1e0]
    unsettled = [mdp.n_states // 2] * 3
    assert first.has_ended(log_of(slow, [0, 0, 0], 1.0))
    assert not first.has_ended(log_of(slow, unsettled, 1.0))
    assert not first.has_ended(log_of(quick, [0, 0, 0], 0.5))
    assert second.has_ended(log_of(slow, [0, 0, 0], 1.0))
    assert not second.has_ended(log_of(quick, [0, 0, 0], 0.5))
    assert third.has_ended(log_of(slow, [0, 0, 0], 1.0))
    assert not third.has_ended(log_of([1e6, 7e5, 5e5], [0, 0, 0], 1.0))


def test_the_pace_of_the_last_iteration_says_how_many_are_left():
    assert log_of([1e6, 1e4], [0, 0], 1.0).count_iterations_left() == pytest.approx(2)
    assert log_of([1e6, 1e6], [0, 0], 1.0).count_iterations_left() == np.inf
    assert log_of([1e6], [0], 1.0).count_iterations_left() == 0
    assert log_of([1e6, 0.5], [0, 0], 1.0).count_iterations_left() == 0
    assert not log_of([1.0, 1.0], [0, 0], 1.0).has_slowed(0.5, 2)
    assert log_of([1.0, 1.0, 0.9], [0, 0, 0], 1.0).has_slowed(0.5, 2)


def test_a_phase_counts_from_the_last_iteration_before_it():
    log = log_of([1e6, 1e4, 1e3], [0, 0, 0], 1.0)
    log.start_phase()
    assert log.phase_iterations == 1
    assert log.count_iterations_left() == 0
    assert not log.has_slowed(0.01, 1)
    log.add([1e2], [0], 1.0)
    assert log.phase_iterations == 2
    assert log.count_iterations_left() == pytest.approx(2)
    assert log.has_slowed(0.01, 1)


@pytest.mark.parametrize("discount", [0.9999, 0.999999, 1 - 1e-8])
def test_tables_of_several_closed_sets_take_few_iterations_at_any_discount(discount):
    # A policy that leads to the wrong set has a bound wider by 1 / (1 - discount).
    for seed in range(12):
        rng = np.random.default_rng(seed)
        targets = [rng.permutation(60), np.arange(60), rng.integers(0, 60, 60)]
        transition = np.eye(60)[np.array(targets)]
        mdp = ts.MDP.from_arrays(transition, rng.normal(size=(60, 3)), discount)
        found = ts.solve(mdp)
        assert found.sweeps <= 10
        slack = 1e-12 / (1 - discount) ** 2
        assert np.abs(found.value - solve_exactly(mdp)).max() <= found.error_bound + slack
