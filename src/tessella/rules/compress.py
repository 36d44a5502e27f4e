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
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from tessella.errors import (
    ArgumentError,
    is_positive,
    require_type,
    require_whole,
)
from tessella.grid import StateGrid
from tessella.mdp.measures import Constraint
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rules.candidates import generate_rounded_rules
from tessella.rules.class_search import (
    explain_inapplicable,
    prove_size_lower_bound,
    raise_size_lower_bound,
    search_class,
    summarise,
    tighten_outcome,
)
from tessella.rules.constrained_rules import ConstrainedProblem
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.inventory_rules import collect_parameters
from tessella.rules.linear_cuts import LinearCuts, Staircase
from tessella.rules.loss_target import (
    LossReference,
    ProvenLoss,
    make_loss_target,
    prove_loss_upper_bounds,
    require_flag,
)
from tessella.rules.monotone_surface import MonotoneSurface
from tessella.rules.order_up_to import OrderUpTo
from tessella.rules.rule import ClassOutcome, Frontier, FrontierPoint, Rule
from tessella.rules.rule_class import RuleClass, find_pareto_front
from tessella.rules.search import ClassSearch, Search, SearchEffort
from tessella.rules.small_network import SmallNetwork
from tessella.rules.table_rules import OneAction, RunLength, WithExceptions
from tessella.rules.trees import AxisTree, LinearTree
from tessella.solvers.constraints.constrained_solution import ConstrainedSolution
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve
from tessella.support.progress import show_status

Preference = Literal["readable", "smallest"]
PROOF_TIME_FACTOR = 2  # times as long as evaluating one rule
READABLE_CLASS_TIME_SHARE = 1 / 3  # of the time that is left, for rules that are a sentence
LOSS_TOLERANCE_SHARE = 1e-4  # of the loss target: smaller differences of losses are ignored
MAX_IDLE_PRICES = 2  # prices in turn at which no better constrained rule was found
EXPLAINED_MAX_CLASSES = 3  # classes of which a failed search says what became of each
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

    classes: Sequence[RuleClass | str] | None
    progress: Callable[[str], None] | bool | None


def compress(
    solution: Solution | ConstrainedSolution | MDP,
    loss: float | str = 0.01,
    *,
    start: Start = None,
    worst: bool = False,
    relative: bool = True,
    relative_to: LossReference = "optimal",
    classes: Sequence[RuleClass | str] | None = None,
    prefer: Preference = "readable",
    time_limit: float | None = None,
    progress: Callable[[str], None] | bool | None = None,
    subject_to: Mapping[str, Constraint] | None = None,
) -> Rule:
    """The smallest rule found whose certified loss is within ``loss``.

    Args:
        solution: of a model; with constraints, the model or its constrained solution also works.
        loss: what may be lost, as a share of the optimal value from the start; also as a text,
            ``"1%"`` or ``"12.5 units"`` of the model.
        start: any start: see ``tessella.mdp.start``; None for the model's own. A stationary start
            is that of the optimal policy.
        worst: bound the loss from the worst state, not the mean over the start.
        relative: False for a loss in the model's own units.
        relative_to: "optimal" for a share of ``|J(pi*)|``; "random" for one of J(pi*) - J(random).
        classes: the classes of rules to search, also by name; None for all that come with the
            package.
        prefer: "readable" for a rule that is easier to read than the smallest, if it has at most
            one parameter more; "smallest" for the smallest in any case.
        time_limit: seconds after which the best so far is returned. Ctrl-C does the same.
        progress: True to show how far the search is, as the command line does; or a function that
            receives a line from time to time.
        subject_to: constraints on measures, ``{"fill_rate": AtLeast(0.98)}``: the rule satisfies
            them, and its loss is measured against the best policy that does, randomised ones
            included, from the model's own start.

    Returns:
        The rule, with its certificate, and the other rules that were found.

    Raises:
        ArgumentError: no rule of the given classes is within the limit (the message lists what was
            tried), the solution is not exact enough for it, or an argument is out of range.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, loss="1%", classes=["linear index"])
        >>> print(rule.explain().splitlines()[0])
        admit=1 where queue + regime is at most 37
    """
    started = time.perf_counter()
    if prefer not in get_args(Preference):
        raise ArgumentError("prefer is 'readable' or 'smallest'", value=f"got {prefer!r}")
    with show_status(progress) as status:
        if subject_to is None and not isinstance(solution, ConstrainedSolution):
            require_type("compress", solution, Solution)
            assert isinstance(solution, Solution)
            search = prepare_search(
                solution, loss, start, worst, relative, relative_to, classes, time_limit, status
            )
            search.prefers_readable = prefer == "readable"
            _reserve_proof_time(search, started)
            _search_classes(search)
            rule = _certify_smallest(search)
        else:
            if start is not None or worst or relative_to != "optimal":
                requirement = "subject_to is about means over the model's own start"
                raise ArgumentError(requirement, value="got start, worst or relative_to")
            deadline = _find_deadline(time_limit)
            rule_classes = check_classes("compress", classes)
            result: Any = solution
            if subject_to is not None:
                mdp: Any = getattr(solution, "mdp", solution)
                result = solve(mdp, subject_to=subject_to)
            problem = ConstrainedProblem(result, loss, relative)
            is_readable = prefer == "readable"
            rule = _compress_constrained(problem, rule_classes, deadline, status, is_readable)
    return replace(rule, seconds=time.perf_counter() - started)


