"""Horizons, totals and averages are compressed like discounted models: judged by brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support import gains, nearly_decomposable
from support.criteria import compute_optimum, compute_policy_value

import tessella as ts
from tessella.rules.evaluator import PolicyEvaluator
from tessella.solvers.result import ValueAccuracy

STATES, ACTIONS = 5, 2
GRID = {"x": range(STATES)}


def rows_and_rewards(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(STATES, 0.7), size=(ACTIONS, STATES))
    return rows, np.round(rng.normal(1.0, 1.0, size=(STATES, ACTIONS)), 1)


def horizon(seed: int) -> tuple[ts.MDP, np.ndarray, np.ndarray]:
    """Three periods; the model's states are (time, x), its rows written out as one chain."""
    rows, reward = rows_and_rewards(seed)
    criterion = ts.FiniteHorizon(2, 0.9)
    mdp = ts.MDP.from_arrays(rows, reward, criterion, grid=GRID)
    whole = np.zeros((ACTIONS, 2 * STATES, 2 * STATES))
    whole[:, :STATES, STATES:] = 0.9 * rows
    return mdp, whole, np.concatenate([reward, reward])


def total(seed: int) -> tuple[ts.MDP, np.ndarray, np.ndarray]:
    """State 0 ends the process; action 1 never leads there from state 4, but back to itself."""
    rows, reward = rows_and_rewards(seed)
    rows[:, 0], reward[0] = np.eye(STATES)[0], 0.0
    rows[1, 4], reward[:, :] = np.eye(STATES)[4], -np.abs(reward) - 0.1
    reward[0] = 0.0
    mdp = ts.MDP.from_arrays(rows, reward, ts.Total(), grid=GRID)
    ended = rows.copy()
    ended[:, 0] = 0.0
    return mdp, ended, reward


def losses_of(rows: np.ndarray, reward: np.ndarray) -> dict[tuple, np.ndarray]:
    """Table to its (S,) loss, of all tables that end, by dense arrays."""
    n, found = len(reward), {}
    for table in itertools.product(range(ACTIONS), repeat=n):
        taken = rows[list(table), np.arange(n)]
        if np.abs(np.linalg.eigvals(taken)).max() < 1 - 1e-9:
            found[table] = np.linalg.solve(np.eye(n) - taken, reward[np.arange(n), list(table)])
    best = np.max(list(found.values()), axis=0)
    return {table: best - value for table, value in found.items()}


def leaves(table: np.ndarray) -> int:
    """Leaves of the smallest tree that is a table of one axis or two."""
    if len(np.unique(table)) == 1:
        return 1
    parts = [
        np.split(table, [at], axis)
        for axis in range(table.ndim)
        for at in range(1, table.shape[axis])
    ]
    return min(leaves(a) + leaves(b) for a, b in parts)


@pytest.mark.parametrize("make", [horizon, total], ids=["horizon", "total"])
@pytest.mark.parametrize("worst", [False, True], ids=["mean", "worst"])
def test_the_loss_target_is_met_and_no_proof_exceeds_the_true_minimum(make, worst):
    mdp, rows, reward = make(0)
    solution = ts.solve(mdp)
    start = np.zeros(mdp.n_states)
    start[:STATES] = 1 / STATES
    losses = losses_of(rows, reward)
    best = abs(float(start @ solution.value.ravel()))
    for loss in (0.0, 0.05, 0.3):
        rule_classes = [ts.RunLength(), ts.AxisTree()]
        rule = ts.compress(solution, loss, start=start, worst=worst, classes=rule_classes)
        lost = {t: x.max() if worst else start @ x for t, x in losses.items()}
        most = loss * best + 1e-9
        assert lost[tuple(rule.table.ravel())] <= most
        assert rule.facts["worst_loss" if worst else "mean_loss"] <= most
        kept = [np.reshape(t, mdp.grid.shape) for t, x in lost.items() if x <= most]
        true = min(3 * leaves(table) - 2 for table in kept)
        (tree,) = (o for o in rule.outcomes if o.kind == "axis tree")
        assert tree.size_needed <= true
        assert tree.size is None or true <= tree.size
        assert rule.certificate.worst_loss.upper == rule.facts["worst_loss"]


