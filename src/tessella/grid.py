"""The state space: a rectangular grid with named axes.

A state is a point ``(x_1, ..., x_d)``, one value from each axis; its flat index runs in C order, so
the last axis varies fastest. Neighbours are states one step apart along one axis, in the order in
which the axis lists its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError


@dataclass(frozen=True, init=False, eq=False)
class StateGrid:
    """Named axes and their values: ``StateGrid(stock=range(33), regime=range(25))``.

    Args:
        axes: axis name to values (numbers, or text labels); may also be given as keywords.
    """

    axes: tuple[str, ...]
    values: tuple[NDArray, ...]

    def __init__(self, axes: Mapping[str, Iterable] | None = None, /, **named: Iterable) -> None:
        given = {**(axes or {}), **named}
        if not given:
            raise ModelError("a grid needs at least one axis")
        for name in given:
            if not isinstance(name, str) or not name.isidentifier():
                raise ModelError(f"an axis name must be an identifier; got {name!r}")
        object.__setattr__(self, "axes", tuple(given))
        object.__setattr__(
            self, "values", tuple(_axis_values(name, vals) for name, vals in given.items())
        )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.values)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @cached_property
    def size(self) -> int:
        """Number of states."""
        return int(np.prod(self.shape, dtype=np.int64))

    @cached_property
    def numbers(self) -> tuple[NDArray, ...]:
        """Axis values as float64; a text axis counts 0, 1, 2, ..."""
        return tuple(
            v.astype(float) if v.dtype.kind in "iuf" else np.arange(len(v), dtype=float)
            for v in self.values
        )

    @property
    def points(self) -> NDArray:
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
        where = []
        for name, values in zip(self.axes, self.values, strict=True):
            hit = np.flatnonzero(values == coordinates[name])
            if not len(hit):
                raise ModelError(f"{name}={coordinates[name]} is not on the grid")
            where.append(hit[0])
        return int(np.ravel_multi_index(where, self.shape))

    def nearest(self, points: ArrayLike) -> NDArray:
        """Flat index of the grid state nearest to each of (n, d) points, axis by axis."""
        points = np.atleast_2d(np.asarray(points, dtype=float))
        if points.ndim != 2 or points.shape[1] != self.ndim:
            raise ModelError(f"points must have shape (n, {self.ndim}); got {points.shape}")
        if not np.isfinite(points).all():
            row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
            raise ModelError("points must be finite", f"row {row}", f"is {points[row]}")
        where = [_nearest(v, points[:, i]) for i, v in enumerate(self.numbers)]
        return np.ravel_multi_index(where, self.shape)

    def describe(self, state: int) -> str:
        """``stock=3, regime=0``."""
        return ", ".join(f"{n}={v}" for n, v in self.coordinates(state).items())

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


def _axis_values(name: str, values: Iterable) -> NDArray:
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if array.ndim != 1 or array.size == 0:
        raise ModelError(f"axis {name!r} must be a non-empty list of values; shape {array.shape}")
    if array.dtype.kind == "b":
        array = array.astype(int)
    if array.dtype.kind not in "iufU":
        raise ModelError(f"axis {name!r} must hold numbers or text; got {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array))
        raise ModelError(
            "axis values must be finite", name, f"holds {array[bad[0]]}", bad.size, array.size
        )
    unique, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        repeated = unique[counts > 1]
        raise ModelError(
            "axis values must differ from one another",
            f"{name}={repeated[0]}",
            f"stands {counts[counts > 1][0]} times",
            len(repeated),
            len(unique),
            "values",
        )
    array = array.copy()
    array.setflags(write=False)
    return array


def _nearest(values: NDArray, x: NDArray) -> NDArray:
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    right = np.clip(np.searchsorted(ordered, x), 1, max(len(values) - 1, 1))
    right = np.minimum(right, len(values) - 1)
    left = np.maximum(right - 1, 0)
    return order[np.where(x - ordered[left] <= ordered[right] - x, left, right)]


def _span(values: NDArray) -> str:
    return f"{values[0]}..{values[-1]}" if len(values) > 1 else f"{values[0]}"
