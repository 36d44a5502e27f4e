"""The conversion of whatever stands for a criterion: an object, a number, JSON."""

from __future__ import annotations

import json

from tessella.criteria.average import Average
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.criteria.total import Total
from tessella.errors import FileError


def as_criterion(source: float | Criterion) -> Criterion:
    """A criterion as it is; a number as a discount."""
    return source if isinstance(source, Criterion) else Discounted(source)


def read_criterion(identity: str | None, discount: float) -> Criterion:
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
            requirement = (
                "a model file's criterion must be a discount, 'average', 'total' or a horizon"
            )
            raise FileError(requirement, value=f"got {other!r}")
