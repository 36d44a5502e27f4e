"""Cheapest ordered cuts along one index, for additive costs.

States are sorted by their index and those with equal index form one level. With c_j the costs of
the j-th action and prefix sums C_j,

    D_0 = C_0,    D_j(t) = C_j(t) + min_{u <= t} (D_{j-1}(u) - C_j(u)),

the least cost of the first t levels with actions 0..j in this order, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.rule_tree import Leaf, Node, leaf_or_split, short_number_between

INDEX_RELATIVE_TOLERANCE = 1e-12  # of the spread of an index


@dataclass(frozen=True, eq=False)
class SortedStates:
    """States by index: rising values (U,), and the (U, A) costs of each."""

    values: NDArray[np.float64]
    costs: NDArray[np.float64]


@dataclass(frozen=True)
class OrderedCuts:
    """Cuts (how many levels lie below each, rising) and the actions between them."""

    cost: float
    cuts: tuple[int, ...]
    actions: tuple[int, ...]


def sort_states(
    index: NDArray[np.float64], costs: NDArray[np.float64], origin: float = 0.0
) -> SortedStates:
    """States sorted by index, equal ones together; indexes nearer than rounding are equal.

    Indexes are counted from ``origin``, so that their rounding is one of their spread alone.
    """
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    ends = sorted_index[[0, -1]]
    tolerance = rounding(float(ends[1] - ends[0]), float(np.abs(ends + origin).max()))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(sorted_index) > tolerance]))
    return SortedStates(
        sorted_index[starts] + origin, np.add.reduceat(costs[order], starts, axis=0)
    )


def rounding(span: float, size: float) -> float:
    """How much an index may be off: a share of its span, or of its size if that is more."""
    return max(INDEX_RELATIVE_TOLERANCE * span, 8 * np.finfo(float).eps * size)


def compute_least_costs(costs: NDArray) -> NDArray[np.float64]:
    """(..., A) the least cost with actions 0..j in order along (..., U, A) levels, for every j."""
    sums = np.zeros((costs.shape[-1], *costs.shape[:-2], costs.shape[-2] + 1))
    np.cumsum(np.moveaxis(costs, -1, 0), axis=-1, out=sums[..., 1:])
    best = sums[0]
    totals = [sums[0, ..., -1]]
    for row in sums[1:]:
        best = row + np.minimum.accumulate(best - row, axis=-1)
        totals.append(best[..., -1])
    return np.stack(totals, axis=-1)


def find_optimal_cuts(costs: NDArray, last: int) -> OrderedCuts:
    """The cheapest cuts with the actions 0..last in this order."""
    sums = np.concatenate([np.zeros((1, costs.shape[1])), np.cumsum(costs, axis=0)])
    best = sums[:, 0]
    choices = []
    for j in range(1, last + 1):
        advantage = best - sums[:, j]
        lowest = np.minimum.accumulate(advantage)
        is_lower = np.concatenate([[True], lowest[1:] < lowest[:-1]])
        origin = np.maximum.accumulate(np.where(is_lower, np.arange(len(lowest)), 0))
        choices.append(origin)
        best = sums[:, j] + lowest
    cuts = []
    t = len(costs)
    for origin in reversed(choices):
        t = int(origin[t])
        cuts.append(t)
    return OrderedCuts(float(best[-1]), tuple(reversed(cuts)), tuple(range(last + 1)))


def choose_cut(values: NDArray, n_below: int) -> float:
    """A number of few digits that so many of the rising values lie below, clear of all of them."""
    step = max(float(values[-1] - values[0]), 1.0) / max(len(values) - 1, 1)
    step = max(step, float(np.spacing(np.abs(values).max())))
    low = values[n_below - 1] if n_below else values[0] - 2 * step
    high = values[n_below] if n_below < len(values) else values[-1] + 2 * step
    return short_number_between(float(low), float(high))


def build_split(
    weights: tuple, values: NDArray, ordered_cuts: OrderedCuts, is_reversed: bool = False
) -> Node:
    """Steps along rising values, or along falling ones, as a split."""
    cuts = (
        [len(values) - c for c in reversed(ordered_cuts.cuts)]
        if is_reversed
        else [*ordered_cuts.cuts]
    )
    actions = ordered_cuts.actions[::-1] if is_reversed else ordered_cuts.actions
    if len(values) == 1:
        return Leaf(actions[cuts.count(0)])
    branches = tuple(map(Leaf, actions))
    return leaf_or_split(weights, tuple(choose_cut(values, c) for c in cuts), branches)


def build_split_from_actions(weights: tuple, values: NDArray, actions: NDArray) -> Node:
    """A split that takes these actions at these rising values."""
    changes = np.flatnonzero(np.diff(actions)) + 1
    run_actions = (int(actions[0]), *(int(actions[c]) for c in changes))
    return build_split(weights, values, OrderedCuts(0.0, tuple(map(int, changes)), run_actions))
