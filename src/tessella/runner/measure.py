"""Measures: what a study reads off each policy beside its error and its loss.

    Measure(name, of),   of(solution, policy) -> a finite number

A measure is computed where the policy was trained and stored with its record. Its name is in the
spec of the run: a measure that means something else needs another name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

from tessella.errors import StudyError
from tessella.mdp.policy import Policy
from tessella.problems.registry import import_object
from tessella.runner.names import UnknownNameError, require_own_name
from tessella.runner.record import RECORD_COLUMNS
from tessella.solvers.solution import Solution


@dataclass(frozen=True)
class Measure:
    """A number of a policy, by name."""

    name: str
    of: Callable[[Solution, Policy], float]

    def __call__(self, solution: Solution, policy: Policy) -> float:
        """The number; whatever is none, or is not finite, is refused."""
        value = self.of(solution, policy)
        if not isinstance(value, Real) or not math.isfinite(value):
            raise StudyError(
                "a measure gives a finite number", location=self.name, value=f"is {value}"
            )
        return float(value)


_registered: dict[str, Measure] = {}


def register_measure(measure: Measure) -> str:
    """Make a measure known by its name, and give that name back; the later of two counts."""
    if not isinstance(measure, Measure):
        raise UnknownNameError(
            "a measure is a tessella.Measure", value=f"got {type(measure).__name__}"
        )
    name = require_own_name(measure, "measure")
    if name in RECORD_COLUMNS:
        requirement = "a measure needs a name that no column of the records has"
        raise UnknownNameError(requirement, value=f"got {name!r}")
    _registered[name] = measure
    return name


def find_measure(name: str) -> Measure:
    if ":" in name:
        measure = import_object(name, "measure", UnknownNameError)
        if not isinstance(measure, Measure):
            requirement = "a measure is a tessella.Measure"
            raise UnknownNameError(
                requirement, location=repr(name), value=f"is {type(measure).__name__}"
            )
        return measure
    if name not in _registered:
        known_names = ", ".join(_registered) or "none"
        raise UnknownNameError(f"no measure is called {name!r}; there are {known_names}")
    return _registered[name]
