"""The certificate of an average, from a solution and a policy.

Nothing that the solution says of its gain is believed. With d = T h - h at its relative values h,

    min d <= gain <= max d,

widened by all rounding, that of writing the model to a file included. A file's rows are off 1 by
rounding and are read as divided by their sums: another r of the rows moves d by r (max h - min h).
Where rounding h leaves the gain too wide, h is found again by elimination, as pairs of floats.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import AverageCertificate
from tessella.certificates.interval import EPS, Interval, next_down, next_up
from tessella.certificates.loss import evaluate_against, get_finite_value
from tessella.mdp.policy import Policy
from tessella.solvers.elimination import compute_rises_in_pairs
from tessella.solvers.engine import Engine, enclose_gain
from tessella.solvers.loop import SHARP_GAIN_FRACTION
from tessella.solvers.solution import Solution


def certify_average(solution: Solution, policy: Policy) -> AverageCertificate:
    """What ``policy`` loses per period against the best average, from every state."""
    mdp = solution.mdp
    optimal_value = get_finite_value(solution)
    evaluation = evaluate_against(solution, policy, "gain")
    engine = Engine(solution.policy_plan)
    optimal_gain, *optimal_pair = _bound_gain(engine, optimal_value, solution.policy.table, False)
    policy_gain, *policy_pair = _bound_gain(engine, evaluation.value, policy.table, True)
    loss = _enclose_loss(optimal_gain, policy_gain)
    return AverageCertificate(
        optimal_value=optimal_pair[0],
        optimal_value_rest=optimal_pair[1],
        policy_value=policy_pair[0],
        policy_value_rest=policy_pair[1],
        optimal_gain=optimal_gain,
        policy_gain=policy_gain,
        mean_loss=loss,
        worst_loss=loss,
        relative_loss=loss.divide(optimal_gain),
        **AverageCertificate.identify(mdp, policy),
    )


def _bound_gain(
    engine: Engine, value: NDArray, table: NDArray, fixed: bool
) -> tuple[Interval, NDArray, NDArray]:
    """The gain of ``table`` if that is ``fixed``, else the best; and relative values that prove it.

    From nothing but relative values: ``value``, or pairs where those prove more.
    """
    actions = table if fixed else None
    extra = _bound_saved_model_error(engine, value)
    gain = Interval.from_error(*enclose_gain(engine, value, actions, extra))
    if gain.width > 2 * SHARP_GAIN_FRACTION * abs(gain):
        found = compute_rises_in_pairs(engine.mdp, engine.row_sum_bounds.deviation, table)
        if found is not None:
            (high, low), ends = found.value, found.enclose_gain(actions)
            error = _bound_checker_error(engine, high, max(map(abs, ends)))
            finer = Interval(sum(ends) / 2, ends[0] - error, ends[1] + error)
            if finer.width < gain.width:
                return finer, high.reshape(value.shape), low.reshape(value.shape)
    return gain, value, np.zeros_like(value)


def _bound_checker_error(engine: Engine, value: NDArray, largest_rise: float) -> float:
    """At least what the stand-alone checker counts for the file's arrays and its own arithmetic."""
    dynamics = engine.mdp.dynamics
    size = largest_rise + 4 * float(np.abs(value).max())
    second_order = (dynamics.longest_row + 64) ** 2 * EPS
    rounding = EPS * (8 * engine.row_sum_bounds.deviation + second_order) * size
    row_error = dynamics.rounding_as_saved.rows * float(np.ptp(value))
    return 2 * (dynamics.rounding_as_saved.reward + row_error + rounding + 8 * EPS * largest_rise)


def _bound_saved_model_error(engine: Engine, value: NDArray) -> float:
    """How far a residual at ``value`` may be off by the arrays of a model file, and they off."""
    as_given = engine.mdp.dynamics.rounding_as_given
    as_saved = engine.mdp.dynamics.rounding_as_saved
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
