"""A problem is a record: its name, its parameters, known theory, and a function that builds it.

    problem.build(**settings) -> MDP

Settings are checked by name, kind and range before anything is built; what is not given has its
default. The noise with which states are observed in a training sample is a setting of the problem
and no part of the model: samples depend on it, the numbers of the model do not.

A parameter has a name, a default, a range and a line that explains it. Its value is checked once,
where the problem is built, and becomes plain: an int, a float, a string or a list of numbers, as
JSON holds them. Forms, sliders and command lines read the same fields. A builder of the package
states each parameter once, as the default of an argument; only a ``Problem`` may call it.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from numbers import Real
from operator import ge, gt, index, le, lt
from typing import Any, ClassVar

from tessella.errors import (
    ArgumentError,
    ModelError,
    TessellaError,
    format_brief,
    format_value,
    require_type,
)
from tessella.grid import limit_states
from tessella.mdp.model import MDP
from tessella.mdp.state_action_space import limit_entries
from tessella.support.text import align_columns

# Ranges that the problems of the package share. A range without a natural end stops far beyond use:
# a form can draw a slider from end to end, and a typing error is rejected.
SIZE = {"low": 0, "high": 1_000_000}  # of an axis, or of a random quantity
MEAN = {"low": 0.0, "high": 1000.0}  # of demand or arrivals in a period
SLOPE = {"low": -1000.0, "high": 1000.0}  # what adds to such a mean
PRICE = {"low": 0.0, "high": 1e6}  # of a unit or of an event
CHANCE = {"low": 0.0, "high": 1.0}
DISCOUNT = {"low": 0.0, "below": 1.0}
RATE = {"low": 0.0, "high": 1000.0}  # of events, per unit of time
OBSERVATION_NOISE = "observation_noise"
DIGITS = "0123456789"
NOISE_MAX_GRID_STEPS = 100.0  # grid steps
PROBLEM_MAX_STATES = 100_000_000_000  # whose values take 800 GB
RESERVED_NAMES = ("name", "edition")
NAME_MIN_SIMILARITY = 0.75  # ratio of difflib, 0 to 1, from which a name is suggested


@dataclass(frozen=True)
class Parameter(ABC):
    """A parameter of any kind."""

    name: str  # the keyword that ``build`` takes
    default: Any  # the value where none is given
    about: str = ""  # one line of explanation
    kind: ClassVar[str] = ""

    @property
    @abstractmethod
    def range(self) -> str:
        """The values that it may take, in words: ``a number from 0 to 1``."""

    @abstractmethod
    def plain(self, value: Any) -> Any:
        """The value as JSON holds it; TypeError or ValueError when it is not in the range."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value that a person typed; not checked yet."""

    def check(self, value: Any, owner: str) -> Any:
        """``plain(value)``, or an error that names parameter, range, problem and value."""
        try:
            return self.plain(value)
        except (TypeError, ValueError, OverflowError):
            requirement = f"{self.name} must be {self.range}"
            reason = f"got {format_brief(value)}"
            raise ArgumentError(requirement, location=owner, value=reason) from None

    def extremes(self) -> list[Any]:
        """Values at the ends of the range with which a model can be built."""
        return []


