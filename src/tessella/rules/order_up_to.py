"""Order-up-to rules: the rules of ``inventory_rules``, with the parameters that cost least.

On one axis all S, s, caps and lots that make a difference are tried, so the cheapest is found for
certain, unless they are too many. Slopes are searched for. With index values x rising and C_i(u)
the cost of amount i in the first u of them, S decides where the amount i ends (e_i) and begins
(e_{i+1}), and

    cost(S) = sum_i C_i(e_i) - C_i(e_{i+1}),
    cost(S, cap c) = sum_{i < c} (...) + C_c(e_c),
    cost(s, S) = sum_{k > i} (...) + C_i(u) - C_i(e_{i+1}) + C_0(U) - C_0(u),   e_{i+1} <= u <= e_i,

whose least over u is a minimum over a range: all S at once.

Of an action of several components, each has a rule, and its index may count those chosen before.
The first is fitted to the least cost over the others, the next to what is left.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations, groupby, product
from operator import attrgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.grid import AXIS_MAX_SIZE
from tessella.mdp.actions import component_names
from tessella.mdp.rule_tree import is_text_axis
from tessella.rules.inventory_rules import (
    Component,
    ComponentRule,
    InventoryRule,
    compute_index,
    find_multiples,
    list_neighbours,
)
from tessella.rules.linear_cuts import IndexLevels, Projection, round_weights, sort_states
from tessella.rules.rule_class import Candidate, Costs, RuleClass, find_pareto_front

SLOPED_MAX_BASE_STOCKS = 400  # values of S with one slope, at most
SINGLE_AXIS_MAX_BASE_STOCKS = 4_000  # values of S on a single axis, at most
MAX_LOTS = 6  # lots, and caps with s, tried on several axes, or where there are many of them
MAX_AMOUNTS = 1_000  # amounts that a component may have
SLOPES_PER_SIGN = 20  # slopes of either sign in the first pass
SLOPE_REFINEMENT_FACTORS = (5, 25)  # how much finer later passes are
MAX_AXIS_SUMS = 15  # sums of axes, at most
NEAR_TIES_PER_SIZE = 20  # rules of one size evaluated in small models: costs of slopes may tie
PARTIAL_RULES_PER_SIZE = 3  # rules of some components that are continued with the next
COMPONENT_MAX_SIZE = 3  # parameters of one of several components
COST_TIE = 1e-12  # costs that differ by less than this share of the largest are equal


@dataclass(frozen=True)
class OrderUpTo(RuleClass):
    """Base stock, (s, S) and (r, Q) rules, with caps and lots; one for each component.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.OrderUpTo()])
        >>> print(rule.explain().splitlines()[0])
        Admit while queue + regime is at most 38; otherwise do not.
    """

    name: ClassVar[str] = "order up to"
    reading_rank: ClassVar[int] = 1

    def why_not_applicable(self, costs: Costs) -> str:
        if not costs.numeric_axes:
            return "no axis has numbers"
        why_not = ActionComponents(costs).why_not_applicable
        return why_not or costs.why_not_summable

    def why_not_exact(self, costs: Costs) -> str:
        actions = ActionComponents(costs)
        if actions.names:
            return "components are fitted in turn"
        if sum(not is_text_axis(costs.grid, k) for k in range(costs.grid.ndim)) > 1:
            return "slopes and sums of axes are searched for"
        for (component,) in actions.interpretations:
            component_costs = actions.make_component_costs(component)
            index_fitter = IndexFitter(component_costs, component, costs.numeric_axes)
            amounts = np.asarray(component.amounts)
            base_stocks = index_fitter.make_fitter(None).list_base_stocks(amounts)
            if len(base_stocks) > SINGLE_AXIS_MAX_BASE_STOCKS:
                tried = f"{SINGLE_AXIS_MAX_BASE_STOCKS:,} of {len(base_stocks):,}"
                return f"only {tried} levels to order up to are tried"
            for noun, count in (("lots", len(list_lots(amounts))), ("caps", len(amounts) - 2)):
                if count > index_fitter.max_lots:
                    return f"only {MAX_LOTS} of {count} {noun} are tried"
        return ""

    def max_size(self, costs: Costs) -> float:
        actions = ActionComponents(costs)
        if actions.names:
            return len(actions.names) * COMPONENT_MAX_SIZE
        return 4 if len(costs.numeric_axes) > 1 else 3

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        actions = ActionComponents(costs)
        fits = _pick_cheapest(_list_fits(costs, max_size))
        return find_pareto_front(_build_candidate(costs, actions, fit) for fit in fits)

    def near_ties(self, costs: Costs, max_size: int) -> Iterator[Candidate]:
        """Of each size some that cost little more, with other slopes."""
        actions = ActionComponents(costs)
        fits = sorted(_sort_by_cost(_list_fits(costs, max_size)), key=attrgetter("size"))
        by_size = [list(same) for _, same in groupby(fits, key=attrgetter("size"))]
        near = [fit for same in by_size for fit in same[1:NEAR_TIES_PER_SIZE]]
        return (_build_candidate(costs, actions, fit) for fit in near)

    def variations(self, costs: Costs, candidate: Candidate) -> Iterator[Candidate]:
        """Rules whose parameters differ by a few steps."""
        actions = ActionComponents(costs)
        for neighbour in list_neighbours(candidate.component_rules, costs.grid):
            yield _build_candidate(costs, actions, FittedRule(candidate.size, 0.0, neighbour))

    def with_fewer_digits(self, costs: Costs, candidate: Candidate) -> Iterator[Candidate]:
        """The best of the same size with a slope of fewer digits."""
        rule, *others = candidate.component_rules
        if others or not rule.has_slope:
            return
        actions = ActionComponents(costs)
        axes = tuple(costs.grid.axis(name) for name, _ in rule.weights)
        component_costs = actions.make_component_costs(rule.component)
        index_fitter = IndexFitter(component_costs, rule.component, axes)
        slope = rule.weights[-1][1]
        for _, rounded in round_weights((1.0, slope)):
            if rounded == slope:
                return
            for fit in index_fitter.fit(rounded, candidate.size):
                if fit.size == candidate.size:
                    yield _build_candidate(costs, actions, fit)


@dataclass(frozen=True, eq=False)
class FittedRule:
    """Rules that were fitted, one for each component so far."""

    size: int  # parameters
    cost: float  # by the costs that they were fitted to
    component_rules: tuple[ComponentRule, ...]  # in the order in which the components are chosen


def _build_candidate(costs: Costs, actions: ActionComponents, fit: FittedRule) -> Candidate:
    rule = actions.make_rule(fit.component_rules).round_parameters(costs.grid)
    root = rule.build_node(costs.grid)
    return Candidate(root, fit.size, fit.cost, rule.describe(costs.grid), rule.component_rules)


def _pick_cheapest(fits: Iterable[FittedRule], count: int = 1) -> list[FittedRule]:
    """The cheapest of each size, or some of them."""
    by_size: dict[int, list[FittedRule]] = {}
    for fit in _sort_by_cost(fits):
        same = by_size.setdefault(fit.size, [])
        if len(same) < count:
            same.append(fit)
    return [fit for size in sorted(by_size) for fit in by_size[size]]


def _sort_by_cost(fits: Iterable[FittedRule]) -> list[FittedRule]:
    """The cheapest first; those that cost the same stay in their order.

    Forms that decide alike differ in cost by rounding, which depends on the machine.
    """
    fits = list(fits)
    tie = COST_TIE * max((fit.cost for fit in fits), default=0.0) or 1.0
    return sorted(fits, key=lambda fit: round(fit.cost / tie))


@lru_cache(maxsize=1)  # near ties are those of the last fit
def _list_fits(costs: Costs, max_size: int) -> list[FittedRule]:
    """Rules of all sizes with all kinds of indexes."""
    actions = ActionComponents(costs)
    fits: list[FittedRule] = []
    for components in actions.interpretations:
        if len(components) == 1:
            fits += _fit_single(actions.make_component_costs(*components), *components, max_size)
            continue
        for order in (components, components[::-1]):
            empty_rule = InventoryRule((), components, actions.action_indices)
            fits += _SequentialFitter(costs, empty_rule, order).fit(max_size)
    return fits


def _fit_single(costs: Costs, component: Component, max_size: int) -> list[FittedRule]:
    """Rules of all sizes for actions of one component."""
    fits: list[FittedRule] = []
    for axes in list_axis_sums(costs):
        fits += IndexFitter(costs, component, axes).fit(None, max_size)
        others = [k for k in costs.numeric_axes if k not in axes]
        for other in others:
            if max_size >= 2 and time.perf_counter() < costs.deadline:
                fits += _search_slopes(costs, component, (*axes, other), max_size)
    return fits


def list_axis_sums(costs: Costs) -> list[tuple[int, ...]]:
    """Sets of axes whose sum may be an index, the small ones first."""
    axes = costs.numeric_axes
    sums = (chosen for n in range(1, len(axes) + 1) for chosen in combinations(axes, n))
    return [chosen for chosen, _ in zip(sums, range(MAX_AXIS_SUMS), strict=False)]


class ActionComponents:
    """The actions of a model as amounts of one or several components."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs

    @cached_property
    def columns(self) -> list[tuple]:
        """The values of each component, for all actions."""
        actions = self.costs.actions
        return list(zip(*actions, strict=True)) if self.names else [actions]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return component_names(self.costs.actions)

    @cached_property
    def why_not_applicable(self) -> str:
        numbers = [v for column in self.columns for v in column]
        if not all(isinstance(v, int | float) and abs(v) <= AXIS_MAX_SIZE for v in numbers):
            return f"actions must be numbers of a size of at most {AXIS_MAX_SIZE:g}"
        counts = [len(set(column)) for column in self.columns]
        if len(self.costs.actions) < 2:
            return "there must be two actions or more"
        if len(self.costs.actions) != np.prod(counts):
            return "actions must be all combinations of their components"
        return f"a component has {max(counts):,} values" if max(counts) > MAX_AMOUNTS else ""

    @cached_property
    def interpretations(self) -> list[tuple[Component, ...]]:
        """The components with amounts as values; and with levels to reach, where they may be."""
        names = self.names or (self.costs.action_name,)
        amounts = tuple(
            Component(name, values, values)
            for name, values in ((n, _rising(c)) for n, c in zip(names, self.columns, strict=True))
        )
        levels = tuple(map(self._interpret_as_level, amounts, self.columns))
        return [amounts] if levels == amounts else [amounts, levels]

    def _interpret_as_level(self, component: Component, column: tuple) -> Component:
        values = np.array(component.values)
        for axis in self.costs.numeric_axes:
            if self._is_level_of(axis, np.array(column, dtype=float)):
                rises = np.round(np.subtract.outer(values, self.costs.sorted_values[axis]), 9)
                amounts = _rising((0.0, *rises[rises > 0]))
                if len(amounts) <= MAX_AMOUNTS:
                    name = self.costs.grid.axes[axis]
                    return replace(component, amounts=amounts, level_axis=name)
        return component

    def _is_level_of(self, axis: int, column: NDArray) -> bool:
        """Whether the least feasible value is the first that is not below the axis."""
        feasible = self.costs.feasible
        if feasible is None:
            return False
        position = self.costs.grid.points[:, axis, None]
        is_below = column < position
        lowest = np.where(feasible, column, np.inf).min(axis=1)
        nearest = np.where(is_below, np.inf, column).min(axis=1)
        return bool(is_below.any() and (lowest == nearest).all())

    @cached_property
    def action_indices(self) -> NDArray[np.int64]:
        """(values of each component) the model's actions."""
        components = self.interpretations[0]
        positions = map(np.searchsorted, (c.values for c in components), self.columns)
        indices = np.empty([len(c.values) for c in components], dtype=np.int64)
        indices[tuple(positions)] = np.arange(len(self.costs.actions))
        return indices

    def make_component_costs(self, component: Component) -> Costs:
        """The costs of the amounts of a single component."""
        costs = self.costs
        by_state = costs.by_state[:, self.action_indices]
        if component.level_axis:
            reached = costs.grid.points[:, costs.grid.axis(component.level_axis), None]
            values = component.find_value_positions(np.arange(len(component.amounts)), reached)
            by_state = np.take_along_axis(by_state, values, axis=1)
        return replace(costs, actions=component.amounts, by_state=by_state)

    def make_rule(self, rules: tuple[ComponentRule, ...]) -> InventoryRule:
        """One rule from those of the components, in the order in which these are chosen."""
        by_name = {rule.component.name: rule.component for rule in rules}
        components = tuple(by_name[component.name] for component in self.interpretations[0])
        return InventoryRule(rules, components, self.action_indices)


