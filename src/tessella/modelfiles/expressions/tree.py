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

NUMBER = "a number"
CONDITION = "a condition"
TEXT = "text"


class LookupSource(Protocol):
    """Numbers that are looked up by so many coordinates."""

    @property
    def arity(self) -> int: ...

    def look_up(self, *coordinates: NDArray) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Node:
    """A part of an expression; ``position`` is the character where it stands."""

    position: int = field(compare=False)

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class ConstantNode(Node):
    value: float | str


@dataclass(frozen=True)
class NameNode(Node):
    name: str


@dataclass(frozen=True)
class OperatorNode(Node):
    """An operation or a function: a word of ``OPERATORS``."""

    operator_name: str
    operands: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands


@dataclass(frozen=True)
class CompareNode(Node):
    """``a < b <= c``: each value beside the next, and every part worked out once."""

    comparisons: tuple[str, ...]
    operands: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands


@dataclass(frozen=True)
class LookupNode(Node):
    """An entry of a table, asked for in square brackets or as a function is."""

    table: str
    operands: tuple[Node, ...]
    uses_brackets: bool = False

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.operands


def _power(base: Any, exponent: Any) -> Any:
    # A plain number as exponent takes NumPy's short ways, such as a product for a square.
    exponent = float(exponent) if np.ndim(exponent) == 0 else exponent
    return np.asarray(base, dtype=float) ** exponent


def _on_doubles(function: Callable) -> Callable:
    """The same of doubles: NumPy has rules of its own for truth values."""
    return lambda *of: function(*(np.asarray(part, dtype=float) for part in of))


MISSING_TEXT = "no value\u200b"  # as text; no text of a model is like it, as that can be printed


def _all_boolean(*of: Any) -> bool:
    """Whether all of them have a value."""
    return all(np.asarray(part).dtype.kind == "b" for part in of)


def logical_and(a: Any, b: Any) -> Any:
    """``a and b``."""
    if _all_boolean(a, b):
        return np.logical_and(a, b)
    return np.where(np.equal(a, 0) | np.equal(b, 0), 0.0, np.multiply(a, b, dtype=float))


def _logical_or(a: Any, b: Any) -> Any:
    if _all_boolean(a, b):
        return np.logical_or(a, b)
    return np.where(np.equal(a, 1) | np.equal(b, 1), 1.0, np.add(a, b, dtype=float))


def _logical_not(a: Any) -> Any:
    return np.logical_not(a) if _all_boolean(a) else 1.0 - a


def _select(condition: Any, if_true: Any, if_false: Any) -> Any:
    if _all_boolean(condition):
        return np.where(condition, if_true, if_false)
    result = np.where(np.equal(condition, 1), if_true, if_false)
    return np.where(
        np.isnan(condition), MISSING_TEXT if result.dtype.kind == "U" else np.nan, result
    )


def compare_values(symbol: str, a: Any, b: Any) -> Any:
    """``a < b`` and the like."""
    result = COMPARISONS[symbol](a, b)
    missing = is_missing(a) | is_missing(b)
    return np.where(missing, np.nan, result) if missing.any() else result


def is_missing(array: Any) -> Any:
    """Where an array has no value."""
    array = np.asarray(array)
    if array.dtype.kind == "U":
        return array == MISSING_TEXT
    return np.zeros((), dtype=bool) if array.dtype.kind == "b" else np.isnan(array)


@dataclass(frozen=True)
class OperatorSpec:
    """What a word does, with how many parts, of which kind, and what comes out."""

    apply: Callable[..., Any]
    min_operands: int
    max_operands: int
    operand_kind: str = NUMBER
    result_kind: str = NUMBER

    @property
    def is_binary_fold(self) -> bool:
        """Whether it takes two parts at a time, however many there are."""
        return self.min_operands == 2


CALL_MAX_OPERANDS = 100  # parts of a call
BINARY_FUNCTIONS = {
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
UNARY_FUNCTIONS = {
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
NAMED_FUNCTIONS = {
    **{
        word: OperatorSpec(_on_doubles(function), 1, 1)
        for word, function in UNARY_FUNCTIONS.items()
    },
    "min": OperatorSpec(_on_doubles(np.minimum), 2, CALL_MAX_OPERANDS),
    "max": OperatorSpec(_on_doubles(np.maximum), 2, CALL_MAX_OPERANDS),
    "where": OperatorSpec(_select, 3, 3),
}
OPERATORS = {
    **{
        sign: OperatorSpec(_on_doubles(function), 2, 2)
        for sign, function in BINARY_FUNCTIONS.items()
    },
    "negative": OperatorSpec(_on_doubles(operator.neg), 1, 1),
    "and": OperatorSpec(logical_and, 2, 2, CONDITION, CONDITION),
    "or": OperatorSpec(_logical_or, 2, 2, CONDITION, CONDITION),
    "not": OperatorSpec(_logical_not, 1, 1, CONDITION, CONDITION),
    **NAMED_FUNCTIONS,
}
PI_NAME = "pi"
RESERVED_WORDS = frozenset(
    {"and", "or", "not", PI_NAME, *NAMED_FUNCTIONS}
)  # that no name of a model can be
