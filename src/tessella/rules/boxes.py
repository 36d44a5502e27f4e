"""The cheapest division of a grid into boxes by straight cuts, for every number of boxes.

    F(B, 1) = min_a sum_{s in B} c(s, a)
    F(B, k) = min over axis, cut, j of F(B1, j) + F(B2, k - j)        ``by_count``
    G(B)    = min(F(B, 1) + price, min over axis, cut of G(B1) + G(B2))   ``by_price``

Boxes of one shape are done at once, sums over them by prefix sums. Every division that a tree of
axis-aligned cuts can make is looked at, so both are exact. The price gives a point of the convex
hull of k -> F(grid, k), and the bound F(grid, k) >= G(grid) - price k for every k. ``pruned`` is
the same as ``by_count`` over the cuts of given trees, on a grid of any size. Trees may be deep, so
nothing here calls itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
SIZES = 100  # of the parts of one tree
TOGETHER = 200_000  # entries of all cuts of a shape, up to which they are one array


@dataclass(frozen=True)
class Leaf:
    """A box with one action."""

    action: int


@dataclass(frozen=True)
class Cut:
    """A box cut in two: positions below ``at`` along ``axis``, and the rest."""

    axis: int
    at: int
    below: Leaf | Cut
    above: Leaf | Cut


Tree = Leaf | Cut


def n_boxes(shape: Shape) -> int:
    """How many boxes a grid has."""
    return math.prod(n * (n + 1) // 2 for n in shape)


def n_leaves(tree: Tree) -> int:
    return sum(isinstance(part, Leaf) for part in parts_of(tree))


def parts_of(tree: Tree) -> Iterator[Tree]:
    """A tree and all that is below, parents first."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, Cut):
            waiting += [part.above, part.below]


def folded(top: Any, parts: Callable[[Any], tuple | None], joined: Callable) -> Any:
    """``joined(part, made of its parts)`` of the top, from below; ``parts`` is None of a leaf."""
    waiting: list[tuple[Any, tuple | None]] = [(top, None)]
    made: list[Any] = []
    while waiting:
        part, below = waiting.pop()
        if below is not None:
            last = len(made) - len(below)
            made[last:] = [joined(part, made[last:])]
            continue
        below = parts(part) or ()
        waiting.append((part, below))
        waiting += [(one, None) for one in reversed(below)]
    return made[0]


