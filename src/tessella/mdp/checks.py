"""Checks at the door: what a model's functions and arrays must be.

A function may say any number where nothing reads it: for pairs (state, action) that are infeasible,
and for outcomes of probability 0. What is wrong there is replaced, what is wrong elsewhere refused.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, TessellaError, exceeds_float, shown
from tessella.grid import StateGrid, unmasked
from tessella.mdp.scope import NamedValues, Scope

SUM_TOLERANCE = 1e-9  # a row of probabilities may miss 1 by this much; error bounds account for it


def as_numbers(
    result: Any,
    what: str,
    describe: Callable[[tuple, tuple], str] | None = None,
    *,
    error: type[TessellaError] = ModelError,
) -> NDArray[np.float64]:
    """``result`` as float64; ``describe`` names a place, given its index and the array's shape."""
    result = result.toarray() if hasattr(result, "toarray") else result  # a sparse matrix
    unmasked(result, what, describe, error=error)
    try:
        array = np.asarray(result)
    except ValueError:
        raise error(f"{what} must be a rectangular array of numbers") from None
    if array.dtype.kind in "iufb":
        return array.astype(float)
    objects = np.asarray(result, dtype=object)
    named = describe or (lambda place, _: f"entry {place}")

    def refuse_where(rule: str, wrong: Callable[[Any], bool], show: Callable[[Any], str]) -> None:
        bad = np.asarray(np.frompyfunc(wrong, 1, 1)(objects), dtype=bool)
        refuse(
            rule,
            bad,
            lambda place: named(place, bad.shape),
            lambda place: f"is {show(np.asarray(objects[place]).item())}",
            "entries",
            error=error,
        )

    refuse_where(f"{what} must be numbers", lambda x: not isinstance(x, Real), repr)
    refuse_where(f"{what} must be numbers that float64 can hold", exceeds_float, shown)
    return objects.astype(float)


def noise_of(noise: Any, grid: StateGrid, error: type[TessellaError]) -> NDArray[np.float64]:
    """Standard deviations of observed coordinates, () or (d,)."""
    rule = f"noise must be one number, or one for each of {grid.ndim} axes, finite and not negative"
    try:
        sigma = np.asarray(unmasked(noise, "noise", error=error))
    except ValueError:
        raise error(rule, value=f"got {noise!r}") from None
    spread = sigma.dtype.kind in "iuf" and bool((np.isfinite(sigma) & (sigma >= 0)).all())
    if not spread or sigma.shape not in ((), (grid.ndim,)):
        raise error(rule, value=f"got {noise!r}")
    return sigma.astype(float)


def shape_of(values: Any, what: str, *, error: type[TessellaError] = ModelError) -> tuple[int, ...]:
    """The shape of an array or of nested lists."""
    if not hasattr(values, "shape"):
        unmasked(values, what, error=error)
    try:
        return np.shape(values)
    except ValueError:
        raise error(f"{what} must be a rectangular array of numbers") from None


def refuse(
    rule: str,
    bad: NDArray[np.bool_],
    describe: Callable[[tuple], str],
    value: Callable[[tuple], str],
    noun: str,
    *,
    error: type[TessellaError] = ModelError,
) -> None:
    """Raise for the first of the places marked ``bad``, and count them."""
    if bad.any():
        place = tuple(int(i) for i in np.unravel_index(bad.argmax(), bad.shape))
        raise error(
            rule,
            place=describe(place),
            value=value(place),
            count=int(bad.sum()),
            total=bad.size,
            noun=noun,
        )


def read_at(
    scope: Scope, bad: NDArray[np.bool_], probs: NDArray | None = None
) -> NDArray[np.bool_]:
    """``bad`` less the places that nothing reads; all are open meshes."""
    if not bad.any():
        return bad
    read = np.ones((1,) * scope.rank, dtype=bool) if scope.allowed is None else scope.allowed
    read = read if probs is None else read & (probs > 0)
    shared = tuple(axis for axis, length in enumerate(bad.shape) if length == 1)
    return bad & read.any(axis=shared, keepdims=True)


def _numbers(
    scope: Scope, result: Any, what: str, noise: NamedValues | None = None
) -> NDArray[np.float64]:
    """An open mesh of numbers, whose places have names."""
    return as_numbers(result, what, lambda place, shape: scope.describe(place, shape, noise))


def rewards(
    scope: Scope,
    result: ArrayLike,
    what: str,
    noise: NamedValues | None = None,
    probs: NDArray | None = None,
) -> NDArray[np.float64]:
    """Checked open-mesh rewards of rank 1 + d + 1."""
    last = 1 if noise is None else len(noise[1])
    array = scope.ranked(_numbers(scope, result, what, noise), what, last)
    wrong = ~np.isfinite(array)
    bad = read_at(scope, wrong, probs)
    refuse(
        f"{what} must be finite",
        bad,
        lambda p: scope.describe(p, bad.shape, noise),
        lambda p: f"pays {array[p]}",
        "rewards",
    )
    unread = wrong
    if scope.allowed is not None:  # a penalty that cannot occur would coarsen every error bound
        unread = wrong | ~read_at(scope, np.ones(array.shape, dtype=bool))
    return np.where(unread, 0.0, array) if unread.any() else array


def probabilities(scope: Scope, result: ArrayLike, count: int, what: str) -> NDArray[np.float64]:
    """Checked open-mesh probabilities of rank 1 + d + 1, last axis of length ``count``."""
    array = scope.ranked(_numbers(scope, result, what), what, count)
    if array.shape[-1] != count:
        raise ModelError(f"{what} must list {count} values", value=f"has {array.shape[-1]}")
    finite = np.asarray(np.isfinite(array).all(axis=-1, keepdims=True))
    positive = np.asarray((array >= 0).all(axis=-1, keepdims=True))
    one = np.abs(array.sum(axis=-1, keepdims=True) - 1) <= SUM_TOLERANCE

    def check(rule: str, holds: NDArray, value: Callable[[NDArray], str]) -> None:
        refuse(
            f"{what} must {rule}",
            read_at(scope, ~holds),
            lambda p: scope.describe(p, holds.shape),
            lambda p: value(array[p[:-1]]),
            "rows",
        )

    check("be finite", finite, lambda row: f"holds {row[~np.isfinite(row)][0]}")
    check("not be negative", positive, lambda row: f"holds {shown(row.min())}")
    check("sum to 1", one, lambda row: f"sums to {shown(row.sum())}")
    fine = finite & positive & one
    return array if fine.all() else np.where(fine, array, np.eye(1, count))


def positions(
    scope: Scope,
    axis: int,
    values: ArrayLike,
    what: str,
    noise: NamedValues | None = None,
    probs: NDArray | None = None,
) -> NDArray[np.int32]:
    """Index along ``axis`` of each value of an open mesh, which must be one of the axis."""
    name = scope.grid.axes[axis]
    last = 1 if noise is None else len(noise[1])
    said = f"{what}: {name}"
    unmasked(values, said, lambda place, shape: scope.describe(place, shape, noise))
    array = scope.ranked(np.asarray(values), said, last)
    index = scope.grid.locate(axis, array)
    off = index < 0
    bad = read_at(scope, off, probs)
    refuse(
        f"{what} leaves the grid: {name} must stay on its axis",
        bad,
        lambda p: scope.describe(p, bad.shape, noise),
        lambda p: f"goes to {name}={shown(array[p])}",
        "cases",
    )
    if off.any():
        lengths = [1] * scope.rank
        lengths[axis + 1] = -1
        index = np.where(off, np.arange(scope.grid.shape[axis]).reshape(lengths), index)
    return index.astype(np.int32)
