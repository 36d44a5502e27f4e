"""A coarse correction: what wanders slowly over the grid is solved for at once, on a few nodes.

Let A be the linear system of a policy: I - discount P_pi, or for an average I - P_pi and the mean
of the unknown. Where the chain wanders slowly, A nearly vanishes on smooth functions, and Krylov
methods stagnate. Choose cut points along each axis; their crossings are the *nodes*. Let the
columns of Z be the functions that are 1 at one node, 0 at the others and linear along each axis in
between, W the averages against the same functions, and A_c the system that A makes of functions
Z c, read at the nodes:

    A_c[i, j] = (A Z_j)(node i).

It is the system of a chain P_c that lives on the nodes, since Z has rows that sum to 1. Then

    M = I + Z A_c^-1 W

is near I where A is well conditioned, and near the inverse of A where it is not. It is only a
preconditioner: the policy that it was built for affects how long a solve takes, not its result.

Cut points are evenly spaced, but for the last. So an axis consists of *cells* of one length, with
two functions that are not 0 in each: Z takes two products for each state and axis, and Z' two sums
over each cell.

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

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from math import inf, prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import array_namespace

# Arrays as large as the diagonal blocks that XLA needs to factorise (by its memory analysis).
FACTORISING_BLOCKS = 7
SETUP_MAX_PRODUCTS = 96  # products with P_pi, at most, to make the system of the nodes
# Probability that P_c ends in a period, so that its system has an inverse.
LEAK_PROBABILITY = 1e-9
# Solution for a right side of 1: beyond, the leak alone decides (0.1 / LEAK_PROBABILITY).
COARSE_SOLUTION_MAX_SIZE = 1e8


class CoarseLimits(NamedTuple):
    """What a correction may cost: in all, and for each state; the smaller one counts."""

    solve_numbers: int  # numbers met in a solve
    solve_numbers_per_state: int
    factor_products: int  # products to factorise
    factor_products_per_state: int
    axis_cut_points: int  # cut points of an axis
    inverse_rows: int  # rows up to which blocks are inverted as one


PROCESSOR_LIMITS = CoarseLimits(
    solve_numbers=6_000_000,
    solve_numbers_per_state=12,
    factor_products=10**9,
    factor_products_per_state=1000,
    # With more, averages of chains on a long line forget more slowly than these leak.
    axis_cut_points=600,
    # Beyond 100 rows LAPACK shares an inverse among threads, which wait for one another.
    inverse_rows=96,
)
# Set by benchmarks/discounts.py --accelerator: cells of 40 x 5 for 10,240 x 10,240 states.
ACCELERATOR_LIMITS = CoarseLimits(
    solve_numbers=10**9,
    solve_numbers_per_state=12,
    factor_products=4 * 10**11,
    factor_products_per_state=10**4,
    axis_cut_points=4000,
    inverse_rows=4096,  # each level of a reduction is code to compile
)
ACCELERATOR_GAIN_LIMITS = ACCELERATOR_LIMITS._replace(
    axis_cut_points=PROCESSOR_LIMITS.axis_cut_points
)


class BlockTridiagonal(NamedTuple):
    """Blocks on the diagonal, below it and above it."""

    lower: Any  # (blocks - 1, n, n)
    diagonal: Any  # (blocks, n, n)
    upper: Any  # (blocks - 1, n, n)


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
            x = x - _pad_axis(_multiply_blocks(level.to_left, odd), 0, 0, len(x) - len(odd))
            x = x - _pad_axis(_multiply_blocks(level.to_right, odd), 0, 1, 0)
        x = (self.final_inverse @ x.ravel()).reshape(x.shape)
        for level, odd in zip(reversed(self.levels), reversed(odd_parts), strict=True):
            odd_solution = _multiply_blocks(level.inverse, odd) - _multiply_blocks(level.of_left, x)
            odd_solution = odd_solution - _pad_axis(
                _multiply_blocks(level.of_right, x[1:]), 0, 0, len(odd_solution) - len(x) + 1
            )
            merged = xp.zeros((len(x) + len(odd_solution), x.shape[1]), x.dtype)
            x = xp.put(xp.put(merged, np.s_[0::2], x), np.s_[1::2], odd_solution)
        return x


def _multiply_blocks(matrices: Any, x: Any) -> Any:
    """(m, n) each matrix times its own row of ``x``; there may be more rows than matrices."""
    return (matrices @ x[: len(matrices), :, None])[:, :, 0]


def factorise_blocks(
    matrix: BlockTridiagonal, inverse_rows: int = PROCESSOR_LIMITS.inverse_rows
) -> BlockFactors:
    """The factors, without exchanging rows; up to ``inverse_rows`` are inverted as one.

    Of chains that leak this is safe: such a matrix is an M-matrix, whose pivots stay positive.
    """
    (lower, diagonal, upper), levels = matrix, []
    xp = array_namespace(diagonal)
    while _should_reduce(len(diagonal), diagonal.shape[1], inverse_rows):
        parts = (
            xp.linalg.inv(diagonal[1::2]),
            lower[0::2],  # A[own, left]
            lower[1::2],  # A[right, own]
            upper[0::2],  # A[left, own]
            upper[1::2],  # A[own, right]
        )
        # XLA for GPUs (JAX 0.11) aborts where it fuses strided slices into products of matrices.
        inverse, from_left, into_right, into_left, from_right = xp.without_fusion(parts)
        n_right = len(into_right)  # that have a block after them
        to_left = into_left @ inverse
        to_right = into_right @ inverse[:n_right]
        of_own = inverse @ from_left, inverse[:n_right] @ from_right
        levels.append(ReductionLevel(inverse, to_left, to_right, *of_own))
        diagonal = diagonal[0::2]
        diagonal = diagonal - _pad_axis(to_left @ from_left, 0, 0, len(diagonal) - len(inverse))
        diagonal = diagonal - _pad_axis(to_right @ from_right, 0, 1, 0)
        lower = -to_right @ from_left[:n_right]
        upper = -to_left[:n_right] @ from_right
    n_blocks, n = diagonal.shape[:2]
    dense = xp.zeros((n_blocks, n, n_blocks, n))
    k = np.arange(n_blocks)
    dense = xp.put(dense, np.s_[k, :, k], diagonal)
    dense = xp.put(dense, np.s_[k[1:], :, k[:-1]], lower)
    dense = xp.put(dense, np.s_[k[:-1], :, k[1:]], upper)
    return BlockFactors(tuple(levels), xp.linalg.inv(dense.reshape(n_blocks * n, -1)))


def _should_reduce(n_blocks: int, n: int, inverse_rows: int) -> bool:
    """Whether that many blocks are better not inverted as one."""
    return n_blocks > 1 and n_blocks * n > inverse_rows


def count_factor_numbers(count: int, n: int, inverse_rows: int) -> int:
    """How many numbers the factors of that many blocks are."""
    n_matrices = 0
    while _should_reduce(count, n, inverse_rows):
        n_matrices += 3 * (count // 2) + 2 * ((count - 1) // 2)
        count -= count // 2
    return n_matrices * n**2 + (count * n) ** 2


class CoarseCorrection(NamedTuple):
    """The arrays of the correction, as compiled functions take them."""

    cell_weights: tuple  # for each axis, (cells, spacing): ``CoarseAxis.cell_weights``
    node_sizes: Any  # (cut points of each axis) sums of the functions
    factors: BlockFactors  # of (1 + LEAK_PROBABILITY) I - discount P_c
    block_order: Any  # (nodes,) block by block: which node
    block_position: Any  # (nodes,) each node's place in that order
    shares: Any  # (nodes,) of the time that P_c spends there; None with a discount


class CoarseAxis(NamedTuple):
    """Cut points of one axis, and which of their functions never meet in one period."""

    cut_points: tuple[int, ...]
    length: int  # of the axis
    spacing: int  # positions of a cell; the last may have fewer
    max_displacement: tuple[int, int]  # how far a period may move a state down and up
    n_colours: int

    @staticmethod
    def with_spacing(length: int, spacing: int, max_displacement: tuple[int, int]) -> CoarseAxis:
        """Cut points every ``spacing`` and at the end; one alone if that is twice the axis."""
        cut_points = np.arange(0, length, spacing)
        if spacing < 2 * length and cut_points[-1] < length - 1:
            cut_points = np.append(cut_points, length - 1)
        first, last = _find_cut_range(cut_points, max_displacement)
        n_colours = next(c for c in itertools.count(1) if (last[:-c] < first[c:]).all())
        points = tuple(cut_points.tolist())
        return CoarseAxis(points, length, min(spacing, length), max_displacement, n_colours)

    @property
    def cell_weights(self) -> NDArray[np.float64]:
        """(cells, spacing) at each position: the function of the next cut point.

        That of the cell's own is 1 minus it.
        """
        n_cells = -(-self.length // self.spacing)
        positions = np.arange(n_cells * self.spacing)
        index = np.interp(positions, self.cut_points, np.arange(len(self.cut_points)))
        return index.reshape(n_cells, -1) - np.arange(n_cells)[:, None]

    @property
    def is_narrow(self) -> bool:
        """Whether each function is met from its own cut point and the next ones only."""
        first, last = _find_cut_range(np.array(self.cut_points), self.max_displacement)
        index = np.arange(len(first))
        return bool(((last <= index + 1) & (first >= index - 1)).all())

    def sum_by_colour(self) -> NDArray[np.float64]:
        """(colours, length) sums of the functions of one colour."""
        weights = self.cell_weights
        sums = np.zeros((self.n_colours, *weights.shape))
        cells = np.arange(len(weights))
        sums[cells % self.n_colours, cells] += 1 - weights
        sums[(cells + 1) % self.n_colours, cells] += weights
        return sums.reshape(self.n_colours, -1)[:, : self.length]

    def sum_functions(self) -> NDArray[np.float64]:
        """(m,) the sum of each function."""
        return restrict(np.ones(self.length), [self.cell_weights], [len(self.cut_points)])

    def find_owners(self) -> NDArray[np.int64]:
        """(colours, m) at each cut point: which function of each colour a period may meet there."""
        _, last = _find_cut_range(np.array(self.cut_points), self.max_displacement)
        k = np.arange(len(last))
        by_colour = [k[colour :: self.n_colours] for colour in range(self.n_colours)]
        # Ranges of one colour do not overlap: the first that has not ended, or else the last.
        return np.stack([o[np.searchsorted(last[o][:-1], k)] for o in by_colour])


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
        sizes = [len(coarse_axis.cut_points) for coarse_axis in axes]
        nodes = prod(sizes)
        narrow = [k for k, coarse_axis in enumerate(axes) if coarse_axis.is_narrow]
        candidates = [NodeBlocks(k, sizes[k], nodes // sizes[k]) for k in narrow]
        return min([NodeBlocks(None, 1, nodes), *candidates], key=attrgetter("solve_cost"))

    @property
    def solve_cost(self) -> int:
        """Numbers met in a solve."""
        return (5 * self.n_blocks - 4) * self.block_size**2

    @property
    def factor_cost(self) -> int:
        """Products to factorise, about."""
        return (5 * self.n_blocks - 4) * self.block_size**3


def choose_coarse_axes(
    shape: Sequence[int], displacements: Sequence[tuple[int, int]], limits: CoarseLimits
) -> tuple[CoarseAxis, ...]:
    """Cut points for each axis: spacings that take long to cross are halved, as long as it pays.

    A period's many small steps go some way and back: they bring a state about as far as the square
    root of its reach.
    """
    typical_steps = np.sqrt([max(*displacement, 1) for displacement in displacements])
    result = ()
    for spacings in _halve_spacings(shape, typical_steps):
        axes = tuple(map(CoarseAxis.with_spacing, shape, spacings, displacements))
        if result and not _is_affordable(axes, limits):
            break
        result = axes
    return result


def count_correction_bytes(axes: Sequence[CoarseAxis], has_gain: bool, inverse_rows: int) -> int:
    """Bytes of the arrays of ``CoarseCorrection``: cells, blocks, and arrays over the nodes."""
    node_blocks = NodeBlocks.choose(axes)
    blocks = count_factor_numbers(node_blocks.n_blocks, node_blocks.block_size, inverse_rows)
    nodes = node_blocks.n_blocks * node_blocks.block_size
    cells = sum(coarse_axis.cell_weights.size for coarse_axis in axes)
    return 8 * (cells + blocks + (3 + has_gain) * nodes)


def count_factorising_bytes(axes: Sequence[CoarseAxis]) -> int:
    """Bytes in use, beyond the correction, while an accelerator factorises; about."""
    node_blocks = NodeBlocks.choose(axes)
    return 8 * FACTORISING_BLOCKS * node_blocks.n_blocks * node_blocks.block_size**2


def _is_affordable(axes: Sequence[CoarseAxis], limits: CoarseLimits) -> bool:
    """Whether a correction with these cut points costs little next to products with P_pi."""
    node_blocks = NodeBlocks.choose(axes)
    states = prod(coarse_axis.length for coarse_axis in axes)
    max_numbers = min(limits.solve_numbers, limits.solve_numbers_per_state * states)
    max_products = min(limits.factor_products, limits.factor_products_per_state * states)
    return (
        node_blocks.solve_cost <= max_numbers
        and node_blocks.factor_cost <= max_products
        and prod(coarse_axis.n_colours for coarse_axis in axes) <= SETUP_MAX_PRODUCTS
        and max(len(coarse_axis.cut_points) for coarse_axis in axes) <= limits.axis_cut_points
    )


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


def interpolate(c: Any, cell_weights: Sequence[Any], shape: Sequence[int]) -> Any:
    """(grid) Z c, for coefficients c (cut points of each axis)."""
    for axis, (weights, length) in enumerate(zip(cell_weights, shape, strict=True)):
        n_cells, spacing = weights.shape
        before, after = c.shape[:axis], c.shape[axis + 1 :]
        slope = _pad_axis(_take(c, axis, 1, None) - _take(c, axis, 0, -1), axis, 0, 1)
        by_cell = *before, n_cells, 1, *after
        own = _take(c, axis, 0, n_cells).reshape(by_cell)
        slope = _take(slope, axis, 0, n_cells).reshape(by_cell)
        c = own + weights.reshape(n_cells, spacing, *[1] * len(after)) * slope
        c = _take(c.reshape(*before, n_cells * spacing, *after), axis, 0, length)
    return c


def restrict(x: Any, cell_weights: Sequence[Any], node_shape: Sequence[int]) -> Any:
    """(cut points of each axis) Z' x: sums against the functions, which transposes Z."""
    xp = array_namespace(x)
    for axis, (weights, n_cut_points) in enumerate(zip(cell_weights, node_shape, strict=True)):
        n_cells, spacing = weights.shape
        if spacing == 1:
            continue
        x = _pad_axis(x, axis, 0, n_cells * spacing - x.shape[axis])
        x = x.reshape(*x.shape[:axis], n_cells, spacing, *x.shape[axis + 1 :])
        indices = list(range(x.ndim))
        summed = indices[: axis + 1] + indices[axis + 2 :]
        of_own = xp.einsum(1 - weights, [axis, axis + 1], x, indices, summed)
        of_next = xp.einsum(weights, [axis, axis + 1], x, indices, summed)
        x = _pad_axis(of_own, axis, 0, n_cut_points - n_cells)
        x = x + _pad_axis(_take(of_next, axis, 0, n_cut_points - 1), axis, 1, 0)
    return x


