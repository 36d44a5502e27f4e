"""What others wrote, asked about points: estimators, agents and functions.

    (n, d) points -> the question as it is understood there -> (n,) answers

Answers are action indices, values or names; ``as_policy`` reads them. Such a thing does not say how
much it stores, so its size is that of its file, in numbers of eight bytes.
"""

from __future__ import annotations

import inspect
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from types import CodeType, FunctionType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import PolicyError, TessellaError
from tessella.grid import StateGrid, require_unmasked
from tessella.mdp.actions import as_records
from tessella.mdp.context import call_by_name


@dataclass(frozen=True, eq=False)
class ExternalModel(ABC):
    """Something that answers about points, of a grid."""

    source: Any
    grid: StateGrid
    parts: tuple[str, ...] = ()  # the components of an action, where it has several

    kind: ClassVar[str] = "an estimator"

    @property
    def name(self) -> str:
        return type(self.source).__name__

    @property
    def hint(self) -> str:
        """What else a message says of an answer that is none."""
        return ""

    @property
    def decision_part(self) -> Any:
        """The part of it that decides."""
        return self.source

    @cached_property
    def size(self) -> int:
        """In numbers of eight bytes; of what no file can hold, the entries of its table."""
        try:
            return storage_size(self.decision_part)
        except Exception:  # whatever an object may do when it is pickled
            return self.grid.size

    @abstractmethod
    def predict(self, points: NDArray[np.float64]) -> Any: ...

    def __call__(self, points: NDArray[np.float64]) -> NDArray:
        """(n,) answers."""
        answer = self.predict(points)
        if isinstance(answer, Mapping) and self.parts:
            answer = np.broadcast_to(combine_components(self.parts, answer), (len(points),))
        answers = np.asarray(require_unmasked(answer, "a policy's answers", error=PolicyError))
        if answers.dtype.names and self.parts:  # records, perhaps in another order
            answers = combine_components(
                self.parts, {field: answers[field] for field in answers.dtype.names}
            )
        if answers.shape != (len(points),):
            requirement = f"{self.kind} must name one action for each of {len(points):,} points"
            raise PolicyError(
                requirement, location=self.name, value=f"gives shape {answers.shape}{self.hint}"
            )
        if answers.dtype.kind not in "biufUV":
            requirement = f"{self.kind} must answer with numbers or text"
            raise PolicyError(requirement, location=self.name, value=f"gives {answers.dtype}")
        return answers


class Estimator(ExternalModel):
    """scikit-learn's ``predict(points)``."""

    def predict(self, points: NDArray[np.float64]) -> Any:
        return call_with_points(self.source.predict, points, self.name)


class Agent(ExternalModel):
    """Stable-Baselines3's ``predict(observations, deterministic=True)``."""

    kind = "an agent"

    @property
    def decision_part(self) -> Any:
        return getattr(self.source, "policy", self.source)

    def predict(self, points: NDArray[np.float64]) -> Any:
        answer = self.source.predict(self._observations(points), deterministic=True)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            requirement = "an agent's predict must return actions and a state"
            raise PolicyError(
                requirement, location=self.name, value=f"returns {type(answer).__name__}"
            )
        actions = np.asarray(answer[0])
        return actions.reshape(len(points)) if actions.size == len(points) else actions

    def _observations(self, points: NDArray[np.float64]) -> NDArray:
        """What its space asks for: flat indices of states, or coordinates."""
        axes = self.grid.ndim
        shape = getattr(getattr(self.source, "observation_space", None), "shape", (axes,))
        if shape == ():
            return self.grid.nearest(points)
        if shape == (axes,):
            return points.astype(np.float32)
        requirement = f"an agent must observe flat state indices or {axes} coordinates"
        raise PolicyError(requirement, location=self.name, value=f"observes shape {shape}")


