"""Calling a model's own functions by the names of their arguments, and checking what they return.

Arrays are open meshes of rank ``1 + d + 1``: actions first, then the d axes of the grid, then the
noise. A function that names only some of them returns an array that has length 1 elsewhere, so what
depends on little stays small.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.grid import StateGrid

SUM_TOLERANCE = 1e-9  # a row of probabilities may miss 1 by this much; error bounds account for it


@dataclass(frozen=True, eq=False)
class Scope:
    """What the functions of a model may name."""

    grid: StateGrid
    actions: tuple
    action_name: str = "action"

    @property
    def action_values(self) -> NDArray:
        """(A,) actions as numbers, or as text."""
        return np.asarray(self.actions)

    def mesh(self, noise: tuple[str, NDArray] | None = None) -> dict[str, NDArray]:
        """Name to open-mesh array of rank 1 + d + 1."""
        d = self.grid.ndim
        names = {
            n: v.reshape((1,) * (i + 1) + (-1,) + (1,) * (d - i))
            for i, (n, v) in enumerate(zip(self.grid.axes, self.grid.values, strict=True))
        }
        names[self.action_name] = self.action_values.reshape((-1,) + (1,) * (d + 1))
        if noise is not None:
            if noise[0] in names:
                raise ModelError(f"a noise cannot be called {noise[0]!r}: that name is taken")
            names[noise[0]] = noise[1]
        return names

    @property
    def rank(self) -> int:
        return self.grid.ndim + 2

    def describe(self, place: tuple, lengths: tuple[int, ...]) -> str:
        """Name the position ``place`` in an open-mesh array of these lengths."""
        parts = [
            f"{n}={v[i]}"
            for n, v, i, length in zip(
                self.grid.axes, self.grid.values, place[1:], lengths[1:], strict=False
            )
            if length > 1 or len(v) == 1
        ]
        if lengths[0] > 1:
            parts.append(f"{self.action_name}={self.actions[place[0]]}")
        return ", ".join(parts)


def call(function: Callable, names: Mapping[str, NDArray], what: str) -> ArrayLike:
    """``function`` of those ``names`` that it asks for."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be a function of named coordinates; {error}") from None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function(**names)
    wanted = [p.name for p in parameters if p.name in names or p.default is p.empty]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ModelError(f"{what} asks for {unknown[0]!r}; it may name {', '.join(names)}")
    return function(**{name: names[name] for name in wanted})


def as_numbers(result: ArrayLike, what: str) -> NDArray[np.float64]:
    """``result`` as float64, or an error when it is not numeric."""
    array = np.asarray(result)
    if array.dtype.kind not in "iufb":
        raise ModelError(f"{what} must be numbers; got {array.dtype} such as {array.ravel()[0]!r}")
    return array.astype(float)


def rewards(scope: Scope, result: ArrayLike, what: str) -> NDArray[np.float64]:
    """Checked open-mesh rewards of rank 1 + d + 1."""
    array = _ranked(scope, as_numbers(result, what), what)
    bad = ~np.isfinite(array)
    if bad.any():
        place = tuple(np.argwhere(bad)[0])
        raise ModelError(
            f"{what} must be finite",
            scope.describe(place, array.shape),
            f"pays {array[place]}",
            int(bad.sum()),
            array.size,
            "rewards",
        )
    return array


def probabilities(scope: Scope, result: ArrayLike, count: int, what: str) -> NDArray[np.float64]:
    """Checked open-mesh probabilities of rank 1 + d + 1, last axis of length ``count``."""
    array = _ranked(scope, as_numbers(result, what), what)
    if array.shape[-1] != count:
        raise ModelError(f"{what} must end in an axis of {count} values; got shape {array.shape}")
    check_distributions(array, what, lambda place: scope.describe(place, array.shape))
    return array


def check_distributions(
    array: NDArray, what: str, describe: Callable[[tuple], str], noun: str = "rows"
) -> None:
    """Refuse a last axis that is not a probability distribution."""
    rows = int(np.prod(array.shape[:-1], dtype=np.int64))

    def refuse(rule: str, bad: NDArray, value: Callable[[tuple], str]) -> None:
        if bad.any():
            place = tuple(int(i) for i in np.argwhere(bad)[0])
            raise ModelError(rule, describe(place), value(place), int(bad.sum()), rows, noun)

    refuse(
        f"{what} must be finite",
        ~np.isfinite(array).all(axis=-1),
        lambda p: f"holds {array[p][~np.isfinite(array[p])][0]}",
    )
    refuse(
        f"{what} must not be negative",
        (array < 0).any(axis=-1),
        lambda p: f"holds {array[p].min():.6g}",
    )
    sums = array.sum(axis=-1)
    refuse(
        f"{what} must sum to 1",
        np.abs(sums - 1) > SUM_TOLERANCE,
        lambda p: f"sums to {sums[p]:.12g}",
    )


def positions(
    grid: StateGrid,
    axis: int,
    values: ArrayLike,
    what: str,
    describe: Callable[[tuple, tuple[int, ...]], str],
) -> NDArray[np.int32]:
    """Index along ``axis`` of each value, which must be one of the axis."""
    array = np.asarray(values)
    axis_values = grid.values[axis]
    order = np.argsort(axis_values, kind="stable")
    at = np.clip(np.searchsorted(axis_values[order], array), 0, len(order) - 1)
    index = order[at]
    off = ~(axis_values[index] == array)
    if off.any():
        place = tuple(int(i) for i in np.argwhere(off)[0])
        raise ModelError(
            f"{what} leaves the grid: {grid.axes[axis]} must stay on its axis",
            describe(place, array.shape),
            f"goes to {grid.axes[axis]}={array[place]}",
            int(off.sum()),
            array.size,
            "cases",
        )
    return index.astype(np.int32)


def _ranked(scope: Scope, array: NDArray, what: str) -> NDArray:
    if array.ndim > scope.rank:
        raise ModelError(f"{what} returned {array.ndim} axes; at most {scope.rank} have a meaning")
    array = array.reshape((1,) * (scope.rank - array.ndim) + array.shape)
    expected = (len(scope.actions), *scope.grid.shape)
    for length, full in zip(array.shape, expected, strict=False):
        if length not in (1, full):
            raise ModelError(f"{what} returned shape {array.shape}; it must broadcast over {expected}")
    return array
