"""An expression as a tree, and what its words do on arrays.

Numbers are doubles throughout, so nothing wraps around: what grows too large becomes infinite, and
what has no value is not a number; either is refused by whoever reads the result. Truth values count
as 0 and 1 in arithmetic. What is compared with something that has no value has none either: it is
not a number among doubles 0 and 1. ``and``, ``or`` and ``where`` have a value all the same where
others decide it (the strong logic of Kleene).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

NUMBER, TRUTH, TEXT = "a number", "a condition", "text"


class Table(Protocol):
    """Numbers that are looked up by so many coordinates."""

    @property
    def arity(self) -> int: ...

    def look_up(self, *coordinates: NDArray) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Node:
    """A part of an expression; ``at`` is the character where it stands."""

    at: int = field(compare=False)

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Constant(Node):
    value: float | str


@dataclass(frozen=True)
class Name(Node):
    name: str


@dataclass(frozen=True)
class Apply(Node):
    """An operation or a function: a word of ``OPERATIONS``."""

    word: str
    of: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.of


@dataclass(frozen=True)
class Compare(Node):
    """``a < b <= c``: each value beside the next, and every part worked out once."""

    signs: tuple[str, ...]
    of: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.of


@dataclass(frozen=True)
class LookUp(Node):
    """An entry of a table, asked for in square brackets or as a function is."""

    table: str
    of: tuple[Node, ...]
    square: bool = False

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.of


def _power(base: Any, exponent: Any) -> Any:
    # A plain number as exponent takes NumPy's short ways, such as a product for a square.
    exponent = float(exponent) if np.ndim(exponent) == 0 else exponent
    return np.asarray(base, dtype=float) ** exponent


def _numbers(function: Callable) -> Callable:
    """The same of doubles: NumPy has rules of its own for truth values."""
    return lambda *of: function(*(np.asarray(part, dtype=float) for part in of))


NO_VALUE = "no value\u200b"  # as text; no text of a model is like it, as that can be printed


def _truths(*of: Any) -> bool:
    """Whether all of them have a value."""
    return all(np.asarray(part).dtype.kind == "b" for part in of)


def both(a: Any, b: Any) -> Any:
    """``a and b``."""
    if _truths(a, b):
        return np.logical_and(a, b)
    return np.where(np.equal(a, 0) | np.equal(b, 0), 0.0, np.multiply(a, b, dtype=float))


def _either(a: Any, b: Any) -> Any:
    if _truths(a, b):
        return np.logical_or(a, b)
    return np.where(np.equal(a, 1) | np.equal(b, 1), 1.0, np.add(a, b, dtype=float))


def _not(a: Any) -> Any:
    return np.logical_not(a) if _truths(a) else 1.0 - a


def _chosen(condition: Any, this: Any, other: Any) -> Any:
    if _truths(condition):
        return np.where(condition, this, other)
    found = np.where(np.equal(condition, 1), this, other)
    return np.where(np.isnan(condition), NO_VALUE if found.dtype.kind == "U" else np.nan, found)


def comparison(sign: str, a: Any, b: Any) -> Any:
    """``a < b`` and the like."""
    found, missing = COMPARISONS[sign](a, b), lacks_value(a) | lacks_value(b)
    return np.where(missing, np.nan, found) if missing.any() else found


def lacks_value(array: Any) -> Any:
    """Where an array has no value."""
    array = np.asarray(array)
    if array.dtype.kind == "U":
        return array == NO_VALUE
    return np.zeros((), dtype=bool) if array.dtype.kind == "b" else np.isnan(array)


@dataclass(frozen=True)
class Operation:
    """What a word does, with how many parts, of which kind, and what comes out."""

    apply: Callable[..., Any]
    least: int
    most: int
    takes: str = NUMBER
    gives: str = NUMBER

    @property
    def folds(self) -> bool:
        """Whether it takes two parts at a time, however many there are."""
        return self.least == 2


MANY = 100  # parts of a call
BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
}
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
ONE = {
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
}
FUNCTIONS = {
    **{word: Operation(_numbers(function), 1, 1) for word, function in ONE.items()},
    "min": Operation(_numbers(np.minimum), 2, MANY),
    "max": Operation(_numbers(np.maximum), 2, MANY),
    "where": Operation(_chosen, 3, 3),
}
OPERATIONS = {
    **{sign: Operation(_numbers(function), 2, 2) for sign, function in BINARY.items()},
    "negative": Operation(_numbers(operator.neg), 1, 1),
    "and": Operation(both, 2, 2, TRUTH, TRUTH),
    "or": Operation(_either, 2, 2, TRUTH, TRUTH),
    "not": Operation(_not, 1, 1, TRUTH, TRUTH),
    **FUNCTIONS,
}
PI = "pi"
WORDS = frozenset({"and", "or", "not", PI, *FUNCTIONS})  # that no name of a model can be
