"""Rules of models too large for their rows: judged by visits alone, and no worse for it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import diags_array, eye_array
from scipy.sparse.linalg import spsolve

import tessella as ts
from tessella.rules.evaluator import PolicyEvaluator

LEVELS = range(0, 100, 33)


@pytest.fixture(scope="module")
def solution():
    return ts.solve(ts.problem("inventory").build(max_stock=90, max_regime=30))


def base_stock(mdp: ts.MDP, level: float) -> np.ndarray:
    stock, regime = mdp.grid.points.T
    return np.clip(np.ceil((level + 0.5 * regime - stock) / 4), 0, 4).astype(np.int32)


@pytest.fixture(scope="module")
def model(solution):
    """Rows and rewards as sparse arrays, for an evaluation of one's own."""
    return solution.mdp.to_sparse()


def worth(mdp: ts.MDP, model, table: np.ndarray) -> np.ndarray:
    taken = [diags_array((table == a).astype(float)) for a in range(mdp.n_actions)]
    rows = sum(t @ p for t, p in zip(taken, model.transition, strict=True))
    system = (eye_array(len(table)) - mdp.discount * rows).tocsc()
    return spsolve(system, model.reward[np.arange(len(table)), table])


def test_a_rule_is_judged_as_near_as_asked_by_its_visits_alone(solution, model):
    mdp, start = solution.mdp, np.full(solution.mdp.n_states, 1 / solution.mdp.n_states)
    assert solution.plan.rule_evaluation == "iterative"
    mean, worst = (
        PolicyEvaluator(solution, start),
        PolicyEvaluator(solution, start, is_worst_case=True),
    )
    mean.loss_tolerance, worst.loss_tolerance = 1e-4, 1e-4
    for level in LEVELS:
        table = base_stock(mdp, level)
        lost = solution.value.ravel() - worth(mdp, model, table)
        told = mean.evaluate(table)
        assert told.mean_loss == pytest.approx(start @ lost, abs=1e-4)
        assert np.isnan(told.worst_loss)
        assert worst.evaluate(table).worst_loss == pytest.approx(lost.max(), abs=2e-4)
        assert told.visits.sum() == pytest.approx(1 / (1 - mdp.discount), rel=1e-3)
        assert mean.bound_losses_below([table])[0] <= start @ lost
        assert worst.bound_losses_below([table])[0] <= lost.max()


def test_what_is_as_good_as_optimal_loses_nothing_and_is_not_evaluated(solution, monkeypatch):
    start = np.full(solution.mdp.n_states, 1 / solution.mdp.n_states)
    evaluator = PolicyEvaluator(solution, start)
    assert evaluator.optimal.mean_loss == pytest.approx(0.0, abs=1e-6)
    monkeypatch.setattr(
        evaluator, "_compute_visit_shares", lambda *_: pytest.fail("it was evaluated")
    )
    table = solution.policy.table.ravel().copy()
    evaluator.action_loss[7, :] = 0.0  # two actions that nobody can tell apart
    table[7] = (table[7] + 1) % 5
    assert evaluator.evaluate(table).mean_loss == 0.0


def test_a_loss_target_is_met_within_a_time_limit_and_what_surely_misses_it_is_not_evaluated(
    solution, model
):
    rule_classes = [ts.OneAction(), ts.OrderUpTo(), ts.RunLength()]
    rule = ts.compress(solution, 0.01, classes=rule_classes, time_limit=60.0)
    mean = float((solution.value.ravel() - worth(solution.mdp, model, rule.table.ravel())).mean())
    assert mean <= 0.01 * abs(float(solution.value.mean()))
    assert rule.facts["mean_loss"] >= mean - 1e-9
    assert rule.size <= 4


def test_a_start_late_in_a_horizon_counts_only_what_is_left():
    solution = ts.solve(ts.problem("seat_revenue").build(seats=80, periods=30))
    mdp = solution.mdp
    start = (mdp.grid.points[:, mdp.grid.axis("time")] == 20).astype(float)
    start /= start.sum()
    table = np.zeros(mdp.n_states, dtype=np.int32)
    told = PolicyEvaluator(solution, start).evaluate(table)
    assert solution.plan.rule_evaluation == "iterative"
    assert told.mean_loss == pytest.approx(ts.loss(solution, table, start).mean, rel=1e-6)