def test_a_rule_that_never_ends_is_never_taken():
    mdp, *_ = total(0)
    solution = ts.solve(mdp)
    evaluator = PolicyEvaluator(solution, np.full(STATES, 1 / STATES))
    assert evaluator.evaluate(np.ones(STATES, dtype=int)) is None
    rule = ts.compress(solution, 1e9, relative=False)
    assert rule.table[4] == 0


def gain_of(rows: np.ndarray, reward: np.ndarray, table) -> float:
    """The average of a table with one recurrent class, by its long-run shares."""
    taken = rows[list(table), np.arange(STATES)]
    system = np.vstack([taken.T - np.eye(STATES), np.ones(STATES)])
    shares = np.linalg.lstsq(system, np.append(np.zeros(STATES), 1.0), rcond=None)[0]
    return float(shares @ reward[np.arange(STATES), list(table)])


@pytest.fixture(scope="module")
def average():
    rows, reward = rows_and_rewards(3)
    return ts.solve(ts.MDP.from_arrays(rows, reward, ts.Average(), grid=GRID)), rows, reward


@pytest.mark.parametrize("worst", [False, True], ids=["mean", "worst"])
def test_an_average_is_compressed_within_what_its_gain_may_lose(average, worst):
    solution, rows, reward = average
    gains = {t: gain_of(rows, reward, t) for t in itertools.product(range(ACTIONS), repeat=STATES)}
    best = max(gains.values())
    for loss in (0.0, 0.02, 0.2):
        rule = ts.compress(solution, loss, worst=worst, classes=[ts.RunLength(), ts.AxisTree()])
        most = loss * abs(best) + 1e-9
        assert best - gains[tuple(rule.table.ravel())] <= most
        kept = [t for t, gain in gains.items() if best - gain <= most]
        true = min(3 * leaves(np.array(t)) - 2 for t in kept)
        (tree,) = (o for o in rule.outcomes if o.kind == "axis tree")
        assert tree.size_needed <= true
        assert rule.certificate is not None
        assert rule.facts["mean_loss"] == rule.certificate.mean_loss.upper <= most
        assert "per period" in rule.loss_target


def test_a_limit_has_the_unit_of_the_loss_of_a_model_made_from_rates(tmp_path):
    solution = ts.solve(ts.problem("naor_admission").build())
    rule = ts.compress(solution, "5%")
    assert "a loss of at most 5% of the optimal value per unit of time" in rule.explain()
    assert "per period" not in rule.explain()
    rule.save(tmp_path / "rule.json")
    assert ts.Rule.load(tmp_path / "rule.json").explain() == rule.explain()
    limit = solution.mdp.clock.per_time(0.1)
    rule = ts.compress(solution, 0.1, relative=False)
    assert f"a loss of at most {limit:.12g} per unit of time" in rule.explain()


@pytest.mark.parametrize("worst", [False, True], ids=["mean", "worst"])
def test_what_is_done_where_an_average_never_comes_back_is_free(worst):
    rows, _ = rows_and_rewards(0)
    rows[:, :, 4] = 0.0  # nothing leads there
    reward = np.tile([1.0, 0.0], (STATES, 1))
    reward[4] = 0.0, 5.0  # and there the other action is the better one
    rows /= rows.sum(axis=-1, keepdims=True)
    solution = ts.solve(ts.MDP.from_arrays(rows, reward, ts.Average(), grid=GRID))
    assert solution.policy.table[4] == 1
    rule = ts.compress(solution, 0.0, worst=worst, classes=[ts.AxisTree()])
    assert (rule.size, rule.size_needed, rule.table.max()) == (1, 1, 0)
    assert "contradicts" not in rule.outcomes[0].explanation


def test_what_a_rule_of_an_average_loses_is_the_difference_of_the_gains(average):
    solution, rows, reward = average
    evaluator = PolicyEvaluator(solution, np.full(STATES, 1 / STATES))
    for table in itertools.product(range(ACTIONS), repeat=STATES):
        judged, gain = evaluator.evaluate(np.array(table)), gain_of(rows, reward, table)
        assert (
            judged.mean_loss == judged.worst_loss == pytest.approx(solution.gain - gain, abs=1e-9)
        )
        assert judged.visits.sum() == pytest.approx(1.0)


def discounted(seed: int) -> tuple[ts.MDP]:
    return (ts.MDP.from_arrays(*rows_and_rewards(seed), 0.99, grid=GRID),)


def averaged(seed: int) -> tuple[ts.MDP]:
    return (ts.MDP.from_arrays(*rows_and_rewards(seed), ts.Average(), grid=GRID),)


