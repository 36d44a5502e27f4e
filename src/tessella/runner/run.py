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
from tessella.runner.methods import find_method
from tessella.runner.methods.method import Fit, StudyMethod, get_instance, get_problem
from tessella.runner.names import UnknownNameError
from tessella.runner.record import Record, format_exception
from tessella.runner.run_context import collect_context
from tessella.runner.score import score
from tessella.runner.shipping import register_packed
from tessella.runner.spec import Spec


@dataclass(frozen=True, eq=False)
class BatchResult:
    """The records of a batch, and where they were computed."""

    records: tuple[Record, ...]
    context: dict[str, Any]


class BatchError(Exception):
    """A batch failed as a whole, for a reason in words; which run is at fault is not known."""


def run(spec: Spec) -> Record:
    """The record of one spec; always the same numbers on the same machine."""
    return run_batch([spec]).records[0]


def run_batch(specs: Sequence[Spec]) -> BatchResult:
    """The records of specs that train together; a fit that cannot be scored is a failed one."""
    return _train_and_score(_find_batch_method(specs), specs)


def run_batch_safely(specs: Sequence[Spec], packed_objects: bytes = b"") -> BatchResult:
    """``run_batch`` as workers do it: what a method does wrong harms nobody else.

    ``packed_objects`` holds what the study brings along; see ``shipping``.

    Whatever it raises is put in words here, where it can be: of one run as a failed record, of
    several as ``BatchError``, so that they are tried one by one.
    """
    register_packed(packed_objects)
    method = _find_batch_method(specs)
    get_problem(specs[0])  # a worker without the problem is at fault, not the run
    try:
        return _train_and_score(method, specs)
    except BaseException as error:  # an exit, too, is the method's and not the worker's
        if len(specs) > 1:
            raise BatchError(format_exception(error)) from None
        return BatchResult((Record(specs[0], reason=format_exception(error)),), collect_context())


def _find_batch_method(specs: Sequence[Spec]) -> StudyMethod:
    method = find_method(specs[0].method)
    for spec in specs:
        if spec.edition != method.edition:
            raise UnknownNameError(
                f"{spec.method!r} has edition {method.edition} here; "
                f"the study asks for edition {spec.edition}"
            )
    return method


def _train_and_score(method: StudyMethod, specs: Sequence[Spec]) -> BatchResult:
    instance = get_instance(specs[0])
    fits = _require_fits(method.fit(instance, specs), len(specs))
    return BatchResult(score(instance.solution, specs, fits), collect_context())


def _require_fits(returned: Any, n_runs: int) -> list[Fit]:
    requirement = "a method must give back one Fit for each run, in a list"
    if not isinstance(returned, Iterable):
        raise StudyError(requirement, value=f"got {type(returned).__name__}")
    fits = list(islice(returned, n_runs + 1))
    if len(fits) != n_runs:
        count_text = f"{len(fits)}" if len(fits) < n_runs else f"more than {n_runs}"
        raise StudyError(requirement, value=f"got {count_text} for {n_runs} runs")
    return fits
