"""run(spec) -> Record: train, then score against the optimum.

policy error = mean over states of 1{pi(s) != pi*(s)},
value gap    = mean over states of (V*(s) - Q*(s, pi(s))) / (1 - discount),
loss         = V* - V_pi, by evaluating the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tessella.errors import StudyError
from tessella.runner.carry import unpack
from tessella.runner.context import context
from tessella.runner.methods import by_name
from tessella.runner.methods.method import Fit, Method, instance_of, problem_of
from tessella.runner.names import UnknownNameError
from tessella.runner.record import Record, said
from tessella.runner.score import score
from tessella.runner.spec import Spec


@dataclass(frozen=True, eq=False)
class Outcome:
    """The records of a batch, and where they were computed."""

    records: tuple[Record, ...]
    context: dict[str, Any]


class FailedTogether(Exception):  # noqa: N818
    """A batch failed as a whole, for a reason in words; which run is at fault is not known."""


def run(spec: Spec) -> Record:
    """The record of one spec; always the same numbers on the same machine."""
    return run_batch([spec]).records[0]


def run_batch(specs: Sequence[Spec]) -> Outcome:
    """The records of specs that train together; a fit that cannot be scored is a failed one."""
    return _trained(_method(specs), specs)


def attempt(specs: Sequence[Spec], packed: bytes = b"") -> Outcome:
    """``run_batch`` as workers do it: what a method does wrong harms nobody else.

    ``packed`` holds what the study brings along; see ``carry``.

    Whatever it raises is put in words here, where it can be: of one run as a failed record, of
    several as ``FailedTogether``, so that they are tried one by one.
    """
    unpack(packed)
    method = _method(specs)
    problem_of(specs[0])  # a worker without the problem is at fault, not the run
    try:
        return _trained(method, specs)
    except BaseException as error:  # an exit, too, is the method's and not the worker's
        if len(specs) > 1:
            raise FailedTogether(said(error)) from None
        return Outcome((Record(specs[0], reason=said(error)),), context())


def _method(specs: Sequence[Spec]) -> Method:
    method = by_name(specs[0].method)
    for spec in specs:
        if spec.edition != method.edition:
            raise UnknownNameError(
                f"{spec.method!r} has edition {method.edition} here; "
                f"the study asks for edition {spec.edition}"
            )
    return method


def _trained(method: Method, specs: Sequence[Spec]) -> Outcome:
    instance = instance_of(specs[0])
    fits = _fits(method.fit(instance, specs), len(specs))
    return Outcome(score(instance.solution, specs, fits), context())


def _fits(given: Any, runs: int) -> list[Fit]:
    rule = "a method must give back one Fit for each run, in a list"
    if not isinstance(given, Iterable):
        raise StudyError(rule, value=f"got {type(given).__name__}")
    fits = list(islice(given, runs + 1))
    if len(fits) != runs:
        many = f"{len(fits)}" if len(fits) < runs else f"more than {runs}"
        raise StudyError(rule, value=f"got {many} for {runs} runs")
    return fits
