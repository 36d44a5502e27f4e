"""Problems, methods and measures that a study was given as objects, on their way to workers.

Objects of a script or a notebook travel whole; those of a module travel by their name in it, so the
worker must be able to import that module.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tessella.problems.problem import Problem
from tessella.problems.registry import PACKAGE_PROBLEMS, register
from tessella.runner.measure import Measure, register_measure
from tessella.runner.methods import register_method
from tessella.runner.names import UnknownNameError


def pack_objects(objects: Sequence[Any]) -> bytes:
    """The objects as bytes; nothing where there are none."""
    import cloudpickle

    return cloudpickle.dumps(tuple(objects)) if objects else b""


def register_packed(packed: bytes) -> None:
    """Make the objects known here by their names."""
    for item in _unpack_objects(packed) if packed else ():
        if isinstance(item, Problem):
            if item.name not in PACKAGE_PROBLEMS:
                register(item)
        elif isinstance(item, Measure):
            register_measure(item)
        else:
            register_method(item)


@lru_cache(maxsize=8)
def _unpack_objects(packed: bytes) -> tuple[Any, ...]:
    """Once for each study: models and optima are kept with the records they belong to."""
    import cloudpickle

    try:
        return cloudpickle.loads(packed)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UnknownNameError(
            f"what the study brings cannot be unpacked here: {reason}"
        ) from error
