"""compress(solution, loss) -> Rule: the smallest rule within a loss, and how small it could be.

Classes are searched in turn, the quick ones first, each for rules no larger than the best so far;
the table of runs, which is always possible, comes before them all. What is returned has a proven
loss whose upper bound meets the loss target, rounding included.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tessella.errors import (
    ArgumentError,
    counted,
    is_positive,
    require_type,
    require_whole,
)
from tessella.grid import StateGrid
from tessella.mdp.measures import Constraint
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rules.candidates import generate_shorter_rules
from tessella.rules.class_search import (
    describe_effort,
    describe_ending,
    explain_inapplicable,
    make_outcome,
    prove_size_lower_bound,
    raise_size_lower_bound,
    search_class,
    tighten_outcome,
)
from tessella.rules.constrained_rules import ConstrainedProblem
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.linear_cuts import LinearCuts, Staircase
from tessella.rules.loss_target import (
    LossReference,
    ProvenLoss,
    make_loss_target,
    prove_loss_bounds,
)
from tessella.rules.monotone_surface import MonotoneSurface
from tessella.rules.order_up_to import OrderUpTo
from tessella.rules.rule import ClassOutcome, Frontier, FrontierPoint, Rule
from tessella.rules.rule_class import RuleClass, find_pareto_front
from tessella.rules.search import ClassSearch, Search, SearchEffort
from tessella.rules.small_network import SmallNetwork
from tessella.rules.table_rules import OneAction, RunLength, WithExceptions
from tessella.rules.trees import AxisTree, LinearTree
from tessella.solvers.constrained import ConstrainedSolution
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve

PROOF_TIME_FACTOR = 2  # times as long as evaluating one rule
CLASS_TIME_SHARE = 1 / 3  # of the time that is left, for one class
LOSS_TOLERANCE_SHARE = 1e-4  # of the loss target: smaller differences of losses are ignored
IDLE_PRICES = 2  # prices at which no better constrained rule was found, after which none is tried
DEFAULT_EFFORT = SearchEffort()
DEFAULT_CLASSES: tuple[RuleClass, ...] = (
    OneAction(),
    OrderUpTo(),
    LinearCuts(),
    RunLength(),
    Staircase(),
    WithExceptions(),
    SmallNetwork(),
    MonotoneSurface(),
    LinearTree(),
    AxisTree(),
)


class LossOptions(TypedDict, total=False):
    """How a loss is measured, and for how long rules are searched: see ``compress``."""

    start: Start
    worst: bool
    relative: bool
    relative_to: LossReference
    time_limit: float | None


class SearchOptions(LossOptions, total=False):
    """The options of ``compress``."""

    classes: Sequence[RuleClass] | None
    progress: Callable[[str], None] | None


def compress(
    solution: Solution | ConstrainedSolution | MDP,
    loss: float | str = 0.01,
    *,
    start: Start = None,
    worst: bool = False,
    relative: bool = True,
    relative_to: LossReference = "optimal",
    classes: Sequence[RuleClass] | None = None,
    time_limit: float | None = None,
    progress: Callable[[str], None] | None = None,
    subject_to: Mapping[str, Constraint] | None = None,
) -> Rule:
    """The smallest rule found whose certified loss is within ``loss``.

    Args:
        solution: of a model; with constraints the model itself will do, and so will what ``solve``
            returned for them.
        loss: what may be lost, as a share of the optimal value from the start; also as a text,
            ``"1%"`` or ``"12.5 units"`` of the model.
        start: any start: see ``tessella.mdp.start``; None for the model's own. A stationary start
            is that of the optimal policy.
        worst: require it from the worst state to start from, not for the mean over the start.
        relative: False for a loss in the model's own units.
        relative_to: "optimal" for a share of ``|J(pi*)|``; "random" for one of J(pi*) - J(random).
        classes: the classes of rules to search; None for all that come with the package.
        time_limit: seconds after which the best so far is returned. Ctrl-C does the same.
        progress: receives a line from time to time that says how far the search is.
        subject_to: constraints on measures, ``{"fill_rate": AtLeast(0.98)}``: the rule satisfies
            them, and its loss is that against the best of all policies that do, those that draw
            their actions included, from the model's own start.
    """
    started = time.perf_counter()
    if subject_to is not None or isinstance(solution, ConstrainedSolution):
        deadline = _find_deadline(time_limit)
        rule_classes = _check_classes("compress", classes)
        if start is not None or worst or relative_to != "optimal":
            requirement = "subject_to is about means over the model's own start"
            raise ArgumentError(requirement, value="got start, worst or relative_to")
        result: Any = solution
        if subject_to is not None:
            mdp: Any = getattr(solution, "mdp", solution)
            result = solve(mdp, subject_to=subject_to)
        problem = ConstrainedProblem(result, loss, relative)
        rule = _compress_constrained(problem, rule_classes, deadline, progress)
        return replace(rule, seconds=time.perf_counter() - started)
    require_type("compress", solution, Solution)
    assert isinstance(solution, Solution)
    search = prepare_search(
        solution, loss, start, worst, relative, relative_to, classes, time_limit, progress
    )
    _reserve_proof_time(search, started)
    _search_classes(search)
    rule = _certify_smallest(solution, search)
    return replace(rule, seconds=time.perf_counter() - started)


def frontier(solution: Solution, max_size: int = 60, **options: Unpack[SearchOptions]) -> Frontier:
    """Size against loss for all rules of up to ``max_size`` numbers; options as in ``compress``."""
    _require_known_options("frontier", options, SearchOptions)
    return find_frontier(prepare_search(solution, 0.0, caller="frontier", **options), max_size)


def find_frontier(search: Search, max_size: int) -> Frontier:
    """Size against loss for the classes of a search."""
    require_whole("max_size", max_size, 1)
    search.wants_frontier = True
    try:
        for rule_class in search.rule_classes:
            search_class(search, rule_class, max_size)
    except KeyboardInterrupt:
        if not search.frontier_points:
            raise
    return _make_frontier(search.frontier_points.values(), search.outcomes)


def least_size(
    solution: Solution,
    loss: float | str,
    rule_class: RuleClass,
    *,
    max_size: int = 400,
    **options: Unpack[LossOptions],
) -> ClassOutcome:
    """How small a rule of one class can be: what is proven, and found on the way.

    Options as in ``compress``. Sizes up to ``max_size`` are ruled out by branch and bound, one
    after the other, for as long as the time limit allows. Where no rule is found, ``explanation``
    says what was tried and what may help.
    """
    _require_known_options("least_size", options, LossOptions)
    search = prepare_search(solution, loss, classes=[rule_class], caller="least_size", **options)
    require_whole("max_size", max_size, 1)
    why_not = explain_inapplicable(search, rule_class)
    if why_not:
        return ClassOutcome(rule_class.name, None, 0, why_not)
    class_search = ClassSearch(search, rule_class, max_size)
    prove_size_lower_bound(class_search)
    if class_search.size_needed:
        raise_size_lower_bound(class_search, math.inf)
    best = class_search.best
    remarks = []
    if best is None and class_search.size_needed > 1:
        ruled_out = counted(class_search.size_needed - 1, "number")
        remarks.append(f"none with {ruled_out} or fewer meets the loss target")
    elif best is None:
        remarks += ["nothing is proven", describe_effort(search, "rules")]
    remarks.append(describe_ending(class_search, "a larger loss or `max_size`"))
    return make_outcome(class_search, class_search.size_needed, remarks)


def _require_known_options(caller: str, options: Mapping[str, Any], known: type) -> None:
    """Refuse an option that ``known`` does not declare, as a signature would."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}")


