"""Checks of the results of a model's functions and of its arrays.

A function may return anything for infeasible pairs (state, action) and for outcomes of probability
0. Invalid numbers there are replaced, those elsewhere are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, TessellaError, exceeds_float, format_value
from tessella.grid import StateGrid, require_unmasked
from tessella.mdp.state_action_space import NoiseTable, StateActionSpace

ROW_SUM_TOLERANCE = 1e-9  # a row may miss 1 by this much; error bounds account for it


def as_numbers(
    result: Any,
    subject: str,
    describe: Callable[[tuple, tuple], str] | None = None,
    *,
    error: type[TessellaError] = ModelError,
) -> NDArray[np.float64]:
    """``result`` as float64; ``describe`` names a place, given its index and the array's shape."""
    result = result.toarray() if hasattr(result, "toarray") else result  # a sparse matrix
    require_unmasked(result, subject, describe, error=error)
    try:
        array = np.asarray(result)
    except ValueError:
        raise error(f"{subject} must be a rectangular array of numbers") from None
    if array.dtype.kind in "iufb":
        return array.astype(float)
    objects = np.asarray(result, dtype=object)
    named = describe or (lambda place, _: f"entry {place}" if place else "the value")

    def refuse_where(
        requirement: str, wrong: Callable[[Any], bool], show: Callable[[Any], str]
    ) -> None:
        bad = np.asarray(np.frompyfunc(wrong, 1, 1)(objects), dtype=bool)
        raise_for_first(
            requirement,
            bad,
            lambda place: named(place, bad.shape),
            lambda place: f"is {show(np.asarray(objects[place]).item())}",
            "entries",
            error=error,
        )

    refuse_where(f"{subject} must be numbers", lambda x: not isinstance(x, Real), repr)
    refuse_where(f"{subject} must be numbers that float64 can hold", exceeds_float, format_value)
    return objects.astype(float)


def check_observation_noise(
    noise: Any, grid: StateGrid, error: type[TessellaError]
) -> NDArray[np.float64]:
    """Standard deviations of observed coordinates, () or (d,)."""
    requirement = (
        f"noise must be one number, or one for each of {grid.ndim} axes, finite and not negative"
    )
    try:
        sigma = np.asarray(require_unmasked(noise, "noise", error=error))
    except ValueError:
        raise error(requirement, value=f"got {noise!r}") from None
    spread = sigma.dtype.kind in "iuf" and bool((np.isfinite(sigma) & (sigma >= 0)).all())
    if not spread or sigma.shape not in ((), (grid.ndim,)):
        raise error(requirement, value=f"got {noise!r}")
    return sigma.astype(float)


def read_shape(
    values: Any, subject: str, *, error: type[TessellaError] = ModelError
) -> tuple[int, ...]:
    """The shape of an array or of nested lists."""
    if not hasattr(values, "shape"):
        require_unmasked(values, subject, error=error)
    try:
        return np.shape(values)
    except ValueError:
        raise error(f"{subject} must be a rectangular array of numbers") from None


def raise_for_first(
    requirement: str,
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
            requirement,
            location=describe(place),
            value=value(place),
            count=int(bad.sum()),
            total=bad.size,
            noun=noun,
        )


def drop_unused_entries(
    space: StateActionSpace, bad: NDArray[np.bool_], noise: NoiseTable | None = None
) -> NDArray[np.bool_]:
    """``bad`` without infeasible pairs and outcomes of probability 0; all are open meshes."""
    if not bad.any():
        return bad
    read = np.ones((1,) * space.rank, dtype=bool) if space.feasible is None else space.feasible
    read = read if noise is None else read & (noise.probs > 0)
    shared = tuple(axis for axis, length in enumerate(bad.shape) if length == 1)
    return bad & read.any(axis=shared, keepdims=True)


def as_number_mesh(
    space: StateActionSpace, result: Any, subject: str, noise: NoiseTable | None = None
) -> NDArray[np.float64]:
    """``result`` as an open mesh of numbers; messages name its places."""

    def describe(place: tuple, shape: tuple) -> str:
        return space.describe(place, shape, noise)

    last = 1 if noise is None else len(noise)
    return space.as_mesh(as_numbers(result, subject, describe), subject, last)


def check_rewards(
    space: StateActionSpace, result: ArrayLike, subject: str, noise: NoiseTable | None = None
) -> NDArray[np.float64]:
    """Checked open-mesh rewards of rank 1 + d + 1."""
    array = as_number_mesh(space, result, subject, noise)
    wrong = ~np.isfinite(array)
    bad = drop_unused_entries(space, wrong, noise)
    raise_for_first(
        f"{subject} must be finite",
        bad,
        lambda p: space.describe(p, bad.shape, noise),
        lambda p: f"pays {array[p]}",
        "rewards",
    )
    unread = wrong
    if space.feasible is not None:  # a penalty that cannot occur would coarsen every error bound
        unread = wrong | ~drop_unused_entries(space, np.ones(array.shape, dtype=bool))
    return np.where(unread, 0.0, array) if unread.any() else array


def check_probabilities(
    space: StateActionSpace, result: ArrayLike, count: int, subject: str
) -> NDArray[np.float64]:
    """Checked open-mesh probabilities of rank 1 + d + 1, last axis of length ``count``."""
    numbers = as_numbers(result, subject, space.describe)
    array = space.as_mesh(numbers, subject, count)
    if array.shape[-1] != count:
        raise ModelError(f"{subject} must list {count} values", value=f"has {array.shape[-1]}")
    finite = np.asarray(np.isfinite(array).all(axis=-1, keepdims=True))
    positive = np.asarray((array >= 0).all(axis=-1, keepdims=True))
    one = np.abs(array.sum(axis=-1, keepdims=True) - 1) <= ROW_SUM_TOLERANCE

    def check(requirement: str, holds: NDArray, value: Callable[[NDArray], str]) -> None:
        raise_for_first(
            f"{subject} must {requirement}",
            drop_unused_entries(space, ~holds),
            lambda p: space.describe(p, holds.shape),
            lambda p: value(array[p[:-1]]),
            "rows",
        )

    check("be finite", finite, lambda row: f"holds {row[~np.isfinite(row)][0]}")
    check("not be negative", positive, lambda row: f"holds {format_value(row.min())}")
    check("sum to 1", one, lambda row: f"sums to {format_value(row.sum())}")
    fine = finite & positive & one
    return array if fine.all() else np.where(fine, array, np.eye(1, count))


def locate_on_axis(
    space: StateActionSpace,
    axis: int,
    values: ArrayLike,
    subject: str,
    noise: NoiseTable | None = None,
) -> NDArray[np.int32]:
    """Index along ``axis`` of each value of an open mesh, which must be one of the axis."""
    name = space.grid.axes[axis]
    last = 1 if noise is None else len(noise)
    moved = f"{subject}: {name}"
    require_unmasked(values, moved, lambda place, shape: space.describe(place, shape, noise))
    array = space.as_mesh(np.asarray(values), moved, last)
    index = space.grid.locate(axis, array)
    off = index < 0
    bad = drop_unused_entries(space, off, noise)
    raise_for_first(
        f"{subject} leaves the grid: {name} must stay on its axis",
        bad,
        lambda p: space.describe(p, bad.shape, noise),
        lambda p: f"goes to {name}={format_value(array[p])}",
        "cases",
    )
    if off.any():
        lengths = [1] * space.rank
        lengths[axis + 1] = -1
        index = np.where(off, np.arange(space.grid.shape[axis]).reshape(lengths), index)
    return index.astype(np.int32)
