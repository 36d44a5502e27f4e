"""Matrices of blocks on the diagonal and beside it, solved by eliminating every other block.

What is left is again such a matrix, of half as many blocks (odd-even reduction). All blocks of a
level are eliminated at once, so that few steps wait for one another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import numerics

# Rows up to which blocks are inverted as one: each level of a reduction is code to compile.
DIRECT_INVERSE_MAX_ROWS = 512


class BlockTridiagonal(NamedTuple):
    """Blocks on the diagonal and beside it."""

    lower: NDArray[np.float64]  # (blocks - 1, n, n)
    on: NDArray[np.float64]  # (blocks, n, n)
    upper: NDArray[np.float64]  # (blocks - 1, n, n)


class ReductionLevel(NamedTuple):
    """Every other block eliminated, from the second on: what it does to those before and after it.

    With D its own matrix, D^-1 the ``inverse``, and A[i, j] what block j does to block i.
    """

    inverse: Any  # (m, n, n)
    to_left: Any  # (m, n, n) A[left, own] D^-1
    to_right: Any  # (m or one less, n, n) the last may have none after it
    of_left: Any  # (m, n, n) D^-1 A[own, left]
    of_right: Any  # (m or one less, n, n)

    @property
    def transposed(self) -> ReductionLevel:
        swapped = self.inverse, self.of_left, self.of_right, self.to_left, self.to_right
        return ReductionLevel(*(array.swapaxes(1, 2) for array in swapped))


class BlockFactors(NamedTuple):
    """Such a matrix, factorised."""

    levels: tuple[ReductionLevel, ...]
    final_inverse: Any  # (k n, k n) the inverse of what is left, k blocks

    @property
    def transposed(self) -> BlockFactors:
        return BlockFactors(tuple(level.transposed for level in self.levels), self.final_inverse.T)

    def solve(self, rhs: Any) -> Any:
        """(blocks, n) the solution for a right side."""
        xp = numerics(rhs)
        odd_parts = []
        x = rhs
        for level in self.levels:
            odd = x[1::2]
            x = x[0::2]
            odd_parts.append(odd)
            x = x - _pad_rows(_multiply_blocks(level.to_left, odd), 0, len(x) - len(odd))
            x = x - _pad_rows(_multiply_blocks(level.to_right, odd), 1, 0)
        x = (self.final_inverse @ x.ravel()).reshape(x.shape)
        for level, odd in zip(reversed(self.levels), reversed(odd_parts), strict=True):
            odd_solution = _multiply_blocks(level.inverse, odd) - _multiply_blocks(level.of_left, x)
            odd_solution = odd_solution - _pad_rows(
                _multiply_blocks(level.of_right, x[1:]), 0, len(odd_solution) - len(x) + 1
            )
            merged = xp.zeros((len(x) + len(odd_solution), x.shape[1]), x.dtype)
            x = xp.put(xp.put(merged, np.s_[0::2], x), np.s_[1::2], odd_solution)
        return x


def _multiply_blocks(matrices: Any, x: Any) -> Any:
    """(m, n) each matrix times its own row of ``x``; there may be more rows than matrices."""
    return (matrices @ x[: len(matrices), :, None])[:, :, 0]


def _pad_rows(x: Any, before: int, after: int) -> Any:
    """The rows of ``x`` with rows of zeros around them."""
    return numerics(x).pad(x, ((before, after), (0, 0)))


def factorise_blocks(
    matrix: BlockTridiagonal, direct_max_rows: int = DIRECT_INVERSE_MAX_ROWS
) -> BlockFactors:
    """The factors, without exchanging rows; up to ``direct_max_rows`` are inverted as one.

    Of chains that leak this is safe: such a matrix is an M-matrix, whose pivots stay positive.
    """
    (lower, diagonal, upper), levels = matrix, []
    while _should_reduce(len(diagonal), diagonal.shape[1], direct_max_rows):
        inverse = np.linalg.inv(diagonal[1::2])
        # A[left, own] and A[right, own]
        into_left = upper[0::2]
        into_right = lower[1::2]
        # A[own, left] and A[own, right]
        from_left = lower[0::2]
        from_right = upper[1::2]
        n_right = len(into_right)  # that have a block after them
        to_left = into_left @ inverse
        to_right = into_right @ inverse[:n_right]
        of_left = inverse @ from_left
        of_right = inverse[:n_right] @ from_right
        levels.append(ReductionLevel(inverse, to_left, to_right, of_left, of_right))
        diagonal = diagonal[0::2].copy()
        diagonal[: len(inverse)] -= to_left @ from_left
        diagonal[1:] -= to_right @ from_right
        lower = -to_right @ from_left[:n_right]
        upper = -to_left[:n_right] @ from_right
    n_blocks, n = diagonal.shape[:2]
    dense = np.zeros((n_blocks, n, n_blocks, n))
    k = np.arange(n_blocks)
    dense[k, :, k] = diagonal
    dense[k[1:], :, k[:-1]] = lower
    dense[k[:-1], :, k[1:]] = upper
    return BlockFactors(tuple(levels), np.linalg.inv(dense.reshape(n_blocks * n, -1)))


def _should_reduce(n_blocks: int, n: int, direct_max_rows: int) -> bool:
    """Whether so many blocks are better not inverted as one."""
    return n_blocks > 1 and n_blocks * n > direct_max_rows


def make_zero_inverse(
    n_blocks: int, n: int, direct_max_rows: int = DIRECT_INVERSE_MAX_ROWS
) -> BlockFactors:
    """As large as the factors of so many blocks, and solves nothing: all zeros."""
    levels, left = _counts(n_blocks, n, direct_max_rows)
    made = (ReductionLevel(*(np.zeros((k, n, n)) for k in level)) for level in levels)
    return BlockFactors(tuple(made), np.zeros((left * n, left * n)))


def numbers_of_factors(count: int, n: int) -> int:
    """How many numbers the factors of so many blocks are."""
    levels, left = _counts(count, n, DIRECT_INVERSE_MAX_ROWS)
    return sum(map(sum, levels)) * n**2 + (left * n) ** 2


def _counts(count: int, n: int, direct_max_rows: int) -> tuple[list[tuple[int, ...]], int]:
    """How many matrices each part of each level has, and how many blocks are left."""
    levels = []
    while _should_reduce(count, n, direct_max_rows):
        m = count // 2
        more = (count - 1) // 2
        levels.append((m, m, more, m, more))
        count -= m
    return levels, count