def _require_distinct_numbers(grid: StateGrid) -> None:
    """Refuse long integers that differ by less than doubles resolve: rules compare doubles."""
    for name, numbers in zip(grid.axes, grid.numbers, strict=True):
        unique, counts = np.unique(numbers, return_counts=True)
        if len(unique) < len(numbers):
            requirement = "axis values that rules compare must differ as double-precision numbers"
            value = f"holds {counts.max()} of {unique[counts.argmax()]:.0f}"
            raise ArgumentError(requirement, location=name, value=value)


def prepare_search(
    solution: Solution,
    loss: float | str,
    start: Start = None,
    worst: bool = False,
    relative: bool = True,
    relative_to: LossReference = "optimal",
    classes: Sequence[RuleClass] | None = None,
    time_limit: float | None = None,
    progress: Callable[[str], None] | None = None,
    effort: SearchEffort = DEFAULT_EFFORT,
    caller: str = "compress",
) -> Search:
    """A search that has not begun, with checked arguments as in ``compress``.

    ``caller`` is the function that error messages name.
    """
    require_type(caller, solution, Solution)
    solution.require_values(caller)
    mdp = solution.mdp
    rule_classes = _check_classes(caller, classes)
    deadline = _find_deadline(time_limit)
    _require_distinct_numbers(mdp.grid)
    distribution = start_distribution(mdp, start, solution.policy, solution.policy_plan)
    evaluator = PolicyEvaluator(solution, distribution, bool(worst))
    loss_target = make_loss_target(solution, evaluator, loss, worst, relative, relative_to)
    evaluator.loss_tolerance = LOSS_TOLERANCE_SHARE * loss_target.limit
    return Search(evaluator, loss_target, rule_classes, deadline, progress, effort)


