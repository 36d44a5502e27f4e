"""run(spec) -> Record: train, then judge against the optimum.

policy error = mean over states of 1{pi(s) != pi*(s)},
value gap    = mean over states of (V*(s) - Q*(s, pi(s))) / (1 - discount),
loss         = V* - V_pi, by evaluating the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tessella.study.context import context
from tessella.study.judge import judge
from tessella.study.methods import UnknownMethodError, by_name
from tessella.study.methods.method import problem_of
from tessella.study.record import Record
from tessella.study.spec import Spec


@dataclass(frozen=True, eq=False)
class Outcome:
    """The records of a batch, and where they were computed."""

    records: tuple[Record, ...]
    context: dict[str, Any]


def run(spec: Spec) -> Record:
    """The record of one spec; always the same numbers on the same machine."""
    return run_batch([spec]).records[0]


def run_batch(specs: Sequence[Spec]) -> Outcome:
    """The records of specs that train together."""
    method = by_name(specs[0].method)
    for spec in specs:
        if spec.edition != method.edition:
            raise UnknownMethodError(
                f"{spec.method!r} has edition {method.edition} here; "
                f"the study asks for edition {spec.edition}"
            )
    problem = problem_of(specs[0])
    fits = method.fit(problem, specs)
    return Outcome(judge(problem.solution, specs, fits), context())
