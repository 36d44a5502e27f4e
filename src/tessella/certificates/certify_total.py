"""The certificate of a total, from a solution and a policy.

With V near the optimum, residual r = max|T V - V| and w >= 1 + P_a w for all actions a that are
nearly best (0 where the process has ended), V + c w lies strictly above its backup and V - c w
strictly below, for c above r: along nearly best actions w falls by 1 in each period, and others
lose more than c w can make up for. What rounding and the arrays of a model file may be off is in r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import TotalCertificate
from tessella.certificates.interval import EPS, IntervalArray, enclose_mean
from tessella.certificates.loss import get_finite_value
from tessella.errors import NotConverged
from tessella.mdp.policy import Policy
from tessella.solvers.absorbing import find_absorbing_states
from tessella.solvers.engine import Engine, bound_error, rise
from tessella.solvers.evaluate import evaluate
from tessella.solvers.hitting_times import times_to_the_end
from tessella.solvers.solution import Solution

STEP_RESIDUAL_MULTIPLE = 8.0  # residuals by which the ends of an enclosure move in each period
MIN_RESIDUAL = 1e-290  # in the units of rewards, where nothing is off


class Ends(NamedTuple):
    """A value lies between the two, in every state; (grid) each."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @property
    def band(self) -> IntervalArray:
        return IntervalArray((self.lower + self.upper) / 2, self.lower, self.upper)


def certify_total(solution: Solution, policy: Policy, start: NDArray) -> TotalCertificate:
    """What ``policy`` loses against the best total reward, from ``start`` (grid)."""
    mdp = solution.mdp
    value = get_finite_value(solution)
    plan = solution.policy_plan
    tol = solution.error_bound or None
    evaluation = evaluate(mdp, policy, tol=tol, guess=value, partial=True, plan=plan)
    engine = Engine(plan, absorption_time=1.0)  # whose bounds are those of residuals
    ends = find_absorbing_states(engine)
    best = _enclose_value(engine, ends, value, solution.policy.table, fixed=False)
    own = _enclose_value(engine, ends, evaluation.value, policy.table, fixed=True)
    losses = _enclose_losses(best, own)
    optimal_mean = enclose_mean(start, best.band)
    mean_loss = enclose_mean(start, losses)
    return TotalCertificate(
        start=start,
        optimal_lower=best.lower,
        optimal_upper=best.upper,
        policy_lower=own.lower,
        policy_upper=own.upper,
        optimal_mean=optimal_mean,
        policy_mean=enclose_mean(start, own.band),
        mean_loss=mean_loss,
        worst_loss=losses.max(),
        relative_loss=mean_loss.divide(optimal_mean),
        **TotalCertificate.identify(mdp, policy),
    )


def _enclose_value(
    engine: Engine, ends: NDArray, value: NDArray, table: NDArray, fixed: bool
) -> Ends:
    """The best total, or that of the policy ``table`` where it is ``fixed``."""
    value = np.where(ends, 0.0, value)
    taken = table if fixed else None
    step = STEP_RESIDUAL_MULTIPLE * max(
        bound_error(engine, value, taken, engine.saved_model_error(value)), MIN_RESIDUAL
    )
    time = times_to_the_end(engine, ends, value, table, step, fixed)
    if np.isfinite(time).all():
        result = Ends(value - step * time, value + step * time)
        if _lies_above(engine, ends, result.upper, taken, 1) and _lies_above(
            engine, ends, result.lower, taken, -1
        ):
            return result
    raise NotConverged(
        "the total cannot be certified: policies that are nearly as good may take too long to end"
    )


def _lies_above(
    engine: Engine, ends: NDArray, value: NDArray, taken: NDArray | None, sign: int
) -> bool:
    """Whether ``value`` lies strictly above its backup (below, where ``sign`` is -1)."""
    residual, error = rise(engine, value, taken, engine.saved_model_error(value))
    return bool((ends | (sign * residual < -2 * error)).all())


def _enclose_losses(best: Ends, own: Ends) -> IntervalArray:
    """(grid) V* - V_pi, which is not negative."""
    size = EPS * (np.abs(best.upper) + np.abs(own.upper) + np.abs(best.lower) + np.abs(own.lower))
    upper = np.maximum(best.upper - own.lower, 0.0) + size
    lower = np.maximum(best.lower - own.upper - size, 0.0)
    return IntervalArray(np.clip(best.band.value - own.band.value, lower, upper), lower, upper)