def frontier(solution: Solution, max_size: int = 60, **options: Unpack[SearchOptions]) -> Frontier:
    """Size against loss: the best rule of each size up to ``max_size``.

    Args:
        solution: of a model.
        max_size: the most parameters that a rule may have.
        options: ``start``, ``worst``, ``relative``, ``relative_to``, ``classes``, ``time_limit``
            and ``progress``, as in ``compress``.

    Returns:
        The rules, and what was found in each class.

    Raises:
        ArgumentError: an argument is out of range.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> found = ts.frontier(solution, max_size=2, classes=["linear index"])
        >>> [(point.size, round(point.loss, 4)) for point in found.points]
        [(1, 0.0019), (2, 0.0001)]
    """
    _require_known_options("frontier", options, SearchOptions)
    with show_status(options.get("progress")) as status:
        options["progress"] = status
        search = prepare_search(solution, 0.0, caller="frontier", **options)
        return find_frontier(search, max_size)


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
    """How small a rule of one class can be: what is proven, and what is found on the way.

    Sizes up to ``max_size`` are ruled out by branch and bound, one after the other, for as long as
    the time limit allows.

    Args:
        solution: of a model.
        loss: what may be lost, as in ``compress``.
        rule_class: the class.
        max_size: larger rules are not searched.
        options: ``start``, ``worst``, ``relative``, ``relative_to`` and ``time_limit``, as in
            ``compress``.

    Returns:
        The smallest rule found and the smallest size that is not ruled out; without a rule,
        ``explanation`` says what was tried and what may help.

    Raises:
        ArgumentError: an argument is out of range.

    Example:
        >>> shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
        >>> print(ts.least_size(ts.solve(shop), 0.01, ts.LinearCuts()))
        linear index: 2 parameters, at least 2 needed
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
    return summarise(class_search, "a larger loss or `max_size`")


def _require_known_options(caller: str, options: Mapping[str, Any], known: type) -> None:
    """Reject an option that ``known`` does not declare, as a signature would."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}")


def _require_distinct_numbers(grid: StateGrid) -> None:
    """Reject long integers that differ by less than doubles resolve: rules compare doubles."""
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
    classes: Sequence[RuleClass | str] | None = None,
    time_limit: float | None = None,
    progress: Callable[[str], None] | bool | None = None,
    effort: SearchEffort = DEFAULT_EFFORT,
    caller: str = "compress",
) -> Search:
    """A search that has not begun, with checked arguments as in ``compress``.

    ``caller`` is the function that error messages name.
    """
    require_type(caller, solution, Solution)
    solution.require_values(caller)
    mdp = solution.mdp
    rule_classes = check_classes(caller, classes)
    deadline = _find_deadline(time_limit)
    require_flag("worst", worst)
    _require_distinct_numbers(mdp.grid)
    distribution = start_distribution(mdp, start, solution.policy, solution.policy_plan)
    evaluator = PolicyEvaluator(solution, distribution, bool(worst))
    loss_target = make_loss_target(evaluator, loss, relative, relative_to)
    evaluator.loss_tolerance = LOSS_TOLERANCE_SHARE * loss_target.limit
    status = None if isinstance(progress, bool) else progress
    return Search(evaluator, loss_target, rule_classes, deadline, status, effort)