class Boxes:
    """All boxes of a grid with (shape, A) costs, the cheapest action of each."""

    def __init__(self, costs: NDArray[np.float64]) -> None:
        self.shape: Shape = costs.shape[:-1]
        sums = costs
        for axis in range(len(self.shape)):
            start = np.zeros_like(np.take(sums, [0], axis))
            sums = np.concatenate([start, np.cumsum(sums, axis)], axis)
        self._sums = sums
        # Sums of many costs that are taken apart again are off by rounding; 0 must stay 0.
        self._noise = 4 * np.finfo(float).eps * float(np.abs(sums).max()) * 2 ** len(self.shape)

    def shapes(self) -> Iterator[Shape]:
        """Shapes of boxes, parts before wholes."""
        return itertools.product(*(range(1, n + 1) for n in self.shape))

    def leaves(self, shape: Shape) -> NDArray[np.float64]:
        """(positions, A) cost of each action in each box of a shape."""
        total = self._sums
        for axis, length in enumerate(shape):
            before = (slice(None),) * axis
            total = total[(*before, slice(length, None))] - total[(*before, slice(0, -length))]
        total[total < self._noise] = 0.0
        return total

    def cuts(self, shape: Shape) -> list[tuple[int, int]]:
        """Axes and places at which boxes of a shape can be cut, the most central first.

        Trees take the first of equal cuts, and so are as shallow as that makes them.
        """
        places = [(k, m) for k, n in enumerate(shape) for m in range(1, n)]
        return sorted(places, key=lambda cut: abs(2 * cut[1] / shape[cut[0]] - 1))

    def halves(self, best: dict, shape: Shape, axis: int, at: int) -> tuple[NDArray, NDArray]:
        """(..., positions) what is known of both parts of each box of a shape, cut at one place."""
        low, high, _ = _parts(shape, shape, axis, at)
        places = self.shape[axis] - shape[axis] + 1
        behind = (slice(None),) * (len(shape) - axis - 1)
        first, second = (..., slice(0, places), *behind), (..., slice(at, at + places), *behind)
        return best[low][first], best[high][second]

    def by_price(self, price: float) -> tuple[float, Tree]:
        """The least cost plus price for each leaf, and a tree that has it."""
        best: dict[Shape, NDArray] = {}
        for shape in self.shapes():
            least = self.leaves(shape).min(axis=-1) + price
            for axis, at in self.cuts(shape):
                below, above = self.halves(best, shape, axis, at)
                np.minimum(least, below + above, out=least)
            best[shape] = least
        start = (0,) * len(self.shape)
        return float(best[self.shape][start]), self._priced(best, self.shape, start, price)

    def _priced(self, best: dict, shape: Shape, place: Shape, price: float) -> Tree:
        def split(box: tuple[Shape, Shape]) -> Leaf | Division:
            shape, place = box
            wanted, alone = best[shape][place], self.alone(shape, place)
            if alone.min() + price <= wanted:
                return Leaf(int(alone.argmin()))
            for axis, at in self.cuts(shape):
                low, high, beyond = _parts(shape, place, axis, at)
                if best[low][place] + best[high][beyond] <= wanted:
                    return axis, at + place[axis], (low, place), (high, beyond)
            raise ArithmeticError("no cut of a box has the cost that was found for it")

        return _grown((shape, place), split, {})

    def by_count(self, most: int) -> list[tuple[float, Tree]]:
        """The least cost with at most 1, 2, ... leaves, and trees that have it.

        There are ``most`` of them, or fewer where the last costs nothing.
        """
        best: dict[Shape, NDArray] = {}
        for shape in self.shapes():
            best[shape] = self._counted(best, shape, most)
        start = (0,) * len(self.shape)
        costs, made = [float(with_k[start]) for with_k in best[self.shape]], {}
        return [(c, self._tree(best, self.shape, start, k, made)) for k, c in enumerate(costs)]

    def _counted(self, best: dict, shape: Shape, most: int) -> NDArray:
        """(k, positions) least cost of boxes of a shape with 1, 2, ... leaves or fewer.

        It ends where the cost is 0 for all of them.
        """
        alone = self.leaves(shape).min(axis=-1)
        most = min(most, math.prod(shape))
        if most == 1 or not alone.any():
            return alone[None]
        found = np.repeat(alone[None], most, axis=0)
        pairs = [self.halves(best, shape, axis, at) for axis, at in self.cuts(shape)]
        if found.size * len(pairs) < TOGETHER:
            _together(found.reshape(most, -1), pairs)
            pairs = []
        for fewer, more in pairs:
            if len(fewer) > len(more):
                fewer, more = more, fewer
            for j in range(min(len(fewer), most - 1)):
                part = found[j + 1 : j + 1 + len(more)]
                np.minimum(part, fewer[j] + more[: len(part)], out=part)
        np.minimum.accumulate(found, axis=0, out=found)
        spent = found.reshape(most, -1).any(axis=1)
        return found[: int(spent.sum()) + 1]

    def _tree(self, best: dict, shape: Shape, place: Shape, k: int, made: dict) -> Tree:
        """A tree of at most ``k + 1`` leaves that has the least cost; ``made`` has parts of it."""

        def split(box: tuple[Shape, Shape, int]) -> Leaf | Division:
            shape, place, k = box
            here = best[shape][(slice(None), *place)]
            k = int(np.argmax(here <= here[min(k, len(here) - 1)]))
            if k == 0:
                return Leaf(int(self.alone(shape, place).argmin()))
            for axis, at in self.cuts(shape):
                low, high, beyond = _parts(shape, place, axis, at)
                below, above = best[low][(slice(None), *place)], best[high][(slice(None), *beyond)]
                j = np.arange(k)
                first = below[np.minimum(j, len(below) - 1)]
                totals = first + above[np.minimum(k - 1 - j, len(above) - 1)]
                j = int(totals.argmin())
                if totals[j] <= here[k]:
                    return axis, at + place[axis], (low, place, j), (high, beyond, k - 1 - j)
            raise ArithmeticError("no cut of a box has the cost that was found for it")

        return _grown((shape, place, k), split, made)

    def alone(self, shape: Shape, place: Shape) -> NDArray[np.float64]:
        """(A,) cost of each action in one box."""
        total = self._sums[np.ix_(*((p, p + n) for p, n in zip(place, shape, strict=True)))]
        for _ in shape:  # as in ``leaves``, so that rounding is the same
            total = total[1] - total[0]
        total[total < self._noise] = 0.0
        return total

    def pruned(self, trees: Iterable[Tree], most: int) -> list[tuple[float, Tree]]:
        """The cheapest trees of up to ``most`` leaves that some cuts of one of the trees make."""

        def halves(box: tuple[Shape, Shape], cut: Cut) -> tuple:
            shape, place = box
            low, high, beyond = _parts(shape, place, cut.axis, cut.at - place[cut.axis])
            return (low, place), (high, beyond)

        def alone(box: tuple[Shape, Shape]) -> NDArray[np.float64]:
            return self.alone(*box)

        return pruned(trees, most, (self.shape, (0,) * len(self.shape)), halves, alone)


Division = tuple[int, int, tuple, tuple]  # axis, place, and both parts


