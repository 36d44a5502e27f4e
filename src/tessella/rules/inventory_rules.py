"""Rules of inventory control by their parameters: what they do, as a tree and as a sentence.

Each component of an action has a rule of its own, with an index and at most three parameters more:

    index        a sum of axes (+ slope x another axis) (+ components that are chosen before)
    base stock   S: as much as the index is below S, rounded down or up to an amount that there is
    (s, S)       the same where the index is at most s; elsewhere the smallest amount
    cap          either of them, but at most the cap
    lot          the same, but multiples of the lot only
    (r, Q)       Q where the index is at most r; elsewhere the smallest amount
    constant     Q

Actions may also be levels: then the amount is the action less the axis that it raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import format_value
from tessella.grid import StateGrid
from tessella.mdp.rule_tree import Leaf, Node, Split, choose_short_number

NEIGHBOUR_STEPS = (-2, -1, 1, 2)  # of one parameter; of two parameters at once, one step each
AMOUNT_NAME = "order"  # what sentences call the amount where actions are levels
MAX_DECIMALS = 9  # of a parameter in a sentence


@dataclass(frozen=True)
class Component:
    """A component of the actions, or the action itself, if it is a number."""

    name: str  # as the model calls it
    values: tuple[float, ...]  # rising
    amounts: tuple[float, ...]  # rising: the values, or what they add to ``level_axis``
    level_axis: str = ""  # the axis that is raised to the value; empty where values are amounts

    def find_value_positions(
        self, amounts: NDArray, axis_values: NDArray | float
    ) -> NDArray[np.int64]:
        """Positions of the values that amounts, by position, lead to: the next higher ones."""
        if not self.level_axis:
            return amounts
        reached = axis_values + np.asarray(self.amounts)[amounts]
        tolerance = 1e-9 * max(abs(self.values[0]), abs(self.values[-1]), 1.0)
        return np.minimum(np.searchsorted(self.values, reached - tolerance), len(self.values) - 1)

    @property
    def amount_name(self) -> str:
        return AMOUNT_NAME if self.level_axis else self.name


@dataclass(frozen=True)
class ComponentRule:
    """How one component is chosen."""

    component: Component  # what is chosen
    weights: tuple[tuple[str, float], ...] = ()  # of the index; the last a slope if ``has_slope``
    earlier: tuple[str, ...] = ()  # components chosen before that count in the index
    has_slope: bool = False  # whether the last weight is a parameter
    base_stock: float | None = None  # S; None for (r, Q) and a constant
    reorder_point: float | None = None  # s or r; None where the rule holds everywhere
    cap: float | None = None  # the largest amount, or Q; None where there is none
    lot: float = 0.0  # of which amounts are multiples; 0 for none
    rounds_up: bool = False  # whether amounts between two are rounded up
    tolerance: float = 0.0  # bound on the rounding error of S less an amount

    @cached_property
    def allowed(self) -> NDArray[np.int64]:
        """Positions of the amounts that may be chosen, rising."""
        amounts = np.asarray(self.component.amounts)
        allowed = find_multiples(amounts, self.lot)
        return allowed if self.cap is None else allowed[amounts[allowed] <= self.cap]

    @property
    def allowed_amounts(self) -> NDArray[np.float64]:
        return np.asarray(self.component.amounts)[self.allowed]

    def decide(self, index: NDArray) -> NDArray[np.int64]:
        """Positions of the amounts at values of the index."""
        allowed = self.allowed
        if self.base_stock is None:
            chosen = np.full(np.shape(index), len(allowed) - 1)
        else:
            amounts = self.allowed_amounts
            wanted = self.base_stock - index
            if self.rounds_up:
                chosen = np.searchsorted(amounts, wanted - self.tolerance, side="left")
                chosen = np.minimum(chosen, len(allowed) - 1)
            else:
                chosen = np.searchsorted(amounts, wanted + self.tolerance, side="right") - 1
                chosen = np.maximum(chosen, 0)
        if self.reorder_point is not None:
            chosen = np.where(index > self.reorder_point + self.tolerance, 0, chosen)
        return allowed[chosen]

    @property
    def parameters(self) -> dict[str, float]:
        """The numbers that it stores, by the names that the field uses."""
        is_reorder_quantity = self.base_stock is None and self.reorder_point is not None
        named = {
            "S": self.base_stock,
            "r" if is_reorder_quantity else "s": self.reorder_point,
            "Q" if self.base_stock is None else "cap": self.cap,
            "lot": self.lot or None,
            "slope": -self.weights[-1][1] if self.has_slope else None,
        }
        return {
            name: float(np.round(number, MAX_DECIMALS)) + 0.0
            for name, number in named.items()
            if number is not None
        }

    def list_units(self, name: str, grid: StateGrid) -> list[float]:
        """Steps of a parameter, the smallest first: what index values and amounts are apart."""
        if name == "cap":
            return [1.0]  # from one amount to the next
        numbers = [grid.numbers[grid.axis(axis)] for axis, _ in self.weights]
        summed = numbers[:-1] if self.has_slope else numbers
        values = [column for column in (*summed, self.component.amounts) if len(column) > 1]
        return sorted({float(np.abs(np.diff(column)).min()) for column in values})

    def move(self, name: str, distance: float) -> ComponentRule | None:
        """The rule with one parameter moved; None where no rule has it."""
        number = getattr(self, name)
        amounts = self.component.amounts
        if name != "cap":
            return replace(self, **{name: number + distance})
        position = amounts.index(number) + int(distance)
        return replace(self, cap=amounts[position]) if 0 < position < len(amounts) else None


def find_multiples(amounts: NDArray, lot: float) -> NDArray[np.int64]:
    """Positions among rising amounts of the multiples of a lot, and of the smallest amount."""
    if not lot:
        return np.arange(len(amounts))
    ratio = amounts / lot
    return np.flatnonzero((np.abs(ratio - np.rint(ratio)) < 1e-9) | (amounts == amounts[0]))


@dataclass(frozen=True, eq=False)
class InventoryRule:
    """A rule for each component, in the order in which they are chosen."""

    component_rules: tuple[ComponentRule, ...]  # in this order
    components: tuple[Component, ...]  # in the order of the actions
    action_indices: NDArray[np.int64]  # (values of each component) the model's actions

    def choose_amounts(
        self, grid: StateGrid, points: NDArray, alternatives: dict[str, NDArray]
    ) -> dict[str, NDArray[np.int64]]:
        """Component to positions (n, 1) of its amounts at points (n, d).

        ``alternatives`` has (1, k) positions of components that are left open; those that count
        them become (n, k).
        """
        chosen: dict[str, NDArray] = {}
        for rule in self.component_rules:
            name = rule.component.name
            if name in alternatives:
                chosen[name] = alternatives[name]
                continue
            index = compute_index(rule, grid, points)[:, None]
            for before in self.component_rules[: len(chosen)]:
                if before.component.name in rule.earlier:
                    amounts = np.asarray(before.component.amounts)
                    index = index + amounts[chosen[before.component.name]]
            chosen[name] = rule.decide(index)
        return chosen

    def find_value_positions(
        self, grid: StateGrid, points: NDArray, amounts: Mapping[str, NDArray]
    ) -> dict[str, NDArray[np.int64]]:
        """Component to positions of the values that its amounts lead to at points."""
        values = {}
        for component in self.components:
            if component.name in amounts:
                axis = component.level_axis
                reached = points[:, grid.axis(axis), None] if axis else 0.0
                values[component.name] = component.find_value_positions(
                    amounts[component.name], reached
                )
        return values

    def find_actions(
        self, grid: StateGrid, points: NDArray, amounts: Mapping[str, NDArray]
    ) -> NDArray[np.int64]:
        """Actions with these amounts of all components, at points."""
        values = self.find_value_positions(grid, points, amounts)
        actions = self.action_indices[tuple(values[c.name] for c in self.components)]
        return np.broadcast_to(actions, (len(points), actions.shape[1]))

    def build_node(self, grid: StateGrid) -> Node:
        """The rule as a tree, on the axes that it looks at."""
        names = {name for rule in self.component_rules for name, _ in rule.weights}
        names |= {component.level_axis for component in self.components}
        used = {n: v for n, v in zip(grid.axes, grid.numbers, strict=True) if n in names}
        used_grid = StateGrid(used or {grid.axes[0]: [0.0]})
        return _NodeBuilder(self, used_grid).build({}, np.arange(used_grid.size))

    def round_parameters(self, grid: StateGrid) -> InventoryRule:
        """The same decisions with parameters of fewer digits."""
        rounded = tuple(
            rule if rule.earlier or not rule.weights else _round_parameters(rule, grid)
            for rule in self.component_rules
        )
        return replace(self, component_rules=rounded)

    def describe(self, grid: StateGrid) -> str:
        """A sentence for each component, in the order in which they are chosen."""
        sentences = []
        separator = " " if len(self.component_rules) == 1 else "="
        for i, rule in enumerate(self.component_rules):
            index = _list_index_values(rule, self.component_rules[:i], grid)
            sentences.append(_SentenceWriter(rule, index, separator).write())
        return "\n".join(sentences)


def collect_parameters(rules: Sequence[ComponentRule]) -> dict[str, Any]:
    """The numbers that rules of components store, by name; of several, those of each."""
    if len(rules) == 1:
        return dict(rules[0].parameters)
    return {rule.component.name: rule.parameters for rule in rules}


def list_neighbours(
    rules: tuple[ComponentRule, ...], grid: StateGrid
) -> Iterator[tuple[ComponentRule, ...]]:
    """Rules whose parameters differ by a few steps, one or two of them at a time."""
    units = {
        (i, name): rule.list_units(name, grid)
        for i, rule in enumerate(rules)
        for name in ("base_stock", "reorder_point", "cap")
        if getattr(rule, name) is not None
    }
    for parameter, steps in product(units, NEIGHBOUR_STEPS):
        for unit in units[parameter]:
            yield from _move_parameters(rules, {parameter: steps * unit})
    for (first, second), steps in product(combinations(units, 2), product((-1, 1), repeat=2)):
        moves = {first: steps[0] * units[first][0], second: steps[1] * units[second][0]}
        yield from _move_parameters(rules, moves)


def _move_parameters(
    rules: tuple[ComponentRule, ...], moves: Mapping[tuple[int, str], float]
) -> Iterator[tuple[ComponentRule, ...]]:
    """The rules with these parameters, of which component, moved; if there are such rules."""
    moved = list(rules)
    for (i, name), distance in moves.items():
        rule = moved[i].move(name, distance)
        if rule is None:
            return
        moved[i] = rule
    yield tuple(moved)


def compute_index(rule: ComponentRule, grid: StateGrid, points: NDArray) -> NDArray[np.float64]:
    """(n,) the axes' part of the index, added as a rule tree adds it."""
    total = np.zeros(len(points))
    for name, weight in rule.weights:
        total = total + weight * points[:, grid.axis(name)]
    return total


