"""Order-up-to rules: bring a level up to S, at once or from s down.

    level = sum of some axes (+ slope x another axis)
    base stock  S          take the action nearest to S - level, from below or from above
    (s, S)                 the same where level <= s; elsewhere the smallest action
    in lots of q           with multiples of q only, q being one of the actions

Each letter is one number, and so is a slope. Actions must be numbers. On one axis all S, s and q
that make a difference are tried, so the cheapest is found for certain, unless they are too many.
Slopes are searched for.

With levels x rising and C_i(u) the cost of action i in the first u of them, S decides where the
action i ends (e_i) and begins (e_{i+1}), and

    cost(S) = sum_i C_i(e_i) - C_i(e_{i+1}),
    cost(s, S) = sum_{k > i} (...) + C_i(u) - C_i(e_{i+1}) + C_0(U) - C_0(u),   e_{i+1} <= u <= e_i,

whose least over u is a minimum over a range: all S at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, groupby
from operator import attrgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import format_value
from tessella.grid import AXIS_MAX_SIZE
from tessella.mdp.actions import format_action
from tessella.mdp.rule_tree import Split, choose_short_number, is_text_axis
from tessella.rules.linear_cuts import Projection, SortedStates, build_split_from_actions
from tessella.rules.rule_class import (
    Candidate,
    Costs,
    RuleClass,
    find_pareto_front,
    iterate_roundings,
)

SLOPED_MAX_BASE_STOCKS = 400  # values of S with one slope, at most
SINGLE_AXIS_MAX_BASE_STOCKS = 4_000  # values of S on a single axis, at most
MAX_LOTS = 6  # lots tried where the level has several axes, or where there are many of them
SLOPES_PER_SIGN = 20  # slopes of either sign in the first pass
SLOPE_REFINEMENT_FACTORS = (5, 25)  # how much finer later passes are
MAX_AXIS_SUMS = 15  # sums of axes, at most
NEAR_TIES_PER_SIZE = 20  # rules of one size evaluated in small models: costs of slopes may tie


@dataclass(frozen=True)
class OrderUpTo(RuleClass):
    """Base stock and (s, S) rules, with lots, on an axis or a sum of axes."""

    name: ClassVar[str] = "order up to"

    def why_not_applicable(self, costs: Costs) -> str:
        if not costs.numeric_axes:
            return "no axis has numbers"
        numbers = (isinstance(a, int | float) and abs(a) <= AXIS_MAX_SIZE for a in costs.actions)
        if not all(numbers) or len(costs.actions) < 2:
            return f"actions must be two or more numbers of a size of at most {AXIS_MAX_SIZE:g}"
        return costs.why_not_summable

    def why_not_exact(self, costs: Costs) -> str:
        if sum(not is_text_axis(costs.grid, k) for k in range(costs.grid.ndim)) > 1:
            return "slopes and sums of axes are searched for"
        level = OrderLevel(costs, costs.numeric_axes)
        base_stocks = level.list_base_stocks(level.projection.values[0], level.order_sizes)
        if len(base_stocks) > SINGLE_AXIS_MAX_BASE_STOCKS:
            tried = f"{SINGLE_AXIS_MAX_BASE_STOCKS:,} of {len(base_stocks):,}"
            return f"only {tried} levels to order up to are tried"
        lots = len(level.list_lots(None))
        return f"only {MAX_LOTS} of {lots} lots are tried" if lots > level.max_lots else ""

    def max_size(self, costs: Costs) -> float:
        return 4 if len(costs.numeric_axes) > 1 else 3

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        candidates = _pick_cheapest(self._list_candidates(costs, max_size))
        return find_pareto_front(candidate.build() for candidate in candidates)

    def near_ties(self, costs: Costs, max_size: int) -> list[Candidate]:
        """Of each size some that cost little more, with other slopes."""
        candidates = sorted(self._list_candidates(costs, max_size), key=attrgetter("size", "cost"))
        by_size = [list(same) for _, same in groupby(candidates, key=attrgetter("size"))]
        return [candidate.build() for same in by_size for candidate in same[1:NEAR_TIES_PER_SIZE]]

    def _list_candidates(self, costs: Costs, max_size: int) -> list[LazyCandidate]:
        candidates: list[LazyCandidate] = []
        sums = [
            c
            for n in range(1, len(costs.numeric_axes) + 1)
            for c in combinations(costs.numeric_axes, n)
        ]
        for axes in sums[:MAX_AXIS_SUMS]:
            level = OrderLevel(costs, axes)
            candidates += level.fit_candidates(None, 0.0, max_size)
            others = [k for k in costs.numeric_axes if k not in axes]
            for other in others:
                if max_size >= 2 and time.perf_counter() < costs.deadline:
                    candidates += _search_slopes(costs, (*axes, other), max_size)
        return candidates

    def with_fewer_digits(self, costs: Costs, candidate: Candidate) -> Iterator[Candidate]:
        """The best of the same size with a slope of fewer digits."""
        if isinstance(candidate.root, Split):
            *_, (_, slope) = candidate.root.weights
            axes = tuple(costs.grid.axis(name) for name, _ in candidate.root.weights)
            for rounded in iterate_roundings(slope) if slope != 1 else ():
                level = OrderLevel(costs, axes)
                rivals = level.fit_candidates(level.last_axis, rounded, candidate.size)
                yield from (rival.build() for rival in rivals if rival.size == candidate.size)


@dataclass(frozen=True, eq=False)
class LazyCandidate:
    """A rule that was fitted, and is built only if it is among the best."""

    size: int
    cost: float
    build: Callable[[], Candidate]


def _pick_cheapest(candidates: Iterable[LazyCandidate]) -> list[LazyCandidate]:
    """The cheapest of each size."""
    cheapest: dict[int, LazyCandidate] = {}
    for candidate in candidates:
        if candidate.size not in cheapest or candidate.cost < cheapest[candidate.size].cost:
            cheapest[candidate.size] = candidate
    return list(cheapest.values())


def _search_slopes(costs: Costs, axes: tuple[int, ...], max_size: int) -> list[LazyCandidate]:
    """Rules on a level with a slope, with slopes ever closer to the best one.

    Where the states are many, slopes are compared on blocks of them.
    """
    level = OrderLevel(costs, axes, may_coarsen=True)
    results = _refine_slopes(level, max_size)
    if not level.projection.is_coarse:
        return [candidate for _, candidate in results]
    best: dict[int, tuple[float, float]] = {}  # size -> the least cost, and its slope
    for slope, candidate in results:
        best[candidate.size] = min(
            best.get(candidate.size, (np.inf, np.inf)), (candidate.cost, slope)
        )
    full = OrderLevel(costs, axes)
    slopes = {best[size][1] for size in sorted(best)}
    return _pick_cheapest(
        candidate
        for slope in slopes
        for candidate in full.fit_candidates(full.last_axis, slope, max_size)
    )


def _refine_slopes(level: OrderLevel, max_size: int) -> list[tuple[float, LazyCandidate]]:
    """Slopes with their candidates: evenly spread ones, then some near the best, and nearer."""
    unit = 10.0 ** np.round(np.log10(level.span_ratio))
    step = 2 * unit / SLOPES_PER_SIGN
    multiples = [k for k in range(-SLOPES_PER_SIGN, SLOPES_PER_SIGN + 1) if k]
    slopes = [k / SLOPES_PER_SIGN * 2 * unit for k in multiples]
    results: list[tuple[float, LazyCandidate]] = []
    for refinement in (*SLOPE_REFINEMENT_FACTORS, 0):
        includes_lots = refinement != SLOPE_REFINEMENT_FACTORS[0]  # only near the best without them
        for slope in slopes:
            candidates = level.fit_candidates(level.last_axis, slope, max_size, includes_lots)
            results += [(slope, candidate) for candidate in candidates]
        best = min(results, key=lambda result: result[1].cost, default=(step, None))[0]
        refined = best + step / max(refinement, 1) * np.arange(-4, 5)
        slopes = [float(np.round(slope, 6)) for slope in refined if abs(slope) > 1e-9]
        if time.perf_counter() > level.costs.deadline:
            break
    return results


class OrderLevel:
    """A level (the inventory position): a sum of axes, the last of which may have a slope."""

    def __init__(self, costs: Costs, axes: tuple[int, ...], may_coarsen: bool = False) -> None:
        self.costs = costs
        self.projection = Projection(costs, axes, may_coarsen)
        self.last_axis = costs.grid.axes[axes[-1]]
        spans = [float(v[-1] - v[0]) for v in self.projection.values]
        self.span_ratio = spans[0] / spans[-1]
        values = np.array(costs.actions, dtype=float)
        self.action_order = np.argsort(values)
        self.order_sizes = values[self.action_order]

    @property
    def max_lots(self) -> int:
        """How many lots are tried: all of them on one axis, if it is short enough."""
        is_single_axis = (
            len(self.costs.numeric_axes) == 1
            and len(self.projection.points) * len(self.order_sizes) <= SINGLE_AXIS_MAX_BASE_STOCKS
        )
        return len(self.order_sizes) if is_single_axis else MAX_LOTS

    @property
    def max_base_stocks(self) -> int:
        return (
            SINGLE_AXIS_MAX_BASE_STOCKS
            if len(self.costs.numeric_axes) == 1
            else SLOPED_MAX_BASE_STOCKS
        )

    def fit_candidates(
        self, sloped_axis: str | None, slope: float, max_size: int, includes_lots: bool = True
    ) -> list[LazyCandidate]:
        """The cheapest rule of each size."""
        weights = np.ones(len(self.projection.names))
        if sloped_axis is not None:
            weights[-1] = slope
        states = self.projection.sort_along(weights)
        n_slopes = int(sloped_axis is not None)
        named_weights = tuple(
            (n, float(w)) for n, w in zip(self.projection.names, weights, strict=True)
        )
        candidates = []
        lots = [0.0]
        if includes_lots and max_size >= 2 + n_slopes:
            lots += self.list_lots(self.max_lots)
        for lot in lots:
            allowed = self._find_multiples(lot)
            for rounds_up in (False, True):
                size = 1 + n_slopes + int(lot > 0)
                fitter = _OrderFitter(self, states, named_weights, allowed, rounds_up, lot, size)
                candidates += fitter.fit(max_size)
        return _pick_cheapest(candidates)

    def list_base_stocks(self, values: NDArray, orders: NDArray) -> NDArray[np.float64]:
        """Values of S at which some action changes; those nearer than rounding are one."""
        candidates = np.sort((values[:, None] + orders[None, :]).ravel())
        is_distinct = np.diff(candidates, prepend=-np.inf) > self.bound_rounding_error(values)
        return np.asarray(candidates[is_distinct], dtype=np.float64)

    def bound_rounding_error(self, values: NDArray) -> float:
        """A bound on the rounding error of S - order; larger where axes are added."""
        orders = self.order_sizes
        is_sum = len(self.projection.names) > 1
        spread = float(values[-1] - values[0] + orders[-1] - orders[0])
        size = float(np.abs(values).max() + np.abs(orders).max())
        return max(1e-11 * spread if is_sum else 0.0, 8 * np.finfo(float).eps * size)

    def list_lots(self, limit: int | None) -> list[float]:
        """Actions of which some, but not all, are multiples: the first ``limit``."""
        positive = self.order_sizes[self.order_sizes > 0]
        lots = [
            float(q)
            for q in positive
            if len(self._find_multiples(q)) not in (1, len(self.order_sizes))
        ]
        return lots[:limit]

    def _find_multiples(self, lot: float) -> NDArray[np.int64]:
        """Positions among the rising orders that are multiples of a lot."""
        if not lot:
            return np.arange(len(self.order_sizes))
        ratio = self.order_sizes / lot
        return np.flatnonzero(
            (np.abs(ratio - np.rint(ratio)) < 1e-9) | (self.order_sizes == self.order_sizes[0])
        )


@dataclass(frozen=True, eq=False)
class _OrderFitter:
    """Fits base-stock and (s, S) rules on one level, with one way of rounding."""

    level: OrderLevel
    states: SortedStates
    named_weights: tuple
    allowed: NDArray[np.int64]
    rounds_up: bool
    lot: float
    size: int

    def fit(self, max_size: int) -> list[LazyCandidate]:
        values = self.states.values
        orders = self.level.order_sizes[self.allowed]
        all_base_stocks = self.level.list_base_stocks(values, orders)
        base_stocks = _thin_out(all_base_stocks, self.level.max_base_stocks)
        ends = self._find_action_ends(
            base_stocks, values, orders
        )  # (base stocks, orders + 1), falling
        sums = np.zeros((len(orders), len(values) + 1))
        np.cumsum(
            self.states.costs[:, self.level.action_order[self.allowed]].T, axis=1, out=sums[:, 1:]
        )
        order_indices = np.arange(len(orders))
        costs_by_order = (
            sums[order_indices, ends[:, :-1]] - sums[order_indices, ends[:, 1:]]
        )  # (base stocks, orders)
        choices = []  # base stock, how many levels are ordered for, and the cost
        if max_size >= self.size:
            i = int(costs_by_order.sum(axis=1).argmin())
            choices.append((i, len(values), float(costs_by_order[i].sum())))
        if max_size > self.size:
            i, u, cost = _find_reorder_point(sums, ends, costs_by_order)
            if 0 < u < len(values):
                choices.append((i, u, cost))
        candidates = []
        for i, u, cost in choices:
            level = _shorten(all_base_stocks, float(base_stocks[i]), self.rounds_up)
            size = self.size + int(u < len(values))
            build = partial(self._build, level, ends[i], u, size, max(cost, 0.0))
            candidates.append(LazyCandidate(size, max(cost, 0.0), build))
        return candidates

    def _find_action_ends(
        self, base_stocks: NDArray, values: NDArray, orders: NDArray
    ) -> NDArray[np.int64]:
        """(base stocks, orders + 1) where the levels of each order end, and 0."""
        slack = self.level.bound_rounding_error(values)
        if self.rounds_up:
            ends = np.searchsorted(values, base_stocks[:, None] - orders[:-1] - slack, side="left")
        else:
            ends = np.searchsorted(values, base_stocks[:, None] - orders[1:] + slack, side="right")
        whole = np.full((len(base_stocks), 1), len(values))
        return np.hstack([whole, ends, np.zeros_like(whole)])

    def _build(self, base_stock: float, ends: NDArray, u: int, size: int, cost: float) -> Candidate:
        """The rule with this S, for the first ``u`` levels."""
        values = self.states.values
        actions = self.level.action_order[self.allowed]
        taken = np.repeat(actions[::-1], -np.diff(ends)[::-1])
        taken[u:] = actions[0]
        root = build_split_from_actions(self.named_weights, values, taken)
        return Candidate(root, size, cost, self._describe(base_stock, taken, u))

    def _describe(self, base_stock: float, taken: NDArray, u: int) -> str:
        """The rule in one sentence; with two actions to choose from, that of a threshold."""
        name = self.level.costs.action_name
        actions = self.level.costs.actions
        phrases = [format_action(name, actions[i]) for i in self.level.action_order[self.allowed]]
        below = int((taken != self.level.action_order[self.allowed][0]).sum())
        if not below:
            return f"Always {phrases[0]}."
        if len(phrases) == 2:
            high = phrases[1][:1].upper() + phrases[1][1:]
            low = phrases[0]
            if sorted(actions) == [0, 1] and name != "action":
                high = name[:1].upper() + name[1:]
                low = "do not"
            where = self._format_upper_bound(below)
            return f"{high} while {where}; otherwise {low}." if where else f"Always {phrases[1]}."
        where = self._format_upper_bound(u)
        limit = self._format_limit(base_stock)
        if name == "order":
            instruction = (
                f"order up to {limit}: the {self._describe_choice(base_stock, 'that', phrases, u)}"
            )
        else:
            instruction = f"take the {self._describe_choice(base_stock, limit, phrases, u)}"
        if where:
            return f"Where {where}, {instruction}; elsewhere {phrases[0]}."
        return f"{instruction[0].upper()}{instruction[1:]}."

    def _describe_choice(self, base_stock: float, limit: str, phrases: list[str], u: int) -> str:
        """``largest order that keeps stock + order at or below 12``, and what if there is none."""
        values = self.states.values
        orders = self.level.order_sizes[self.allowed]
        name = self.level.costs.action_name
        slack = self.level.bound_rounding_error(values)
        sum_of = f"{self._level_text} + {name}"
        lots = f" in lots of {format_value(float(self.lot))}" if self.lot else ""
        if self.lot and orders[0] % self.lot:
            lots = f" of {format_value(float(orders[0]))} or{lots}"
        if self.rounds_up:
            text = f"smallest {name}{lots} that brings {sum_of} to {limit} or above"
            may_fail = values[0] + orders[-1] < base_stock - slack
            last = phrases[-1]
        else:
            text = f"largest {name}{lots} that keeps {sum_of} at or below {limit}"
            may_fail = values[u - 1] + orders[0] > base_stock + slack
            last = phrases[0]
        return f"{text}, or {last} if there is none" if may_fail else text

    @property
    def _level_text(self) -> str:
        *axes, (last, slope) = self.named_weights
        return " + ".join([name for name, _ in axes] + ([last] if slope == 1 else []))

    def _format_limit(self, number: float) -> str:
        """``6.5 - 0.38 x life1``: what the level is compared with."""
        last, slope = self.named_weights[-1]
        text = format_value(float(np.round(number, 9)))
        if slope == 1:
            return text
        return f"{text} {'-' if slope > 0 else '+'} {format_value(abs(slope))} x {last}"

    def _format_upper_bound(self, count: int) -> str:
        """Where the lowest ``count`` levels are; empty for all of them."""
        values = self.states.values
        if count == len(values):
            return ""
        limit = _shorten(values, float(values[count - 1]), False)
        return f"{self._level_text} is at most {self._format_limit(limit)}"


def _find_reorder_point(
    sums: NDArray, ends: NDArray, costs_by_order: NDArray
) -> tuple[int, int, float]:
    """(base stock, levels below s, cost) of the cheapest (s, S)."""
    extra_cost = sums - sums[0]  # what an order costs more than none, in the first u levels
    first = ends[:, 1:]
    last = ends[:, :-1]
    lower = (
        np.cumsum(costs_by_order[:, ::-1], axis=1)[:, ::-1] - costs_by_order
    )  # orders larger than this one
    least = _compute_range_minima(extra_cost, first, last)
    order_indices = np.arange(len(sums))
    total = lower - sums[order_indices, first] + least + sums[0, -1]
    i, k = np.unravel_index(int(total.argmin()), total.shape)
    part = extra_cost[k, first[i, k] : last[i, k] + 1]
    return int(i), int(first[i, k] + part.argmin()), float(total[i, k])


def _compute_range_minima(rows: NDArray, first: NDArray, last: NDArray) -> NDArray[np.float64]:
    """(T, A) the least of each of (A, U) rows over the (T, A) ranges ``first..last``, ends too."""
    tables = [rows]
    width = 1
    while 2 * width <= rows.shape[1]:
        doubled = np.full_like(rows, np.inf)
        before = tables[-1]
        np.minimum(before[:, :-width], before[:, width:], out=doubled[:, :-width])
        tables.append(doubled)
        width *= 2
    power = np.frexp(last - first + 1)[1] - 1
    row = np.arange(len(rows))
    stacked = np.stack(tables)
    return np.minimum(stacked[power, row, first], stacked[power, row, last + 1 - (1 << power)])


def _shorten(values: NDArray, value: float, rounds_up: bool) -> float:
    """The number of fewest digits that decides like ``value``, one of ascending values.

    Any number from it up to the next does; with ``rounds_up``, any from the one before up to it.
    """
    i = int(np.searchsorted(values, value))
    ends = values[max(i - rounds_up, 0) : i - rounds_up + 2]
    if len(ends) < 2 or i < rounds_up:
        return value

    def count_digits(number: float) -> int:
        return len(format_value(float(np.round(abs(number), 9))))

    return min(value, choose_short_number(*map(float, ends)), key=count_digits)


def _thin_out(base_stocks: NDArray, limit: int) -> NDArray[np.float64]:
    """All values of S, or some of them where they are many."""
    if len(base_stocks) <= limit:
        return base_stocks
    return base_stocks[np.linspace(0, len(base_stocks) - 1, limit).astype(int)]
