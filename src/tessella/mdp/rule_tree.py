"""A rule as a tree: the one form that evaluation, explanation, files and exports read.

    Choose(a)                         take action a (its index)
    Split(weights, cuts, branches)    index = sum_k weight_k x_k; branch j is taken where exactly j
                                      of the ascending cuts lie below the index
    Among(axis, labels, inside, outside)   whether a text axis has one of these labels
    Except(places, actions, otherwise)     states named one by one, and what all others do
    Lookup(axes, starts, actions)     runs of one action over the places of some axes, counted in
                                      the order of ``axes``, the last of which varies fastest

``If x <= t`` is a split with one cut, and an order-up-to rule a split with a cut for each order.
Numbers are floats whose shortest decimal text is what is stored. Every cut lies clear of the index
of every grid state, so that no rounding can turn a decision (``RuleTree.cut_clearance``).
Text axes stand only in ``Among``, ``Except`` and ``Lookup``; their coordinates are 0, 1, 2, ... as
everywhere. Off the grid, ``Except`` and ``Lookup`` take the nearest state, the others the point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import PolicyError
from tessella.files import is_finite, is_whole
from tessella.grid import StateGrid


@dataclass(frozen=True)
class Choose:
    """Take one action."""

    action: int  # its index


@dataclass(frozen=True)
class Split:
    """Compare a weighted sum of coordinates with ascending cuts."""

    weights: tuple[tuple[str, float], ...]  # (axis, weight), in the order in which they are added
    cuts: tuple[float, ...]  # ascending; equal cuts leave the branch between them empty
    branches: tuple[Node, ...]  # one more than cuts


@dataclass(frozen=True)
class Among:
    """Ask whether a text axis has one of some labels."""

    axis: str
    labels: tuple[str, ...]
    inside: Node
    outside: Node


@dataclass(frozen=True)
class Except:
    """Some states by name, and what all others do."""

    places: tuple[tuple[Any, ...], ...]  # values of all axes, in the grid's order
    actions: tuple[int, ...]  # one for each place
    otherwise: Node


@dataclass(frozen=True)
class Lookup:
    """Runs of one action over the places of some axes."""

    axes: tuple[str, ...]  # the last varies fastest, each in the order in which it lists its values
    starts: tuple[int, ...]  # where each run begins; the first at 0
    actions: tuple[int, ...]


Node = Choose | Split | Among | Except | Lookup
KINDS: dict[str, type] = {kind.__name__: kind for kind in (Choose, Split, Among, Except, Lookup)}


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
        waiting: list[tuple[Node, NDArray]] = [(self.root, np.arange(len(points)))]
        while waiting:
            node, rows = waiting.pop()
            branch = self._route(node, points, rows, actions)
            parts = [rows[branch == j] for j in range(len(children(node)))]
            below = zip(children(node), parts, strict=True)
            waiting += [(child, part) for child, part in below if part.size]
        return actions

    def _route(self, node: Node, points: NDArray, rows: NDArray, actions: NDArray) -> NDArray:
        """(n,) which child each point in ``rows`` goes to; -1 where ``actions`` has the answer."""
        if isinstance(node, Split | Among):
            return self._child_index(node, points[rows])
        if isinstance(node, Except):
            named = np.array([self._state_index(place) for place in node.places], dtype=np.int64)
            order = np.argsort(named)
            states = self.grid.nearest(points[rows])
            at = order[np.minimum(np.searchsorted(named[order], states), len(named) - 1)]
            found = named[at] == states
            actions[rows[found]] = np.asarray(node.actions)[at[found]]
            return np.where(found, -1, 0)
        if isinstance(node, Lookup):
            at = np.searchsorted(
                node.starts, self._lookup_positions(node.axes, points[rows]), side="right"
            )
            actions[rows] = np.asarray(node.actions)[at - 1]
        else:
            actions[rows] = node.action
        return np.full(len(rows), -1)

    def _child_index(self, node: Split | Among, points: NDArray) -> NDArray[np.int64]:
        """(n,) which child each point goes to."""
        if isinstance(node, Split):
            return np.searchsorted(node.cuts, self.index(node, points), side="left")
        axis = self.grid.axis(node.axis)
        codes = np.clip(np.rint(points[:, axis]), 0, self.grid.shape[axis] - 1).astype(int)
        inside = np.isin(self.grid.values[axis], node.labels)
        return np.where(inside[codes], 0, 1)

    def index(self, node: Split, points: NDArray) -> NDArray[np.float64]:
        """(n,) the weighted sum that ``node`` compares."""
        total = np.zeros(len(points))
        for name, weight in node.weights:
            total = total + weight * points[:, self.grid.axis(name)]
        return total

    def _lookup_positions(self, axes: tuple[str, ...], points: NDArray) -> NDArray[np.int64]:
        """(n,) positions of points in the order of a lookup."""
        where = np.unravel_index(self.grid.nearest(points), self.grid.shape)
        order = [self.grid.axis(name) for name in axes]
        shape = [self.grid.shape[k] for k in order]
        return np.ravel_multi_index([where[k] for k in order], shape)

    def _state_index(self, index: tuple) -> int:
        return self.grid.state(**dict(zip(self.grid.axes, index, strict=True)))

    @property
    def cut_clearance(self) -> float:
        """How clear every cut is of the states that come to it, in shares of their index's size."""
        points = self.grid.points
        nearest = math.inf
        waiting: list[tuple[Node, NDArray]] = [(self.root, np.arange(len(points)))]
        while waiting:
            node, rows = waiting.pop()
            nearest = min(nearest, self._node_clearance(node, points[rows]))
            branch = self._route(node, points, rows, np.empty(len(points), dtype=np.int32))
            parts = ((child, rows[branch == j]) for j, child in enumerate(children(node)))
            waiting += [(child, part) for child, part in parts if part.size]
        return nearest

    def _node_clearance(self, node: Node, points: NDArray) -> float:
        if not isinstance(node, Split) or not node.cuts:
            return math.inf
        index = np.unique(self.index(node, points))
        at = np.searchsorted(index, node.cuts)
        below = index[np.maximum(at - 1, 0)]
        above = index[np.minimum(at, len(index) - 1)]
        near = np.minimum(np.abs(below - node.cuts), np.abs(above - node.cuts)).min()
        return float(near / max(np.abs(index).max(), np.abs(node.cuts).max(), 1e-300))

    def nodes(self) -> Iterator[Node]:
        """All nodes, parents first."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(children(node)))

    @property
    def depth(self) -> int:
        """The most nodes on the way to an answer."""
        deepest = 0
        waiting = [(self.root, 1)]
        while waiting:
            node, level = waiting.pop()
            deepest = max(deepest, level)
            waiting += [(child, level + 1) for child in children(node)]
        return deepest

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that are looked at, in the grid's order."""
        used: set[str] = set()
        for node in self.nodes():
            if isinstance(node, Split):
                used |= {name for name, _ in node.weights}
            elif isinstance(node, Among):
                used.add(node.axis)
            elif isinstance(node, Except | Lookup):
                used |= set(node.axes if isinstance(node, Lookup) else self.grid.axes)
        return tuple(name for name in self.grid.axes if name in used)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, in the order of their branches."""
    if isinstance(node, Split):
        return node.branches
    if isinstance(node, Among):
        return node.inside, node.outside
    return (node.otherwise,) if isinstance(node, Except) else ()


def node_to_json(node: Node) -> dict[str, Any]:
    """``{"Choose": {"action": 2}}``, and so on down; ``node_from_json`` reads it back."""
    content = {f.name: _to_json(getattr(node, f.name)) for f in fields(node)}
    return {type(node).__name__: content}


def _to_json(value: Any) -> Any:
    if isinstance(value, Node):
        return node_to_json(value)
    return [_to_json(v) for v in value] if isinstance(value, tuple) else value


def node_from_json(content: Mapping[str, Any]) -> Node:
    """What ``node_to_json`` wrote."""
    ((kind, parts),) = content.items()
    if kind not in KINDS:
        raise PolicyError(f"a program is made of {', '.join(KINDS)}", value=f"got {kind!r}")
    return KINDS[kind](**{name: _from_json(value) for name, value in parts.items()})


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return node_from_json(value)
    return tuple(map(_from_json, value)) if isinstance(value, list) else value


def check_program(program: RuleTree, n_actions: int) -> None:
    """Refuse a tree from a file with a node that could not be evaluated."""
    for node in program.nodes():
        _check_node(node, program.grid, n_actions)


def _check_node(node: Node, grid: StateGrid, n_actions: int) -> None:
    def need(holds: bool, requirement: str, value: object) -> None:
        if not holds:
            kind = type(node).__name__
            raise PolicyError(f"{kind} in a program {requirement}", value=f"got {value!r:.60}")

    def names(given: object, *, text: bool | None = None) -> bool:
        if not isinstance(given, str) or given not in grid.axes:
            return False
        return text is None or text == (grid.values[grid.axis(given)].dtype.kind == "U")

    def lists(given: object, entry: Callable[[Any], bool]) -> bool:
        return isinstance(given, tuple) and all(map(entry, given))

    def takes(actions: object, count: int) -> None:
        held = lists(actions, lambda a: is_whole(a, n_actions - 1)) and len(actions) == count  # type: ignore[arg-type]
        need(held, f"takes {count} of the actions 0..{n_actions - 1}", actions)

    match node:
        case Choose(action):
            takes((action,), 1)
        case Split(weights, cuts, branches):
            pairs = lists(weights, lambda w: isinstance(w, tuple) and len(w) == 2)
            held = pairs and all(names(n, text=False) and is_finite(w) for n, w in weights)
            held = held and len(weights) > 0
            need(held, "weighs axes of numbers", weights)
            need(lists(cuts, is_finite) and [*cuts] == sorted(cuts), "has ascending cuts", cuts)
            held = lists(branches, lambda b: isinstance(b, Node)) and len(branches) == len(cuts) + 1
            need(held, "has one branch more than cuts", branches)
        case Among(axis, labels, inside, outside):
            need(names(axis, text=True), "asks about an axis of text", axis)
            need(lists(labels, lambda label: isinstance(label, str)), "has labels", labels)
            held = isinstance(inside, Node) and isinstance(outside, Node)
            need(held, "has two branches", outside)
        case Except(places, actions, otherwise):
            need(_are_states(places, grid), "names states of the grid, each once", places)
            takes(actions, len(places))
            need(isinstance(otherwise, Node), "has a branch for other states", otherwise)
        case Lookup(axes, starts, actions):
            held = lists(axes, names) and len({*axes}) == len(axes) > 0
            need(held, "is over some of the axes", axes)
            count = math.prod(grid.shape[grid.axis(name)] for name in axes)
            held = lists(starts, lambda s: is_whole(s, count - 1)) and starts[:1] == (0,)
            held = held and all(low < high for low, high in pairwise(starts))
            need(held, f"has runs that begin in ascending order from 0 to {count - 1}", starts)
            takes(actions, len(starts))


def _are_states(places: Any, grid: StateGrid) -> bool:
    """Whether ``places`` are some states of the grid by their values, each once."""
    shaped = isinstance(places, tuple) and len(places) > 0
    if not (shaped and all(isinstance(p, tuple) and len(p) == grid.ndim for p in places)):
        return False
    where = []
    for axis, column in enumerate(zip(*places, strict=True)):
        text = grid.values[axis].dtype.kind == "U"
        if not all(isinstance(v, str) if text else is_finite(v) for v in column):
            return False
        where.append(grid.locate(axis, np.asarray(column)))
    return bool((np.array(where) >= 0).all()) and len({*zip(*where, strict=True)}) == len(places)


@cache
def short_number_between(low: float, high: float) -> float:
    """The number of fewest digits that lies well between two others: at least a tenth inside.

    The lower one itself where there is none: ``high`` alone lies above it.
    """
    step = high - low
    if not step > 0:
        raise PolicyError("a cut lies between two numbers", value=f"got {low} and {high}")
    middle = (low + high) / 2
    inside = step / 10
    for digits in range(-math.floor(math.log10(max(abs(low), abs(high), 1e-300))) - 1, 18):
        near = float(f"{round(middle, digits):.{max(digits, 0)}f}") + 0.0  # never -0
        if low + inside <= near <= high - inside and near < high:
            return near
    return middle if middle < high else low


def leaf_or_split(
    weights: tuple[tuple[str, float], ...], cuts: tuple[float, ...], branches: tuple[Node, ...]
) -> Node:
    """A split, or the one thing that all its branches say."""
    same = all(branch == branches[0] for branch in branches)
    return branches[0] if same else Split(weights, cuts, branches)
