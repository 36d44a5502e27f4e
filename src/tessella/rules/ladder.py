"""Cheapest ordered cuts along one index, for additive costs.

States are sorted by their index and those with equal index form one rung. With c_j the costs of the
j-th action and prefix sums C_j,

    D_0 = C_0,    D_j(t) = C_j(t) + min_{u <= t} (D_{j-1}(u) - C_j(u)),

the least cost of the first t rungs with actions 0..j in this order, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.program import Choose, Node, between, leaf_or_split

ROUNDING = 1e-12  # of an index, in shares of its spread


@dataclass(frozen=True, eq=False)
class Rungs:
    """States by index: rising values (U,), and the (U, A) costs of each."""

    values: NDArray[np.float64]
    costs: NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """Cuts (how many rungs lie below each, rising) and the actions between them."""

    cost: float
    cuts: tuple[int, ...]
    actions: tuple[int, ...]


def rungs(index: NDArray[np.float64], costs: NDArray[np.float64], origin: float = 0.0) -> Rungs:
    """States sorted by index, equal ones together; indexes nearer than rounding are equal.

    Indexes are counted from ``origin``, so that their rounding is one of their spread alone.
    """
    order = np.argsort(index, kind="stable")
    rising = index[order]
    ends = rising[[0, -1]]
    close = rounding(float(ends[1] - ends[0]), float(np.abs(ends + origin).max()))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(rising) > close]))
    return Rungs(rising[starts] + origin, np.add.reduceat(costs[order], starts, axis=0))


def rounding(span: float, size: float) -> float:
    """How much an index may be off: a share of its span, or of its size if that is more."""
    return max(ROUNDING * span, 8 * np.finfo(float).eps * size)


def least_costs(costs: NDArray) -> NDArray[np.float64]:
    """(..., A) the least cost with actions 0..j in order along (..., U, A) rungs, for every j."""
    sums = np.zeros((costs.shape[-1], *costs.shape[:-2], costs.shape[-2] + 1))
    np.cumsum(np.moveaxis(costs, -1, 0), axis=-1, out=sums[..., 1:])
    best, found = sums[0], [sums[0, ..., -1]]
    for row in sums[1:]:
        best = row + np.minimum.accumulate(best - row, axis=-1)
        found.append(best[..., -1])
    return np.stack(found, axis=-1)


def in_order(costs: NDArray, last: int) -> Steps:
    """The cheapest cuts with the actions 0..last in this order."""
    sums = np.concatenate([np.zeros((1, costs.shape[1])), np.cumsum(costs, axis=0)])
    best, choices = sums[:, 0], []
    for j in range(1, last + 1):
        ahead = best - sums[:, j]
        least = np.minimum.accumulate(ahead)
        changed = np.concatenate([[True], least[1:] < least[:-1]])
        at = np.maximum.accumulate(np.where(changed, np.arange(len(least)), 0))
        choices.append(at)
        best = sums[:, j] + least
    cuts, t = [], len(costs)
    for at in reversed(choices):
        t = int(at[t])
        cuts.append(t)
    return Steps(float(best[-1]), tuple(reversed(cuts)), tuple(range(last + 1)))


def cut_below(values: NDArray, below: int) -> float:
    """A number of few digits that so many of the rising values lie below, clear of all of them."""
    step = max(float(values[-1] - values[0]), 1.0) / max(len(values) - 1, 1)
    step = max(step, float(np.spacing(np.abs(values).max())))
    low = values[below - 1] if below else values[0] - 2 * step
    high = values[below] if below < len(values) else values[-1] + 2 * step
    return between(float(low), float(high))


def steps_node(weights: tuple, values: NDArray, steps: Steps, against: bool = False) -> Node:
    """Steps along rising values, or along falling ones, as a split."""
    cuts = [len(values) - c for c in reversed(steps.cuts)] if against else [*steps.cuts]
    actions = steps.actions[::-1] if against else steps.actions
    if len(values) == 1:
        return Choose(actions[cuts.count(0)])
    branches = tuple(map(Choose, actions))
    return leaf_or_split(weights, tuple(cut_below(values, c) for c in cuts), branches)


def node_of_rungs(weights: tuple, values: NDArray, actions: NDArray) -> Node:
    """A split that takes these actions at these rising values."""
    changes = np.flatnonzero(np.diff(actions)) + 1
    taken = (int(actions[0]), *(int(actions[c]) for c in changes))
    return steps_node(weights, values, Steps(0.0, tuple(map(int, changes)), taken))
