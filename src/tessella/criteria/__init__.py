"""The meaning of a value: one kind of criterion per file, and conversions to criteria.

A criterion is given as an object, as a number (a discount), or in a file as JSON.
"""

from __future__ import annotations

import ast
from typing import Any

from tessella.criteria.average import Average
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.criteria.total import Total
from tessella.errors import ArgumentError, FileError, ModelError, TessellaError

__all__ = [
    "Average",
    "Discounted",
    "FiniteHorizon",
    "Total",
    "as_criterion",
    "choose_criterion",
    "parse_criterion",
    "read_criterion",
]


# What parsing and calling raise for text that is no criterion; the last two for text that is huge.
UNREADABLE = SyntaxError, ValueError, TypeError, LookupError, AttributeError
UNREADABLE += RecursionError, MemoryError


def as_criterion(source: float | Criterion) -> Criterion:
    """A criterion as it is; a number as a discount."""
    return source if isinstance(source, Criterion) else Discounted(source)


def choose_criterion(discount: float | Criterion | None, criterion: Criterion | None) -> Criterion:
    """The criterion given to a builder by one of the two arguments."""
    if discount is not None and criterion is not None:
        value = f"got discount={discount!r} and criterion={criterion!r}"
        raise ModelError("a model has a discount or another criterion, not both", value=value)
    source = discount if criterion is None else criterion
    if source is None:
        raise ModelError(
            "a model needs a discount such as 0.95, or a criterion such as Average()",
            value="got neither",
        )
    if criterion is not None and not isinstance(criterion, Criterion):
        requirement = "criterion must be a criterion such as Average() or FiniteHorizon(12)"
        raise ModelError(requirement, value=f"got {criterion!r}")
    return as_criterion(source)


def parse_criterion(text: str) -> Criterion:
    """A criterion as it is typed: ``Total()`` or ``total``, ``FiniteHorizon(12, discount=0.9)``."""
    kinds = {kind.__name__.lower(): kind for kind in (Average, Discounted, FiniteHorizon, Total)}
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        kind = kinds[call.func.id.lower()]  # type: ignore[attr-defined]
        arguments = [ast.literal_eval(argument) for argument in call.args]
        return kind(*arguments, **{str(k.arg): ast.literal_eval(k.value) for k in call.keywords})
    except TessellaError:
        raise
    except UNREADABLE as error:
        requirement = "a criterion is written Average(), Total(), Discounted(0.9)"
        requirement += " or FiniteHorizon(12, discount=0.9)"
        raise ArgumentError(requirement, value=f"got {text!r:.60}") from error


def read_criterion(fingerprint_key: Any) -> Criterion:
    """The criterion that a file states by its ``fingerprint_key``, where it is no discount."""
    match fingerprint_key:
        case "average":
            return Average()
        case "total":
            return Total()
        case ["horizon", int(periods), float(factor)]:
            return FiniteHorizon(periods, factor)
        case other:
            requirement = (
                "a model file's criterion must be a discount, 'average', 'total' or a horizon"
            )
            raise FileError(requirement, value=f"got {other!r}")
