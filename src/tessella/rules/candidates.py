"""Candidates for the smallest rule of a class: generators of batches that a search evaluates.

The visits of the first round are those of the optimal policy; the visits of the rules found are
mixed into the weights of the next. Rules for the worst state are also fitted to sets of allowed
actions {gap <= threshold}, for thresholds between (1 - discount) x limit, which suffices, and the
limit of the loss target, which is necessary.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.rules.branch_and_bound import CandidateBatches
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.rule import FrontierPoint
from tessella.rules.rule_class import Candidate

if TYPE_CHECKING:
    from tessella.rules.search import ClassSearch


def imitate_optimum(task: ClassSearch) -> CandidateBatches[None]:
    """Imitations of the optimal policy that a class offers, with three weightings.

    States count alike, by their visits, or by what the second-best action loses there.
    """
    evaluator = task.search.evaluator
    table = evaluator.solution.policy.table.ravel()
    visits = evaluator.optimal.visits
    is_other_action = 1.0 - np.eye(evaluator.mdp.n_actions)[table]  # ties count too
    for weights in (np.ones(len(table)), visits, visits * evaluator.second_best_gap):
        if weights.any():
            least = task.search.effort.imitation_min_relative_weight
            relative_weights = np.maximum(weights / weights.mean(), least)
            costs = task.search.make_costs(relative_weights[:, None] * is_other_action)
            yield task.rule_class.imitations(costs, task.max_size)


def find_candidates(task: ClassSearch) -> CandidateBatches[None]:
    """Rules that may be the smallest of a class."""
    search = task.search
    yield from fit_allowed_actions(task)
    yield from fit_reweighted_costs(task)
    is_worthwhile = search.want_frontier or not search.loss_target.is_zero
    if task.rule_class.benefits_from_local_search and search.evaluator.is_small and is_worthwhile:
        yield from fit_perturbed_costs(task)
        yield from change_single_numbers(task)


def fit_allowed_actions(task: ClassSearch) -> CandidateBatches[None]:
    """Fits to the actions within thresholds on local losses, for targets from the worst state."""
    search = task.search
    limit = search.loss_target.limit
    if not search.loss_target.worst or search.loss_target.is_zero:
        return
    low = limit / search.evaluator.sum_unit_loss()
    for threshold in np.geomspace(low, limit, search.effort.loss_thresholds):
        costs = search.make_costs((search.evaluator.gap > threshold).astype(float))
        yield task.rule_class.fit(costs, task.size_limit, 0.5)


def fit_reweighted_costs(task: ClassSearch) -> CandidateBatches[None]:
    """Fits to visits x gap, the visits of rules found in one round mixed into those of the next."""
    search = task.search
    evaluator = search.evaluator
    effort = search.effort
    weights = evaluator.optimal.visits
    stalled_rounds = 0
    for n in range(effort.count_fit_rounds(evaluator.is_small)):
        if task.is_finished(is_first_round=n == 0):
            return
        size_limit = task.size_limit
        n_evaluated = evaluator.n_evaluated
        costs = search.make_costs(weight_gaps(evaluator, weights / (n + 1)))
        losses = yield task.rule_class.fit(costs, size_limit, task.fit_target)
        if evaluator.is_small:
            yield task.rule_class.near_ties(costs, size_limit)
        stalled_rounds = stalled_rounds + 1 if task.size_limit == size_limit else 0
        is_stalled = stalled_rounds > effort.stall_rounds and not search.want_frontier
        if is_stalled or not losses or evaluator.n_evaluated == n_evaluated:
            return
        weights = weights + np.mean([loss.visits for loss in losses], axis=0)


def fit_perturbed_costs(task: ClassSearch) -> CandidateBatches[None]:
    """Fits about single rules of the frontier, in models that are small enough for many.

    Costs are visits x gap of a rule alone, or what the rule itself would gain by another action
    for once: d_pi (max_a Q_pi - Q_pi), a step of policy iteration within the class.
    """
    evaluator = task.search.evaluator
    effort = task.search.effort
    rng = np.random.default_rng(0)
    idle_rounds = 0
    rounds = effort.perturbation_state_rounds // evaluator.mdp.n_states
    for n in range(min(rounds, effort.perturbation_rounds)):
        points = task.points
        if not points or task.is_finished():
            return
        policy_loss = evaluator(points[int(rng.integers(len(points)))].table)
        visits = policy_loss.visits
        other_visits = evaluator.optimal.visits if n % 3 else rng.permutation(visits)
        mixed_visits = rng.dirichlet((4.0, 1.0)) @ np.stack([visits, other_visits])
        gaps = evaluator.compute_policy_gaps(policy_loss) if n % 2 else evaluator.gap
        costs = task.search.make_costs(weight_gaps(evaluator, mixed_visits, gaps))
        n_evaluated = evaluator.n_evaluated
        yield task.rule_class.fit(costs, task.max_size, 0.0)
        idle_rounds = 0 if evaluator.n_evaluated > n_evaluated else idle_rounds + 1
        if idle_rounds > effort.idle_rounds:
            return


def change_single_numbers(task: ClassSearch) -> CandidateBatches[None]:
    """Neighbours of the rules that could matter, as long as one loses less; small rules first."""
    evaluator = task.search.evaluator
    effort = task.search.effort
    remaining = effort.local_search_state_rules // evaluator.mdp.n_states
    remaining = min(remaining, effort.local_search_rules)
    points = _list_improvable_points(task)
    budget = max(remaining // max(len(points), 1), effort.local_search_min_neighbours)
    for point in points:
        end = evaluator.n_evaluated + budget
        while evaluator.n_evaluated < end and remaining > 0 and not task.search.is_class_time_up:
            n_evaluated = evaluator.n_evaluated
            better = yield from _find_better_neighbour(task, point)
            remaining -= evaluator.n_evaluated - n_evaluated
            if better is None:
                break
            point = better


def _list_improvable_points(task: ClassSearch) -> list[FrontierPoint]:
    """All rules for a frontier; otherwise those a little too small to meet the loss target."""
    points = sorted(task.points, key=attrgetter("size", "loss"))
    best = task.best
    if task.search.want_frontier or best is None:
        return points
    smaller = [point for point in points if task.size_needed <= point.size < best.size]
    return smaller[: -task.search.effort.local_search_smaller_rules - 1 : -1]


def _find_better_neighbour(
    task: ClassSearch, point: FrontierPoint
) -> CandidateBatches[FrontierPoint | None]:
    """The first neighbour of a rule that loses less."""
    search = task.search
    for root in task.rule_class.neighbours(search.first_costs, point.candidate.root):
        if search.is_class_time_up:
            return None
        yield [Candidate(root, point.size, 0.0)]
        neighbour = search.points[task.rule_class.name, point.size]
        if neighbour.loss < point.loss:
            return neighbour
    return None


def weight_gaps(
    evaluator: PolicyEvaluator, visits: NDArray, gap: NDArray | None = None
) -> NDArray[np.float64]:
    """(S, A) visits x gap, with infeasible actions dearer than everything else together."""
    gap = evaluator.gap if gap is None else gap
    feasible = evaluator.feasible
    costs = visits[:, None] * np.where(feasible, gap, 0.0)
    if not feasible.all():
        costs[~feasible] = 10 * max(float(costs.max(axis=1).sum()), 1.0)
    return costs


def shorten_numbers(task: ClassSearch, point: FrontierPoint) -> Iterator[FrontierPoint]:
    """Rules like one that meets the loss target, with fewer digits; the fewest first."""
    search = task.search
    costs = search.make_costs(weight_gaps(search.evaluator, search.evaluator(point.table).visits))
    for candidate in task.rule_class.with_fewer_digits(costs, point.candidate):
        table = None if search.is_time_up else search.tabulate(candidate)
        if table is not None:
            policy_loss = search.evaluator(table)
            if search.loss_target.is_met_by(policy_loss):
                yield search.make_point(task.rule_class.name, candidate, policy_loss)
