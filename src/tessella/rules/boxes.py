"""The cheapest division of a grid into boxes by straight cuts, for every number of boxes.

    F(B, 1) = min_a sum_{s in B} c(s, a)
    F(B, k) = min over axis, cut, j of F(B1, j) + F(B2, k - j)            ``solve_by_count``
    G(B)    = min(F(B, 1) + price, min over axis, cut of G(B1) + G(B2))   ``solve_for_price``

Boxes of one shape are done at once, sums over them by prefix sums. Every division that a tree of
axis-aligned cuts can make is looked at, so both are exact. The price gives a point of the convex
hull of k -> F(grid, k), and the bound F(grid, k) >= G(grid) - price k for every k. ``prune_trees``
is the same as ``solve_by_count`` over the cuts of given trees, on a grid of any size. Trees may be
deep, so nothing here calls itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
PRUNED_MAX_SIZES = 100  # sizes of pruned trees
STACKED_MAX_ENTRIES = 200_000  # entries of all cuts of a shape, up to which they are one array


@dataclass(frozen=True)
class BoxLeaf:
    """A box with one action."""

    action: int


@dataclass(frozen=True)
class BoxCut:
    """A box cut in two: positions below ``position`` along ``axis``, and the rest."""

    axis: int
    position: int
    below: BoxLeaf | BoxCut
    above: BoxLeaf | BoxCut


BoxTree = BoxLeaf | BoxCut


def count_boxes(shape: Shape) -> int:
    """How many boxes a grid has."""
    return math.prod(n * (n + 1) // 2 for n in shape)


def fold_tree(root: Any, get_children: Callable[[Any], tuple | None], combine: Callable) -> Any:
    """``combine(node, results of its children)`` of the root, leaves first.

    ``get_children`` returns None for a leaf.
    """
    stack: list[tuple[Any, tuple | None]] = [(root, None)]
    results: list[Any] = []
    while stack:
        node, children = stack.pop()
        if children is not None:
            last = len(results) - len(children)
            results[last:] = [combine(node, results[last:])]
            continue
        children = get_children(node) or ()
        stack.append((node, children))
        stack += [(child, None) for child in reversed(children)]
    return results[0]


def fold_boxes(tree: BoxTree, combine: Callable) -> Any:
    """``fold_tree`` of a tree of boxes."""

    def get_children(node: BoxTree) -> tuple[BoxTree, BoxTree] | None:
        return (node.below, node.above) if isinstance(node, BoxCut) else None

    return fold_tree(tree, get_children, combine)


def count_leaves(tree: BoxTree) -> int:
    return fold_boxes(tree, lambda _, counts: sum(counts) or 1)


class BoxTreeSolver:
    """All boxes of a grid with (shape, A) costs, the cheapest action of each."""

    def __init__(self, costs: NDArray[np.float64]) -> None:
        self.shape: Shape = costs.shape[:-1]
        sums = costs
        for axis in range(len(self.shape)):
            zeros = np.zeros_like(np.take(sums, [0], axis))
            sums = np.concatenate([zeros, np.cumsum(sums, axis)], axis)
        self._prefix_sums = sums
        # Sums of many costs that are taken apart again are off by rounding; 0 must stay 0.
        largest = float(np.abs(sums).max())
        self._rounding_error = 4 * np.finfo(float).eps * largest * 2 ** len(self.shape)

    @property
    def shapes(self) -> Iterator[Shape]:
        """Shapes of boxes, parts before wholes."""
        return itertools.product(*(range(1, n + 1) for n in self.shape))

    def compute_action_costs(self, shape: Shape) -> NDArray[np.float64]:
        """(positions, A) cost of each action in each box of a shape."""
        total = self._prefix_sums
        for axis, length in enumerate(shape):
            leading = (slice(None),) * axis
            total = total[(*leading, slice(length, None))] - total[(*leading, slice(0, -length))]
        total[total < self._rounding_error] = 0.0
        return total

    def list_cuts(self, shape: Shape) -> list[tuple[int, int]]:
        """Axes and places at which boxes of a shape can be cut, the most central first.

        Trees take the first of equal cuts, and so are as shallow as that makes them.
        """
        cuts = [(k, m) for k, n in enumerate(shape) for m in range(1, n)]
        return sorted(cuts, key=lambda cut: abs(2 * cut[1] / shape[cut[0]] - 1))

    def get_halves(
        self, least_costs: dict, shape: Shape, axis: int, offset: int
    ) -> tuple[NDArray, NDArray]:
        """(..., positions) least costs of both parts of each box of a shape, cut at one place."""
        low, high, _ = _split_box(shape, shape, axis, offset)
        n_positions = self.shape[axis] - shape[axis] + 1
        trailing = (slice(None),) * (len(shape) - axis - 1)
        first = (..., slice(0, n_positions), *trailing)
        second = (..., slice(offset, offset + n_positions), *trailing)
        return least_costs[low][first], least_costs[high][second]

    def solve_for_price(self, price: float) -> tuple[float, BoxTree]:
        """The least cost plus price for each leaf, and a tree that has it."""
        best: dict[Shape, NDArray] = {}
        for shape in self.shapes:
            least = self.compute_action_costs(shape).min(axis=-1) + price
            for axis, offset in self.list_cuts(shape):
                below, above = self.get_halves(best, shape, axis, offset)
                np.minimum(least, below + above, out=least)
            best[shape] = least
        start = (0,) * len(self.shape)

        def divide(box: tuple[Shape, Shape]) -> BoxLeaf | Division:
            shape, origin = box
            least = best[shape][origin]
            action_costs = self.compute_box_costs(shape, origin)
            if action_costs.min() + price <= least:
                return BoxLeaf(int(action_costs.argmin()))
            for axis, offset in self.list_cuts(shape):
                low, high, upper_origin = _split_box(shape, origin, axis, offset)
                if best[low][origin] + best[high][upper_origin] <= least:
                    return axis, offset + origin[axis], (low, origin), (high, upper_origin)
            raise ArithmeticError("no cut of a box has the cost that was found for it")

        return float(best[self.shape][start]), _grow_tree((self.shape, start), divide, {})

    def solve_by_count(self, max_leaves: int) -> list[tuple[float, BoxTree]]:
        """The least cost with at most 1, 2, ... leaves, and trees that have it.

        There are ``max_leaves`` of them, or fewer where the last costs nothing.
        """
        best: dict[Shape, NDArray] = {}
        for shape in self.shapes:
            best[shape] = self._solve_shape(best, shape, max_leaves)
        start = (0,) * len(self.shape)

        def divide(box: tuple[Shape, Shape, int]) -> BoxLeaf | Division:
            shape, origin, k = box
            least = best[shape][(slice(None), *origin)]
            k = int(np.argmax(least <= least[min(k, len(least) - 1)]))
            if k == 0:
                return BoxLeaf(int(self.compute_box_costs(shape, origin).argmin()))
            for axis, offset in self.list_cuts(shape):
                low, high, upper_origin = _split_box(shape, origin, axis, offset)
                below = best[low][(slice(None), *origin)]
                above = best[high][(slice(None), *upper_origin)]
                j = np.arange(k)
                first = below[np.minimum(j, len(below) - 1)]
                totals = first + above[np.minimum(k - 1 - j, len(above) - 1)]
                j = int(totals.argmin())
                if totals[j] <= least[k]:
                    parts = (low, origin, j), (high, upper_origin, k - 1 - j)
                    return axis, offset + origin[axis], *parts
            raise ArithmeticError("no cut of a box has the cost that was found for it")

        costs = [float(with_k[start]) for with_k in best[self.shape]]
        cache: dict[tuple, BoxTree] = {}
        return [
            (cost, _grow_tree((self.shape, start, k), divide, cache))
            for k, cost in enumerate(costs)
        ]

    def _solve_shape(self, least_costs: dict, shape: Shape, max_leaves: int) -> NDArray:
        """(k, positions) least cost of boxes of a shape with 1, 2, ... leaves or fewer.

        It ends where the cost is 0 for all of them.
        """
        single_leaf = self.compute_action_costs(shape).min(axis=-1)
        max_leaves = min(max_leaves, math.prod(shape))
        if max_leaves == 1 or not single_leaf.any():
            return single_leaf[None]
        least = np.repeat(single_leaf[None], max_leaves, axis=0)
        pairs = [
            self.get_halves(least_costs, shape, axis, offset)
            for axis, offset in self.list_cuts(shape)
        ]
        if least.size * len(pairs) < STACKED_MAX_ENTRIES:
            _minimise_stacked(least.reshape(max_leaves, -1), pairs)
            pairs = []
        for halves in pairs:
            fewer, more = sorted(halves, key=len)
            for j in range(min(len(fewer), max_leaves - 1)):
                part = least[j + 1 : j + 1 + len(more)]
                np.minimum(part, fewer[j] + more[: len(part)], out=part)
        np.minimum.accumulate(least, axis=0, out=least)
        is_positive = least.reshape(max_leaves, -1).any(axis=1)
        return least[: int(is_positive.sum()) + 1]

    def compute_box_costs(self, shape: Shape, origin: Shape) -> NDArray[np.float64]:
        """(A,) cost of each action in one box."""
        total = self._prefix_sums[np.ix_(*((p, p + n) for p, n in zip(origin, shape, strict=True)))]
        for _ in shape:  # as in ``compute_action_costs``, so that rounding is the same
            total = total[1] - total[0]
        total[total < self._rounding_error] = 0.0
        return total


Division = tuple[int, int, tuple, tuple]  # axis, position, and both parts


def prune_trees(
    trees: Iterable[BoxTree], max_leaves: int, ranks: NDArray, by_state: NDArray
) -> list[tuple[float, BoxTree]]:
    """The cheapest trees of up to ``max_leaves`` leaves that some cuts of one of the trees make.

    For states of ranks (S, F), of which trees cut columns, and costs (S, A). One for each number of
    leaves; where they are many, for ``PRUNED_MAX_SIZES`` of them.
    """
    roots = [_prune_tree(tree, max_leaves, ranks, by_state) for tree in trees]
    longest = max((len(costs) for costs, _ in roots), default=0)
    sizes = range(longest)
    if longest > PRUNED_MAX_SIZES:
        sizes = np.unique(np.geomspace(1, longest, PRUNED_MAX_SIZES).astype(int)) - 1
    results: list[tuple[float, BoxTree]] = []
    for k in sizes:
        pruned = [(float(costs[: k + 1][-1]), smaller[: k + 1][-1]) for costs, smaller in roots]
        cheapest = min(pruned, key=itemgetter(0))
        if not results or cheapest[0] < results[-1][0]:
            results.append(cheapest)
    return results


def _prune_tree(
    tree: BoxTree, max_leaves: int, ranks: NDArray, by_state: NDArray
) -> tuple[NDArray[np.float64], list[BoxTree]]:
    """The least costs with at most 1, 2, ... leaves, and trees that have them."""

    def get_children(part: tuple) -> tuple | None:
        node, rows = part
        if isinstance(node, BoxLeaf):
            return None
        is_below = ranks[rows, node.axis] < node.position
        return (node.below, rows[is_below]), (node.above, rows[~is_below])

    def combine(part: tuple, children: list) -> tuple[NDArray, list[BoxTree]]:
        node, rows = part
        costs = by_state[rows].sum(axis=0)
        trees: list[BoxTree] = [BoxLeaf(int(costs.argmin()))]
        if not children:
            return costs.min()[None], trees
        (low, lower), (high, upper) = children
        least, lower_leaves = _combine_leaves(costs.min(), low, high, max_leaves)
        for k in range(1, len(least)):
            smallest = trees[-1]
            if least[k] < least[k - 1]:
                j = int(lower_leaves[k])
                smallest = BoxCut(node.axis, node.position, lower[j], upper[k - 1 - j])
            trees.append(smallest)
        return least, trees

    return fold_tree((tree, np.arange(len(ranks))), get_children, combine)


def _combine_leaves(
    single_cost: float, low: NDArray, high: NDArray, max_leaves: int
) -> tuple[NDArray, NDArray]:
    """Least costs with 1, 2, ... leaves over two parts, and how many of the first, less one."""
    n = min(len(low) + len(high), max_leaves)
    least = np.full(n, np.inf)
    lower_leaves = np.zeros(n, dtype=int)
    least[0] = single_cost
    for j in range(min(len(low), n - 1)):
        sizes = slice(j + 1, min(j + 1 + len(high), n))
        total = low[j] + high[: sizes.stop - sizes.start]
        better = total < least[sizes]
        least[sizes][better] = total[better]
        lower_leaves[sizes][better] = j
    return np.minimum.accumulate(least), lower_leaves


def _grow_tree(
    root: tuple, divide: Callable[[Any], BoxLeaf | Division], cache: dict[tuple, BoxTree]
) -> BoxTree:
    """A tree from the root: ``divide`` returns a leaf, or how a box is cut.

    Trees of boxes that are in ``cache`` are taken from there, and new ones added.
    """
    divisions: dict[tuple, Division] = {}

    def get_children(box: tuple) -> tuple | None:
        if box in cache:
            return None
        division = divide(box)
        if isinstance(division, BoxLeaf):
            cache[box] = division
            return None
        divisions[box] = division
        return division[2:]

    def combine(box: tuple, children: list[BoxTree]) -> BoxTree:
        if box not in cache:
            axis, position = divisions[box][:2]
            cache[box] = BoxCut(axis, position, *children)
        return cache[box]

    return fold_tree(root, get_children, combine)


def _minimise_stacked(least: NDArray, pairs: list) -> None:
    """Lower (max_leaves, boxes) costs to those of the best cut, all cuts in one array."""
    max_leaves = len(least)
    below, above = (
        np.stack([half[np.minimum(np.arange(max_leaves), len(half) - 1)] for half in halves])
        for halves in zip(*pairs, strict=True)
    )
    below = below.reshape(len(pairs), max_leaves, -1)
    above = above.reshape(len(pairs), max_leaves, -1)
    for j in range(max_leaves - 1):
        totals = (below[:, j, None] + above[:, : max_leaves - 1 - j]).min(axis=0)
        np.minimum(least[j + 1 :], totals, out=least[j + 1 :])


def _split_box(shape: Shape, origin: Shape, axis: int, offset: int) -> tuple[Shape, Shape, Shape]:
    """Shapes of both parts of a cut box, and where the second begins."""
    low = [*shape]
    high = [*shape]
    upper_origin = [*origin]
    low[axis], high[axis], upper_origin[axis] = offset, shape[axis] - offset, origin[axis] + offset
    return tuple(low), tuple(high), tuple(upper_origin)
