"""A rule as a tree, which evaluation, explanation, files and exports use.

    Leaf(a)                           take action a (its index)
    Split(weights, cuts, branches)    index = sum_k weight_k x_k; branch j is taken where exactly j
                                      of the ascending cuts lie below the index
    LabelSplit(axis, labels, inside, outside)
                                      whether a text axis has one of these labels
    Exceptions(places, actions, otherwise)
                                      single states with their actions, and a node for all others
    Lookup(axes, starts, actions)     runs of one action over the places of some axes, counted in
                                      the order of ``axes``, the last of which varies fastest

``If x <= t`` is a split with one cut, and an order-up-to rule a split with a cut for each order.
Files store the shortest decimal text of each float. Every cut keeps a distance from the index of
every grid state, so that no rounding can change a decision (``RuleTree.cut_clearance``).
Text axes occur only in ``LabelSplit``, ``Exceptions`` and ``Lookup``; their coordinates are 0, 1,
2, ... as everywhere. Off the grid, ``Exceptions`` and ``Lookup`` take the nearest state, the others
the point. Rule files have keys of their own for nodes (``NODE_KEYS``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import PolicyError, is_whole
from tessella.files import is_finite
from tessella.grid import StateGrid


@dataclass(frozen=True)
class Leaf:
    """Take one action."""

    action: int  # its index


@dataclass(frozen=True)
class Split:
    """Compare a weighted sum of coordinates with ascending cuts."""

    weights: tuple[tuple[str, float], ...]  # (axis, weight), in the order in which they are added
    cuts: tuple[float, ...]  # ascending; equal cuts leave the branch between them empty
    branches: tuple[Node, ...]  # one more than cuts


@dataclass(frozen=True)
class LabelSplit:
    """Test whether a text axis has one of some labels."""

    axis: str
    labels: tuple[str, ...]
    inside: Node
    outside: Node


@dataclass(frozen=True)
class Exceptions:
    """Actions of single states, and a node for all others."""

    places: tuple[tuple[Any, ...], ...]  # values of all axes, in the grid's order
    actions: tuple[int, ...]  # one for each place
    otherwise: Node


@dataclass(frozen=True)
class Lookup:
    """Runs of one action over the places of some axes."""

    axes: tuple[str, ...]  # the last varies fastest, each in the order in which it lists its values
    starts: tuple[int, ...]  # where each run begins; the first at 0
    actions: tuple[int, ...]


Node = Leaf | Split | LabelSplit | Exceptions | Lookup
# The keys of nodes in rule files (docs/rule.schema.json).
NODE_KEYS: dict[type, str] = {
    Leaf: "Choose",
    Split: "Split",
    LabelSplit: "Among",
    Exceptions: "Except",
    Lookup: "Lookup",
}
NODE_CLASSES = {key: node_class for node_class, key in NODE_KEYS.items()}


@dataclass(frozen=True, eq=False)
class RuleTree:
    """A rule on a grid.

    Attributes:
        grid: the states.
        root: what to do.
        size: numbers stored, as the rule's class counts them.
    """

    grid: StateGrid
    root: Node
    size: int

    def __call__(self, points: NDArray[np.float64]) -> NDArray[np.int32]:
        """(n, d) points in the axes' own values -> (n,) action indices."""
        points = np.asarray(points, dtype=float)
        actions = np.empty(len(points), dtype=np.int32)
        for _ in self._walk(points, actions):
            pass
        return actions

    def _walk(self, points: NDArray, actions: NDArray) -> Iterator[tuple[Node, NDArray]]:
        """Nodes that points reach, each with the rows of these points; ``actions`` is filled."""
        stack: list[tuple[Node, NDArray]] = [(self.root, np.arange(len(points)))]
        while stack:
            node, rows = stack.pop()
            yield node, rows
            branch = self._route(node, points, rows, actions)
            parts = ((child, rows[branch == j]) for j, child in enumerate(list_children(node)))
            stack += [(child, part) for child, part in parts if part.size]

    def _route(self, node: Node, points: NDArray, rows: NDArray, actions: NDArray) -> NDArray:
        """(n,) which child each point in ``rows`` goes to; -1 where ``actions`` is filled."""
        if isinstance(node, Split | LabelSplit):
            return self._find_child_indices(node, points[rows])
        if isinstance(node, Exceptions):
            axes = self.grid.axes
            coordinates = [dict(zip(axes, place, strict=True)) for place in node.places]
            listed_states = np.array(
                [self.grid.state(**place) for place in coordinates], dtype=np.int64
            )
            order = np.argsort(listed_states)
            states = self.grid.nearest(points[rows])
            matches = order[
                np.minimum(np.searchsorted(listed_states[order], states), len(listed_states) - 1)
            ]
            is_listed = listed_states[matches] == states
            actions[rows[is_listed]] = np.asarray(node.actions)[matches[is_listed]]
            return np.where(is_listed, -1, 0)
        if isinstance(node, Lookup):
            positions = self._find_lookup_positions(node.axes, points[rows])
            n_started = np.searchsorted(node.starts, positions, side="right")
            actions[rows] = np.asarray(node.actions)[n_started - 1]
        else:
            actions[rows] = node.action
        return np.full(len(rows), -1)

    def _find_child_indices(self, node: Split | LabelSplit, points: NDArray) -> NDArray[np.int64]:
        """(n,) which child each point goes to."""
        if isinstance(node, Split):
            return np.searchsorted(node.cuts, self.compute_weighted_sum(node, points), side="left")
        axis = self.grid.axis(node.axis)
        codes = np.clip(np.rint(points[:, axis]), 0, self.grid.lengths[axis] - 1).astype(int)
        is_inside = np.isin(self.grid.values[axis], node.labels)
        return np.where(is_inside[codes], 0, 1)

    def compute_weighted_sum(self, node: Split, points: NDArray) -> NDArray[np.float64]:
        """(n,) the weighted sum that ``node`` compares."""
        total = np.zeros(len(points))
        for name, weight in node.weights:
            total = total + weight * points[:, self.grid.axis(name)]
        return total

    def _find_lookup_positions(self, axes: tuple[str, ...], points: NDArray) -> NDArray[np.int64]:
        """(n,) positions of points in the order of a lookup."""
        positions = self.grid.nearest_positions(points)
        order = [self.grid.axis(name) for name in axes]
        lengths = [self.grid.lengths[k] for k in order]
        return np.ravel_multi_index([positions[k] for k in order], lengths)

    @property
    def cut_clearance(self) -> float:
        """The smallest relative distance between a cut and the index of a state that reaches it."""
        points = self.grid.points
        walk = self._walk(points, np.empty(len(points), dtype=np.int32))
        return min(self._compute_clearance(node, points[rows]) for node, rows in walk)

    def _compute_clearance(self, node: Node, points: NDArray) -> float:
        if not isinstance(node, Split) or not node.cuts:
            return math.inf
        sums = np.unique(self.compute_weighted_sum(node, points))
        positions = np.searchsorted(sums, node.cuts)
        below = sums[np.maximum(positions - 1, 0)]
        above = sums[np.minimum(positions, len(sums) - 1)]
        distance = np.minimum(np.abs(below - node.cuts), np.abs(above - node.cuts)).min()
        return float(distance / max(np.abs(sums).max(), np.abs(node.cuts).max(), 1e-300))

    def iterate_nodes(self) -> Iterator[Node]:
        """All nodes, parents first."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(list_children(node)))

    @property
    def depth(self) -> int:
        """The most nodes on a path from the root to an action."""
        level = [self.root]
        depth = 0
        while level:
            depth += 1
            level = [child for node in level for child in list_children(node)]
        return depth

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that the rule depends on, in the grid's order."""
        used: set[str] = set()
        for node in self.iterate_nodes():
            if isinstance(node, Split):
                used |= {name for name, _ in node.weights}
            elif isinstance(node, LabelSplit):
                used.add(node.axis)
            elif isinstance(node, Exceptions | Lookup):
                used |= set(node.axes if isinstance(node, Lookup) else self.grid.axes)
        return tuple(name for name in self.grid.axes if name in used)


