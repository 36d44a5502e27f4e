"""Exogenous axes: those whose joint next value depends on themselves alone.

With z the coordinates along these axes and x all others, for every state and feasible action

    P((x', z') | (x, z), a) = K(z, z') p_a(x' | x, z, z').

In stages, an axis depends on everything with which its next positions, or their probabilities,
vary. Axes that depend on the action, or on an axis that does, are removed until none is left: the
rest is the largest exogenous set. A table is tested set by set: the sums of its rows over x must
agree.

Stored numbers are rounded, so K is known up to ``error``: for every state and action,

    sum_z' | sum_x' P((x', z') | (x, z), a) - K(z, z') |  <=  error.

Differences larger than rounding explains make an axis endogenous.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Dynamics
from tessella.mdp.stages.operation import Operation, RandomOperation
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.tabular import Tabular
from tessella.rounding import EPS, OUTWARD_FACTOR, RowSumBounds

if TYPE_CHECKING:
    import scipy.sparse as sp

ACTION = -1  # the action, among the positions of axes
MATRIX_MAX_ENTRIES = 1 << 22  # entries of K with its band filled, for factorising it quickly
TABLE_MAX_AXES = 8  # axes of a table whose sets are all tested
TABLE_SAMPLED_STATES = 64  # states whose actions are compared before all rows are
TABLE_ROUNDING_UNITS = 4  # roundings for each entry of a row that a builder may have made


@dataclass(frozen=True, eq=False)
class Exogenous:
    """Axes that no action and no other axis influences, and how they move."""

    names: tuple[str, ...]
    axes: tuple[int, ...]  # their positions among the axes of the grid
    shape: tuple[int, ...]  # their lengths
    matrix: sp.csr_array  # (Z, Z) K, over the joint values in the order of the grid
    error: float  # of a row of K, summed over its entries

    @property
    def n_slices(self) -> int:
        """The joint values: each of them has a slice of the states."""
        return math.prod(self.shape)


def find_exogenous(dynamics: Dynamics, feasible: NDArray[np.bool_] | None) -> Exogenous | None:
    """The largest set of exogenous axes; None where there is none.

    ``feasible`` (S, A) says which pairs can occur.
    """
    if dynamics.space.grid.is_listed:
        return None
    if isinstance(dynamics, Staged):
        return _find_in_stages(dynamics)
    if isinstance(dynamics, Tabular):
        return _find_in_table(dynamics, feasible)
    return None


def _make_exogenous(dynamics: Dynamics, axes: tuple[int, ...], matrix, error: float) -> Exogenous:
    grid = dynamics.space.grid
    names = tuple(grid.axes[axis] for axis in axes)
    # What building the model did to its probabilities is a share of each.
    error += dynamics.rounding.in_memory.row_error * dynamics.row_sums.high
    shape = _select_lengths(grid.shape, axes)
    return Exogenous(names, axes, shape, matrix, error * OUTWARD_FACTOR)


def _find_in_stages(dynamics: Staged) -> Exogenous | None:
    operations = [stage.operation for stage in dynamics.stages]
    inputs: dict[int, set[int]] = {axis: {axis} for axis in range(len(dynamics.shape))}
    for operation in operations:
        for axis in inputs.keys() & set(operation.axes):  # no scratch axes
            inputs[axis] |= _find_inputs(operation, axis)
    for axes in _find_closed_sets(inputs, dynamics.shape):
        matrix, error = _multiply_marginals(operations, axes)
        if matrix is not None and _is_quick_to_factorise(matrix):
            return _make_exogenous(dynamics, axes, matrix, error)
    return None


def _find_inputs(operation: Operation, axis: int) -> set[int]:
    """The axes, and perhaps the action, that decide where a state moves along ``axis``."""
    positions = operation.positions(axis)
    arrays = [positions]
    if isinstance(operation, RandomOperation) and varies_along(positions, 1):
        arrays.append(operation.probs)
    dims = [ACTION, None, *range(len(operation.shape))]
    return {
        name
        for array in arrays
        for dim, name in enumerate(dims)
        if name is not None and varies_along(array, dim)
    }


def varies_along(array: NDArray, dim: int) -> bool:
    """Whether numbers differ along a dimension."""
    return array.shape[dim] > 1 and bool((array != array.take([0], dim)).any())


def _find_closed_sets(
    inputs: dict[int, set[int]], shape: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Sets of axes that depend on themselves alone: the largest, then the smallest of each axis."""
    largest = set(inputs)
    while any(not inputs[axis] <= largest for axis in largest):
        largest = {axis for axis in largest if inputs[axis] <= largest}
    smaller = [_close_over_inputs(inputs, axis) for axis in largest]
    smaller.sort(key=lambda axes: -math.prod(_select_lengths(shape, axes)))
    for axes in [largest, *smaller]:
        n_slices = math.prod(_select_lengths(shape, axes))
        if axes and 1 < n_slices <= MATRIX_MAX_ENTRIES:
            yield tuple(sorted(axes))


def _select_lengths(shape: tuple[int, ...], axes: Iterable[int]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in axes)


def _close_over_inputs(inputs: dict[int, set[int]], axis: int) -> set[int]:
    """The axis with all that it depends on, directly or through others."""
    closed = {axis}
    while not (next_inputs := set().union(*(inputs[member] for member in closed))) <= closed:
        closed |= next_inputs
    return closed


