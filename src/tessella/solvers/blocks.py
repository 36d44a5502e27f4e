"""Matrices of blocks on the diagonal and beside it, solved by eliminating every other block.

What is left is again such a matrix, of half as many blocks (odd-even reduction). All blocks of a
level are eliminated at once, so that few steps wait for one another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import numerics

TOGETHER = 512  # rows up to which blocks are inverted as one: each level is code to compile


class Banded(NamedTuple):
    """Blocks on the diagonal and beside it."""

    below: NDArray[np.float64]  # (blocks - 1, n, n)
    on: NDArray[np.float64]  # (blocks, n, n)
    above: NDArray[np.float64]  # (blocks - 1, n, n)


class Level(NamedTuple):
    """Every other block eliminated, from the second on: what it does to those before and after it.

    With D its own matrix, D^-1 the ``inverse``, and A[i, j] what block j does to block i.
    """

    inverse: Any  # (m, n, n)
    to_left: Any  # (m, n, n) A[left, own] D^-1
    to_right: Any  # (m or one less, n, n) the last may have none after it
    of_left: Any  # (m, n, n) D^-1 A[own, left]
    of_right: Any  # (m or one less, n, n)

    @property
    def transposed(self) -> Level:
        swapped = self.inverse, self.of_left, self.of_right, self.to_left, self.to_right
        return Level(*(each.swapaxes(1, 2) for each in swapped))


class Blocks(NamedTuple):
    """Such a matrix, factorised."""

    levels: tuple[Level, ...]
    last: Any  # (k n, k n) the inverse of what is left, k blocks

    @property
    def transposed(self) -> Blocks:
        return Blocks(tuple(level.transposed for level in self.levels), self.last.T)

    def solve(self, right: Any) -> Any:
        """(blocks, n) the solution for a right side."""
        xp, eliminated, x = numerics(right), [], right
        for level in self.levels:
            own, x = x[1::2], x[0::2]
            eliminated.append(own)
            x = x - _padded(_times(level.to_left, own), 0, len(x) - len(own))
            x = x - _padded(_times(level.to_right, own), 1, 0)
        x = (self.last @ x.ravel()).reshape(x.shape)
        for level, own in zip(reversed(self.levels), reversed(eliminated), strict=True):
            found = _times(level.inverse, own) - _times(level.of_left, x)
            found = found - _padded(_times(level.of_right, x[1:]), 0, len(found) - len(x) + 1)
            whole = xp.zeros((len(x) + len(found), x.shape[1]), x.dtype)
            x = xp.put(xp.put(whole, np.s_[0::2], x), np.s_[1::2], found)
        return x


def _times(matrices: Any, x: Any) -> Any:
    """(m, n) each matrix times its own row of ``x``; there may be more rows than matrices."""
    return (matrices @ x[: len(matrices), :, None])[:, :, 0]


def _padded(x: Any, before: int, after: int) -> Any:
    """The rows of ``x`` with rows of zeros around them."""
    return numerics(x).pad(x, ((before, after), (0, 0)))


def factorised(matrix: Banded) -> Blocks:
    """The factors, without exchanging rows.

    Of chains that leak this is safe: such a matrix is an M-matrix, whose pivots stay positive.
    """
    (below, on, above), levels = matrix, []
    while _many(*on.shape[:2]):
        inverse = np.linalg.inv(on[1::2])
        into_left, into_right = above[0::2], below[1::2]  # A[left, own] and A[right, own]
        from_left, from_right = below[0::2], above[1::2]  # A[own, left] and A[own, right]
        more = len(into_right)  # that have a block after them
        to_left, to_right = into_left @ inverse, into_right @ inverse[:more]
        of_left, of_right = inverse @ from_left, inverse[:more] @ from_right
        levels.append(Level(inverse, to_left, to_right, of_left, of_right))
        on = on[0::2].copy()
        on[: len(inverse)] -= to_left @ from_left
        on[1:] -= to_right @ from_right
        below, above = -to_right @ from_left[:more], -to_left[:more] @ from_right
    count, n = on.shape[:2]
    whole = np.zeros((count, n, count, n))
    k = np.arange(count)
    whole[k, :, k], whole[k[1:], :, k[:-1]], whole[k[:-1], :, k[1:]] = on, below, above
    return Blocks(tuple(levels), np.linalg.inv(whole.reshape(count * n, -1)))


def _many(count: int, n: int) -> bool:
    """Whether so many blocks are better not inverted as one."""
    return count > 1 and count * n > TOGETHER


def nothing(count: int, n: int) -> Blocks:
    """As large as the factors of so many blocks, and solves nothing: all zeros."""
    levels, left = _counts(count, n)
    made = (Level(*(np.zeros((k, n, n)) for k in level)) for level in levels)
    return Blocks(tuple(made), np.zeros((left * n, left * n)))


def numbers_of_factors(count: int, n: int) -> int:
    """How many numbers the factors of so many blocks are."""
    levels, left = _counts(count, n)
    return sum(map(sum, levels)) * n**2 + (left * n) ** 2


def _counts(count: int, n: int) -> tuple[list[tuple[int, ...]], int]:
    """How many matrices each part of each level has, and how many blocks are left."""
    levels = []
    while _many(count, n):
        m, more = count // 2, (count - 1) // 2
        levels.append((m, m, more, m, more))
        count -= m
    return levels, count