def exact_loss(solution: ts.Solution, table: np.ndarray, start: np.ndarray, worst: bool):
    """What a table loses, in rational arithmetic."""
    if solution.gain is not None:
        truth = gains.Truth(solution.mdp)
        return truth.best[0] - truth.gains(table.tolist())[0]
    best = compute_optimum(solution.mdp, solution.policy.table)
    lost = [b - v for b, v in zip(best, compute_policy_value(solution.mdp, table), strict=True)]
    return max(lost) if worst else sum(Fraction(m) * x for m, x in zip(start, lost, strict=True))


@pytest.mark.parametrize("route", ["dense", "iterative"])
@pytest.mark.parametrize("worst", [False, True], ids=["mean", "worst"])
@pytest.mark.parametrize("make", [discounted, horizon, total, averaged])
def test_the_error_of_a_loss_covers_its_distance_from_rational_arithmetic(make, worst, route):
    mdp = make(0)[0]
    solution = ts.solve(mdp, plan=ts.plan(mdp).using(rule_evaluation=route))
    start = np.full(mdp.n_states, 1 / mdp.n_states)
    evaluator = PolicyEvaluator(solution, start, worst)
    rng = np.random.default_rng(0)
    tables = [solution.policy.table.ravel(), *rng.integers(0, 2, (6, mdp.n_states))]
    tables = [table for table in tables if evaluator.evaluate(table) is not None]
    assert len(tables) > 1
    for table in tables:
        loss = evaluator.evaluate(table)
        stated = Fraction(loss.worst_loss if worst else loss.mean_loss)
        assert abs(stated - exact_loss(solution, table, start, worst)) <= Fraction(loss.error)
        assert loss.error <= 1e-6 * max(1.0, float(np.abs(solution.value).max()))


@pytest.mark.parametrize("seed", [977943000194, 977943000603])
def test_losses_of_nearly_decomposable_chains_are_known_to_the_digits_of_the_solution(seed):
    mdp = nearly_decomposable.draw_model(seed)
    solution, truth = ts.solve(mdp), gains.Truth(mdp)
    evaluator = PolicyEvaluator(solution, np.full(mdp.n_states, 1 / mdp.n_states))
    for table in itertools.product(
        range(nearly_decomposable.N_ACTIONS), repeat=nearly_decomposable.N_STATES
    ):
        loss = evaluator.evaluate(np.array(table))
        exact = truth.best[0] - truth.gains(table)[0]
        assert abs(Fraction(loss.mean_loss) - exact) <= Fraction(loss.error)
        size = float(np.abs(mdp.reward).max())
        assert loss.error <= solution.error_bound + 1e-12 * solution.error_bound + 1e-13 * size
    rule = ts.compress(solution, loss=0.0)
    assert truth.gains(rule.table.ravel().tolist()) == truth.best


@pytest.mark.parametrize("worst", [False, True])
def test_the_loss_of_a_rule_unlike_the_optimum_is_that_of_its_value(worst):
    mdp = ts.problem("seat_revenue").build(seats=15, periods=30)
    solution, start = ts.solve(mdp), np.full(mdp.n_states, 1 / mdp.n_states)
    evaluator = PolicyEvaluator(solution, start, worst)
    table = np.random.default_rng(3).integers(0, mdp.n_actions, mdp.n_states)
    table = np.where(evaluator.is_feasible(table), table, mdp.n_actions - 1).astype(np.int32)
    assert (table != solution.policy.table.ravel()).sum() > 300  # so many that it is factorised
    found = evaluator.evaluate(table)
    exact = (solution.value - ts.evaluate(mdp, table).value).ravel()
    assert found.loss == pytest.approx(exact, abs=1e-9)
    origin = np.eye(mdp.n_states)[exact.argmax()] if worst else start
    lost = evaluator.action_loss[np.arange(len(table)), table]
    assert found.visits @ lost == pytest.approx(origin @ exact)


def test_a_rule_with_two_averages_has_no_loss_and_is_not_taken():
    rows = np.stack([np.eye(STATES), np.full((STATES, STATES), 1 / STATES)])  # stays, or moves
    reward = np.zeros((STATES, ACTIONS))
    reward[0] = 1.0, 0.9
    solution = ts.solve(ts.MDP.from_arrays(rows, reward, ts.Average(), grid=GRID))
    evaluator = PolicyEvaluator(solution, np.full(STATES, 1 / STATES))
    assert evaluator.evaluate(np.zeros(STATES, dtype=int)) is None
    rule = ts.compress(solution, 10.0, relative=False)
    assert rule.table.any()


