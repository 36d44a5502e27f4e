"""What is stated or called proven is so, whatever the solution and the time that is left."""

from __future__ import annotations

import itertools
import json
import time

import numpy as np
import pytest
import scipy.sparse as sp
from support import tiny_proofs

import tessella as ts
from tessella.mdp.rule_tree import Leaf, node_to_json

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
def test_a_loss_target_finer_than_the_solution_is_refused_and_the_tolerance_named(rough, worst):
    assert rough.error_bound > 0.001 * rough.value.mean()
    with pytest.raises(ts.ArgumentError, match=r"larger than the error.*a tolerance of \d") as told:
        ts.compress(rough, 0.001, worst=worst)
    named = float(str(told.value).split("tolerance of ")[1].split(";")[0])
    finer = ts.solve(model(), ts.ValueIteration(tol=named))
    kept = ts.compress(finer, 0.001, classes=[ts.RunLength()], worst=worst)
    assert kept.certificate is not None
    figure = kept.certificate.worst_loss if worst else kept.certificate.mean_loss
    assert figure.upper <= 0.001 * abs(finer.value.mean())


def test_a_loss_target_is_met_as_it_stands_with_a_rough_solution_or_not_at_all(rough):
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

    def why_not_exact(self, costs):
        return ""

    def max_size(self, costs):
        return 1

    def fit(self, costs, max_size, target):
        while time.perf_counter() < costs.deadline < np.inf:
            pass
        return []


def test_a_fit_that_the_time_limit_cut_short_proves_nothing(solution):
    limited = ts.compress(solution, 0.5, classes=[ts.OneAction(), Slow()], time_limit=0.5)
    told = limited.outcomes[-1]
    assert (told.kind, told.size_needed) == ("slow", 0)
    assert "stopped by the time limit; more time or a larger loss may allow one" in told.explanation
    for rule_class in (ts.LinearCuts(), ts.Staircase(), ts.AxisTree()):
        rule = ts.compress(solution, 0.0, classes=[ts.RunLength(), rule_class], time_limit=1e-6)
        assert [o.size_needed for o in rule.outcomes] == [0, 0]
        assert not rule.proven
        assert not any("meets the loss target" in o.explanation for o in rule.outcomes)


class Mistaken(ts.RuleClass):
    """A class whose proofs are wrong."""

    name = "mistaken"

    def why_not_exact(self, costs):
        return ""

    def fit(self, costs, max_size, target):
        return [ts.Candidate(Leaf(0), 1, float(costs.by_state[:, 0].sum()))]

    def size_lower_bound(self, costs, target, most, fits):
        return most + 1


def test_a_proof_that_a_rule_contradicts_is_dropped(solution):
    rule = ts.compress(solution, 0.9, classes=[Mistaken()])
    assert (rule.size, rule.size_needed, rule.proven) == (1, 0, False)
    assert rule.outcomes[0].size_needed == 0
    assert "contradicts a rule" in rule.outcomes[0].explanation


def test_no_class_of_the_package_contradicts_itself(solution):
    for loss in (0.0, 0.02):
        rule = ts.compress(solution, loss)
        assert not any("contradicts" in outcome.explanation for outcome in rule.outcomes)


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
    tree = fitted.build_tree(grid)
    assert np.array_equal(tree(grid.points), np.arange(n) % 2)
    assert len(json.dumps(node_to_json(tree.root))) > n


def idle_axis() -> ts.Solution:
    """Two axes decide, in steps along an index; a third, in the middle, does not."""
    grid = ts.StateGrid(x=range(4), idle=range(3), y=range(3))
    x, idle, y = grid.points.T
    best = (x + 2 * y > 3.5).astype(int)
    reward = np.eye(2)[best] * (1 + idle[:, None])  # how much is at stake depends on it
    rows = np.full((2, grid.size, grid.size), 1 / grid.size)
    return ts.solve(ts.MDP.from_arrays(rows, reward, 0.5, grid=grid))


def test_axes_that_do_not_matter_are_dropped_before_anything_is_proven():
    solution = idle_axis()
    index = ts.compress(solution, 0.0, classes=[ts.LinearCuts()])
    assert (index.size, index.size_needed) == (2, 2)  # exact on the two axes that are left
    assert index.tree.axes == ("x", "y")
    few = ts.AxisTree(boxes=10 * 6)  # of 10 x 6 x 6 boxes in all
    tree = ts.compress(solution, 0.0, classes=[few])
    assert tree.size == tree.size_needed == 3 * 4 - 2
    assert "idle" not in tree.tree.axes


