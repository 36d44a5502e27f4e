"""Candidates for the smallest rule of a class: plain generators, which a search evaluates in order.

    imitations       of the optimal policy, for a frontier and in small models
    threshold fits   to the actions within thresholds on local losses, for the worst state
    reweighted fits  to visits x action loss; the visits of the rules of one round are mixed into
                     the weights of the next
    perturbations    fits about single rules that were evaluated
    improvements     of single numbers of a rule, as long as it loses less
    shortened        rules with one part fewer than those that were evaluated

Each yields a candidate at a time, and finds its loss in ``Search.losses`` when it is resumed. Rules
for the worst state are fitted to sets of allowed actions {action loss <= threshold}, for thresholds
between (1 - discount) x limit, which suffices, and the limit of the loss target, which is
necessary.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import takewhile
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.rule import FrontierPoint
from tessella.rules.rule_class import Candidate, Costs
from tessella.rules.search import ClassSearch


def generate_candidates(class_search: ClassSearch) -> Iterator[Candidate]:
    """Rules that may be the smallest of a class."""
    search = class_search.search
    yield from generate_threshold_fits(class_search)
    yield from generate_reweighted_fits(class_search)
    if search.loss_target.is_zero and not search.wants_frontier:
        return
    is_local = class_search.rule_class.benefits_from_local_search
    if is_local and search.evaluator.is_small:
        yield from generate_perturbations(class_search)
    is_moderate = search.evaluator.mdp.n_states <= search.effort.local_search_max_states
    has_few_numbers = class_search.max_size <= search.effort.large_model_local_search_numbers
    may_be_shortened = is_local and is_moderate
    if search.evaluator.is_small or has_few_numbers or may_be_shortened:
        yield from generate_improvements(class_search)
    if may_be_shortened:
        yield from generate_shortened(class_search)


def generate_imitations(class_search: ClassSearch) -> Iterator[Candidate]:
    """Imitations of the optimal policy that a class offers, with three weightings.

    States count alike, by their visits, or by what the second-best action loses there.
    """
    search = class_search.search
    evaluator = search.evaluator
    table = evaluator.optimal.table
    visits = evaluator.optimal.visits
    is_other_action = 1.0 - np.eye(evaluator.mdp.n_actions)[table]  # ties count too
    for weights in (np.ones(len(table)), visits, visits * evaluator.second_best_loss):
        if weights.any() and (search.wants_frontier or not class_search.is_finished()):
            least = search.effort.imitation_min_relative_weight
            relative_weights = np.maximum(weights / weights.mean(), least)
            costs = search.make_costs(relative_weights[:, None] * is_other_action)
            imitations = class_search.rule_class.imitations(costs, class_search.size_limit)
            yield from class_search.choose_candidates(imitations)


def generate_threshold_fits(class_search: ClassSearch) -> Iterator[Candidate]:
    """Fits to the actions within thresholds on local losses, for targets from the worst state."""
    search = class_search.search
    evaluator = search.evaluator
    loss_target = search.loss_target
    if not evaluator.is_worst_case or loss_target.is_zero:
        return
    low = loss_target.limit / evaluator.compute_effective_horizon()
    for threshold in np.geomspace(low, loss_target.limit, search.effort.loss_thresholds):
        is_forbidden = (evaluator.action_loss > threshold).astype(float)
        yield from class_search.fit(is_forbidden, class_search.size_limit, 0.5)


def generate_reweighted_fits(class_search: ClassSearch) -> Iterator[Candidate]:
    """Fits to visits x action loss, with the visits of each round's rules mixed into the next's.

    There is one round even for a rule that is proven to be the smallest, since another of its size
    may lose less; and for a frontier, whatever the time limit.
    """
    search = class_search.search
    evaluator = search.evaluator
    effort = search.effort
    weights = evaluator.optimal.visits
    stalled_rounds = 0
    if search.is_time_up and not search.wants_frontier:
        return
    rounds = effort.fit_rounds if evaluator.is_small else effort.fit_rounds_large_model
    for n in range(rounds):
        size_limit = class_search.size_limit
        n_evaluated = evaluator.n_evaluated
        costs = search.make_costs(weight_losses(evaluator, weights / (n + 1)))
        visits = yield from _generate_one_fit(class_search, costs, size_limit)
        stalled_rounds = stalled_rounds + 1 if class_search.size_limit == size_limit else 0
        is_idle = not visits or evaluator.n_evaluated == n_evaluated
        if is_idle or class_search.is_stalled(stalled_rounds) or class_search.is_finished():
            return
        weights = weights + np.mean(visits, axis=0)


def _generate_one_fit(
    class_search: ClassSearch, costs: Costs, max_size: int
) -> Generator[Candidate, None, list[NDArray]]:
    """Yield the rules of a fit, in small models near ties too; the visits of those evaluated."""
    search = class_search.search
    fitted = class_search.rule_class.fit(costs, max_size, class_search.fit_cost_limit)
    visits = []
    for candidate in class_search.choose_candidates(fitted):
        yield candidate
        if candidate in search.losses:
            visits.append(search.losses[candidate].visits)
    if search.evaluator.is_small:
        near_ties = class_search.rule_class.near_ties(costs, max_size)
        yield from takewhile(lambda _: not search.is_class_time_up, near_ties)
    return visits


def generate_perturbations(class_search: ClassSearch) -> Iterator[Candidate]:
    """Fits about single rules of the frontier, in models that are small enough for many.

    Costs are visits x action loss of a rule alone, or what the rule itself would gain by another
    action for once: d_pi (max_a Q_pi - Q_pi), a step of policy iteration within the class.
    """
    search = class_search.search
    evaluator = search.evaluator
    effort = search.effort
    rng = np.random.default_rng(0)
    idle_rounds = 0
    rounds = effort.perturbation_state_rounds // evaluator.mdp.n_states
    for n in range(min(rounds, effort.perturbation_rounds)):
        points = class_search.frontier_points
        if not points or class_search.is_finished():
            return
        policy_loss = search.losses[points[int(rng.integers(len(points)))].candidate]
        visits = policy_loss.visits
        other_visits = evaluator.optimal.visits if n % 3 else rng.permutation(visits)
        mixed_visits = rng.dirichlet((4.0, 1.0)) @ np.stack([visits, other_visits])
        losses = evaluator.action_loss
        if n % 2:
            losses = evaluator.compute_policy_action_loss(policy_loss)
        costs = weight_losses(evaluator, mixed_visits, losses)
        n_evaluated = evaluator.n_evaluated
        yield from class_search.fit(costs, class_search.max_size, 0.0)
        idle_rounds = 0 if evaluator.n_evaluated > n_evaluated else idle_rounds + 1
        if idle_rounds > effort.idle_rounds:
            return


def generate_improvements(class_search: ClassSearch) -> Iterator[Candidate]:
    """Neighbours of the rules that could matter, as long as one loses less; small rules first."""
    search = class_search.search
    evaluator = search.evaluator
    effort = search.effort
    remaining = effort.local_search_state_rules // evaluator.mdp.n_states
    if evaluator.mdp.n_states <= effort.local_search_max_states:
        remaining = max(remaining, effort.local_search_min_rules)
    remaining = min(remaining, effort.local_search_rules)
    points = _list_improvable_points(class_search)
    if remaining < effort.local_search_min_neighbours:
        return
    budget = max(remaining // max(len(points), 1), effort.local_search_min_neighbours)
    for point in points:
        end = evaluator.n_evaluated + budget
        while evaluator.n_evaluated < end and remaining > 0 and not search.is_class_time_up:
            n_evaluated = evaluator.n_evaluated
            better = yield from _find_better_neighbour(class_search, point)
            remaining -= evaluator.n_evaluated - n_evaluated
            if better is None:
                break
            point = better


def generate_shortened(class_search: ClassSearch) -> Iterator[Candidate]:
    """Rules with one part fewer than the best of each size, the largest first, and theirs again."""
    done: set[Candidate] = set()
    while not class_search.search.is_class_time_up:
        points = [p for p in class_search.frontier_points if p.candidate not in done]
        if not points:
            return
        longest = max(points, key=attrgetter("size")).candidate
        done.add(longest)
        yield from class_search.rule_class.shortened(longest.root)


def _list_improvable_points(class_search: ClassSearch) -> list[FrontierPoint]:
    """All rules for a frontier; otherwise those a little too small to meet the loss target."""
    points = sorted(class_search.frontier_points, key=attrgetter("size", "loss"))
    best = class_search.best
    if class_search.search.wants_frontier or best is None:
        return points
    smaller = [point for point in points if class_search.size_needed <= point.size < best.size]
    return smaller[: -class_search.search.effort.local_search_smaller_rules - 1 : -1]


def _find_better_neighbour(
    class_search: ClassSearch, point: FrontierPoint
) -> Generator[Candidate, None, FrontierPoint | None]:
    """Yield neighbours of a rule until one loses less: that one."""
    search = class_search.search
    costs = search.first_condition_costs
    for candidate in class_search.rule_class.variations(costs, point.candidate):
        if search.is_class_time_up:
            return None
        yield candidate
        neighbour = search.frontier_points[point.kind, point.size]
        if neighbour.loss < point.loss:
            return neighbour
    return None


def weight_losses(
    evaluator: PolicyEvaluator, visits: NDArray, action_loss: NDArray | None = None
) -> NDArray[np.float64]:
    """(S, A) visits x action loss, with infeasible actions costlier than all others together."""
    action_loss = evaluator.action_loss if action_loss is None else action_loss
    feasible = evaluator.feasible
    costs = visits[:, None] * np.where(feasible, action_loss, 0.0)
    if not feasible.all():
        costs[~feasible] = 10 * max(float(costs.max(axis=1).sum()), 1.0)
    return costs


def generate_rounded_rules(
    class_search: ClassSearch, point: FrontierPoint
) -> Iterator[FrontierPoint]:
    """Rules like one that meets the loss target, with fewer digits; the fewest first."""
    search = class_search.search
    rule_class = class_search.rule_class
    visits = search.losses[point.candidate].visits
    costs = search.make_costs(weight_losses(search.evaluator, visits))
    for candidate in rule_class.with_fewer_digits(costs, point.candidate):
        rounded = None if search.is_time_up else search.evaluate(rule_class, candidate)
        if rounded is not None and search.meets_target(rounded):
            yield rounded
