"""tune(solution, form, S=range(...)) -> Tuned: the best parameters of a form that the user brings.

A form is a function of axes and parameters that gives the action, as ``certify`` takes functions of
axes: ``form(stock, S)``. All candidates are compared in one batch. In a small model their losses
are first bounded from below, by sweeps of all of them together,

    L_0 = gap_pi,   L_{n+1} = gap_pi + discount P_pi L_n  <=  L,

and then found exactly in the order of these bounds, until the next bound exceeds the best loss: so
the best is the best of all, though few are evaluated to the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.gain_certificate import GainCertificate
from tessella.certificates.total_certificate import TotalCertificate
from tessella.criteria.criterion import serve
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import ArgumentError, TessellaError, expect
from tessella.mdp.actions import components
from tessella.mdp.as_policy import as_policy
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.rules.judge import Judge
from tessella.rules.promise import refuse_no_flag
from tessella.solvers.solution import Solution

MOST = 100_000  # candidates
BATCH = 64
NUMBERS = "a form must give numbers or names"


@dataclass(frozen=True, eq=False)
class Tuned:
    """A form with its best parameters.

    Attributes:
        policy: the policy with the best parameters.
        parameters: name to value.
        certificate: what it loses.
        candidates: how many were compared, of which ``evaluated`` to the end.
        skipped: how many took an infeasible action somewhere.
    """

    policy: Policy
    parameters: dict[str, Any]
    certificate: Certificate | GainCertificate | TotalCertificate = field(repr=False)
    candidates: int
    evaluated: int
    skipped: int

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        loss = self.certificate.mean_loss
        text = f"Tuned {self.policy.name}: {named}; mean loss {float(loss):.6g}, "
        text += f"worst {float(self.certificate.worst_loss):.6g}\n"
        left = f", {self.skipped:,} infeasible" if self.skipped else ""
        return text + f"best of {self.candidates:,}, {self.evaluated:,} evaluated to the end{left}"


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
    """
    expect("tune", solution, Solution)
    mdp = solution.mdp
    serve("tune", mdp.criterion, Discounted, FiniteHorizon)
    if not callable(form):
        raise ArgumentError("tune needs a function of axes and parameters", value=f"got {form!r}")
    refuse_no_flag("worst", worst)
    if not ranges:
        raise ArgumentError("tune needs a range of values for at least one parameter")
    values = {name: _range(name, given) for name, given in ranges.items()}
    count = math.prod(len(v) for v in values.values())
    if not 0 < count <= MOST:
        rule = f"tune compares 1 to {MOST:,} combinations of parameters"
        raise ArgumentError(rule, value=f"got {count:,}")
    settings = [dict(zip(values, c, strict=True)) for c in itertools.product(*values.values())]
    judge = Judge(solution, start_distribution(mdp, start, solution.policy), bool(worst))
    tables = [_table(solution, form, setting) for setting in settings]
    kept = [i for i, table in enumerate(tables) if judge.fits(table)]
    if not kept:
        raise ArgumentError("every candidate takes an infeasible action in some state")
    best = _best(judge, [tables[i] for i in kept], worst)
    chosen = settings[kept[best]]
    name = getattr(form, "__name__", "form")
    name = name if name.isidentifier() else "form"  # not that of a lambda
    policy = as_policy(mdp, tables[kept[best]]).called(name)
    proof = certify(solution, policy, judge.start)
    skipped = count - len(kept)
    return Tuned(policy, chosen, proof, count, judge.count, skipped)


def _table(solution: Solution, form: Callable, setting: dict[str, Any]) -> NDArray[np.int32]:
    """(S,) action indices of the form with these parameters."""
    mdp = solution.mdp

    def bound(**axes: Any) -> Any:
        return form(**axes, **setting)

    bound.__name__ = getattr(form, "__name__", "form")
    names = mdp.grid.axes
    coordinates = mdp.grid.values_at(mdp.grid.points)
    wanted = {name: coordinates[name] for name in _wanted(form, names, setting)}
    at = ", ".join(f"{name}={value}" for name, value in setting.items())
    try:
        answers = bound(**wanted)
    except TessellaError:
        raise
    except Exception as error:
        rule = "a form must give an action for every state"
        told = f"it raised {type(error).__name__}: {error}"
        raise ArgumentError(rule, place=at, value=told) from error
    return _named(mdp.actions, _spread(answers, mdp.n_states, components(mdp.actions), at))


