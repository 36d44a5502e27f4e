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
from tessella.problems.imported import imported
from tessella.runner.names import UnknownNameError, own_name
from tessella.runner.record import COLUMNS
from tessella.solvers.solution import Solution


@dataclass(frozen=True)
class Measure:
    """A number of a policy, by name."""

    name: str
    of: Callable[[Solution, Policy], float]

    def __call__(self, solution: Solution, policy: Policy) -> float:
        """The number; whatever is none, or is not finite, is refused."""
        found = self.of(solution, policy)
        if not isinstance(found, Real) or not math.isfinite(found):
            raise StudyError(
                "a measure gives a finite number", place=self.name, value=f"is {found}"
            )
        return float(found)


_registered: dict[str, Measure] = {}


def register_measure(measure: Measure) -> str:
    """Make a measure known by its name, and give that name back; the later of two counts."""
    if not isinstance(measure, Measure):
        raise UnknownNameError(
            "a measure is a tessella.Measure", value=f"got {type(measure).__name__}"
        )
    name = own_name(measure, "measure")
    if name in COLUMNS:
        rule = "a measure needs a name that no column of the records has"
        raise UnknownNameError(rule, value=f"got {name!r}")
    _registered[name] = measure
    return name


def measure_by_name(name: str) -> Measure:
    if ":" in name:
        found = imported(name, "measure", UnknownNameError)
        if not isinstance(found, Measure):
            rule = "a measure is a tessella.Measure"
            raise UnknownNameError(rule, place=repr(name), value=f"is {type(found).__name__}")
        return found
    if name not in _registered:
        there = ", ".join(_registered) or "none"
        raise UnknownNameError(f"no measure is called {name!r}; there are {there}")
    return _registered[name]