def _multiply_marginals(operations: list[Operation], axes: tuple[int, ...]):
    """(K of these axes, the error of its rows); None for K where it has too many entries."""
    import scipy.sparse as sp

    shape = _select_lengths(operations[0].shape, axes)
    n_slices = math.prod(shape)
    matrix = sp.csr_array(sp.eye_array(n_slices))
    terms = 0
    sums = RowSumBounds(0.0, 0.0)
    for operation in operations:
        sums = sums.compose(operation.row_sums)
        if not set(axes) & set(operation.axes):
            continue
        if n_slices * operation.max_outcomes > MATRIX_MAX_ENTRIES:
            return None, math.inf
        terms += operation.max_outcomes + int(np.diff(matrix.indptr).max()) + 2
        matrix = sp.csr_array(matrix @ _compute_marginal(operation, axes, shape))
    return matrix, (sums.deviation + EPS * terms) * float(matrix.sum(axis=1).max())


def _compute_marginal(
    operation: Operation, axes: tuple[int, ...], shape: tuple[int, ...]
) -> sp.csr_array:
    """(Z, Z) how an operation moves these axes, which depend on nothing else."""
    import scipy.sparse as sp

    def restrict(array: NDArray) -> NDArray:
        """(K | 1, Z): at the first position of all other axes, and of the actions."""
        index = [0, slice(None), *(slice(None) if k in axes else 0 for k in range(array.ndim - 2))]
        restricted = array[tuple(index)]
        return np.broadcast_to(restricted, (len(restricted), *shape)).reshape(len(restricted), -1)

    positions = np.broadcast_arrays(*(restrict(operation.positions(axis)) for axis in axes))
    target = np.ravel_multi_index(tuple(positions), shape)
    if isinstance(operation, RandomOperation) and varies_along(target, 0):
        probs = restrict(operation.probs)
    else:
        target = target[:1]
        probs = np.ones((1, 1))
    target, source, probs = np.broadcast_arrays(target, np.arange(target.shape[1]), probs)
    entries = probs.ravel(), (source.ravel(), target.ravel())
    matrix = sp.coo_array(entries, shape=(target.shape[1],) * 2).tocsr()
    matrix.eliminate_zeros()
    return matrix


def _is_quick_to_factorise(matrix: sp.csr_array) -> bool:
    """Whether K is small, or has a narrow band."""
    n = len(matrix.indptr) - 1
    row = np.repeat(np.arange(n), np.diff(matrix.indptr))
    width = 1 + 2 * int(np.abs(matrix.indices - row).max(initial=0))
    return n * min(n, width) <= MATRIX_MAX_ENTRIES


def _find_in_table(dynamics: Tabular, feasible: NDArray[np.bool_] | None) -> Exogenous | None:
    mask = np.ones(dynamics.row_of.shape, dtype=bool) if feasible is None else feasible
    every_state = np.arange(len(mask))
    sample = np.unique(np.linspace(0, len(mask) - 1, TABLE_SAMPLED_STATES).astype(int))
    for axes in _list_axis_sets(dynamics.shape):
        if _compare_marginals(dynamics, mask, axes, sample) is None:
            continue
        compared = _compare_marginals(dynamics, mask, axes, every_state)
        if compared is not None and _is_quick_to_factorise(compared[0]):
            return _make_exogenous(dynamics, axes, *compared)
    return None


def _list_axis_sets(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Sets of axes with several joint values, those with the most values first."""
    sizes = range(1, len(shape) + 1) if len(shape) <= TABLE_MAX_AXES else (1,)
    sets = [axes for size in sizes for axes in itertools.combinations(range(len(shape)), size)]
    n_slices = {axes: math.prod(_select_lengths(shape, axes)) for axes in sets}
    return sorted((axes for axes in sets if n_slices[axes] > 1), key=lambda axes: -n_slices[axes])


def _compare_marginals(
    dynamics: Tabular, mask: NDArray[np.bool_], axes: tuple[int, ...], states: NDArray
):
    """(K of these axes, the error of its rows) by the rows of some states; None if they differ."""
    import scipy.sparse as sp

    shape = _select_lengths(dynamics.shape, axes)
    n_slices = math.prod(shape)

    def slice_of(states: NDArray) -> NDArray:
        positions = np.unravel_index(states, dynamics.shape)
        return np.ravel_multi_index(tuple(positions[axis] for axis in axes), shape)

    pairs = mask[states]
    source = np.broadcast_to(slice_of(states)[:, None], pairs.shape)[pairs]
    n_rows = len(dynamics.rows.indptr) - 1
    used_pairs = np.unique(source * n_rows + dynamics.row_of[states][pairs])
    source, row = np.divmod(used_pairs, n_rows)
    rows, row = np.unique(row, return_inverse=True)
    chosen = dynamics.rows[rows]
    entries = chosen.data, slice_of(chosen.indices), chosen.indptr
    marginal = sp.csr_array(entries, shape=(len(rows), n_slices))
    marginal.sum_duplicates()
    first = np.zeros(n_slices, dtype=np.int64)
    first[source[::-1]] = row[::-1]  # the first row of each slice
    matrix = marginal[first]
    difference = float(abs(marginal[row] - matrix[source]).sum(axis=1).max())
    high = dynamics.row_sums.high
    # The stored numbers may have been rounded, and their sums are.
    rounding = EPS * (dynamics.longest_row + 2) * high
    row_error = dynamics.rounding.in_memory.row_error * high
    if difference > TABLE_ROUNDING_UNITS * rounding + 2 * row_error:
        return None
    return matrix, difference * (1 + EPS * (n_slices + 2)) + 2 * rounding
