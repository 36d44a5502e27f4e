"""The certificate of an average, from a solution and a policy.

Nothing that the solution says of its gain is believed. With d = T h - h at its relative values h,

    min d <= gain <= max d,

widened by all rounding, that of writing the model to a file included. A file's rows are off 1 by
rounding and are read as divided by their sums: another r of the rows moves d by r (max h - min h).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.gain_certificate import GainCertificate
from tessella.certificates.interval import EPS, Interval, next_down, next_up
from tessella.errors import ArgumentError, PolicyError
from tessella.mdp.policy import Policy
from tessella.solvers.evaluate import evaluate
from tessella.solvers.loop import Engine, enclose_gain
from tessella.solvers.solution import Solution


def certify_average(solution: Solution, policy: Policy) -> GainCertificate:
    """What ``policy`` loses per period against the best average, from every state."""
    mdp = solution.mdp
    optimal_value = np.asarray(solution.value, dtype=float)
    if optimal_value.shape != mdp.grid.shape or not np.isfinite(optimal_value).all():
        requirement = f"a solution's value must be finite, of shape {mdp.grid.shape}"
        raise ArgumentError(requirement)
    evaluation = evaluate(
        mdp, policy, tol=solution.error_bound or None, guess=optimal_value, partial=True
    )
    if not np.isfinite(evaluation.error_bound):
        raise PolicyError("the policy's gain must be finite", value=evaluation.reason)
    engine = Engine(mdp, None)
    optimal_gain = _bound_gain(engine, optimal_value)
    policy_gain = _bound_gain(engine, evaluation.value, policy.table)
    loss = _enclose_loss(optimal_gain, policy_gain)
    return GainCertificate(
        model=mdp.name,
        fingerprint=mdp.fingerprint,
        minimise=mdp.minimise,
        action_name=mdp.action_name,
        policy=policy,
        optimal_value=optimal_value,
        policy_value=evaluation.value,
        optimal_gain=optimal_gain,
        policy_gain=policy_gain,
        loss=loss,
        relative_loss=loss.divide(optimal_gain),
        mdp=mdp,
    )


def _bound_gain(engine: Engine, value: NDArray, actions: NDArray | None = None) -> Interval:
    """The best gain, or a policy's, from the relative values ``value`` alone."""
    return Interval.from_error(
        *enclose_gain(engine, value, actions, _bound_saved_model_error(engine, value))
    )


def _bound_saved_model_error(engine: Engine, value: NDArray) -> float:
    """How far a residual at ``value`` may be off by the arrays of a model file, and they off."""
    as_given, as_saved = (
        engine.mdp.dynamics.rounding_as_given,
        engine.mdp.dynamics.rounding_as_saved,
    )
    row_error = 2 * as_saved.rows * float(value.max() - value.min())
    return (2 * (as_saved.reward - as_given.reward) + row_error) * (1 + 64 * EPS)


def _enclose_loss(optimal_gain: Interval, policy_gain: Interval) -> Interval:
    """gain(pi*) - gain(pi), which is not negative."""
    lower = max(next_down(optimal_gain.lower - policy_gain.upper), 0.0)
    upper = next_up(optimal_gain.upper - policy_gain.lower)
    if not lower <= upper:
        raise ArithmeticError(
            f"a policy earns more than the best: {policy_gain!r} and {optimal_gain!r}"
        )
    return Interval(min(max(optimal_gain - policy_gain, lower), upper), lower, upper)
