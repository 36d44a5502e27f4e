"""The state-action space of a model, and calls of its functions by the names of their arguments.

Arrays are open meshes of rank ``1 + d + 1``: actions first, then the d axes of the grid (of listed
states one axis instead), then the noise. A function that names only some of them returns an array
that has length 1 elsewhere, so what depends on little stays small.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, TessellaError, format_value, raise_for_first
from tessella.grid import StateGrid, require_unmasked, require_unreserved
from tessella.mdp.actions import (
    Actions,
    actions_to_array,
    component_names,
    describe_action,
    normalise_actions,
)

Feasible = ArrayLike | Callable[..., ArrayLike] | None  # a mask, or a function that returns one
TIME = "time"  # the axis of a finite horizon, and what functions call it

FUNCTION_MAX_ENTRIES = 200_000_000  # numbers computed by the functions of a problem or of a file


class NoiseVariable(NamedTuple):
    """A finite random variable without its probabilities."""

    name: str
    values: NDArray  # (K,)


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """A noise as checked numbers."""

    variable: NoiseVariable
    probs: NDArray[np.float64]  # open mesh (A | 1, *broadcast, K)

    def __len__(self) -> int:
        """K, how many values it has."""
        return len(self.variable.values)


@dataclass
class EntryBudget:
    """How many numbers may still be computed for a model, each of which counts multiple times."""

    remaining: int
    multiplier: int = 1


_budget: ContextVar[EntryBudget | None] = ContextVar("budget", default=None)


@contextmanager
def limit_entries() -> Iterator[None]:
    """Inside this, a model is rejected if its functions compute too many numbers."""
    token = _budget.set(EntryBudget(FUNCTION_MAX_ENTRIES))
    try:
        yield
    finally:
        _budget.reset(token)


@contextmanager
def multiply_entry_counts(multiplier: int) -> Iterator[None]:
    """Inside this, every number counts ``multiplier`` times, for periods that are built alike."""
    budget = _budget.get() or EntryBudget(0)
    previous = budget.multiplier
    budget.multiplier = multiplier
    try:
        yield
    finally:
        budget.multiplier = previous


def charge_entries(entries: int, subject: str) -> None:
    """Charge ``entries`` numbers to the budget; an error for a model that becomes too large."""
    budget = _budget.get()
    if budget is None:
        return
    budget.remaining -= entries * budget.multiplier
    if budget.remaining < 0:
        requirement = f"at most {FUNCTION_MAX_ENTRIES:,} numbers may be computed for this model"
        needed = FUNCTION_MAX_ENTRIES - budget.remaining
        raise ModelError(
            requirement, location=subject, value=f"makes it {needed:,}; choose smaller settings"
        )


@dataclass(frozen=True, eq=False)
class StateActionSpace:
    """The states and actions of a model and, while it is built, the feasible pairs."""

    grid: StateGrid
    actions: tuple
    action_name: str = "action"
    feasible: NDArray[np.bool_] | None = None  # (A, *grid, 1); None where every pair is feasible
    time: int | None = None  # of the period that is built, with a finite horizon

    def fingerprint_key(self) -> tuple:
        """What enters the fingerprint of a model; the time of a period is in its numbers."""
        return self.grid, self.actions, self.action_name, self.feasible

    @property
    def action_values(self) -> dict[str, NDArray]:
        """(A,) actions as numbers, text or records, by their name, and components by theirs."""
        values = actions_to_array(self.actions)
        return {self.action_name: values} | {n: values[n] for n in component_names(self.actions)}

    @property
    def rank(self) -> int:
        return len(self.grid.shape) + 2

    def axis(self, name: str) -> int:
        """Position of the axis that a part of the model names."""
        return self.grid.axis(name, error=ModelError)

    def along(self, axis: int, values: NDArray) -> NDArray:
        """(n,) values along an axis as an open mesh; actions are axis -1, the noise is axis d.

        Of listed states, the value of each of them.
        """
        if self.grid.is_listed and 0 <= axis < self.grid.ndim:
            values = values[self.grid.positions_of(np.arange(self.grid.size))[axis]]
            axis = 0
        d = len(self.grid.shape)
        axis = min(axis, d)
        return values.reshape((1,) * (axis + 1) + (-1,) + (1,) * (d - axis))

    def mesh(self, noise: NoiseVariable | None = None, extra_axes: int = 0) -> dict[str, NDArray]:
        """Name to open-mesh array of rank 1 + d + 1, followed by ``extra_axes`` of length one."""
        d = self.grid.ndim
        names: dict[str, NDArray] = {
            n: self.along(i, self.grid.values[i]) for i, n in enumerate(self.grid.axes)
        }
        names |= {n: self.along(-1, values) for n, values in self.action_values.items()}
        if noise is not None:
            if noise.name in names:
                raise ModelError(f"a noise cannot be called {noise.name!r}: that name is taken")
            names[noise.name] = self.along(d, noise.values)
        if extra_axes:
            names = {n: a.reshape(a.shape + (1,) * extra_axes) for n, a in names.items()}
        if self.time is not None:
            names[TIME] = np.full((1,) * (self.rank + extra_axes), self.time)
        return names

    def with_feasible(
        self, mask: NDArray[np.bool_] | None, shape: tuple[int, ...] | None = None
    ) -> StateActionSpace:
        """The same with a mask (S, A) over the first axes, of this ``shape``, by default all."""
        if mask is None:
            return self
        lengths = (len(self.actions), *(self.grid.shape if shape is None else shape))
        return replace(self, feasible=mask.T.reshape(lengths + (1,) * (self.rank - len(lengths))))

    def as_mesh(self, array: NDArray, subject: str, last: int = 1) -> NDArray:
        """``array`` as an open mesh whose noise axis has length 1 or ``last``."""
        full = (len(self.actions), *self.grid.shape, last)
        shape = (1,) * (self.rank - array.ndim) + array.shape
        if array.ndim > self.rank or any(
            length not in (1, max_length) for length, max_length in zip(shape, full, strict=True)
        ):
            axes = ["state"] if self.grid.is_listed else self.grid.axes
            names = [self.action_name, *axes, "noise"]
            lengths = ", ".join(
                f"{n} {max_length}" for n, max_length in zip(names, full, strict=True)
            )
            raise ModelError(
                f"{subject} must broadcast over {lengths}", value=f"has shape {array.shape}"
            )
        return array.reshape(shape)

    def describe_pair(self, state: int, action: int) -> str:
        """``stock=3, regime=0, order=8``."""
        action_text = describe_action(self.action_name, self.actions[action])
        return f"{self.grid.describe(state)}, {action_text}"

    def describe(
        self, index: Sequence[int], lengths: Sequence[int], noise: NoiseTable | None = None
    ) -> str:
        """The coordinates at ``index`` of an open mesh, along the axes where it has several.

        A mesh of lower rank lacks its first axes, as in broadcasting.
        """
        n_missing = max(self.rank - len(lengths), 0)
        index = [*[0] * n_missing, *index]
        lengths = [*[1] * n_missing, *lengths]
        names = [*self.grid.axes, self.action_name]
        values = [*self.grid.values, self.actions]
        order = [*range(1, self.grid.ndim + 1), 0]
        if self.grid.is_listed:
            values[:-1] = self.grid.columns.values()
            order[:-1] = [1] * self.grid.ndim
        parts = [
            describe_action(name, axis_values[index[axis]])
            for name, axis_values, axis in zip(names, values, order, strict=True)
            if (lengths[axis] > 1 or len(axis_values) == 1) and index[axis] < len(axis_values)
        ]
        if noise is not None and lengths[-1] > 1 and index[-1] < len(noise):
            variable = noise.variable
            parts.append(f"{variable.name}={format_value(variable.values[index[-1]])}")
        return ", ".join(parts)


def make_state_action_space(
    grid: StateGrid | Mapping[str, Sequence], actions: Actions, action_name: str
) -> StateActionSpace:
    """The state-action space of a grid and a list of actions, checked."""
    grid = grid if isinstance(grid, StateGrid) else StateGrid(grid)
    normalised = normalise_actions(actions, action_name)
    if action_name in grid.axes:
        raise ModelError(f"the action cannot be called {action_name!r}: an axis has this name")
    require_unreserved(action_name, "the action")
    for name in component_names(normalised):
        if name in (*grid.axes, action_name):
            subject = "an axis" if name in grid.axes else "the action"
            requirement = f"a component of the actions cannot be called {name!r}"
            raise ModelError(f"{requirement}: {subject} has this name")
    return StateActionSpace(grid, normalised, action_name)


def drop_time_axis(space: StateActionSpace) -> StateActionSpace:
    """The state-action space of one period of a horizon."""
    axes = dict(zip(space.grid.axes[1:], space.grid.values[1:], strict=True))
    return make_state_action_space(StateGrid(axes), space.actions, space.action_name)


def call_by_name(
    function: Callable,
    variables: Mapping[str, NDArray],
    subject: str,
    *,
    values_per_point: int = 1,
    error: type[TessellaError] = ModelError,
) -> Any:
    """``function``, called with those of ``variables`` that are its parameters.

    It returns ``values_per_point`` numbers for each point.
    """
    given = _select_arguments(function, variables, subject, error)
    budget = _budget.get()
    if budget is not None:
        max_entries = budget.remaining // max(budget.multiplier, 1)
        charge_entries(_bound_result_size(function, given, values_per_point, max_entries), subject)
    try:
        return function(**given)
    except TessellaError:
        raise
    except Exception as fault:
        raise error(
            f"{subject} failed: {type(fault).__name__}: {fault}; "
            "functions must work elementwise on arrays"
        ) from fault


def call_if_function(
    given: Any,
    variables: Mapping[str, NDArray],
    subject: str = "a reward",
    *,
    values_per_point: int = 1,
) -> Any:
    """``given(variables)`` if it is a function; otherwise ``given`` itself."""
    if not callable(given):
        return given
    return call_by_name(given, variables, subject, values_per_point=values_per_point)


def names_time(part: object) -> bool:
    """Whether ``part`` is a function with a parameter for the time of a period."""
    try:
        parameters = inspect.signature(part).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no function, or none that can be called by name
        return False
    return any(p.name == TIME or p.kind is p.VAR_KEYWORD for p in parameters)


def _select_arguments(
    function: Callable, variables: Mapping[str, NDArray], subject: str, error: type[TessellaError]
) -> dict[str, NDArray]:
    """Those of ``variables`` that are parameters of ``function``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as fault:
        raise error(f"{subject} must be a function of named coordinates; {fault}") from None
    names = [p.name for p in parameters if p.name in variables or p.default is p.empty]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        names = list(variables)
    for name in names:
        if name not in variables:
            allowed = f"the arguments may be {', '.join(variables)}"
            raise error(f"{subject} has an unknown argument {name!r}", value=allowed)
    return {name: variables[name] for name in names}