def _find_deadline(time_limit: float | None) -> float:
    """When to stop, on the clock of ``time.perf_counter``."""
    if time_limit is None:
        return math.inf
    if not is_positive(time_limit):
        requirement = "a time limit is a number of seconds above 0"
        raise ArgumentError(requirement, value=f"got {time_limit!r}")
    return time.perf_counter() + time_limit


def check_classes(caller: str, classes: Sequence[RuleClass | str] | None) -> tuple[RuleClass, ...]:
    """The classes of rules, by themselves or by name: ``order up to``, also ``order-up-to``."""
    if isinstance(classes, RuleClass | str) or not isinstance(classes, Iterable | None):
        requirement = "classes is a list of classes of rules"
        raise ArgumentError(requirement, value=f"got {classes!r}; pass classes=[...]")
    rule_classes = DEFAULT_CLASSES if classes is None else tuple(map(_find_class, classes))
    for rule_class in rule_classes:
        require_type(caller, rule_class, RuleClass)
    if not rule_classes:
        raise ArgumentError(f"{caller} needs at least one class of rules")
    return rule_classes


def _find_class(given: Any) -> Any:
    """A class of rules by its name; what is no text as it is."""
    if not isinstance(given, str):
        return given
    by_name = {rule_class.name: rule_class for rule_class in DEFAULT_CLASSES}
    name = given.strip().lower().replace("-", " ").replace("_", " ")
    for known, rule_class in by_name.items():
        if name == known.replace("-", " "):
            return rule_class
    raise ArgumentError(f"the classes of rules are {', '.join(by_name)}", value=f"got {given!r}")


def _search_classes(search: Search) -> None:
    """Search one class after the other; an interrupt ends the search, if there is a rule."""
    try:
        # Always possible, so that there is a rule whatever the time limit.
        _add_exact_tables(search, search.evaluator.action_loss > 0)
        unfinished = _search_in_turn(search, search.rule_classes)
        _search_in_turn(search, unfinished)
        search.class_deadline = search.deadline
        for rule_class in search.rule_classes:
            best = search.choose_rule(filter(search.meets_target, search.frontier_points.values()))
            if best is not None and best.kind == rule_class.name:
                tighten_outcome(search, rule_class, best)
    except KeyboardInterrupt:
        if search.find_smallest() is None:
            raise


def _search_in_turn(search: Search, rule_classes: Sequence[RuleClass]) -> list[RuleClass]:
    """Search classes, each for its share of the time that is left: those that it was too short for.

    Each is searched for rules no larger than the best so far; for one more parameter, if its rules
    are easier to read.
    """
    unfinished = []
    for i, rule_class in enumerate(rule_classes):
        now = time.perf_counter()
        if search.is_time_up and any(known.kind == rule_class.name for known in search.outcomes):
            continue
        share = 1 / (len(rule_classes) - i)
        if rule_class.reading_rank == 1:
            share = max(share, READABLE_CLASS_TIME_SHARE)
        search.class_deadline = now + share * max(search.deadline - now, 0.0)
        best = search.find_smallest()
        max_size = search.max_size(rule_class)
        if best is not None:
            is_easier = rule_class.reading_rank < search.get_reading_rank(best)
            max_size = min(best.size + int(is_easier), max_size)
        search_class(search, rule_class, max_size)
        if search.is_class_time_up:
            unfinished.append(rule_class)
    return unfinished