def _list_index_values(
    rule: ComponentRule, earlier: Sequence[ComponentRule], grid: StateGrid
) -> NDArray[np.float64]:
    """(U,) rising values that an index may have."""
    values = np.zeros(1)
    for name, weight in rule.weights:
        values = np.unique(np.add.outer(values, weight * grid.numbers[grid.axis(name)]))
    for before in earlier:
        if before.component.name in rule.earlier:
            values = np.unique(np.add.outer(values, before.component.amounts))
    distinct = np.diff(values, prepend=-np.inf) > max(rule.tolerance, 0.0)
    return np.asarray(values[distinct], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _NodeBuilder:
    """Builds the tree of a rule on the grid of the axes that it looks at."""

    inventory_rule: InventoryRule
    grid: StateGrid

    def build(self, amounts: dict[str, NDArray], rows: NDArray) -> Node:
        """What to do in the states ``rows``, for which these amounts (1, 1) have been chosen."""
        rules = self.inventory_rule.component_rules
        if len(amounts) == len(rules):
            return self._build_action(amounts, rows, self.inventory_rule.components)
        rule = rules[len(amounts)]
        points = self.grid.points[rows]
        index = compute_index(rule, self.grid, points)
        so_far = replace(self.inventory_rule, component_rules=rules[: len(amounts) + 1])
        chosen = so_far.choose_amounts(self.grid, points, amounts)[rule.component.name].ravel()
        order = np.argsort(index, kind="stable")
        parts = []
        for run in np.split(order, np.flatnonzero(np.diff(chosen[order])) + 1):
            amount = np.full((1, 1), chosen[run[0]])
            branch = self.build(amounts | {rule.component.name: amount}, np.sort(rows[run]))
            parts.append((index[run[0]], index[run[-1]], branch))
        return _join(rule.weights, parts)

    def _build_action(
        self, amounts: dict[str, NDArray], rows: NDArray, components: Sequence[Component]
    ) -> Node:
        """The action with these amounts: one for each place of an axis that actions raise."""
        points = self.grid.points[rows]
        actions = self.inventory_rule.find_actions(self.grid, points, amounts).ravel()
        if (actions == actions[0]).all():
            return Leaf(int(actions[0]))
        axis, *_ = (c.level_axis for c in components if c.level_axis)
        others = [c for c in components if c.level_axis != axis]
        column = points[:, self.grid.axis(axis)]
        places, place_of = np.unique(column, return_inverse=True)
        branches = [
            self._build_action(amounts, rows[place_of == i], others) for i in range(len(places))
        ]
        return _join(((axis, 1.0),), list(zip(places, places, branches, strict=True)))


def _join(weights: tuple, parts: list[tuple[float, float, Node]]) -> Node:
    """A split with branches on rising ranges (first, last) of an index; equal ones become one."""
    joined = [parts[0]]
    for first, last, branch in parts[1:]:
        if branch == joined[-1][2]:
            joined[-1] = (joined[-1][0], last, branch)
        else:
            joined.append((first, last, branch))
    if len(joined) == 1:
        return joined[0][2]
    cuts = [
        choose_short_number(float(below[1]), float(above[0])) for below, above in pairwise(joined)
    ]
    return Split(weights, tuple(cuts), tuple(branch for *_, branch in joined))


def _round_parameters(rule: ComponentRule, grid: StateGrid) -> ComponentRule:
    values = _list_index_values(rule, (), grid)
    if rule.base_stock is not None:
        reached = np.sort(np.add.outer(values, rule.allowed_amounts).ravel())
        reached = reached[np.diff(reached, prepend=-np.inf) > rule.tolerance]
        rule = replace(rule, base_stock=_choose_shortest(reached, rule.base_stock, rule.rounds_up))
    if rule.reorder_point is not None:
        rule = replace(rule, reorder_point=_choose_shortest(values, rule.reorder_point, False))
    return rule


def _choose_shortest(values: NDArray, value: float, rounds_up: bool) -> float:
    """The number of fewest digits that decides like ``value``, one of ascending values.

    Any number from it up to the next does; with ``rounds_up``, any from the one before up to it.
    """
    i = int(np.abs(values - value).argmin())
    ends = values[max(i - rounds_up, 0) : i - rounds_up + 2]
    if len(ends) < 2 or i < rounds_up:
        return value

    def count_digits(number: float) -> int:
        return len(format_value(float(np.round(abs(number), MAX_DECIMALS))))

    return min(value, choose_short_number(*map(float, ends)), key=count_digits)


@dataclass(frozen=True, eq=False)
class _SentenceWriter:
    """A rule in one sentence, over the rising values that its index may have.

    Amounts are written as ``order 3``, with "=" as the separator as ``fast=3``.
    """

    rule: ComponentRule
    index: NDArray[np.float64]
    separator: str

    def write(self) -> str:
        rule = self.rule
        component = rule.component
        chosen = rule.decide(self.index)
        if (chosen == chosen[0]).all():
            sentence = f"Always {self._format_amount(chosen[0])}."
        elif len(component.amounts) == 2 and not component.level_axis:
            sentence = self._write_threshold(chosen)
        else:
            sentence = self._write_rule()
        if component.level_axis:
            amount = f"{component.name} - {component.level_axis}"
            sentence += f" Here {component.amount_name} is {amount}."
        return sentence

    def _format_amount(self, position: int) -> str:
        amount = self.rule.component.amounts[int(position)]
        return f"{self.rule.component.amount_name}{self.separator}{format_value(amount)}"

    def _write_threshold(self, chosen: NDArray) -> str:
        """With two amounts to choose from: the larger one up to a limit."""
        component = self.rule.component
        high = _capitalise(self._format_amount(1))
        low = self._format_amount(0)
        if component.amounts == (0, 1) and component.name != "action":
            high = _capitalise(component.name)
            low = "do not"
        where = self._format_upper_bound(int((chosen > 0).sum()))
        return f"{high} while {where}; otherwise {low}."

    def _write_rule(self) -> str:
        rule = self.rule
        instruction = self._format_amount(rule.allowed[-1])
        if rule.base_stock is not None:
            instruction = self._write_instruction()
        if rule.reorder_point is None:
            return f"{_capitalise(instruction)}."
        names = self._name_parameters()
        head = f"{names}: when" if names else "When"
        count = int((self.index <= rule.reorder_point + rule.tolerance).sum())
        where = self._format_upper_bound(count)
        return f"{head} {where}, {instruction}; otherwise {self._format_amount(0)}."

    def _name_parameters(self) -> str:
        """``(s, S) = (7, 20)``, where the rule has no other parameters."""
        rule = self.rule
        if rule.has_slope or rule.lot:
            return ""
        named = rule.parameters
        first, second = ("r", "Q") if rule.base_stock is None else ("s", "S")
        return f"({first}, {second}) = ({_format(named[first])}, {_format(named[second])})"

    def _write_instruction(self) -> str:
        rule = self.rule
        name = rule.component.amount_name
        limit = self._format_limit(self._base_stock)
        in_reach = self.index
        if rule.reorder_point is not None:
            in_reach = in_reach[in_reach <= rule.reorder_point + rule.tolerance]
        fits_exactly = self._fits_exactly(in_reach)
        cap = self._write_cap(in_reach, fits_exactly)
        if name != AMOUNT_NAME:
            if fits_exactly:
                return f"bring {self._index_text} up to {limit} with {name}{cap}"
            return f"take {self._write_choice(in_reach, limit, cap)}"
        head = f"order up to {limit}{cap}"
        if not fits_exactly:
            return f"{head}: {self._write_choice(in_reach, 'that')}"
        if rule.reorder_point is not None:
            return head
        return f"{head}: raise {self._index_text} to that level"

    def _write_cap(self, in_reach: NDArray, fits_exactly: bool) -> str:
        """``, at most 4 at once``, where more would be wanted somewhere."""
        rule = self.rule
        # "The largest order that ..." needs no limit; "up to 12" does.
        largest = rule.allowed_amounts[-1] if fits_exactly else rule.cap
        if largest is None or self._base_stock - in_reach[0] <= largest + rule.tolerance:
            return ""
        return f", at most {_format(largest)} at once"

    def _fits_exactly(self, in_reach: NDArray) -> bool:
        """Whether all that is wanted, from 0 up to the largest amount, can be chosen."""
        rule = self.rule
        amounts = rule.allowed_amounts
        wanted = np.clip(self._base_stock - in_reach, 0.0, amounts[-1])
        nearest = np.abs(np.subtract.outer(wanted, amounts)).min(axis=1)
        return not rule.lot and amounts[0] == 0 and bool((nearest <= rule.tolerance).all())

    def _write_choice(self, in_reach: NDArray, limit: str, cap: str = "") -> str:
        """``the largest order that keeps stock + order at or below 12``, or if there is none."""
        rule = self.rule
        amounts = rule.allowed_amounts
        name = rule.component.amount_name
        lots = f" in lots of {_format(rule.lot)}" if rule.lot else ""
        if rule.lot and amounts[0] % rule.lot:
            lots = f" of {_format(amounts[0])} or{lots}"
        sum_of = f"{self._index_text} + {name}"
        if rule.rounds_up:
            text = f"the smallest {name}{lots} that brings {sum_of} to {limit} or above"
            may_fail = in_reach[0] + amounts[-1] < self._base_stock - rule.tolerance
            otherwise = self._format_amount(rule.allowed[-1])
        else:
            text = f"the largest {name}{lots} that keeps {sum_of} at or below {limit}"
            may_fail = in_reach[-1] + amounts[0] > self._base_stock + rule.tolerance
            otherwise = self._format_amount(0)
        return text + cap + (f", or {otherwise} if there is none" if may_fail else "")

    @property
    def _base_stock(self) -> float:
        assert self.rule.base_stock is not None
        return self.rule.base_stock

    @property
    def _index_text(self) -> str:
        axes = self.rule.weights[:-1] if self.rule.has_slope else self.rule.weights
        return " + ".join([*(name for name, _ in axes), *self.rule.earlier])

    def _format_limit(self, number: float) -> str:
        """``6.5 - 0.38 x life1``: what the index is compared with."""
        if not self.rule.has_slope:
            return _format(number)
        last, slope = self.rule.weights[-1]
        return f"{_format(number)} {'-' if slope > 0 else '+'} {format_value(abs(slope))} x {last}"

    def _format_upper_bound(self, count: int) -> str:
        """Where the lowest ``count`` values of the index are."""
        limit = _choose_shortest(self.index, float(self.index[count - 1]), False)
        return f"{self._index_text} is at most {self._format_limit(limit)}"


def _format(number: float) -> str:
    return format_value(float(np.round(number, MAX_DECIMALS)) + 0.0)


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