def _bound_result_size(
    function: Callable, given: dict[str, NDArray], values_per_point: int, max_entries: int
) -> int:
    """How many numbers a function returns, or an upper bound if that is at most ``max_entries``.

    Otherwise it is called on the first two values of every axis: its result has length two along
    the axes on which it depends.
    """
    shapes = [array.shape for array in given.values()]
    full = [max(lengths) for lengths in zip(*shapes, strict=True)]  # perhaps too large for NumPy
    max_size = values_per_point * math.prod(full)
    if max_size <= max_entries:
        return max_size
    first_values = {name: array[(slice(2),) * array.ndim] for name, array in given.items()}
    try:
        parts = _flatten_result(function(**first_values))
    except Exception:  # the function works on whole axes only
        return max_size

    def extrapolate_size(part: Any) -> int:
        lengths = zip(reversed(np.shape(part)), reversed(full), strict=False)
        return math.prod(whole if length == min(whole, 2) else length for length, whole in lengths)

    return sum(map(extrapolate_size, parts))


def _flatten_result(result: Any) -> list[Any]:
    """The arrays in the result of a function: an array, a mapping, or a tuple of these."""
    if isinstance(result, Mapping):
        return list(result.values())
    if isinstance(result, tuple):
        return [part for item in result for part in _flatten_result(item)]
    return [result]


