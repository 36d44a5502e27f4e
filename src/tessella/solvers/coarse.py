"""A coarse correction: what wanders slowly over the grid is solved for at once, on a few nodes.

Let A be the linear system of a policy's average, I - P_pi and the mean of the unknown. Where the
chain wanders slowly, A nearly vanishes on smooth functions, and Krylov methods get nowhere. Choose
cut points along each axis; their crossings are the *nodes*. Let the columns of Z be the functions
that are 1 at one node, 0 at the others and linear along each axis in between, W the averages
against the same functions, and A_c the system that A makes of functions Z c, read at the nodes:

    A_c[i, j] = (A Z_j)(node i).

It is the system of a chain P_c that lives on the nodes, since Z has rows that sum to 1. Then

    M = I + Z A_c^-1 W

is near I where A is harmless, and near the inverse of A where it is not. It is a preconditioner and
nothing else: whichever policy it was made for decides how long a solve takes, not what it finds.

A period moves a state by no more than its reach along an axis. So functions of nodes far enough
apart do not meet, and one product serves all nodes of a *colour*. And where it moves no further
than from one cut point to the next, the nodes at one cut point of that axis are a *block* that has
to do with the next blocks only: such a system is factorised and solved by blocks, and may have many
more nodes. Other systems are one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import numerics
from tessella.solvers.blocks import Banded, Blocks, factorised, nothing, numbers_of_factors

COST = 6_000_000, 30  # numbers met in a solve, at most, in all and for each state
WORK = 10**10, 20_000  # products to factorise, at most, in all and for each state
HATS = 20_000_000  # numbers of the functions along all axes, at most
SPREAD = 300  # products for each state, at most, to go from states to nodes
PRODUCTS = 96  # products with P_pi, at most, to make the system of the nodes
LEAK = 1e-9  # a period of P_c is the last with this chance: its system has an inverse then
LARGEST = 1e8  # solution for a right side of 1: beyond, the leak alone decides (0.1 / LEAK)


class Coarse(NamedTuple):
    """What the correction needs, as the kernels take it."""

    bases: tuple  # (m, n) for each axis: hat functions over its cut points
    averages: tuple  # (m, n) the same, with rows that sum to 1
    blocks: Blocks  # of (1 + LEAK) I - P_c
    order: Any  # (nodes,) block by block: which node
    place: Any  # (nodes,) each node's place in that order
    shares: Any  # (nodes,) of the time that P_c spends there
    means: Any  # (nodes,) of the functions


class Cuts(NamedTuple):
    """Cut points of one axis, and which of their functions never meet in one period."""

    places: tuple[int, ...]
    length: int  # of the axis
    reach: tuple[int, int]  # how far a period may move a state down and up
    colours: int

    @staticmethod
    def of(length: int, gap: int, reach: tuple[int, int]) -> Cuts:
        """Cut points at most ``gap`` apart, evenly; one alone if that is twice the axis."""
        count = 1 if gap >= 2 * length else -(-(length - 1) // gap) + 1
        places = np.linspace(0, length - 1, count).round().astype(int)
        first, last = _seen_from(places, reach)
        apart = next(c for c in range(1, count + 1) if (last[:-c] < first[c:]).all())
        return Cuts(tuple(places.tolist()), length, reach, apart)

    @property
    def hats(self) -> NDArray[np.float64]:
        """(m, length) functions that are 1 at one cut point and 0 at the others; they sum to 1."""
        line = np.arange(self.length)
        return np.stack([np.interp(line, self.places, row) for row in np.eye(len(self.places))])

    @property
    def narrow(self) -> bool:
        """Whether each function is met from its own cut point and the next ones only."""
        first, last = _seen_from(np.array(self.places), self.reach)
        own = np.arange(len(first))
        return bool((last <= own + 1).all() and (first >= own - 1).all())

    def sums(self) -> NDArray[np.float64]:
        """(colours, length) sums of the functions of one colour."""
        hats = self.hats
        return np.stack([hats[c :: self.colours].sum(0) for c in range(self.colours)])

    def owner(self) -> NDArray[np.int64]:
        """(colours, m) at each cut point: the one of the colour whose function may be met there."""
        first, last = _seen_from(np.array(self.places), self.reach)
        i, k = np.arange(len(first))[:, None], np.arange(len(first))
        met = (first <= i) & (i <= last)  # at one of each colour, at most
        own = [k[c :: self.colours] for c in range(self.colours)]
        return np.stack([o[met[:, o].argmax(1)] for o in own])


def _seen_from(
    places: NDArray[np.int64], reach: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(m,), (m,) the first and the last cut point from where a period meets each one's function."""
    down, up = reach
    lower, upper = np.r_[-inf, places[:-1]], np.r_[places[1:], inf]  # where it is not 0, in between
    first = np.searchsorted(places, lower - up, side="right")
    return first, np.searchsorted(places, upper + down, side="left") - 1


