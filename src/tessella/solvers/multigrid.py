"""A coarse correction: what wanders slowly over the grid is solved for at once, on a few nodes.

Let A be the linear system of a policy's average, I - P_pi and the mean of the unknown. Where the
chain wanders slowly, A nearly vanishes on smooth functions, and Krylov methods stagnate. Choose
cut points along each axis; their crossings are the *nodes*. Let the columns of Z be the functions
that are 1 at one node, 0 at the others and linear along each axis in between, W the averages
against the same functions, and A_c the system that A makes of functions Z c, read at the nodes:

    A_c[i, j] = (A Z_j)(node i).

It is the system of a chain P_c that lives on the nodes, since Z has rows that sum to 1. Then

    M = I + Z A_c^-1 W

is near I where A is well conditioned, and near the inverse of A where it is not. It is only a
preconditioner: the policy that it was built for affects how long a solve takes, not its result.

A period moves a state by no more than its reach along an axis. So functions of nodes far enough
apart do not overlap, and one product serves all nodes of a *colour*. And where it moves no further
than from one cut point to the next, the nodes at one cut point of that axis are a *block* that is
coupled to the next blocks only: such a system is factorised and solved by blocks, and may have many
more nodes. Other systems are one block.

Blocks on the diagonal and next to it are solved by eliminating every other block (odd-even
reduction): what is left is again such a matrix, of half as many blocks. All blocks of a level are
eliminated at once, so that few steps wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import array_namespace

# Limits in all, and for each state: the smaller one counts.
COARSE_SOLVE_MAX_NUMBERS = 6_000_000, 30  # numbers met in a solve
COARSE_FACTOR_MAX_PRODUCTS = 10**10, 20_000  # products to factorise
INTERPOLATION_MAX_NUMBERS = 20_000_000  # numbers of the functions along all axes, at most
# Products for each state, at most, to go from states to nodes.
RESTRICTION_MAX_PRODUCTS_PER_STATE = 300
SETUP_MAX_PRODUCTS = 96  # products with P_pi, at most, to make the system of the nodes
# Probability that P_c ends in a period, so that its system has an inverse.
LEAK_PROBABILITY = 1e-9
# Solution for a right side of 1: beyond, the leak alone decides (0.1 / LEAK_PROBABILITY).
COARSE_SOLUTION_MAX_SIZE = 1e8
# Rows up to which blocks are inverted as one: each level of a reduction is code to compile.
DIRECT_INVERSE_MAX_ROWS = 512


class BlockTridiagonal(NamedTuple):
    """Blocks on the diagonal, below it and above it."""

    lower: NDArray[np.float64]  # (blocks - 1, n, n)
    diagonal: NDArray[np.float64]  # (blocks, n, n)
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
    """The factors of a ``BlockTridiagonal`` matrix."""

    levels: tuple[ReductionLevel, ...]
    final_inverse: Any  # (k n, k n) the inverse of what is left, k blocks

    @property
    def transposed(self) -> BlockFactors:
        return BlockFactors(tuple(level.transposed for level in self.levels), self.final_inverse.T)

    def solve(self, rhs: Any) -> Any:
        """(blocks, n) the solution for a right side."""
        xp = array_namespace(rhs)
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
    return array_namespace(x).pad(x, ((before, after), (0, 0)))


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
    """Zeros of the shape of the factors of so many blocks: a correction that does nothing."""
    levels, n_remaining = _count_blocks(n_blocks, n, direct_max_rows)
    zero_levels = (ReductionLevel(*(np.zeros((k, n, n)) for k in level)) for level in levels)
    return BlockFactors(tuple(zero_levels), np.zeros((n_remaining * n, n_remaining * n)))


def count_factor_numbers(count: int, n: int) -> int:
    """How many numbers the factors of so many blocks are."""
    levels, n_remaining = _count_blocks(count, n, DIRECT_INVERSE_MAX_ROWS)
    return sum(map(sum, levels)) * n**2 + (n_remaining * n) ** 2


def _count_blocks(count: int, n: int, direct_max_rows: int) -> tuple[list[tuple[int, ...]], int]:
    """How many matrices each part of each level has, and how many blocks are left."""
    levels = []
    while _should_reduce(count, n, direct_max_rows):
        m = count // 2
        n_right = (count - 1) // 2
        levels.append((m, m, n_right, m, n_right))
        count -= m
    return levels, count


class CoarseCorrection(NamedTuple):
    """The arrays of the correction, as compiled functions take them."""

    interpolation: tuple  # (m, n) for each axis: hat functions over its cut points
    restriction: tuple  # (m, n) the same, with rows that sum to 1
    factors: BlockFactors  # of (1 + LEAK_PROBABILITY) I - P_c
    block_order: Any  # (nodes,) block by block: which node
    block_position: Any  # (nodes,) each node's place in that order
    shares: Any  # (nodes,) of the time that P_c spends there
    node_means: Any  # (nodes,) of the functions


class CoarseAxis(NamedTuple):
    """Cut points of one axis, and which of their functions never meet in one period."""

    cut_points: tuple[int, ...]
    length: int  # of the axis
    max_displacement: tuple[int, int]  # how far a period may move a state down and up
    n_colours: int

    @staticmethod
    def with_spacing(length: int, spacing: int, max_displacement: tuple[int, int]) -> CoarseAxis:
        """Cut points at most ``spacing`` apart, evenly; one alone if that is twice the axis."""
        count = 1 if spacing >= 2 * length else -(-(length - 1) // spacing) + 1
        cut_points = np.linspace(0, length - 1, count).round().astype(int)
        first, last = _find_cut_range(cut_points, max_displacement)
        n_colours = next(c for c in range(1, count + 1) if (last[:-c] < first[c:]).all())
        return CoarseAxis(tuple(cut_points.tolist()), length, max_displacement, n_colours)

    @property
    def hat_functions(self) -> NDArray[np.float64]:
        """(m, length) functions that are 1 at one cut point and 0 at the others; they sum to 1."""
        positions = np.arange(self.length)
        return np.stack(
            [np.interp(positions, self.cut_points, row) for row in np.eye(len(self.cut_points))]
        )

    @property
    def is_narrow(self) -> bool:
        """Whether each function is met from its own cut point and the next ones only."""
        first, last = _find_cut_range(np.array(self.cut_points), self.max_displacement)
        index = np.arange(len(first))
        return bool((last <= index + 1).all() and (first >= index - 1).all())

    def sum_by_colour(self) -> NDArray[np.float64]:
        """(colours, length) sums of the functions of one colour."""
        hats = self.hat_functions
        return np.stack([hats[c :: self.n_colours].sum(0) for c in range(self.n_colours)])

    def find_owners(self) -> NDArray[np.int64]:
        """(colours, m) at each cut point: the one of the colour whose function may be met there."""
        first, last = _find_cut_range(np.array(self.cut_points), self.max_displacement)
        i = np.arange(len(first))[:, None]
        k = np.arange(len(first))
        is_met = (first <= i) & (i <= last)  # at one of each colour, at most
        by_colour = [k[c :: self.n_colours] for c in range(self.n_colours)]
        return np.stack([o[is_met[:, o].argmax(1)] for o in by_colour])


def _find_cut_range(
    cut_points: NDArray[np.int64], max_displacement: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(m,), (m,) the first and the last cut point from where a period meets each one's function."""
    down, up = max_displacement
    # Each function is not 0 between these two.
    lower = np.r_[-inf, cut_points[:-1]]
    upper = np.r_[cut_points[1:], inf]
    first = np.searchsorted(cut_points, lower - up, side="right")
    return first, np.searchsorted(cut_points, upper + down, side="left") - 1


