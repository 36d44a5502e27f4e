"""Policies that draw nothing: what one changed action does, and what the search finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support import occupation_program

import tessella as ts
from tessella.solvers.constraints.switch_search import SwitchSearch


def sum_up(model: occupation_program.ConstrainedModel, table: np.ndarray) -> np.ndarray:
    """The reward and the excess of each constraint, by dense linear algebra."""
    policy = np.eye(model.reward.shape[1])[table]
    visits = occupation_program.compute_occupation(model.mdp, model.transition, policy).ravel()
    rows = [model.row(name) for name in model.subject_to]
    excess = [row @ visits - number for row, number in rows]
    return np.array([model.reward.ravel() @ visits, *excess])


def make_search(model: occupation_program.ConstrainedModel) -> SwitchSearch:
    rows = [model.row(name) for name in model.subject_to]
    shape = model.reward.shape
    return SwitchSearch(
        model.mdp,
        amounts=np.stack([model.reward, *(row.reshape(shape) for row, _ in rows)]),
        constants=np.array([0.0, *(-number for _, number in rows)]),
        penalties=np.array([0.0, *(1.0 for _ in rows)]),
    )


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_all_policies_that_differ_in_one_state_are_exact(seed):
    model = occupation_program.draw_model(seed)  # even seeds have a discount, odd ones an average
    n_states, n_actions = model.reward.shape
    table = np.random.default_rng(seed).integers(n_actions, size=n_states)
    search = make_search(model)
    sums, denominators = search._evaluate_changes(table, search._invert(table))
    for state, action in itertools.product(range(n_states), range(n_actions)):
        changed = table.copy()
        changed[state] = action
        if action == table[state]:
            assert denominators[state, action] == 0.0
        else:
            assert sums[:, state, action] == pytest.approx(sum_up(model, changed), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_policies_found_satisfy_the_constraints_and_the_best_comes_first(seed):
    model = occupation_program.draw_model(seed)
    n_states, n_actions = model.reward.shape
    start = np.random.default_rng(seed).integers(n_actions, size=n_states)
    found = [sum_up(model, table) for table in make_search(model).run([start])]
    assert all((sums[1:] > -1e-9).all() for sums in found)
    earned = [sums[0] for sums in found]
    assert earned == sorted(earned, reverse=True)


def test_naors_queue_has_no_better_policy_without_draws():
    """A policy fills the queue up to the first state that admits nobody: each is a threshold."""
    mdp = ts.problem("naor_admission").build()
    states = np.arange(mdp.n_states)
    thresholds = [ts.evaluate(mdp, np.where(states < k, 1, 0)) for k in range(mdp.n_states + 1)]
    for level in (0.12, 0.08, 0.04):
        result = ts.solve(mdp, subject_to={"rejection": ts.AtMost(level)})
        assert result.best is not None
        allowed = [one for one in thresholds if one.measures["rejection"].high <= level]
        best = mdp.clock.per_time(max(one.gain for one in allowed))
        assert result.best.reward.value == pytest.approx(best, rel=1e-9)
        assert result.best.reward.value < 0.98 * result.high
