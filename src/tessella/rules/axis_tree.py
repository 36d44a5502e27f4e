"""Trees of cuts along single axes: k leaves store 2 (k - 1) + k numbers.

A cut stores its axis and its place, a leaf its action. The best tree for additive costs comes from
the program over boxes (see ``boxes``), which is exact at any depth. It looks at all boxes: 182,325
for 33 x 25 states, 6.8 million for 101 x 51. Where they are too many, cuts are allowed only at the
places along each axis that matter most, and the answer is no longer proven best. Where the leaves
are too many for one pass that does all numbers of them, passes with a price per leaf find some of
the best trees; what these and greedy trees leave when they are pruned fills the numbers between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.program import Among, Choose, Node, Split, between
from tessella.rules.boxes import Boxes, Cut, Leaf, Tree, folded, n_boxes, n_leaves
from tessella.rules.greedy_tree import greedy_trees, growing_trees
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

PASSES = 10  # prices that are tried on the way to a target
GROWN = 1_000  # leaves of a greedy tree, before it is pruned
OFFERED = 60  # leaves of a greedy tree that is judged as it grows


@dataclass(frozen=True)
class AxisTree(RuleClass):
    """Trees of axis-aligned cuts.

    Attributes:
        boxes: the most boxes that are looked at; with more, only some places are cut.
        work: the most additions that are spent on trees of every size; beyond, prices are used.
    """

    boxes: int = 2_000_000
    work: float = 4e8
    name: ClassVar[str] = "axis tree"
    step: ClassVar[int] = 3
    slices: ClassVar[bool] = True
    varied: ClassVar[bool] = True

    def heuristic(self, costs: Costs) -> str:
        boxes = n_boxes(costs.grid.shape)
        if boxes <= self.boxes:
            return ""
        return f"{boxes:,} boxes are too many to look at; cuts are made at some places only"

    def largest(self, costs: Costs) -> float:
        return size_of(costs.grid.size)

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        leaves = leaves_within(most)
        if leaves < 1:
            return []
        places = self._places(costs)
        boxes = Boxes(merged(costs.sorted, places))
        if leaves <= self._countable(boxes) and not self.heuristic(costs):
            best = boxes.by_count(leaves)
            return falling([_fitted(costs, tree, cost, places) for cost, tree in best])
        found = self._some(costs, boxes, leaves, target)
        made = [_fitted(costs, tree, cost, places) for cost, tree in found]
        if leaves > 1 and (self.heuristic(costs) or not _whole(costs.by_state)):
            made += self._greedy(costs, leaves)
        return falling(made)

    def _some(self, costs: Costs, boxes: Boxes, leaves: int, target: float) -> list:
        """Good trees of all sizes, the best for some prices and for small numbers of leaves."""
        found = _by_prices(boxes, target, costs.deadline)
        if _whole(costs.by_state):
            return [one for one in found if n_leaves(one[1]) <= leaves]
        few = min(self._countable(boxes), leaves, min(n_leaves(tree) for _, tree in found))
        if few > 1 and time.perf_counter() < costs.deadline:
            found += boxes.by_count(few)
        return boxes.pruned([tree for _, tree in found], leaves)

    def offers(self, costs: Costs, most: int) -> list[Fitted]:
        """A greedy tree as it grows, and as it is cut back."""
        everywhere = [np.arange(n) for n in costs.grid.shape]
        grown = growing_trees(*_flat(costs), min(leaves_within(most), OFFERED))
        return [_fitted(costs, tree, np.inf, everywhere) for tree in grown]

    def _greedy(self, costs: Costs, leaves: int) -> list[Fitted]:
        """What is left of greedy trees when they are pruned for these costs."""
        everywhere = [np.arange(n) for n in costs.grid.shape]
        grown = greedy_trees(*_flat(costs), min(2 * leaves, GROWN))
        left = Boxes(costs.sorted).pruned(grown, leaves)
        return [_fitted(costs, tree, cost, everywhere) for cost, tree in left]

    def needed(self, costs: Costs, target: float, most: int, fits: list[Fitted]) -> int:
        leaves, boxes = leaves_within(most), Boxes(costs.sorted)
        below_1 = target < 1 and _whole(costs.by_state)  # then it is a question of no cost at all
        if leaves <= self._countable(boxes) or below_1:
            return super().needed(costs, target, most, fits)
        return size_of(min(_least(boxes, target, costs.deadline), leaves + 1))

    def neighbours(self, costs: Costs, root: Node) -> Iterator[Node]:
        """Trees with one cut a place further on or back, or another action in one leaf."""
        if isinstance(root, Choose):
            yield from (Choose(a) for a in range(len(costs.actions)) if a != root.action)
        elif isinstance(root, Split):
            yield from (replace(root, cuts=cuts) for cuts in _moved_cuts(costs, root))
            for j, branch in enumerate(root.branches):
                for other in self.neighbours(costs, branch):
                    branches = (*root.branches[:j], other, *root.branches[j + 1 :])
                    yield replace(root, branches=branches)
        elif isinstance(root, Among):
            labels = costs.grid.values[costs.grid.axis(root.axis)].tolist()
            for n in {max(len(root.labels) - 1, 1), min(len(root.labels) + 1, len(labels) - 1)}:
                yield replace(root, labels=tuple(labels[:n]))
            for other in self.neighbours(costs, root.inside):
                yield replace(root, inside=other)
            for other in self.neighbours(costs, root.outside):
                yield replace(root, outside=other)

    def _countable(self, boxes: Boxes) -> int:
        """For how many leaves the program by count is cheap enough."""
        cuts = sum(n * (n * n - 1) / 6 / (n * (n + 1) / 2) for n in boxes.shape)
        return int(math.sqrt(2 * self.work / max(cuts * n_boxes(boxes.shape), 1)))

    def _places(self, costs: Costs) -> list[NDArray[np.int64]]:
        """Where each part begins along each axis: everywhere, if there are not too many boxes."""
        shape = costs.grid.shape
        if not self.heuristic(costs):
            return [np.arange(n) for n in shape]
        weight = [slab_weights(costs.sorted, axis) for axis in range(len(shape))]
        parts = [min(n, 2) for n in shape]
        while True:  # one more part for the axis on which most is at stake between its parts
            gain = [
                w.sum() / p if p < n else -1.0 for w, p, n in zip(weight, parts, shape, strict=True)
            ]
            axis = int(np.argmax(gain))
            parts[axis] += max(1, parts[axis] // 8)
            if gain[axis] < 0 or n_boxes(tuple(parts)) > self.boxes // 10:
                parts[axis] = min(parts[axis], shape[axis])
                return [chosen_places(w, p) for w, p in zip(weight, parts, strict=True)]


def _moved_cuts(costs: Costs, node: Split) -> Iterator[tuple[float, ...]]:
    """The cuts of a node with one of them a place further on or back."""
    values = costs.rising[costs.grid.axis(node.weights[0][0])].tolist()
    at = np.searchsorted(values, node.cuts).tolist()
    for j, place in enumerate(at):
        low = at[j - 1] if j else 0
        high = at[j + 1] if j + 1 < len(at) else len(values)
        for other in (place - 1, place + 1):
            if low < other < high:
                here = between(values[other - 1], values[other])
                yield (*node.cuts[:j], here, *node.cuts[j + 1 :])


def _flat(costs: Costs) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(S, axes) positions of the states along rising axes, and their (S, A) costs."""
    places = np.indices(costs.grid.shape).reshape(costs.grid.ndim, -1).T.astype(np.float32)
    return places, costs.sorted.reshape(costs.grid.size, -1)


