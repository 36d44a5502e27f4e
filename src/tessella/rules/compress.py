"""compress(solution, loss) -> Rule: the smallest rule within a promise, and how small it could be.

Classes are looked at in turn, the quick ones first, each for rules no larger than the best so far;
the table of runs, which is always possible, comes before them all. What is returned has a proven
loss whose upper bound keeps the promise, rounding included.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from tessella.errors import ArgumentError, counted, expect, is_count, is_positive
from tessella.grid import StateGrid
from tessella.mdp.start import Start, start_distribution
from tessella.rules.axis_tree import AxisTree
from tessella.rules.frontier import Frontier, Outcome, Point, undercut
from tessella.rules.judge import Judge
from tessella.rules.linear_cuts import LinearCuts
from tessella.rules.linear_tree import LinearTree
from tessella.rules.monotone_surface import MonotoneSurface
from tessella.rules.one_action import OneAction
from tessella.rules.order_up_to import OrderUpTo
from tessella.rules.promise import Scale, promise
from tessella.rules.proof import Proof, prove
from tessella.rules.rule import Rule
from tessella.rules.rule_class import RuleClass
from tessella.rules.run_length import RunLength
from tessella.rules.search import Search
from tessella.rules.small_network import SmallNetwork
from tessella.rules.staircase import Staircase
from tessella.rules.with_exceptions import WithExceptions
from tessella.solvers.solution import Solution

PROOF = 2  # times as long as judging one rule
SHARE = 1 / 3  # of the time that is left, for one class
APART = 1e-4  # of a promise: losses that differ by less need not be told apart
CLASSES: tuple[RuleClass, ...] = (
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


def compress(
    solution: Solution,
    loss: float = 0.01,
    *,
    start: Start = None,
    worst: bool = False,
    relative: bool = True,
    relative_to: Scale = "optimal",
    classes: Sequence[RuleClass] | None = None,
    time_limit: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Rule:
    """The smallest rule found whose certified loss is within the promise.

    Args:
        loss: what may be lost, as a share of the optimal value from the start.
        start: any start: see ``tessella.mdp.start``; None for the model's own. A stationary start
            is that of the optimal policy.
        worst: promise it for the worst state to start from, not for the mean over the start.
        relative: False for a loss in the model's own units.
        relative_to: "optimal" for a share of ``|J(pi*)|``; "random" for one of J(pi*) - J(random).
        classes: the classes of rules to look at; None for all that come with the package.
        time_limit: seconds after which the best so far is returned. Ctrl-C does the same.
        progress: told in a line, from time to time, how far the search is.
    """
    begun = time.perf_counter()
    search, kinds = _prepared(
        solution, loss, start, worst, relative, relative_to, classes, time_limit, progress
    )
    _leave_time_to_prove(search, begun)
    _run(search, kinds)
    made = _certified(solution, search, kinds)
    return replace(made, seconds=time.perf_counter() - begun)


def frontier(
    solution: Solution,
    most: int = 60,
    *,
    start: Start = None,
    worst: bool = False,
    relative: bool = True,
    relative_to: Scale = "optimal",
    classes: Sequence[RuleClass] | None = None,
    time_limit: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Frontier:
    """Size against loss for all rules of up to ``most`` numbers; arguments as in ``compress``."""
    search, kinds = _prepared(
        solution, 0.0, start, worst, relative, relative_to, classes, time_limit, progress
    )
    _refuse_no_count(most)
    search.whole = True
    try:
        for kind in kinds:
            search.examine(kind, most)
    except KeyboardInterrupt:
        if not search.points:
            raise
    return _frontier(search)


def least_size(
    solution: Solution,
    loss: float,
    kind: RuleClass,
    *,
    start: Start = None,
    worst: bool = False,
    relative: bool = True,
    relative_to: Scale = "optimal",
    most: int = 400,
    time_limit: float | None = None,
) -> Outcome:
    """How small a rule of one class can be: what is proven, and found on the way.

    Arguments as in ``compress``. Sizes up to ``most`` are ruled out by branch and bound, one after
    the other, for as long as the time limit allows. Where no rule is found, ``said`` tells what was
    tried and what may help.
    """
    search, _ = _prepared(
        solution, loss, start, worst, relative, relative_to, [kind], time_limit, None
    )
    _refuse_no_count(most)
    refusal = search.refusal(kind)
    if refusal:
        return Outcome(kind.name, None, 0, refusal)
    needed = search.needed(kind, most)
    needed = search.branch(kind, needed, most, math.inf) if needed else 0
    best = search.best(kind.name)
    size, said = None if best is None else best.size, []
    if best is None and needed > 1:
        said.append(f"none with {counted(needed - 1, 'number')} or fewer keeps the promise")
    elif best is None:
        said += ["nothing is proven", search.effort("rules")]
    said.append(search.ending(best is not None, "a larger loss or `most`"))
    return Outcome(kind.name, size, needed, "; ".join(filter(None, said)))


def _refuse_no_count(most: object) -> None:
    if not is_count(most):
        raise ArgumentError("most is a whole number, at least 1", value=f"got {most!r}")


def _refuse_equal_numbers(grid: StateGrid) -> None:
    """Long integers may differ by less than a double tells, which is what rules compare."""
    for name, numbers in zip(grid.axes, grid.numbers, strict=True):
        unique, counts = np.unique(numbers, return_counts=True)
        if len(unique) < len(numbers):
            rule = "axis values that rules compare must differ as double-precision numbers"
            value = f"holds {counts.max()} of {unique[counts.argmax()]:.0f}"
            raise ArgumentError(rule, place=name, value=value)


def _prepared(
    solution: Solution,
    loss: float,
    start: Start,
    worst: bool,
    relative: bool,
    relative_to: Scale,
    classes: Sequence[RuleClass] | None,
    time_limit: float | None,
    progress: Callable[[str], None] | None,
) -> tuple[Search, tuple[RuleClass, ...]]:
    expect("compress", solution, Solution)
    mdp = solution.mdp
    if isinstance(classes, RuleClass) or not isinstance(classes, Iterable | None):
        rule = "classes is a list of classes of rules"
        raise ArgumentError(rule, value=f"got {classes!r}; say classes=[...]")
    kinds = CLASSES if classes is None else tuple(classes)
    for kind in kinds:
        expect("compress", kind, RuleClass)
    if not kinds:
        raise ArgumentError("compress needs at least one class of rules")
    if time_limit is not None and not is_positive(time_limit):
        rule = "a time limit is a number of seconds above 0"
        raise ArgumentError(rule, value=f"got {time_limit!r}")
    _refuse_equal_numbers(mdp.grid)
    judge = Judge(solution, start_distribution(mdp, start, solution.policy), bool(worst))
    asked = promise(solution, judge, loss, worst, relative, relative_to)
    judge.apart = APART * asked.most
    deadline = float("inf") if time_limit is None else time.perf_counter() + time_limit
    return Search(judge, asked, deadline, progress), kinds


def _run(search: Search, kinds: Sequence[RuleClass]) -> None:
    """Look at one class after the other; an interrupt ends the search, if there is a rule."""
    try:
        for kind in kinds:
            if isinstance(kind, RunLength):
                search.copy(kind)  # always possible, so that there is a rule whatever the limit
        for i, kind in enumerate(kinds):
            now, share = time.perf_counter(), max(SHARE, 1 / (len(kinds) - i))
            search.allotted = now + share * max(search.deadline - now, 0.0)
            best = search.best()
            search.examine(kind, search.largest(kind) if best is None else best.size)
        search.allotted = search.deadline
        for kind in kinds:
            best = search.best()
            if best is not None and best.kind == kind.name:
                search.close(kind)
    except KeyboardInterrupt:
        if search.best() is None:
            raise


def _leave_time_to_prove(search: Search, begun: float) -> None:
    """End the search so early that what is found can be proven within the limit.

    Only where that takes long: in a large model, some times as long as judging one rule.
    """
    limit = search.deadline - begun
    if search.judge.small or limit == float("inf"):
        return
    before = time.perf_counter()
    _ = search.judge.optimal
    proof = PROOF * (time.perf_counter() - before)
    search.deadline -= min(proof, limit / 2)


def _certified(solution: Solution, search: Search, kinds: Sequence[RuleClass]) -> Rule:
    """The smallest rule whose certificate keeps the promise, with the fewest digits that do."""
    named = {kind.name: kind for kind in kinds}
    seeming = (p for p in search.points.values() if search.promise.kept_by(search.judge(p.table)))
    for found in sorted(seeming, key=lambda p: (p.size, p.loss)):
        for point in chain(search.rounded(named[found.kind], found), [found]):
            made = solution.mdp.policy(point.program(solution.mdp.grid), name=point.kind)
            proof = prove(solution, made, search.promise.start)
            if search.promise.proven(proof):
                return _rule(search, point, made, proof)
    told = "; ".join(str(outcome) for outcome in search.outcomes)
    rule = f"no rule of the classes given was found to keep {search.promise}"
    raise ArgumentError(rule, value="; ".join(filter(None, [told, search.promise.hint])))


def _rule(search: Search, point: Point, made: Any, proof: Proof) -> Rule:
    outcomes = tuple(search.outcomes)
    needed = max((o.needed for o in outcomes if o.kind == point.kind), default=0)
    return Rule(
        made.grid,
        made.actions,
        made.rule,
        point.kind,
        made.action_name,
        kind=point.kind,
        size_needed=needed if needed <= point.size else 0,
        promise=str(search.promise),
        certificate=proof.certificate,
        frontier=_frontier(search),
        outcomes=outcomes,
        words=point.fitted.words,
        facts=proof.facts(search.judge.solution) | {"promised": search.promise.loss},
    )


def _frontier(search: Search) -> Frontier:
    points = tuple(sorted(search.points.values(), key=lambda p: (p.size, p.loss)))
    return Frontier(undercut(points), points, tuple(search.outcomes))
