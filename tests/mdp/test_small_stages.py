"""A small staged model is solved as the table of its periods: nothing compiled, the same answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.routes import by
from support.stories import story

import tessella as ts
from tessella.mdp import compilation
from tessella.mdp.stages import staged
from tessella.rounding import EPS


def test_nothing_is_compiled_from_the_model_to_its_certificate():
    made = compilation.COMPILATION_CACHE.n_compiled
    solution = ts.solve(ts.inventory(max_stock=9, max_regime=4))
    ts.occupancy(solution.mdp, solution.policy)
    ts.certify(solution, np.zeros(solution.mdp.grid.shape, dtype=int))
    assert compilation.COMPILATION_CACHE.n_compiled == made


def test_a_model_past_the_limit_goes_through_stages(monkeypatch):
    mdp = ts.inventory(max_stock=9, max_regime=4)
    assert isinstance(mdp.dynamics, staged.Staged)
    likely = mdp.dynamics.estimated_row_entries
    monkeypatch.setattr(staged, "ROWS_MAX_ENTRIES", likely)
    assert not mdp.dynamics.backend_model.backend.is_compiled
    monkeypatch.setattr(staged, "ROWS_MAX_ENTRIES", likely - 1)
    large = ts.inventory(max_stock=9, max_regime=4)
    assert large.dynamics.backend_model.backend.is_compiled
    assert (
        large.dynamics.factorise_policy_system(np.zeros(large.grid.shape, dtype=int), 0.9) is None
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9))
def test_the_table_is_that_of_the_stages(seed):
    mdp = story(seed).mdp
    dynamics = mdp.dynamics
    assert isinstance(dynamics, staged.Staged)
    table = dynamics.rows
    for a, rows in enumerate(dynamics.to_sparse()):
        assert (rows != table.to_sparse()[a]).nnz == 0
        np.testing.assert_array_equal(table.reward[:, a], dynamics.action_reward(a))
    assert dynamics.rounding_terms >= table.rounding_terms
    assert dynamics.adjoint_rounding_terms >= table.adjoint_rounding_terms
    assert dynamics.rounding_as_given == dynamics.rounding_as_saved == table.rounding_as_given
    assert dynamics.rounding_as_given.rows >= dynamics.rounding_as_given.rows + EPS


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_lead_to_one_optimum_within_their_bounds(seed):
    as_table = ts.solve(story(seed).mdp)
    with by("stages"):
        through = ts.solve(story(seed).mdp)
        assert through.mdp.dynamics.backend_model.backend.is_compiled
    apart = np.abs(as_table.value - through.value).max()
    assert apart <= as_table.error_bound + through.error_bound
    sure = as_table.decided & through.decided
    np.testing.assert_array_equal(as_table.policy.table[sure], through.policy.table[sure])


def test_a_method_written_for_the_compiler_gets_stages():
    class Backups(ts.Method):
        def refine(self, operators, state):
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

    narrow, wide = model(5).dynamics, model(60_000).dynamics
    assert isinstance(wide, staged.Staged)
    assert wide.max_row_entries > staged.ROWS_MAX_ENTRIES, "what is never reached counts there"
    assert wide.uses_rows
    np.testing.assert_array_equal(wide.rows.reward, narrow.rows.reward)  # type: ignore[union-attr]
    assert (wide.to_sparse()[1] != narrow.to_sparse()[1]).nnz == 0


def whole(dynamics: staged.Staged, action: int) -> np.ndarray:
    """(S, S) the product of all stages, over all states that each knows of, as dense matrices."""
    product = np.eye(dynamics.context.grid.size)
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
        unit = (
            EPS * dynamics.stage_rounding_counts.terms
        )  # of sums of products, none of them negative
        np.testing.assert_allclose(rows.toarray(), expected, rtol=2 * unit, atol=0)


@pytest.mark.parametrize("most", [2, 6])
def test_some_rows_tell_how_many_probabilities_a_table_has(most):
    dynamics = PLATELETS.build(most=most).dynamics
    assert isinstance(dynamics, staged.Staged)
    true = sum(rows.nnz for rows in dynamics.to_sparse())
    assert true / 2 <= dynamics.estimated_row_entries <= 2 * true
    assert dynamics.max_row_entries >= true


def heavy(monkeypatch) -> Callable[[], staged.Staged]:
    """Platelets small enough for tests, to be taken for a model of heavy stages."""

    def dynamics() -> staged.Staged:
        made = PLATELETS.build(most=6).dynamics
        assert isinstance(made, staged.Staged)
        return made

    assert dynamics().sweep_products > dynamics().estimated_row_entries
    monkeypatch.setattr(staged, "ROW_MIN_ENTRIES", 1)
    monkeypatch.setattr(staged, "ROWS_MAX_ENTRIES", 1)
    assert not dynamics().uses_rows
    monkeypatch.setattr(staged, "HEAVY_SWEEP_PRODUCTS", dynamics().sweep_products)
    return dynamics


def test_stages_that_take_more_products_than_rows_have_entries_give_way_to_a_table(monkeypatch):
    dynamics = heavy(monkeypatch)
    likely = dynamics().estimated_row_entries
    assert dynamics().uses_rows
    monkeypatch.setattr(staged, "ROWS_MAX_ENTRIES_HEAVY", likely)
    assert dynamics().uses_rows
    monkeypatch.setattr(staged, "ROWS_MAX_ENTRIES_HEAVY", likely - 1)
    assert not dynamics().uses_rows


def test_both_ways_of_a_model_with_heavy_stages_lead_to_one_optimum_within_their_bounds():
    as_table = ts.solve(PLATELETS.build(most=6))
    with by("stages"):
        through = ts.solve(PLATELETS.build(most=6))
        assert through.mdp.dynamics.backend_model.backend.is_compiled
    apart = np.abs(as_table.value - through.value).max()
    assert apart <= as_table.error_bound + through.error_bound


def test_a_table_that_turns_out_longer_than_it_was_judged_is_given_up(monkeypatch):
    dynamics = heavy(monkeypatch)()
    dynamics.__dict__["likely_entries"] = 1
    monkeypatch.setattr(staged, "ROWS_MAX_ENTRIES_HEAVY", dynamics.max_row_entries // 1_000)
    true = sum(rows.nnz for rows in dynamics.to_sparse())
    assert true > staged.ENTRY_ESTIMATE_SLACK * staged.ROWS_MAX_ENTRIES_HEAVY
    assert not dynamics.uses_rows
    assert "rows" not in dynamics.__dict__


@pytest.mark.parametrize(
    ("limit", "of"), [("PERIOD_MAX_OUTCOMES", "sum"), ("STAGE_MAX_OUTCOMES", "max")]
)
def test_rows_are_not_looked_for_where_that_alone_would_take_long(monkeypatch, limit, of):
    dynamics = heavy(monkeypatch)()
    each = [staged.count_outcomes(stage.operation) for stage in dynamics.stages]
    held = {"sum": sum(each) * dynamics.n_actions, "max": max(each)}[of]
    assert dynamics._rows_are_affordable(staged.ROWS_MAX_ENTRIES_HEAVY)
    monkeypatch.setattr(staged, limit, held - 1)
    assert not dynamics._rows_are_affordable(1 << 24)
    monkeypatch.setattr(staged, "rows_of_states", None)  # which would not do when called
    assert not dynamics.uses_rows


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
    assert true / 1.5 < dynamics.estimated_row_entries < 1.5 * true


def test_who_needs_something_compiled_gets_stages_and_makes_no_table():
    dynamics = PLATELETS.build(most=2).dynamics
    assert isinstance(dynamics.compiled_model.backend, staged.StageBackend)
    assert "rows" not in dynamics.__dict__


def test_periods_too_many_for_tables_make_none():
    shop = {"x": range(60)}
    order = ts.Decide(
        "x", lambda x, action: np.minimum(x + action, 59), pays=lambda action, time: -action * time
    )
    sold = ts.Shift("x", ts.Noise("w", [0, -1], [0.5, 0.5]), pays=lambda x: 0.1 * x)
    mdp = ts.MDP.staged(shop, range(5), ts.FiniteHorizon(600), [order, sold])
    assert not mdp.dynamics.uses_rows
    assert mdp.dynamics.rounding_terms > 0
    assert mdp.dynamics.adjoint_rounding_terms > 0
    assert mdp.dynamics.rounding_as_given == mdp.dynamics.rounding_as_given
    assert not any("rows" in period.__dict__ for period in mdp.dynamics.periods)


@pytest.mark.parametrize("discount", [0.95, 0.999, 0.999999])
def test_near_discount_1_the_bound_is_no_wider_than_through_stages(discount):
    def model() -> ts.MDP:
        return ts.inventory(max_stock=10, max_regime=2, discount=discount)

    as_table = ts.solve(model()).error_bound
    with by("stages"):
        through = ts.solve(model()).error_bound
    assert as_table < 3 * through
