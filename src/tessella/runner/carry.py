"""Problems, methods and measures that a study was given as objects, on their way to workers.

Objects of a script or a notebook travel whole; those of a module travel by their name in it, so the
worker must be able to import that module.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tessella.problems.problem import Problem
from tessella.problems.registry import OURS, register
from tessella.runner.measure import Measure, register_measure
from tessella.runner.methods import register_method
from tessella.runner.names import UnknownNameError


def pack(objects: Sequence[Any]) -> bytes:
    """The objects as bytes; nothing where there are none."""
    import cloudpickle

    return cloudpickle.dumps(tuple(objects)) if objects else b""


def unpack(packed: bytes) -> None:
    """Make the objects known here by their names."""
    for thing in _objects(packed) if packed else ():
        if isinstance(thing, Problem):
            if thing.name not in OURS:
                register(thing)
        elif isinstance(thing, Measure):
            register_measure(thing)
        else:
            register_method(thing)


@lru_cache(maxsize=8)
def _objects(packed: bytes) -> tuple[Any, ...]:
    """Once for each study: models and optima are kept with the records they belong to."""
    import cloudpickle

    try:
        return cloudpickle.loads(packed)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise UnknownNameError(f"what the study brings cannot be unpacked here: {said}") from error
