"""Large models take corrections in single precision; their figures stay as accurate."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.routes import plan_by

from tessella.certificates.certify import certify
from tessella.problems.registry import benchmark
from tessella.solvers.execution_plan import Thresholds
from tessella.solvers.policy_evaluation import occupancy
from tessella.solvers.policy_iteration import InexactPolicyIteration
from tessella.solvers.solve import solve


@pytest.fixture(scope="module")
def inventory():
    """A model that counts as large, and goes through stages as large ones do."""
    mdp = benchmark("INV-Mix")
    limits = Thresholds(large_min_states=100)
    return solve(mdp, plan=plan_by(mdp, "stages", InexactPolicyIteration(), thresholds=limits))


@pytest.fixture
def table(inventory):
    """A policy with errors."""
    assert inventory.plan.evaluation_precision == "single"
    rng = np.random.default_rng(0)
    table = inventory.policy.table.copy()
    spoil = rng.random(table.shape) < 0.1
    table[spoil] = rng.integers(0, 5, spoil.sum())
    return table


def dense(mdp, table):
    """(I - discount P_pi) and r_pi."""
    model, every = mdp.to_sparse(), np.arange(mdp.n_states)
    P = np.stack([m.toarray() for m in model.transition])[table.ravel(), every]
    return np.eye(mdp.n_states) - mdp.discount * P, model.reward[every, table.ravel()]


def test_worth_and_occupancy_are_as_accurate_as_they_say(inventory, table):
    c = certify(inventory, table)
    system, reward = dense(inventory.mdp, table)
    worth = np.linalg.solve(system, reward)
    assert np.abs(c.policy_value.ravel() - worth).max() <= c.policy_value_error + 1e-11
    assert c.policy_value_error <= 2 * c.optimal_value_error
    assert c.optimal_value_error <= 1e-10
    visits = (1 - c.criterion.discount) * np.linalg.solve(system.T, c.start.ravel())
    assert np.abs(c.occupancy.ravel() - visits).sum() <= c.occupancy_error + 1e-11
    assert c.occupancy_error <= 1e-6


def test_the_two_ways_to_the_loss_agree(inventory, table):
    c = certify(inventory, table)
    assert c.mean_loss.width <= 1e-9
    for part in (c.decomposition.state, c.decomposition.pair, c.decomposition.face):
        assert part.value.sum() == pytest.approx(c.mean_loss, rel=1e-4)
        assert part.lower.sum() <= c.mean_loss <= part.upper.sum()
        assert part.width <= 3e-4 * c.mean_loss


def test_the_optimum_of_a_large_model_loses_nothing(inventory, table):
    assert certify(inventory, inventory).worst_loss.upper == 0


def test_where_corrections_fail_plain_steps_take_over(inventory, table, monkeypatch):
    monkeypatch.setattr(
        sys.modules["tessella.solvers.policy_evaluation"],
        "_correct",
        lambda *args: (args[-1], np.nan),
    )
    found = occupancy(inventory.mdp, table, tol=1e-7, plan=inventory.plan)
    system, _ = dense(inventory.mdp, table)
    visits = (1 - inventory.mdp.discount) * np.linalg.solve(system.T, found.start.ravel())
    assert found.error_bound <= 1e-7
    assert np.abs(found.share.ravel() - visits).sum() <= found.error_bound + 1e-11
