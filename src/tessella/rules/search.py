"""The search for the smallest rule of a class that meets a loss target: one loop for all classes.

    idle axes                 are dropped, where it is only a question of what is allowed
    necessary conditions      additive costs that bound every rule within the loss target; the exact
                              solver of the class rules out sizes that cannot satisfy them
    rounds                    fit to visits x gap; evaluate the rules themselves; mix the visits of
                              these rules into the weights, and again
    neighbours                change one number of a rule at a time, as long as it loses less
    branch and bound          of the class that has the smallest rule, if its solver is exact

Generator functions (see ``candidates``) yield batches of rules; ``ClassSearch.select`` evaluates
each batch, keeps the best rule of each size, and sends the losses back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

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
from tessella.rules.candidates import find_candidates, imitate_optimum
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

    def count_fit_rounds(self, is_small: bool) -> int:
        return self.fit_rounds if is_small else self.fit_rounds_large_model


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
        return min(meets, key=attrgetter("size", "loss"), default=None)

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


@dataclass(frozen=True, eq=False)
class ClassSearch:
    """The search in one class.

    Attributes:
        search: what it is a part of.
        rule_class: the class.
        max_size: rules with more numbers are of no interest.
        size_needed: no rule of the class with fewer numbers meets the loss target.
    """

    search: Search
    rule_class: RuleClass
    max_size: int
    size_needed: int = 0

    @property
    def points(self) -> list[FrontierPoint]:
        return self.search.list_points(self.rule_class.name)

    @property
    def best(self) -> FrontierPoint | None:
        """The smallest rule of the class that meets the loss target."""
        return self.search.find_smallest(self.rule_class.name)

    @property
    def size_limit(self) -> int:
        """How many numbers a rule may have to be of interest."""
        best = self.best
        if best is None or self.search.want_frontier:
            return self.max_size
        return min(self.max_size, best.size)

    @property
    def fit_target(self) -> float:
        """The cost at which a fit need not become cheaper."""
        return 0.0 if self.search.want_frontier else self.search.loss_target.limit

    def is_finished(self, is_first_round: bool = False) -> bool:
        """Whether the time is up, or the best rule is proven to be the smallest.

        For a frontier there is one round, whatever the time limit.
        """
        if self.search.want_frontier:
            return self.search.is_class_time_up and not is_first_round
        best = self.best
        is_proven_smallest = best is not None and best.size <= self.size_needed
        return is_proven_smallest or self.search.is_class_time_up

    def select(self, batches: CandidateBatches[Result]) -> Result:
        """Evaluate batches of candidates, and send their losses back; the generator's result.

        ``points`` has the best rule of each size afterwards.
        """
        try:
            batch = next(batches)
            while True:
                batch = batches.send(self.search.evaluate_batch(self.rule_class, batch))
        except StopIteration as stop:
            return stop.value


def search_class(search: Search, rule_class: RuleClass, max_size: int) -> None:
    """Search for the smallest rule of a class, with at most so many numbers."""
    why_not = explain_inapplicable(search, rule_class)
    if why_not:
        search.outcomes.append(ClassOutcome(rule_class.name, None, 0, why_not))
        return
    n_tried_before = search.n_tried
    task = ClassSearch(search, rule_class, max_size)
    if search.want_frontier:  # rules of all sizes first, and proofs with what time is left
        task.select(imitate_optimum(task))
        task.select(find_candidates(task))
    task = replace(task, size_needed=prove_size_lower_bound(search, rule_class, max_size))
    if task.size_needed <= max_size and not search.want_frontier:
        task.select(find_candidates(task))
    search.outcomes.append(_summarise(task, n_tried_before))
    if search.report is not None:
        search.report(_describe_progress(task))


def add_exact_table(search: Search, rule_class: RuleClass) -> None:
    """Add the smallest rule of a class that takes optimal actions only, if there is one."""
    costs = search.make_costs((search.evaluator.gap > 0).astype(float))
    if not rule_class.why_not_applicable(costs):
        candidates = rule_class.fit(costs, search.max_size(rule_class), 0.5)
        search.evaluate_batch(rule_class, [c for c in candidates if c.cost < 0.5][:1])


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
    task = ClassSearch(search, rule_class, max_size, size_needed)
    return task.select(solver.rule_out_sizes(rule_class, size_needed, max_size))


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


def _summarise(task: ClassSearch, n_tried_before: int) -> ClassOutcome:
    """What became of a class."""
    search = task.search
    costs = _make_condition_costs(search, task.rule_class, search.conditions[0])
    remarks = [task.rule_class.why_not_exact(costs)]
    best = task.best
    size_needed = task.size_needed
    is_ruled_out = size_needed > task.max_size and not search.want_frontier
    if best is not None and size_needed > best.size:
        size_needed = 0
        remarks.append(CONTRADICTION_TEXT)
    elif is_ruled_out:
        remarks.append(_describe_ruled_out(task, costs))
    if best is None and not is_ruled_out:
        rules = f"rules of up to {counted(task.max_size, 'number')}"
        remarks.append(describe_effort(search, rules, n_tried_before))
    suggestion = "a larger `most`" if search.want_frontier else "a larger loss"
    remarks.append(describe_ending(search, best is not None, suggestion))
    size = None if best is None else best.size
    return ClassOutcome(task.rule_class.name, size, size_needed, "; ".join(filter(None, remarks)))


def _describe_ruled_out(task: ClassSearch, costs: Costs) -> str:
    is_whole_class = task.rule_class.max_size(task.search.first_costs) <= task.max_size
    target = task.search.conditions[0].target
    if is_whole_class or task.rule_class.is_infeasible(costs, target):
        return "no rule of this class meets the loss target"
    return f"none with {counted(task.max_size, 'number')} or fewer meets the loss target"


def _describe_progress(task: ClassSearch) -> str:
    best = task.best
    text = "nothing yet"
    if best is not None:
        text = f"{counted(best.size, 'number')}, loss {best.loss:.4g}"
    n_evaluated = task.search.evaluator.n_evaluated
    return f"{task.rule_class.name}: {text}; {n_evaluated:,} rules evaluated"


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
