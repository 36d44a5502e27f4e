"""One search for small rules: its settings, the rules evaluated so far, and the selection loop.

Generators (``candidates``, ``branch_and_bound``) yield candidates of a class. ``Search.select``
is the one loop that evaluates them and keeps the best rule of each class and size. A generator that
depends on the results reads ``Search.losses`` when it is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tessella.rules.branch_and_bound import NecessaryCondition, derive_necessary_conditions
from tessella.rules.evaluator import PolicyEvaluator, PolicyLoss
from tessella.rules.loss_target import LossTarget
from tessella.rules.rule import ClassOutcome, FrontierPoint
from tessella.rules.rule_class import Candidate, Costs, RuleClass


@dataclass(frozen=True)
class SearchEffort:
    """How much a search tries for each class of rules."""

    fit_rounds: int = 8  # rounds of fitting to reweighted costs
    fit_rounds_large_model: int = 3  # the same rounds in a large model
    bisected_min_rules: int = 6  # rules of one fit in a large model, from which on it is bisected
    frontier_batch_rules: int = 12  # rules evaluated of each fit for a frontier of a large model
    frontier_batch_min_states: int = 5_000  # states, beyond which a fit for a frontier is thinned
    stall_rounds: int = 3  # rounds without a smaller rule
    idle_rounds: int = 8  # rounds without a new rule
    loss_thresholds: int = 6  # thresholds on local losses, for the worst state
    perturbation_state_rounds: int = 6_000  # states x rounds of perturbed weights
    perturbation_rounds: int = 60  # rounds of perturbed weights
    local_search_state_rules: int = 600_000  # states x neighbours that are evaluated
    local_search_rules: int = 4_000  # neighbours that are evaluated, at most
    local_search_min_rules: int = 400  # neighbours that are evaluated, if there are as many
    local_search_max_states: int = 10_000  # states, beyond which no neighbours are evaluated
    local_search_min_neighbours: int = 60  # neighbours of one rule
    large_model_local_search_numbers: int = 9  # of rules whose neighbours a large model evaluates
    local_search_smaller_rules: int = 3  # rules just too small to meet the loss target
    imitation_min_relative_weight: float = 1e-9  # of the mean weight, for states to imitate


@dataclass(eq=False)
class Search:
    """One search over classes: its settings, and the rules evaluated so far."""

    evaluator: PolicyEvaluator  # what rules lose
    loss_target: LossTarget  # the loss that rules must stay within
    rule_classes: tuple[RuleClass, ...]  # the classes to search
    deadline: float = float("inf")  # when to stop, on the clock of ``time.perf_counter``
    progress: Callable[[str], None] | None = None  # receives a line from time to time
    effort: SearchEffort = SearchEffort()  # how much is tried
    wants_frontier: bool = False  # whether rules that miss the loss target are wanted too
    prefers_readable: bool = False  # whether a rule that reads better may be larger by one
    size_limit: float = float("inf")  # larger rules are not searched
    class_deadline: float = float("inf")  # when to stop with the current class
    losses: dict[Candidate, PolicyLoss] = field(default_factory=dict)  # of those evaluated
    # The best rule of each class and size.
    frontier_points: dict[tuple[str, int], FrontierPoint] = field(default_factory=dict)
    outcomes: list[ClassOutcome] = field(default_factory=list)  # what became of each class
    # Rules built and evaluated; exact solvers and branch and bound rule out many without building.
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
    def necessary_conditions(self) -> list[NecessaryCondition]:
        return derive_necessary_conditions(self.evaluator, self.loss_target)

    @property
    def first_condition_costs(self) -> Costs:
        """The costs of the first necessary condition."""
        return self.make_costs(self.necessary_conditions[0].costs)

    def meets_target(self, point: FrontierPoint) -> bool:
        """Whether a rule seems to meet the loss target."""
        return self.loss_target.is_met_by(self.losses[point.candidate])

    def find_smallest(self, class_name: str | None = None) -> FrontierPoint | None:
        """The smallest rule that meets the loss target, of one class or of all."""
        points = self.frontier_points.values()
        if class_name is not None:
            points = self.list_frontier_points(class_name)
        return min(filter(self.meets_target, points), key=attrgetter("size", "loss"), default=None)

    def list_frontier_points(self, class_name: str) -> list[FrontierPoint]:
        """The best rules of one class."""
        return [point for point in self.frontier_points.values() if point.kind == class_name]

    def record_outcome(self, outcome: ClassOutcome) -> None:
        """Keep what became of a class, in place of what became of it before."""
        kinds = [known.kind for known in self.outcomes]
        position = kinds.index(outcome.kind) if outcome.kind in kinds else len(kinds)
        self.outcomes[position : position + 1] = [outcome]

    def get_reading_rank(self, point: FrontierPoint) -> int:
        ranks = {rule_class.name: rule_class.reading_rank for rule_class in self.rule_classes}
        return ranks[point.kind] if self.prefers_readable else 0

    def choose_rule(self, points: Iterable[FrontierPoint]) -> FrontierPoint | None:
        """The smallest rule; one that is easier to read, if it has one parameter more."""
        points = list(points)
        smallest = min((point.size for point in points), default=0)
        near = [p for p in points if p.size <= smallest + int(self.prefers_readable)]
        return min(near, key=lambda p: (self.get_reading_rank(p), p.size, p.loss), default=None)

    def max_size(self, rule_class: RuleClass) -> int:
        """The most numbers of a rule of a class; a generous limit where the class has none."""
        limit = min(rule_class.max_size(self.first_condition_costs), self.size_limit)
        return int(limit) if np.isfinite(limit) else 3 * self.evaluator.mdp.n_states

    def evaluate(self, rule_class: RuleClass, candidate: Candidate) -> FrontierPoint | None:
        """A rule with its loss; None if it is infeasible.

        In a large model also None if it surely misses the loss target and no frontier is wanted.
        """
        evaluator = self.evaluator
        table = candidate.build_tree(evaluator.mdp.grid)(evaluator.mdp.grid.points)
        if not evaluator.is_feasible(table):
            return None
        if not (evaluator.is_small or self.wants_frontier):
            limit = self.loss_target.effective_limit * (1 + 1e-9)
            if evaluator.bound_losses_below([table])[0] > limit:
                return None
        policy_loss = evaluator.evaluate(table)
        if policy_loss is None:
            return None
        self.losses[candidate] = policy_loss
        loss = max(self.loss_target.get_loss(policy_loss), 0.0) / self.loss_target.reference
        return FrontierPoint(rule_class.name, candidate.size, loss, candidate, policy_loss.table)

    def select(self, rule_class: RuleClass, candidates: Iterable[Candidate]) -> None:
        """Evaluate candidates of a class, and keep the best of each size.

        Once the time is up and a rule meets the loss target, no more are evaluated.
        """
        for candidate in candidates:
            if self.is_time_up and self.find_smallest() is not None:
                continue
            self.n_tried += 1
            point = self.evaluate(rule_class, candidate)
            if point is not None:
                key = (point.kind, point.size)
                if key not in self.frontier_points or point.loss < self.frontier_points[key].loss:
                    self.frontier_points[key] = point


@dataclass(eq=False)
class ClassSearch:
    """The search in one class."""

    search: Search  # what it is a part of
    rule_class: RuleClass  # the class
    max_size: int  # rules with more numbers are not searched
    size_needed: int = 0  # no rule of the class with fewer numbers meets the loss target

    @property
    def frontier_points(self) -> list[FrontierPoint]:
        return self.search.list_frontier_points(self.rule_class.name)

    @property
    def best(self) -> FrontierPoint | None:
        """The smallest rule of the class that meets the loss target."""
        return self.search.find_smallest(self.rule_class.name)

    @property
    def size_limit(self) -> int:
        """The most numbers of a rule that would still be an improvement."""
        best = self.best
        if best is None or self.search.wants_frontier:
            return self.max_size
        return min(self.max_size, best.size)

    @property
    def fit_cost_limit(self) -> float:
        """The cost at which a fit need not become cheaper: 0 once its size is limited by a rule."""
        search = self.search
        is_size_limited = search.wants_frontier or search.find_smallest() is not None
        return 0.0 if is_size_limited else search.loss_target.limit

    def is_stalled(self, rounds: int) -> bool:
        """Whether these rounds without a smaller rule are enough; a frontier needs all rounds."""
        return rounds > self.search.effort.stall_rounds and not self.search.wants_frontier

    def is_finished(self) -> bool:
        """Whether the time is up, or the best rule is proven to be the smallest."""
        if self.search.is_class_time_up:
            return True
        best = self.best
        is_proven_smallest = best is not None and best.size <= self.size_needed
        return is_proven_smallest and not self.search.wants_frontier

    def select(self, candidates: Iterable[Candidate]) -> None:
        self.search.select(self.rule_class, candidates)

    def fit(self, by_state: NDArray, max_size: int, cost_limit: float) -> Iterator[Candidate]:
        """The rules of one fit to (S, A) costs that are to be evaluated."""
        costs = self.search.make_costs(by_state)
        yield from self.choose_candidates(self.rule_class.fit(costs, max_size, cost_limit))

    def choose_candidates(self, candidates: list[Candidate]) -> Iterator[Candidate]:
        """The rules of one fit, of growing size, that are to be evaluated.

        All in a small model, as long as there is time, and where they are few. In a large model
        evenly spread ones for a frontier, otherwise about log2 of them, which find the smallest
        that meets the loss target by bisection.
        """
        search = self.search
        is_small = search.evaluator.is_small
        if search.wants_frontier or len(candidates) < search.effort.bisected_min_rules:
            yield from candidates if is_small else self._thin_out(candidates)
            return
        count = 0
        while is_small and count < len(candidates) and not search.is_class_time_up:
            yield candidates[count]
            count += 1
        yield from self._bisect(candidates[count:])

    def _thin_out(self, candidates: list[Candidate]) -> list[Candidate]:
        effort = self.search.effort
        count = effort.frontier_batch_rules
        n_states = self.search.evaluator.mdp.n_states
        if len(candidates) <= count or n_states <= effort.frontier_batch_min_states:
            return candidates
        positions = np.linspace(0, len(candidates) - 1, count).astype(int)
        return [candidates[i] for i in np.unique(positions)]

    def _bisect(self, candidates: list[Candidate]) -> Iterator[Candidate]:
        low = 0
        high = len(candidates)
        while low < high:
            middle = (low + high) // 2
            yield candidates[middle]
            policy_loss = self.search.losses.get(candidates[middle])
            if policy_loss is not None and self.search.loss_target.is_met_by(policy_loss):
                high = middle
            else:
                low = middle + 1
