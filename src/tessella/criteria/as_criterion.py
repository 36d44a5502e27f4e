"""The one door for criteria."""

from __future__ import annotations

import json

from tessella.criteria.average import Average
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.errors import FileError


def as_criterion(given: float | Criterion) -> Criterion:
    """A criterion as it is; a number as a discount."""
    return given if isinstance(given, Criterion) else Discounted(given)


def criterion_named(identity: str | None, discount: float) -> Criterion:
    """The criterion of a file: its ``identity`` as JSON, where it is none with a discount."""
    if identity is None:
        return Discounted(discount)
    known = {Average().identity(): Average()}
    name = json.loads(identity)
    if name not in known:
        rule = f"a model file's criterion must be a discount or one of {', '.join(known)}"
        raise FileError(rule, value=f"got {name!r}")
    return known[name]
