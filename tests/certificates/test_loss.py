"""loss(solution, policy): the figure without the proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tessella as ts


@pytest.fixture(scope="module")
def solution():
    return ts.solve(ts.benchmark("QUE-Lin"))


def spoiled(solution):
    table = solution.policy.table.copy()
    table[3:9] = 1 - table[3:9]
    return table


def test_the_optimal_policy_loses_nothing_at_all(solution):
    found = ts.loss(solution, solution)
    assert (found.by_state == 0).all()
    assert found.mean == found.worst == 0


@pytest.mark.parametrize("start", [None, {"queue": 4, "regime": 2}])
def test_it_lies_within_what_the_certificate_proves(solution, start):
    table = spoiled(solution)
    found, proof = ts.loss(solution, table, start), ts.certify(solution, table, start)
    off = found.error_bound
    assert off < 1e-8
    assert (found.by_state >= proof.losses.lower - off).all()
    assert (found.by_state <= proof.losses.upper + off).all()
    assert proof.mean_loss.lower - off <= found.mean <= proof.mean_loss.upper + off
    assert proof.worst_loss.lower - off <= found.worst <= proof.worst_loss.upper + off
    assert found.worst > 1e-3


def test_it_is_the_value_of_the_optimum_less_that_of_the_policy(solution):
    table = spoiled(solution)
    dense = solution.mdp.to_arrays("SAS")
    s, a = np.arange(dense.reward.shape[0]), table.ravel()
    system = np.eye(s.size) - solution.mdp.discount * dense.transition[s, a]
    worth = np.linalg.solve(system, dense.reward[s, a])
    lost = ts.loss(solution, table).by_state.ravel()
    assert np.allclose(lost, solution.value.ravel() - worth, atol=1e-8)


def test_it_needs_a_solution():
    with pytest.raises(ts.ArgumentError, match="loss needs a Solution; got an MDP"):
        ts.loss(ts.benchmark("QUE-Lin"), 0)


def test_a_loss_that_is_taken_for_none_is_within_its_bound(solution):
    """Values that are known to be up to ``off`` too low hide a loss of up to twice that."""
    table = spoiled(solution)
    lost = ts.loss(solution, table).worst
    off = 0.6 * lost
    rough = replace(solution, value=solution.value - off, error_bound=off)
    found = ts.loss(rough, table)
    assert found.worst == 0
    assert found.error_bound >= lost