def _wanted(form: Callable, names: tuple[str, ...], setting: dict[str, Any]) -> list[str]:
    """The axes that a form asks for."""
    from inspect import signature

    asked = list(signature(form).parameters)
    strange = [name for name in asked if name not in names and name not in setting]
    if strange:
        rule = "a form names axes of the model and parameters that have ranges"
        raise ArgumentError(rule, value=f"{strange[0]!r} is neither")
    return [name for name in asked if name in names]


def _spread(answers: Any, n_states: int, parts: tuple[str, ...], at: str) -> NDArray:
    """(S,) answers, or (S, components) of actions that have some: a column for each."""
    if isinstance(answers, Mapping):
        answers = [answers.get(name, np.nan) for name in parts]
    given = [*answers] if isinstance(answers, list | tuple) and parts else [answers]
    try:
        columns = [np.broadcast_to(np.asarray(column), (n_states,)) for column in given]
    except ValueError:
        rule = f"a form must give one action for each of {n_states:,} states"
        shapes = ", ".join(str(np.shape(column)) for column in given)
        raise ArgumentError(rule, place=at, value=f"got shape {shapes}") from None
    if len(columns) != max(len(parts), 1) or any(c.dtype.kind not in "biufU" for c in columns):
        rule = f"a form must give a dict of {', '.join(parts)}" if parts else NUMBERS
        raise ArgumentError(rule, place=at, value=f"got {type(answers).__name__}")
    made = np.empty(n_states, dtype=[(str(k), c.dtype) for k, c in enumerate(columns)])
    for k, column in enumerate(columns):
        made[str(k)] = column
    return made


def _named(actions: tuple, answers: NDArray) -> NDArray[np.int32]:
    """(S,) indices of the actions with these components."""
    distinct, which = np.unique(answers, return_inverse=True)
    alone = len(answers.dtype.names or ()) == 1
    at = {(action,) if alone else tuple(action): i for i, action in enumerate(actions)}
    strange = [value for value in distinct.tolist() if tuple(value) not in at]
    if strange:
        rule = f"a form must give one of the actions {', '.join(map(str, actions))}"
        told = strange[0][0] if alone else tuple(strange[0])
        raise ArgumentError(rule, value=f"got {told}")
    found = np.array([at[tuple(value)] for value in distinct.tolist()], dtype=np.int32)
    return found[which.ravel()]


def _range(name: str, given: Any) -> list:
    """The values of a parameter."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        rule = "a parameter has a range of values to try, such as S=range(2, 9)"
        raise ArgumentError(rule, value=f"got {name}={given!r}")
    return list(given)


def _best(judge: Judge, tables: list[NDArray], worst: bool) -> int:
    """Which table loses least."""
    floors = _floors(judge, tables, worst)
    best, least = 0, np.inf
    for i in np.argsort(floors, kind="stable"):
        if floors[i] > least:
            break
        judged = judge(tables[i])
        loss = judged.worst if worst else judged.mean
        if loss < least:
            best, least = int(i), loss
    return best


def _floors(judge: Judge, tables: list[NDArray], worst: bool) -> NDArray[np.float64]:
    """(B,) lower bounds on the losses; of a large model, the first terms."""
    if not judge.small:
        everyone = np.arange(judge.mdp.n_states)
        gaps = [judge.gap[everyone, table] for table in tables]
        return np.array([g.max() if worst else judge.start @ g for g in gaps])
    parts = [tables[i : i + BATCH] for i in range(0, len(tables), BATCH)]
    return np.concatenate([judge.floors(np.stack(part), worst) for part in parts])
