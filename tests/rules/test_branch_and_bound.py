"""Branch and bound finds the true least size of a class, for loss targets that are not 0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.small_rules import count_tree_leaves

import tessella as ts
from tessella.mdp.start import start_distribution
from tessella.rules.branch_and_bound import BranchAndBound
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.loss_target import make_loss_target

SHAPE, DISCOUNT = (3, 2), 0.9
STATES = SHAPE[0] * SHAPE[1]
LOSSES = (0.002, 0.01, 0.03, 0.1)


def model(seed: int) -> tuple[ts.MDP, np.ndarray, np.ndarray]:
    """Six states and two actions, with (A, S, S) rows and (S, A) rewards."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(STATES, 0.5), size=(2, STATES))
    reward = np.round(rng.normal(1.0, 1.0, size=(STATES, 2)), 1)
    axes = {"stock": range(SHAPE[0]), "mode": range(SHAPE[1])}
    return ts.MDP.from_arrays(rows, reward, DISCOUNT, grid=axes), rows, reward


def everything(rows, reward) -> tuple[np.ndarray, np.ndarray]:
    """All tables (B, S), and their values (B, S), by dense arrays and nothing of the package."""
    tables = np.array(list(itertools.product((0, 1), repeat=STATES)))
    everyone = np.arange(STATES)
    systems = np.eye(STATES) - DISCOUNT * rows[tables, everyone]
    return tables, np.linalg.solve(systems, reward[everyone, tables][..., None])[..., 0]


@pytest.fixture(scope="module", params=range(3))
def case(request):
    mdp, rows, reward = model(request.param)
    tables, values = everything(rows, reward)
    leaves = np.array([count_tree_leaves(table.reshape(SHAPE)) for table in tables])
    return ts.solve(mdp), tables, values.max(axis=0) - values, leaves


def starts():
    return np.eye(STATES)[1], np.full(STATES, 1 / STATES)


@pytest.mark.parametrize("worst", [False, True])
def test_the_least_size_of_a_tree_is_proven_and_found(case, worst):
    solution, _, lost, leaves = case
    closed_by_search = 0
    for start, loss in itertools.product(starts(), LOSSES):
        most = loss * abs(float(start @ solution.value.ravel()))
        kept = (lost.max(axis=1) if worst else lost @ start) <= most
        true = 3 * int(leaves[kept].min()) - 2
        told = ts.least_size(solution, loss, ts.AxisTree(), start=start, worst=worst)
        assert (told.size_needed, told.size) == (true, true)
        closed_by_search += true > 1
    assert closed_by_search >= 2


def test_visits_that_are_sure_are_those_of_every_policy_that_meets_the_loss_target(case):
    solution, tables, lost, _ = case
    rows = np.stack([p.toarray() for p in solution.mdp.to_sparse().transition])
    everyone, start = np.arange(STATES), starts()[0]
    sharper = 0
    for loss in LOSSES:
        evaluator = PolicyEvaluator(solution, start_distribution(solution.mdp, start))
        loss_target = make_loss_target(evaluator, loss, True, "optimal")
        sure = BranchAndBound(evaluator, loss_target, {})._unavoidable_visits
        kept = tables[lost @ start <= loss_target.limit]
        systems = np.eye(STATES) - DISCOUNT * rows[kept, everyone]
        seen = np.linalg.solve(np.swapaxes(systems, 1, 2), start[:, None])[..., 0]
        assert (sure <= seen.min(axis=0) + 1e-12).all()
        sharper += int((sure > start + 1e-6).any())
    assert sharper == len(LOSSES)


def rule_out(solver: BranchAndBound, rule_class: ts.RuleClass, most: int) -> int:
    """The sizes ruled out where no rule is evaluated."""
    for _ in solver.generate_candidates(rule_class, most):
        pass
    return solver.size_needed


def test_a_node_holds_every_rule_that_meets_the_loss_target(case):
    solution, tables, lost, _ = case
    evaluator = PolicyEvaluator(solution, start_distribution(solution.mdp, starts()[1]))
    for loss in LOSSES:
        loss_target = make_loss_target(evaluator, loss, True, "optimal")
        first = BranchAndBound(evaluator, loss_target, {})._root
        assert first is not None
        kept = tables[lost @ evaluator.start <= loss_target.limit]
        everyone = np.arange(STATES)
        assert first.allowed[everyone, kept].all()
        assert (first.costs[everyone, kept].sum(axis=1) <= first.cost_limit).all()


