"""The state space: a rectangular grid with named axes.

A state is a point ``(x_1, ..., x_d)``, one value from each axis; its flat index runs in C order, so
the last axis varies fastest. Neighbours are states one step apart along one axis, in the order in
which the axis lists its values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, shown

# A solution is a dataset whose dimensions are the axes and the action, beside these variables.
HISTORY = ("history_bound", "history_changed", "history_seconds")
TAKEN = ("value", "q", "policy", "margin", "decided", "sweep", *HISTORY)


@dataclass(frozen=True, init=False, eq=False)
class StateGrid:
    """Named axes and their values: ``StateGrid(stock=range(33), regime=range(25))``.

    Args:
        axes: axis name to values (numbers, or text labels); may also be given as keywords. An axis
            cannot have the name of something a solution holds: value, q, policy, margin, decided,
            sweep, or its history_bound, history_changed and history_seconds.
    """

    axes: tuple[str, ...]
    values: tuple[NDArray, ...]

    def __init__(self, axes: Mapping[str, Iterable] | None = None, /, **named: Iterable) -> None:
        given = {**(axes or {}), **named}
        if not given:
            raise ModelError("a grid needs at least one axis")
        for name in given:
            if not isinstance(name, str) or not name.isidentifier():
                raise ModelError("an axis name must be an identifier", "", f"got {name!r}")
            refuse_taken(name, "an axis")
        values = tuple(_axis_values(name, values) for name, values in given.items())
        object.__setattr__(self, "axes", tuple(given))
        object.__setattr__(self, "values", values)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.values)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @cached_property
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

    def axis(self, name: str) -> int:
        """Position of the axis called ``name``."""
        if name not in self.axes:
            raise ModelError(f"no axis is called {name!r}; the axes are {', '.join(self.axes)}")
        return self.axes.index(name)

    def mesh(self) -> dict[str, NDArray]:
        """Axis name to its values, shaped to broadcast over the grid."""
        shapes = np.ones((self.ndim, self.ndim), dtype=int)
        np.fill_diagonal(shapes, self.shape)
        return {n: v.reshape(s) for n, v, s in zip(self.axes, self.values, shapes, strict=True)}

    def coordinates(self, states: ArrayLike) -> dict[str, NDArray]:
        """Axis values of the states with these flat indices."""
        where = np.unravel_index(np.asarray(states), self.shape)
        return {n: v[i] for n, v, i in zip(self.axes, self.values, where, strict=True)}

    def state(self, **coordinates: object) -> int:
        """Flat index of the state with these axis values, given for every axis."""
        if set(coordinates) != set(self.axes):
            raise ModelError(f"a state needs a value for each of {', '.join(self.axes)}")
        where = [int(self.locate(axis, coordinates[n])) for axis, n in enumerate(self.axes)]  # type: ignore[arg-type]
        for name, index in zip(self.axes, where, strict=True):
            if index < 0:
                raise ModelError(
                    "a state must lie on the grid", f"{name}={coordinates[name]}", "does not"
                )
        return int(np.ravel_multi_index(where, self.shape))

    def locate(self, axis: int, values: ArrayLike) -> NDArray[np.int64]:
        """Position of each value along an axis, -1 where it is not on it.

        Numbers may miss a grid value by rounding, so that 0.1 + 0.2 is found at 0.3.
        """
        on_axis, wanted = self.values[axis], np.asarray(values)
        if on_axis.dtype.kind == wanted.dtype.kind == "U":
            at = _nearest_text(on_axis, wanted)
            return np.where(on_axis[at] == wanted, at, -1)
        if on_axis.dtype.kind == "U" or wanted.dtype.kind not in "biuf":
            return np.full(wanted.shape, -1)
        wanted = wanted.astype(float)
        at = _nearest(self.numbers[axis], wanted)
        return np.where(np.abs(on_axis[at] - wanted) <= self._slack[axis], at, -1)

    @cached_property
    def _slack(self) -> tuple[float, ...]:
        """How far a value may be off each axis and still be on it."""
        return tuple(
            1e-9 * float(np.diff(np.sort(v)).min(initial=1.0))
            + 8 * float(np.spacing(np.abs(v).max()))
            for v in self.numbers
        )

    def nearest(self, points: ArrayLike) -> NDArray[np.int64]:
        """Flat index of the grid state nearest to each of (n, d) points, axis by axis."""
        points = np.atleast_2d(np.asarray(points, dtype=float))
        if points.ndim != 2 or points.shape[1] != self.ndim:
            raise ModelError(f"points must have shape (n, {self.ndim}); got {points.shape}")
        bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
        if bad.size:
            row = bad[0]
            value = f"is ({', '.join(shown(float(x)) for x in points[row])})"
            raise ModelError(
                "points must be finite", f"row {row}", value, bad.size, len(points), "points"
            )
        where = [_nearest(v, points[:, i]) for i, v in enumerate(self.numbers)]
        return np.ravel_multi_index(tuple(where), self.shape)

    def describe(self, state: int) -> str:
        """``stock=3, regime=0``."""
        return ", ".join(f"{n}={shown(v)}" for n, v in self.coordinates(state).items())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StateGrid)
            and self.axes == other.axes
            and all(np.array_equal(a, b) for a, b in zip(self.values, other.values, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self.axes, self.shape))

    def __repr__(self) -> str:
        parts = (f"{n}: {_span(v)}" for n, v in zip(self.axes, self.values, strict=True))
        return f"StateGrid({', '.join(parts)}; {self.size:,} states)"


def refuse_taken(name: str, what: str) -> None:
    """Refuse a name that a solution already uses for something else."""
    if name in TAKEN:
        others = ", ".join(TAKEN)
        raise ModelError(f"{what} cannot be called {name!r}: a solution holds {others}")


def plain_values(values: Iterable, what: str) -> NDArray:
    """Numbers as int64 or float64, or text: other types would surprise in arithmetic.

    Unsigned and short integers wrap around, so they are widened.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ModelError(f"{what} must be a list of values", "", f"got {values!r}")
    items = values if isinstance(values, np.ndarray) else list(values)
    try:
        array = np.asarray(items)
    except ValueError:
        array = np.asarray(items, dtype=object)
    mixed = array.dtype.kind == "U" and not all(isinstance(item, str) for item in items)
    if mixed or array.dtype.kind not in "biufU":
        raise ModelError(f"{what} must be all numbers or all text", "", f"got {list(items)[:3]}")
    if array.ndim != 1:
        raise ModelError(f"{what} must be a list of values", "", f"has shape {array.shape}")
    if array.dtype.kind == "U":
        return array.copy()
    return array.astype(float if array.dtype.kind == "f" else np.int64)


