"""The certificate of an average, from a solution and a policy.

Nothing that the solution says of its gain is believed. With d = T h - h at its relative values h,

    min d <= gain <= max d,

widened by all rounding, that of writing the model to a file included. A file's rows are off 1 by
rounding and are read as divided by their sums: another r of the rows moves d by r (max h - min h).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.enclosure import EPS, Enclosed, down, up
from tessella.certificates.gain_certificate import GainCertificate
from tessella.errors import ArgumentError, PolicyError
from tessella.mdp.policy import Policy
from tessella.solvers.driver import Engine, enclose_gain
from tessella.solvers.evaluate import evaluate
from tessella.solvers.solution import Solution


def certify_gains(solution: Solution, policy: Policy) -> GainCertificate:
    """What ``policy`` loses per period against the best average, from every state."""
    mdp = solution.mdp
    best = np.asarray(solution.value, dtype=float)
    if best.shape != mdp.grid.shape or not np.isfinite(best).all():
        rule = f"a solution's value must be finite, of shape {mdp.grid.shape}"
        raise ArgumentError(rule)
    worth = evaluate(mdp, policy, tol=solution.error_bound or None, guess=best, partial=True)
    if not np.isfinite(worth.error_bound):
        raise PolicyError("the policy's gain must be finite", value=worth.reason)
    engine = Engine(mdp, None)
    optimal_gain = _gain(engine, best)
    policy_gain = _gain(engine, worth.value, policy.table)
    loss = _difference(optimal_gain, policy_gain)
    return GainCertificate(
        model=mdp.name,
        fingerprint=mdp.fingerprint,
        minimise=mdp.minimise,
        action_name=mdp.action_name,
        policy=policy,
        optimal_value=best,
        policy_value=worth.value,
        optimal_gain=optimal_gain,
        policy_gain=policy_gain,
        loss=loss,
        relative_loss=loss.over(optimal_gain),
        mdp=mdp,
    )


def _gain(engine: Engine, value: NDArray, table: NDArray | None = None) -> Enclosed:
    """The best gain, or a policy's, from the relative values ``value`` alone."""
    return Enclosed.of(*enclose_gain(engine, value, table, _written(engine, value)))


def _written(engine: Engine, value: NDArray) -> float:
    """How far a residual at ``value`` may be off by the arrays of a model file, and they off."""
    stored, written = engine.mdp.dynamics.stored, engine.mdp.dynamics.written
    rows = 2 * written.rows * float(value.max() - value.min())
    return (2 * (written.reward - stored.reward) + rows) * (1 + 64 * EPS)


def _difference(best: Enclosed, worth: Enclosed) -> Enclosed:
    """gain(pi*) - gain(pi), which is not negative."""
    lower = max(down(best.lower - worth.upper), 0.0)
    upper = up(best.upper - worth.lower)
    if not lower <= upper:
        raise ArithmeticError(f"a policy earns more than the best: {worth!r} and {best!r}")
    return Enclosed(min(max(best - worth, lower), upper), lower, upper)
