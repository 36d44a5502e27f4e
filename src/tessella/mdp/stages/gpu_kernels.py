"""Stages on an accelerator: sums over slices in tiles, as one kernel.

    E[w](x) = r(x) + sum_k p_k(x) w(pad_index(x + offset_k)).

The grid is cut into rows (all axes but the last) and columns (the last); a program works on a few
rows of ``columns`` neighbouring columns. What depends on rows alone is a number to it, what depends
on columns a vector, so any array that broadcasts over the grid is read by strides.

A sum along rows with consecutive offsets, o, o - 1, o - 2, ..., keeps a window of rows in
registers: for each k it reads one row and p_k, and computes a product for each row of the window.
Negligible terms at both ends are left out, tile by tile: together less than a 64th of one rounding
of the sum.
``interpret`` runs the same kernels without an accelerator, slowly.

Memory sets the pace, so a short sum along columns that comes next in the model, such as the step of
a regime, has no pass of its own: it is computed as the window reads its rows (``inner``).

``build_tiled_operation`` puts the kernels into the backend of ``staged``, where a model is compiled
in tiles (``choose_tiles``). All other operations, and the maximum over actions, are left to the
compiler, which is as fast. A kernel has no transpose; that of the plain form is used instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import linear_call
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from numpy.typing import NDArray

from tessella.mdp.dynamics import TILED_MIN_LAST_AXIS, TileSizes
from tessella.mdp.stages.maps import AxisMap
from tessella.mdp.stages.operation import (
    CompiledOperation,
    Operation,
    compiled_action_slice,
    is_shared_by_actions,
)
from tessella.mdp.stages.shift import SLICED_MAX_ACTIONS, AxisShift

UNROLLED_MAX_TERMS = 8  # sums of more terms are looped over
ROWS_PER_PROGRAM = 4  # rows of a program where no window slides
# Terms with a weight below machine precision, divided by this and by their number, are left out.
NEGLIGIBLE_WEIGHT_DIVISOR = 64


class ShiftTerms(NamedTuple):
    """A sum over slices along one axis, of one action."""

    axis: int
    step_sign: int | None  # 1 or -1 where offsets are consecutive, so that a window can slide
    first_padded: int | None  # the first padded position, where positions past the ends are clipped
    pad_index: Any
    offsets: Any  # (K,)
    probs: Any  # (K, *broadcast)


class TileColumns(NamedTuple):
    """The columns of a program, and which of them lie on the grid."""

    index: Any
    mask: Any  # None where all of them do

    def load(self, ref: Any, where: Any) -> Any:
        if self.mask is None:
            return triton.load(ref.at[where])
        zero = jnp.zeros((), ref.dtype)
        return triton.load(ref.at[where], mask=self.mask, other=zero)

    def store(self, ref: Any, where: Any, value: Any, is_inside: Any) -> None:
        mask = jnp.broadcast_to(is_inside, self.index.shape)
        triton.store(ref.at[where], value, mask=mask if self.mask is None else mask & self.mask)


class StridedArray:
    """An array (n, *broadcast) in memory, read at a lead index and a place of the grid."""

    def __init__(self, ref: Any, shape: Sequence[int]) -> None:
        self.ref = ref
        lengths = tuple(shape[1:])
        self.size = math.prod(lengths)
        self.strides = [
            math.prod(lengths[axis + 1 :]) if length > 1 else 0
            for axis, length in enumerate(lengths)
        ]

    def depends_on(self, axis: int) -> bool:
        return self.strides[axis] > 0

    def at(self, lead: Any, place: Sequence[Any], columns: TileColumns) -> Any:
        """A number, or a vector where it depends on columns."""
        where = _scale_index(lead, self.size)
        for index, stride in zip(place, self.strides[:-1], strict=True):
            where = where + _scale_index(index, stride)
        if self.depends_on(-1):
            return columns.load(self.ref, where + columns.index)
        return self.ref[where]


def _scale_index(index: Any, stride: int) -> Any:
    return index * jnp.int32(stride) if stride else jnp.int32(0)


class TileGrid:
    """Rows and columns of an array, and their division among programs."""

    def __init__(self, like: Any, tiles: TileSizes) -> None:
        self.tiles = tiles
        self.dtype = like.dtype
        self.size = like.size
        *self.lengths, self.n_columns = like.shape  # of the axes of rows, and of the last
        self.n_rows = math.prod(self.lengths)
        self.strides = [math.prod(self.lengths[a + 1 :]) for a in range(len(self.lengths))]
        self.width = tiles.columns
        self.window_rows = tiles.window_bytes // self.dtype.itemsize
        self.column_tiles = pl.cdiv(self.n_columns, self.width)

    def columns(self, tile: Any) -> TileColumns:
        index = tile * jnp.int32(self.width) + lax.iota(jnp.int32, self.width)
        return TileColumns(index, index < self.n_columns if self.n_columns % self.width else None)

    def row_coordinates(self, row: Any, skipped: int | None = None) -> list[Any]:
        """Positions of the ``row``-th row along the axes of rows; 0 along the ``skipped`` axis."""
        place: list[Any] = [jnp.int32(0)] * len(self.lengths)
        for axis in reversed(range(len(self.lengths))):
            if axis != skipped:
                place[axis] = row % jnp.int32(self.lengths[axis])
                row = row // jnp.int32(self.lengths[axis])
        return place

    def row_offset(self, place: Sequence[Any]) -> Any:
        """Where a row begins in memory."""
        row = jnp.int32(0)
        for index, stride in zip(place, self.strides, strict=True):
            row = row + _scale_index(index, stride)
        return row * jnp.int32(self.n_columns)

    def run(self, kernel: Callable, programs: int, inputs: Sequence[Any]) -> Any:
        run_kernel = pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((self.size,), self.dtype),
            grid=(programs,),
            interpret=self.tiles.interpret,
            compiler_params=triton.CompilerParams(num_warps=self.tiles.warps, num_stages=1),
        )
        return run_kernel(*(jnp.reshape(x, (-1,)) for x in inputs))


def compute_expected_value(
    tiles: TileSizes, w: Any, shift: ShiftTerms, reward: Any = None, inner: ShiftTerms | None = None
) -> Any:
    """(grid) the sum of the terms of ``shift``, plus ``reward`` (*broadcast).

    Where a window slides, ``w`` may first go through an ``inner`` shift along the last axis.
    """
    grid = TileGrid(w, tiles)
    inputs = [w, shift.pad_index, shift.offsets, shift.probs]
    if shift.axis == w.ndim - 1:
        kernel, programs = _make_column_kernel(grid, shift, reward)
    elif shift.step_sign is None:
        kernel, programs = _make_row_kernel(grid, shift, reward)
    else:
        inputs.append(find_significant_terms(shift.probs, grid, tiles.unrolled_terms))
        inputs += [] if inner is None else [inner.pad_index, inner.offsets, inner.probs]
        kernel, programs = _make_sliding_window_kernel(grid, shift, reward, inner)
    inputs += [] if reward is None else [reward]
    return grid.run(kernel, programs, inputs).reshape(w.shape)


def find_significant_terms(probs: Any, grid: TileGrid, unrolled: int) -> Any:
    """(column tiles, 2) the first significant term, and rounds of ``unrolled`` terms."""
    count = probs.shape[0]
    is_significant = probs > jnp.finfo(probs.dtype).eps / (NEGLIGIBLE_WEIGHT_DIVISOR * count)
    is_significant = is_significant.any(axis=tuple(range(1, probs.ndim - 1)))  # (K, columns | 1)
    if is_significant.shape[1] > 1:
        n_padding = grid.column_tiles * grid.width - grid.n_columns
        is_significant = jnp.pad(is_significant, ((0, 0), (0, n_padding)))
        is_significant = is_significant.reshape(count, grid.column_tiles, grid.width).any(axis=2)
    first = jnp.argmax(is_significant, axis=0)
    last = count - 1 - jnp.argmax(is_significant[::-1], axis=0)
    rounds = pl.cdiv(last + 1 - first, unrolled)
    first = jnp.clip(first, 0, jnp.maximum(count - rounds * unrolled, 0))
    both = jnp.stack([first, rounds], axis=1).astype(jnp.int32)
    return jnp.broadcast_to(both, (grid.column_tiles, 2))


def _make_sliding_window_kernel(
    grid: TileGrid, shift: ShiftTerms, reward: Any, inner: ShiftTerms | None
):
    """The kernel of a sum along an axis of rows, of offsets that follow one another."""
    axis = shift.axis
    length = grid.lengths[axis]
    height = min(grid.window_rows, length)
    axis_tiles = pl.cdiv(length, height)
    others = grid.n_rows // length

    def kernel(w, pad_index, offsets, probs, terms, *refs):
        *optional, out = refs
        reward_refs = optional if inner is None else optional[3:]
        tile, programs = _split(pl.program_id(0), axis_tiles)
        outer_index, column_tile = _split(programs, others)
        columns = grid.columns(column_tile)
        outer_index = grid.row_coordinates(outer_index, axis)
        first = tile * jnp.int32(height)
        places = [
            _with_coordinate(outer_index, axis, jnp.minimum(first + r, jnp.int32(length - 1)))
            for r in range(height)
        ]
        k0 = terms[2 * column_tile]
        rounds = terms[2 * column_tile + 1]
        start_position = first + offsets[0] + jnp.int32(shift.step_sign or 1) * k0
        probs = StridedArray(probs, shift.probs.shape)
        read_row = _make_row_reader(grid, columns, w, inner, optional)
        window = _SlidingWindow(
            grid, shift, columns, places, read_row, pad_index, probs, k0, start_position
        )
        totals = _load_rewards(grid, reward_refs, reward, places, columns)
        rows = tuple(window.load_row(start_position + r) for r in range(height))
        totals, _ = lax.fori_loop(jnp.int32(0), rounds, window.add_terms, (totals, rows))
        _store_totals(grid, out, totals, places, columns, length - first)

    return kernel, axis_tiles * others * grid.column_tiles


def _make_row_reader(
    grid: TileGrid, columns: TileColumns, w: Any, inner: ShiftTerms | None, refs: Sequence[Any]
) -> Callable[[Any], Any]:
    """Where a row begins -> the row, or its expected value after the ``inner`` shift."""
    if inner is None:
        return lambda row: columns.load(w, row + columns.index)
    pad_index, offsets, probs, *_ = refs
    weights = StridedArray(probs, inner.probs.shape)
    any_place = [jnp.int32(0)] * len(grid.lengths)
    terms = [
        (
            weights.at(jnp.int32(k), any_place, columns),
            _shift_columns(grid, inner, columns, pad_index, offsets[k]),
        )
        for k in range(inner.probs.shape[0])
    ]

    def read_row(row):
        total = jnp.zeros(grid.width, grid.dtype)
        for p, source in terms:
            total = total + p * columns.load(w, row + source)
        return total

    return read_row


class _SlidingWindow(NamedTuple):
    """A window of rows that one program slides along an axis, term by term."""

    grid: TileGrid
    shift: ShiftTerms
    columns: TileColumns
    places: list[list[Any]]  # of the rows that it adds up
    read_row: Callable[[Any], Any]
    pad_index: Any
    probs: StridedArray
    first_term: Any
    start_position: Any  # the padded position of its first row, at the first term

    def load_row(self, padded: Any) -> Any:
        axis = self.shift.axis
        source = _unpad(self.shift, self.pad_index, padded, self.grid.lengths[axis])
        place = _with_coordinate(self.places[0], axis, source)
        return self.read_row(self.grid.row_offset(place))

    def weights(self, k: Any) -> list[Any]:
        """The k-th probability at each row; 0 past the last term."""
        count = self.shift.probs.shape[0]
        is_padded = count % self.grid.tiles.unrolled_terms > 0
        inside = (k < count).astype(self.grid.dtype) if is_padded else None
        k = jnp.minimum(k, jnp.int32(count - 1)) if is_padded else k
        places = self.places if self.probs.depends_on(self.shift.axis) else self.places[:1]
        p = [self.probs.at(k, place, self.columns) for place in places]
        p = [x * inside for x in p] if is_padded else p
        return p if len(p) > 1 else p * len(self.places)

    def add_term(self, done: Any, carry: tuple) -> tuple:
        """Add one term to the totals, and move the window on by a row."""
        totals, rows = carry
        p = self.weights(self.first_term + done)
        totals = tuple(t + x * v for t, x, v in zip(totals, p, rows, strict=True))
        if (self.shift.step_sign or 1) < 0:
            return totals, (self.load_row(self.start_position - (done + 1)), *rows[:-1])
        return totals, (*rows[1:], self.load_row(self.start_position + done + jnp.int32(len(rows))))

    def add_terms(self, m: Any, carry: tuple) -> tuple:
        """The m-th round: as many terms as are unrolled."""
        unrolled = self.grid.tiles.unrolled_terms
        for k in range(unrolled):
            carry = self.add_term(m * jnp.int32(unrolled) + jnp.int32(k), carry)
        return carry


def _make_row_kernel(grid: TileGrid, shift: ShiftTerms, reward: Any):
    """The kernel of a sum along an axis of rows, of any offsets."""
    length = grid.lengths[shift.axis]

    def value(w, pad_index, offset, place, columns):
        source = _unpad(shift, pad_index, place[shift.axis] + offset, length)
        row = grid.row_offset(_with_coordinate(place, shift.axis, source))
        return columns.load(w, row + columns.index)

    return _make_multi_row_kernel(grid, shift, reward, value)


def _make_column_kernel(grid: TileGrid, shift: ShiftTerms, reward: Any):
    """The kernel of a sum along the last axis."""

    def value(w, pad_index, offset, place, columns):
        source = _shift_columns(grid, shift, columns, pad_index, offset)
        return columns.load(w, grid.row_offset(place) + source)

    return _make_multi_row_kernel(grid, shift, reward, value)


def _shift_columns(
    grid: TileGrid, shift: ShiftTerms, columns: TileColumns, pad_index: Any, offset: Any
) -> Any:
    """The columns from which a shift along the last axis reads."""
    if shift.first_padded is None:
        return columns.load(pad_index, columns.index + offset)
    return _clip_position(columns.index + (offset + jnp.int32(shift.first_padded)), grid.n_columns)


def _make_multi_row_kernel(grid: TileGrid, shift: ShiftTerms, reward: Any, value: Callable):
    """A kernel for a few rows at once; ``value`` reads a row, shifted by an offset."""
    count = shift.probs.shape[0]
    row_tiles = pl.cdiv(grid.n_rows, ROWS_PER_PROGRAM)

    def kernel(w, pad_index, offsets, probs, *refs):
        *reward_refs, out = refs
        probs = StridedArray(probs, shift.probs.shape)
        tile, column_tile = _split(pl.program_id(0), row_tiles)
        columns = grid.columns(column_tile)
        first = tile * jnp.int32(ROWS_PER_PROGRAM)
        places = [
            grid.row_coordinates(jnp.minimum(first + r, jnp.int32(grid.n_rows - 1)))
            for r in range(ROWS_PER_PROGRAM)
        ]

        def add(k, totals):
            offset = offsets[k]
            return tuple(
                total + probs.at(k, place, columns) * value(w, pad_index, offset, place, columns)
                for total, place in zip(totals, places, strict=True)
            )

        totals = _load_rewards(grid, reward_refs, reward, places, columns)
        if count <= UNROLLED_MAX_TERMS:
            for k in range(count):
                totals = add(jnp.int32(k), totals)
        else:
            totals = lax.fori_loop(jnp.int32(0), jnp.int32(count), add, totals)
        _store_totals(grid, out, totals, places, columns, grid.n_rows - first)

    return kernel, row_tiles * grid.column_tiles


def _split(index: Any, length: int) -> tuple[Any, Any]:
    """(position within ``length``, how many lengths before it)."""
    return index % jnp.int32(length), index // jnp.int32(length)


def _with_coordinate(place: Sequence[Any], axis: int, position: Any) -> list[Any]:
    return [position if a == axis else index for a, index in enumerate(place)]


def _unpad(shift: ShiftTerms, pad_index: Any, padded: Any, length: int) -> Any:
    """The position along the axis of a padded one."""
    if shift.first_padded is None:
        return pad_index[_clip_position(padded, shift.pad_index.shape[0])]
    return _clip_position(padded + jnp.int32(shift.first_padded), length)


def _clip_position(position: Any, length: int) -> Any:
    return jnp.clip(position, jnp.int32(0), jnp.int32(length - 1))


def _load_rewards(
    grid: TileGrid, refs: Sequence[Any], reward: Any, places: list[list[Any]], columns: TileColumns
) -> tuple[Any, ...]:
    """A vector of the reward at each place: the initial value of a sum."""
    if reward is None:
        return (jnp.zeros(grid.width, grid.dtype),) * len(places)
    paid = StridedArray(refs[0], (1, *reward.shape))
    amounts = (paid.at(jnp.int32(0), place, columns) for place in places)
    return tuple(jnp.broadcast_to(amount, grid.width) for amount in amounts)


def _store_totals(
    grid: TileGrid, out: Any, totals: tuple, places: list, columns: TileColumns, count: Any
) -> None:
    """Write the first ``count`` totals; the others lie past the end."""
    for r, (place, total) in enumerate(zip(places, totals, strict=True)):
        columns.store(out, grid.row_offset(place) + columns.index, total, r < count)


def build_tiled_operation(
    operation: Operation, depends_on_action: bool, tiles: TileSizes, for_any_block: bool = False
) -> CompiledOperation:
    """The compiled form of an operation, in tiles where it has such a form.

    Blocks of one model have different ends; ``for_any_block`` makes a form for all of them.
    """
    if isinstance(operation, AxisMap):
        return TiledAxisMap(AxisMap, operation.axes, depends_on_action)
    if type(operation) is not AxisShift:
        return operation.compile(depends_on_action)
    step_sign = _find_constant_step(operation.offsets)
    length = operation.shape[operation.axis]
    first_padded = (
        None if for_any_block else _find_first_padded_position(operation.pad_index, length)
    )
    return TiledAxisShift(
        AxisShift, operation.axes, depends_on_action, step_sign, first_padded, tiles
    )


def _find_constant_step(offsets: NDArray) -> int | None:
    """1 or -1 where the offsets (A | 1, K) of all actions go up or down by one; else None."""
    steps = np.unique(np.diff(offsets, axis=1))
    return int(steps[0]) if len(steps) == 1 and steps[0] in (1, -1) else None


def _find_first_padded_position(pad_index: NDArray, length: int) -> int | None:
    """The first padded position, if padding clips to the ends of the axis; else None."""
    for first in range(0, length - len(pad_index) - 1, -1):
        if np.array_equal(
            pad_index, np.clip(np.arange(first, first + len(pad_index)), 0, length - 1)
        ):
            return first
    return None


@dataclass(frozen=True)
class TiledAxisMap(CompiledOperation):
    """A map along an axis, where reading rows is faster than reading single entries."""

    def supports_policy_arrays(self, arrays: Any) -> bool:
        return len(arrays["target"]) > SLICED_MAX_ACTIONS


@dataclass(frozen=True)
class TiledAxisShift(CompiledOperation):
    """A shift along an axis as a kernel, perhaps with the one that comes next in the model."""

    step_sign: int | None
    first_padded: int | None
    tiles: TileSizes
    inner: TiledAxisShift | None = None  # a shift along the last axis; its numbers: arrays["inner"]

    def apply(self, arrays: Any, w: Any, action: Any) -> Any:
        if not self._is_supported(arrays, w, action):
            return self._apply_plain(arrays, w, action)
        numbers = {name: arrays[name] for name in arrays if name != "reward"}
        kernel_action = 0 if np.ndim(action) else action

        def forward(operands, w):
            kernel_arrays, chosen = operands
            return self._run_kernel(kernel_arrays, chosen, w)

        def backward(operands, w):
            def plain(v):
                return self._apply_plain(operands[0], v, operands[1])

            return jax.linear_transpose(plain, w)(w)[0]

        return linear_call(forward, backward, (numbers, kernel_action), w)

    def apply_with_reward(self, arrays: Any, w: Any, action: Any) -> Any:
        """The same with the stage's reward, by one kernel."""
        if not self._is_supported(arrays, w, action):
            return super().apply_with_reward(arrays, w, action)
        reward = compiled_action_slice(arrays["reward"], action)
        kernel_action = 0 if np.ndim(action) else action
        if np.ndim(action) and len(arrays["reward"]) > 1:
            return self._run_kernel(arrays, kernel_action, w) + reward
        return self._run_kernel(arrays, kernel_action, w, reward)

    def _is_supported(self, arrays: Any, w: Any, action: Any) -> bool:
        is_shared = not np.ndim(action) or is_shared_by_actions(arrays["offsets"], arrays["probs"])
        return is_shared and w.shape[-1] >= TILED_MIN_LAST_AXIS

    def _apply_plain(self, arrays: Any, w: Any, action: Any) -> Any:
        if self.inner is not None:
            w = AxisShift.apply(self.inner.static_args, arrays["inner"], w, 0)
        return AxisShift.apply(self.static_args, arrays, w, action)

    def _run_kernel(self, arrays: Any, action: Any, w: Any, reward: Any = None) -> Any:
        inner = None if self.inner is None else self.inner.make_terms(arrays["inner"], 0)
        return compute_expected_value(self.tiles, w, self.make_terms(arrays, action), reward, inner)

    def make_terms(self, arrays: Any, action: Any) -> ShiftTerms:
        offsets = compiled_action_slice(arrays["offsets"], action)
        probs = compiled_action_slice(arrays["probs"], action)
        (axis,) = cast(tuple[int, ...], self.static_args)
        return ShiftTerms(
            axis, self.step_sign, self.first_padded, arrays["pad_index"], offsets, probs
        )