def test_no_nodes_and_no_time_prove_nothing_more(case):
    solution = case[0]
    evaluator = PolicyEvaluator(solution, start_distribution(solution.mdp, starts()[0]))
    loss_target = make_loss_target(evaluator, 0.01, True, "optimal")
    made = BranchAndBound(evaluator, loss_target, {})
    made.nodes_left = 0
    by_the_first_bound = rule_out(made, ts.AxisTree(), 16)
    late = BranchAndBound(evaluator, loss_target, {}, deadline=0.0)
    assert rule_out(late, ts.AxisTree(), 16) == 0
    assert by_the_first_bound <= ts.least_size(solution, 0.01, ts.AxisTree(), start=1).size_needed


def test_a_published_tree_of_five_nodes_is_found_and_proven_least():
    solution, tree = ts.solve(ts.problem("frozen_lake").build(map="4x4")), ts.AxisTree()
    for loss, nodes in ((0.1, 5), (0.05, 5), (0.01, 6), (0.001, 6)):
        told = ts.least_size(solution, loss, tree, relative_to="random")
        assert told.size == told.size_needed == 3 * nodes + 1


def test_what_is_proven_by_parts_stands_in_the_rule(case):
    solution = case[0]
    for loss in LOSSES:
        told = ts.least_size(solution, loss, ts.AxisTree())
        rule = ts.compress(solution, loss, classes=[ts.RunLength(), ts.AxisTree()])
        if rule.kind == "axis tree":
            assert (rule.size, rule.size_needed) == (told.size, told.size_needed)


def test_a_class_that_is_exact_for_some_costs_only_proves_nothing_by_others():
    """Run-length tables are the fewest for sets of actions, not for sums of losses."""
    reward = -np.array([[0.4, 0.0], [0.4, 0.0], [0.0, 0.5]])  # one action loses 1/3, the other more
    mdp = ts.MDP.from_arrays(np.full((2, 3, 3), 1 / 3), reward, 0.5, grid={"x": range(3)})
    evaluator = PolicyEvaluator(ts.solve(mdp), np.full(3, 1 / 3))
    loss_target = make_loss_target(evaluator, 0.4, False, "optimal")
    assert rule_out(BranchAndBound(evaluator, loss_target, {}), ts.RunLength(), 6) <= 2


@pytest.mark.parametrize("tol", [5.0, 0.1])
def test_no_action_loses_less_than_its_bound_where_slices_know_more_than_values(tol):
    mdp = ts.benchmark("INV-Mix")
    exact = ts.solve(mdp).q
    loose = ts.solve(mdp, ts.ValueIteration(tol=tol))
    assert loose.tie_tolerance < 1e-3 * loose.error_bound
    evaluator = PolicyEvaluator(loose, start_distribution(mdp, None))
    lost = (exact.max(axis=-1, keepdims=True) - exact).reshape(mdp.n_states, -1)
    assert (evaluator.action_loss_below <= lost + 1e-9).all()


@pytest.mark.parametrize("is_worst_case", [False, True])
@pytest.mark.parametrize("tol", [0.3, 0.01])
def test_no_table_loses_less_than_its_bound_where_values_are_rough(tol, is_worst_case):
    """The second action leads to 0.05 a period, which rough values do not show in full."""
    rows = np.array([np.eye(3)[[1, 1, 2]], np.eye(3)[[2, 1, 2]]])
    reward = np.array([[1.0, 0.0], [0.0, 0.0], [0.05, 0.05]])
    rough = ts.solve(ts.MDP.from_arrays(rows, reward, 0.9), ts.ValueIteration(tol=tol))
    evaluator = PolicyEvaluator(rough, np.array([1.0, 0.0, 0.0]), is_worst_case)
    exact_loss = 1 - 0.9 * 0.05 / (1 - 0.9)
    bound = evaluator.bound_losses_below([np.array([1, 0, 0])])[0]
    assert exact_loss - 2 * rough.tie_tolerance - 1e-9 <= bound <= exact_loss + 1e-9
