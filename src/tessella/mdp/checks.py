"""Checks of the results of a model's functions and of its arrays.

A function may return anything for infeasible pairs (state, action) and for outcomes of probability
0. Invalid numbers there are replaced, those elsewhere are rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, TessellaError, exceeds_float, format_value, raise_for_first
from tessella.grid import StateGrid, require_unmasked
from tessella.mdp.state_action_space import (
    NoiseTable,
    NoiseVariable,
    StateActionSpace,
    call_by_name,
)

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

    def location(place: Any) -> str:
        index = place if isinstance(place, tuple) else (place,)
        if describe is not None:
            return describe(index, objects.shape)
        return f"entry {index}" if index else "the value"

    def require(requirement: str, wrong: Callable[[Any], bool], show: Callable[[Any], str]) -> None:
        bad = np.asarray(np.frompyfunc(wrong, 1, 1)(objects), dtype=bool)

        def value(place: Any) -> str:
            return f"is {show(np.asarray(objects[place]).item())}"

        raise_for_first(
            f"{subject} must be {requirement}", bad, location, value, "entries", error=error
        )

    require("numbers", lambda x: not isinstance(x, Real), repr)
    require("numbers that float64 can hold", exceeds_float, format_value)
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
    is_valid = sigma.dtype.kind in "iuf" and bool((np.isfinite(sigma) & (sigma >= 0)).all())
    if not is_valid or sigma.shape not in ((), (grid.ndim,)):
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


@dataclass(frozen=True, eq=False)
class FunctionChecks:
    """Calls the functions of one part of a model, such as a stage, and checks their results.

    Results are open meshes of rank 1 + d + 1: see ``state_action_space``.

    Attributes:
        space: states and actions, and which pairs are feasible.
        subject: the part's name in messages: ``the shift of stock by demand``.
        noise: the noise of the part.
    """

    space: StateActionSpace
    subject: str
    noise: NoiseTable | None = None

    @property
    def variable(self) -> NoiseVariable | None:
        return None if self.noise is None else self.noise.variable

    @property
    def n_outcomes(self) -> int:
        """How many values the noise has."""
        return 1 if self.noise is None else len(self.noise)

    @property
    def probs(self) -> NDArray[np.float64]:
        """(A | 1, *broadcast, K) probabilities of the noise."""
        return np.ones((1,) * self.space.rank) if self.noise is None else self.noise.probs

    def call(self, function: Callable) -> Any:
        """The result of a function of coordinates, action and noise."""
        return call_by_name(function, self.space.mesh(self.variable), self.subject)

    def describe(self, place: tuple, shape: tuple) -> str:
        return self.space.describe(place, shape, self.noise)

    def raise_for_first(
        self, requirement: str, bad: NDArray[np.bool_], value: Callable, noun: str = "cases"
    ) -> None:
        """Raise for the first ``bad`` entry that can occur; ``value`` describes it."""
        bad = self.drop_unused(bad)
        raise_for_first(
            requirement, bad, lambda place: self.describe(place, bad.shape), value, noun
        )

    def drop_unused(self, bad: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """``bad`` without infeasible pairs and outcomes of probability 0."""
        if not bad.any():
            return bad
        feasible = self.space.feasible
        can_occur = np.ones((1,) * self.space.rank, dtype=bool) if feasible is None else feasible
        can_occur = can_occur if self.noise is None else can_occur & (self.noise.probs > 0)
        shared_axes = tuple(axis for axis, length in enumerate(bad.shape) if length == 1)
        return bad & can_occur.any(axis=shared_axes, keepdims=True)

    def read_numbers(self, result: Any, subject: str) -> NDArray[np.float64]:
        """``result`` as a mesh of numbers."""
        numbers = as_numbers(result, subject, self.describe)
        return self.space.as_mesh(numbers, subject, self.n_outcomes)

    def read_rewards(self, result: Any, subject: str) -> NDArray[np.float64]:
        """``result`` as a mesh of finite rewards."""
        array = self.read_numbers(result, subject)
        unused = ~np.isfinite(array)
        self.raise_for_first(
            f"{subject} must be finite", unused, lambda p: f"pays {array[p]}", "rewards"
        )
        if self.space.feasible is not None:
            # A penalty that cannot occur would coarsen every error bound.
            without_noise = FunctionChecks(self.space, subject)
            unused = unused | ~without_noise.drop_unused(np.ones(array.shape, dtype=bool))
        return np.where(unused, 0.0, array) if unused.any() else array

    def locate(self, axis: int, values: ArrayLike) -> NDArray[np.int32]:
        """Index along ``axis`` of each value of a mesh, which must be one of the axis."""
        name = self.space.grid.axes[axis]
        subject = f"{self.subject}: {name}"
        require_unmasked(values, subject, self.describe)
        array = self.space.as_mesh(np.asarray(values), subject, self.n_outcomes)
        index = self.space.grid.locate(axis, array)
        is_outside = index < 0
        self.raise_for_first(
            f"{self.subject} leaves the grid: {name} must stay on its axis",
            is_outside,
            lambda p: f"goes to {name}={format_value(array[p])}",
        )
        if is_outside.any():
            current = self.space.along(axis, np.arange(self.space.grid.shape[axis]))
            index = np.where(is_outside, current, index)
        return index.astype(np.int32)


def check_probabilities(
    space: StateActionSpace, result: ArrayLike, count: int, subject: str
) -> NDArray[np.float64]:
    """Checked open-mesh probabilities of rank 1 + d + 1, last axis of length ``count``."""
    numbers = as_numbers(result, subject, space.describe)
    array = space.as_mesh(numbers, subject, count)
    if array.shape[-1] != count:
        raise ModelError(f"{subject} must list {count} values", value=f"has {array.shape[-1]}")
    is_finite = np.asarray(np.isfinite(array).all(axis=-1, keepdims=True))
    is_positive = np.asarray((array >= 0).all(axis=-1, keepdims=True))
    sums_to_1 = np.abs(array.sum(axis=-1, keepdims=True) - 1) <= ROW_SUM_TOLERANCE
    checks = FunctionChecks(space, subject)

    def require(holds: NDArray, requirement: str, value: Callable[[NDArray], str]) -> None:
        checks.raise_for_first(
            f"{subject} must {requirement}", ~holds, lambda p: value(array[p[:-1]]), "rows"
        )

    require(is_finite, "be finite", lambda row: f"holds {row[~np.isfinite(row)][0]}")
    require(is_positive, "not be negative", lambda row: f"holds {format_value(row.min())}")
    require(sums_to_1, "sum to 1", lambda row: f"sums to {format_value(row.sum())}")
    is_valid = is_finite & is_positive & sums_to_1
    return array if is_valid.all() else np.where(is_valid, array, np.eye(1, count))
