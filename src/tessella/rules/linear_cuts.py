"""Ordered cuts of one linear index; and staircases, ordered cuts in each band of an axis.

`LinearCuts`, with index = x_1 + w_2 x_2 + ..., stores its cuts and the weights other than 1 and -1;
the actions are the first or the last ones of the model's list, in their order, along the rising or
the falling index. States are sorted by their index and those with equal index form one level. With
c_j the costs of the j-th action and prefix sums C_j,

    D_0 = C_0,    D_j(t) = C_j(t) + min_{u <= t} (D_{j-1}(u) - C_j(u)),

is the least cost of the first t levels with actions 0..j in this order, exactly.

With two axes of evenly spaced values, all that a direction decides is the order of the states,
which changes only where two of them change places: one direction between every two such slopes is
all there is to try, and the best index is found for certain. Other weights are searched for. Sums
and differences are tried too, as they need no weight.

`Staircase`: with P bands and K cuts in each, P - 1 + P K numbers are stored; the actions are the
first ones of the list, in order, along the rising or the falling axis. For additive costs

    cost(i, j, K) = least cost of K ordered cuts in the summed rows i..j    (see D above)
    F(p, j) = min_i F(p - 1, i) + cost(i, j, K),

both exact. Axes other than the two are not looked at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, permutations
from operator import attrgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.rule_tree import (
    LabelSplit,
    Leaf,
    Node,
    Split,
    build_split_or_leaf,
    choose_short_number,
    is_text_axis,
)
from tessella.rules.rule_class import Candidate, Costs, RuleClass, find_pareto_front

INDEX_RELATIVE_TOLERANCE = 1e-12  # of the spread of an index
WEIGHT_SEARCH_MAX_STATES = 40_000  # states in a search for weights; more are looked at in blocks
WEIGHT_SEARCH_ROUNDS = 12  # of a search, all weights in turn
WEIGHT_MAX_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class IndexLevels:
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
) -> IndexLevels:
    """States sorted by index, equal ones together; indexes nearer than rounding are equal.

    Indexes are counted from ``origin``, so that their rounding is one of their spread alone.
    """
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    ends = sorted_index[[0, -1]]
    tolerance = bound_rounding_error(float(ends[1] - ends[0]), float(np.abs(ends + origin).max()))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(sorted_index) > tolerance]))
    summed = np.add.reduceat(costs[order], starts, axis=0)
    return IndexLevels(sorted_index[starts] + origin, summed)


def bound_rounding_error(span: float, size: float) -> float:
    """A bound on the rounding error of an index of this span and size."""
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


def compute_costs_both_ways(costs: NDArray) -> NDArray[np.float64]:
    """(2, ..., A) the same along the levels, and against them."""
    return np.stack([compute_least_costs(costs), compute_least_costs(costs[..., ::-1, :])])


def find_optimal_cuts(costs: NDArray, last: int, is_reversed: bool = False) -> OrderedCuts:
    """The cheapest cuts with the actions 0..last in this order along the levels, or against it."""
    ordered_costs = costs[::-1] if is_reversed else costs
    sums = np.concatenate([np.zeros((1, costs.shape[1])), np.cumsum(ordered_costs, axis=0)])
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
    actions = tuple(range(last + 1))
    if is_reversed:
        return OrderedCuts(float(best[-1]), tuple(len(costs) - c for c in cuts), actions[::-1])
    return OrderedCuts(float(best[-1]), tuple(reversed(cuts)), actions)


def choose_cut(values: NDArray, n_below: int) -> float:
    """A number of few digits above that many of the rising values, clear of all of them."""
    step = max(float(values[-1] - values[0]), 1.0) / max(len(values) - 1, 1)
    step = max(step, float(np.spacing(np.abs(values).max())))
    low = values[n_below - 1] if n_below else values[0] - 2 * step
    high = values[n_below] if n_below < len(values) else values[-1] + 2 * step
    return choose_short_number(float(low), float(high))


def build_split(weights: tuple, values: NDArray, ordered_cuts: OrderedCuts) -> Node:
    """A split with these cuts along rising values."""
    cuts = ordered_cuts.cuts
    actions = ordered_cuts.actions
    if len(values) == 1:
        return Leaf(actions[cuts.count(0)])
    branches = tuple(map(Leaf, actions))
    return build_split_or_leaf(weights, tuple(choose_cut(values, c) for c in cuts), branches)


@dataclass(frozen=True)
class LinearCuts(RuleClass):
    """Ordered cuts of one weighted sum of the axes.

    Attributes:
        work: the most additions that are spent on trying all directions.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.LinearCuts()])
        >>> print(rule.explain().splitlines()[0])
        admit=1 where queue + regime is at most 37
    """

    work: float = 4e7
    name: ClassVar[str] = "linear index"
    reading_rank: ClassVar[int] = 2
    closed_under_slicing: ClassVar[bool] = True

    def why_not_applicable(self, costs: Costs) -> str:
        return costs.why_not_summable if costs.numeric_axes else "no axis has numbers"

    def why_not_exact(self, costs: Costs) -> str:
        if len(costs.numeric_axes) > 2:
            return "weights of three or more axes are searched for"
        if len(costs.numeric_axes) < 2:
            return ""
        return self._why_not_all_directions(costs, costs.numeric_axes)

    def max_size(self, costs: Costs) -> float:
        return len(costs.numeric_axes) + len(costs.actions) - 2

    def _why_not_all_directions(self, costs: Costs, pair: tuple[int, ...]) -> str:
        """Why not all directions of two axes can be tried; empty if they can."""
        if not all(_is_evenly_spaced(costs.sorted_values[k]) for k in pair):
            return "the values of an axis are not evenly spaced, so weights are searched for"
        n, m = (len(costs.sorted_values[k]) for k in pair)
        if 1.2 * (n * m) ** 2 * len(costs.actions) > self.work:
            return "there are too many directions to try all, so weights are searched for"
        return ""

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        axes = costs.numeric_axes
        results: list[Candidate] = []
        for k in axes:
            results += _fit_indexes(costs, (k,), [np.ones(1)], max_size)
        for pair in combinations(axes, 2):
            if time.perf_counter() < costs.deadline:
                results += _fit_indexes(costs, pair, [np.ones(2), np.array([1.0, -1.0])], max_size)
            if max_size >= 2 and time.perf_counter() < costs.deadline:
                is_inexact = bool(self._why_not_all_directions(costs, pair))
                weights = _search_weights(costs, pair) if is_inexact else None
                results += _fit_indexes(costs, pair, weights, max_size)
        for n in range(3, len(axes) + 1):
            for subset in combinations(axes, n):
                if time.perf_counter() < costs.deadline:
                    results += _fit_indexes(costs, subset, [np.ones(n)], max_size)
        if len(axes) > 2 and max_size >= len(axes):
            results += _fit_indexes(costs, axes, _search_weights(costs, axes), max_size)
        return find_pareto_front(results)

    def with_fewer_digits(self, costs: Costs, candidate: Candidate) -> Iterator[Candidate]:
        """The best with as many cuts and weights of fewer digits."""
        if not isinstance(candidate.root, Split):
            return
        names, weights = zip(*candidate.root.weights, strict=True)
        projections = _project_both_orders(costs, tuple(map(costs.grid.axis, names)))
        for rounded in round_weights(weights):
            if rounded.tolist() == [*weights]:
                return
            fits = [
                _fit_index(projection, rounded, is_reversed, len(candidate.root.cuts))
                for projection in projections
                for is_reversed in (False, True)
            ]
            yield min(fits, key=attrgetter("cost"))


class Projection:
    """Costs along some axes, summed over all others, for an index of these axes.

    Actions are in the order of the model's list, or from its last one on.
    """

    def __init__(
        self,
        costs: Costs,
        axes: tuple[int, ...],
        may_coarsen: bool = False,
        from_last: bool = False,
    ) -> None:
        self.names = tuple(costs.grid.axes[k] for k in axes)
        table = costs.sum_to_axes(axes)
        values = [costs.sorted_values[k] for k in axes]
        self.is_coarse = may_coarsen and math.prod(table.shape[:-1]) > WEIGHT_SEARCH_MAX_STATES
        if self.is_coarse:
            table, values = _coarsen(table, values)
        self.values = values
        self.origin = np.array([v[0] for v in values])
        offsets = np.meshgrid(*(v - v[0] for v in values), indexing="ij")
        self.points = np.stack([x.ravel() for x in offsets], axis=-1)  # from the origin
        self.actions = range(table.shape[-1])[:: -1 if from_last else 1]
        self.costs = table.reshape(len(self.points), -1)[:, self.actions]

    def sort_along(self, weights: NDArray) -> IndexLevels:
        if len(weights) == 1:  # nothing is added, so nothing is rounded
            return IndexLevels(self.values[0], self.costs)
        return sort_states(self.points @ weights, self.costs, float(self.origin @ weights))

    def compute_least_costs(self, weights: NDArray) -> NDArray[np.float64]:
        """(2, A) least costs with the first actions in order, along the index and against it."""
        return compute_costs_both_ways(self.sort_along(weights).costs)

    def compute_least_costs_all_directions(self) -> NDArray[np.float64]:
        """(W, 2, A) the same for all directions of ``list_directions``, some at a time."""
        orders = _sort_for_slopes(*(len(v) for v in self.values))
        chunk_size = max(1, 400_000 // self.costs.size)
        firsts = range(0, len(orders), chunk_size)
        chunks = (self.costs[orders[first : first + chunk_size]] for first in firsts)
        return np.concatenate([compute_costs_both_ways(c) for c in chunks], axis=1).swapaxes(0, 1)

    def list_directions(self) -> list[NDArray]:
        """One direction of a plane between every two at which states change places."""
        spacings = [(v[-1] - v[0]) / (len(v) - 1) for v in self.values]
        slopes = _list_slopes(*(len(v) for v in self.values))
        return [np.array([1.0, w * spacings[0] / spacings[1]]) for w in slopes]


def _is_evenly_spaced(values: NDArray) -> bool:
    even = np.linspace(values[0], values[-1], len(values))
    span = float(values[-1] - values[0])
    tolerance = bound_rounding_error(span, float(np.abs(values).max()))
    return bool(np.abs(values - even).max() <= tolerance)


@cache
def _list_slopes(n: int, m: int) -> tuple[float, ...]:
    """One slope w in i + w j between every two at which states of an n x m grid change places."""
    critical = sorted({Fraction(a, b) for b in range(1, m) for a in range(1, n)} | {Fraction(0)})
    critical_slopes = [float(w) for w in critical]
    midpoints = [(a + b) / 2 for a, b in pairwise(critical_slopes)] + [critical_slopes[-1] + 1]
    return tuple([-w for w in reversed(midpoints)] + midpoints)


@cache
def _sort_for_slopes(n: int, m: int) -> NDArray[np.int32]:
    """(W, n m) states of an n x m grid in rising order of i + w j, for each of ``_list_slopes``."""
    i = np.repeat(np.arange(n), m)
    j = np.tile(np.arange(m), n)
    return np.stack([np.argsort(i + w * j).astype(np.int32) for w in _list_slopes(n, m)])


def _project_both_orders(costs: Costs, axes: tuple[int, ...]) -> list[Projection]:
    """With the first actions and with the last ones, which differ if there are three or more."""
    orders = (False, True) if len(costs.actions) > 2 else (False,)
    return [Projection(costs, axes, from_last=from_last) for from_last in orders]


def _fit_indexes(
    costs: Costs, axes: tuple[int, ...], weights: list[NDArray] | None, max_size: int
) -> list[Candidate]:
    """The cheapest index of each number of cuts, with some weights or in all directions."""
    candidates = []
    for projection in _project_both_orders(costs, axes):
        if weights is None:
            trials = projection.list_directions()
            least = projection.compute_least_costs_all_directions()
        else:
            trials = weights
            least = np.stack([projection.compute_least_costs(w) for w in weights])
        n_weights = max(map(_count_weights, trials))
        for cuts in range(1, min(least.shape[2], max_size - n_weights + 1)):
            best = np.unravel_index(least[:, :, cuts].argmin(), least.shape[:2])
            candidates.append(_fit_rounded(projection, trials[int(best[0])], bool(best[1]), cuts))
    return candidates


def _count_weights(weights: NDArray) -> int:
    """How many are stored: those other than 1 and -1."""
    return int((np.abs(weights) != 1).sum())


def _fit_rounded(
    projection: Projection, weights: NDArray, is_reversed: bool, cuts: int
) -> Candidate:
    """The index at some weights, with the fewest digits that cost no more."""
    exact = _fit_index(projection, weights, is_reversed, cuts)
    if len(weights) == 1:
        return exact
    for rounded in round_weights(weights):
        candidate = _fit_index(projection, rounded, is_reversed, cuts)
        if candidate.cost <= exact.cost * (1 + 1e-9):
            return candidate
    return exact


def round_weights(weights: Sequence[float] | NDArray) -> list[NDArray[np.float64]]:
    """Weights with more and more digits, the first being 1; without those that become 0."""
    rounded = [
        (1.0, *(_round_significant(w, digits) for w in weights[1:]))
        for digits in range(WEIGHT_MAX_DECIMALS)
    ]
    return [np.array(numbers) for numbers in dict.fromkeys(rounded) if all(numbers)]


def _round_significant(number: float, digits: int) -> float:
    """A number with that many digits behind its point, or at least one that is not 0."""
    first_decimal = -math.floor(math.log10(abs(number))) if number else 0
    return float(round(number, max(digits, first_decimal))) + 0.0


def _fit_index(projection: Projection, weights: NDArray, is_reversed: bool, cuts: int) -> Candidate:
    """The cheapest cuts of an index."""
    states = projection.sort_along(weights)
    ordered_cuts = find_optimal_cuts(states.costs, cuts, is_reversed)
    actions = tuple(projection.actions[a] for a in ordered_cuts.actions)
    ordered_cuts = replace(ordered_cuts, actions=actions)
    named_weights = tuple((n, float(w)) for n, w in zip(projection.names, weights, strict=True))
    root = build_split(named_weights, states.values, ordered_cuts)
    return Candidate(root, _count_weights(weights) + cuts, ordered_cuts.cost)


def _coarsen(table: NDArray, values: list[NDArray]) -> tuple[NDArray, list[NDArray]]:
    """Costs of blocks of neighbouring states, at the middles of the blocks."""
    factor = (math.prod(table.shape[:-1]) / WEIGHT_SEARCH_MAX_STATES) ** (1 / len(values))
    for axis, axis_values in enumerate(values):
        size = max(1, math.ceil(factor)) if len(axis_values) > 20 else 1
        starts = np.arange(0, len(axis_values), size)
        ends = np.minimum(starts + size, len(axis_values)) - 1
        table = np.add.reduceat(table, starts, axis)
        values[axis] = (axis_values[starts] + axis_values[ends]) / 2
    return table, values


def _search_weights(costs: Costs, axes: tuple[int, ...]) -> list[NDArray]:
    """Weights by coordinate search, with steps that shrink around the best."""
    projection = Projection(costs, axes, may_coarsen=True)
    spans = [max(float(v[-1] - v[0]), 1e-300) for v in projection.values]
    balanced = np.array(spans[0]) / np.array(spans)  # weights at which all axes count alike
    angles = np.full(len(axes), np.pi / 8)
    weights = []
    step = np.pi / 8
    best = np.inf
    for iteration in range(WEIGHT_SEARCH_ROUNDS):
        for k in range(1, len(axes)):
            trials = angles[k] + step * np.arange(-4, 5)
            trials = trials[np.abs(np.sin(trials)) > 1e-3]
            directions = (_replace_angle(angles, k, angle, balanced) for angle in trials)
            trial_costs = [projection.compute_least_costs(w)[:, -1].min() for w in directions]
            if min(trial_costs) < best:
                best = min(trial_costs)
                angles[k] = trials[int(np.argmin(trial_costs))]
            weights.append(_replace_angle(angles, k, angles[k], balanced))
        step *= 1.0 if iteration < 1 else 0.5
        if time.perf_counter() > costs.deadline:
            break
    return weights[-2:]


def _replace_angle(angles: NDArray, axis: int, angle: float, balanced: NDArray) -> NDArray:
    """Weights with one angle replaced; the first axis has weight 1."""
    changed = angles.copy()
    changed[axis] = angle
    weights = np.tan(changed) * balanced
    weights[0] = 1.0
    return weights


@dataclass(frozen=True)
class Staircase(RuleClass):
    """Ordered cuts along an axis, which change from band to band of another.

    Attributes:
        bands: the most places along an axis at which a band may begin.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.Staircase()])
        >>> print(rule.explain().splitlines()[0])
        admit=1 where queue is at most 25
    """

    bands: int = 60
    name: ClassVar[str] = "staircase"
    reading_rank: ClassVar[int] = 2

    def why_not_applicable(self, costs: Costs) -> str:
        if not costs.numeric_axes or sum(n > 1 for n in costs.grid.shape) < 2:
            return "a staircase needs two axes, one of them with numbers"
        return ""

    def why_not_exact(self, costs: Costs) -> str:
        if max(costs.grid.shape) > self.bands:
            return "an axis has too many values for bands to begin at all of them"
        return ""

    def max_size(self, costs: Costs) -> float:
        return max(costs.grid.shape) * len(costs.actions) - 1

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        results: list[Candidate] = []
        for across, along in permutations(range(costs.grid.ndim), 2):
            is_usable = costs.grid.shape[across] > 1 and not is_text_axis(costs.grid, along)
            if is_usable and time.perf_counter() < costs.deadline:
                results += self._fit_axes(costs, across, along, max_size)
        return find_pareto_front(results)

    def _fit_axes(self, costs: Costs, across: int, along: int, max_size: int) -> list[Candidate]:
        table = costs.sum_to_axes((across, along))
        band_width = -(-len(table) // self.bands)
        starts = np.arange(0, len(table), band_width)
        rows = np.add.reduceat(table, starts, axis=0)  # (bands, values along, A)
        sums = np.concatenate([np.zeros((1, *rows.shape[1:])), np.cumsum(rows, axis=0)])
        candidates = []
        for cuts in range(1, min(rows.shape[2] - 1, max_size) + 1):
            for cost, ends in _find_bands(sums, cuts, (max_size + 1) // (cuts + 1)):
                root = _build_band_split(costs, (across, along), starts, sums, ends, cuts)
                candidates.append(Candidate(root, len(ends) * (cuts + 1) - 1, cost))
        return candidates


def _find_bands(sums: NDArray, cuts: int, max_bands: int) -> Iterator[tuple[float, list[int]]]:
    """(cost, where each band ends) of the cheapest 1, 2, ... bands with that many cuts in each.

    Numbers of bands that save nothing are left out; two more may save what one more does not, as
    in rows A, B, A.
    """
    n = len(sums) - 1
    interval_costs = np.full((n + 1, n + 1), np.inf)
    for i in range(n):
        both = compute_costs_both_ways(np.maximum(sums[i + 1 :] - sums[i], 0.0))
        interval_costs[i, i + 1 :] = np.maximum(both[..., cuts].min(axis=0), 0.0)
    least = interval_costs[0]
    predecessors: list[NDArray] = []
    cost_before = np.inf
    for _ in range(min(max_bands, n)):
        if least[-1] < cost_before:
            ends = [n]
            for predecessor in reversed(predecessors):
                ends.append(int(predecessor[ends[-1]]))
            yield float(least[-1]), ends[::-1]
        cost_before = least[-1]
        totals = least[:, None] + interval_costs
        predecessors.append(totals.argmin(axis=0))
        least = totals.min(axis=0)


def _build_band_split(
    costs: Costs, axes: tuple[int, int], starts: NDArray, sums: NDArray, ends: list[int], cuts: int
) -> Node:
    across, along = axes
    weights = ((costs.grid.axes[along], 1.0),)
    values = costs.sorted_values[along]
    branches = []
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        rows = np.maximum(sums[last] - sums[first], 0.0)
        fits = [find_optimal_cuts(rows, cuts, is_reversed) for is_reversed in (False, True)]
        branches.append(build_split(weights, values, min(fits, key=lambda c: c.cost)))
    band_starts = [int(starts[end]) for end in ends[:-1]]
    labels = costs.grid.values[across]
    name = costs.grid.axes[across]
    if is_text_axis(costs.grid, across):
        node = branches[-1]
        for start, branch in zip(reversed(band_starts), reversed(branches[:-1]), strict=True):
            node = LabelSplit(name, tuple(labels[:start].tolist()), branch, node)
        return node
    sorted_values = costs.sorted_values[across]
    limits = tuple(
        choose_short_number(sorted_values[start - 1], sorted_values[start]) for start in band_starts
    )
    return Split(((name, 1.0),), limits, tuple(branches))
