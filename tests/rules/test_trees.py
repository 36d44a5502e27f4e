"""Trees of every size: pruned exactly, grown greedily, changed by a number, of any depth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import tessella as ts
from tessella.mdp.rule_tree import LabelSplit, Leaf, RuleTree, Split, list_children
from tessella.rules.boxes import BoxCut, BoxLeaf, BoxTree, count_leaves, prune_trees
from tessella.rules.cart import grow_cart_trees
from tessella.rules.compress import find_frontier, prepare_search
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.search import SearchEffort
from tessella.rules.trees import build_node, list_axis_features
from tessella.solvers.execution_plan import make_plan

SHAPE, ACTIONS = (5, 4), 3


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(2)
    n = SHAPE[0] * SHAPE[1]
    rows = rng.dirichlet(np.full(n, 0.3), size=(ACTIONS, n))
    axes = {"x": range(SHAPE[0]), "y": range(SHAPE[1])}
    return ts.solve(ts.MDP.from_arrays(rows, rng.random((n, ACTIONS)), 0.9, grid=axes))


def places_of(shape) -> np.ndarray:
    return np.indices(shape).reshape(len(shape), -1).T.astype(np.float32)


def least_by_trying(tree: BoxTree, costs: np.ndarray) -> dict[int, float]:
    """Leaves to least cost over all prunings of a tree, of costs (states, positions and A)."""
    places, flat = costs
    alone = {1: float(flat.sum(axis=0).min())}
    if isinstance(tree, BoxLeaf):
        return alone
    below = places[:, tree.axis] < tree.position
    parts = (least_by_trying(tree.below, (places[below], flat[below])),)
    parts += (least_by_trying(tree.above, (places[~below], flat[~below])),)
    for i, a in parts[0].items():
        for j, b in parts[1].items():
            alone[i + j] = min(a + b, alone.get(i + j, np.inf))
    return alone


def test_what_is_left_of_a_pruned_tree_is_the_cheapest_of_its_size():
    rng = np.random.default_rng(0)
    costs = rng.random((*SHAPE, ACTIONS))
    places, flat = places_of(SHAPE), costs.reshape(-1, ACTIONS)
    (tree, _) = grow_cart_trees(places, flat, 12)
    true = least_by_trying(tree, (places, flat))
    found = prune_trees([tree], 12, places, flat)
    assert len(found) > 6
    for cost, left in found:
        assert cost == pytest.approx(min(true[k] for k in true if k <= count_leaves(left)))
        grid = ts.StateGrid(x=range(SHAPE[0]), y=range(SHAPE[1]))
        known = ts.Costs(grid, tuple(range(ACTIONS)), flat)
        root = build_node(left, list_axis_features(known))
        assert known.of(RuleTree(grid, root, 1)) == pytest.approx(cost)


def test_a_greedy_tree_with_a_leaf_for_every_state_takes_the_cheapest_action_everywhere():
    flat = np.random.default_rng(1).random((20, ACTIONS))
    for tree in grow_cart_trees(places_of(SHAPE), flat, 40):
        (cost, _) = prune_trees([tree], 40, places_of(SHAPE), flat)[-1]
        assert cost == pytest.approx(flat.min(axis=1).sum())


def test_a_tree_of_thousands_of_levels_becomes_one_split():
    n = 3_000
    tree: BoxTree = BoxLeaf(0)
    for at in range(1, n):  # every cut hangs on the upper branch of the one before
        tree = BoxCut(0, n - at, BoxLeaf(at % 2), tree)
    grid = ts.StateGrid(x=range(n))
    costs = ts.Costs(grid, (0, 1), np.zeros((n, 2)))
    assert count_leaves(tree) == n
    root = build_node(tree, list_axis_features(costs))
    assert isinstance(root, Split)
    assert len(root.cuts) == n - 1
    assert RuleTree(grid, root, 1).depth == 2


def test_our_trees_lose_no_more_than_those_of_cart_at_any_size(solution):
    grid, best = solution.mdp.grid, solution.policy.table.ravel()
    evaluator = PolicyEvaluator(solution, np.full(grid.size, 1 / grid.size))
    found = ts.frontier(solution, 3 * 20 - 2, classes=[ts.AxisTree()], relative=False)
    for leaves in range(2, 20):
        cart = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        cart.fit(grid.points, best, sample_weight=evaluator.optimal.visits)
        theirs = evaluator.evaluate(cart.predict(grid.points)).mean_loss
        ours = min(p.loss for p in found.points if p.size <= 3 * leaves - 2)
        assert ours <= theirs + 1e-12


class OnlyOffers(ts.AxisTree):
    """Trees that are grown greedily, and one leaf."""

    def fit(self, costs, max_size, target):
        return super().fit(costs, 1, target)


def test_every_tree_that_is_offered_is_judged_in_a_model_judged_by_loops():
    rng = np.random.default_rng(3)
    rows, axes = (
        rng.dirichlet(np.full(80, 0.3), size=(ACTIONS, 80)),
        {"x": range(10), "y": range(8)},
    )
    mdp = ts.MDP.from_arrays(rows, rng.random((80, ACTIONS)), 0.9, grid=axes)
    solution = ts.solve(mdp, plan=make_plan(mdp, rule_evaluation="iterative"))
    grid, best = solution.mdp.grid, solution.policy.table.ravel()
    evaluator = PolicyEvaluator(solution, np.full(grid.size, 1 / grid.size))
    assert not evaluator.is_small
    found = ts.frontier(solution, 3 * 45 - 2, classes=[OnlyOffers()], relative=False)
    for leaves in range(2, 45):
        cart = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        cart.fit(grid.points, best, sample_weight=evaluator.optimal.visits)
        theirs = evaluator.evaluate(cart.predict(grid.points)).mean_loss
        ours = min(p.loss for p in found.points if p.size <= 3 * leaves - 2)
        assert ours <= theirs + 1e-6  # what losses of a large model are told apart by


def test_neighbours_of_a_tree_differ_in_one_number():
    grid = ts.StateGrid(x=range(6), season=["dry", "wet", "cold"])
    costs = ts.Costs(grid, (0, 1, 2), np.zeros((18, 3)))
    root = Split((("x", 1.0),), (1.5, 3.5), (Leaf(0), Leaf(1), Leaf(2)))
    told = list(ts.AxisTree().neighbours(costs, root))
    assert len(told) == 4 + 3 * 2  # each cut either way, each leaf two other actions
    moved = {node.cuts for node in told if node.branches == root.branches}
    assert moved == {(0.5, 3.5), (2.5, 3.5), (1.5, 2.5), (1.5, 4.5)}


@pytest.mark.parametrize("moves", [("neighbours", "shortened"), ("shortened", "neighbours")])
def test_changing_single_numbers_or_cuts_finds_what_fits_to_costs_do_not(
    solution, monkeypatch, moves
):
    used, unused = moves
    monkeypatch.setattr(ts.AxisTree, unused, lambda *_: iter(()))

    def losses() -> dict[int, float]:
        effort = SearchEffort(fit_rounds=1, perturbation_state_rounds=0)
        search = prepare_search(
            solution, 0.0, relative=False, classes=[ts.AxisTree()], effort=effort
        )
        return {point.size: point.loss for point in find_frontier(search, 16).all_points}

    with monkeypatch.context() as patch:
        patch.setattr(ts.AxisTree, used, lambda *_: iter(()))
        without = losses()
    within = losses()
    assert all(within[size] <= loss for size, loss in without.items())
    assert any(within[size] < loss - 1e-9 for size, loss in without.items())


def test_a_slanting_cut_takes_the_place_of_a_staircase():
    grid = ts.StateGrid(x=range(8), y=range(0, 24, 3), season=["dry", "wet"])
    x, y, season = grid.points.T
    best = (2 * x - y / 3 > 3.5).astype(int) + ((2 * x - y / 3 > 8.5) & (season == 1))
    costs = ts.Costs(grid, ("stay", "go", "run"), 1 - np.eye(3)[best])
    fits = ts.LinearTree().fit(costs, 40, 0.0)
    exact = min(fit.size for fit in fits if fit.cost == 0)
    assert exact == 3 * 4 - 2  # two slanting cuts, and one between the seasons
    assert min(f.size for f in ts.AxisTree().fit(costs, 100, 0.5) if f.cost < 0.5) > 40
    tree = next(fit for fit in fits if fit.cost == 0).build_tree(grid)
    assert np.array_equal(tree(grid.points), best)
    assert tree.cut_clearance > 1e-3


def test_there_is_a_rule_whatever_the_time_limit(solution):
    rule = ts.compress(solution, 0.0, time_limit=1e-6)
    assert rule.kind == "run-length table"
    assert rule.facts["mean_loss"] <= 1e-9


def test_a_tree_is_shortened_by_either_side_of_each_cut():
    grid = ts.StateGrid(x=range(4), place=["inn", "road", "sea"])
    left = LabelSplit("place", ("inn",), Leaf(0), Leaf(1))
    root = Split((("x", 1.0),), (0.5, 2.5), (left, Leaf(2), Leaf(3)))
    tree = RuleTree(grid, root, 10)(grid.points)
    shorter = [*ts.AxisTree().shortened(root)]
    assert sorted(rule.size for rule in shorter) == [4, 7, 7, 7, 7, 7]  # a side has three leaves
    tables = [rule.build_tree(grid)(grid.points) for rule in shorter]
    changed = [grid.points[table != tree] for table in tables]
    # Either side of place, then the parts below 0.5, from 0.5 to 2.5 (twice), and above.
    assert sorted(map(len, changed)) == [1, 2, 3, 3, 6, 6]
    assert all(
        (np.unique(points[:, 0]) == points[0, 0]).all() or len(points) == 6 for points in changed
    )


def test_no_rule_of_a_frontier_loses_more_than_a_shortened_larger_one(solution):
    search = prepare_search(solution, 0.0, caller="frontier", classes=[ts.AxisTree()])
    points = find_frontier(search, 40).points
    tree_class = ts.AxisTree()
    for point in points:
        for candidate in tree_class.shortened(point.candidate.root):
            shorter = search.evaluate(tree_class, candidate)
            known = min(p.loss for p in points if p.size <= candidate.size)
            assert shorter is None or shorter.loss >= known - 1e-12


def iterate_splits(node):
    if isinstance(node, Split):
        yield node
    for child in list_children(node):
        yield from iterate_splits(child)


@pytest.mark.parametrize("seed", range(5))
def test_no_cut_lies_between_equal_branches(seed):
    """Cuts of one axis from several levels of a greedy tree become one split, and may be idle."""
    rng = np.random.default_rng(seed)
    grid = ts.StateGrid(x=range(12), y=range(12))
    x, y = grid.points.T
    costs = rng.random((144, 3)) ** 4
    costs[np.arange(144), ((x + y) // 8).astype(int)] = 0
    fits = ts.AxisTree(boxes=60).fit(ts.Costs(grid, (0, 1, 2), costs), 100, 0.0)
    for fit in fits:
        for split in iterate_splits(fit.root):
            assert all(a != b for a, b in itertools.pairwise(split.branches))
