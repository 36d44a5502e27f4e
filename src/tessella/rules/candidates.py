"""Candidates for the smallest rule of a class: plain generators, which a search evaluates in order.

    imitations      of the optimal policy, for a frontier
    fits            to the actions within thresholds on local losses, for the worst state
    mixtures        fits to visits x action loss; the visits of the rules of one round are mixed
                    into the weights of the next
    perturbations   fits about single rules that were evaluated
    improvements    of single numbers of a rule, as long as it loses less

Each yields a candidate at a time, and finds its loss in ``Search.losses`` when it is resumed. Rules
for the worst state are fitted to sets of allowed actions {action loss <= threshold}, for thresholds
between (1 - discount) x limit, which suffices, and the limit of the loss target, which is
necessary.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.rule import FrontierPoint
from tessella.rules.rule_class import Candidate
from tessella.rules.search import ClassSearch


def candidates(task: ClassSearch) -> Iterator[Candidate]:
    """Rules that may be the smallest of a class."""
    search = task.search
    sources = [fits(task), mixtures(task)]
    is_worthwhile = search.wants_frontier or not search.loss_target.is_zero
    if task.rule_class.benefits_from_local_search and search.evaluator.is_small and is_worthwhile:
        sources += [perturbations(task), improvements(task)]
    return chain(*sources)


def imitations(task: ClassSearch) -> Iterator[Candidate]:
    """Imitations of the optimal policy that a class offers, with three weightings.

    States count alike, by their visits, or by what the second-best action loses there.
    """
    evaluator = task.search.evaluator
    table = evaluator.optimal.table
    visits = evaluator.optimal.visits
    is_other_action = 1.0 - np.eye(evaluator.mdp.n_actions)[table]  # ties count too
    for weights in (np.ones(len(table)), visits, visits * evaluator.second_best_loss):
        if weights.any():
            least = task.search.effort.imitation_min_relative_weight
            relative_weights = np.maximum(weights / weights.mean(), least)
            costs = task.search.make_costs(relative_weights[:, None] * is_other_action)
            yield from task.choose(task.rule_class.imitations(costs, task.max_size))


def fits(task: ClassSearch) -> Iterator[Candidate]:
    """Fits to the actions within thresholds on local losses, for targets from the worst state."""
    evaluator = task.search.evaluator
    loss_target = task.search.loss_target
    if not loss_target.worst or loss_target.is_zero:
        return
    low = loss_target.limit / evaluator.sum_unit_loss()
    for threshold in np.geomspace(low, loss_target.limit, task.search.effort.loss_thresholds):
        is_forbidden = (evaluator.action_loss > threshold).astype(float)
        yield from task.fit(is_forbidden, task.size_limit, 0.5)


def mixtures(task: ClassSearch) -> Iterator[Candidate]:
    """Fits to visits x action loss, with the visits of each round's rules mixed into the next's.

    For a frontier there is one round, whatever the time limit.
    """
    search = task.search
    evaluator = search.evaluator
    effort = search.effort
    weights = evaluator.optimal.visits
    stalled_rounds = 0
    if task.is_finished() and not search.wants_frontier:
        return
    for n in range(effort.count_fit_rounds(evaluator.is_small)):
        size_limit = task.size_limit
        n_evaluated = evaluator.n_evaluated
        costs = search.make_costs(weight_losses(evaluator, weights / (n + 1)))
        fitted = task.choose(task.rule_class.fit(costs, size_limit, task.fit_target))
        visits = yield from _collect_visits(task, fitted)
        if evaluator.is_small:
            yield from task.rule_class.near_ties(costs, size_limit)
        stalled_rounds = stalled_rounds + 1 if task.size_limit == size_limit else 0
        is_idle = not visits or evaluator.n_evaluated == n_evaluated
        if is_idle or task.is_stalled(stalled_rounds) or task.is_finished():
            return
        weights = weights + np.mean(visits, axis=0)


def _collect_visits(
    task: ClassSearch, candidates: Iterator[Candidate]
) -> Generator[Candidate, None, list[NDArray]]:
    """Yield candidates; the visits of those that were evaluated."""
    visits = []
    for candidate in candidates:
        yield candidate
        if candidate in task.search.losses:
            visits.append(task.search.losses[candidate].visits)
    return visits


def perturbations(task: ClassSearch) -> Iterator[Candidate]:
    """Fits about single rules of the frontier, in models that are small enough for many.

    Costs are visits x action loss of a rule alone, or what the rule itself would gain by another
    action for once: d_pi (max_a Q_pi - Q_pi), a step of policy iteration within the class.
    """
    search = task.search
    evaluator = search.evaluator
    effort = search.effort
    rng = np.random.default_rng(0)
    idle_rounds = 0
    rounds = effort.perturbation_state_rounds // evaluator.mdp.n_states
    for n in range(min(rounds, effort.perturbation_rounds)):
        points = task.points
        if not points or task.is_finished():
            return
        policy_loss = search.losses[points[int(rng.integers(len(points)))].candidate]
        visits = policy_loss.visits
        other_visits = evaluator.optimal.visits if n % 3 else rng.permutation(visits)
        mixed_visits = rng.dirichlet((4.0, 1.0)) @ np.stack([visits, other_visits])
        losses = evaluator.compute_policy_gains(policy_loss) if n % 2 else evaluator.action_loss
        n_evaluated = evaluator.n_evaluated
        yield from task.fit(weight_losses(evaluator, mixed_visits, losses), task.max_size, 0.0)
        idle_rounds = 0 if evaluator.n_evaluated > n_evaluated else idle_rounds + 1
        if idle_rounds > effort.idle_rounds:
            return


def improvements(task: ClassSearch) -> Iterator[Candidate]:
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
    if task.search.wants_frontier or best is None:
        return points
    smaller = [point for point in points if task.size_needed <= point.size < best.size]
    return smaller[: -task.search.effort.local_search_smaller_rules - 1 : -1]


def _find_better_neighbour(
    task: ClassSearch, point: FrontierPoint
) -> Generator[Candidate, None, FrontierPoint | None]:
    """Yield neighbours of a rule until one loses less: that one."""
    search = task.search
    for root in task.rule_class.neighbours(search.first_costs, point.candidate.root):
        if search.is_class_time_up:
            return None
        yield Candidate(root, point.size, 0.0)
        neighbour = search.points[point.kind, point.size]
        if neighbour.loss < point.loss:
            return neighbour
    return None


def weight_losses(
    evaluator: PolicyEvaluator, visits: NDArray, action_loss: NDArray | None = None
) -> NDArray[np.float64]:
    """(S, A) visits x action loss, with infeasible actions dearer than everything else together."""
    action_loss = evaluator.action_loss if action_loss is None else action_loss
    feasible = evaluator.feasible
    costs = visits[:, None] * np.where(feasible, action_loss, 0.0)
    if not feasible.all():
        costs[~feasible] = 10 * max(float(costs.max(axis=1).sum()), 1.0)
    return costs


def shorter_rules(task: ClassSearch, point: FrontierPoint) -> Iterator[FrontierPoint]:
    """Rules like one that meets the loss target, with fewer digits; the fewest first."""
    search = task.search
    visits = search.losses[point.candidate].visits
    costs = search.make_costs(weight_losses(search.evaluator, visits))
    for candidate in task.rule_class.with_fewer_digits(costs, point.candidate):
        shorter = None if search.is_time_up else search.evaluate(task.rule_class, candidate)
        if shorter is not None and search.is_met_by(shorter):
            yield shorter
