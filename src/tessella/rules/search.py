"""The search for the smallest rule of a class that meets a loss target: one loop for all classes.

    idle axes                 are dropped, where it is only a question of what is allowed
    necessary conditions      additive costs that bound every rule within the loss target; the exact
                              solver of the class rules out sizes that cannot satisfy them
    rounds                    fit to visits x gap; evaluate the rules themselves; mix the visits of
                              these rules into the weights, and again
    neighbours                change one number of a rule at a time, as long as it loses less
    branch and bound          of the class that has the smallest rule, if its solver is exact

Generator functions yield batches of candidates; ``select`` evaluates each batch, keeps the best
rule of each size, and sends the losses back. The visits of the first round are those of the optimal
policy. Rules for the worst state are also fitted to sets of allowed actions {gap <= threshold}, for
thresholds between (1 - discount) x limit, which suffices, and the limit of the loss target, which
is necessary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted
from tessella.rules.branch_and_bound import (
    BranchAndBound,
    CandidateBatches,
    NecessaryCondition,
    Result,
    derive_necessary_conditions,
)
from tessella.rules.evaluator import PolicyEvaluator, PolicyLoss
from tessella.rules.loss_target import LossTarget
from tessella.rules.rule import ClassOutcome, FrontierPoint
from tessella.rules.rule_class import Candidate, Costs, RuleClass

CONTRADICTION_TEXT = "what seemed proven contradicts a rule that was found, so nothing is claimed"


@dataclass(frozen=True)
class SearchEffort:
    """How much a search tries for each class of rules."""

    fit_rounds: int = 8  # rounds of fitting to reweighted costs
    fit_rounds_large_model: int = 3  # the same rounds in a large model
    frontier_batch_rules: int = 12  # rules evaluated of each fit for a frontier of a large model
    frontier_batch_min_states: int = 5_000  # states, beyond which a fit for a frontier is thinned
    stall_rounds: int = 3  # rounds without a smaller rule
    idle_rounds: int = 8  # rounds without a new rule
    loss_thresholds: int = 6  # thresholds on local losses, for the worst state
    perturbation_state_rounds: int = 6_000  # states x rounds of perturbed weights
    perturbation_rounds: int = 60  # rounds of perturbed weights
    local_search_state_rules: int = 600_000  # states x neighbours that are evaluated
    local_search_rules: int = 4_000  # neighbours that are evaluated
    local_search_min_neighbours: int = 60  # neighbours of one rule
    local_search_smaller_rules: int = 3  # rules just too small to meet the loss target
    imitation_min_relative_weight: float = 1e-9  # of the mean weight, for states to imitate


@dataclass(eq=False)
class Search:
    """One search over classes: the task, and the rules found so far.

    Attributes:
        evaluator: what rules lose.
        loss_target: the loss that rules must stay within.
        rule_classes: the classes to search.
        deadline: when to stop, on the clock of ``time.perf_counter``.
        report: receives a line from time to time that says how far the search is.
        effort: how much is tried.
        want_frontier: whether rules that miss the loss target are wanted too, for a frontier.
        class_deadline: when to stop with the current class; rules found by then are evaluated.
        points: the best rule of each class and size.
        outcomes: what became of each class.
        n_tried: how many rules were built and evaluated; solvers and branch and bound may rule out
            any number of rules without that.
    """

    evaluator: PolicyEvaluator
    loss_target: LossTarget
    rule_classes: tuple[RuleClass, ...]
    deadline: float = float("inf")
    report: Callable[[str], None] | None = None
    effort: SearchEffort = SearchEffort()
    want_frontier: bool = False
    class_deadline: float = float("inf")
    points: dict[tuple[str, int], FrontierPoint] = field(default_factory=dict)
    outcomes: list[ClassOutcome] = field(default_factory=list)
    n_tried: int = 0

    @property
    def is_time_up(self) -> bool:
        return time.perf_counter() > self.deadline

    @property
    def is_class_time_up(self) -> bool:
        return time.perf_counter() > min(self.deadline, self.class_deadline)

    def make_costs(self, by_state: NDArray) -> Costs:
        deadline = min(self.deadline, self.class_deadline)
        return Costs.for_model(self.evaluator.mdp, by_state, deadline)

    @cached_property
    def conditions(self) -> list[NecessaryCondition]:
        return derive_necessary_conditions(self.evaluator, self.loss_target)

    @property
    def first_costs(self) -> Costs:
        """The costs of the first necessary condition."""
        return self.make_costs(self.conditions[0].costs)

    @cached_property
    def _grid_points(self) -> NDArray[np.float64]:
        return self.evaluator.mdp.grid.points

    def find_smallest(self, kind: str | None = None) -> FrontierPoint | None:
        """The smallest rule that meets the loss target, of one class or of all."""
        points = self.points.values() if kind is None else self.list_points(kind)
        meets = (p for p in points if self.loss_target.is_met_by(self.evaluator(p.table)))
        return min(meets, key=lambda p: (p.size, p.loss), default=None)

    def list_points(self, kind: str) -> list[FrontierPoint]:
        """The best rules of one class."""
        return [point for point in self.points.values() if point.kind == kind]

    def max_size(self, rule_class: RuleClass) -> int:
        """The most numbers that a rule of a class may have; of a class that knows none, many."""
        limit = rule_class.max_size(self.first_costs)
        return int(limit) if np.isfinite(limit) else 3 * self.evaluator.mdp.n_states

    def tabulate(self, candidate: Candidate) -> NDArray[np.int32] | None:
        """(S,) the actions of a rule; None if it is infeasible.

        In a large model also None if it surely misses the loss target and no frontier is wanted.
        """
        table = candidate.build_tree(self.evaluator.mdp.grid)(self._grid_points)
        if not self.evaluator.is_admissible(table):
            return None
        if self.evaluator.is_small or self.want_frontier:
            return table
        limit = max(self.loss_target.limit, self.loss_target.resolution) * (1 + 1e-9)
        return table if self.evaluator.bound_loss_below(table) <= limit else None

    def make_point(self, kind: str, candidate: Candidate, policy_loss: PolicyLoss) -> FrontierPoint:
        loss = self.loss_target.loss_of(policy_loss) / self.loss_target.unit
        return FrontierPoint(kind, candidate.size, loss, candidate, policy_loss.table)

    def evaluate(self, rule_class: RuleClass, candidate: Candidate) -> PolicyLoss | None:
        """What a rule loses, kept where it is the best of its size; None if not of interest."""
        self.n_tried += 1
        table = self.tabulate(candidate)
        if table is None:
            return None
        policy_loss = self.evaluator(table)
        point = self.make_point(rule_class.name, candidate, policy_loss)
        key = (rule_class.name, candidate.size)
        if key not in self.points or point.loss < self.points[key].loss:
            self.points[key] = point
        return policy_loss

    def evaluate_batch(
        self, rule_class: RuleClass, candidates: list[Candidate]
    ) -> list[PolicyLoss]:
        """What the rules of a batch lose; in a large model only some of them are evaluated."""
        if self.evaluator.is_small:
            chosen = candidates
        elif self.want_frontier or len(candidates) < 2:
            chosen = self._thin_out(candidates)
        else:
            return self._bisect(rule_class, candidates)
        losses = []
        for candidate in chosen:
            if self._must_stop():
                break
            losses.append(self.evaluate(rule_class, candidate))
        return [loss for loss in losses if loss is not None]

    def _must_stop(self) -> bool:
        return self.is_time_up and self.find_smallest() is not None

    def _thin_out(self, candidates: list[Candidate]) -> list[Candidate]:
        """Some rules of a batch that are evenly spread, where evaluating takes long."""
        count = self.effort.frontier_batch_rules
        n_states = self.evaluator.mdp.n_states
        if len(candidates) <= count or n_states <= self.effort.frontier_batch_min_states:
            return candidates
        positions = np.linspace(0, len(candidates) - 1, count).astype(int)
        return [candidates[i] for i in np.unique(positions)]

    def _bisect(self, rule_class: RuleClass, candidates: list[Candidate]) -> list[PolicyLoss]:
        """Evaluate about log2 of the rules, for the smallest that meets the loss target."""
        low = 0
        high = len(candidates)
        losses = []
        while low < high and not self._must_stop():
            middle = (low + high) // 2
            policy_loss = self.evaluate(rule_class, candidates[middle])
            if policy_loss is not None:
                losses.append(policy_loss)
            if policy_loss is not None and self.loss_target.is_met_by(policy_loss):
                high = middle
            else:
                low = middle + 1
        return losses


def select(
    search: Search,
    rule_class: RuleClass,
    batches: CandidateBatches[Result],
) -> Result:
    """Evaluate batches of candidates; the generator receives their losses, and its result is kept.

    ``search.points`` has the best rule of each size afterwards.
    """
    try:
        batch = next(batches)
        while True:
            batch = batches.send(search.evaluate_batch(rule_class, batch))
    except StopIteration as stop:
        return stop.value


def search_class(search: Search, rule_class: RuleClass, max_size: int) -> None:
    """Search for the smallest rule of a class, with at most so many numbers."""
    why_not = explain_inapplicable(search, rule_class)
    if why_not:
        search.outcomes.append(ClassOutcome(rule_class.name, None, 0, why_not))
        return
    n_tried_before = search.n_tried
    if search.want_frontier:  # rules of all sizes first, and proofs with what time is left
        select(search, rule_class, imitate_optimum(search, rule_class, max_size))
        select(search, rule_class, find_candidates(search, rule_class, max_size, 0))
    size_needed = prove_size_lower_bound(search, rule_class, max_size)
    if size_needed <= max_size and not search.want_frontier:
        select(search, rule_class, find_candidates(search, rule_class, max_size, size_needed))
    outcome = _summarise(search, rule_class, max_size, size_needed, n_tried_before)
    search.outcomes.append(outcome)
    if search.report is not None:
        best = search.find_smallest(rule_class.name)
        text = "nothing yet"
        if best is not None:
            text = f"{counted(best.size, 'number')}, loss {best.loss:.4g}"
        n_evaluated = search.evaluator.n_evaluated
        search.report(f"{rule_class.name}: {text}; {n_evaluated:,} rules evaluated")


def add_exact_table(search: Search, rule_class: RuleClass) -> None:
    """Add the smallest rule of a class that takes optimal actions only, if there is one."""
    costs = search.make_costs((search.evaluator.gap > 0).astype(float))
    if not rule_class.why_not_applicable(costs):
        candidates = rule_class.fit(costs, search.max_size(rule_class), 0.5)
        search.evaluate_batch(rule_class, [c for c in candidates if c.cost < 0.5][:1])


def imitate_optimum(search: Search, rule_class: RuleClass, max_size: int) -> CandidateBatches[None]:
    """Imitations of the optimal policy that a class offers, with three weightings.

    States count alike, by their visits, or by what the second-best action loses there.
    """
    evaluator = search.evaluator
    table = evaluator.solution.policy.table.ravel()
    visits = evaluator.optimal.visits
    is_other_action = 1.0 - np.eye(evaluator.mdp.n_actions)[table]  # ties count too
    for weights in (np.ones(len(table)), visits, visits * evaluator.second_best_gap):
        if weights.any():
            least = search.effort.imitation_min_relative_weight
            relative_weights = np.maximum(weights / weights.mean(), least)
            costs = search.make_costs(relative_weights[:, None] * is_other_action)
            yield rule_class.imitations(costs, max_size)


def find_candidates(
    search: Search, rule_class: RuleClass, max_size: int, size_needed: int
) -> CandidateBatches[None]:
    """Rules that may be the smallest; no rule of fewer than ``size_needed`` numbers is."""
    yield from fit_allowed_actions(search, rule_class, max_size)
    yield from fit_reweighted_costs(search, rule_class, max_size, size_needed)
    if (
        rule_class.benefits_from_local_search
        and search.evaluator.is_small
        and (search.want_frontier or not search.loss_target.is_zero)
    ):
        yield from fit_perturbed_costs(search, rule_class, max_size, size_needed)
        yield from change_single_numbers(search, rule_class, size_needed)


def fit_allowed_actions(
    search: Search, rule_class: RuleClass, max_size: int
) -> CandidateBatches[None]:
    """Fits to the actions within thresholds on local losses, for targets from the worst state."""
    target = search.loss_target
    if not target.worst or target.is_zero:
        return
    low = target.limit / search.evaluator.sum_unit_loss()
    for threshold in np.geomspace(low, target.limit, search.effort.loss_thresholds):
        costs = search.make_costs((search.evaluator.gap > threshold).astype(float))
        yield rule_class.fit(costs, _limit_size(search, rule_class, max_size), 0.5)


def fit_reweighted_costs(
    search: Search, rule_class: RuleClass, max_size: int, size_needed: int
) -> CandidateBatches[None]:
    """Fits to visits x gap, the visits of rules found in one round mixed into those of the next."""
    evaluator = search.evaluator
    effort = search.effort
    weights = evaluator.optimal.visits
    stalled_rounds = 0
    target = 0.0 if search.want_frontier else search.loss_target.limit
    for n in range(effort.fit_rounds if evaluator.is_small else effort.fit_rounds_large_model):
        is_due = search.want_frontier and n == 0  # there is one round, whatever the time limit
        if search.is_class_time_up and not is_due:
            return
        if _is_proven_smallest(search, rule_class, size_needed):
            return
        size_limit = _limit_size(search, rule_class, max_size)
        n_evaluated = evaluator.n_evaluated
        costs = search.make_costs(weight_gaps(evaluator, weights / (n + 1)))
        losses = yield rule_class.fit(costs, size_limit, target)
        if evaluator.is_small:
            yield rule_class.near_ties(costs, size_limit)
        is_stalled = _limit_size(search, rule_class, max_size) == size_limit
        stalled_rounds = stalled_rounds + 1 if is_stalled and not search.want_frontier else 0
        if not losses or evaluator.n_evaluated == n_evaluated:
            return
        if stalled_rounds > effort.stall_rounds:
            return
        weights = weights + np.mean([loss.visits for loss in losses], axis=0)


def fit_perturbed_costs(
    search: Search, rule_class: RuleClass, max_size: int, size_needed: int
) -> CandidateBatches[None]:
    """Fits about single rules of the frontier, in models that are small enough for many.

    Costs are visits x gap of a rule alone, or what the rule itself would gain by another action
    for once: d_pi (max_a Q_pi - Q_pi), a step of policy iteration within the class.
    """
    evaluator = search.evaluator
    effort = search.effort
    rng = np.random.default_rng(0)
    idle_rounds = 0
    rounds = effort.perturbation_state_rounds // evaluator.mdp.n_states
    for n in range(min(rounds, effort.perturbation_rounds)):
        points = search.list_points(rule_class.name)
        if not points or search.is_class_time_up or idle_rounds > effort.idle_rounds:
            return
        if _is_proven_smallest(search, rule_class, size_needed):
            return
        policy_loss = evaluator(points[int(rng.integers(len(points)))].table)
        visits = policy_loss.visits
        other_visits = evaluator.optimal.visits if n % 3 else rng.permutation(visits)
        mixed_visits = rng.dirichlet((4.0, 1.0)) @ np.stack([visits, other_visits])
        gaps = evaluator.compute_policy_gaps(policy_loss) if n % 2 else evaluator.gap
        costs = search.make_costs(weight_gaps(evaluator, mixed_visits, gaps))
        n_evaluated = evaluator.n_evaluated
        yield rule_class.fit(costs, max_size, 0.0)
        idle_rounds = 0 if evaluator.n_evaluated > n_evaluated else idle_rounds + 1


def change_single_numbers(
    search: Search, rule_class: RuleClass, size_needed: int
) -> CandidateBatches[None]:
    """Neighbours of the rules that could matter, as long as one loses less; small rules first."""
    evaluator = search.evaluator
    effort = search.effort
    remaining = effort.local_search_state_rules // evaluator.mdp.n_states
    remaining = min(remaining, effort.local_search_rules)
    points = _list_improvable_points(search, rule_class, size_needed)
    budget = max(remaining // max(len(points), 1), effort.local_search_min_neighbours)
    for point in points:
        end = evaluator.n_evaluated + budget
        while evaluator.n_evaluated < end and remaining > 0 and not search.is_class_time_up:
            n_evaluated = evaluator.n_evaluated
            better = yield from _find_better_neighbour(search, rule_class, point)
            remaining -= evaluator.n_evaluated - n_evaluated
            if better is None:
                break
            point = better


def _list_improvable_points(
    search: Search, rule_class: RuleClass, size_needed: int
) -> list[FrontierPoint]:
    """All rules for a frontier; otherwise those a little too small to meet the loss target."""
    points = sorted(search.list_points(rule_class.name), key=lambda p: (p.size, p.loss))
    best = search.find_smallest(rule_class.name)
    if search.want_frontier or best is None:
        return points
    smaller = [point for point in points if size_needed <= point.size < best.size]
    return smaller[: -search.effort.local_search_smaller_rules - 1 : -1]


def _find_better_neighbour(
    search: Search, rule_class: RuleClass, point: FrontierPoint
) -> CandidateBatches[FrontierPoint | None]:
    """The first neighbour of a rule that loses less."""
    for root in rule_class.neighbours(search.first_costs, point.candidate.root):
        if search.is_class_time_up:
            return None
        yield [Candidate(root, point.size, 0.0)]
        neighbour = search.points[rule_class.name, point.size]
        if neighbour.loss < point.loss:
            return neighbour
    return None


def _limit_size(search: Search, rule_class: RuleClass, max_size: int) -> int:
    """How many numbers a rule may have to be of interest."""
    best = search.find_smallest(rule_class.name)
    return max_size if best is None or search.want_frontier else min(max_size, best.size)


def _is_proven_smallest(search: Search, rule_class: RuleClass, size_needed: int) -> bool:
    best = search.find_smallest(rule_class.name)
    return not search.want_frontier and best is not None and best.size <= size_needed


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


def shorten_numbers(
    search: Search, rule_class: RuleClass, point: FrontierPoint
) -> Iterator[FrontierPoint]:
    """Rules like one that meets the loss target, with fewer digits; the fewest first."""
    costs = search.make_costs(weight_gaps(search.evaluator, search.evaluator(point.table).visits))
    for candidate in rule_class.with_fewer_digits(costs, point.candidate):
        table = None if search.is_time_up else search.tabulate(candidate)
        if table is not None:
            policy_loss = search.evaluator(table)
            if search.loss_target.is_met_by(policy_loss):
                yield search.make_point(rule_class.name, candidate, policy_loss)


def prove_size_lower_bound(search: Search, rule_class: RuleClass, max_size: int) -> int:
    """The largest size that the necessary conditions rule out, plus one; fits are evaluated.

    0 once the time is up: a fit that may have been cut short rules out nothing.
    """
    bound = 0
    for condition in search.conditions:
        costs = _make_condition_costs(search, rule_class, condition)
        if rule_class.is_infeasible(costs, condition.target):
            return max_size + 1
        if rule_class.why_not_exact(costs):
            continue
        candidates = rule_class.fit(costs, max_size, condition.target)
        class_bound = rule_class.size_lower_bound(costs, condition.target, max_size, candidates)
        is_cut_short = search.is_class_time_up
        search.evaluate_batch(rule_class, candidates)
        if is_cut_short:
            return 0
        bound = max(bound, class_bound)
    return bound


def _make_condition_costs(
    search: Search, rule_class: RuleClass, condition: NecessaryCondition
) -> Costs:
    """The costs of a condition, without axes that no rule of the class needs."""
    costs = search.make_costs(condition.costs)
    if not (condition.is_zero_one and rule_class.closed_under_slicing):
        return costs
    fewer = costs.drop_irrelevant_axes()
    return costs if rule_class.why_not_applicable(fewer) else fewer


def raise_size_lower_bound(
    search: Search, rule_class: RuleClass, size_needed: int, max_size: int, max_nodes: float
) -> int:
    """The same by branch and bound: sizes from ``size_needed`` on, until one is not ruled out.

    A rule that is found on the way is kept, and then its size is the one that is needed.
    """
    if rule_class.why_not_exact(search.first_costs):
        return size_needed
    if not BranchAndBound.is_applicable(search.evaluator, search.loss_target):
        return size_needed
    deadline = min(search.deadline, search.class_deadline)
    solver = BranchAndBound(search.evaluator, search.loss_target, deadline, max_nodes)
    return select(search, rule_class, solver.rule_out_sizes(rule_class, size_needed, max_size))


def tighten_outcome(search: Search, rule_class: RuleClass) -> None:
    """Prove more about the class of the smallest rule, by branch and bound."""
    best = search.find_smallest(rule_class.name)
    index = [outcome.kind for outcome in search.outcomes].index(rule_class.name)
    previous = search.outcomes[index]
    if best is None or not 0 < previous.size_needed < best.size:
        return
    max_nodes = BranchAndBound.compute_node_budget(search.evaluator)
    size_needed = raise_size_lower_bound(
        search, rule_class, previous.size_needed, best.size - 1, max_nodes
    )
    smallest = search.find_smallest(rule_class.name) or best
    search.outcomes[index] = replace(
        previous, size=smallest.size, size_needed=min(size_needed, smallest.size)
    )


def explain_inapplicable(search: Search, rule_class: RuleClass) -> str:
    """Why a class has no rules for this model; empty where it has."""
    why = rule_class.why_not_applicable(search.first_costs)
    return f"the class does not apply: {why}" if why else ""


def _summarise(
    search: Search, rule_class: RuleClass, max_size: int, size_needed: int, n_tried_before: int
) -> ClassOutcome:
    """What became of a class."""
    costs = _make_condition_costs(search, rule_class, search.conditions[0])
    remarks = [rule_class.why_not_exact(costs)]
    best = search.find_smallest(rule_class.name)
    is_ruled_out = size_needed > max_size and not search.want_frontier
    if best is not None and size_needed > best.size:
        size_needed = 0
        remarks.append(CONTRADICTION_TEXT)
    elif is_ruled_out:
        remarks.append(_describe_ruled_out(search, rule_class, costs, max_size))
    if best is None and not is_ruled_out:
        rules = f"rules of up to {counted(max_size, 'number')}"
        remarks.append(describe_effort(search, rules, n_tried_before))
    suggestion = "a larger `most`" if search.want_frontier else "a larger loss"
    remarks.append(describe_ending(search, best is not None, suggestion))
    size = None if best is None else best.size
    return ClassOutcome(rule_class.name, size, size_needed, "; ".join(filter(None, remarks)))


def _describe_ruled_out(search: Search, rule_class: RuleClass, costs: Costs, max_size: int) -> str:
    ruled_out = f"none with {counted(max_size, 'number')} or fewer"
    if rule_class.max_size(search.first_costs) <= max_size or rule_class.is_infeasible(
        costs, search.conditions[0].target
    ):
        ruled_out = "no rule of this class"
    return f"{ruled_out} meets the loss target"


def describe_effort(search: Search, rules: str, n_tried_before: int = 0) -> str:
    """How many rules were tried; empty for none, which says nothing of the work done."""
    count = search.n_tried - n_tried_before
    return f"{rules} tried: {count:,}" if count else ""


def describe_ending(search: Search, is_found: bool, suggestion: str) -> str:
    """How a search ended, and where it found nothing, what may help: ``suggestion``."""
    stopped = "stopped by the time limit" if search.is_class_time_up else ""
    if is_found:
        return stopped
    hint = f"{suggestion} may allow one"
    return f"{stopped}; more time or {hint}" if stopped else hint