class Function(ExternalModel):
    """A function of coordinates by name if it names axes, else of (n, d) points."""

    kind = "a policy function"

    @property
    def name(self) -> str:
        name = getattr(self.source, "__name__", type(self.source).__name__)
        return "" if name == "<lambda>" else name.replace("_", " ")

    @property
    def hint(self) -> str:
        """Why it was given points; empty for a function of names."""
        needed = [
            p.name
            for p in function_parameters(self.source).values()
            if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        if len(needed) != 1 or needed[0] in self.grid.axes:
            return ""
        return (
            f"; its argument {needed[0]!r} names no axis, so it was given points of shape "
            f"(n, {self.grid.ndim}); the axes are {', '.join(self.grid.axes)}"
        )

    def predict(self, points: NDArray[np.float64]) -> Any:
        hint = self.hint
        if hint:
            answer = call_with_points(self.source, points, "the policy function", hint)
        else:
            values = self.grid.values_at(points)
            answer = call_by_name(self.source, values, "the policy function", error=PolicyError)
        if isinstance(answer, Mapping):
            return answer
        return answer if np.size(answer) != 1 else np.broadcast_to(answer, (len(points),))


def combine_components(names: tuple[str, ...], parts: Mapping) -> NDArray:
    """Arrays by component as records, in the order of ``names``."""
    if set(parts) != set(names):
        requirement = f"a policy must give each of {', '.join(names)}"
        raise PolicyError(requirement, value=f"got {', '.join(map(str, parts)) or 'none'}")
    given = {
        name: np.asarray(require_unmasked(parts[name], name, error=PolicyError)) for name in names
    }
    try:
        return as_records(given)
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
        requirement = "the components of a policy must broadcast to one another"
        raise PolicyError(requirement, value=f"got shapes {shapes}") from None


def call_with_points(function: Callable, points: NDArray, subject: str, hint: str = "") -> Any:
    try:
        return function(points)
    except TessellaError:
        raise
    except Exception as error:
        raise PolicyError(
            f"{subject} must answer for arrays of coordinates, many states at once",
            value=f"it failed with {type(error).__name__}: {error}{hint}",
        ) from error


def function_parameters(function: Callable) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {"points": inspect.Parameter("points", inspect.Parameter.POSITIONAL_ONLY)}


def storage_size(thing: Any) -> int:
    """What a file of ``thing`` takes, in numbers of eight bytes.

    A plain function is its code and the numbers that it holds or names, wherever its file lies.
    """
    if isinstance(thing, FunctionType):
        return _function_size(thing, {thing})
    return _eight_byte_numbers(len(pickle.dumps(thing)))


def _eight_byte_numbers(count: int) -> int:
    return -(-count // 8)


def _function_size(function: FunctionType, seen: set[FunctionType]) -> int:
    outside = inspect.getclosurevars(function)
    named = {**outside.nonlocals, **outside.globals}
    own = [function.__code__, function.__defaults__, function.__kwdefaults__]
    return sum(_part_size(part, function.__module__, seen) for part in (*own, *named.values()))


def _part_size(part: Any, module: str, seen: set[FunctionType]) -> int:
    """Numbers in a part of a function; what it uses of other modules is no part of it."""
    if isinstance(part, CodeType):
        inner = sum(_part_size(constant, module, seen) for constant in part.co_consts)
        return _eight_byte_numbers(len(part.co_code)) + inner
    if isinstance(part, FunctionType):
        if part in seen or part.__module__ != module:
            return 0
        seen.add(part)
        return _function_size(part, seen)
    if part is None or isinstance(part, str) or hasattr(part, "__name__"):
        return 0
    if isinstance(part, Number | np.ndarray):
        return int(np.size(part))  # type: ignore[arg-type]
    if isinstance(part, Mapping):
        return sum(_part_size(value, module, seen) for value in part.values())
    if isinstance(part, Iterable) and not hasattr(part, "__dict__"):
        return sum(_part_size(value, module, seen) for value in part)
    return storage_size(part)
