"""A coarse correction: what wanders slowly over the grid is solved for at once, on a few nodes.

Let A be the linear system of a policy, I - discount P_pi (and the mean, for averages). Where the
chain wanders slowly, A nearly vanishes on smooth functions, and Krylov methods get nowhere. Choose
cut points along each axis; their crossings are the *nodes*. Let the columns of Z be the functions
that are 1 at one node, 0 at the others and linear along each axis in between, W the averages
against the same functions, and A_c the system that A makes of functions Z c, read at the nodes:

    A_c[i, j] = (A Z_j)(node i).

It is the system of a chain that lives on the nodes, since Z has rows that sum to 1. Then

    M = I + Z A_c^-1 W

is near I where A is harmless, and near the inverse of A where it is not. It is a preconditioner and
nothing else: whichever policy it was made for decides how long a solve takes, not what it finds.

A period moves a state by no more than its reach along an axis, so functions of nodes far enough
apart do not meet: one product serves all nodes of a *colour*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import numerics

NODES = 2200  # at most: the inverse of their matrix is met in every product
INVERTED = 20_000  # times the states: as long as some hundred products, the cube of nodes to invert
PRODUCTS = 96  # at most, to make their matrix


class Coarse(NamedTuple):
    """What the correction needs, as the kernels take it."""

    bases: tuple  # (m, n) for each axis: hat functions over its cut points
    inverse: Any  # (nodes, nodes) A_c^-1


class Cuts(NamedTuple):
    """Cut points of one axis, and which of their functions never meet in one period."""

    places: tuple[int, ...]
    length: int  # of the axis
    colours: int

    @staticmethod
    def of(length: int, count: int, reach: int) -> Cuts:
        """``count`` cut points, evenly; a period moves a state by at most ``reach`` places."""
        places = np.unique(np.linspace(0, length - 1, min(count, length)).round()).astype(int)
        gaps = np.diff(places, append=places[-1] + length)
        apart = -(-2 * (int(gaps[:-1].max(initial=0)) + reach) // int(gaps.min()))
        return Cuts(tuple(places.tolist()), length, min(max(apart, 1), len(places)))

    @property
    def hats(self) -> NDArray[np.float64]:
        """(m, length) functions that are 1 at one cut point and 0 at the others; they sum to 1."""
        line = np.arange(self.length)
        return np.stack([np.interp(line, self.places, row) for row in np.eye(len(self.places))])

    def sums(self) -> NDArray[np.float64]:
        """(colours, length) sums of the functions of one colour."""
        return np.stack([self.hats[c :: self.colours].sum(0) for c in range(self.colours)])

    def owner(self) -> NDArray[np.int64]:
        """(colours, m) at each cut point: the nearest one of the colour, which alone is seen."""
        x, k = np.array(self.places), np.arange(len(self.places))
        own = [k[c :: self.colours] for c in range(self.colours)]
        return np.stack([o[abs(x[:, None] - x[o]).argmin(1)] for o in own])


def chosen(shape: Sequence[int], reaches: Sequence[int]) -> tuple[Cuts, ...]:
    """Cut points for each axis: cells that take long to cross are halved, as long as it pays.

    A period's many small steps go some way and back: they bring a state about as far as the square
    root of its reach.
    """
    most = min(NODES, np.cbrt(INVERTED * prod(shape)))
    cells = [0] * len(shape)  # along each axis, and one more cut point than cells
    paces = np.sqrt(np.maximum(reaches, 1))

    def cut(cells: Sequence[int]) -> tuple[Cuts, ...]:
        return tuple(Cuts.of(n, m + 1, r) for n, m, r in zip(shape, cells, reaches, strict=True))

    while True:
        lengths = [n / max(m, 0.5) if n > m + 1 else 0 for n, m in zip(shape, cells, strict=True)]
        longest = int(np.argmax(lengths / paces))
        halved = [max(2 * m, 1) if k == longest else m for k, m in enumerate(cells)]
        finer = cut(halved)
        nodes, products = prod(len(c.places) for c in finer), prod(c.colours for c in finer)
        if not max(lengths) or nodes > most or products > PRODUCTS:
            return cut(cells)
        cells = halved


def spread_out(c: Any, bases: Sequence[Any]) -> Any:
    """(grid) Z c, for coefficients c over the nodes, a number of each."""
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


def inverted(seen: NDArray[np.float64], cuts: Sequence[Cuts]) -> NDArray[np.float64]:
    """A_c^-1 of an average, from what ``small_system`` saw; zeros, which correct nothing, if none.

    A holds the mean of the unknown, so A_c that of each function.
    """
    sizes = [len(c.places) for c in cuts]
    nodes = prod(sizes)
    system = np.eye(nodes)
    rows = np.arange(nodes)
    for colours, row in zip(product(*(range(c.colours) for c in cuts)), seen, strict=True):
        own = np.ix_(*(c.owner()[k] for c, k in zip(cuts, colours, strict=True)))
        columns = np.ravel_multi_index(np.broadcast_arrays(*own), sizes).ravel()
        system[rows, columns] -= row
    means = np.ones(())
    for c in cuts:
        means = np.multiply.outer(means, c.hats.mean(1))
    try:
        found = np.asarray(np.linalg.inv(system + means.ravel()), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.zeros(system.shape)
    return found if np.isfinite(found).all() else np.zeros(system.shape)


def corrected(coarse: Coarse, residual: Any) -> Any:
    """M residual."""
    coarse = _in_precision(coarse, residual)
    c = coarse.inverse @ gathered(residual, _averaging(coarse)).ravel()
    return residual + spread_out(c.reshape(_sizes(coarse)), coarse.bases)


def corrected_adjoint(coarse: Coarse, residual: Any) -> Any:
    """M' residual."""
    coarse = _in_precision(coarse, residual)
    c = coarse.inverse.T @ gathered(residual, coarse.bases).ravel()
    return residual + spread_out(c.reshape(_sizes(coarse)), _averaging(coarse))


def _in_precision(coarse: Coarse, x: Any) -> Coarse:
    bases = tuple(basis.astype(x.dtype) for basis in coarse.bases)
    return Coarse(bases, coarse.inverse.astype(x.dtype))


def _averaging(coarse: Coarse) -> list[Any]:
    return [basis / basis.sum(1, keepdims=True) for basis in coarse.bases]


def _sizes(coarse: Coarse) -> list[int]:
    return [len(basis) for basis in coarse.bases]
