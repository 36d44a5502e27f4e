"""Classes of rules: each offers the best of its rules for additive costs.

    cost(rule) = sum_s c(s, rule(s)),    c >= 0, finite

``fit`` offers rules of growing size and falling cost; ``size_lower_bound`` says which sizes cannot
reach a cost limit at all. A class that has no exact solver proves nothing. Custom classes
inherit from ``RuleClass`` and take part in ``compress`` like those that are here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import format_value
from tessella.grid import StateGrid
from tessella.mdp.model import MDP
from tessella.mdp.rule_tree import Node, RuleTree, is_text_axis
from tessella.rules.inventory_rules import ComponentRule

AnyRule = TypeVar("AnyRule")  # a candidate, or a point of a frontier
SUMMABLE_MAX_STEPS = 1e100  # values in finest steps of an axis, up to which axes are added
PRODUCT_MAX_COSTS = 20_000_000  # costs of all combinations of values, where some are no states


@dataclass(frozen=True, eq=False)
class Costs:
    """Additive costs of the actions in every state.

    Attributes:
        grid: the states.
        actions: the actions, by index.
        by_state: (S, A) costs, finite and not negative.
        deadline: when to stop, on the clock of ``time.perf_counter``.
        action_name: what an action is called.
        feasible: (S, A) which actions are feasible; None where all are.
    """

    grid: StateGrid
    actions: tuple
    by_state: NDArray[np.float64]
    deadline: float = float("inf")
    action_name: str = "action"
    feasible: NDArray[np.bool_] | None = None

    @staticmethod
    def for_model(mdp: MDP, by_state: NDArray, deadline: float = math.inf) -> Costs:
        """Costs (S, A) of the actions of a model.

        Where only some combinations of values are states, the others cost nothing, whatever a rule
        does there; with too many of them the costs stay those of the listed states.
        """
        grid = mdp.grid
        feasible = mdp.feasible
        if grid.is_listed and math.prod(grid.lengths) * len(mdp.actions) <= PRODUCT_MAX_COSTS:
            by_state = grid.spread(by_state, 0.0).reshape(-1, len(mdp.actions))
            if feasible is not None:
                feasible = grid.spread(feasible, True).reshape(by_state.shape)
            grid = grid.product
        return Costs(grid, mdp.actions, by_state, deadline, mdp.action_name, feasible)

    def of(self, tree: RuleTree) -> float:
        """What a rule costs."""
        return self.of_table(tree(self.grid.points))

    def of_table(self, table: NDArray) -> float:
        """What a table of actions costs."""
        return float(np.take_along_axis(self.by_state, table.reshape(-1, 1), axis=1).sum())

    @property
    def numeric_axes(self) -> tuple[int, ...]:
        """Positions of the axes that have numbers and more than one of them."""
        grid = self.grid
        return tuple(k for k, n in enumerate(grid.lengths) if n > 1 and not is_text_axis(grid, k))

    @property
    def why_not_summable(self) -> str:
        """Why sums of the axes of numbers lose one of them to rounding; empty if they do not."""
        axes = [self.sorted_values[k] for k in self.numeric_axes]
        largest = max(float(np.abs(values).max()) for values in axes)
        finest = min(float(np.diff(values).min()) for values in axes)
        if len(axes) == 1 or largest <= SUMMABLE_MAX_STEPS * finest:
            return ""
        return f"values of {largest:.3g} and steps of {finest:.3g} cannot be added"

    @cached_property
    def rank_order(self) -> tuple[NDArray[np.int64], ...]:
        """Positions along each axis in which its numbers rise; labels stay as they are listed."""
        return tuple(np.argsort(numbers, kind="stable") for numbers in self.grid.numbers)

    @cached_property
    def sorted_values(self) -> tuple[NDArray[np.float64], ...]:
        """Numbers of each axis, rising."""
        return tuple(v[o] for v, o in zip(self.grid.numbers, self.rank_order, strict=True))

    @cached_property
    def by_rank(self) -> NDArray[np.float64]:
        """(grid, A) costs with every axis in rising order."""
        array = self.grid.spread(self.by_state, 0.0)
        for axis, order in enumerate(self.rank_order):
            if (np.diff(order) != 1).any():
                array = np.take(array, order, axis)
        return array

    def drop_irrelevant_axes(self) -> Costs:
        """Costs of 0 and 1 without the axes that need not be looked at, of which one is kept.

        An axis is irrelevant if the actions forbidden (1) at one place along it include all that
        are forbidden at the others: a rule that does everywhere what it does there costs nothing
        if it did so before, and depends on one axis less. So no rule of a class is smaller than
        the smallest without irrelevant axes, if what a rule does at one place is a rule of the
        class, no larger:

        - axis tree: cuts along the axis disappear, and leaves with them;
        - run-length table: states disappear, and no run is added;
        - monotone surface: what rises along all axes rises along the others;
        - linear index: w x of the axis is a constant, by which the cuts move; where it was the
          first weight, the others and the cuts are divided by the second.

        It is not of order-up-to rules: at one place of y, "bring y + 2 x up to S" is no level of x.
        Nor of staircases: at one place along their cuts they have bands of one action, which need
        another axis of numbers to be a staircase.
        """
        if self.grid.is_listed:
            return self
        array = self.by_state.reshape(*self.grid.shape, -1)
        kept_axes = list(range(self.grid.ndim))
        for axis in reversed(range(self.grid.ndim)):
            strictest = _find_strictest(array, axis)
            if strictest is not None and len(kept_axes) > 1:
                array = np.take(array, strictest, axis)
                kept_axes = [k for k in kept_axes if k != axis]
        if len(kept_axes) == self.grid.ndim:
            return self
        grid = StateGrid({self.grid.axes[k]: self.grid.values[k] for k in kept_axes})
        return replace(self, grid=grid, by_state=array.reshape(grid.size, -1), feasible=None)

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """(S, d) ranks of the states along the axes."""
        positions = self.grid.positions_of(np.arange(self.grid.size))
        pairs = zip(self.rank_order, positions, strict=True)
        return np.stack([np.argsort(order)[at] for order, at in pairs], axis=-1)

    def sum_to_axes(self, axes: tuple[int, ...]) -> NDArray[np.float64]:
        """(lengths of ``axes``, A) costs summed over all other axes, in rising order."""
        others = tuple(k for k in range(self.grid.ndim) if k not in axes)
        summed = self.by_rank.sum(axis=others)
        kept_axes = [k for k in range(self.grid.ndim) if k in axes]
        return np.transpose(summed, [*(kept_axes.index(k) for k in axes), len(kept_axes)])


def _find_strictest(array: NDArray, axis: int) -> int | None:
    """The place along an axis at which as much is forbidden as at all together; None if none."""
    slices = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    is_strictest = (slices == slices.max(axis=0)).all(axis=1)
    return int(is_strictest.argmax()) if is_strictest.any() else None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A rule, its additive cost, and its sentence.

    Attributes:
        root: what to do.
        size: parameters.
        cost: by the costs that it was fitted to.
        sentence: the rule in words, where its class has a shorter text than the tree's.
        component_rules: how each component is chosen, where it is an order-up-to rule.
    """

    root: Node
    size: int
    cost: float
    sentence: str = ""
    component_rules: tuple[ComponentRule, ...] = ()

    def build_tree(self, grid: StateGrid) -> RuleTree:
        return RuleTree(grid, self.root, self.size)


