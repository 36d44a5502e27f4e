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
from tessella.grid import StateGrid, unmasked
from tessella.mdp.actions import records
from tessella.mdp.scope import call


@dataclass(frozen=True, eq=False)
class Foreign(ABC):
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
        """What else is said of an answer that is none."""
        return ""

    @property
    def decides(self) -> Any:
        """The part of it that decides."""
        return self.source

    @cached_property
    def size(self) -> int:
        """In numbers of eight bytes; of what no file can hold, the entries of its table."""
        try:
            return stored(self.decides)
        except Exception:  # whatever an object may do when it is pickled
            return self.grid.size

    @abstractmethod
    def ask(self, points: NDArray[np.float64]) -> Any: ...

    def __call__(self, points: NDArray[np.float64]) -> NDArray:
        """(n,) answers."""
        answer = self.ask(points)
        if isinstance(answer, Mapping) and self.parts:
            answer = np.broadcast_to(combined(self.parts, answer), (len(points),))
        said = np.asarray(unmasked(answer, "a policy's answers", error=PolicyError))
        if said.dtype.names and self.parts:  # records, perhaps in another order
            said = combined(self.parts, {field: said[field] for field in said.dtype.names})
        if said.shape != (len(points),):
            rule = f"{self.kind} must name one action for each of {len(points):,} points"
            raise PolicyError(rule, place=self.name, value=f"gives shape {said.shape}{self.hint}")
        if said.dtype.kind not in "biufUV":
            rule = f"{self.kind} must answer with numbers or text"
            raise PolicyError(rule, place=self.name, value=f"gives {said.dtype}")
        return said


class Estimator(Foreign):
    """scikit-learn's ``predict(points)``."""

    def ask(self, points: NDArray[np.float64]) -> Any:
        return asked(self.source.predict, points, self.name)


class Agent(Foreign):
    """Stable-Baselines3's ``predict(observations, deterministic=True)``."""

    kind = "an agent"

    @property
    def decides(self) -> Any:
        return getattr(self.source, "policy", self.source)

    def ask(self, points: NDArray[np.float64]) -> Any:
        answer = self.source.predict(self._observed(points), deterministic=True)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            rule = "an agent's predict must return actions and a state"
            raise PolicyError(rule, place=self.name, value=f"returns {type(answer).__name__}")
        actions = np.asarray(answer[0])
        return actions.reshape(len(points)) if actions.size == len(points) else actions

    def _observed(self, points: NDArray[np.float64]) -> NDArray:
        """What its space asks for: flat indices of states, or coordinates."""
        axes = self.grid.ndim
        shape = getattr(getattr(self.source, "observation_space", None), "shape", (axes,))
        if shape == ():
            return self.grid.nearest(points)
        if shape == (axes,):
            return points.astype(np.float32)
        rule = f"an agent must observe flat state indices or {axes} coordinates"
        raise PolicyError(rule, place=self.name, value=f"observes shape {shape}")


class Function(Foreign):
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
            for p in parameters(self.source).values()
            if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        if len(needed) != 1 or needed[0] in self.grid.axes:
            return ""
        return (
            f"; its argument {needed[0]!r} names no axis, so it was given points of shape "
            f"(n, {self.grid.ndim}); the axes are {', '.join(self.grid.axes)}"
        )

    def ask(self, points: NDArray[np.float64]) -> Any:
        hint = self.hint
        if hint:
            answer = asked(self.source, points, "the policy function", hint)
        else:
            values = self.grid.values_at(points)
            answer = call(self.source, values, "the policy function", error=PolicyError)
        if isinstance(answer, Mapping):
            return answer
        return answer if np.size(answer) != 1 else np.broadcast_to(answer, (len(points),))


def combined(names: tuple[str, ...], parts: Mapping) -> NDArray:
    """Arrays by component as records, in the order of ``names``."""
    if set(parts) != set(names):
        rule = f"a policy must give each of {', '.join(names)}"
        raise PolicyError(rule, value=f"got {', '.join(map(str, parts)) or 'none'}")
    given = {name: np.asarray(unmasked(parts[name], name, error=PolicyError)) for name in names}
    try:
        return records(given)
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
        rule = "the components of a policy must broadcast to one another"
        raise PolicyError(rule, value=f"got shapes {shapes}") from None


def asked(function: Callable, points: NDArray, what: str, hint: str = "") -> Any:
    try:
        return function(points)
    except TessellaError:
        raise
    except Exception as error:
        raise PolicyError(
            f"{what} must answer for arrays of coordinates, many states at once",
            value=f"it failed with {type(error).__name__}: {error}{hint}",
        ) from error


def parameters(function: Callable) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {"points": inspect.Parameter("points", inspect.Parameter.POSITIONAL_ONLY)}


def stored(thing: Any) -> int:
    """What a file of ``thing`` takes, in numbers of eight bytes.

    A plain function is its code and the numbers that it holds or names, wherever its file lies.
    """
    if isinstance(thing, FunctionType):
        return _of_function(thing, {thing})
    return _numbers(len(pickle.dumps(thing)))


def _numbers(count: int) -> int:
    return -(-count // 8)


def _of_function(function: FunctionType, seen: set[FunctionType]) -> int:
    outside = inspect.getclosurevars(function)
    named = {**outside.nonlocals, **outside.globals}
    own = [function.__code__, function.__defaults__, function.__kwdefaults__]
    return sum(_held(part, function.__module__, seen) for part in (*own, *named.values()))


def _held(part: Any, module: str, seen: set[FunctionType]) -> int:
    """Numbers in a part of a function; what it uses of other modules is no part of it."""
    if isinstance(part, CodeType):
        inner = sum(_held(constant, module, seen) for constant in part.co_consts)
        return _numbers(len(part.co_code)) + inner
    if isinstance(part, FunctionType):
        if part in seen or part.__module__ != module:
            return 0
        seen.add(part)
        return _of_function(part, seen)
    if part is None or isinstance(part, str) or hasattr(part, "__name__"):
        return 0
    if isinstance(part, Number | np.ndarray):
        return int(np.size(part))  # type: ignore[arg-type]
    if isinstance(part, Mapping):
        return sum(_held(value, module, seen) for value in part.values())
    if isinstance(part, Iterable) and not hasattr(part, "__dict__"):
        return sum(_held(value, module, seen) for value in part)
    return stored(part)
