"""tune(solution, form, S=range(...)) -> Tuned: the best parameters of a form that the user gives.

A form is a function of axes and parameters that gives the action, as ``certify`` takes functions of
axes: ``form(stock, S)``. Losses of all candidates are first bounded from below by those of the
first period,

    mu l_pi  <=  mu L,   max l_pi  <=  max L,   l = V* - Q*,

and then found exactly in the order of these bounds, until the next bound exceeds the best loss: so
the best is the best of all, though few are evaluated to the end. Averages have no such bounds, and
all candidates are evaluated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.errors import ArgumentError, PolicyError, require_type
from tessella.mdp.actions import component_names
from tessella.mdp.as_policy import as_policy, wrap_function
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.loss_target import require_flag
from tessella.solvers.solution import Solution

TUNE_MAX_CANDIDATES = 100_000  # candidates


@dataclass(frozen=True, eq=False)
class Tuned:
    """A form with its best parameters.

    Attributes:
        policy: the policy with the best parameters.
        parameters: name to value.
        certificate: what it loses.
        candidates: how many were compared, of which ``evaluated`` to the end.
        skipped: how many took an infeasible action somewhere, or had no loss: with an average,
            several recurrent classes, or with a total, no end.
    """

    policy: Policy
    parameters: dict[str, Any]
    certificate: Certificate = field(repr=False)
    candidates: int
    evaluated: int
    skipped: int

    def __str__(self) -> str:
        parameter_text = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        loss = self.certificate.mean_loss
        worst_loss = self.certificate.worst_loss
        skipped_text = f", {self.skipped:,} infeasible" if self.skipped else ""
        return (
            f"Tuned {self.policy.name}: {parameter_text}; mean loss {float(loss):.6g}, "
            f"worst {float(worst_loss):.6g}\n"
            f"best of {self.candidates:,}, {self.evaluated:,} evaluated to the end{skipped_text}"
        )


def tune(
    solution: Solution,
    form: Callable[..., Any],
    *,
    start: Start = None,
    worst: bool = False,
    **ranges: Iterable,
) -> Tuned:
    """The best parameters of ``form`` within ``ranges``, by mean or by worst loss.

    Args:
        form: a function of axes and parameters that returns actions, vectorised over states.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        worst: compare by the loss of the worst state, not by the mean over the start.
        ranges: parameter name to the values to try; all combinations are.
        solution: of a model.

    Returns:
        The best policy, with its parameters and its certificate.

    Raises:
        ArgumentError: a range is missing or empty, ``form`` takes other arguments, or every
            candidate is infeasible somewhere.

    Example:
        >>> def admit(queue, limit):
        ...     return np.where(queue < limit, 1, 0)
        ...
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> ts.tune(solution, admit, limit=range(20, 30)).parameters
        {'limit': 25}
    """
    require_type("tune", solution, Solution)
    solution.require_values("tune")
    mdp = solution.mdp
    if not callable(form):
        raise ArgumentError("tune needs a function of axes and parameters", value=f"got {form!r}")
    require_flag("worst", worst)
    settings = _list_settings(ranges)
    _check_parameters(form, mdp.grid.axes, ranges)
    distribution = start_distribution(mdp, start, solution.policy, solution.policy_plan)
    evaluator = PolicyEvaluator(solution, distribution, bool(worst))
    tables = [_tabulate_form(solution, form, setting) for setting in settings]
    admissible = [i for i, table in enumerate(tables) if evaluator.is_feasible(table)]
    if not admissible:
        raise ArgumentError("every candidate takes an infeasible action in some state")
    best, n_undefined_loss = _find_best(evaluator, [tables[i] for i in admissible], worst)
    parameters = settings[admissible[best]]
    name = getattr(form, "__name__", "form")
    name = name if name.isidentifier() else "form"  # not that of a lambda
    policy = as_policy(mdp, tables[admissible[best]]).with_name(name)
    certificate = certify(solution, policy, evaluator.start)
    skipped = len(settings) - len(admissible) + n_undefined_loss
    return Tuned(policy, parameters, certificate, len(settings), evaluator.n_evaluated, skipped)


def _list_settings(ranges: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All combinations of the values of the parameters."""
    if not ranges:
        raise ArgumentError("tune needs a range of values for at least one parameter")
    for name, values in ranges.items():
        if not isinstance(values, Iterable) or isinstance(values, str):
            requirement = "a parameter has a range of values to try, such as S=range(2, 9)"
            raise ArgumentError(requirement, value=f"got {name}={values!r}")
    lists = [list(values) for values in ranges.values()]
    count = math.prod(map(len, lists))
    if not 0 < count <= TUNE_MAX_CANDIDATES:
        requirement = f"tune compares 1 to {TUNE_MAX_CANDIDATES:,} combinations of parameters"
        raise ArgumentError(requirement, value=f"got {count:,}")
    return [dict(zip(ranges, values, strict=True)) for values in itertools.product(*lists)]


def _tabulate_form(
    solution: Solution, form: Callable, setting: dict[str, Any]
) -> NDArray[np.int32]:
    """(S,) action indices of the form with these parameters."""
    mdp = solution.mdp
    components = component_names(mdp.actions)
    function = wrap_function(mdp, partial(form, **setting))

    def predict(points: NDArray[np.float64]) -> Any:
        answer = function.predict(points)
        if isinstance(answer, list | tuple) and components:
            return dict(zip(components, answer, strict=False))
        return answer

    rule = replace(function, predict=predict, kind="a form", name="", labels="value")
    try:
        return np.asarray(rule(mdp.grid.points), dtype=np.int32)
    except PolicyError as error:
        values = [f"{name}={value}" for name, value in setting.items()]
        location = ", ".join(filter(None, [*values, error.location]))
        raise ArgumentError(error.requirement, location=location, value=error.value) from error


def _check_parameters(form: Callable, axes: tuple[str, ...], ranges: Mapping[str, Any]) -> None:
    """Check that a form has arguments for all parameters, and none but these and axes."""
    names = signature(form).parameters
    for name in ranges:
        if name not in names:
            raise ArgumentError(f"the form takes no {name!r}", value=f"it takes {', '.join(names)}")
    for name in names:
        if name not in axes and name not in ranges:
            requirement = "a form names axes of the model and parameters that have ranges"
            raise ArgumentError(requirement, value=f"{name!r} is neither")


def _find_best(evaluator: PolicyEvaluator, tables: list[NDArray], worst: bool) -> tuple[int, int]:
    """Which table loses least, and how many were evaluated that have no loss."""
    lower_bounds = evaluator.bound_losses_below(tables)
    best = -1
    lowest_loss = np.inf
    n_undefined_loss = 0
    for i in np.argsort(lower_bounds, kind="stable"):
        if lower_bounds[i] > lowest_loss:
            break
        policy_loss = evaluator.evaluate(tables[i])
        if policy_loss is None:
            n_undefined_loss += 1
            continue
        loss = policy_loss.worst_loss if worst else policy_loss.mean_loss
        if loss < lowest_loss:
            best = int(i)
            lowest_loss = loss
    if best < 0:
        raise ArgumentError("every candidate has several recurrent classes, or may never end")
    return best, n_undefined_loss