def test_an_axis_is_dropped_only_where_one_place_forbids_all_that_others_do():
    grid = ts.StateGrid(x=range(2), y=range(3))
    forbidden = np.zeros((2, 3, 2))
    forbidden[0, :, 1] = forbidden[1, 1:, 0] = 1  # nothing is forbidden in x=1, y=0
    costs = ts.Costs(grid, (0, 1), forbidden.reshape(6, 2))
    left = costs.drop_irrelevant_axes()
    assert left.grid.axes == ("x",)
    assert np.array_equal(left.by_state, [[0, 1], [1, 0]])
    forbidden[1, 0, 1] = 1
    both = ts.Costs(grid, (0, 1), forbidden.reshape(6, 2))
    assert both.drop_irrelevant_axes() is both


def solved(axes: dict, best, n_actions: int = 2) -> ts.Solution:
    """A model in which ``best``, of the (S, axes) points, is the best action everywhere."""
    grid = ts.StateGrid(axes)
    rows = np.full((n_actions, grid.size, grid.size), 1 / grid.size)
    reward = np.eye(n_actions)[np.asarray(best(grid.points), dtype=int)]
    return ts.solve(ts.MDP.from_arrays(rows, reward, 0.5, grid=grid, actions=range(n_actions)))


def test_no_size_is_called_needed_that_is_not_whatever_the_axes():
    """Every class under every criterion, against all tables of some dozen tiny models."""
    proven = set()
    for seed in range(4, 44):
        tiny, found, class_names = tiny_proofs.check_model(seed)
        assert not found, (seed, tiny.criterion, tiny.axes, found)
        proven |= {(tiny.criterion, class_name) for class_name in class_names}
    exact = {rule_class.name for rule_class in tiny_proofs.CLASSES}
    assert {class_name for _, class_name in proven} == exact
    assert {criterion for criterion, _ in proven} == set(tiny_proofs.CRITERIA)


def test_an_idle_axis_that_scales_another_is_not_ruled_out():
    """``Bring idle + 2 x up to 4.15`` has two numbers; at one place of idle it is no base stock."""
    solution = solved({"x": [0, 1, 2], "idle": [0, 0.1]}, lambda at: 4 - 2 * at[:, 0], 5)
    told = ts.least_size(solution, 0.0, ts.OrderUpTo())
    assert told.size_needed <= 2
    assert ts.compress(solution, 0.0, classes=[ts.OrderUpTo()]).size_needed <= 2


def test_bands_along_an_axis_of_numbers_need_another_but_not_that_it_matters():
    """At one place of idle the bands are no staircase of x and mode: they must not be ruled out."""
    axes = {"x": range(4), "idle": [0, 1], "mode": ["a", "b"]}
    grid = ts.StateGrid(axes)
    x, _, mode = grid.points.astype(int).T
    reward = np.eye(3)[x % 2]  # and a third action, as good in one mode of each x
    reward[x == mode, 2] = 1
    rows = np.full((3, grid.size, grid.size), 1 / grid.size)
    told = ts.least_size(
        ts.solve(ts.MDP.from_arrays(rows, reward, 0.5, grid=grid)), 0.0, ts.Staircase()
    )
    assert (told.size_needed, told.size) == (7, 7)  # 4 bands, 3 places between them, a cut in each


def test_axes_that_are_nearly_even_prove_nothing_by_those_that_are():
    """Two states on a diagonal change places at another slope than the next two."""
    off = 5e-10
    grid = ts.StateGrid(x=[0, 1, 2 + off], y=[0, 1, 2])
    index = grid.points @ [1, -1 - 0.75 * off]
    order = np.argsort(index)
    forbidden = np.zeros((9, 2))
    low = order[: list(order).index(4) + 1]  # up to (1, 1), below (2, 2) and (0, 0)
    forbidden[low, 1] = forbidden[np.setdiff1d(order, low), 0] = 1
    costs = ts.Costs(grid, (0, 1), forbidden)
    rule_class = ts.LinearCuts()
    fits = rule_class.fit(costs, 5, 0.5)
    assert rule_class.why_not_exact(costs) or rule_class.size_lower_bound(costs, 0.5, 5, fits) <= 2
    even = ts.Costs(ts.StateGrid(x=np.arange(3) * 0.1, y=[0, 1, 2]), (0, 1), forbidden)
    assert not rule_class.why_not_exact(even)


