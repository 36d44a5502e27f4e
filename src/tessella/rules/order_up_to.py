"""Order-up-to forms: bring a level up to S, at once or from s down.

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
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import format_value
from tessella.grid import AXIS_MAX_SIZE
from tessella.mdp.actions import format_action
from tessella.mdp.rule_tree import Split, find_short_number, is_text_axis
from tessella.rules.linear_cuts import Projection, SortedStates, build_split_from_actions
from tessella.rules.rule_class import Candidate, Costs, RuleClass, iterate_roundings, pareto_front

SLOPED_MAX_TARGETS = 400  # values of S with one slope, at most
SINGLE_AXIS_MAX_TARGETS = 4_000  # values of S on a single axis, at most
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
        return costs.unsummable

    def why_not_exact(self, costs: Costs) -> str:
        if sum(not is_text_axis(costs.grid, k) for k in range(costs.grid.ndim)) > 1:
            return "slopes and sums of axes are searched for"
        level = OrderLevel(costs, costs.numeric_axes)
        targets = level.targets(level.projection.values[0], level.order_sizes)
        if len(targets) > SINGLE_AXIS_MAX_TARGETS:
            tried = f"{SINGLE_AXIS_MAX_TARGETS:,} of {len(targets):,}"
            return f"only {tried} levels to order up to are tried"
        lots = len(level.list_lots(None))
        return f"only {MAX_LOTS} of {lots} lots are tried" if lots > level.n_lots else ""

    def max_size(self, costs: Costs) -> float:
        return 4 if len(costs.numeric_axes) > 1 else 3

    def fit(self, costs: Costs, max_size: int, target: float) -> list[Candidate]:
        forms = _pick_cheapest(self._list_forms(costs, max_size))
        return pareto_front(form.build() for form in forms)

    def near_ties(self, costs: Costs, max_size: int) -> list[Candidate]:
        """Of each size some that cost little more, with other slopes."""
        forms = sorted(self._list_forms(costs, max_size), key=lambda form: (form.size, form.cost))
        sizes = [list(same) for _, same in groupby(forms, key=lambda form: form.size)]
        return [form.build() for same in sizes for form in same[1:NEAR_TIES_PER_SIZE]]

    def _list_forms(self, costs: Costs, max_size: int) -> list[OrderForm]:
        forms: list[OrderForm] = []
        sums = [
            c
            for n in range(1, len(costs.numeric_axes) + 1)
            for c in combinations(costs.numeric_axes, n)
        ]
        for axes in sums[:MAX_AXIS_SUMS]:
            level = OrderLevel(costs, axes)
            forms += level.fit_forms(None, 0.0, max_size)
            others = [k for k in costs.numeric_axes if k not in axes]
            for other in others:
                if max_size >= 2 and time.perf_counter() < costs.deadline:
                    forms += _search_slopes(costs, (*axes, other), max_size)
        return forms

    def with_fewer_digits(self, costs: Costs, candidate: Candidate) -> Iterator[Candidate]:
        """The best of the same size with a slope of fewer digits."""
        if isinstance(candidate.root, Split):
            *_, (_, slope) = candidate.root.weights
            axes = tuple(costs.grid.axis(name) for name, _ in candidate.root.weights)
            for rounded in iterate_roundings(slope) if slope != 1 else ():
                level = OrderLevel(costs, axes)
                forms = level.fit_forms(level.last_axis, rounded, candidate.size)
                yield from (form.build() for form in forms if form.size == candidate.size)


@dataclass(frozen=True, eq=False)
class OrderForm:
    """A form that was tried, to be written out if it is among the best."""

    size: int
    cost: float
    build: Callable[[], Candidate]


def _pick_cheapest(forms: Iterable[OrderForm]) -> list[OrderForm]:
    """The cheapest of each size."""
    cheapest: dict[int, OrderForm] = {}
    for form in forms:
        if form.size not in cheapest or form.cost < cheapest[form.size].cost:
            cheapest[form.size] = form
    return list(cheapest.values())


def _search_slopes(costs: Costs, axes: tuple[int, ...], max_size: int) -> list[OrderForm]:
    """Forms on a level with a slope, with slopes ever nearer to the best one.

    Where the states are many, slopes are compared on blocks of them.
    """
    level = OrderLevel(costs, axes, use_blocks=True)
    results = _refine_slopes(level, max_size)
    if not level.projection.is_blocked:
        return [form for _, form in results]
    best: dict[int, tuple[float, float]] = {}  # size -> the least cost, and its slope
    for slope, form in results:
        best[form.size] = min(best.get(form.size, (np.inf, np.inf)), (form.cost, slope))
    full = OrderLevel(costs, axes)
    slopes = {best[size][1] for size in sorted(best)}
    return _pick_cheapest(
        form for slope in slopes for form in full.fit_forms(full.last_axis, slope, max_size)
    )


def _refine_slopes(level: OrderLevel, max_size: int) -> list[tuple[float, OrderForm]]:
    """Slopes with their forms: evenly spread ones, then some near the best, and nearer."""
    unit = 10.0 ** np.round(np.log10(level.span_ratio))
    step = 2 * unit / SLOPES_PER_SIGN
    multiples = [k for k in range(-SLOPES_PER_SIGN, SLOPES_PER_SIGN + 1) if k]
    slopes = [k / SLOPES_PER_SIGN * 2 * unit for k in multiples]
    results: list[tuple[float, OrderForm]] = []
    for refinement in (*SLOPE_REFINEMENT_FACTORS, 0):
        with_lots = refinement != SLOPE_REFINEMENT_FACTORS[0]  # only near the best without them
        for slope in slopes:
            forms = level.fit_forms(level.last_axis, slope, max_size, with_lots)
            results += [(slope, form) for form in forms]
        best = min(results, key=lambda one: one[1].cost, default=(step, None))[0]
        refined = best + step / max(refinement, 1) * np.arange(-4, 5)
        slopes = [float(np.round(slope, 6)) for slope in refined if abs(slope) > 1e-9]
        if time.perf_counter() > level.costs.deadline:
            break
    return results


class OrderLevel:
    """A level: the sum of some axes, the last of which may have a slope."""

    def __init__(self, costs: Costs, axes: tuple[int, ...], use_blocks: bool = False) -> None:
        self.costs = costs
        self.projection = Projection(costs, axes, use_blocks)
        self.last_axis = costs.grid.axes[axes[-1]]
        spans = [float(v[-1] - v[0]) for v in self.projection.values]
        self.span_ratio = spans[0] / spans[-1]
        values = np.array(costs.actions, dtype=float)
        self.action_order = np.argsort(values)
        self.order_sizes = values[self.action_order]

    @property
    def n_lots(self) -> int:
        """How many lots are tried: all of them on one axis, if it is short enough."""
        is_single_axis = (
            len(self.costs.numeric_axes) == 1
            and len(self.projection.points) * len(self.order_sizes) <= SINGLE_AXIS_MAX_TARGETS
        )
        return len(self.order_sizes) if is_single_axis else MAX_LOTS

    @property
    def n_targets(self) -> int:
        return SINGLE_AXIS_MAX_TARGETS if len(self.costs.numeric_axes) == 1 else SLOPED_MAX_TARGETS

    def fit_forms(
        self, sloped_axis: str | None, slope: float, max_size: int, with_lots: bool = True
    ) -> list[OrderForm]:
        """The cheapest form of each size."""
        weights = np.ones(len(self.projection.names))
        if sloped_axis is not None:
            weights[-1] = slope
        states = self.projection.sort_along(weights)
        n_slopes = int(sloped_axis is not None)
        named_weights = tuple(
            (n, float(w)) for n, w in zip(self.projection.names, weights, strict=True)
        )
        forms = []
        lots = [0.0]
        if with_lots and max_size >= 2 + n_slopes:
            lots += self.list_lots(self.n_lots)
        for lot in lots:
            allowed = self._find_multiples(lot)
            for rounds_up in (False, True):
                size = 1 + n_slopes + int(lot > 0)
                form = _FormFitter(self, states, named_weights, allowed, rounds_up, lot, size)
                forms += form.fit(max_size)
        return _pick_cheapest(forms)

    def targets(self, values: NDArray, orders: NDArray) -> NDArray[np.float64]:
        """Values of S at which some action changes; those nearer than rounding are one."""
        found = np.sort((values[:, None] + orders[None, :]).ravel())
        apart = np.diff(found, prepend=-np.inf) > self.slack(values)
        return np.asarray(found[apart], dtype=np.float64)

    def slack(self, values: NDArray) -> float:
        """What rounding may make of a level less an order; more where axes are added."""
        orders = self.order_sizes
        summed = len(self.projection.names) > 1
        spread = float(values[-1] - values[0] + orders[-1] - orders[0])
        size = float(np.abs(values).max() + np.abs(orders).max())
        return max(1e-11 * spread if summed else 0.0, 8 * np.finfo(float).eps * size)

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
class _FormFitter:
    """Base stock and (s, S) on one line of levels, with one way of rounding."""

    level: OrderLevel
    states: SortedStates
    named_weights: tuple
    allowed: NDArray[np.int64]
    rounds_up: bool
    lot: float
    size: int

    def fit(self, max_size: int) -> list[OrderForm]:
        values = self.states.values
        orders = self.level.order_sizes[self.allowed]
        all_targets = self.level.targets(values, orders)
        targets = _thin_out(all_targets, self.level.n_targets)
        ends = self._find_action_ends(targets, values, orders)  # (targets, orders + 1), falling
        sums = np.zeros((len(orders), len(values) + 1))
        np.cumsum(
            self.states.costs[:, self.level.action_order[self.allowed]].T, axis=1, out=sums[:, 1:]
        )
        kinds = np.arange(len(orders))
        pieces = sums[kinds, ends[:, :-1]] - sums[kinds, ends[:, 1:]]  # (targets, orders)
        choices = []  # target, how many levels are ordered for, and the cost
        if max_size >= self.size:
            i = int(pieces.sum(axis=1).argmin())
            choices.append((i, len(values), float(pieces[i].sum())))
        if max_size > self.size:
            i, u, cost = _find_reorder_point(sums, ends, pieces)
            if 0 < u < len(values):
                choices.append((i, u, cost))
        forms = []
        for i, u, cost in choices:
            level = _shorten(all_targets, float(targets[i]), self.rounds_up)
            size = self.size + int(u < len(values))
            build = partial(self._build, level, ends[i], u, size, max(cost, 0.0))
            forms.append(OrderForm(size, max(cost, 0.0), build))
        return forms

    def _find_action_ends(
        self, targets: NDArray, values: NDArray, orders: NDArray
    ) -> NDArray[np.int64]:
        """(targets, orders + 1) where the levels of each order end, and 0."""
        slack = self.level.slack(values)
        if self.rounds_up:
            ends = np.searchsorted(values, targets[:, None] - orders[:-1] - slack, side="left")
        else:
            ends = np.searchsorted(values, targets[:, None] - orders[1:] + slack, side="right")
        whole = np.full((len(targets), 1), len(values))
        return np.hstack([whole, ends, np.zeros_like(whole)])

    def _build(self, target: float, ends: NDArray, u: int, size: int, cost: float) -> Candidate:
        """The form with this S, for the first ``u`` levels."""
        values = self.states.values
        actions = self.level.action_order[self.allowed]
        taken = np.repeat(actions[::-1], -np.diff(ends)[::-1])
        taken[u:] = actions[0]
        root = build_split_from_actions(self.named_weights, values, taken)
        return Candidate(root, size, cost, self._describe(target, taken, u))

    def _describe(self, target: float, taken: NDArray, u: int) -> str:
        """The form in one sentence, that of a threshold where it has two actions to choose from."""
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
            where = self._at_most(below)
            return f"{high} while {where}; otherwise {low}." if where else f"Always {phrases[1]}."
        where = self._at_most(u)
        limit = self._limit(target)
        if name == "order":
            way = f"order up to {limit}: the {self._choice(target, 'that', phrases, u)}"
        else:
            way = f"take the {self._choice(target, limit, phrases, u)}"
        if where:
            return f"Where {where}, {way}; elsewhere {phrases[0]}."
        return f"{way[0].upper()}{way[1:]}."

    def _choice(self, target: float, limit: str, phrases: list[str], u: int) -> str:
        """``largest order that keeps stock + order at or below 12``, and what if there is none."""
        values = self.states.values
        orders = self.level.order_sizes[self.allowed]
        name = self.level.costs.action_name
        slack = self.level.slack(values)
        sum_of = f"{self._level} + {name}"
        lots = f" in lots of {format_value(float(self.lot))}" if self.lot else ""
        if self.lot and orders[0] % self.lot:
            lots = f" of {format_value(float(orders[0]))} or{lots}"
        if self.rounds_up:
            text = f"smallest {name}{lots} that brings {sum_of} to {limit} or above"
            none = values[0] + orders[-1] < target - slack
            last = phrases[-1]
        else:
            text = f"largest {name}{lots} that keeps {sum_of} at or below {limit}"
            none = values[u - 1] + orders[0] > target + slack
            last = phrases[0]
        return f"{text}, or {last} if there is none" if none else text

    @property
    def _level(self) -> str:
        *axes, (last, slope) = self.named_weights
        return " + ".join([name for name, _ in axes] + ([last] if slope == 1 else []))

    def _limit(self, number: float) -> str:
        """``6.5 - 0.38 x life1``: what the level is compared with."""
        last, slope = self.named_weights[-1]
        text = format_value(float(np.round(number, 9)))
        if slope == 1:
            return text
        return f"{text} {'-' if slope > 0 else '+'} {format_value(abs(slope))} x {last}"

    def _at_most(self, count: int) -> str:
        """Where the lowest ``count`` levels are; empty for all of them."""
        values = self.states.values
        if count == len(values):
            return ""
        limit = _shorten(values, float(values[count - 1]), False)
        return f"{self._level} is at most {self._limit(limit)}"


def _find_reorder_point(sums: NDArray, ends: NDArray, pieces: NDArray) -> tuple[int, int, float]:
    """(target, levels below s, cost) of the cheapest (s, S)."""
    extra_cost = sums - sums[0]  # what an order costs more than none, in the first u levels
    first = ends[:, 1:]
    last = ends[:, :-1]
    lower = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1] - pieces  # orders larger than this one
    least = _compute_range_minima(extra_cost, first, last)
    kinds = np.arange(len(sums))
    total = lower - sums[kinds, first] + least + sums[0, -1]
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
    """The number of fewest digits that no place distinguishes from one of them.

    Those from it up to the next, or with ``up`` those from the one before up to it.
    """
    i = int(np.searchsorted(values, value))
    ends = values[max(i - rounds_up, 0) : i - rounds_up + 2]
    if len(ends) < 2 or i < rounds_up:
        return value
    return min(value, find_short_number(*map(float, ends)), key=_count_digits)


def _count_digits(number: float) -> int:
    return len(format_value(float(np.round(abs(number), 9))))


def _thin_out(targets: NDArray, limit: int) -> NDArray[np.float64]:
    """All values of S, or some of them where they are many."""
    if len(targets) <= limit:
        return targets
    return targets[np.linspace(0, len(targets) - 1, limit).astype(int)]