def leaves_within(numbers: int) -> int:
    """How many leaves so many numbers can store."""
    return (numbers + 2) // 3


def size_of(leaves: int) -> int:
    """Numbers that a tree stores."""
    return 3 * leaves - 2


def _whole(costs: NDArray) -> bool:
    return bool((costs == np.rint(costs)).all())


def _by_prices(boxes: Boxes, target: float, deadline: float) -> list:
    """Trees for prices between nothing and all, nearer and nearer to the target."""
    least = float(boxes.leaves((1,) * len(boxes.shape)).min(axis=-1).sum())
    high = max(float(boxes.leaves(boxes.shape).min()), 1e-200)
    low = (0.25 if _whole_sums(boxes) else 1e-9 * high) / math.prod(boxes.shape)
    low = 2.0 ** math.floor(math.log2(low))  # added to whole costs without rounding
    cost, tree = boxes.by_price(low)
    found = [(cost - low * n_leaves(tree), tree)]
    goal = max(target, least)
    if _whole_sums(boxes) and found[0][0] <= goal:
        return found
    for _ in range(PASSES):
        if time.perf_counter() > deadline:
            break
        price = math.sqrt(low * high)
        total, tree = boxes.by_price(price)
        cost = total - price * n_leaves(tree)
        found.append((cost, tree))
        low, high = (price, high) if cost <= goal else (low, price)
    return found