def build_feasible_mask(
    space: StateActionSpace, feasible: ArrayLike | Callable[..., ArrayLike]
) -> NDArray[np.bool_]:
    """(S, A) mask from an array of the grid's shape + actions, or a function of axes and action."""
    full = (*space.grid.shape, len(space.actions))
    charge_entries(math.prod(full), "feasible")
    if callable(feasible):
        given = call_by_name(feasible, space.mesh(), "feasible")
        require_unmasked(given, "feasible", space.describe)
        result = space.as_mesh(np.asarray(given), "feasible")
        result = np.moveaxis(np.broadcast_to(result[..., 0], (full[-1], *full[:-1])), 0, -1)
    else:
        result = np.asarray(require_unmasked(feasible, "feasible"))
    if result.dtype.kind != "b":
        raise ModelError("feasible must be true or false", value=f"got {result.dtype}")
    if result.shape not in (full, (space.grid.size, full[-1])):
        raise ModelError(f"feasible must have shape {full}", value=f"got {result.shape}")
    mask = result.reshape(space.grid.size, full[-1]).copy()
    require_feasible_actions(space.grid, mask)
    mask.setflags(write=False)
    return mask


def require_feasible_actions(grid: StateGrid, mask: NDArray[np.bool_]) -> None:
    """Reject a state with no feasible action."""
    stuck = ~mask.any(axis=1)
    requirement = "every state needs a feasible action"
    raise_for_first(requirement, stuck, grid.describe, lambda _: "has none", "states")