@dataclass(frozen=True)
class _Numeric(Parameter):
    """Numbers in a range, which contains ``low`` and ``high`` but not ``above`` and ``below``."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    number_type: ClassVar[type[int] | type[float]] = float
    is_list: ClassVar[bool] = False

    @property
    def range(self) -> str:
        noun = "whole number" if self.number_type is int else "number"
        if self.is_list:
            return f"a list of {noun}s, each {self._bounds}".removesuffix(", each ")
        return f"a {noun} {self._bounds}".rstrip()

    @property
    def _bounds(self) -> str:
        """``from 0 to 1``, ``above 0 and at most 1``; empty where there are none."""
        if None not in (self.low, self.high):
            return f"from {format_value(self.low)} to {format_value(self.high)}"
        limits = {"at least": self.low, "above": self.above}
        limits |= {"at most": self.high, "below": self.below}
        texts = [f"{word} {format_value(end)}" for word, end in limits.items() if end is not None]
        return " and ".join(texts)

    def plain(self, value: Any) -> Any:
        if not self.is_list:
            return self._check_number(value)
        numbers = list(value)
        if isinstance(value, str) or not numbers:
            raise ValueError(value)
        return [self._check_number(number) for number in numbers]

    def parse(self, text: str) -> Any:
        if not self.is_list:
            return self.number_type(text)
        return [self.number_type(part) for part in text.split(",")]

    def _check_number(self, value: Any) -> Any:
        """A number of the type, within the bounds."""
        if isinstance(value, bool):
            raise TypeError(value)
        if self.number_type is int:
            number = index(value)
        elif isinstance(value, Real) and math.isfinite(value):
            number = float(value)
        else:
            raise TypeError(value)
        ends = ((ge, self.low), (le, self.high), (gt, self.above), (lt, self.below))
        if not all(end is None or holds(number, end) for holds, end in ends):
            raise ValueError(number)
        return number


class Integer(_Numeric):
    """A whole number.

    Args:
        name, default, about: what it is called, its default, and a line of text.
        low, high: inclusive bounds; None for none.
        above, below: exclusive bounds; None for none.

    Example:
        >>> ts.Integer("seats", 30, "on the flight", low=0, high=500).range
        'a whole number from 0 to 500'
    """

    kind = "integer"
    number_type = int

    def extremes(self) -> list[int]:
        return [] if self.low is None else [int(self.low)]


class Number(_Numeric):
    """A finite number.

    Args:
        name, default, about: what it is called, its default, and a line of text.
        low, high: inclusive bounds; None for none.
        above, below: exclusive bounds; None for none.

    Example:
        >>> ts.Number("price", 4.5, "of a unit", low=0).range
        'a number at least 0'
    """

    kind = "number"

    def extremes(self) -> list[float]:
        return [float(end) for end in (self.low, self.high) if end is not None]


class Integers(_Numeric):
    """A list of whole numbers, at least one, each within the bounds.

    Args:
        name, default, about, low, high, above, below: as in ``Integer``.

    Example:
        >>> ts.Integers("orders", (0, 4, 8), "that may be placed", low=0).default
        (0, 4, 8)
    """

    kind = "integers"
    number_type = int
    is_list = True


class Numbers(_Numeric):
    """A list of finite numbers, at least one, each within the bounds.

    Args:
        name, default, about, low, high, above, below: as in ``Number``.

    Example:
        >>> ts.Numbers("fares", (400.0, 90.0), "of the classes", low=0).default
        (400.0, 90.0)
    """

    kind = "numbers"
    is_list = True


@dataclass(frozen=True)
class Choice(Parameter):
    """One of a few names.

    Args:
        name, default, about: as in ``Integer``.
        options: the names to choose from.

    Example:
        >>> ts.Choice("issuing", "FIFO", "oldest first, or newest", ("FIFO", "LIFO")).range
        'one of FIFO, LIFO'
    """

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


# As the default of an argument of a builder: its parameter, which takes the argument's name.
integer: Callable[..., Any] = partial(Integer, "")
number: Callable[..., Any] = partial(Number, "")
integers: Callable[..., Any] = partial(Integers, "")
numbers: Callable[..., Any] = partial(Numbers, "")
choice: Callable[..., Any] = partial(Choice, "")


def _read_signature(make: Callable[..., MDP]) -> tuple[Parameter, ...]:
    """The parameters that a builder states as the defaults of its arguments."""
    arguments = inspect.signature(make).parameters.values()
    stated = [(one.name, one.default) for one in arguments]
    return tuple(replace(p, name=name) for name, p in stated if isinstance(p, Parameter))


def suggest_name(name: str, known_names: Sequence[str]) -> str:
    """``did you mean 'life'?``, or all names where none is similar."""
    matches = get_close_matches(name, known_names, n=1, cutoff=NAME_MIN_SIMILARITY)
    return f"did you mean {matches[0]!r}?" if matches else f"there are {', '.join(known_names)}"


@dataclass(frozen=True)
class Theory:
    """What theory states of the optimal policy, in words and as a test of it.

    Attributes:
        structure: name of a test of ``tessella.examine``, such as ``(s, S) in stock``.
        says: the sentence, with its source.

    Example:
        >>> ts.problem("machine_replacement").theory[0].structure
        'threshold in wear'
    """

    structure: str
    says: str


@dataclass(frozen=True, eq=False)
class Problem:
    """A family of models, or one of its members.

    Attributes:
        name: the key in the registry, and the model's name.
        title: one line about it.
        make: the function that builds the model from all parameters, by keyword.
        parameters: what may be set, with defaults, ranges and explanations.
        axes: the meaning of a coordinate, by the name of its axis; ``due#`` is for due1, due2, ...
        family: problems that differ in their settings alone; its own name where none is given.
        observation_noise: standard deviation of the coordinates of a training sample, in grid
            steps; the default of the setting ``observation_noise``.
        theory: what is known of the optimal policy at the defaults.
        aliases: other keys in the registry.
        edition: raise it when ``make`` changes what the same settings give.

    Example:
        >>> def build(largest):
        ...     night = ts.Shift("day", ts.Noise("night", [1], [1.0]), edge="wrap")
        ...     return ts.MDP.staged({"day": range(largest + 1)}, (0, 1), 0.9, [night])
        ...
        >>> last = ts.Integer("largest", 6, "the last day", low=1)
        >>> week = ts.Problem("week", "Days go round", build, (last,))
        >>> week.build(largest=4).n_states
        5
    """

    name: str
    title: str
    make: Callable[..., MDP]
    parameters: tuple[Parameter, ...] = ()
    axes: Mapping[str, str] = field(default_factory=dict)
    family: str = ""
    observation_noise: float = 0.0
    theory: tuple[Theory, ...] = ()
    aliases: tuple[str, ...] = ()
    edition: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError("a problem needs a name", value=f"got {self.name!r}")
        object.__setattr__(self, "family", self.family or self.name)
        parameters = tuple(self.parameters) or _read_signature(self.make)
        object.__setattr__(self, "parameters", parameters)
        names = [parameter.name for parameter in self.settable]
        for name in names:
            if names.count(name) > 1 or name in RESERVED_NAMES or not name.isidentifier():
                requirement = (
                    f"parameters need names of their own, other than {' and '.join(RESERVED_NAMES)}"
                )
                raise ArgumentError(requirement, location=self.name, value=f"has {name!r}")
        self._require_axes()
        self.settings()  # the defaults lie in their own ranges

    def _require_axes(self) -> None:
        requirement = "axes maps names of axes to meanings of their coordinates, both text"
        if not isinstance(self.axes, Mapping):
            raise ArgumentError(requirement, location=self.name, value=f"got {self.axes!r}")
        for axis, about in self.axes.items():
            if not (isinstance(axis, str) and axis and isinstance(about, str)):
                value = f"has {axis!r}: {about!r}"
                raise ArgumentError(requirement, location=self.name, value=value)

    @cached_property
    def settable(self) -> tuple[Parameter, ...]:
        """The parameters, and the noise of observations."""
        about = "standard deviation of observed coordinates in a sample, in grid steps"
        noise = Number(
            OBSERVATION_NOISE, self.observation_noise, about, low=0.0, high=NOISE_MAX_GRID_STEPS
        )
        return (*self.parameters, noise)

    def parameter(self, name: str) -> Parameter:
        for known in self.settable:
            if known.name == name:
                return known
        hint = suggest_name(name, [known.name for known in self.settable])
        raise ArgumentError(f"{self.name} has no parameter {name!r}; {hint}")

    def parse_setting(self, name: str, text: str) -> Any:
        """The value of a parameter that a person typed; not checked yet."""
        parameter = self.parameter(name)
        try:
            return parameter.parse(text)
        except ValueError:
            requirement = f"{name} must be {parameter.range}"
            raise ArgumentError(requirement, location=self.name, value=f"got {text!r}") from None

    def coordinate(self, axis: str) -> str:
        """The meaning of a coordinate, empty where the record has no entry."""
        known = self.axis_entry(axis)
        number = axis.removeprefix(axis.rstrip(DIGITS))
        about = self.axes.get(known, "")
        return about if known == axis else about.replace("#", number)

    def axis_entry(self, axis: str) -> str:
        """The name under which ``axes`` has an axis: its own, or its family's; empty for none."""
        stem = axis.rstrip(DIGITS)
        names = (axis, f"{stem}#") if stem != axis else (axis,)
        return next((name for name in names if name in self.axes), "")

    def settings(self, /, **given: Any) -> dict[str, Any]:
        """Every setting by name, checked and plain; what is not given has its default."""
        for name in given:
            self.parameter(name)
        return {
            known.name: known.check(given.get(known.name, known.default), self.name)
            for known in self.settable
        }

    def identity(self, /, **given: Any) -> dict[str, Any]:
        """All that decides the numbers: every setting, and the edition from the second on."""
        edition_entry = {"edition": self.edition} if self.edition != 1 else {}
        return self.settings(**given) | edition_entry

    def build(self, /, *, name: str = "", **settings: Any) -> MDP:
        """The model with these settings; ``name`` is what it is called, if not as the problem."""
        chosen = self.settings(**settings)
        noise = chosen.pop(OBSERVATION_NOISE)
        try:
            with limit_states(PROBLEM_MAX_STATES), limit_entries():
                mdp = self.make(**chosen)
        except TessellaError:
            raise
        except Exception as error:
            requirement = f"the problem {self.name} could not be built with these settings"
            raise ModelError(requirement, value=f"{type(error).__name__}: {error}") from error
        require_type(f"the problem {self.name}", mdp, MDP)
        return replace(mdp, name=name or self.name, parameters=chosen, observation_noise=noise)

    __call__ = build

    def variant(
        self,
        name: str,
        title: str = "",
        *,
        aliases: tuple[str, ...] = (),
        theory: tuple[Theory, ...] | None = None,
        **settings: Any,
    ) -> Problem:
        """A member of the same family: other defaults, under a name of its own."""
        chosen = self.settings(**settings)
        return replace(
            self,
            name=name,
            title=title or self.title,
            parameters=tuple(replace(p, default=chosen[p.name]) for p in self.parameters),
            observation_noise=chosen[OBSERVATION_NOISE],
            theory=self.theory if theory is None else theory,
            aliases=aliases,
        )

    def __str__(self) -> str:
        """The record as a page of plain lines."""
        rows = [(p.name, str(p.default), p.range, p.about) for p in self.settable]
        lines = [f"{self.name}: {self.title}", "", "Settings, with default and range:"]
        lines += align_columns(rows, indent="  ")
        if self.theory:
            lines += ["", "Theory:"]
            lines += [f"  {known.structure}: {known.says}" for known in self.theory]
        return "\n".join(lines)