def _axis_values(name: str, values: Iterable) -> NDArray:
    array = plain_values(values, f"the values of axis {name!r}")
    if not array.size:
        raise ModelError("an axis needs at least one value", name, "has none")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array))
        raise ModelError(
            "axis values must be finite",
            name,
            f"holds {array[bad[0]]}",
            bad.size,
            array.size,
            "values",
        )
    unique, counts = np.unique(array, return_counts=True)
    repeated = np.flatnonzero(counts > 1)
    if repeated.size:
        raise ModelError(
            "axis values must differ from one another",
            f"{name}={shown(unique[repeated[0]])}",
            f"stands {counts[repeated[0]]} times",
            repeated.size,
            len(unique),
            "values",
        )
    array.setflags(write=False)
    return array


def _nearest(values: NDArray, x: NDArray) -> NDArray[np.int64]:
    """Position of the value nearest to each x, the lower one of two as near."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    right = np.minimum(np.searchsorted(ordered, x), len(values) - 1)
    left = np.maximum(right - 1, 0)
    return order[np.where(x - ordered[left] <= ordered[right] - x, left, right)]


def _nearest_text(values: NDArray, x: NDArray) -> NDArray[np.int64]:
    order = np.argsort(values, kind="stable")
    return order[np.minimum(np.searchsorted(values[order], x), len(values) - 1)]


def _span(values: NDArray) -> str:
    return f"{values[0]}..{values[-1]}" if len(values) > 1 else f"{values[0]}"
