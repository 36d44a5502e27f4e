"""The one door for criteria."""

from __future__ import annotations

from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted


def as_criterion(given: float | Criterion) -> Criterion:
    """A criterion as it is; a number as a discount."""
    return given if isinstance(given, Criterion) else Discounted(given)
