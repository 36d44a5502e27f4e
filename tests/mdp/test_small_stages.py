"""A small staged model is solved as the table of its periods: nothing compiled, the same answer."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.routes import by
from support.stories import story

import tessella as ts
from tessella.mdp import engine
from tessella.mdp.dynamics import Plain
from tessella.mdp.stages import staged
from tessella.rounding import EPS


def test_nothing_is_compiled_from_the_model_to_its_certificate():
    made = engine.PIECES.made
    solution = ts.solve(ts.inventory(max_stock=9, max_regime=4))
    ts.occupancy(solution.mdp, solution.policy)
    ts.certify(solution, np.zeros(solution.mdp.grid.shape, dtype=int))
    assert engine.PIECES.made == made


def test_a_model_past_the_limit_goes_through_stages(monkeypatch):
    mdp = ts.inventory(max_stock=9, max_regime=4)
    entries = mdp.n_states * mdp.n_actions * mdp.dynamics.longest_row
    monkeypatch.setattr(staged, "SMALL", entries)
    assert isinstance(mdp.dynamics.lowered.program, Plain)
    monkeypatch.setattr(staged, "SMALL", entries - 1)
    large = ts.inventory(max_stock=9, max_regime=4)
    assert not isinstance(large.dynamics.lowered.program, Plain)
    assert large.dynamics.factorised(np.zeros(large.grid.shape, dtype=int), 0.9) is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9))
def test_the_table_is_that_of_the_stages(seed):
    mdp = story(seed).mdp
    dynamics = mdp.dynamics
    assert isinstance(dynamics, staged.Staged)
    table = dynamics.table
    for a, rows in enumerate(dynamics.to_sparse()):
        assert (rows != table.to_sparse()[a]).nnz == 0
        np.testing.assert_array_equal(table.reward[:, a], dynamics.reward_under(a))
    assert dynamics.terms >= table.terms
    assert dynamics.adjoint_terms >= table.adjoint_terms
    assert dynamics.built == dynamics.written == table.built
    assert dynamics.built.rows >= dynamics.stages_built.rows + EPS


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_lead_to_one_optimum_within_their_bounds(seed):
    as_table = ts.solve(story(seed).mdp)
    with by("stages"):
        through = ts.solve(story(seed).mdp)
        assert not isinstance(through.mdp.dynamics.lowered.program, Plain)
    apart = np.abs(as_table.value - through.value).max()
    assert apart <= as_table.error_bound + through.error_bound
    sure = as_table.decided & through.decided
    np.testing.assert_array_equal(as_table.policy.table[sure], through.policy.table[sure])


def test_a_method_written_for_the_compiler_gets_stages():
    class Backups(ts.Method):
        def refine(self, operators, state):
            return jnp.asarray(state.backup)

    made = engine.PIECES.made
    solution = ts.solve(ts.inventory(max_stock=5, max_regime=2), Backups(tol=1e-6))
    assert solution.converged
    assert engine.PIECES.made > made
