"""The state space: a rectangular grid with named axes.

A state is a point ``(x_1, ..., x_d)``, one value from each axis; its flat index runs in C order, so
the last axis varies fastest. Neighbours are states one step apart along one axis, in the order in
which the axis lists its values.

Not every combination of values need be a state. A grid of listed states (``from_states``) has an
index for each of them, in the order of the list, and arrays over its states have one axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, ModelError, TessellaError, format_value, raise_for_first

# A solution is a dataset whose dimensions are the axes and the action; these are its variables.
HISTORY_VARIABLES = ("history_bound", "history_changed", "history_seconds")
RESERVED_NAMES = ("value", "q", "policy", "margin", "decided", "sweep", *HISTORY_VARIABLES)

AXIS_MAX_SIZE = 1e150  # size of a value along an axis, so that squares of distances are finite
PRODUCT_MAX_PLACES = 10_000_000  # combinations of values that are written out for listed states
INT64_MIN = -(2**63)  # the smallest integer that an axis can hold
INT64_MAX = 2**63 - 1  # the largest

_max_states: ContextVar[float] = ContextVar("max_states", default=math.inf)


@contextmanager
def limit_states(states: float) -> Iterator[None]:
    """Inside this, a grid of more states is rejected, with its size, before anything is built."""
    token = _max_states.set(min(states, _max_states.get()))
    try:
        yield
    finally:
        _max_states.reset(token)


@dataclass(frozen=True, init=False, eq=False)
class StateGrid:
    """Named axes and their values: ``StateGrid(stock=range(33), regime=range(25))``.

    Args:
        axes: axis name to values (numbers, or text labels); may also be given as keywords. An axis
            cannot have the name of something a solution holds: value, q, policy, margin, decided,
            sweep, or its history_bound, history_changed and history_seconds.

    Attributes:
        axes: the names of the axes.
        values: the values of each axis.
        downward_axis: the axis that pictures draw from the top down, as a matrix is written; empty
            for none. `with_downward_axis` states it. It is no part of what a state is.

    Example:
        >>> grid = ts.StateGrid(stock=range(33), season=["low", "high"])
        >>> grid.size, grid.axes
        (66, ('stock', 'season'))
    """

    axes: tuple[str, ...]
    values: tuple[NDArray, ...]
    downward_axis: str = ""

    def __init__(
        self, axes: Mapping[str, Iterable] | None = None, /, **keyword_axes: Iterable
    ) -> None:
        if not isinstance(axes, Mapping | None):
            requirement = "a grid needs axis names and their values, as in {'stock': range(33)}"
            raise ModelError(requirement, value=f"got {axes!r}")
        all_axes = {**(axes or {}), **keyword_axes}
        if not all_axes:
            raise ModelError("a grid needs at least one axis")
        for name in all_axes:
            if not isinstance(name, str) or not name.isidentifier():
                raise ModelError("an axis name must be an identifier", value=f"got {name!r}")
            require_unreserved(name, "an axis")
        values = tuple(_read_axis_values(name, values) for name, values in all_axes.items())
        object.__setattr__(self, "axes", tuple(all_axes))
        object.__setattr__(self, "values", values)
        limit = _max_states.get()
        if self.size > limit:
            shape = " x ".join(f"{n} {k:,}" for n, k in zip(self.axes, self.lengths, strict=True))
            requirement = f"a model has at most {limit:,} states here"
            raise ModelError(requirement, value=f"this one would have {self.size:,} ({shape})")

    @staticmethod
    def from_states(
        columns: Mapping[str, Iterable] | None = None, /, **keyword_columns: Iterable
    ) -> StateGrid:
        """A grid with the listed states only: ``StateGrid.from_states(x=[0, 0, 1], y=[0, 1, 1])``.

        Each axis has one entry for each state; its values are those that occur, ascending. Arrays
        over the states are flat, in the order of the list.
        """
        all_columns = {**(columns or {}), **keyword_columns}
        return ListedGrid(all_columns) if len(all_columns) > 1 else StateGrid(all_columns)

    def with_downward_axis(self, name: str) -> StateGrid:
        """The same grid, of which pictures draw the axis ``name`` from the top down."""
        if name:
            self.axis(name, error=ModelError)
        grid = copy(self)
        object.__setattr__(grid, "downward_axis", name)
        return grid

    def with_axes(self, axes: Mapping[str, Iterable]) -> StateGrid:
        """A grid of other axes, drawn as this one is as far as they are the same."""
        name = self.downward_axis
        return StateGrid(axes).with_downward_axis(name if name in axes else "")

    def picture_order(self, axes: Sequence[str]) -> list[str]:
        """Axes in the order of pictures: the first runs to the right, the second up or down."""
        return sorted(axes, key=lambda name: name == self.downward_axis)

    def fingerprint_key(self) -> tuple:
        """What enters the fingerprint of a model."""
        return self.axes, self.values

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return tuple(len(values) for values in self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of arrays over the states: the lengths, or (n,) of n listed states."""
        return self.lengths

    @property
    def is_listed(self) -> bool:
        """Whether only some combinations of the values are states."""
        return False

    @property
    def product(self) -> StateGrid:
        """The grid of all combinations of the values."""
        return self.with_axes(dict(zip(self.axes, self.values, strict=True)))

    @property
    def columns(self) -> dict[str, NDArray]:
        """Axis name to its values; of listed states, to the value of each state."""
        return dict(zip(self.axes, self.values, strict=True))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.axes)

    @property
    def size(self) -> int:
        """Number of states."""
        return math.prod(self.shape)

    @cached_property
    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """Axis values as float64; a text axis counts 0, 1, 2, ..."""
        return tuple(
            np.arange(len(v), dtype=float) if v.dtype.kind == "U" else v.astype(float)
            for v in self.values
        )

    @property
    def points(self) -> NDArray[np.float64]:
        """(n_states, d) coordinates of all states, in the axes' own values."""
        mesh = np.meshgrid(*self.numbers, indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=-1)

    def iterate_chunks(self, chunk_size: int) -> Iterator[NDArray[np.float64]]:
        """Coordinates of all states in flat order, ``chunk_size`` at a time: (n, d) each."""
        for first in range(0, self.size, chunk_size):
            yield self.points_of(np.arange(first, min(first + chunk_size, self.size)))

    def points_of(self, states: NDArray[np.integer]) -> NDArray[np.float64]:
        """(n, d) coordinates of the states with these flat indices."""
        positions = self.positions_of(states)
        return np.stack([v[i] for v, i in zip(self.numbers, positions, strict=True)], axis=-1)

    def positions_of(self, states: ArrayLike) -> tuple[NDArray[np.int64], ...]:
        """Positions along each axis of the states with these flat indices."""
        return np.unravel_index(np.asarray(states), self.lengths)

    def find_states(self, positions: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        """Flat indices of the states with these positions along each axis, -1 for no state."""
        return np.asarray(np.ravel_multi_index(tuple(positions), self.lengths))

    def select_states(self, positions: Mapping[int, int]) -> NDArray[np.int64]:
        """Flat indices of the states with these positions along some axes."""
        all_positions = [positions.get(axis, np.arange(n)) for axis, n in enumerate(self.lengths)]
        return self.find_states(np.meshgrid(*all_positions, indexing="ij")).ravel()

    def spread(self, array: NDArray, fill: Any) -> NDArray:
        """(S, ...) entries of the states over the product of the axes, ``fill`` elsewhere."""
        return array.reshape(*self.lengths, *array.shape[1:])

    def axis(self, name: str, *, error: type[TessellaError] = ArgumentError) -> int:
        """Position of the axis called ``name``."""
        if name not in self.axes:
            available = f"the axes are {', '.join(self.axes)}"
            raise error(f"no axis is called {name!r}", value=available)
        return self.axes.index(name)

    def mesh(self) -> dict[str, NDArray]:
        """Axis name to its values, shaped to broadcast over the grid."""
        shapes = np.ones((self.ndim, self.ndim), dtype=int)
        np.fill_diagonal(shapes, self.shape)
        return {n: v.reshape(s) for n, v, s in zip(self.axes, self.values, shapes, strict=True)}

    def coordinates(self, states: ArrayLike) -> dict[str, NDArray]:
        """Axis values of the states with these flat indices."""
        positions = self.positions_of(require_unmasked(states, "states", error=ArgumentError))
        return {n: v[i] for n, v, i in zip(self.axes, self.values, positions, strict=True)}

    def state(self, /, **coordinates: object) -> int:
        """Flat index of the state with these axis values, given for every axis."""
        if set(coordinates) != set(self.axes):
            raise ArgumentError(f"a state needs a value for each of {', '.join(self.axes)}")
        indices = [int(self.locate(axis, coordinates[n])) for axis, n in enumerate(self.axes)]  # type: ignore[arg-type]
        for name, index in zip(self.axes, indices, strict=True):
            if index < 0:
                raise ArgumentError(
                    "a state must lie on the grid",
                    location=f"{name}={coordinates[name]}",
                    value="does not",
                )
        state = int(self.find_states([np.asarray(index) for index in indices]))
        if state < 0:
            location = describe_coordinates(coordinates)
            raise ArgumentError("a state must exist", location=location, value="does not")
        return state

    def locate(self, axis: int, values: ArrayLike) -> NDArray[np.int64]:
        """Position of each value along an axis, -1 where it is not on it.

        Numbers may miss a grid value by rounding, so that 0.1 + 0.2 is at 0.3: by a small
        share of the distance to the value's own neighbours. Integers are compared exactly.
        """
        on_axis = self.values[axis]
        wanted = np.asarray(require_unmasked(values, "values to look up", error=ArgumentError))
        if on_axis.dtype.kind == wanted.dtype.kind == "U":
            index = _find_at_or_above(on_axis, wanted)
            return np.where(on_axis[index] == wanted, index, -1)
        if on_axis.dtype.kind == "U" or wanted.dtype.kind not in "biuf":
            return np.full(wanted.shape, -1)
        if on_axis.dtype.kind == "i" and wanted.dtype.kind in "biu":
            return _find_equal_integers(on_axis, wanted)
        wanted = wanted.astype(float)
        index = _find_nearest(self.numbers[axis], wanted)
        is_near = np.abs(self.numbers[axis][index] - wanted) <= self._match_tolerance[axis][index]
        result = np.where(is_near, index, -1)
        if on_axis.dtype.kind == "f":
            return result
        return np.where(np.rint(wanted) == wanted, _find_equal_integers(on_axis, wanted), result)

    @cached_property
    def _match_tolerance(self) -> tuple[NDArray[np.float64], ...]:
        return tuple(map(_compute_match_tolerance, self.numbers))

    def nearest(self, points: ArrayLike) -> NDArray[np.int64]:
        """Flat index of the grid state nearest to each of (n, d) points, axis by axis."""
        return self.find_nearest(self.nearest_positions(read_points(self, points)))

    def nearest_positions(self, points: NDArray[np.float64]) -> list[NDArray[np.int64]]:
        """Positions along each axis of the values nearest to (n, d) points."""
        return [_find_nearest(v, points[:, i]) for i, v in enumerate(self.numbers)]

    def find_nearest(self, positions: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        """Flat index of the state nearest to these positions, in steps along the axes."""
        return self.find_states(positions)

    def values_at(self, points: NDArray[np.float64]) -> dict[str, NDArray]:
        """Axis name to the (n,) coordinates of (n, d) points, of the axis' own type where possible.

        A text axis gives the nearest label; an axis of integers gives integers if all of them are.
        """
        return {
            name: _to_axis_type(values, points[:, axis])
            for axis, (name, values) in enumerate(zip(self.axes, self.values, strict=True))
        }

    def describe(self, state: int) -> str:
        """``stock=3, regime=0``."""
        return describe_coordinates(self.coordinates(state))

    def describe_point(self, point: NDArray[np.float64]) -> str:
        """``stock=3.5, regime=0``."""
        coordinates = self.values_at(np.atleast_2d(point))
        return describe_coordinates({name: values[0] for name, values in coordinates.items()})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or self.axes != other.axes or self.shape != other.shape:
            return False
        columns = zip(self.columns.values(), other.columns.values(), strict=True)
        return all(np.array_equal(a, b) for a, b in columns)

    def __hash__(self) -> int:
        return hash((self.axes, self.shape, self.lengths))

    def __repr__(self) -> str:
        ranges = [f"{v[0]}..{v[-1]}" if len(v) > 1 else f"{v[0]}" for v in self.values]
        parts = (f"{name}: {text}" for name, text in zip(self.axes, ranges, strict=True))
        return f"StateGrid({', '.join(parts)}; {self.size:,} states)"


class ListedGrid(StateGrid):
    """A grid of n listed states. See ``StateGrid.from_states``.

    Attributes:
        positions: (d, n) positions of the states along the axes.
    """

    positions: NDArray[np.int64]

    def __init__(self, columns: Mapping[str, Iterable]) -> None:
        given = {n: to_plain_values(c, f"the values of axis {n!r}") for n, c in columns.items()}
        lengths = {name: len(column) for name, column in given.items()}
        if len(set(lengths.values())) > 1:
            requirement = "listed states need one value of each axis"
            raise ModelError(requirement, value=f"the axes have {lengths}")
        unique = {n: np.unique(column, return_inverse=True) for n, column in given.items()}
        positions = np.array([p.ravel() for _, p in unique.values()], dtype=np.int64)
        positions.setflags(write=False)
        object.__setattr__(self, "positions", positions)
        super().__init__({name: values for name, (values, _) in unique.items()})
        order = np.lexsort(positions[::-1])
        is_repeated = np.zeros(self.size, dtype=bool)
        is_repeated[order[1:]] = (np.diff(positions[:, order]) == 0).all(axis=0)
        raise_for_first(
            "listed states must differ from one another",
            is_repeated,
            self.describe,
            lambda _: "is listed before",
            "states",
        )

    @property
    def is_listed(self) -> bool:
        return True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.positions.shape[1:]

    def fingerprint_key(self) -> tuple:
        return *super().fingerprint_key(), self.positions

    def positions_of(self, states: ArrayLike) -> tuple[NDArray[np.int64], ...]:
        return tuple(self.positions[:, np.asarray(states)])

    @cached_property
    def _prefix_index(self) -> list[NDArray[np.int64]]:
        """Sorted keys for each axis, and the states in lexicographic order of their positions.

        A key combines the rank of the positions along all axes before with that on this one.
        """
        rank = np.zeros(self.size, dtype=np.int64)
        prefixes = []
        for length, positions in zip(self.lengths, self.positions, strict=True):
            keys, rank = np.unique(rank * length + positions, return_inverse=True)
            prefixes.append(keys)
        return [*prefixes, np.argsort(rank)]

    def find_states(self, positions: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        *prefixes, states = self._prefix_index
        rank = np.zeros(np.shape(positions[0]), dtype=np.int64)
        exists = np.ones(rank.shape, dtype=bool)
        for keys, length, position in zip(prefixes, self.lengths, positions, strict=True):
            # The rank of what comes before is below n, so keys stay small for any number of axes.
            key = rank * length + position
            rank = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            exists &= keys[rank] == key
        return np.where(exists, states[rank], -1)

    def select_states(self, positions: Mapping[int, int]) -> NDArray[np.int64]:
        matches = [self.positions[axis] == position for axis, position in positions.items()]
        return np.flatnonzero(np.all(matches, axis=0) if matches else np.ones(self.shape))

    def find_nearest(self, positions: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        from scipy.spatial import KDTree

        states = self.find_states(positions)
        missing = np.flatnonzero(states < 0)
        if missing.size:
            missing_positions = np.stack(positions, axis=-1)[missing]
            states[missing] = KDTree(self.positions.T).query(missing_positions, p=1)[1]
        return states

    def spread(self, array: NDArray, fill: Any) -> NDArray:
        if math.prod(self.lengths) > PRODUCT_MAX_PLACES:
            requirement = f"at most {PRODUCT_MAX_PLACES:,} combinations of values are written out"
            raise ArgumentError(requirement, value=f"the axes have {math.prod(self.lengths):,}")
        full = np.full((*self.lengths, *array.shape[1:]), fill, dtype=array.dtype)
        full[tuple(self.positions)] = array
        return full

    @property
    def points(self) -> NDArray[np.float64]:
        return self.points_of(np.arange(self.size))

    @property
    def columns(self) -> dict[str, NDArray]:
        return self.coordinates(np.arange(self.size))

    def mesh(self) -> dict[str, NDArray]:
        return self.columns


def describe_coordinates(coordinates: Mapping[str, object]) -> str:
    """``stock=3, regime=0``."""
    return ", ".join(f"{name}={format_value(value)}" for name, value in coordinates.items())


def read_points(grid: StateGrid, points: ArrayLike) -> NDArray[np.float64]:
    """``points`` as an array (n, d), checked."""
    points = np.atleast_2d(
        np.asarray(require_unmasked(points, "points", error=ArgumentError), dtype=float)
    )
    if points.ndim != 2 or points.shape[1] != grid.ndim:
        raise ArgumentError(f"points must have shape (n, {grid.ndim})", value=f"got {points.shape}")
    raise_for_first(
        "points must be finite",
        ~np.isfinite(points).all(axis=1),
        lambda row: f"row {row}",
        lambda row: f"is ({', '.join(format_value(float(x)) for x in points[row])})",
        "points",
        error=ArgumentError,
    )
    return points


def spaced_indices(length: int, max_count: int) -> NDArray[np.int64]:
    """Evenly spaced positions on an axis, first and last included, at most ``max_count``."""
    return np.unique(np.linspace(0, length - 1, min(length, max(max_count, 1))).round().astype(int))


def index_type(count: int) -> type[np.int32] | type[np.int64]:
    """The narrower of two types that holds the indices ``0..count - 1``."""
    return np.int32 if count <= 2**31 else np.int64


def require_product(
    grid: StateGrid, subject: str, *, error: type[TessellaError] = ArgumentError
) -> None:
    """Reject a grid of listed states."""
    if grid.is_listed:
        requirement = f"{subject} needs every combination of the axes' values to be a state"
        raise error(requirement, value=f"{grid.size:,} of {math.prod(grid.lengths):,} are")


def require_unreserved(name: str, subject: str) -> None:
    """Reject a name that a solution already uses for something else."""
    if name in RESERVED_NAMES:
        reserved = ", ".join(RESERVED_NAMES)
        raise ModelError(f"{subject} cannot be called {name!r}: a solution holds {reserved}")


def require_ordered(values: object, subject: str) -> None:
    """Reject a set: the order of its elements may differ from one process to the next."""
    if isinstance(values, set | frozenset):
        raise ModelError(f"{subject} must have an order, which a set does not keep; give a list")


def require_unmasked(
    values: Any,
    subject: str,
    describe: Callable[[tuple, tuple], str] | None = None,
    *,
    error: type[TessellaError] = ModelError,
) -> Any:
    """``values`` as they are, rejected where a mask hides some: NumPy would read the data under it.

    ``describe`` names a place, given its index and the array's shape.
    """
    masked = list(_find_masked(values))
    if masked:
        index = masked[0]
        objects = np.asarray(values, dtype=object)
        entry = f"entry {index[0] if len(index) == 1 else index}"
        location = entry if describe is None else describe(index, objects.shape)
        requirement = f"{subject} must not be masked"
        raise error(
            requirement,
            location=location,
            value="is masked",
            count=len(masked),
            total=objects.size,
            noun="entries",
        )
    return values


def _find_masked(values: Any) -> Iterator[tuple[int, ...]]:
    """Where an array, or one within nested lists, is masked."""
    if isinstance(values, np.ma.MaskedArray):
        yield from map(tuple, np.argwhere(np.ma.getmaskarray(values)).tolist())
    elif isinstance(values, list | tuple):
        kinds = set(map(type, values))  # long lists of plain numbers are passed over quickly
        if any(issubclass(kind, list | tuple | np.ma.MaskedArray) for kind in kinds):
            for i, value in enumerate(values):
                yield from ((i, *index) for index in _find_masked(value))


def to_plain_values(values: Iterable, subject: str) -> NDArray:
    """Numbers as int64 or float64, or text: other types would surprise in arithmetic.

    Unsigned and short integers wrap around, so they are widened; longer ones are rejected.
    """
    require_ordered(values, subject)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ModelError(f"{subject} must be a list of values", value=f"got {values!r}")
    items = require_unmasked(values if isinstance(values, np.ndarray) else list(values), subject)
    try:
        array = np.asarray(items)
    except ValueError:
        array = np.asarray(items, dtype=object)
    _require_int64(items, array, subject)
    _require_one_type(items, array, subject)
    if array.ndim != 1:
        raise ModelError(f"{subject} must be a list of values", value=f"has shape {array.shape}")
    if array.dtype.kind == "U":
        return array.copy()
    return array.astype(float if array.dtype.kind == "f" else np.int64)


def _require_one_type(items: Any, array: NDArray, subject: str) -> None:
    """Reject a mix of numbers and text, other types, and text that NumPy would shorten."""
    is_text = array.dtype.kind == "U"
    mixed = is_text and not all(isinstance(item, str) for item in items)
    if mixed or array.dtype.kind not in "biufU":
        requirement = f"{subject} must be all numbers or all text"
        raise ModelError(requirement, value=f"got {list(items)[:3]}")
    if is_text and array.ndim == 1 and any(item.endswith("\0") for item in items):
        raise ModelError(f"text in {subject} must not end in the character NUL")


def _require_int64(items: Iterable, array: NDArray, subject: str) -> None:
    """Reject integers beyond int64, which NumPy would wrap around or round."""
    if array.ndim == 1 and array.dtype.kind in ("uO" if isinstance(items, np.ndarray) else "ufO"):
        integers = (int(item) for item in items if isinstance(item, Integral))
        too_wide = next((item for item in integers if not INT64_MIN <= item <= INT64_MAX), None)
        if too_wide is not None:
            raise ModelError(
                f"integers in {subject} must lie in -2^63..2^63 - 1",
                value=f"got {format_value(too_wide)}",
            )


def _read_axis_values(name: str, values: Iterable) -> NDArray:
    array = to_plain_values(values, f"the values of axis {name!r}")
    if not array.size:
        raise ModelError("an axis needs at least one value", location=name, value="has none")
    if array.dtype.kind == "f":
        raise_for_first(
            f"axis values must lie between -{AXIS_MAX_SIZE:g} and {AXIS_MAX_SIZE:g}",
            ~(np.abs(array) <= AXIS_MAX_SIZE),
            lambda _: name,
            lambda i: f"holds {array[i]}",
            "values",
        )
    unique, counts = np.unique(array, return_counts=True)
    raise_for_first(
        "axis values must differ from one another",
        counts > 1,
        lambda i: f"{name}={format_value(unique[i])}",
        lambda i: f"occurs {counts[i]} times",
        "values",
    )
    array.setflags(write=False)
    return array


def _to_axis_type(values: NDArray, x: NDArray[np.float64]) -> NDArray:
    """Coordinates ``x`` as the labels of an axis, or as integers where all of them are whole."""
    if values.dtype.kind == "U":
        return values[_find_nearest(np.arange(len(values), dtype=float), x)]
    is_whole = (
        values.dtype.kind == "i"
        and (np.abs(x) < -float(INT64_MIN)).all()
        and (x == np.rint(x)).all()
    )
    return x.astype(np.int64) if is_whole else x


def _find_nearest(values: NDArray, x: NDArray) -> NDArray[np.int64]:
    """Position of the value nearest to each x; of two at the same distance, the lower one."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    right = np.minimum(np.searchsorted(ordered, x), len(values) - 1)
    left = np.maximum(right - 1, 0)
    return order[np.where(x - ordered[left] <= ordered[right] - x, left, right)]


def _find_equal_integers(values: NDArray[np.int64], x: NDArray) -> NDArray[np.int64]:
    """Position of the integer that each whole x is, -1 where it is none of them."""
    is_int64 = (x >= INT64_MIN) & (x < -float(INT64_MIN)) if x.dtype.kind == "f" else x <= INT64_MAX
    integers = np.where(is_int64, x, x.dtype.type(0)).astype(np.int64)
    index = _find_at_or_above(values, integers)
    return np.where(is_int64 & (values[index] == integers), index, -1)


def _compute_match_tolerance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance from each value within which a number counts as this value."""
    order = np.argsort(values, kind="stable")
    steps = np.diff(values[order])
    gap = np.ones(len(values))
    if steps.size:
        gap[order] = np.minimum(np.append(steps, np.inf), np.insert(steps, 0, np.inf))
    # However far the neighbours are, the tolerance stays below 1: whole numbers remain distinct.
    return np.minimum(1e-9 * gap, 1e-6) + np.minimum(8 * np.spacing(np.abs(values)), gap / 4)


def _find_at_or_above(values: NDArray, x: NDArray) -> NDArray[np.int64]:
    """Position of the smallest value at or above each x, or of the largest value."""
    order = np.argsort(values, kind="stable")
    return order[np.minimum(np.searchsorted(values[order], x), len(values) - 1)]