def list_children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, in the order of their branches."""
    if isinstance(node, Split):
        return node.branches
    if isinstance(node, LabelSplit):
        return node.inside, node.outside
    return (node.otherwise,) if isinstance(node, Exceptions) else ()


def is_text_axis(grid: StateGrid, axis: int | str) -> bool:
    """Whether an axis, by position or name, has labels instead of numbers."""
    position = grid.axis(axis) if isinstance(axis, str) else axis
    return grid.values[position].dtype.kind == "U"


def build_lookup(axes: tuple[str, ...], table: NDArray) -> Lookup:
    """The runs of a flat table of actions."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(table)) + 1])
    return Lookup(axes, tuple(starts.tolist()), tuple(table[starts].tolist()))


def node_to_json(node: Node) -> dict[str, Any]:
    """``{"Choose": {"action": 2}}``, and so on down; ``node_from_json`` reads it back."""
    content = {f.name: _to_json(getattr(node, f.name)) for f in fields(node)}
    return {NODE_KEYS[type(node)]: content}


def _to_json(value: Any) -> Any:
    if isinstance(value, Node):
        return node_to_json(value)
    return [_to_json(v) for v in value] if isinstance(value, tuple) else value


def node_from_json(content: Mapping[str, Any]) -> Node:
    """What ``node_to_json`` wrote."""
    ((key, node_fields),) = content.items()
    if key not in NODE_CLASSES:
        requirement = f"a rule tree consists of {', '.join(NODE_CLASSES)}"
        raise PolicyError(requirement, value=f"got {key!r}")
    return NODE_CLASSES[key](**{name: _from_json(value) for name, value in node_fields.items()})


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return node_from_json(value)
    return tuple(map(_from_json, value)) if isinstance(value, list) else value


def check_rule_tree(tree: RuleTree, n_actions: int) -> None:
    """Reject a tree from a file with a node that could not be evaluated."""
    checker = _NodeChecker(tree.grid, n_actions)
    for node in tree.iterate_nodes():
        for holds, requirement, value in checker.requirements(node):
            if not holds:
                key = NODE_KEYS[type(node)]
                raise PolicyError(f"{key} in a program {requirement}", value=f"got {value!r:.60}")


