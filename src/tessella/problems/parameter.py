"""Parameters of a problem: a name, a default, what values it may take, and a line that explains it.

A value is checked once, where a problem is built, and becomes plain: an int, a float, a string or a
list of numbers, as JSON holds them. Forms, sliders and command lines read the same fields.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from operator import index
from typing import Any, ClassVar

from tessella.errors import ArgumentError, format_value

# Ranges that the problems of the package share. Where nothing in a problem ends a range, it ends
# far beyond use: a form can draw a slider from end to end, and a slip of the keyboard is refused.
SIZE = {"low": 0, "high": 1_000_000}  # of an axis, or of a random quantity
MEAN = {"low": 0.0, "high": 1000.0}  # of demand or arrivals in a period
SLOPE = {"low": -1000.0, "high": 1000.0}  # what adds to such a mean
PRICE = {"low": 0.0, "high": 1e6}  # of a unit or of an event
CHANCE = {"low": 0.0, "high": 1.0}
DISCOUNT = {"low": 0.0, "below": 1.0}
RATE = {"low": 0.0, "high": 1000.0}  # of events, per unit of time


@dataclass(frozen=True)
class Parameter(ABC):
    """What every parameter has.

    Attributes:
        name: the keyword that ``build`` takes.
        default: the value where none is given.
        about: one line of explanation.
    """

    name: str
    default: Any
    about: str = ""
    kind: ClassVar[str] = ""

    @property
    @abstractmethod
    def range(self) -> str:
        """The values that it may take, in words: ``a number from 0 to 1``."""

    @abstractmethod
    def plain(self, value: Any) -> Any:
        """The value as JSON holds it; TypeError or ValueError when it is none of the range."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value that a person typed; not checked yet."""

    def check(self, value: Any, owner: str) -> Any:
        """``plain(value)``, or an error that names parameter, range, problem and value."""
        try:
            return self.plain(value)
        except (TypeError, ValueError, OverflowError):
            requirement = f"{self.name} must be {self.range}"
            raise ArgumentError(
                requirement, location=owner, value=f"got {_format_brief(value)}"
            ) from None

    def extremes(self) -> list[Any]:
        """Values at the ends of the range that any model of the problem can be built with."""
        return []


@dataclass(frozen=True)
class _Bounded(Parameter):
    """Of numbers: ``low`` and ``high`` may be taken, ``above`` and ``below`` may not."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def bounds(self) -> str:
        """``from 0 to 1``, ``above 0, to 1``; empty where there are none."""
        ends = {"from": self.low, "above": self.above, "to": self.high, "below": self.below}
        texts = [f"{word} {format_value(end)}" for word, end in ends.items() if end is not None]
        if [word for word, end in ends.items() if end is not None] == ["from"]:
            return f"{texts[0]} on"
        return (" " if None not in (self.low, self.high) else ", ").join(texts)

    def contains(self, number: float) -> bool:
        return (
            (self.low is None or number >= self.low)
            and (self.high is None or number <= self.high)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def _require_inside(self, number: Any) -> Any:
        if not self.contains(number):
            raise ValueError(number)
        return number


@dataclass(frozen=True)
class Integer(_Bounded):
    """A whole number."""

    kind = "integer"

    @property
    def range(self) -> str:
        return f"a whole number {self.bounds}".rstrip()

    def plain(self, value: Any) -> int:
        return self._require_inside(_require_integer(value))

    def parse(self, text: str) -> int:
        return int(text)

    def extremes(self) -> list[int]:
        return [] if self.low is None else [int(self.low)]


@dataclass(frozen=True)
class Number(_Bounded):
    """A finite number."""

    kind = "number"

    @property
    def range(self) -> str:
        return f"a number {self.bounds}".rstrip()

    def plain(self, value: Any) -> float:
        return self._require_inside(_require_finite(value))

    def parse(self, text: str) -> float:
        return float(text)

    def extremes(self) -> list[float]:
        return [float(end) for end in (self.low, self.high) if end is not None]


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a few names."""

    options: tuple[str, ...] = ()
    kind = "choice"

    @property
    def range(self) -> str:
        return f"one of {', '.join(self.options)}"

    def plain(self, value: Any) -> str:
        if value not in self.options:
            raise ValueError(value)
        return str(value)

    def parse(self, text: str) -> str:
        return text

    def extremes(self) -> list[str]:
        return list(self.options)


@dataclass(frozen=True)
class Integers(_Bounded):
    """A list of whole numbers, at least one, each within the bounds."""

    kind = "integers"

    @property
    def range(self) -> str:
        return f"a list of whole numbers, each {self.bounds}".removesuffix(", each ")

    def plain(self, value: Any) -> list[int]:
        return _to_list(self._require_inside(_require_integer(one)) for one in _iterate(value))

    def parse(self, text: str) -> list[int]:
        return [int(part) for part in text.split(",")]


@dataclass(frozen=True)
class Numbers(_Bounded):
    """A list of finite numbers, at least one, each within the bounds."""

    kind = "numbers"

    @property
    def range(self) -> str:
        return f"a list of numbers, each {self.bounds}".removesuffix(", each ")

    def plain(self, value: Any) -> list[float]:
        return _to_list(self._require_inside(_require_finite(one)) for one in _iterate(value))

    def parse(self, text: str) -> list[float]:
        return [float(part) for part in text.split(",")]


def _require_integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(value)
    return index(value)


def _require_finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise TypeError(value)
    return float(value)


def _iterate(value: Any) -> Iterable[Any]:
    if isinstance(value, str):
        raise TypeError(value)
    return iter(value)


def _to_list(values: Iterable[Any]) -> list[Any]:
    items = list(values)
    if not items:
        raise ValueError("empty")
    return items


def _format_brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