def fuse_inner_shifts(
    operations: Sequence[CompiledOperation], arrays: Sequence[dict[str, Any]]
) -> tuple[tuple[CompiledOperation, ...], list[dict[str, Any]]]:
    """The operations and their numbers, with inner shifts inside the windows before them."""
    fused: list[tuple[CompiledOperation, dict[str, Any]]] = []
    for operation, numbers in zip(operations, arrays, strict=True):
        outer, outer_numbers = fused[-1] if fused else (None, {})
        if _slides_window(outer, outer_numbers) and _can_be_inner(operation, numbers):
            fused[-1] = replace(outer, inner=operation), outer_numbers | {"inner": numbers}
        else:
            fused.append((operation, numbers))
    return tuple(operation for operation, _ in fused), [numbers for _, numbers in fused]


def _slides_window(
    operation: CompiledOperation | None, numbers: dict[str, Any]
) -> TypeGuard[TiledAxisShift]:
    """Whether it sums along rows with a window that has no inner shift yet, for all actions."""
    if not isinstance(operation, TiledAxisShift) or operation.depends_on_action:
        return False
    has_window = operation.step_sign is not None and operation.inner is None
    return has_window and not _is_along_last_axis(operation, numbers)


def _can_be_inner(
    operation: CompiledOperation, numbers: dict[str, Any]
) -> TypeGuard[TiledAxisShift]:
    """Whether it is a short sum along the last axis, the same in all rows, that pays nothing."""
    if not isinstance(operation, TiledAxisShift) or operation.depends_on_action:
        return False
    _, count, *lengths = numbers["probs"].shape
    is_short = count <= UNROLLED_MAX_TERMS and "reward" not in numbers
    is_same_in_rows = math.prod(lengths[:-1]) == 1
    return is_short and is_same_in_rows and _is_along_last_axis(operation, numbers)


def _is_along_last_axis(operation: TiledAxisShift, numbers: dict[str, Any]) -> bool:
    return operation.static_args == (numbers["probs"].ndim - 3,)