@dataclass(frozen=True)
class _NodeChecker:
    """Checks the fields of nodes, which were read from any JSON."""

    grid: StateGrid
    n_actions: int

    def requirements(self, node: Node) -> Iterator[tuple[bool, str, Any]]:
        """(holds, requirement, value) in an order where each can rely on those before it."""
        match node:
            case Leaf(action):
                yield self._require_actions((action,), 1)
            case Split(weights, cuts, branches):
                are_weights = _is_tuple_of(weights, self._is_weight) and len(weights) > 0
                yield are_weights, "weighs axes of numbers", weights
                is_ascending = _is_tuple_of(cuts, is_finite) and [*cuts] == sorted(cuts)
                yield is_ascending, "has ascending cuts", cuts
                is_complete = _is_tuple_of(branches, Node) and len(branches) == len(cuts) + 1
                yield is_complete, "has one branch more than cuts", branches
            case LabelSplit(axis, labels, inside, outside):
                yield self._is_axis(axis, is_text=True), "tests an axis of text", axis
                yield _is_tuple_of(labels, str), "has labels", labels
                yield _is_tuple_of((inside, outside), Node), "has two branches", outside
            case Exceptions(places, actions, otherwise):
                yield _are_states(places, self.grid), "names states of the grid, each once", places
                yield self._require_actions(actions, len(places))
                yield isinstance(otherwise, Node), "has a branch for other states", otherwise
            case Lookup(axes, starts, actions):
                are_axes = _is_tuple_of(axes, self._is_axis) and len({*axes}) == len(axes) > 0
                yield are_axes, "is over some of the axes", axes
                places = math.prod(self.grid.lengths[self.grid.axis(name)] for name in axes)
                requirement = f"has runs that begin in ascending order from 0 to {places - 1}"
                are_places = _is_tuple_of(starts, lambda start: is_whole(start, 0, places - 1))
                ascend = are_places and [*starts] == sorted({0, *starts})
                yield ascend, requirement, starts
                yield self._require_actions(actions, len(starts))

    def _require_actions(self, actions: Any, count: int) -> tuple[bool, str, Any]:
        last = self.n_actions - 1
        are_known = _is_tuple_of(actions, lambda a: is_whole(a, 0, last)) and len(actions) == count
        return are_known, f"takes {count} of the actions 0..{last}", actions

    def _is_weight(self, weight: Any) -> bool:
        is_pair = isinstance(weight, tuple) and len(weight) == 2
        return is_pair and self._is_axis(weight[0], is_text=False) and is_finite(weight[1])

    def _is_axis(self, name: object, is_text: bool | None = None) -> bool:
        if not isinstance(name, str) or name not in self.grid.axes:
            return False
        return is_text is None or is_text == is_text_axis(self.grid, name)


def _is_tuple_of(value: Any, kind: type | UnionType | Callable[[Any], bool]) -> bool:
    """Whether this is a tuple of instances of a type, or of what satisfies a condition."""
    if isinstance(kind, type | UnionType):
        return isinstance(value, tuple) and all(isinstance(part, kind) for part in value)
    return isinstance(value, tuple) and all(map(kind, value))


def _are_states(places: Any, grid: StateGrid) -> bool:
    """Whether ``places`` are some states of the grid by their values, each once."""
    if not _is_tuple_of(places, lambda p: isinstance(p, tuple) and len(p) == grid.ndim):
        return False
    positions = []
    for axis, column in enumerate(zip(*places, strict=True)):
        if not _is_tuple_of(column, str if is_text_axis(grid, axis) else is_finite):
            return False
        positions.append(grid.locate(axis, np.asarray(column)))
    states = {*zip(*positions, strict=True)}
    return len(states) == len(places) > 0 and bool((np.array(positions) >= 0).all())


@cache
def choose_short_number(low: float, high: float) -> float:
    """The number with the fewest digits between two others, a tenth of their distance from both.

    ``low`` itself where there is no number between them.
    """
    step = high - low
    if not step > 0:
        raise PolicyError("a cut lies between two numbers", value=f"got {low} and {high}")
    middle = (low + high) / 2
    margin = step / 10
    for digits in range(-math.floor(math.log10(max(abs(low), abs(high), 1e-300))) - 1, 18):
        rounded = float(f"{round(middle, digits):.{max(digits, 0)}f}") + 0.0  # never -0
        if low + margin <= rounded <= high - margin and rounded < high:
            return rounded
    return middle if middle < high else low


def build_split_or_leaf(
    weights: tuple[tuple[str, float], ...], cuts: tuple[float, ...], branches: tuple[Node, ...]
) -> Node:
    """A split without cuts between equal branches; where all are equal, the branch itself."""
    kept = [j for j, (below, above) in enumerate(pairwise(branches)) if below != above]
    if not kept:
        return branches[0]
    merged = branches[0], *(branches[j + 1] for j in kept)
    return Split(weights, tuple(cuts[j] for j in kept), merged)
