"""The one door for criteria."""

from __future__ import annotations

import json

from tessella.criteria.average import Average
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.criteria.total import Total
from tessella.errors import FileError


def as_criterion(given: float | Criterion) -> Criterion:
    """A criterion as it is; a number as a discount."""
    return given if isinstance(given, Criterion) else Discounted(given)


def criterion_named(identity: str | None, discount: float) -> Criterion:
    """The criterion of a file: its ``identity`` as JSON, where it is none with a discount."""
    if identity is None:
        return Discounted(discount)
    match json.loads(identity):
        case "average":
            return Average()
        case "total":
            return Total()
        case ["horizon", int(periods), float(of)]:
            return FiniteHorizon(periods, of)
        case other:
            rule = "a model file's criterion must be a discount, 'average', 'total' or a horizon"
            raise FileError(rule, value=f"got {other!r}")
