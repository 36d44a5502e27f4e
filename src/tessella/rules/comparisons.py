"""A rule as comparisons: what exports and sentences are written from.

    Lookup  ->  splits along its axes, one after the other, with equal neighbours joined
    Split   ->  the same without the branches that no point between the axes' ends can take

``to_comparisons`` gives a tree of Leaf, Split, LabelSplit and Exceptions. A point off the grid was
moved to the ends of the axes before (or rejected). The numbers nearest to a value of an axis are
those above the midpoint to the value below, up to and including the midpoint to the value above.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.grid import StateGrid
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import (
    Exceptions,
    LabelSplit,
    Leaf,
    Lookup,
    Node,
    RuleTree,
    Split,
    build_lookup,
    is_text_axis,
    list_children,
)

Weights = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class SumRange:
    """``low < sum of weight x coordinate <= high``; an end may be infinite."""

    weights: Weights
    low: float
    high: float


@dataclass(frozen=True)
class LabelSet:
    """A text axis has one of these labels."""

    axis: str
    labels: tuple[str, ...]


Condition = SumRange | LabelSet
Conditions = tuple[Condition, ...]


def to_rule_tree(policy: Policy) -> RuleTree:
    """The tree of a rule; of any other policy, its table as runs."""
    if isinstance(policy.rule, RuleTree):
        return policy.rule
    grid = policy.grid
    table = grid.spread(policy.table.ravel(), policy.table.flat[0])  # anything where nothing exists
    return RuleTree(grid, build_lookup(grid.axes, table.ravel()), policy.size)


def to_comparisons(grid: StateGrid, node: Node) -> Node:
    """``node`` as Leaf, Split, LabelSplit and Exceptions."""
    if isinstance(node, Lookup):
        shape = [grid.lengths[grid.axis(name)] for name in node.axes]
        lengths = np.diff([*node.starts, math.prod(shape)])
        return _split_table(grid, node.axes, np.repeat(node.actions, lengths), shape)
    if isinstance(node, Split):
        return _simplify_split(grid, node)
    if isinstance(node, LabelSplit):
        inside = to_comparisons(grid, node.inside)
        outside = to_comparisons(grid, node.outside)
        all_labels = set(map(str, grid.values[grid.axis(node.axis)]))
        if not node.labels:
            return outside
        if inside == outside or all_labels <= set(node.labels):
            return inside
        return LabelSplit(node.axis, node.labels, inside, outside)
    if isinstance(node, Exceptions):
        return Exceptions(node.places, node.actions, to_comparisons(grid, node.otherwise))
    return node


def _split_table(grid: StateGrid, axes: tuple[str, ...], table: NDArray, shape: list[int]) -> Node:
    """A table over ``axes`` as splits along the first of them, then the next."""
    if (table == table[0]).all():
        return Leaf(int(table[0]))
    rows = table.reshape(shape[0], -1)
    axis = grid.axis(axes[0])
    below = (axes[1:], shape[1:])
    if is_text_axis(grid, axis):
        return _split_labels(grid, axes[0], rows, *below)
    numbers = grid.numbers[axis]
    order = np.argsort(numbers)
    rows = rows[order]
    numbers = numbers[order]
    changed = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1))
    branches = tuple(
        _split_table(grid, below[0], rows[first], below[1])
        for first in (0, *(changed + 1).tolist())
    )
    if not changed.size:
        return branches[0]
    cuts = tuple(compute_midpoint(float(numbers[i]), float(numbers[i + 1])) for i in changed)
    return Split(((axes[0], 1.0),), cuts, branches)


def _split_labels(
    grid: StateGrid, name: str, rows: NDArray, axes: tuple[str, ...], shape: list[int]
) -> Node:
    """Labels with the same row together, one group after the other."""
    groups: dict[bytes, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.tobytes(), []).append(i)
    *first, last = groups.values()
    node = _split_table(grid, axes, rows[last[0]], shape)
    for group in reversed(first):
        labels = tuple(str(grid.values[grid.axis(name)][i]) for i in group)
        node = LabelSplit(name, labels, _split_table(grid, axes, rows[group[0]], shape), node)
    return node


def _simplify_split(grid: StateGrid, node: Split) -> Node:
    """A split without branches that no point reaches, equal neighbours joined."""
    reachable = _list_reachable_branches(grid, node)
    branches = [to_comparisons(grid, node.branches[j]) for j in reachable]
    cuts = [node.cuts[j - 1] for j in reachable[1:]]
    distinct = [j for j in range(len(cuts)) if branches[j] != branches[j + 1]]
    if not distinct:
        return branches[-1]
    joined = tuple(branches[j] for j in (*distinct, -1))
    return Split(node.weights, tuple(cuts[j] for j in distinct), joined)


def _list_reachable_branches(grid: StateGrid, node: Split) -> list[int]:
    """Branches that some weighted sum between the ends of the axes leads to."""
    low = 0.0
    high = 0.0
    for name, weight in node.weights:
        ends = sorted(weight * x for x in get_axis_ends(grid, name))
        low += ends[0]
        high += ends[1]
    limits = pairwise([-math.inf, *node.cuts, math.inf])
    return [j for j, (a, b) in enumerate(limits) if a < b and a < high and b >= low]


def get_single_axis(weights: Weights) -> str | None:
    """The axis of a sum that is a coordinate and nothing else."""
    return weights[0][0] if len(weights) == 1 and weights[0][1] == 1.0 else None


def get_axis_ends(grid: StateGrid, name: str) -> tuple[float, float]:
    """The ends of an axis."""
    numbers = grid.numbers[grid.axis(name)]
    return float(numbers.min()), float(numbers.max())


def compute_midpoint(low: float, high: float) -> float:
    """Halfway between two numbers, never as high as the higher."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def list_finite_ends(condition: SumRange) -> list[tuple[str, float]]:
    """``(">", low)`` and ``("<=", high)``, without ends that are infinite."""
    ends = [(">", condition.low), ("<=", condition.high)]
    return [(comparison, end) for comparison, end in ends if math.isfinite(end)]