def _find_deadline(time_limit: float | None) -> float:
    """When to stop, on the clock of ``time.perf_counter``."""
    if time_limit is None:
        return math.inf
    if not is_positive(time_limit):
        requirement = "a time limit is a number of seconds above 0"
        raise ArgumentError(requirement, value=f"got {time_limit!r}")
    return time.perf_counter() + time_limit


def _check_classes(caller: str, classes: Sequence[RuleClass] | None) -> tuple[RuleClass, ...]:
    if isinstance(classes, RuleClass) or not isinstance(classes, Iterable | None):
        requirement = "classes is a list of classes of rules"
        raise ArgumentError(requirement, value=f"got {classes!r}; pass classes=[...]")
    rule_classes = DEFAULT_CLASSES if classes is None else tuple(classes)
    for rule_class in rule_classes:
        require_type(caller, rule_class, RuleClass)
    if not rule_classes:
        raise ArgumentError(f"{caller} needs at least one class of rules")
    return rule_classes


def _search_classes(search: Search) -> None:
    """Search one class after the other; an interrupt ends the search, if there is a rule."""
    try:
        # Always possible, so that there is a rule whatever the time limit.
        _add_exact_tables(search, search.evaluator.action_loss > 0)
        for i, rule_class in enumerate(search.rule_classes):
            now = time.perf_counter()
            share = max(CLASS_TIME_SHARE, 1 / (len(search.rule_classes) - i))
            search.class_deadline = now + share * max(search.deadline - now, 0.0)
            best = search.find_smallest()
            max_size = search.max_size(rule_class) if best is None else best.size
            search_class(search, rule_class, max_size)
        search.class_deadline = search.deadline
        for rule_class in search.rule_classes:
            best = search.find_smallest()
            if best is not None and best.kind == rule_class.name:
                tighten_outcome(search, rule_class, best)
    except KeyboardInterrupt:
        if search.find_smallest() is None:
            raise


def _add_exact_tables(search: Search, is_forbidden: NDArray[np.bool_]) -> None:
    """Add the smallest tables of runs that take no forbidden action (S, A)."""
    costs = search.make_costs(is_forbidden.astype(float))
    for rule_class in search.rule_classes:
        if isinstance(rule_class, RunLength) and not rule_class.why_not_applicable(costs):
            fitted = rule_class.fit(costs, search.max_size(rule_class), 0.5)
            search.select(rule_class, [rule for rule in fitted if rule.cost < 0.5][:1])


def _reserve_proof_time(search: Search, started: float) -> None:
    """End the search early enough for a proof within the time limit.

    Only in a large model, where it takes some times as long as evaluating one rule.
    """
    limit = search.deadline - started
    if search.evaluator.is_small or limit == float("inf"):
        return
    before = time.perf_counter()
    _ = search.evaluator.optimal
    proof_time = PROOF_TIME_FACTOR * (time.perf_counter() - before)
    search.deadline -= min(proof_time, limit / 2)