def test_forms_are_tuned_for_totals_and_those_that_never_end_are_skipped():
    mdp, rows, reward = total(3)
    solution, losses = ts.solve(mdp), losses_of(rows, reward)

    def form(x, code):
        return (code >> x.astype(int)) & 1

    found = ts.tune(solution, form, code=[3, 5, 6, 9, 16])  # 16: never ends from state 4
    tables = {code: tuple(int(a) for a in form(np.arange(STATES), code)) for code in (3, 5, 6, 9)}
    means = {code: losses[table].mean() for code, table in tables.items()}
    assert found.parameters["code"] == min(means, key=means.get)
    with pytest.raises(ts.ArgumentError, match="may never end"):
        ts.tune(solution, form, code=[16, 17])


def test_forms_are_tuned_for_averages():
    solution = ts.solve(ts.problem("lost_sales").build())

    def capped(stock, due1, S, cap):
        return np.clip(S - stock - due1, 0, cap)

    found = ts.tune(solution, capped, S=range(15, 19), cap=range(4, 7))
    stock, due = solution.mdp.grid.points.T
    gains = {
        (S, cap): ts.evaluate(solution.mdp, capped(stock, due, S, cap).astype(int)).gain
        for S in range(15, 19)
        for cap in range(4, 7)
    }
    assert tuple(found.parameters.values()) == max(gains, key=gains.get)


def test_a_loss_relative_to_random_actions_is_that_of_the_gains(average):
    solution, rows, reward = average
    evaluator = PolicyEvaluator(solution, np.full(STATES, 1 / STATES))
    taken = rows.mean(axis=0)
    system = np.vstack([taken.T - np.eye(STATES), np.ones(STATES)])
    shares = np.linalg.lstsq(system, np.append(np.zeros(STATES), 1.0), rcond=None)[0]
    assert evaluator.compute_random_value() == pytest.approx(float(shares @ reward.mean(axis=1)))


def test_a_difference_of_averages_adds_up_over_the_states(average):
    solution, rows, reward = average
    one, other = np.zeros(STATES, dtype=int), np.ones(STATES, dtype=int)
    change = ts.diff(solution.mdp, one, other)
    true = gain_of(rows, reward, other) - gain_of(rows, reward, one)
    assert change.gain == pytest.approx(true, abs=1e-9)
    assert change.by_state.sum() == pytest.approx(true, abs=1e-9)


def test_values_without_a_bound_prove_nothing_and_miss_no_loss_target(average):
    solution, rows, reward = average
    gains = {t: gain_of(rows, reward, t) for t in itertools.product(range(ACTIONS), repeat=STATES)}
    unsure = replace(solution, accuracy=ValueAccuracy(np.inf, np.inf))
    for loss in (0.0, 0.02):
        rule = ts.compress(unsure, loss)
        lost = max(gains.values()) - gains[tuple(rule.table.ravel())]
        assert lost <= loss * solution.gain + 1e-9
        assert rule.facts["mean_loss"] <= loss * solution.gain + 1e-9


def test_a_total_of_nothing_is_compressed_without_a_loss():
    rows = np.array([[[0.5, 0.5], [0.0, 1.0]]] * 2)
    mdp = ts.MDP.from_arrays(rows, np.zeros((2, 2)), ts.Total(), grid={"x": [0, 1]})
    rule = ts.compress(ts.solve(mdp), loss=0, relative=False)
    assert rule.size == 1
    assert rule.certificate.mean_loss.upper <= 1e-280


def test_a_total_loses_nothing_from_the_worst_state_though_the_start_is_the_end():
    """A loss of 1 a period adds up from the worst state, not from a start where all is over."""
    stay = np.array([[0.99, 0.01], [0.0, 1.0]])
    rows, reward = np.array([stay, stay]), np.array([[1.0, -1.0], [0.0, 0.0]])
    solution = ts.solve(ts.MDP.from_arrays(rows, reward, ts.Total()))
    rule = ts.compress(solution, loss=0.0, worst=True, start=np.array([0.0, 1.0]), relative=False)
    assert rule.table[0] == 0