def _rising(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(sorted({float(value) for value in values}))


def _search_slopes(
    costs: Costs, component: Component, axes: tuple[int, ...], max_size: int
) -> list[FittedRule]:
    """Rules on an index with a slope, with slopes ever closer to the best one.

    Where the states are many, slopes are compared on blocks of them.
    """
    index_fitter = IndexFitter(costs, component, axes, may_coarsen=True)
    results = _refine_slopes(index_fitter, max_size)
    if not index_fitter.projection.is_coarse:
        return [fit for _, fit in results]
    best: dict[int, tuple[float, float]] = {}  # size -> the least cost, and its slope
    for slope, fit in results:
        best[fit.size] = min(best.get(fit.size, (np.inf, np.inf)), (fit.cost, slope))
    full = IndexFitter(costs, component, axes)
    slopes = {best[size][1] for size in sorted(best)}
    return _pick_cheapest(fit for slope in slopes for fit in full.fit(slope, max_size))


def _refine_slopes(index_fitter: IndexFitter, max_size: int) -> list[tuple[float, FittedRule]]:
    """Slopes with their fits: evenly spread ones, then some near the best, and nearer."""
    unit = 10.0 ** np.round(np.log10(index_fitter.span_ratio))
    step = 2 * unit / SLOPES_PER_SIGN
    multiples = np.arange(-SLOPES_PER_SIGN, SLOPES_PER_SIGN + 1)
    slopes = (multiples[multiples != 0] / SLOPES_PER_SIGN * 2 * unit).tolist()
    results = _fit_slopes(index_fitter, slopes, max_size, False)  # lots near the best slopes only
    for refinement in SLOPE_REFINEMENT_FACTORS:
        if time.perf_counter() > index_fitter.costs.deadline:
            break
        best = min(results, key=lambda result: result[1].cost, default=(step, None))[0]
        refined = best + step / refinement * np.arange(-4, 5)
        slopes = np.round(refined[np.abs(refined) > 1e-9], 6).tolist()
        results += _fit_slopes(index_fitter, slopes, max_size, True)
    return results


def _fit_slopes(
    index_fitter: IndexFitter, slopes: list[float], max_size: int, includes_lots: bool
) -> list[tuple[float, FittedRule]]:
    """Slopes with their fits; once the time is up only until one slope has some."""
    results: list[tuple[float, FittedRule]] = []
    for slope in slopes:
        if not results or time.perf_counter() < index_fitter.costs.deadline:
            results += [(slope, fit) for fit in index_fitter.fit(slope, max_size, includes_lots)]
    return results


class IndexFitter:
    """The index of a component's rule: a sum of axes, the last of which may have a slope."""

    def __init__(
        self, costs: Costs, component: Component, axes: tuple[int, ...], may_coarsen: bool = False
    ) -> None:
        self.costs = costs
        self.component = component
        self.projection = Projection(costs, axes, may_coarsen)
        spans = [float(v[-1] - v[0]) for v in self.projection.values]
        self.span_ratio = spans[0] / spans[-1]

    @property
    def is_single_axis(self) -> bool:
        return len(self.costs.numeric_axes) == 1

    @property
    def max_lots(self) -> int:
        """How many lots are tried: all of them on one axis, if it is short enough."""
        n_amounts = len(self.component.amounts)
        is_short = len(self.projection.points) * n_amounts <= SINGLE_AXIS_MAX_BASE_STOCKS
        return n_amounts if self.is_single_axis and is_short else MAX_LOTS

    def make_fitter(self, slope: float | None) -> _ComponentRuleFitter:
        weights = np.ones(len(self.projection.names))
        if slope is not None:
            weights[-1] = slope
        named = zip(self.projection.names, map(float, weights), strict=True)
        rule = ComponentRule(self.component, tuple(named), has_slope=slope is not None)
        limit = SINGLE_AXIS_MAX_BASE_STOCKS if self.is_single_axis else SLOPED_MAX_BASE_STOCKS
        return _ComponentRuleFitter(rule, self.projection.sort_along(weights), limit)

    def fit(
        self, slope: float | None, max_size: int, includes_lots: bool = True
    ) -> list[FittedRule]:
        """The cheapest rule of each size."""
        max_lots = self.max_lots if includes_lots else 0
        return _pick_cheapest(self.make_fitter(slope).fit(max_size, max_lots))


def list_lots(amounts: NDArray) -> list[float]:
    """Amounts of which some, but not all, are multiples."""
    return [
        float(q)
        for q in amounts[amounts > 0]
        if len(find_multiples(amounts, q)) not in (1, len(amounts))
    ]


def list_caps(amounts: NDArray, limit: int) -> list[float]:
    """Amounts between the smallest and the largest, evenly spread where they are many."""
    return _thin_out(amounts[1:-1], limit).tolist()


@dataclass(frozen=True, eq=False)
class BaseStockCosts:
    """What values of S cost, with ``T`` values, ``A`` amounts and ``U`` index values."""

    base_stocks: NDArray[np.float64]  # (T,) the values
    ends: NDArray[np.int64]  # (T, A + 1) index values below the end of each amount, and 0; falling
    sums: NDArray[np.float64]  # (A, U + 1) costs of an amount in the first u index values
    by_amount: NDArray[np.float64]  # (T, A) what each amount costs where it is ordered


@dataclass(frozen=True, eq=False)
class _ComponentRuleFitter:
    """Fits rules of a component on one index, of which ``rule`` has the weights."""

    rule: ComponentRule
    states: IndexLevels
    max_base_stocks: int

    @property
    def base_size(self) -> int:
        return int(self.rule.has_slope)

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """(amounts, U + 1) costs of an amount in the first u index values."""
        sums = np.zeros((self.states.costs.shape[1], len(self.states.values) + 1))
        np.cumsum(self.states.costs.T, axis=1, out=sums[:, 1:])
        return sums

    @cached_property
    def tolerance(self) -> float:
        """A bound on the rounding error of S - amount; larger where axes are added."""
        values = self.states.values
        amounts = np.asarray(self.rule.component.amounts)
        is_sum = len(self.rule.weights) + len(self.rule.earlier) > 1
        spread = float(values[-1] - values[0] + amounts[-1] - amounts[0])
        size = float(np.abs(values).max() + np.abs(amounts).max())
        return max(1e-11 * spread if is_sum else 0.0, 8 * np.finfo(float).eps * size)

    def fit(self, max_size: int, max_lots: int) -> Iterator[FittedRule]:
        amounts = np.asarray(self.rule.component.amounts)
        lots = [0.0]
        if len(amounts) < 2:
            return
        if max_size >= 2 + self.base_size:
            lots += list_lots(amounts)[:max_lots]
            yield from self._fit_reorder_quantity()
        for lot in lots:
            for rounds_up in (False, True):
                rule = replace(
                    self.rule,
                    lot=lot,
                    rounds_up=rounds_up,
                    tolerance=self.tolerance,
                )
                yield from self._fit_base_stock(rule, max_size)
        if max_size >= 3 and not self.rule.has_slope:
            for cap, rounds_up in product(list_caps(amounts, max_lots), (False, True)):
                rule = replace(
                    self.rule,
                    cap=cap,
                    rounds_up=rounds_up,
                    tolerance=self.tolerance,
                )
                yield from self._fit_reorder_point(rule, 3, self._compute_costs(rule))

    def fit_constant(self) -> FittedRule:
        """The cheapest constant amount, which needs no index."""
        i = int(self.sums[:, -1].argmin())
        rule = ComponentRule(self.rule.component, cap=self.rule.component.amounts[i])
        return FittedRule(1, float(self.sums[i, -1]), (rule,))

    def _fit_reorder_quantity(self) -> Iterator[FittedRule]:
        """(r, Q)."""
        extra_cost = self.sums[1:, 1:-1] - self.sums[0, 1:-1]
        if extra_cost.size:
            i, u = np.unravel_index(int(extra_cost.argmin()), extra_cost.shape)
            cost = float(extra_cost[i, u] + self.sums[0, -1])
            rule = replace(
                self.rule,
                cap=self.rule.component.amounts[int(i) + 1],
                reorder_point=float(self.states.values[u]),
                tolerance=self.tolerance,
            )
            yield FittedRule(2 + self.base_size, max(cost, 0.0), (rule,))

    def _fit_base_stock(self, rule: ComponentRule, max_size: int) -> Iterator[FittedRule]:
        """Base stock, (s, S), and base stock with a cap, with one lot and way of rounding."""
        size = 1 + self.base_size + int(rule.lot > 0)
        if size > max_size:
            return
        costs = self._compute_costs(rule)
        i = int(costs.by_amount.sum(axis=1).argmin())
        yield self._make_fit(rule, costs.base_stocks[i], size, costs.by_amount[i].sum())
        if size == max_size:
            return
        yield from self._fit_reorder_point(rule, size + 1, costs)
        if len(rule.allowed) > 2:
            smaller = np.cumsum(costs.by_amount, axis=1) - costs.by_amount
            up_to_end = costs.sums[np.arange(len(rule.allowed)), costs.ends[:, :-1]]
            capped = (smaller + up_to_end)[:, 1:-1]
            i, k = np.unravel_index(int(capped.argmin()), capped.shape)
            with_cap = replace(rule, cap=float(rule.allowed_amounts[k + 1]))
            yield self._make_fit(with_cap, costs.base_stocks[i], size + 1, capped[i, k])

    def _compute_costs(self, rule: ComponentRule) -> BaseStockCosts:
        """The costs of all S, or of some of them where they are many."""
        amounts = rule.allowed_amounts
        base_stocks = _thin_out(self.list_base_stocks(amounts), self.max_base_stocks)
        if rule.rounds_up:
            limits = base_stocks[:, None] - amounts[:-1] - self.tolerance
            inner_ends = np.searchsorted(self.states.values, limits, side="left")
        else:
            limits = base_stocks[:, None] - amounts[1:] + self.tolerance
            inner_ends = np.searchsorted(self.states.values, limits, side="right")
        whole = np.full((len(base_stocks), 1), len(self.states.values))
        ends = np.hstack([whole, inner_ends, np.zeros_like(whole)])
        sums = self.sums[rule.allowed]
        rows = np.arange(len(amounts))
        by_amount = sums[rows, ends[:, :-1]] - sums[rows, ends[:, 1:]]
        return BaseStockCosts(base_stocks, ends, sums, by_amount)

    def _fit_reorder_point(
        self, rule: ComponentRule, size: int, costs: BaseStockCosts
    ) -> Iterator[FittedRule]:
        """(s, S), of amounts that ``rule`` allows."""
        sums = costs.sums
        by_amount = costs.by_amount
        extra_cost = sums - sums[0]  # over that of the smallest amount, in the first u index values
        first = costs.ends[:, 1:]
        last = costs.ends[:, :-1]
        larger = np.cumsum(by_amount[:, ::-1], axis=1)[:, ::-1] - by_amount
        least = _compute_range_minima(extra_cost, first, last)
        total = larger - sums[np.arange(len(sums)), first] + least + sums[0, -1]
        i, k = np.unravel_index(int(total.argmin()), total.shape)
        u = int(first[i, k] + extra_cost[k, first[i, k] : last[i, k] + 1].argmin())
        if 0 < u < len(self.states.values):
            reordered = replace(rule, reorder_point=float(self.states.values[u - 1]))
            yield self._make_fit(reordered, costs.base_stocks[i], size, total[i, k])

    def _make_fit(
        self, rule: ComponentRule, base_stock: float, size: int, cost: float
    ) -> FittedRule:
        fitted = replace(rule, base_stock=float(base_stock))
        return FittedRule(size, max(float(cost), 0.0), (fitted,))

    def list_base_stocks(self, amounts: NDArray) -> NDArray[np.float64]:
        """Values of S at which some amount changes; those nearer than rounding are one."""
        candidates = np.sort((self.states.values[:, None] + amounts[None, :]).ravel())
        is_distinct = np.diff(candidates, prepend=-np.inf) > self.tolerance
        return np.asarray(candidates[is_distinct], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _SequentialFitter:
    """Fits a rule to each of several components, in the order in which they are chosen."""

    costs: Costs
    empty_rule: InventoryRule  # without rules of components
    order: tuple[Component, ...]

    def fit(self, max_size: int) -> list[FittedRule]:
        """Rules of all sizes."""
        partial = [FittedRule(0, 0.0, ())]
        for i in range(len(self.order)):
            limit = max_size - (len(self.order) - i - 1)
            continued = []
            for before in partial:
                rules = before.component_rules
                by_state = self._compute_least_costs(rules)
                size_left = min(limit - before.size, COMPONENT_MAX_SIZE)
                for fit in self._fit_component(rules, by_state, size_left):
                    size = before.size + fit.size
                    continued.append(FittedRule(size, fit.cost, rules + fit.component_rules))
            partial = _pick_cheapest(continued, PARTIAL_RULES_PER_SIZE)
        return partial

    def _compute_least_costs(self, rules: tuple[ComponentRule, ...]) -> NDArray[np.float64]:
        """(S, amounts) of the next component, with the best of all that are chosen after it."""
        grid = self.costs.grid
        component = self.order[len(rules)]
        later = self.order[len(rules) + 1 :]
        partial = replace(self.empty_rule, component_rules=(*rules, ComponentRule(component)))
        alternatives = {component.name: np.arange(len(component.amounts))[None]}
        amounts = partial.choose_amounts(grid, grid.points, alternatives)
        values = partial.find_value_positions(grid, grid.points, amounts)
        least = self.costs.by_state[:, self.empty_rule.action_indices]
        positions: list[NDArray] = [np.arange(grid.size)[:, None]]
        for axis, known in enumerate(self.empty_rule.components, start=1):
            if known in later:
                least = least.min(axis=axis, keepdims=True)
                positions.append(np.zeros((1, 1), dtype=np.int64))
            else:
                positions.append(values[known.name])
        return least[tuple(positions)]

    def _fit_component(
        self, before: tuple[ComponentRule, ...], by_state: NDArray, max_size: int
    ) -> list[FittedRule]:
        """The cheapest rules of each size for the component after those of ``before``."""
        grid = self.costs.grid
        component = self.order[len(before)]
        rule_before = replace(self.empty_rule, component_rules=before)
        amounts = rule_before.choose_amounts(grid, grid.points, {})
        added = np.zeros(grid.size)
        for rule in before:
            added = added + np.asarray(rule.component.amounts)[amounts[rule.component.name]].ravel()
        names = tuple(amounts)
        fits = []
        for axes, earlier in product(list_axis_sums(self.costs), dict.fromkeys([(), names])):
            rule = ComponentRule(component, tuple((grid.axes[k], 1.0) for k in axes), earlier)
            index = compute_index(rule, grid, grid.points) + (added if earlier else 0.0)
            states = sort_states(index, by_state)
            fitter = _ComponentRuleFitter(rule, states, SLOPED_MAX_BASE_STOCKS)
            fits += [fitter.fit_constant(), *fitter.fit(max_size, 0)]  # no lots
        return _pick_cheapest(fits, PARTIAL_RULES_PER_SIZE)


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


def _thin_out(base_stocks: NDArray, limit: int) -> NDArray[np.float64]:
    """All values of S, or some of them where they are many."""
    if len(base_stocks) <= limit:
        return base_stocks
    return base_stocks[np.linspace(0, len(base_stocks) - 1, limit).astype(int)]