class RuleClass(ABC):
    """A class of rules that a few numbers of one kind determine; inherit from it to add your own.

    ``fit`` is required; the other methods have defaults. See ``docs/extending.md``.

    Attributes:
        name: what messages and files call the class.
        reading_rank: how hard its rules are to read, from 1 (a sentence) to 5 (arithmetic).
    """

    name: ClassVar[str]
    # How hard its rules are to read, from 1 (a sentence) to 5 (arithmetic): docs/rules.md.
    reading_rank: ClassVar[int] = 3
    # Whether many more rounds, about single rules, pay off.
    benefits_from_local_search: ClassVar[bool] = False
    step: ClassVar[int] = 1  # between the sizes that rules of the class have
    # Whether costs may be of listed states alone; otherwise all combinations of values have some.
    fits_listed_states: ClassVar[bool] = False
    # Whether a rule restricted to one place of an axis belongs to the class too.
    closed_under_slicing: ClassVar[bool] = False

    def why_not_applicable(self, costs: Costs) -> str:
        """Why the class has nothing to offer for such states and actions; empty if it has."""
        return ""

    def why_not_exact(self, costs: Costs) -> str:
        """Why ``fit`` may miss the best rule and prove nothing; empty if the class is exact."""
        return "the class has no exact solver"

    def max_size(self, costs: Costs) -> float:
        """The most numbers that a rule of the class can store."""
        return math.inf

    def is_infeasible(self, costs: Costs, cost_limit: float) -> bool:
        """Whether no rule of the class, of any size, costs ``cost_limit`` or less, for certain."""
        return False

    @abstractmethod
    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        """Rules of at most ``max_size`` numbers, each cheaper than all smaller ones.

        None need cost less than ``cost_limit``. An exact class has the smallest rule within it
        among them, if there is one within ``max_size``.
        """

    def imitations(self, costs: Costs, max_size: int) -> list[Candidate]:
        """More rules of at most ``max_size`` numbers for a frontier, whatever they cost."""
        return []

    def near_ties(self, costs: Costs, max_size: int) -> Iterable[Candidate]:
        """More rules that cost little more than those of ``fit``, to be evaluated in small models.

        Where costs tie, rounding picks one of them, and it need not be the one that loses least.
        """
        return []

    def neighbours(self, costs: Costs, root: Node) -> Iterator[Node]:
        """Rules of the class that differ from one of its rules in a single number."""
        yield from ()

    def shortened(self, root: Node) -> Iterator[Candidate]:
        """Rules of the class with one part fewer than one of its rules."""
        yield from ()

    def variations(self, costs: Costs, candidate: Candidate) -> Iterator[Candidate]:
        """Rules of the class and size that differ from one of its rules in a number or two."""
        for root in self.neighbours(costs, candidate.root):
            yield Candidate(root, candidate.size, 0.0)

    def with_fewer_digits(self, costs: Costs, candidate: Candidate) -> Iterator[Candidate]:
        """Rules of the same size with fewer digits, those with the fewest first."""
        yield from ()

    def size_lower_bound(
        self, costs: Costs, cost_limit: float, max_size: int, candidates: list[Candidate]
    ) -> int:
        """No rule of fewer numbers costs ``cost_limit`` or less; at most ``max_size + 1``.

        ``candidates`` is what ``fit`` gave for the same arguments. Called for exact classes only.
        """
        return min(
            (candidate.size for candidate in candidates if candidate.cost <= cost_limit),
            default=max_size + 1,
        )