def _add_exact_tables(search: Search, is_forbidden: NDArray[np.bool_]) -> None:
    """Add the smallest tables of runs that take no forbidden action (S, A)."""
    costs = search.make_costs(is_forbidden.astype(float))
    for rule_class in search.rule_classes:
        if isinstance(rule_class, RunLength) and not explain_inapplicable(search, rule_class):
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
    prefers_readable: bool,
) -> Rule:
    """The smallest rule found at any of the prices that satisfies constraints and loss target."""
    mdp = problem.result.mdp
    _require_distinct_numbers(mdp.grid)
    searches: list[Search] = []
    points: dict[FrontierPoint, Search] = {}
    smallest = (math.inf, math.inf)
    idle_searches = 0
    for models_left, evaluator, loss_target in problem.iterate_multipliers():
        now = time.perf_counter()
        if points and (now > deadline or idle_searches >= MAX_IDLE_PRICES):
            break
        search = Search(evaluator, loss_target, rule_classes, progress=progress)
        search.prefers_readable = prefers_readable
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
    facts = rule.facts | {"loss_limit": problem.stated_loss}
    front = _make_frontier(points, rule.outcomes)
    return replace(rule, loss_target=target, facts=facts, frontier=front)


def _certify_smallest(search: Search) -> Rule:
    """The smallest rule whose certificate meets the loss target, with as few digits as possible."""
    target = search.loss_target
    solution = search.evaluator.solution

    def prove(policy: Policy) -> ProvenLoss | None:
        proof = prove_loss_upper_bounds(solution, policy, search.evaluator.start)
        return proof if target.is_proven_by(proof) else None

    points = dict.fromkeys(filter(search.meets_target, search.frontier_points.values()), search)
    return _find_proven(solution.mdp, points, prove, str(target), search, target.hint)


def _find_proven(
    mdp: MDP,
    points: Mapping[FrontierPoint, Search],
    prove: Callable[[Policy], ProvenLoss | None],
    loss_text: str,
    first_search: Search,
    hint: str,
) -> Rule:
    """The smallest rule with a proof, with as few digits as possible."""
    remaining = list(points)
    while remaining:
        exact = first_search.choose_rule(remaining)
        assert exact is not None
        remaining.remove(exact)
        search = points[exact]
        classes_by_name = {rule_class.name: rule_class for rule_class in search.rule_classes}
        class_search = ClassSearch(search, classes_by_name[exact.kind], exact.size)
        for point in chain(generate_rounded_rules(class_search, exact), [exact]):
            policy = mdp.policy(point.candidate.build_tree(mdp.grid), name=point.kind)
            proof = prove(policy)
            if proof is not None:
                return _make_rule(search, point, policy, proof, mdp)
    lines = [f"no rule with {loss_text} was found in the given classes", hint]
    if len(first_search.outcomes) <= EXPLAINED_MAX_CLASSES:
        lines += map(str, first_search.outcomes)
    else:
        kinds = ", ".join(outcome.kind for outcome in first_search.outcomes)
        remedies = "more time or a larger loss" if first_search.is_time_up else "a larger loss"
        lines += [f"searched: {kinds}", f"{remedies} may allow one"]
    raise ArgumentError("\n  ".join(filter(None, lines)))


def _make_rule(
    search: Search, point: FrontierPoint, policy: Policy, proof: ProvenLoss, mdp: MDP
) -> Rule:
    outcomes = tuple(search.outcomes)
    size_needed = max((o.size_needed for o in outcomes if o.kind == point.kind), default=0)
    facts = proof.collect_facts(mdp) | {"loss_limit": search.loss_target.stated_loss}
    if point.candidate.component_rules:
        facts["parameters"] = collect_parameters(point.candidate.component_rules)
    return Rule(
        policy.grid,
        policy.actions,
        policy.rule,
        point.kind,
        policy.action_name,
        kind=point.kind,
        size_needed=size_needed if size_needed <= point.size else 0,
        loss_target=str(search.loss_target),
        is_average=search.evaluator.is_average,
        certificate=proof.certificate,
        frontier=_make_frontier(search.frontier_points.values(), outcomes),
        outcomes=outcomes,
        sentence=point.candidate.sentence,
        facts=facts,
    )


def _make_frontier(
    evaluated: Iterable[FrontierPoint], outcomes: Sequence[ClassOutcome]
) -> Frontier:
    points = sorted(evaluated, key=attrgetter("size", "loss"))
    front = find_pareto_front(points, "loss")
    return Frontier(tuple(front), tuple(points), tuple(outcomes))