def _compress_constrained(
    problem: ConstrainedProblem,
    rule_classes: tuple[RuleClass, ...],
    deadline: float,
    progress: Callable[[str], None] | None,
) -> Rule:
    """The smallest rule found at any of the prices that satisfies constraints and loss target."""
    mdp = problem.result.mdp
    _require_distinct_numbers(mdp.grid)
    searches: list[Search] = []
    points: dict[FrontierPoint, Search] = {}
    smallest = (math.inf, math.inf)
    idle_searches = 0
    for models_left, evaluator, loss_target in problem.iterate_prices():
        now = time.perf_counter()
        if points and (now > deadline or idle_searches >= IDLE_PRICES):
            break
        search = Search(evaluator, loss_target, rule_classes, progress=progress)
        search.deadline = now + (deadline - now) / models_left
        search.size_limit = smallest[0]
        if problem.result.policy is not None:
            is_other = problem.result.policy.table.reshape(-1, 1) != np.arange(mdp.n_actions)
            _add_exact_tables(search, is_other)
        _search_classes(search)
        searches.append(search)
        for point in filter(search.meets_target, search.frontier_points.values()):
            loss = (point.loss - evaluator.gap) / problem.reference
            points[replace(point, loss=loss)] = search
        before = smallest
        smallest = min(((point.size, point.loss) for point in points), default=before)
        idle_searches = idle_searches + 1 if smallest == before else 0
    target = problem.describe_target(searches[0].loss_target)
    rule = _find_proven(mdp, points, problem.prove, target, searches[0], problem.hint)
    facts = rule.facts | {"promised": problem.stated_loss}
    front = _make_frontier(points, rule.outcomes)
    return replace(rule, loss_target=target, facts=facts, frontier=front)


def _certify_smallest(solution: Solution, search: Search) -> Rule:
    """The smallest rule whose certificate meets the loss target, with as few digits as possible."""
    target = search.loss_target

    def prove(policy: Policy) -> ProvenLoss | None:
        proof = prove_loss_bounds(solution, policy, target.start)
        return proof if target.is_proven_by(proof) else None

    points = dict.fromkeys(filter(search.meets_target, search.frontier_points.values()), search)
    return _find_proven(solution.mdp, points, prove, str(target), search, target.hint)


def _find_proven(
    mdp: MDP,
    points: Mapping[FrontierPoint, Search],
    prove: Callable[[Policy], ProvenLoss | None],
    target: str,
    first: Search,
    hint: str,
) -> Rule:
    """The smallest rule with a proof, with as few digits as possible."""
    for original in sorted(points, key=attrgetter("size", "loss")):
        search = points[original]
        classes_by_name = {rule_class.name: rule_class for rule_class in search.rule_classes}
        class_search = ClassSearch(search, classes_by_name[original.kind], original.size)
        for point in chain(generate_shorter_rules(class_search, original), [original]):
            policy = mdp.policy(point.build_tree(mdp.grid), name=point.kind)
            proof = prove(policy)
            if proof is not None:
                return _make_rule(search, point, policy, proof, mdp)
    outcomes = "; ".join(str(outcome) for outcome in first.outcomes)
    requirement = f"no rule with {target} was found in the given classes"
    raise ArgumentError(requirement, value="; ".join(filter(None, [outcomes, hint])))


def _make_rule(
    search: Search, point: FrontierPoint, policy: Policy, proof: ProvenLoss, mdp: MDP
) -> Rule:
    outcomes = tuple(search.outcomes)
    size_needed = max((o.size_needed for o in outcomes if o.kind == point.kind), default=0)
    return Rule(
        policy.grid,
        policy.actions,
        policy.rule,
        point.kind,
        policy.action_name,
        kind=point.kind,
        size_needed=size_needed if size_needed <= point.size else 0,
        loss_target=str(search.loss_target),
        is_average=search.loss_target.is_average,
        certificate=proof.certificate,
        frontier=_make_frontier(search.frontier_points.values(), outcomes),
        outcomes=outcomes,
        sentence=point.candidate.sentence,
        facts=proof.collect_facts(mdp) | {"promised": search.loss_target.stated_loss},
    )


def _make_frontier(
    evaluated: Iterable[FrontierPoint], outcomes: Sequence[ClassOutcome]
) -> Frontier:
    points = sorted(evaluated, key=attrgetter("size", "loss"))
    front = find_pareto_front(points, "loss")
    return Frontier(tuple(front), tuple(points), tuple(outcomes))
