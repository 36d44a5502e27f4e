"""A small staged model is solved by the rows of its periods: no compilation, the same answer."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_stages import make_staged_case
from support.routes import plan_by

import tessella as ts
from tessella.mdp import compilation
from tessella.mdp.stages import staged
from tessella.rounding import EPS
from tessella.solvers.execution_plan import Thresholds, estimate_row_entries, make_plan


def test_nothing_is_compiled_from_the_model_to_its_certificate():
    made = compilation.COMPILATION_CACHE.n_compiled
    solution = ts.solve(ts.inventory(max_stock=9, max_regime=4))
    ts.occupancy(solution.mdp, solution.policy)
    ts.certify(solution, np.zeros(solution.mdp.grid.shape, dtype=int))
    assert compilation.COMPILATION_CACHE.n_compiled == made


def estimate_entries(dynamics: staged.Staged) -> int:
    """As a plan does."""
    return estimate_row_entries(dynamics, Thresholds())


def choose(mdp: ts.MDP, **limits: int) -> str:
    """Rows or stages, by thresholds of which some are given."""
    return make_plan(mdp, thresholds=Thresholds(**limits)).representation


def test_a_model_past_the_limit_goes_through_stages():
    mdp = ts.inventory(max_stock=9, max_regime=4)
    assert isinstance(mdp.dynamics, staged.Staged)
    likely = estimate_entries(mdp.dynamics)
    small = make_plan(mdp, thresholds=Thresholds(rows_max_entries=likely))
    assert small.representation == "rows"
    assert not small.backend_model.backend.is_compiled
    large = make_plan(mdp, thresholds=Thresholds(rows_max_entries=likely - 1))
    assert large.representation == "stages"
    assert large.backend_model.backend.is_compiled
    actions = np.zeros(mdp.grid.shape, dtype=int)
    assert small.dynamics.factorise_policy_system(actions, 0.9) is not None
    assert large.dynamics.factorise_policy_system(actions, 0.9) is None


def car_rental() -> ts.MDP:
    """Jack's car rental (Sutton and Barto, example 4.2), returns before the next day's requests."""

    def rent(place: str, mean: float) -> ts.Shift:
        def pays(requests, first, second):
            return 10.0 * np.minimum(first if place == "first" else second, requests)

        requests = ts.Noise("requests", range(12), ts.truncated_poisson(mean, 11))
        return ts.Shift(place, requests, by=lambda requests: -requests, pays=pays)

    def take_back(place: str, mean: float) -> ts.Shift:
        cars = ts.Noise("cars", range(12), ts.truncated_poisson(mean, 11))
        return ts.Shift(place, cars, by=lambda cars: cars)

    return ts.MDP.staged(
        {"first": range(21), "second": range(21)},
        range(-5, 6),
        0.9,
        [
            ts.Decide(
                "first",
                lambda first, move: np.clip(first - move, 0, 20),
                pays=lambda move: -2.0 * abs(move),
            ),
            ts.Decide("second", lambda second, move: np.clip(second + move, 0, 20)),
            *(rent("first", 3.0), rent("second", 4.0)),
            *(take_back("first", 3.0), take_back("second", 2.0)),
        ],
        action_name="move",
        feasible=lambda first, second, move: (move <= first) & (-move <= second),
    )


def test_actions_that_lead_to_the_same_states_share_rows_and_the_model_is_a_table():
    mdp = car_rental()
    dynamics = mdp.dynamics
    assert isinstance(dynamics, staged.Staged)
    assert dynamics.max_row_entries > Thresholds().rows_max_entries
    assert dynamics.count_distinct_rows() == mdp.n_states  # of 11 times as many pairs
    made = compilation.COMPILATION_CACHE.n_compiled
    as_table = ts.solve(mdp)
    assert as_table.plan.representation == "rows"
    assert compilation.COMPILATION_CACHE.n_compiled == made
    through = ts.solve(mdp, plan=plan_by(mdp, "stages"))
    assert np.array_equal(as_table.policy.table, through.policy.table)
    apart = np.abs(as_table.value - through.value).max()
    assert apart <= as_table.error_bound + through.error_bound
    unshared = Thresholds(distinct_row_weight=11)
    assert make_plan(mdp, thresholds=unshared).representation == "stages"
    rows = dynamics.as_rows()
    assert rows is not None
    assert rows.rows.shape == (mdp.n_states, mdp.n_states)
    expected = staged.multiply_stages([stage.operation for stage in dynamics.stages], 2)
    np.testing.assert_allclose(
        rows.to_sparse()[2].toarray(), expected.toarray(), rtol=0, atol=1e-15
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9))
def test_the_table_is_that_of_the_stages(seed):
    mdp = make_staged_case(seed).mdp
    dynamics = mdp.dynamics
    assert isinstance(dynamics, staged.Staged)
    table = dynamics.as_rows()
    assert table is not None
    for a, rows in enumerate(dynamics.to_sparse()):
        assert (rows != table.to_sparse()[a]).nnz == 0
        np.testing.assert_array_equal(table.reward[:, a], dynamics.action_reward(a))
    plan = make_plan(mdp)
    assert plan.dynamics is table
    assert table.rounding.in_memory == dynamics.rounding.in_file
    assert table.rounding.in_memory.row_error >= dynamics.rounding.in_memory.row_error + EPS


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_lead_to_one_optimum_within_their_bounds(seed):
    mdp = make_staged_case(seed).mdp
    as_table = ts.solve(mdp)
    through = ts.solve(mdp, plan=plan_by(mdp, "stages"))
    assert not as_table.plan.backend_model.backend.is_compiled
    assert through.plan.backend_model.backend.is_compiled
    apart = np.abs(as_table.value - through.value).max()
    assert apart <= as_table.error_bound + through.error_bound
    sure = as_table.decided & through.decided
    np.testing.assert_array_equal(as_table.policy.table[sure], through.policy.table[sure])


def test_a_method_written_for_the_compiler_gets_stages():
    class Backups(ts.Method):
        def step(self, operators, state):
            return jnp.asarray(state.backup)

    made = compilation.COMPILATION_CACHE.n_compiled
    solution = ts.solve(ts.inventory(max_stock=5, max_regime=2), Backups(tol=1e-6))
    assert solution.converged
    assert compilation.COMPILATION_CACHE.n_compiled > made


@pytest.mark.parametrize(
    "method",
    [
        ts.ValueIteration,
        ts.ModifiedPolicyIteration,
        ts.PolicyIteration,
        ts.InexactPolicyIteration,
        ts.LinearProgramming,
    ],
)
def test_no_method_of_the_package_compiles_for_a_small_model(method):
    made = compilation.COMPILATION_CACHE.n_compiled
    assert ts.solve(ts.inventory(max_stock=5, max_regime=2), method(1e-6)).converged
    assert compilation.COMPILATION_CACHE.n_compiled == made


def test_values_of_a_scratch_axis_that_nothing_reaches_do_not_keep_a_model_from_being_a_table():
    rain = ts.Noise("rain", [0, 1, 2], [0.5, 0.25, 0.25])
    stages = [ts.Shift("y", rain), ts.Shift("y", rain), ts.Pay(lambda y: 1.0 * y)]

    def model(wide: int) -> ts.MDP:
        return ts.MDP.staged({"x": range(5)}, (0, 1), 0.9, stages, scratch={"y": range(wide)})

    narrow, wide = make_plan(model(5)), make_plan(model(60_000))
    given = wide.mdp.dynamics
    assert isinstance(given, staged.Staged)
    assert given.max_row_entries > Thresholds().rows_max_entries, "the unreached counts there"
    assert wide.representation == "rows"
    rewards = [plan.dynamics.expected_reward() for plan in (wide, narrow)]
    np.testing.assert_array_equal(*rewards)
    assert (given.to_sparse()[1] != narrow.mdp.dynamics.to_sparse()[1]).nnz == 0


def whole(dynamics: staged.Staged, action: int) -> np.ndarray:
    """(S, S) the product of all stages, over all states that each knows of, as dense matrices."""
    product = np.eye(dynamics.space.grid.size)
    for stage in dynamics.stages:
        before, after = stage.operation.shape, stage.operation.output_shape
        matrix = np.zeros((math.prod(before), math.prod(after)))
        for to, p in stage.operation.outcomes(action):
            np.add.at(matrix, (np.arange(len(matrix)), to.ravel()), np.ravel(p))
        product = product @ matrix
    return product


PLATELETS = ts.problem("platelets")


def test_rows_of_what_is_reached_are_those_of_all_states_of_the_stages():
    dynamics = PLATELETS.build(most=3).dynamics
    assert isinstance(dynamics, staged.Staged)
    for action, rows in enumerate(dynamics.to_sparse()):
        expected = whole(dynamics, action)
        unit = EPS * dynamics.rounding.backup_terms  # of sums of products, none of them negative
        np.testing.assert_allclose(rows.toarray(), expected, rtol=2 * unit, atol=0)


@pytest.mark.parametrize("most", [2, 6])
def test_some_rows_tell_how_many_probabilities_a_table_has(most):
    dynamics = PLATELETS.build(most=most).dynamics
    assert isinstance(dynamics, staged.Staged)
    true = sum(rows.nnz for rows in dynamics.to_sparse())
    assert true / 2 <= estimate_entries(dynamics) <= 2 * true
    assert dynamics.max_row_entries >= true


def heavy() -> tuple[ts.MDP, staged.Staged, dict[str, int]]:
    """Platelets small enough for tests, and thresholds by which their stages are heavy."""
    mdp = PLATELETS.build(most=6)
    dynamics = mdp.dynamics
    assert isinstance(dynamics, staged.Staged)
    assert dynamics.sweep_products > estimate_entries(dynamics)
    limits = {"row_min_entries": 1, "rows_max_entries": 1}
    assert choose(mdp, **limits) == "stages"
    assert choose(mdp, **limits, heavy_sweep_products=dynamics.sweep_products + 1) == "stages"
    return mdp, dynamics, limits | {"heavy_sweep_products": dynamics.sweep_products}


def test_stages_that_take_more_products_than_rows_have_entries_give_way_to_a_table():
    mdp, dynamics, limits = heavy()
    likely = estimate_entries(dynamics)
    assert choose(mdp, **limits) == "rows"
    assert choose(mdp, **limits, heavy_rows_max_entries=likely) == "rows"
    assert choose(mdp, **limits, heavy_rows_max_entries=likely - 1) == "stages"


def test_both_ways_of_a_model_with_heavy_stages_lead_to_one_optimum_within_their_bounds():
    mdp = PLATELETS.build(most=6)
    as_table = ts.solve(mdp)
    through = ts.solve(mdp, plan=plan_by(mdp, "stages"))
    assert not as_table.plan.backend_model.backend.is_compiled
    assert through.plan.backend_model.backend.is_compiled
    apart = np.abs(as_table.value - through.value).max()
    assert apart <= as_table.error_bound + through.error_bound


def test_a_table_that_turns_out_longer_than_it_was_estimated_is_given_up():
    """A sample of eight states misses the few whose rows are long."""

    def to(x, w):
        return {"x": np.where(x < 16, w % (1024 - x), x)}  # 1 state in 64 leads everywhere

    jump = ts.Jump(ts.Noise("w", range(1024), np.full(1024, 1 / 1024)), to=to)
    mdp = ts.MDP.staged({"x": range(1024)}, (0, 1), 0.9, [jump])
    dynamics = mdp.dynamics
    assert isinstance(dynamics, staged.Staged)
    true = sum(rows.nnz for rows in dynamics.to_sparse())
    few = {"sampled_states": 8, "sampled_actions": 1}
    estimate = dynamics.estimate_row_entries(*few.values())
    assert true > 2 * estimate
    limits = few | {"rows_max_entries": estimate, "row_min_entries": 1, "entry_estimate_slack": 2}
    plan = make_plan(mdp, thresholds=Thresholds(**limits))
    assert plan.representation == "stages"
    assert "longer than estimated" in plan.reasons["representation"]
    assert choose(mdp, **limits | {"entry_estimate_slack": true // estimate + 1}) == "rows"


@pytest.mark.parametrize(
    ("limit", "of"), [("period_max_outcomes", "sum"), ("stage_max_outcomes", "max")]
)
def test_rows_are_not_looked_for_where_that_alone_would_take_long(monkeypatch, limit, of):
    mdp, dynamics, limits = heavy()
    each = dynamics.stage_outcomes
    held = {"sum": sum(each) * dynamics.n_actions, "max": max(each)}[of]
    assert choose(mdp, **limits | {limit: held}) == "rows"
    monkeypatch.setattr(staged, "compute_rows_of_states", None)  # which would fail when called
    assert choose(mdp, **limits | {limit: held - 1}) == "stages"


def test_states_whose_rows_are_short_are_not_taken_for_all(monkeypatch):
    """Nothing happens on the diagonal of a cube, where evenly spaced states all lie."""

    def still(x, y, z):
        return (x == y) & (y == z)

    def drawn(name: str) -> ts.Noise:
        law = lambda x, y, z: np.where(still(x, y, z), np.eye(8)[0], np.full(8, 1 / 8))  # noqa: E731
        return ts.Noise(name, range(8), law)

    stages = [
        ts.Jump(drawn("u"), to=lambda u, x, y, z: {"x": np.where(u == 0, x, u)}),
        ts.Jump(drawn("v"), to=lambda v, x, y, z: {"y": np.where(v == 0, y, v)}),
        ts.Jump(drawn("w"), to=lambda w, z, action: {"z": np.where(w == 0, z, (w + action) % 8)}),
    ]
    axes = dict.fromkeys("xyz", range(8))
    dynamics = ts.MDP.staged(axes, (0, 1), 0.9, stages).dynamics
    assert isinstance(dynamics, staged.Staged)
    true = sum(rows.nnz for rows in dynamics.to_sparse())
    assert true / 1.5 < estimate_entries(dynamics) < 1.5 * true


def test_who_needs_something_compiled_gets_stages_and_makes_no_table():
    mdp = PLATELETS.build(most=2)
    plan = make_plan(mdp, backend="jax")
    assert isinstance(plan.backend_model.backend, staged.StageBackend)
    assert isinstance(mdp.dynamics.compile().backend, staged.StageBackend)
    assert "_rows" not in mdp.dynamics.__dict__


def test_periods_too_many_for_tables_make_none():
    shop = {"x": range(60)}
    order = ts.Decide(
        "x", lambda x, action: np.minimum(x + action, 59), pays=lambda action, time: -action * time
    )
    sold = ts.Shift("x", ts.Noise("w", [0, -1], [0.5, 0.5]), pays=lambda x: 0.1 * x)
    mdp = ts.MDP.staged(shop, range(5), ts.FiniteHorizon(600), [order, sold])
    plan = make_plan(mdp)
    assert plan.representation == "stages"
    assert plan.dynamics is mdp.dynamics
    assert mdp.dynamics.rounding.backup_terms > 0
    assert mdp.dynamics.adjoint_rounding_terms > 0
    assert not any("_rows" in period.__dict__ for period in mdp.dynamics.periods)


@pytest.mark.parametrize("discount", [0.95, 0.999, 0.999999])
def test_near_discount_1_the_bound_is_no_wider_than_through_stages(discount):
    mdp = ts.inventory(max_stock=10, max_regime=2, discount=discount)
    as_table = ts.solve(mdp).error_bound
    through = ts.solve(mdp, plan=plan_by(mdp, "stages")).error_bound
    assert as_table < 3 * through


def test_rows_are_built_once_for_all_verbs(monkeypatch, tmp_path):
    built = []
    build = staged.Staged._build_rows

    def count(self, max_entries):
        built.append(self)
        return build(self, max_entries)

    monkeypatch.setattr(staged.Staged, "_build_rows", count)
    mdp = ts.problem("inventory").build(max_stock=8, max_regime=2)
    solution = ts.solve(mdp)
    rule = ts.compress(solution, loss=0.05)
    rule.certificate.save(tmp_path / "certificate.json")
    ts.solve(mdp, ts.LinearProgramming())
    ts.evaluate(mdp, rule)
    mdp.save(tmp_path / "model.nc")
    assert len(built) == 1