@pytest.mark.parametrize("rule_class", [ts.LinearCuts(), ts.OrderUpTo()])
def test_values_that_lie_close_together_on_one_axis_are_told_apart(rule_class):
    solution = solved({"x": [0.0, 1e-13, 1.0]}, lambda at: at[:, 0] < 1e-14)
    told = ts.least_size(solution, 0.0, rule_class)
    assert (told.size_needed, told.size) == (1, 1)


def test_a_tree_for_whole_costs_may_cost_something():
    grid = ts.StateGrid(x=range(3), y=range(3))
    tables = np.array(list(itertools.product((0, 1), repeat=9)))
    leaves = np.array([tiny_proofs.count_leaves(table.reshape(3, 3)) for table in tables])
    rule_class = ts.AxisTree(work=0)  # prices alone
    for seed in range(172, 192):
        by_state = np.random.default_rng(seed).integers(0, 4, size=(9, 2)).astype(float)
        costs = ts.Costs(grid, (0, 1), by_state)
        for target in (0.5, 1.0, 2.5, 4.0):
            within = by_state[np.arange(9), tables].sum(axis=1) <= target
            least = 3 * leaves[within].min(initial=99) - 2
            assert (
                rule_class.size_lower_bound(costs, target, 25, rule_class.fit(costs, 25, target))
                <= least
            )


@pytest.mark.parametrize(
    "axes",
    [
        {"label": ["a", "b"], "idle": [0, 1]},
        {"x": range(3), "one": [3]},
        {"one": [3], "x": range(3), "label": ["a", "b"]},
        {"x": [1e16, 1e16 + 2, 1e16 + 4], "y": [-1e150, 1e-150, 1e150]},
        {"x": [-1e150, 0, 1e150], "y": [0, 5e-324, 1e-323]},
        {"x": [0, 1e100], "y": [1e17, 2e17, 3e17]},
    ],
)
def test_rules_are_found_whatever_the_axes(axes):
    grid = ts.StateGrid(axes)
    first = np.unravel_index(np.arange(grid.size), grid.shape)[0]
    solution = solved(axes, lambda _: first % 2)
    rule = ts.compress(solution, 0.0)
    assert np.array_equal(rule.table.ravel(), first % 2)
    assert ts.frontier(solution, 12).points[-1].loss == 0


def test_an_axis_value_that_is_too_large_is_rejected_with_its_axis():
    with pytest.raises(ts.ModelError, match=r"1e\+150; x holds 1e\+308"):
        ts.StateGrid(x=[0, 1e308])


def test_whole_numbers_that_a_double_does_not_tell_apart_are_rejected_with_their_axis():
    solution = solved({"x": [2**60, 2**60 + 1]}, lambda at: [0, 1])
    with pytest.raises(ts.ArgumentError, match=r"double-precision.*x.*1152921504606846976"):
        ts.compress(solution, 0.0)


def test_an_axis_may_be_called_self():
    solution = solved({"self": range(3), "y": range(3)}, lambda at: at.prod(axis=1) == 2)
    rule = ts.compress(solution, 0.0, classes=[ts.WithExceptions()])
    assert np.array_equal(rule.table, solution.policy.table)


def test_a_large_model_with_total_rewards_is_compressed():
    n = 2_100
    step = sp.csr_array((np.ones(n), (np.arange(n), np.zeros(n, dtype=int))))  # all end at once
    step.resize(n, n)
    reward = np.tile([-1.0, -2.0], (n, 1))
    reward[0] = 0.0
    mdp = ts.MDP.from_arrays([step, step], reward, ts.Total(), grid={"x": range(n)})
    solution = ts.solve(mdp)
    rule = ts.compress(solution, 0.0, classes=[ts.OneAction()])
    assert (rule.size, rule.size_needed) == (1, 1)
    assert ts.frontier(solution, 1, classes=[ts.OneAction()]).points[0].loss == 0
    assert ts.least_size(solution, 0.0, ts.OneAction()).size == 1
