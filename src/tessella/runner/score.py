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
from tessella.errors import StudyError, TessellaError, require_type
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.runner.measure import find_measure
from tessella.runner.methods.method import Fit
from tessella.runner.record import METRICS, InformationBudget, Record, format_exception
from tessella.runner.spec import Spec
from tessella.solvers.solution import Solution

COUNT_LIMIT = 2**63  # beyond the largest count


def score(solution: Solution, specs: Sequence[Spec], fits: Sequence[Fit]) -> tuple[Record, ...]:
    """One record for each spec and its fit; policies that are equal are evaluated once."""
    loss_of = cache(partial(_state_loss, solution))

    def record(spec: Spec, fit: Fit) -> Record:
        try:
            return _evaluate_fit(solution, loss_of, spec, check_fit(fit, solution.mdp))
        except TessellaError as error:
            return Record(spec, reason=str(error))
        except Exception as error:  # whatever the parts of a fit may do when they are read
            return Record(spec, reason=format_exception(error))

    return tuple(record(spec, fit) for spec, fit in zip(specs, fits, strict=True))


def check_fit(fit: Fit, mdp: MDP) -> Fit:
    """The same as a policy and plain numbers, or an error that says what of it makes no sense."""
    require_type("a run", fit, Fit)
    require_type("a fit", fit.information, InformationBudget)
    counts = {
        part.name: _require_count(getattr(fit.information, part.name), part.name)
        for part in fields(InformationBudget)
    }
    seconds = fit.seconds
    if not isinstance(seconds, Real) or not 0 <= seconds < math.inf:
        requirement = "the seconds of a fit must be a number, finite and not negative"
        raise StudyError(requirement, value=f"got {_format_brief(seconds)}")
    policy = mdp.policy(fit.policy)
    _require_count(policy.size, "size")
    return Fit(policy, InformationBudget(**counts), float(seconds))


def _require_count(value: object, name: str) -> int:
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and 0 <= value < COUNT_LIMIT
    ):
        return int(value)
    requirement = f"the {name.replace('_', ' ')} of a fit must be a whole number from 0 to 2^63 - 1"
    raise StudyError(requirement, value=f"got {_format_brief(value)}")


def _format_brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


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
            raise StudyError(
                "the figures of a run must be finite", location=name, value=f"is {figure}"
            )
    return Record(
        spec,
        **figures,
        size=int(fit.policy.size),
        information=fit.information,
        seconds=fit.seconds,
        actions=actions,
        measures=_compute_measures(solution, spec, fit.policy),
    )


def _compute_measures(solution: Solution, spec: Spec, policy: Policy) -> dict[str, float]:
    named_policy = policy.renamed(spec.method)
    return {name: find_measure(name)(solution, named_policy) for name in spec.measures}


def _state_loss(solution: Solution, actions: tuple[int, ...]) -> NDArray[np.float64]:
    """(S,) V* - V_pi."""
    return loss(solution, np.reshape(actions, solution.mdp.grid.shape)).by_state.ravel()