def _whole_sums(boxes: Boxes) -> bool:
    return _whole(boxes.leaves(boxes.shape))


def _least(boxes: Boxes, target: float, deadline: float) -> int:
    """No tree of fewer leaves costs the target or less: the best of the bounds by prices."""
    high = float(boxes.leaves(boxes.shape).min())
    if high <= target:
        return 1
    best, low = 1.0, 1e-9 * high
    for _ in range(PASSES):  # the bound rises and then falls with the price
        if time.perf_counter() > deadline:
            break
        price = math.sqrt(low * high)
        total, tree = boxes.by_price(price)
        best = max(best, (total * (1 - 1e-12) - target) / price)
        cost = total - price * n_leaves(tree)
        low, high = (price, high) if cost <= target else (low, price)
    return max(1, math.ceil(best - 1e-6))


def slab_weights(costs: NDArray, axis: int) -> NDArray[np.float64]:
    """(n - 1,) what is lost if the best action of one slab is taken in the next, by place."""
    moved = np.moveaxis(costs, axis, 0)
    best = moved.argmin(axis=-1)[..., None]
    there = np.take_along_axis(moved[1:], best[:-1], -1) + np.take_along_axis(
        moved[:-1], best[1:], -1
    )
    return there.sum(axis=tuple(range(1, there.ndim)))


def chosen_places(weight: NDArray, parts: int) -> NDArray[np.int64]:
    """Beginnings of so many parts: evenly by weight, after a floor that spreads them a little."""
    total = np.cumsum(weight / max(weight.sum(), 1e-300) + 0.1 / max(len(weight), 1))
    if parts > len(weight):
        return np.arange(len(weight) + 1)
    at = np.searchsorted(total, np.arange(1, parts) / parts * total[-1])
    return np.unique(np.concatenate([[0], np.minimum(at, len(weight) - 1) + 1]))


def merged(costs: NDArray, places: list[NDArray]) -> NDArray[np.float64]:
    for axis, starts in enumerate(places):
        if len(starts) < costs.shape[axis]:
            costs = np.add.reduceat(costs, starts, axis)
    return costs


def _fitted(costs: Costs, tree: Tree, cost: float, places: list[NDArray]) -> Fitted:
    return Fitted(node_of(costs, tree, places), size_of(n_leaves(tree)), cost)


def node_of(costs: Costs, tree: Tree, places: list[NDArray]) -> Node:
    """A tree over positions as a program over the axes' own values.

    Cuts of one axis that follow one another become one split with several cuts.
    """

    def parts(tree: Tree) -> tuple[Tree, Tree] | None:
        return (tree.below, tree.above) if isinstance(tree, Cut) else None

    def joined(tree: Tree, below: list[Node]) -> Node:
        return Choose(tree.action) if isinstance(tree, Leaf) else _node(costs, tree, below, places)

    return folded(tree, parts, joined)


def _node(costs: Costs, cut: Cut, below: list[Node], places: list[NDArray]) -> Node:
    name, at = costs.grid.axes[cut.axis], int(places[cut.axis][cut.at])
    values = costs.grid.values[cut.axis]
    if values.dtype.kind == "U":
        return Among(name, tuple(values[:at].tolist()), *below)
    numbers, weights = costs.rising[cut.axis], ((name, 1.0),)
    return joined_split(weights, between(numbers[at - 1], numbers[at]), below)


def joined_split(weights: tuple, here: float, below: list[Node]) -> Split:
    """A split in two, together with those directly below that compare the same sum."""
    (low, first), (high, last) = (_cuts(node, weights) for node in below)
    return Split(weights, (*low, here, *high), (*first, *last))


def _cuts(node: Node, weights: tuple) -> tuple[tuple[float, ...], tuple[Node, ...]]:
    """The cuts and branches of a split of one sum; of another node, none and itself."""
    if isinstance(node, Split) and node.weights == weights:
        return node.cuts, node.branches
    return (), (node,)
