"""The run-length table: where each run of one action begins, two numbers for each run.

States are read along the axes in some order, the last fastest. With a set of actions allowed in
each state, runs that go on as long as one action is allowed are the fewest (greedily, exactly).
Copying the optimal policy is always possible; with costs, actions that cost at most a threshold are
allowed, and the threshold is varied.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.rule_tree import Lookup
from tessella.rules.rule_class import Costs, Fitted, RuleClass, pareto_front

THRESHOLD_COUNT = 12  # thresholds
MAX_AXIS_ORDERS = 6  # orders of the axes, at most


@dataclass(frozen=True)
class RunLength(RuleClass):
    """A table of all states, with runs of one action stored once."""

    name: ClassVar[str] = "run-length table"
    closed_under_slicing: ClassVar[bool] = True

    def why_not_exact(self, costs: Costs) -> str:
        if np.isin(costs.by_state, (0.0, 1.0)).all() and costs.grid.ndim <= 3:
            return ""
        return "the runs are the fewest for actions allowed one by one, not for their sum"

    def max_size(self, costs: Costs) -> float:
        return 2 * costs.grid.size

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        results = []
        for order in list(permutations(range(costs.grid.ndim)))[:MAX_AXIS_ORDERS]:
            array = costs.by_state.reshape(*costs.grid.shape, -1).transpose(*order, -1)
            flat = array.reshape(costs.grid.size, -1)
            for threshold in _list_thresholds(flat):
                if time.perf_counter() > costs.deadline and results:
                    break
                results += _fit_runs(costs, order, flat, threshold, most)
        return pareto_front(results)

    def size_lower_bound(
        self, costs: Costs, target: float, most: int, candidates: list[Fitted]
    ) -> int:
        # The fewest runs are those of no cost at all; with costs of 0 and 1 that is below 1.
        return super().size_lower_bound(costs, target, most, candidates) if target < 1 else 1


def _list_thresholds(flat: NDArray) -> NDArray[np.float64]:
    """Costs up to which actions are allowed: the least of each state, and more and more beyond."""
    excess = flat - flat.min(axis=1, keepdims=True)
    excess = excess[excess > 0]
    if not excess.size or np.isin(flat, (0.0, 1.0)).all():
        return np.zeros(1)
    return np.concatenate([[0.0], np.quantile(excess, np.geomspace(1e-3, 0.6, THRESHOLD_COUNT))])


def _fit_runs(
    costs: Costs, order: tuple[int, ...], flat: NDArray, threshold: float, max_size: int
) -> list[Fitted]:
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
    return [Fitted(root, 2 * len(starts), float(cost))]


def find_fewest_runs(allowed: NDArray, max_runs: int) -> tuple[NDArray, NDArray] | None:
    """(starts, actions) of the fewest runs of (n, A) allowed actions; None beyond ``most``."""
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