class Split(NamedTuple):
    """Nodes as blocks."""

    axis: int | None  # blocks are the cut points of this one; None: one block
    blocks: int
    size: int  # of a block

    @staticmethod
    def of(cuts: Sequence[Cuts]) -> Split:
        """Whichever is solved quickest."""
        nodes = prod(len(cut.places) for cut in cuts)
        narrow = {k: len(cut.places) for k, cut in enumerate(cuts) if cut.narrow}
        ways = [Split(k, m, nodes // m) for k, m in narrow.items()]
        return min([Split(None, 1, nodes), *ways], key=lambda way: way.cost)

    @property
    def cost(self) -> int:
        """Numbers met in a solve."""
        return (5 * self.blocks - 4) * self.size**2

    @property
    def work(self) -> int:
        """Products to factorise, about."""
        return (5 * self.blocks - 4) * self.size**3

    def order(self, sizes: Sequence[int]) -> NDArray[np.int64]:
        """(nodes,) block by block: which node."""
        nodes = np.arange(prod(sizes)).reshape(sizes)
        return (nodes if self.axis is None else np.moveaxis(nodes, self.axis, 0)).ravel()


def chosen(shape: Sequence[int], reaches: Sequence[tuple[int, int]]) -> tuple[Cuts, ...]:
    """Cut points for each axis: gaps that take long to cross are halved, as long as it pays.

    A period's many small steps go some way and back: they bring a state about as far as the square
    root of its reach.
    """
    paces = np.sqrt([max(*reach, 1) for reach in reaches])
    found, states = (), prod(shape)
    for gaps in _halved(shape, paces):
        cuts = tuple(map(Cuts.of, shape, gaps, reaches))
        split, products = Split.of(cuts), prod(cut.colours for cut in cuts)
        dear = split.cost > _most(COST, states) or split.work > _most(WORK, states)
        wide = _hats_of(cuts) > HATS or _spread_of(cuts) > SPREAD * states
        if found and (dear or wide or products > PRODUCTS):
            break
        found = cuts
    return found


def bytes_of_correction(cuts: Sequence[Cuts]) -> int:
    """Bytes of the arrays of ``Coarse``: functions and averages, blocks, and four for the nodes."""
    split = Split.of(cuts)
    blocks, nodes = numbers_of_factors(split.blocks, split.size), split.blocks * split.size
    return 8 * (2 * _hats_of(cuts) + blocks + 4 * nodes)


def _hats_of(cuts: Sequence[Cuts]) -> int:
    """Numbers of the functions along all axes."""
    return sum(len(cut.places) * cut.length for cut in cuts)


def _spread_of(cuts: Sequence[Cuts]) -> int:
    """Products to go from states to nodes, one axis after the other."""
    nodes, shape = [len(cut.places) for cut in cuts], [cut.length for cut in cuts]
    return sum(prod(nodes[: k + 1]) * prod(shape[k:]) for k in range(len(cuts)))


def _most(limits: tuple[int, int], states: int) -> int:
    in_all, for_each = limits
    return min(in_all, for_each * states)


def _halved(shape: Sequence[int], paces: NDArray[np.float64]) -> Iterator[list[int]]:
    """Gaps of each axis, from twice all to 1; the one that takes longest to cross is halved."""
    gaps = [2 * length for length in shape]
    yield gaps
    while max(gaps) > 1:
        longest = int(np.argmax(np.where(np.array(gaps) > 1, gaps / paces, 0)))
        gaps = [(g + 1) // 2 if k == longest else g for k, g in enumerate(gaps)]
        yield gaps


def spread_out(c: Any, bases: Sequence[Any]) -> Any:
    """(grid) Z c, for coefficients c of the nodes."""
    c = c.reshape([len(basis) for basis in bases])
    for basis in bases:  # each takes the first axis and puts its own last
        c = numerics(c).tensordot(c, basis, (0, 0))
    return c


def gathered(x: Any, bases: Sequence[Any]) -> Any:
    """Z' x over the nodes: sums against each of the functions."""
    for basis in bases:
        x = numerics(x).tensordot(x, basis, (0, 1))
    return x


def small_system(expect: Callable[[Any], Any], cuts: Sequence[Cuts], like: Any) -> Any:
    """(products, nodes) P_pi Z at the nodes, for each colour; ``expect`` multiplies by P_pi."""
    xp = numerics(like)
    places = np.ix_(*(c.places for c in cuts))
    sums = [xp.asarray(c.sums()) for c in cuts]
    which = xp.asarray(np.array(list(product(*(range(c.colours) for c in cuts)))))

    def at_nodes(colours):
        total = xp.ones(())
        for axis, one in enumerate(sums):
            total = xp.expand_dims(total, -1) * one[colours[axis]]
        return expect(total)[places].ravel()

    return xp.each(at_nodes, which)


def correction(seen: NDArray[np.float64], cuts: Sequence[Cuts]) -> Coarse:
    """The correction, from what ``small_system`` saw; one that corrects nothing, if there is none.

    That is so where a chain falls apart, or takes all but for ever to forget its start.
    """
    split = Split.of(cuts)
    order = split.order([len(cut.places) for cut in cuts])
    bases, means = tuple(cut.hats for cut in cuts), np.ones(())
    for basis in bases:
        means = np.multiply.outer(means, basis.mean(1))
    averages = tuple(basis / basis.sum(1, keepdims=True) for basis in bases)
    places, shares = (order, np.argsort(order)), (0 * means.ravel(), means.ravel())
    none = Coarse(bases, averages, nothing(split.blocks, split.size), *places, *shares)
    with np.errstate(all="ignore"):  # what is no number shows in the end
        try:
            blocks = factorised(_system(seen, cuts, split, none.place))
        except np.linalg.LinAlgError:
            return none
        ended = _solved(blocks.transposed, none, none.means)
        made = none._replace(blocks=blocks, shares=ended / ended.sum())
        tried = _small(made, np.sin(np.arange(len(order)) ** 2.0))
    return made if abs(tried).max() <= LARGEST else none


def _system(seen: NDArray, cuts: Sequence[Cuts], split: Split, place: NDArray) -> Banded:
    """(1 + LEAK) I - P_c by blocks."""
    sizes, n = [len(cut.places) for cut in cuts], split.size
    on = np.tile((1 + LEAK) * np.eye(n), (split.blocks, 1, 1))
    below, above = np.zeros((2, split.blocks - 1, n, n))
    block, row = np.divmod(place, n)
    owners = [cut.owner() for cut in cuts]
    for colours, values in zip(product(*(range(c.colours) for c in cuts)), seen, strict=True):
        own = np.ix_(*(owner[k] for owner, k in zip(owners, colours, strict=True)))
        columns = place[np.ravel_multi_index(np.broadcast_arrays(*own), sizes).ravel()]
        to, column = np.divmod(columns, n)
        for part, step, first in ((below, -1, 1), (on, 0, 0), (above, 1, 0)):
            here = to - block == step
            part[block[here] - first, row[here], column[here]] -= values[here]
    return Banded(below, on, above)


def corrected(coarse: Coarse, residual: Any) -> Any:
    """M residual, in the precision of the residual; on the nodes, always in double."""
    bases, averages = _like(residual, coarse.bases), _like(residual, coarse.averages)
    c = _small(coarse, gathered(residual, averages).ravel())
    return residual + spread_out(c.astype(residual.dtype), bases)


def corrected_adjoint(coarse: Coarse, residual: Any) -> Any:
    """M' residual."""
    bases, averages = _like(residual, coarse.bases), _like(residual, coarse.averages)
    c = _small_adjoint(coarse, gathered(residual, bases).ravel())
    return residual + spread_out(c.astype(residual.dtype), averages)


def _small(coarse: Coarse, right: Any) -> Any:
    """About A_c^-1 right: (I - P_c) c + mean(c) = right; the mean is the gain, shares' right."""
    gain = coarse.shares @ right
    c = _solved(coarse.blocks, coarse, right - gain)
    return c - coarse.means @ c + gain


def _small_adjoint(coarse: Coarse, right: Any) -> Any:
    total = right.sum()
    c = _solved(coarse.blocks.transposed, coarse, right - coarse.means * total)
    return c + coarse.shares * (total - c.sum())


def _solved(blocks: Blocks, coarse: Coarse, right: Any) -> Any:
    size = blocks.levels[0].inverse.shape[1] if blocks.levels else len(right)
    return blocks.solve(right[coarse.order].reshape(-1, size)).ravel()[coarse.place]


def _like(x: Any, bases: Sequence[Any]) -> list[Any]:
    return [basis.astype(x.dtype) for basis in bases]
