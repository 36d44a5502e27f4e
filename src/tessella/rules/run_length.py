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

from tessella.mdp.program import Lookup
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

THRESHOLDS = 12
ORDERS = 6  # of the axes, at most


@dataclass(frozen=True)
class RunLength(RuleClass):
    """A table of all states, with runs of one action stored once."""

    name: ClassVar[str] = "run-length table"
    slices: ClassVar[bool] = True

    def heuristic(self, costs: Costs) -> str:
        if np.isin(costs.by_state, (0.0, 1.0)).all() and costs.grid.ndim <= 3:
            return ""
        return "the runs are the fewest for actions allowed one by one, not for their sum"

    def largest(self, costs: Costs) -> float:
        return 2 * costs.grid.size

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        found = []
        for order in list(permutations(range(costs.grid.ndim)))[:ORDERS]:
            array = costs.by_state.reshape(*costs.grid.shape, -1).transpose(*order, -1)
            flat = array.reshape(costs.grid.size, -1)
            for threshold in _thresholds(flat):
                if time.perf_counter() > costs.deadline and found:
                    break
                found += _table(costs, order, flat, threshold, most)
        return falling(found)

    def needed(self, costs: Costs, target: float, most: int, fits: list[Fitted]) -> int:
        # The fewest runs are those of no cost at all; with costs of 0 and 1 that is below 1.
        return super().needed(costs, target, most, fits) if target < 1 else 1


def _thresholds(flat: NDArray) -> NDArray[np.float64]:
    """Costs up to which actions are allowed: the least of each state, and more and more beyond."""
    beyond = flat - flat.min(axis=1, keepdims=True)
    beyond = beyond[beyond > 0]
    if not beyond.size or np.isin(flat, (0.0, 1.0)).all():
        return np.zeros(1)
    return np.concatenate([[0.0], np.quantile(beyond, np.geomspace(1e-3, 0.6, THRESHOLDS))])


def _table(
    costs: Costs, order: tuple[int, ...], flat: NDArray, threshold: float, most: int
) -> list[Fitted]:
    """A table of runs, if it is small enough."""
    allowed = flat <= flat.min(axis=1, keepdims=True) + threshold
    runs = fewest_runs(allowed, most // 2)
    if runs is None:
        return []
    starts, actions = runs
    ends = np.append(starts[1:], len(flat))
    cost = flat[np.arange(len(flat)), np.repeat(actions, ends - starts)].sum()
    axes = tuple(costs.grid.axes[k] for k in order)
    root = Lookup(axes, tuple(map(int, starts)), tuple(map(int, actions)))
    return [Fitted(root, 2 * len(starts), float(cost))]


def fewest_runs(allowed: NDArray, most: int) -> tuple[NDArray, NDArray] | None:
    """(starts, actions) of the fewest runs of (n, A) allowed actions; None beyond ``most``."""
    n = len(allowed)
    stops = np.where(allowed, n, np.arange(n)[:, None])  # the next state where an action stops
    stops = np.minimum.accumulate(stops[::-1], axis=0)[::-1]
    reach, action = stops.max(axis=1), stops.argmax(axis=1)
    starts, at = [], 0
    while at < n:
        if len(starts) >= most:
            return None
        starts.append(at)
        at = int(reach[at])
    begun = np.array(starts)
    return begun, action[begun]