def _take(x: Any, axis: int, start: int, stop: int | None) -> Any:
    """A range of positions along one axis."""
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _pad_axis(x: Any, axis: int, before: int, after: int) -> Any:
    """``x`` with zeros around it along one axis."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (before, after)
    return array_namespace(x).pad(x, widths)


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
    has_gain: bool,
    inverse_rows: int = PROCESSOR_LIMITS.inverse_rows,
) -> CoarseCorrection | None:
    """The correction, from the probes of ``probe_coarse_system``.

    There is none where a chain decomposes, or mixes extremely slowly.
    """
    with np.errstate(all="ignore"):  # ``is_usable`` rejects NaN
        try:
            order = order_by_blocks(axes)
            correction, size = factorise_correction(axes, has_gain, probes, order, inverse_rows)
        except np.linalg.LinAlgError:
            return None
    return correction if is_usable(size) else None


def is_usable(solution_size: float) -> bool:
    """Whether a correction is more than its leak, by the size of its trial solution."""
    return solution_size <= COARSE_SOLUTION_MAX_SIZE


def order_by_blocks(axes: Sequence[CoarseAxis]) -> NDArray[np.int64]:
    """(nodes,) block by block: which node."""
    sizes = [len(coarse_axis.cut_points) for coarse_axis in axes]
    nodes = np.arange(prod(sizes)).reshape(sizes)
    block_axis = NodeBlocks.choose(axes).axis
    return (nodes if block_axis is None else np.moveaxis(nodes, block_axis, 0)).ravel()


def factorise_correction(
    axes: Sequence[CoarseAxis],
    has_gain: bool,
    probes: Any,
    order: Any,
    inverse_rows: int,
) -> tuple[CoarseCorrection, Any]:
    """The correction, and the size of its solution of a trial right side.

    ``order`` is that of ``order_by_blocks``.
    """
    xp = array_namespace(probes)
    node_blocks = NodeBlocks.choose(axes)
    position = xp.argsort(order)
    sums = (xp.asarray(coarse_axis.sum_functions()) for coarse_axis in axes)
    sizes = reduce(xp.multiply.outer, sums)
    system = _assemble_system(probes, axes, node_blocks, position)
    factors = factorise_blocks(system, inverse_rows)
    weights = tuple(xp.asarray(coarse_axis.cell_weights) for coarse_axis in axes)
    result = CoarseCorrection(weights, sizes, factors, order, position, None)
    if has_gain:
        stationary = _solve_blocks(factors.transposed, result, sizes.ravel())
        result = result._replace(shares=stationary / stationary.sum())
    trial = _solve_coarse(result, xp.sin(xp.arange(len(order)) ** 2.0))
    return result, abs(trial).max()


def _assemble_system(
    probes: Any, axes: Sequence[CoarseAxis], node_blocks: NodeBlocks, block_position: Any
) -> BlockTridiagonal:
    """(1 + LEAK_PROBABILITY) I - discount P_c by blocks."""
    xp = array_namespace(probes)
    n_blocks, n = node_blocks.n_blocks, node_blocks.block_size
    block, row = xp.divmod(block_position, n)
    columns = block_position[_find_probed_nodes(axes, xp).reshape(probes.shape)]
    target_block, column = xp.divmod(columns, n)
    # Below the diagonal, on it, or above it; further away a probe is 0, and adds nothing.
    band = xp.clip(target_block - block + 1, 0, 2)
    index = tuple(xp.broadcast_arrays(band, block, row, column))
    bands = xp.add_at(xp.zeros((3, n_blocks, n, n), probes.dtype), index, -probes)
    diagonal = bands[1] + (1 + LEAK_PROBABILITY) * xp.eye(n)
    return BlockTridiagonal(bands[0, 1:], diagonal, bands[2, :-1])


def _find_probed_nodes(axes: Sequence[CoarseAxis], xp: Any) -> Any:
    """(colours, cut points of each axis) the node whose function each probe may meet there."""
    n_axes = len(axes)
    nodes = 0
    for k, coarse_axis in enumerate(axes):
        owners = xp.asarray(coarse_axis.find_owners())
        owners = xp.expand_dims(owners, [i for i in range(2 * n_axes) if i not in (k, n_axes + k)])
        nodes = nodes * len(coarse_axis.cut_points) + owners
    return nodes


def apply_correction(correction: CoarseCorrection, residual: Any, adjoint: bool = False) -> Any:
    """M residual, or M' residual, in the precision of the residual; on the nodes always in double.

    That is residual + Z c, where c solves the system of the nodes for means of the residual.
    """
    sizes = correction.node_sizes
    weights = [w.astype(residual.dtype) for w in correction.cell_weights]
    sums = restrict(residual, weights, sizes.shape)
    if adjoint:
        c = _solve_coarse_adjoint(correction, sums.ravel()) / sizes.ravel()
    else:
        c = _solve_coarse(correction, (sums / sizes).ravel())
    c = c.astype(residual.dtype).reshape(sizes.shape)
    return residual + interpolate(c, weights, residual.shape)


def _solve_coarse(correction: CoarseCorrection, rhs: Any) -> Any:
    """About A_c^-1 rhs; for an average (I - P_c) c + mean(c) = rhs, whose mean is shares' rhs."""
    if correction.shares is None:
        return _solve_blocks(correction.factors, correction, rhs)
    gain = correction.shares @ rhs
    c = _solve_blocks(correction.factors, correction, rhs - gain)
    return c - _node_means(correction) @ c + gain


def _solve_coarse_adjoint(correction: CoarseCorrection, rhs: Any) -> Any:
    factors = correction.factors.transposed
    if correction.shares is None:
        return _solve_blocks(factors, correction, rhs)
    total = rhs.sum()
    c = _solve_blocks(factors, correction, rhs - _node_means(correction) * total)
    return c + correction.shares * (total - c.sum())


def _node_means(correction: CoarseCorrection) -> Any:
    """(nodes,) means of the functions over the grid."""
    return correction.node_sizes.ravel() / correction.node_sizes.sum()


def _solve_blocks(factors: BlockFactors, correction: CoarseCorrection, rhs: Any) -> Any:
    block_size = factors.levels[0].inverse.shape[1] if factors.levels else len(rhs)
    blocks = rhs[correction.block_order].reshape(-1, block_size)
    return factors.solve(blocks).ravel()[correction.block_position]