def pruned(
    trees: Iterable[Tree], most: int, top: Any, halves: Callable, alone: Callable
) -> list[tuple[float, Tree]]:
    """The cheapest trees of up to ``most`` leaves that some cuts of one of the trees make.

    One for each number of leaves; where they are many, for ``SIZES`` of these numbers.

    Args:
        top: what all trees are of: a box, or whatever is cut.
        halves: (what is cut, the cut) -> both parts.
        alone: what is cut -> (A,) cost of each action in all of it.
    """
    wholes = [_weighed(tree, most, top, halves, alone) for tree in trees]
    longest = max((len(whole.least) for whole in wholes), default=0)
    if not longest:
        return []
    sizes = np.unique(np.geomspace(1, longest, SIZES).astype(int)) - 1
    made, parts = [], {}
    for k in range(longest) if longest <= SIZES else sizes.tolist():
        costs = [float(whole.least[min(k, len(whole.least) - 1)]) for whole in wholes]
        best = int(np.argmin(costs))
        if not made or costs[best] < made[-1][0]:
            made.append((costs[best], _cut_back(wholes[best], k, parts)))
    return made


def _weighed(tree: Tree, most: int, top: Any, halves: Callable, alone: Callable) -> Weighed:
    """What every part of a tree costs with 1, 2, ... leaves."""

    def parts(box: tuple) -> tuple | None:
        part, here = box
        if isinstance(part, Leaf):
            return None
        low, high = halves(here, part)
        return (part.below, low), (part.above, high)

    def joined(box: tuple, below: list[Weighed]) -> Weighed:
        costs = alone(box[1])
        least, first = costs.min()[None], np.zeros(1, dtype=int)
        if below:
            least, first = _shared(costs.min(), below[0].least, below[1].least, most)
        return Weighed(box[0], int(costs.argmin()), least, first, tuple(below))

    return folded((tree, top), parts, joined)


@dataclass(frozen=True, eq=False)
class Weighed:
    """A part of a tree with its least costs.

    Attributes:
        action: the cheapest for all of it.
        least: (k,) least cost with at most 1, 2, ... leaves.
        first: (k,) how many of them, less one, are in the lower part.
    """

    part: Tree
    action: int
    least: NDArray[np.float64]
    first: NDArray[np.int64]
    below: tuple[Weighed, ...]


def _shared(alone: float, low: NDArray, high: NDArray, most: int) -> tuple[NDArray, NDArray]:
    """Least costs with 1, 2, ... leaves over two parts, and the leaves of the first."""
    n = min(len(low) + len(high), most)
    least, first = np.full(n, np.inf), np.zeros(n, dtype=int)
    least[0] = alone
    for j in range(min(len(low), n - 1)):
        part = slice(j + 1, min(j + 1 + len(high), n))
        total = low[j] + high[: part.stop - part.start]
        better = total < least[part]
        least[part][better], first[part][better] = total[better], j
    return np.minimum.accumulate(least), first


def _cut_back(whole: Weighed, k: int, made: dict) -> Tree:
    """The cheapest part of a tree with at most ``k + 1`` leaves; ``made`` has parts of it."""

    def split(box: tuple[Weighed, int]) -> Leaf | Division:
        here, k = box
        k = int(np.argmax(here.least <= here.least[min(k, len(here.least) - 1)]))
        if k == 0 or isinstance(here.part, Leaf):
            return Leaf(here.action)
        j = int(here.first[k])
        return here.part.axis, here.part.at, (here.below[0], j), (here.below[1], k - 1 - j)

    return _grown((whole, k), split, made)


def _grown(top: tuple, split: Callable[[Any], Leaf | Division], made: dict[tuple, Tree]) -> Tree:
    """A tree from the top: ``split`` says of a box that it is a leaf, or how it is cut.

    Trees of boxes that are in ``made`` are taken from there, and new ones added.
    """
    said: dict[tuple, Division] = {}

    def parts(box: tuple) -> tuple | None:
        if box in made:
            return None
        found = split(box)
        if isinstance(found, Leaf):
            made[box] = found
            return None
        said[box] = found
        return found[2:]

    def joined(box: tuple, below: list[Tree]) -> Tree:
        if box not in made:
            axis, at = said[box][:2]
            made[box] = Cut(axis, at, *below)
        return made[box]

    return folded(top, parts, joined)


def _together(found: NDArray, pairs: list) -> None:
    """Lower (most, boxes) costs to those of the best cut, all cuts in one array."""
    most = len(found)
    below, above = (
        np.stack([half[np.minimum(np.arange(most), len(half) - 1)] for half in halves])
        for halves in zip(*pairs, strict=True)
    )
    below, above = below.reshape(len(pairs), most, -1), above.reshape(len(pairs), most, -1)
    for j in range(most - 1):
        part = (below[:, j, None] + above[:, : most - 1 - j]).min(axis=0)
        np.minimum(found[j + 1 :], part, out=found[j + 1 :])


def _parts(shape: Shape, place: Shape, axis: int, at: int) -> tuple[Shape, Shape, Shape]:
    """Shapes of both parts of a cut box, and where the second begins."""
    low, high, beyond = [*shape], [*shape], [*place]
    low[axis], high[axis], beyond[axis] = at, shape[axis] - at, place[axis] + at
    return tuple(low), tuple(high), tuple(beyond)