class NodeBlocks(NamedTuple):
    """Nodes as blocks."""

    axis: int | None  # blocks are the cut points of this one; None: one block
    n_blocks: int
    block_size: int  # of a block

    @staticmethod
    def choose(axes: Sequence[CoarseAxis]) -> NodeBlocks:
        """Whichever is solved quickest."""
        nodes = prod(len(coarse_axis.cut_points) for coarse_axis in axes)
        narrow = {
            k: len(coarse_axis.cut_points)
            for k, coarse_axis in enumerate(axes)
            if coarse_axis.is_narrow
        }
        candidates = [NodeBlocks(k, m, nodes // m) for k, m in narrow.items()]
        return min(
            [NodeBlocks(None, 1, nodes), *candidates], key=lambda candidate: candidate.solve_cost
        )

    @property
    def solve_cost(self) -> int:
        """Numbers met in a solve."""
        return (5 * self.n_blocks - 4) * self.block_size**2

    @property
    def factor_cost(self) -> int:
        """Products to factorise, about."""
        return (5 * self.n_blocks - 4) * self.block_size**3

    def order_nodes(self, sizes: Sequence[int]) -> NDArray[np.int64]:
        """(nodes,) block by block: which node."""
        nodes = np.arange(prod(sizes)).reshape(sizes)
        return (nodes if self.axis is None else np.moveaxis(nodes, self.axis, 0)).ravel()


def choose_coarse_axes(
    shape: Sequence[int], displacements: Sequence[tuple[int, int]]
) -> tuple[CoarseAxis, ...]:
    """Cut points for each axis: spacings that take long to cross are halved, as long as it pays.

    A period's many small steps go some way and back: they bring a state about as far as the square
    root of its reach.
    """
    typical_steps = np.sqrt([max(*displacement, 1) for displacement in displacements])
    result = ()
    states = prod(shape)
    for spacings in _halve_spacings(shape, typical_steps):
        axes = tuple(map(CoarseAxis.with_spacing, shape, spacings, displacements))
        node_blocks = NodeBlocks.choose(axes)
        products = prod(coarse_axis.n_colours for coarse_axis in axes)
        solve_too_costly = node_blocks.solve_cost > _limit_for_states(
            COARSE_SOLVE_MAX_NUMBERS, states
        )
        factor_too_costly = node_blocks.factor_cost > _limit_for_states(
            COARSE_FACTOR_MAX_PRODUCTS, states
        )
        too_costly = solve_too_costly or factor_too_costly
        too_wide = (
            _count_interpolation_numbers(axes) > INTERPOLATION_MAX_NUMBERS
            or _count_restriction_products(axes) > RESTRICTION_MAX_PRODUCTS_PER_STATE * states
        )
        if result and (too_costly or too_wide or products > SETUP_MAX_PRODUCTS):
            break
        result = axes
    return result


def count_correction_bytes(axes: Sequence[CoarseAxis]) -> int:
    """Bytes of the arrays of ``CoarseCorrection``.

    They are functions and averages, blocks, and four arrays over the nodes.
    """
    node_blocks = NodeBlocks.choose(axes)
    blocks = count_factor_numbers(node_blocks.n_blocks, node_blocks.block_size)
    nodes = node_blocks.n_blocks * node_blocks.block_size
    return 8 * (2 * _count_interpolation_numbers(axes) + blocks + 4 * nodes)


def _count_interpolation_numbers(axes: Sequence[CoarseAxis]) -> int:
    """Numbers of the functions along all axes."""
    return sum(len(coarse_axis.cut_points) * coarse_axis.length for coarse_axis in axes)


def _count_restriction_products(axes: Sequence[CoarseAxis]) -> int:
    """Products to go from states to nodes, one axis after the other."""
    nodes = [len(coarse_axis.cut_points) for coarse_axis in axes]
    shape = [coarse_axis.length for coarse_axis in axes]
    return sum(prod(nodes[: k + 1]) * prod(shape[k:]) for k in range(len(axes)))


def _limit_for_states(limits: tuple[int, int], states: int) -> int:
    total, per_state = limits
    return min(total, per_state * states)


def _halve_spacings(
    shape: Sequence[int], typical_steps: NDArray[np.float64]
) -> Iterator[list[int]]:
    """Spacings of each axis, from twice all to 1; the one that takes longest to cross is halved."""
    spacings = [2 * length for length in shape]
    yield spacings
    while max(spacings) > 1:
        slowest = int(np.argmax(np.where(np.array(spacings) > 1, spacings / typical_steps, 0)))
        spacings = [(g + 1) // 2 if k == slowest else g for k, g in enumerate(spacings)]
        yield spacings


def interpolate(c: Any, interpolation: Sequence[Any]) -> Any:
    """(grid) Z c, for coefficients c of the nodes."""
    c = c.reshape([len(basis) for basis in interpolation])
    for basis in interpolation:  # each takes the first axis and puts its own last
        c = array_namespace(c).tensordot(c, basis, (0, 0))
    return c


def restrict(x: Any, interpolation: Sequence[Any]) -> Any:
    """Z' x over the nodes: sums against each of the functions."""
    for basis in interpolation:
        x = array_namespace(x).tensordot(x, basis, (0, 1))
    return x


def probe_coarse_system(
    expect: Callable[[Any], Any], axes: Sequence[CoarseAxis], template: Any
) -> Any:
    """(products, nodes) P_pi Z at the nodes, for each colour; ``expect`` multiplies by P_pi."""
    xp = array_namespace(template)
    node_index = np.ix_(*(c.cut_points for c in axes))
    sums = [xp.asarray(c.sum_by_colour()) for c in axes]
    colour_index = xp.asarray(np.array(list(product(*(range(c.n_colours) for c in axes)))))

    def probe_colours(colours):
        function = xp.ones(())
        for axis, axis_sums in enumerate(sums):
            function = xp.expand_dims(function, -1) * axis_sums[colours[axis]]
        return expect(function)[node_index].ravel()

    return xp.map_items(probe_colours, colour_index)


def build_correction(
    probes: NDArray[np.float64],
    axes: Sequence[CoarseAxis],
    direct_max_rows: int = DIRECT_INVERSE_MAX_ROWS,
) -> CoarseCorrection:
    """The correction, from the probes of ``probe_coarse_system``.

    It corrects nothing where a chain decomposes, or mixes extremely slowly.
    """
    node_blocks = NodeBlocks.choose(axes)
    order = node_blocks.order_nodes([len(coarse_axis.cut_points) for coarse_axis in axes])
    interpolation = tuple(coarse_axis.hat_functions for coarse_axis in axes)
    node_means = np.ones(())
    for basis in interpolation:
        node_means = np.multiply.outer(node_means, basis.mean(1))
    restriction = tuple(basis / basis.sum(1, keepdims=True) for basis in interpolation)
    orders = (order, np.argsort(order))
    weights = (0 * node_means.ravel(), node_means.ravel())
    no_correction = CoarseCorrection(
        interpolation,
        restriction,
        make_zero_inverse(node_blocks.n_blocks, node_blocks.block_size, direct_max_rows),
        *orders,
        *weights,
    )
    with np.errstate(all="ignore"):  # NaN is detected at the end
        try:
            system = _assemble_system(probes, axes, node_blocks, no_correction.block_position)
            factors = factorise_blocks(system, direct_max_rows)
        except np.linalg.LinAlgError:
            return no_correction
        stationary = _solve_blocks(factors.transposed, no_correction, no_correction.node_means)
        result = no_correction._replace(factors=factors, shares=stationary / stationary.sum())
        trial = _solve_coarse(result, np.sin(np.arange(len(order)) ** 2.0))
    return result if abs(trial).max() <= COARSE_SOLUTION_MAX_SIZE else no_correction


def _assemble_system(
    probes: NDArray, axes: Sequence[CoarseAxis], node_blocks: NodeBlocks, block_position: NDArray
) -> BlockTridiagonal:
    """(1 + LEAK_PROBABILITY) I - P_c by blocks."""
    sizes = [len(coarse_axis.cut_points) for coarse_axis in axes]
    n = node_blocks.block_size
    diagonal = np.tile((1 + LEAK_PROBABILITY) * np.eye(n), (node_blocks.n_blocks, 1, 1))
    lower, upper = np.zeros((2, node_blocks.n_blocks - 1, n, n))
    block, row = np.divmod(block_position, n)
    owners = [coarse_axis.find_owners() for coarse_axis in axes]
    for colours, values in zip(product(*(range(c.n_colours) for c in axes)), probes, strict=True):
        owner_index = np.ix_(*(owner[k] for owner, k in zip(owners, colours, strict=True)))
        columns = block_position[
            np.ravel_multi_index(np.broadcast_arrays(*owner_index), sizes).ravel()
        ]
        target_block, column = np.divmod(columns, n)
        for band, offset, lag in ((lower, -1, 1), (diagonal, 0, 0), (upper, 1, 0)):
            is_here = target_block - block == offset
            band[block[is_here] - lag, row[is_here], column[is_here]] -= values[is_here]
    return BlockTridiagonal(lower, diagonal, upper)


def apply_correction(correction: CoarseCorrection, residual: Any) -> Any:
    """M residual, in the precision of the residual; on the nodes, always in double."""
    return _correct(
        correction, residual, correction.restriction, correction.interpolation, _solve_coarse
    )


def apply_adjoint_correction(correction: CoarseCorrection, residual: Any) -> Any:
    """M' residual."""
    to_nodes = correction.interpolation
    return _correct(correction, residual, to_nodes, correction.restriction, _solve_coarse_adjoint)


def _correct(correction: CoarseCorrection, residual, to_nodes, from_nodes, solve) -> Any:
    dtype = residual.dtype
    c = solve(correction, restrict(residual, [basis.astype(dtype) for basis in to_nodes]).ravel())
    return residual + interpolate(c.astype(dtype), [basis.astype(dtype) for basis in from_nodes])


def _solve_coarse(correction: CoarseCorrection, rhs: Any) -> Any:
    """About A_c^-1 rhs: (I - P_c) c + mean(c) = rhs; the mean is the gain, shares' rhs."""
    gain = correction.shares @ rhs
    c = _solve_blocks(correction.factors, correction, rhs - gain)
    return c - correction.node_means @ c + gain


def _solve_coarse_adjoint(correction: CoarseCorrection, rhs: Any) -> Any:
    total = rhs.sum()
    c = _solve_blocks(
        correction.factors.transposed, correction, rhs - correction.node_means * total
    )
    return c + correction.shares * (total - c.sum())


def _solve_blocks(factors: BlockFactors, correction: CoarseCorrection, rhs: Any) -> Any:
    block_size = factors.levels[0].inverse.shape[1] if factors.levels else len(rhs)
    blocks = rhs[correction.block_order].reshape(-1, block_size)
    return factors.solve(blocks).ravel()[correction.block_position]
