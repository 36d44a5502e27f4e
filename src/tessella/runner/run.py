"""run(spec) -> Record: train, then score against the optimum; a method never scores itself.

policy error = mean over states of 1{pi(s) != pi*(s)},
value gap    = mean over states of (V*(s) - Q*(s, pi(s))) / (1 - discount),
loss         = V* - V_pi, by evaluating the policy.

A method may be third-party code, so its fits are checked first: a policy of the model, counts (its
size among them) that are whole, not negative and below 2^63 (the limit of the store), a finite
time. A fit that fails the check becomes a failed record with the reason; the others of its batch go
on. A record holds the policy's table; measures receive the policy itself.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.loss import loss
from tessella.errors import StudyError, TessellaError, format_brief, require_type, require_whole
from tessella.mdp.model import MDP
from tessella.runner.methods import find_method
from tessella.runner.methods.method import (
    Fit,
    StudyMethod,
    UnknownNameError,
    get_instance,
    get_problem,
)
from tessella.runner.record import METRICS, InformationBudget, Record, Spec, format_exception
from tessella.runner.study import find_measure, register_packed
from tessella.solvers.solution import Solution

COUNT_MAX = 2**63 - 1  # of the store
RECORDED_PACKAGES = (
    "tessella",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "scikit-learn",
    "optax",
    "distributed",
)
RECORDED_VARIABLES = ("XLA_FLAGS", "JAX_PLATFORMS", "OMP_NUM_THREADS")


@dataclass(frozen=True, eq=False)
class BatchResult:
    """The records of a batch, and where they were computed."""

    records: tuple[Record, ...]
    context: dict[str, Any]


def run(spec: Spec) -> Record:
    """The record of one spec; always the same numbers on the same machine."""
    return run_batch([spec]).records[0]


def run_batch(specs: Sequence[Spec]) -> BatchResult:
    """The records of specs that train together; a fit that cannot be scored is a failed one."""
    return _train_and_score(_find_batch_method(specs), specs)


def run_batch_safely(specs: Sequence[Spec], caught: type[BaseException] = Exception) -> BatchResult:
    """``run_batch``, where an error of a method affects no other run.

    The runs of a batch that fails are tried one by one; one that fails alone is a failed record.
    What lacks here (the problem, or the method in its edition) raises ``UnknownNameError``.
    """
    method = _find_batch_method(specs)
    get_problem(specs[0])
    try:
        return _train_and_score(method, specs)
    except caught as error:
        if len(specs) == 1:
            records = (Record(specs[0], reason=format_exception(error)),)
        else:
            results = (run_batch_safely([spec], caught) for spec in specs)
            records = tuple(record for result in results for record in result.records)
        return BatchResult(records, collect_context())


def run_batch_on_worker(specs: Sequence[Spec], packed_objects: bytes = b"") -> BatchResult:
    """``run_batch_safely`` in a worker process, which no method may end.

    Args:
        packed_objects: the objects of the study, from ``pack_objects``.
    """
    register_packed(packed_objects)
    return run_batch_safely(specs, BaseException)


def _find_batch_method(specs: Sequence[Spec]) -> StudyMethod:
    method = find_method(specs[0].method)
    for spec in specs:
        if spec.edition != method.edition:
            here = f"{spec.method!r} has edition {method.edition} here"
            raise UnknownNameError(f"{here}; the study requires edition {spec.edition}")
    return method


def _train_and_score(method: StudyMethod, specs: Sequence[Spec]) -> BatchResult:
    instance = get_instance(specs[0])
    fits = _require_fits(method.fit(instance, specs), len(specs))
    return BatchResult(score(instance.solution, specs, fits), collect_context())


def _require_fits(returned: Any, n_runs: int) -> list[Fit]:
    requirement = "a method must return one Fit for each run, in a list"
    if not isinstance(returned, Iterable):
        raise StudyError(requirement, value=f"got {type(returned).__name__}")
    fits = list(islice(returned, n_runs + 1))
    if len(fits) != n_runs:
        count_text = f"{len(fits)}" if len(fits) < n_runs else f"more than {n_runs}"
        raise StudyError(requirement, value=f"got {count_text} for {n_runs} runs")
    return fits


def score(solution: Solution, specs: Sequence[Spec], fits: Sequence[Fit]) -> tuple[Record, ...]:
    """One record for each spec and its fit; policies that are equal are evaluated once."""
    loss_of = cache(partial(_state_loss, solution))

    def make_record(spec: Spec, fit: Fit) -> Record:
        try:
            return _evaluate_fit(solution, loss_of, spec, check_fit(fit, solution.mdp))
        except TessellaError as error:
            return Record(spec, reason=str(error))
        except Exception as error:  # reading the parts of a fit may raise anything
            return Record(spec, reason=format_exception(error))

    return tuple(make_record(spec, fit) for spec, fit in zip(specs, fits, strict=True))


def check_fit(fit: Fit, mdp: MDP) -> Fit:
    """The fit with a policy of ``mdp`` and plain numbers, or an error that says what is wrong."""
    require_type("a run", fit, Fit)
    require_type("a fit", fit.information, InformationBudget)
    counts = {
        part.name: _require_count(part.name, getattr(fit.information, part.name))
        for part in fields(InformationBudget)
    }
    seconds = fit.seconds
    if not isinstance(seconds, Real) or not 0 <= seconds < math.inf:
        requirement = "the seconds of a fit must be a number, finite and not negative"
        raise StudyError(requirement, value=f"got {format_brief(seconds)}")
    policy = mdp.policy(fit.policy)
    _require_count("size", policy.size)
    return Fit(policy, InformationBudget(**counts), float(seconds))


def _require_count(name: str, value: object) -> int:
    subject = f"the {name.replace('_', ' ')} of a fit"
    return require_whole(subject, value, 0, COUNT_MAX, StudyError)


def _evaluate_fit(
    solution: Solution, loss_of: Callable[..., NDArray[np.float64]], spec: Spec, fit: Fit
) -> Record:
    mdp = solution.mdp
    actions = fit.policy.table.ravel()
    q = solution.q.reshape(mdp.n_states, mdp.n_actions)
    local_loss = q.max(axis=1) - q[np.arange(mdp.n_states), actions]
    state_loss = loss_of(tuple(actions.tolist()))
    values = (
        (actions != solution.policy.table.ravel()).mean(),
        mdp.criterion.value_of_constant_reward(local_loss.mean()),
        state_loss.mean() if mdp.start is None else mdp.start @ state_loss,
        state_loss.max(),
    )
    figures = dict(zip(METRICS, map(float, values), strict=True))
    for name, figure in figures.items():
        if not math.isfinite(figure):
            requirement = "the figures of a run must be finite"
            raise StudyError(requirement, location=name, value=f"is {figure}")
    named_policy = fit.policy.with_name(spec.method)
    return Record(
        spec,
        **figures,
        size=int(fit.policy.size),
        information=fit.information,
        seconds=fit.seconds,
        actions=actions,
        measures={name: find_measure(name)(solution, named_policy) for name in spec.measures},
    )


def _state_loss(solution: Solution, actions: tuple[int, ...]) -> NDArray[np.float64]:
    """(S,) V* - V_pi."""
    return loss(solution, np.reshape(actions, solution.mdp.grid.shape)).by_state.ravel()


@cache
def collect_context() -> dict[str, Any]:
    """Versions of all that computes, the machine, and the settings that decide its threads."""
    return {
        "python": platform.python_version(),
        "versions": {name: _package_version(name) for name in RECORDED_PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "flags": {name: os.environ[name] for name in RECORDED_VARIABLES if name in os.environ},
    }


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor_name() -> str:
    """The processor's name, where the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