def list_nearest_conditions(grid: StateGrid, state: tuple[Any, ...]) -> tuple[Condition, ...]:
    """The conditions under which a point is nearest to one state of the grid."""
    return tuple(
        LabelSet(name, (str(value),))
        if is_text_axis(grid, name)
        else _make_nearest_range(grid, name, float(value))
        for name, value in zip(grid.axes, state, strict=True)
    )


def _make_nearest_range(grid: StateGrid, name: str, value: float) -> SumRange:
    numbers = np.sort(grid.numbers[grid.axis(name)])
    index = int(np.argmin(np.abs(numbers - value)))
    midpoints = (compute_midpoint(low, high) for low, high in pairwise(numbers.tolist()))
    ends = [-math.inf, *midpoints, math.inf]
    return SumRange(((name, 1.0),), ends[index], ends[index + 1])


def list_branches(grid: StateGrid, node: Split | LabelSplit) -> list[tuple[Condition, Node]]:
    """The branches with their conditions, labels in the order of their axis."""
    if isinstance(node, Split):
        ends = pairwise([-math.inf, *node.cuts, math.inf])
        conditions = (SumRange(node.weights, low, high) for low, high in ends)
        return list(zip(conditions, node.branches, strict=True))
    labels = grid.values[grid.axis(node.axis)].tolist()
    inside = tuple(label for label in labels if label in node.labels)
    outside = tuple(label for label in labels if label not in node.labels)
    return [
        (LabelSet(node.axis, inside), node.inside),
        (LabelSet(node.axis, outside), node.outside),
    ]


@dataclass(frozen=True)
class BranchTest:
    """``if sum <comparison> cut``, take ``node``; without a comparison, take it in any case."""

    comparison: str  # "<=", ">" or ""
    cut: float
    node: Node


def list_branch_tests(node: Split) -> list[BranchTest]:
    """A split as steps one after the other: the largest branch last, so that nothing nests deeply.

    Nested within one another, only branches with at most half of the leaves go one level down.
    """
    sizes = [count_named_actions(branch) for branch in node.branches]
    last = max(range(len(sizes)), key=lambda j: (sizes[j], j))
    below = [BranchTest("<=", node.cuts[j], node.branches[j]) for j in range(last)]
    above = [
        BranchTest(">", node.cuts[j - 1], node.branches[j]) for j in range(len(sizes) - 1, last, -1)
    ]
    return [*below, *above, BranchTest("", 0.0, node.branches[last])]


def count_named_actions(node: Node) -> int:
    """How many times a tree of comparisons names an action."""
    if isinstance(node, Exceptions):
        return len(node.places) + count_named_actions(node.otherwise)
    return sum(map(count_named_actions, list_children(node))) or 1


@dataclass(frozen=True)
class Clause:
    """An action, and the conditions under which it is taken, if no clause before it applied."""

    conditions: tuple[Condition, ...]
    action: int


def iterate_clauses(
    grid: StateGrid, node: Node, stated: Conditions = (), implied: Conditions = ()
) -> Iterator[Clause]:
    """Every path through a tree of comparisons, in order: the first that applies holds.

    ``stated`` are the conditions so far that earlier paths do not imply, ``implied`` are all.
    """
    if not all(map(is_possible, implied)):
        return
    if isinstance(node, Leaf):
        yield Clause(stated, node.action)
    elif isinstance(node, Split):
        for condition, branch in list_branches(grid, node):
            # Lower values took an earlier path.
            upper = replace(condition, low=-math.inf)
            yield from iterate_clauses(
                grid, branch, add_condition(stated, upper), add_condition(implied, condition)
            )
    elif isinstance(node, LabelSplit):
        (inside, labelled), (outside, others) = list_branches(grid, node)
        yield from iterate_clauses(
            grid, labelled, add_condition(stated, inside), add_condition(implied, inside)
        )
        yield from iterate_clauses(grid, others, stated, add_condition(implied, outside))
    elif isinstance(node, Exceptions):
        for state, action in zip(node.places, node.actions, strict=True):
            nearest = list_nearest_conditions(grid, state)
            yield from iterate_clauses(
                grid,
                Leaf(action),
                reduce(add_condition, nearest, stated),
                reduce(add_condition, nearest, implied),
            )
        yield from iterate_clauses(grid, node.otherwise, stated, implied)


def is_possible(condition: Condition) -> bool:
    """Whether a condition can hold, for some coordinates."""
    if isinstance(condition, LabelSet):
        return bool(condition.labels)
    return condition.low < condition.high


def add_condition(path: Conditions, new: Condition) -> Conditions:
    """``path`` with one more condition, joined in place with that on the same sum or axis."""
    if isinstance(new, SumRange) and not list_finite_ends(new):
        return path
    for position, old in enumerate(path):
        joined = _intersect(old, new)
        if joined is not None:
            return (*path[:position], joined, *path[position + 1 :])
    return (*path, new)


def _intersect(old: Condition, new: Condition) -> Condition | None:
    """Both conditions as one; None if they are about different sums or axes."""
    if isinstance(old, SumRange) and isinstance(new, SumRange) and old.weights == new.weights:
        return SumRange(new.weights, max(old.low, new.low), min(old.high, new.high))
    if isinstance(old, LabelSet) and isinstance(new, LabelSet) and old.axis == new.axis:
        return LabelSet(new.axis, tuple(label for label in new.labels if label in old.labels))
    return None
