"""One action everywhere, tables of runs of one action, and rules with exceptions.

**One action** is a single number. A **run-length table** stores where each run of one action
begins, two numbers for each run. States are read along the axes in some order, the last fastest.
With a set of actions allowed in each state, runs that go on as long as one action is allowed are
the fewest (greedily, exactly). Copying the optimal policy is always possible; with costs, actions
that cost at most a threshold are allowed, and the threshold is varied.

**A rule with exceptions** is a small rule, and some states by name that do otherwise. An exception
stores the state's coordinates and its action. Those that save most come first, which is the best
for a given rule; which rule to begin with is searched for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import permutations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.actions import describe_action
from tessella.mdp.rule_tree import Exceptions, Leaf, Lookup
from tessella.rules.linear_cuts import LinearCuts
from tessella.rules.order_up_to import OrderUpTo
from tessella.rules.rule_class import (
    Candidate,
    Costs,
    RuleClass,
    find_pareto_front,
    format_state,
)

THRESHOLD_COUNT = 12  # thresholds
MAX_AXIS_ORDERS = 6  # orders of the axes, at most
MAX_EXCEPTIONS = 40  # exceptions
EXCEPTIONS_MAX_STATES = 20_000  # states, beyond which none is worth naming


@dataclass(frozen=True)
class OneAction(RuleClass):
    """The same action in every state.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "10%", classes=[ts.OneAction()])
        >>> print(rule.explain().splitlines()[0])
        Always admit 1.
    """

    name: ClassVar[str] = "one action"
    reading_rank: ClassVar[int] = 1

    def why_not_exact(self, costs: Costs) -> str:
        return ""

    def max_size(self, costs: Costs) -> float:
        return 1

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        totals = costs.by_state.sum(axis=0)
        best = int(totals.argmin())
        return [Candidate(Leaf(best), 1, float(totals[best]))] if max_size >= 1 else []


@dataclass(frozen=True)
class RunLength(RuleClass):
    """A table of all states, with runs of one action stored once.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.RunLength()])
        >>> rule.size
        4
    """

    name: ClassVar[str] = "run-length table"
    reading_rank: ClassVar[int] = 4
    closed_under_slicing: ClassVar[bool] = True

    def why_not_exact(self, costs: Costs) -> str:
        if np.isin(costs.by_state, (0.0, 1.0)).all() and costs.grid.ndim <= 3:
            return ""
        return "the runs are the fewest for actions allowed one by one, not for their sum"

    def max_size(self, costs: Costs) -> float:
        return 2 * costs.grid.size

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        results = []
        for order in list(permutations(range(costs.grid.ndim)))[:MAX_AXIS_ORDERS]:
            array = costs.by_state.reshape(*costs.grid.shape, -1).transpose(*order, -1)
            flat = array.reshape(costs.grid.size, -1)
            for threshold in _list_thresholds(flat):
                if time.perf_counter() > costs.deadline and results:
                    break
                results += _fit_runs(costs, order, flat, threshold, max_size)
        return find_pareto_front(results)

    def size_lower_bound(
        self, costs: Costs, cost_limit: float, max_size: int, candidates: list[Candidate]
    ) -> int:
        # The fewest runs are those of no cost at all; with costs of 0 and 1 that is below 1.
        if cost_limit >= 1:
            return 1
        return super().size_lower_bound(costs, cost_limit, max_size, candidates)


def _list_thresholds(flat: NDArray) -> NDArray[np.float64]:
    """Costs up to which actions are allowed: the least of each state, and more and more beyond."""
    excess = flat - flat.min(axis=1, keepdims=True)
    excess = excess[excess > 0]
    if not excess.size or np.isin(flat, (0.0, 1.0)).all():
        return np.zeros(1)
    return np.concatenate([[0.0], np.quantile(excess, np.geomspace(1e-3, 0.6, THRESHOLD_COUNT))])


def _fit_runs(
    costs: Costs, order: tuple[int, ...], flat: NDArray, threshold: float, max_size: int
) -> list[Candidate]:
    """A table of runs, if it is small enough."""
    allowed = flat <= flat.min(axis=1, keepdims=True) + threshold
    runs = find_fewest_runs(allowed, max_size // 2)
    if runs is None:
        return []
    starts, actions = runs
    ends = np.append(starts[1:], len(flat))
    cost = flat[np.arange(len(flat)), np.repeat(actions, ends - starts)].sum()
    axes = tuple(costs.grid.axes[k] for k in order)
    root = Lookup(axes, tuple(map(int, starts)), tuple(map(int, actions)))
    return [Candidate(root, 2 * len(starts), float(cost))]


def find_fewest_runs(allowed: NDArray, max_runs: int) -> tuple[NDArray, NDArray] | None:
    """(starts, actions) of the fewest runs of (n, A) allowed actions; None beyond ``max_runs``."""
    n = len(allowed)
    stops = np.where(allowed, n, np.arange(n)[:, None])  # the next state where an action stops
    stops = np.minimum.accumulate(stops[::-1], axis=0)[::-1]
    run_end = stops.max(axis=1)
    action = stops.argmax(axis=1)
    starts = []
    state = 0
    while state < n:
        if len(starts) >= max_runs:
            return None
        starts.append(state)
        state = int(run_end[state])
    first_states = np.array(starts)
    return first_states, action[first_states]


@dataclass(frozen=True)
class WithExceptions(RuleClass):
    """Rules of other classes, with states that do otherwise.

    Attributes:
        bases: the classes of the rules that have exceptions.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.WithExceptions()])
        >>> print(rule.explain().splitlines()[0])
        Admit while queue + regime is at most 38; otherwise do not.
    """

    bases: tuple[RuleClass, ...] = field(default=(OneAction(), OrderUpTo(), LinearCuts()))
    name: ClassVar[str] = "rule with exceptions"
    reading_rank: ClassVar[int] = 4

    def why_not_applicable(self, costs: Costs) -> str:
        if costs.grid.size > EXCEPTIONS_MAX_STATES:
            return f"a few of {costs.grid.size:,} states, named one by one, make no difference"
        return ""

    def why_not_exact(self, costs: Costs) -> str:
        return "which rule to make exceptions to is searched for"

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        exception_size = costs.grid.ndim + 1
        results: list[Candidate] = []
        for base in self.bases:
            if base.why_not_applicable(costs):
                continue
            for candidate in base.fit(costs, max_size - exception_size, cost_limit):
                count = min((max_size - candidate.size) // exception_size, MAX_EXCEPTIONS)
                results += _add_exceptions(costs, candidate, count, cost_limit)
        return find_pareto_front(results)


def _add_exceptions(
    costs: Costs, base: Candidate, max_exceptions: int, cost_limit: float
) -> list[Candidate]:
    """The rule with 1, 2, ... exceptions, until it costs no more than the limit."""
    if max_exceptions < 1:
        return []
    chosen = base.build_tree(costs.grid)(costs.grid.points)
    all_states = np.arange(len(chosen))
    exception_size = costs.grid.ndim + 1
    savings = costs.by_state[all_states, chosen] - costs.by_state.min(axis=1)
    costliest = np.argsort(-savings, kind="stable")[:max_exceptions]
    costliest = costliest[savings[costliest] > 0]
    remaining_cost = base.cost - np.cumsum(savings[costliest])
    is_enough = remaining_cost <= cost_limit
    n_needed = int(np.argmax(is_enough)) + 1 if is_enough.any() else len(costliest)
    best_actions = costs.by_state.argmin(axis=1)
    coordinates = costs.grid.coordinates(costliest)
    states = list(zip(*(values.tolist() for values in coordinates.values()), strict=True))
    candidates = []
    for n in range(1, n_needed + 1):
        actions = tuple(int(a) for a in best_actions[costliest[:n]])
        root = Exceptions(tuple(states[:n]), actions, base.root)
        sentence = _describe_with_exceptions(costs, base.sentence, states[:n], actions)
        size = base.size + exception_size * n
        cost = max(float(remaining_cost[n - 1]), 0.0)
        candidates.append(Candidate(root, size, cost, sentence))
    return candidates


def _describe_with_exceptions(
    costs: Costs, sentence: str, places: list[tuple], actions: tuple[int, ...]
) -> str:
    """The sentence of the rule, and a line for each exception; empty where it has no sentence."""
    if not sentence:
        return ""
    lines = [sentence, "Except:"]
    for place, action in zip(places, actions, strict=True):
        name = describe_action(costs.action_name, costs.actions[action])
        lines.append(f"{name} where {format_state(costs.grid.axes, place)}")
    return "\n".join(lines)
