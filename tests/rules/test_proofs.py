"""What is promised or called proven is so, whatever the solution and the time that is left."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import scipy.sparse as sp

import tessella as ts
from tessella.mdp.program import Choose, node_to_json

SHAPE, DISCOUNT = (5, 4), 0.9


def model(n_actions: int = 3) -> ts.MDP:
    rng = np.random.default_rng(0)
    n = SHAPE[0] * SHAPE[1]
    rows = rng.dirichlet(np.ones(n), size=(n_actions, n))
    axes = {"x": range(SHAPE[0]), "y": range(SHAPE[1])}
    reward = rng.random((n, n_actions))
    return ts.MDP.from_arrays(rows, reward, DISCOUNT, grid=axes, actions=range(n_actions))


@pytest.fixture(scope="module")
def solution():
    return ts.solve(model())


@pytest.fixture(scope="module")
def rough():
    return ts.solve(model(), ts.ValueIteration(tol=0.5))


@pytest.mark.parametrize("worst", [False, True])
def test_a_promise_finer_than_the_solution_is_refused_and_the_tolerance_named(rough, worst):
    assert rough.error_bound > 0.001 * rough.value.mean()
    with pytest.raises(ts.ArgumentError, match=r"larger than the error.*a tolerance of \d") as told:
        ts.compress(rough, 0.001, worst=worst)
    named = float(str(told.value).split("tolerance of ")[1].split(";")[0])
    finer = ts.solve(model(), ts.ValueIteration(tol=named))
    kept = ts.compress(finer, 0.001, classes=[ts.RunLength()], worst=worst)
    assert kept.certificate is not None
    figure = kept.certificate.worst_loss if worst else kept.certificate.mean_loss
    assert figure.upper <= 0.001 * abs(finer.value.mean())


def test_a_promise_is_kept_as_it_stands_with_a_rough_solution_or_not_at_all(rough):
    for loss in np.geomspace(0.08, 0.9, 6):
        try:
            rule = ts.compress(rough, loss, classes=[ts.OneAction(), ts.RunLength()])
        except ts.ArgumentError:
            continue
        share = rule.facts["relative_loss"]
        assert share is None or share <= loss


class Slow(ts.RuleClass):
    """An exact class that looks at nothing once the time is up."""

    name = "slow"

    def heuristic(self, costs):
        return ""

    def largest(self, costs):
        return 1

    def fit(self, costs, most, target):
        while time.perf_counter() < costs.deadline < np.inf:
            pass
        return []


def test_a_fit_that_the_time_limit_cut_short_proves_nothing(solution):
    limited = ts.compress(solution, 0.5, classes=[ts.OneAction(), Slow()], time_limit=0.5)
    told = limited.outcomes[-1]
    assert (told.kind, told.needed) == ("slow", 0)
    assert "stopped by the time limit; more time or a larger loss may allow one" in told.said
    for kind in (ts.LinearCuts(), ts.Staircase(), ts.AxisTree()):
        rule = ts.compress(solution, 0.0, classes=[ts.RunLength(), kind], time_limit=1e-6)
        assert [o.needed for o in rule.outcomes] == [0, 0]
        assert not rule.proven
        assert not any("keeps the promise" in o.said for o in rule.outcomes)


class Mistaken(ts.RuleClass):
    """A class whose proofs are wrong."""

    name = "mistaken"

    def heuristic(self, costs):
        return ""

    def fit(self, costs, most, target):
        return [ts.Fitted(Choose(0), 1, float(costs.by_state[:, 0].sum()))]

    def needed(self, costs, target, most, fits):
        return most + 1


def test_a_proof_that_a_rule_contradicts_is_dropped(solution):
    rule = ts.compress(solution, 0.9, classes=[Mistaken()])
    assert (rule.size, rule.size_needed, rule.proven) == (1, 0, False)
    assert rule.outcomes[0].needed == 0
    assert "contradicts a rule" in rule.outcomes[0].said


def test_no_class_of_the_package_contradicts_itself(solution):
    for loss in (0.0, 0.02):
        rule = ts.compress(solution, loss)
        assert not any("contradicts" in outcome.said for outcome in rule.outcomes)


def test_a_large_model_in_which_nothing_is_worth_anything_is_compressed():
    n = 2_100
    rows = sp.eye_array(n, format="csr")
    mdp = ts.MDP.from_arrays([rows, rows], np.zeros((n, 2)), DISCOUNT)
    rule = ts.compress(ts.solve(mdp), 0.1, relative=False, classes=[ts.OneAction()])
    assert rule.size == 1


def checkered(n: int) -> ts.Solution:
    """A model of n states in a row, each of which needs another action than its neighbours."""
    rows = np.full((2, n, n), 1 / n)
    reward = np.eye(2)[np.arange(n) % 2]
    return ts.solve(ts.MDP.from_arrays(rows, reward, 0.5, grid={"x": range(n)}))


def test_a_tree_may_have_a_leaf_for_every_state():
    rule = ts.compress(checkered(8), 0.0, classes=[ts.AxisTree()])
    assert (rule.size, rule.size_needed) == (22, 22)


def test_a_tree_of_many_leaves_is_shallow_where_it_can_be():
    n = 300
    grid = ts.StateGrid(x=range(n))
    costs = ts.Costs(grid, (0, 1), np.eye(2)[(np.arange(n) + 1) % 2])
    (fitted,) = (f for f in ts.AxisTree().fit(costs, 3 * n, 0.5) if f.cost < 0.5)
    program = fitted.program(grid)
    assert np.array_equal(program(grid.points), np.arange(n) % 2)
    assert len(json.dumps(node_to_json(program.root))) > n


def idle_axis() -> ts.Solution:
    """Two axes decide, in steps along their sum; a third, in the middle, does not."""
    grid = ts.StateGrid(x=range(4), idle=range(3), y=range(3))
    x, idle, y = grid.points.T
    best = (x + y > 2.5).astype(int)
    reward = np.eye(2)[best] * (1 + idle[:, None])  # how much is at stake depends on it
    rows = np.full((2, grid.size, grid.size), 1 / grid.size)
    return ts.solve(ts.MDP.from_arrays(rows, reward, 0.5, grid=grid))


def test_axes_that_do_not_matter_are_dropped_before_anything_is_proven():
    solution = idle_axis()
    index = ts.compress(solution, 0.0, classes=[ts.LinearCuts()])
    assert (index.size, index.size_needed) == (2, 2)  # exact on the two axes that are left
    assert index.program.axes == ("x", "y")
    few = ts.AxisTree(boxes=10 * 6)  # of 10 x 6 x 6 boxes in all
    tree = ts.compress(solution, 0.0, classes=[few])
    assert tree.size == tree.size_needed == 3 * 6 - 2
    assert "idle" not in tree.program.axes


def test_an_axis_is_dropped_only_where_one_place_forbids_all_that_others_do():
    grid = ts.StateGrid(x=range(2), y=range(3))
    forbidden = np.zeros((2, 3, 2))
    forbidden[0, :, 1] = forbidden[1, 1:, 0] = 1  # nothing is forbidden in x=1, y=0
    costs = ts.Costs(grid, (0, 1), forbidden.reshape(6, 2))
    left = costs.without_idle_axes()
    assert left.grid.axes == ("x",)
    assert np.array_equal(left.by_state, [[0, 1], [1, 0]])
    forbidden[1, 0, 1] = 1
    both = ts.Costs(grid, (0, 1), forbidden.reshape(6, 2))
    assert both.without_idle_axes() is both