def compute_cost_margins(costs: NDArray) -> NDArray[np.float64]:
    """(...) second-lowest less lowest of (..., A) costs: what a wrong action costs at least."""
    if costs.shape[-1] < 2:
        return np.zeros(costs.shape[:-1])
    lowest = np.partition(costs, 1, axis=-1)
    return lowest[..., 1] - lowest[..., 0]


def find_pareto_front(rules: Iterable[AnyRule], measure: str = "cost") -> list[AnyRule]:
    """Of each size the rule with the least ``measure``, but none that a smaller one beats."""
    front: list[AnyRule] = []
    for rule in sorted(rules, key=attrgetter("size", measure)):
        if not front or getattr(rule, measure) < getattr(front[-1], measure):
            front.append(rule)
    return front


def format_state(names: Iterable[str], values: Iterable) -> str:
    """``stock is 3 and season is dry``."""
    pairs = zip(names, values, strict=True)
    return " and ".join(f"{name} is {format_value(value)}" for name, value in pairs)


def format_weighted_sum(weights: Iterable[tuple[str, float]]) -> str:
    """``stock - 0.5 x regime``; with an axis called x ``3 * x - z``."""
    weights = [*weights]
    times = "*" if any(name == "x" for name, _ in weights) else "x"
    text = ""
    for name, weight in weights:
        magnitude = "" if abs(weight) == 1 else f"{format_value(abs(weight))} {times} "
        sign = "-" if weight < 0 else "+"
        if text:
            text += f" {sign} {magnitude}{name}"
        else:
            text = f"{sign.strip('+')}{magnitude}{name}"
    return text
