"""One linear index with ordered cuts: index = x_1 + w_2 x_2 + ...

It stores the weights but the first, and its cuts; the actions are the first ones of the model's
list, in their order, along the rising or the falling index.

With two axes of evenly spaced values, all that a direction decides is the order of the states,
which changes only where two of them change places: one direction between every two such slopes is
all there is to try, and the best index is found for certain. Other weights are searched for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.program import Split
from tessella.rules.ladder import Rungs, in_order, least_costs, rounding, rungs, steps_node
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

ROUGH = 40_000  # states in a search for weights; more are looked at in blocks
ROUNDS = 12  # of a search, all weights in turn
DIGITS = 9


@dataclass(frozen=True)
class LinearCuts(RuleClass):
    """Ordered cuts of one weighted sum of the axes.

    Attributes:
        work: the most additions that are spent on trying all directions.
    """

    work: float = 4e7
    name: ClassVar[str] = "linear index"
    slices: ClassVar[bool] = True

    def refusal(self, costs: Costs) -> str:
        return costs.unsummable if costs.numeric else "no axis has numbers"

    def heuristic(self, costs: Costs) -> str:
        if len(costs.numeric) > 2:
            return "weights of three or more axes are searched for"
        return "" if len(costs.numeric) < 2 else self._unsure(costs, costs.numeric)

    def largest(self, costs: Costs) -> float:
        return len(costs.numeric) + len(costs.actions) - 2

    def _unsure(self, costs: Costs, pair: tuple[int, ...]) -> str:
        """Why not all directions of two axes can be tried; empty if they can."""
        if not all(_even(costs.rising[k]) for k in pair):
            return "the values of an axis are not evenly spaced, so weights are searched for"
        n, m = (len(costs.rising[k]) for k in pair)
        if 1.2 * (n * m) ** 2 * len(costs.actions) > self.work:
            return "there are too many directions to try all, so weights are searched for"
        return ""

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        found: list[Fitted] = []
        for k in costs.numeric:
            found += _indexes(Projection(costs, (k,)), [np.ones(1)], most)
        for pair in combinations(costs.numeric, 2):
            if most >= 2 and time.perf_counter() < costs.deadline:
                unsure = bool(self._unsure(costs, pair))
                plane = Projection(costs, pair)
                weights = _searched(costs, pair) if unsure else plane.slopes()
                found += _indexes(plane, weights, most, all_orders=not unsure)
        if len(costs.numeric) > 2 and most >= len(costs.numeric):
            whole = Projection(costs, costs.numeric)
            found += _indexes(whole, _searched(costs, costs.numeric), most)
        return falling(found)

    def coarser(self, costs: Costs, fitted: Fitted) -> Iterator[Fitted]:
        """The best with as many cuts and weights of fewer digits."""
        if isinstance(fitted.root, Split):
            yield from _coarser(costs, fitted.root)


class Projection:
    """Costs along some axes, with the others summed up: what an index of these axes sees."""

    def __init__(self, costs: Costs, axes: tuple[int, ...], blocks: bool = False) -> None:
        self.names = tuple(costs.grid.axes[k] for k in axes)
        table, values = costs.along(axes), [costs.rising[k] for k in axes]
        self.blocks = blocks and math.prod(table.shape[:-1]) > ROUGH
        if self.blocks:
            table, values = _blocks(table, values)
        self.values = values
        self.origin = np.array([v[0] for v in values])
        beyond = np.meshgrid(*(v - v[0] for v in values), indexing="ij")
        self.points = np.stack([x.ravel() for x in beyond], axis=-1)  # from the origin
        self.table = table.reshape(len(self.points), -1)

    def line(self, weights: NDArray) -> Rungs:
        if len(weights) == 1:  # nothing is added, so nothing is rounded
            return Rungs(self.values[0], self.table)
        return rungs(self.points @ weights, self.table, float(self.origin @ weights))

    def least(self, weights: NDArray) -> NDArray[np.float64]:
        """(2, A) least costs with the first actions in order, along the index and against it."""
        costs = self.line(weights).costs
        return np.stack([least_costs(costs), least_costs(costs[::-1])])

    def everywhere(self) -> NDArray[np.float64]:
        """(W, 2, A) the same for all directions of ``slopes``, some at a time."""
        orders = _orders(*(len(v) for v in self.values))
        some = max(1, 400_000 // self.table.size)
        parts = []
        for first in range(0, len(orders), some):
            costs = self.table[orders[first : first + some]]
            parts.append(np.stack([least_costs(costs), least_costs(costs[:, ::-1])], axis=1))
        return np.concatenate(parts)

    def slopes(self) -> list[NDArray]:
        """One direction of a plane between every two at which states change places."""
        step = [(v[-1] - v[0]) / (len(v) - 1) for v in self.values]
        slopes = _slopes(*(len(v) for v in self.values))
        return [np.array([1.0, w * step[0] / step[1]]) for w in slopes]


def _even(values: NDArray) -> bool:
    even, span = np.linspace(values[0], values[-1], len(values)), float(values[-1] - values[0])
    return bool(np.abs(values - even).max() <= rounding(span, float(np.abs(values).max())))


@cache
def _slopes(n: int, m: int) -> tuple[float, ...]:
    """One slope w in i + w j between every two at which states of an n x m grid change places."""
    critical = sorted({Fraction(a, b) for b in range(1, m) for a in range(1, n)} | {Fraction(0)})
    numbers = [float(w) for w in critical]
    above = [(a + b) / 2 for a, b in pairwise(numbers)] + [numbers[-1] + 1]
    return tuple([-w for w in reversed(above)] + above)


@cache
def _orders(n: int, m: int) -> NDArray[np.int32]:
    """(W, n m) states of an n x m grid in rising order of i + w j, for each of ``_slopes``."""
    i, j = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    return np.stack([np.argsort(i + w * j).astype(np.int32) for w in _slopes(n, m)])


def _coarser(costs: Costs, root: Split) -> Iterator[Fitted]:
    """Indexes with as many cuts and all weights of fewer digits, each at its cheapest."""
    axes = tuple(costs.grid.axis(name) for name, _ in root.weights)
    seen, weights = Projection(costs, axes), [weight for _, weight in root.weights]
    for digits in range(DIGITS):
        rough = np.array([1.0, *(_significant(w, digits) for w in weights[1:])])
        if rough.tolist() == weights:
            return
        if rough.all():
            made = [_index(seen, rough, against, len(root.cuts)) for against in (False, True)]
            yield min(made, key=lambda fitted: fitted.cost)


def _indexes(
    seen: Projection, weights: list[NDArray], most: int, all_orders: bool = False
) -> list[Fitted]:
    """The cheapest index of each number of cuts over some directions."""
    least = seen.everywhere() if all_orders else np.stack([seen.least(w) for w in weights])
    extra = len(seen.names) - 1
    made = []
    for cuts in range(1, min(least.shape[2], most - extra + 1)):
        place = np.unravel_index(least[:, :, cuts].argmin(), least.shape[:2])
        made.append(_rounded(seen, weights[int(place[0])], bool(place[1]), cuts))
    return made


def _rounded(seen: Projection, weights: NDArray, against: bool, cuts: int) -> Fitted:
    """The index at some weights, with the fewest digits that cost no more."""
    exact = _index(seen, weights, against, cuts)
    if len(weights) == 1:
        return exact
    for digits in range(DIGITS):
        rough = np.array([1.0, *(_significant(w, digits) for w in weights[1:])])
        if rough.all():
            found = _index(seen, rough, against, cuts)
            if found.cost <= exact.cost * (1 + 1e-9):
                return found
    return exact


def _significant(number: float, digits: int) -> float:
    """A number with so many digits behind its point, or at least one that is not 0."""
    first = -math.floor(math.log10(abs(number))) if number else 0
    return float(round(number, max(digits, first))) + 0.0


def _index(seen: Projection, weights: NDArray, against: bool, cuts: int) -> Fitted:
    """The cheapest cuts of an index."""
    line = seen.line(weights)
    steps = in_order(line.costs[::-1] if against else line.costs, cuts)
    named = tuple((n, float(w)) for n, w in zip(seen.names, weights, strict=True))
    root = steps_node(named, line.values, steps, against)
    return Fitted(root, len(weights) - 1 + cuts, steps.cost)


def _blocks(table: NDArray, values: list[NDArray]) -> tuple[NDArray, list[NDArray]]:
    """Costs of blocks of neighbours, at their middles, where the states are many."""
    factor = (math.prod(table.shape[:-1]) / ROUGH) ** (1 / len(values))
    for axis, rising in enumerate(values):
        size = max(1, math.ceil(factor)) if len(rising) > 20 else 1
        starts = np.arange(0, len(rising), size)
        ends = np.minimum(starts + size, len(rising)) - 1
        table = np.add.reduceat(table, starts, axis)
        values[axis] = (rising[starts] + rising[ends]) / 2
    return table, values


def _searched(costs: Costs, axes: tuple[int, ...]) -> list[NDArray]:
    """Weights by a search that takes one after the other and looks ever nearer at the best."""
    seen = Projection(costs, axes, blocks=True)
    span = [max(float(v[-1] - v[0]), 1e-300) for v in seen.values]
    unit = np.array(span[0]) / np.array(span)  # weights at which all axes weigh the same
    angles, kept = np.full(len(axes), np.pi / 8), []
    step = np.pi / 8
    best = np.inf
    for turn in range(ROUNDS):
        for k in range(1, len(axes)):
            tried = angles[k] + step * np.arange(-4, 5)
            tried = tried[np.abs(np.sin(tried)) > 1e-3]
            found = [_worth(seen, _at(angles, k, angle, unit)) for angle in tried]
            if min(found) < best:
                best, angles[k] = min(found), tried[int(np.argmin(found))]
            kept.append(_at(angles, k, angles[k], unit))
        step *= 1.0 if turn < 1 else 0.5
        if time.perf_counter() > costs.deadline:
            break
    return kept[-2:]


def _at(angles: NDArray, axis: int, angle: float, unit: NDArray) -> NDArray:
    """Weights with one angle replaced; the first axis has weight 1."""
    moved = angles.copy()
    moved[axis] = angle
    weights = np.tan(moved) * unit
    weights[0] = 1.0
    return weights


def _worth(seen: Projection, weights: NDArray) -> float:
    return float(seen.least(weights)[:, -1].min())
