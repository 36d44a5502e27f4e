"""score(solution, specs, fits) -> Records: every policy against the optimum, none by its method.

A method may be anybody's, so what it gives back is checked first: a policy of the model, counts
(its size among them) that are whole, not negative and below 2^63 (what the store holds), a time
that is a number. A fit that fails here is a failed record with the reason, and the others of its
batch go on. A record holds the policy's table; measures are given the policy itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, partial
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.loss import loss
from tessella.errors import StudyError, TessellaError, expect
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.runner.measure import measure_by_name
from tessella.runner.methods.method import Fit
from tessella.runner.record import FIGURES, Record, Told, said
from tessella.runner.spec import Spec
from tessella.solvers.solution import Solution

COUNT = 2**63  # beyond the largest count


def score(solution: Solution, specs: Sequence[Spec], fits: Sequence[Fit]) -> tuple[Record, ...]:
    """One record for each spec and its fit; policies that are equal are evaluated once."""
    loss_of = cache(partial(_loss, solution))

    def record(spec: Spec, fit: Fit) -> Record:
        try:
            return _measured(solution, loss_of, spec, checked(fit, solution.mdp))
        except TessellaError as error:
            return Record(spec, reason=str(error))
        except Exception as error:  # whatever the parts of a fit may do when they are looked at
            return Record(spec, reason=said(error))

    return tuple(record(spec, fit) for spec, fit in zip(specs, fits, strict=True))


def checked(fit: Fit, mdp: MDP) -> Fit:
    """The same as a policy and plain numbers, or an error that says what of it makes no sense."""
    expect("a run", fit, Fit)
    expect("a fit", fit.told, Told)
    told = {part.name: _count(getattr(fit.told, part.name), part.name) for part in fields(Told)}
    seconds = fit.seconds
    if not isinstance(seconds, Real) or not 0 <= seconds < math.inf:
        rule = "the seconds of a fit must be a number, finite and not negative"
        raise StudyError(rule, value=f"got {_brief(seconds)}")
    policy = mdp.policy(fit.policy)
    _count(policy.size, "size")
    return Fit(policy, Told(**told), float(seconds))


def _count(value: object, name: str) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < COUNT:
        return int(value)
    rule = f"the {name.replace('_', ' ')} of a fit must be a whole number from 0 to 2^63 - 1"
    raise StudyError(rule, value=f"got {_brief(value)}")


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _measured(
    solution: Solution, loss_of: Callable[..., NDArray[np.float64]], spec: Spec, fit: Fit
) -> Record:
    mdp, actions = solution.mdp, fit.policy.table.ravel()
    q = solution.q.reshape(mdp.n_states, mdp.n_actions)
    local = q.max(axis=1) - q[np.arange(mdp.n_states), actions]
    lost = loss_of(tuple(actions.tolist()))
    found = (
        (actions != solution.policy.table.ravel()).mean(),
        mdp.criterion.forever(local.mean()),
        lost.mean() if mdp.start is None else mdp.start @ lost,
        lost.max(),
    )
    figures = dict(zip(FIGURES, map(float, found), strict=True))
    for name, figure in figures.items():
        if not math.isfinite(figure):
            raise StudyError(
                "the figures of a run must be finite", place=name, value=f"is {figure}"
            )
    return Record(
        spec,
        **figures,
        size=int(fit.policy.size),
        told=fit.told,
        seconds=fit.seconds,
        actions=actions,
        measures=_measures(solution, spec, fit.policy),
    )


def _measures(solution: Solution, spec: Spec, policy: Policy) -> dict[str, float]:
    called = policy.called(spec.method)
    return {name: measure_by_name(name)(solution, called) for name in spec.measures}


def _loss(solution: Solution, actions: tuple[int, ...]) -> NDArray[np.float64]:
    """(S,) V* - V_pi."""
    return loss(solution, np.reshape(actions, solution.mdp.grid.shape)).by_state.ravel()
