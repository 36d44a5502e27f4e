"""The search for the smallest rule of a class that meets a loss target: one loop for all classes.

    idle axes                 are dropped, where it is only a question of what is allowed
    necessary conditions      additive costs that bound every rule within the loss target; the exact
                              solver of the class rules out sizes that cannot satisfy them
    rounds                    fit to visits x gap; evaluate the rules themselves; mix the visits of
                              the rules found into the weights, and again
    neighbours                change one number of a rule at a time, as long as it loses less
    branch and bound          of the class that has the smallest rule, if its solver is exact

The visits of the first round are those of the optimal policy. Rules for the worst state are also
fitted to sets of allowed actions {gap <= threshold}, for thresholds between (1 - discount) x limit,
which suffices, and the limit of the loss target, which is necessary.
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
    NecessaryCondition,
    derive_necessary_conditions,
)
from tessella.rules.evaluator import PolicyEvaluator, PolicyLoss
from tessella.rules.loss_target import LossTarget
from tessella.rules.rule import ClassOutcome, FrontierPoint
from tessella.rules.rule_class import Candidate, Costs, RuleClass

FIT_MAX_ROUNDS = 8  # rounds of fitting to reweighted costs
FIT_MAX_ROUNDS_LARGE_MODEL = 3  # the same rounds in a large model
FRONTIER_BATCH_RULES = 12  # rules evaluated of each fit for a frontier of a large model
FRONTIER_BATCH_MIN_STATES = 5_000  # states, beyond which a fit for a frontier is thinned out
STALL_MAX_ROUNDS = 3  # rounds without a smaller rule
IDLE_MAX_ROUNDS = 8  # rounds without a new rule
LOSS_THRESHOLD_COUNT = 6  # thresholds on local losses, for the worst state
PERTURBATION_STATE_ROUNDS = 6_000  # states x rounds of perturbed weights
PERTURBATION_MAX_ROUNDS = 60  # rounds of perturbed weights
LOCAL_SEARCH_STATE_RULES = 600_000  # states x neighbours that are evaluated
LOCAL_SEARCH_MAX_RULES = 4_000  # neighbours that are evaluated
LOCAL_SEARCH_MIN_NEIGHBOURS = 60  # neighbours of one rule
LOCAL_SEARCH_SMALLER_RULES = 3  # rules just too small to meet the loss target
IMITATION_MIN_RELATIVE_WEIGHT = 1e-9  # of the mean weight: of every state that is imitated
CONTRADICTION_TEXT = "what seemed proven contradicts a rule that was found, so nothing is claimed"


@dataclass(eq=False)
class Search:
    """One search over classes: what is known so far.

    Attributes:
        evaluator: what rules lose.
        loss_target: the loss that rules must stay within.
        deadline: when to stop, on the clock of ``time.perf_counter``.
        report: receives a line from time to time that says how far the search is.
        want_frontier: whether rules that miss the loss target are wanted too, for a frontier.
        class_deadline: when to stop with the current class; rules found by then are evaluated.
        points: the best rule of each class and size.
        outcomes: what became of each class.
        n_tried: how many rules were built and evaluated; solvers and branch and bound may rule out
            any number of rules without that.
    """

    evaluator: PolicyEvaluator
    loss_target: LossTarget
    deadline: float = float("inf")
    report: Callable[[str], None] | None = None
    want_frontier: bool = False
    class_deadline: float = float("inf")
    points: dict[tuple[str, int], FrontierPoint] = field(default_factory=dict)
    outcomes: list[ClassOutcome] = field(default_factory=list)
    n_tried: int = 0

    def make_costs(self, by_state: NDArray) -> Costs:
        mdp = self.evaluator.mdp
        deadline = min(self.deadline, self.class_deadline)
        return Costs(mdp.grid, mdp.actions, by_state, deadline, mdp.action_name)

    @cached_property
    def conditions(self) -> list[NecessaryCondition]:
        return derive_necessary_conditions(self.evaluator, self.loss_target)

    def _make_condition_costs(self, rule_class: RuleClass, condition: NecessaryCondition) -> Costs:
        """The costs of a condition, without axes that no rule of the class needs."""
        costs = self.make_costs(condition.costs)
        fewer = (
            costs.drop_irrelevant_axes()
            if condition.is_zero_one and rule_class.closed_under_slicing
            else costs
        )
        return costs if rule_class.why_not_applicable(fewer) else fewer

    @cached_property
    def _grid_points(self) -> NDArray[np.float64]:
        return self.evaluator.mdp.grid.points

    @property
    def _loss_limit(self) -> float:
        """What a rule may lose, or what cannot be distinguished from it."""
        return max(self.loss_target.limit, self.loss_target.resolution) * (1 + 1e-9)

    @property
    def class_time_up(self) -> bool:
        return time.perf_counter() > min(self.deadline, self.class_deadline)

    @property
    def time_up(self) -> bool:
        return time.perf_counter() > self.deadline

    def find_smallest(self, kind: str | None = None) -> FrontierPoint | None:
        """The smallest rule that meets the loss target, of one class or of all."""
        admissible = [
            p for p in self.points.values() if self._meets_target(p) and kind in (None, p.kind)
        ]
        return min(admissible, key=lambda p: (p.size, p.loss), default=None)

    def _meets_target(self, point: FrontierPoint) -> bool:
        return self.loss_target.is_met_by(self.evaluator(point.table))

    def max_size(self, rule_class: RuleClass) -> int:
        """The most numbers that a rule of a class may have; of a class that knows none, many."""
        limit = rule_class.max_size(self.make_costs(self.conditions[0].costs))
        return int(limit) if np.isfinite(limit) else 3 * self.evaluator.mdp.n_states

    def add_exact_table(self, rule_class: RuleClass) -> None:
        """Add the smallest rule of a class that takes optimal actions only, if there is one."""
        costs = self.make_costs((self.evaluator.gap > 0).astype(float))
        if not rule_class.why_not_applicable(costs):
            candidates = rule_class.fit(costs, self.max_size(rule_class), 0.5)
            self._evaluate_all(
                rule_class, [candidate for candidate in candidates if candidate.cost < 0.5][:1]
            )

    def search_class(self, rule_class: RuleClass, max_size: int) -> None:
        """Search for the smallest rule of a class, with at most so many numbers."""
        first_costs = self.make_costs(self.conditions[0].costs)
        why_not = self.why_not_applicable(rule_class)
        tried_before = self.n_tried
        if why_not:
            self.outcomes.append(ClassOutcome(rule_class.name, None, 0, why_not))
            return
        why_inexact = rule_class.why_not_exact(
            self._make_condition_costs(rule_class, self.conditions[0])
        )
        if self.want_frontier:  # rules of all sizes first, and proofs with what time is left
            self._try_imitations(rule_class, max_size)
            self._run_rounds(rule_class, max_size, 0)
        remarks = [why_inexact]
        size_needed = self.prove_size_lower_bound(rule_class, max_size)
        if size_needed <= max_size and not self.want_frontier:
            self._run_rounds(rule_class, max_size, size_needed)
        best = self.find_smallest(rule_class.name)
        if best is not None and size_needed > best.size:
            size_needed = 0
            remarks.append(CONTRADICTION_TEXT)
        elif size_needed > max_size and not self.want_frontier:
            condition = self.conditions[0]
            rules_out_all = rule_class.max_size(
                first_costs
            ) <= max_size or rule_class.is_infeasible(
                self._make_condition_costs(rule_class, condition), condition.target
            )
            ruled_out = (
                "no rule of this class"
                if rules_out_all
                else f"none with {counted(max_size, 'number')} or fewer"
            )
            remarks.append(f"{ruled_out} meets the loss target")
        if best is None and (size_needed <= max_size or self.want_frontier):
            remarks.append(
                self.describe_effort(f"rules of up to {counted(max_size, 'number')}", tried_before)
            )
        remarks.append(
            self.describe_ending(
                best is not None, "a larger `most`" if self.want_frontier else "a larger loss"
            )
        )
        size = None if best is None else best.size
        self.outcomes.append(
            ClassOutcome(rule_class.name, size, size_needed, "; ".join(filter(None, remarks)))
        )
        self._report(rule_class, best)

    def why_not_applicable(self, rule_class: RuleClass) -> str:
        """Why a class has no rules for this model; empty where it has."""
        why = rule_class.why_not_applicable(self.make_costs(self.conditions[0].costs))
        return f"the class does not apply: {why}" if why else ""

    def describe_effort(self, rules: str, tried_before: int = 0) -> str:
        """How many rules were tried; empty for none, which says nothing of the work done."""
        return (
            f"{rules} tried: {self.n_tried - tried_before:,}" if self.n_tried > tried_before else ""
        )

    def describe_ending(self, is_found: bool, suggestion: str) -> str:
        """How a search ended, and where it found nothing, what may help: ``suggestion``."""
        stopped = "stopped by the time limit" if self.class_time_up else ""
        if is_found:
            return stopped
        hint = f"{suggestion} may allow one"
        return f"{stopped}; more time or {hint}" if stopped else hint

    def _try_imitations(self, rule_class: RuleClass, max_size: int) -> None:
        """Evaluate imitations of the optimal policy that a class offers, with three weightings.

        States count alike, by their visits, or by what the second-best action loses there.
        """
        table = self.evaluator.solution.policy.table.ravel()
        visits = self.evaluator.optimal.visits
        is_other_action = (
            1.0 - np.eye(self.evaluator.mdp.n_actions)[table]
        )  # than the policy: ties count too
        for weights in (np.ones(len(table)), visits, visits * self.evaluator.second_best_gap):
            if weights.any():
                relative_weights = np.maximum(
                    weights / weights.mean(), IMITATION_MIN_RELATIVE_WEIGHT
                )
                self._evaluate_all(
                    rule_class,
                    rule_class.imitations(
                        self.make_costs(relative_weights[:, None] * is_other_action), max_size
                    ),
                )

    def _report(self, rule_class: RuleClass, best: FrontierPoint | None) -> None:
        if self.report is not None:
            text = (
                "nothing yet"
                if best is None
                else f"{counted(best.size, 'number')}, loss {best.loss:.4g}"
            )
            self.report(f"{rule_class.name}: {text}; {self.evaluator.n_evaluated:,} rules judged")

    def prove_size_lower_bound(self, rule_class: RuleClass, max_size: int) -> int:
        """The largest size that the necessary conditions rule out, plus one; fits are evaluated.

        0 once the time is up: a fit that may have been cut short rules out nothing.
        """
        bound = 0
        for condition in self.conditions:
            costs = self._make_condition_costs(rule_class, condition)
            if rule_class.is_infeasible(costs, condition.target):
                return max_size + 1
            if rule_class.why_not_exact(costs):
                continue
            candidates = rule_class.fit(costs, max_size, condition.target)
            class_bound = rule_class.size_lower_bound(costs, condition.target, max_size, candidates)
            is_cut_short = self.class_time_up
            self._evaluate_all(rule_class, candidates)
            if is_cut_short:
                return 0
            bound = max(bound, class_bound)
        return bound

    def branch_and_bound(
        self, rule_class: RuleClass, size_needed: int, max_size: int, max_nodes: float
    ) -> int:
        """The same by branch and bound: sizes from ``size_needed`` on, until one is not ruled out.

        A rule that is found on the way is kept, and then its size is the one that is needed.
        """
        evaluator = self.evaluator
        loss_target = self.loss_target
        if rule_class.why_not_exact(self.make_costs(self.conditions[0].costs)):
            return size_needed
        if not BranchAndBound.is_applicable(evaluator, loss_target):
            return size_needed
        solver = BranchAndBound(
            evaluator,
            loss_target,
            self.make_costs,
            self._evaluate_candidate,
            lambda: self.class_time_up,
            max_nodes,
        )
        return solver.rule_out_sizes(rule_class, size_needed, max_size)

    def tighten_bound(self, rule_class: RuleClass) -> None:
        """Prove more about the class of the smallest rule, by branch and bound."""
        best = self.find_smallest(rule_class.name)
        index = next(
            i for i, outcome in enumerate(self.outcomes) if outcome.kind == rule_class.name
        )
        previous = self.outcomes[index]
        if best is None or not 0 < previous.size_needed < best.size:
            return
        max_nodes = BranchAndBound.compute_node_budget(self.evaluator)
        size_needed = self.branch_and_bound(
            rule_class, previous.size_needed, best.size - 1, max_nodes
        )
        smallest = self.find_smallest(rule_class.name) or best
        self.outcomes[index] = replace(
            previous, size=smallest.size, size_needed=min(size_needed, smallest.size)
        )

    def iterate_shortened(
        self, rule_class: RuleClass, point: FrontierPoint
    ) -> Iterator[FrontierPoint]:
        """A rule of the class with fewer digits, that meets the loss target; the fewest first."""
        costs = self.make_costs(self._weight_gaps(self.evaluator(point.table).visits))
        for candidate in rule_class.with_fewer_digits(costs, point.candidate):
            table = candidate.build_tree(self.evaluator.mdp.grid)(self._grid_points)
            if (
                self.time_up
                or not self.evaluator.is_admissible(table)
                or self.evaluator.bound_loss_below(table) > self._loss_limit
            ):
                continue
            policy_loss = self.evaluator(table)
            if self.loss_target.is_met_by(policy_loss):
                loss = self.loss_target.loss_of(policy_loss) / self.loss_target.unit
                yield FrontierPoint(
                    rule_class.name, candidate.size, loss, candidate, policy_loss.table
                )

    def _run_rounds(self, rule_class: RuleClass, max_size: int, size_needed: int) -> None:
        weights = self.evaluator.optimal.visits
        n_rounds = 1
        idle_rounds = 0
        max_rounds = FIT_MAX_ROUNDS if self.evaluator.is_small else FIT_MAX_ROUNDS_LARGE_MODEL
        for threshold in self._loss_thresholds():
            costs = (self.evaluator.gap > threshold).astype(float)
            self._evaluate_all(
                rule_class,
                rule_class.fit(self.make_costs(costs), self._size_limit(rule_class, max_size), 0.5),
            )
        for _ in range(max_rounds):
            is_first = (
                self.want_frontier and n_rounds == 1
            )  # of which there is one, whatever the limit
            if (self.class_time_up and not is_first) or self._is_proven_smallest(
                rule_class, size_needed
            ):
                return
            size_limit = self._size_limit(rule_class, max_size)
            n_before = self.evaluator.n_evaluated
            target = 0.0 if self.want_frontier else self.loss_target.limit
            costs = self.make_costs(self._weight_gaps(weights / n_rounds))
            results = self._evaluate_all(rule_class, rule_class.fit(costs, size_limit, target))
            if self.evaluator.is_small:
                self._evaluate_all(rule_class, rule_class.near_ties(costs, size_limit))
            idle_rounds = (
                idle_rounds + 1
                if self._size_limit(rule_class, max_size) == size_limit and not self.want_frontier
                else 0
            )
            if (
                not results
                or self.evaluator.n_evaluated == n_before
                or idle_rounds > STALL_MAX_ROUNDS
            ):
                break
            weights = weights + np.mean([result.visits for result in results], axis=0)
            n_rounds += 1
        if (
            rule_class.benefits_from_local_search
            and self.evaluator.is_small
            and (self.want_frontier or not self.loss_target.is_zero)
        ):
            self._perturb_weights(rule_class, max_size, size_needed)
            self._local_search(rule_class, size_needed)

    def _perturb_weights(self, rule_class: RuleClass, max_size: int, size_needed: int) -> None:
        """Rounds about single rules of the frontier, in models that are small enough for many.

        Costs are visits x gap of a rule alone, or what the rule itself would gain by another action
        for once: d_pi (max_a Q_pi - Q_pi), a step of policy iteration within the class.
        """
        rng = np.random.default_rng(0)
        idle_rounds = 0
        for iteration in range(
            min(PERTURBATION_STATE_ROUNDS // self.evaluator.mdp.n_states, PERTURBATION_MAX_ROUNDS)
        ):
            points = [p for p in self.points.values() if p.kind == rule_class.name]
            if (
                not points
                or self.class_time_up
                or idle_rounds > IDLE_MAX_ROUNDS
                or self._is_proven_smallest(rule_class, size_needed)
            ):
                return
            n_before = self.evaluator.n_evaluated
            policy_loss = self.evaluator(points[int(rng.integers(len(points)))].table)
            visits = policy_loss.visits
            other_visits = (
                self.evaluator.optimal.visits if iteration % 3 else rng.permutation(visits)
            )
            mixed_visits = rng.dirichlet((4.0, 1.0)) @ np.stack([visits, other_visits])
            gaps = (
                self.evaluator.compute_policy_gaps(policy_loss)
                if iteration % 2
                else self.evaluator.gap
            )
            self._evaluate_all(
                rule_class,
                rule_class.fit(
                    self.make_costs(self._weight_gaps(mixed_visits, gaps)), max_size, 0.0
                ),
            )
            idle_rounds = 0 if self.evaluator.n_evaluated > n_before else idle_rounds + 1

    def _local_search(self, rule_class: RuleClass, size_needed: int) -> None:
        """Change one number at a time of the rules that could matter, the small ones first.

        Without a frontier these are rules a little too small to meet the loss target.
        """
        remaining = min(
            LOCAL_SEARCH_STATE_RULES // self.evaluator.mdp.n_states, LOCAL_SEARCH_MAX_RULES
        )
        best = self.find_smallest(rule_class.name)
        class_points = sorted(
            (p for p in self.points.values() if p.kind == rule_class.name), key=_size_then_loss
        )
        if not self.want_frontier and best is not None:
            class_points = [p for p in class_points if size_needed <= p.size < best.size][
                : -LOCAL_SEARCH_SMALLER_RULES - 1 : -1
            ]
        rule_budget = max(remaining // max(len(class_points), 1), LOCAL_SEARCH_MIN_NEIGHBOURS)
        for point in class_points:
            n_before = self.evaluator.n_evaluated
            while (
                self.evaluator.n_evaluated - n_before < rule_budget
                and remaining > 0
                and not self.class_time_up
            ):
                n_known = self.evaluator.n_evaluated
                better = self._find_better_neighbour(rule_class, point)
                remaining -= self.evaluator.n_evaluated - n_known
                if better is None:
                    break
                point = better

    def _find_better_neighbour(
        self, rule_class: RuleClass, point: FrontierPoint
    ) -> FrontierPoint | None:
        """The first neighbour of a rule that loses less."""
        costs = self.make_costs(self.conditions[0].costs)
        for root in rule_class.neighbours(costs, point.candidate.root):
            if self.class_time_up:
                return None
            self._evaluate_candidate(rule_class, Candidate(root, point.size, 0.0))
            neighbour = self.points[rule_class.name, point.size]
            if neighbour.loss < point.loss:
                return neighbour
        return None

    def _size_limit(self, rule_class: RuleClass, max_size: int) -> int:
        """How many numbers a rule may have to be of interest."""
        best = self.find_smallest(rule_class.name)
        return max_size if best is None or self.want_frontier else min(max_size, best.size)

    def _is_proven_smallest(self, rule_class: RuleClass, size_needed: int) -> bool:
        best = self.find_smallest(rule_class.name)
        return not self.want_frontier and best is not None and best.size <= size_needed

    def _loss_thresholds(self) -> Iterator[float]:
        """Local losses up to which actions are allowed, for loss targets from the worst state."""
        if self.loss_target.worst and not self.loss_target.is_zero:
            low = self.loss_target.limit / self.evaluator.sum_unit_loss()
            yield from np.geomspace(low, self.loss_target.limit, LOSS_THRESHOLD_COUNT)

    def _weight_gaps(self, visits: NDArray, gap: NDArray | None = None) -> NDArray[np.float64]:
        """(S, A) visits x gap, with infeasible actions dearer than everything else together."""
        gap = self.evaluator.gap if gap is None else gap
        feasible = self.evaluator.feasible
        costs = visits[:, None] * np.where(feasible, gap, 0.0)
        if not feasible.all():
            costs[~feasible] = 10 * max(float(costs.max(axis=1).sum()), 1.0)
        return costs

    def _evaluate_all(self, rule_class: RuleClass, candidates: list[Candidate]) -> list[PolicyLoss]:
        """Evaluate rules and keep the best of each size; in a large model only some of them."""
        if not self.evaluator.is_small and not self.want_frontier and len(candidates) > 1:
            return self._bisect(rule_class, candidates)
        if (
            not self.evaluator.is_small
            and len(candidates) > FRONTIER_BATCH_RULES
            and self.evaluator.mdp.n_states > FRONTIER_BATCH_MIN_STATES
        ):
            candidates = [
                candidates[i]
                for i in np.unique(
                    np.linspace(0, len(candidates) - 1, FRONTIER_BATCH_RULES).astype(int)
                )
            ]
        results = []
        for candidate in candidates:
            if self.time_up and self.find_smallest() is not None:
                break
            policy_loss = self._evaluate_candidate(rule_class, candidate)
            if policy_loss is not None:
                results.append(policy_loss)
        return results

    def _bisect(self, rule_class: RuleClass, candidates: list[Candidate]) -> list[PolicyLoss]:
        """Evaluate about log2 of the rules, for the smallest that meets the loss target."""
        low = 0
        high = len(candidates)
        results = []
        while low < high and not (self.time_up and self.find_smallest() is not None):
            middle = (low + high) // 2
            policy_loss = self._evaluate_candidate(rule_class, candidates[middle])
            if policy_loss is not None:
                results.append(policy_loss)
            is_met = policy_loss is not None and self.loss_target.is_met_by(policy_loss)
            low, high = (low, middle) if is_met else (middle + 1, high)
        return results

    def _evaluate_candidate(self, rule_class: RuleClass, candidate: Candidate) -> PolicyLoss | None:
        """What a rule loses, kept where it is the best of its size; None if it is infeasible.

        In a large model also None if it surely misses the loss target and no frontier is wanted.
        """
        self.n_tried += 1
        table = candidate.build_tree(self.evaluator.mdp.grid)(self._grid_points)
        if not self.evaluator.is_admissible(table):
            return None
        if not (
            self.evaluator.is_small
            or self.want_frontier
            or self.evaluator.bound_loss_below(table) <= self._loss_limit
        ):
            return None
        policy_loss = self.evaluator(table)
        loss = self.loss_target.loss_of(policy_loss) / self.loss_target.unit
        key = (rule_class.name, candidate.size)
        if key not in self.points or loss < self.points[key].loss:
            self.points[key] = FrontierPoint(
                rule_class.name, candidate.size, loss, candidate, policy_loss.table
            )
        return policy_loss


def _size_then_loss(point: FrontierPoint) -> tuple[int, float]:
    return point.size, point.loss
