"""The cheapest division of a grid into boxes by straight cuts, for every number of boxes.

    F(B, 1) = min_a sum_{s in B} c(s, a)
    F(B, k) = min over axis, cut, j of F(B1, j) + F(B2, k - j)        ``by_count``
    G(B)    = min(F(B, 1) + price, min over axis, cut of G(B1) + G(B2))   ``by_price``

Boxes of one shape are done at once, sums over them by prefix sums. Every division that a tree of
axis-aligned cuts can make is looked at, so both are exact. The price gives a point of the convex
hull of k -> F(grid, k), and the bound F(grid, k) >= G(grid) - price k for every k.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
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
    return 1 if isinstance(tree, Leaf) else n_leaves(tree.below) + n_leaves(tree.above)


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
        total = np.zeros(())
        for ends in itertools.product((0, 1), repeat=len(shape)):
            parts = [
                slice(length, None) if end else slice(0, n - length + 1)
                for end, length, n in zip(ends, shape, self.shape, strict=True)
            ]
            total = total + (-1) ** (len(shape) - sum(ends)) * self._sums[tuple(parts)]
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
        wanted, alone = best[shape][place], self.leaves(shape)[place]
        if alone.min() + price <= wanted:
            return Leaf(int(alone.argmin()))
        for axis, at in self.cuts(shape):
            low, high, beyond = _parts(shape, place, axis, at)
            if best[low][place] + best[high][beyond] <= wanted:
                below = self._priced(best, low, place, price)
                return Cut(axis, at + place[axis], below, self._priced(best, high, beyond, price))
        raise ArithmeticError("no cut of a box has the cost that was found for it")

    def by_count(self, most: int) -> list[tuple[float, Tree]]:
        """The least cost with at most 1, 2, ... leaves, and trees that have it.

        There are ``most`` of them, or fewer where the last costs nothing.
        """
        best: dict[Shape, NDArray] = {}
        for shape in self.shapes():
            best[shape] = self._counted(best, shape, most)
        start = (0,) * len(self.shape)
        costs = [float(with_k[start]) for with_k in best[self.shape]]
        return [(cost, self._tree(best, self.shape, start, k)) for k, cost in enumerate(costs)]

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

    def _tree(self, best: dict, shape: Shape, place: Shape, k: int) -> Tree:
        """A tree of at most ``k + 1`` leaves that has the least cost."""
        here = best[shape][(slice(None), *place)]
        k = int(np.argmax(here <= here[min(k, len(here) - 1)]))
        if k == 0:
            return Leaf(int(self.leaves(shape)[place].argmin()))
        for axis, at in self.cuts(shape):
            low, high, beyond = _parts(shape, place, axis, at)
            below, above = best[low][(slice(None), *place)], best[high][(slice(None), *beyond)]
            j = np.arange(k)
            totals = (
                below[np.minimum(j, len(below) - 1)] + above[np.minimum(k - 1 - j, len(above) - 1)]
            )
            j = int(totals.argmin())
            if totals[j] <= here[k]:
                first = self._tree(best, low, place, j)
                return Cut(axis, at + place[axis], first, self._tree(best, high, beyond, k - 1 - j))
        raise ArithmeticError("no cut of a box has the cost that was found for it")


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
