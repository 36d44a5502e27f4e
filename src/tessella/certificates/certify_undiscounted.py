"""The certificates of an average and of a total, from a solution and a policy.

An average: the solution's own gain is not trusted. For any relative values h, with
d = T h - h, no policy earns more than max d per period in the long run, from whatever state, and
the policy that is greedy at h earns at least min d:

    min d <= gain <= max d,

widened by all rounding, that of writing the model to a file included. With T_pi in the place of T,
both bound what the policy pi earns. So a vector for each of the two encloses gain(pi*) - gain(pi),
from every state, whatever the chains of the model are. A file's rows are off 1 by rounding and are
read as divided by their sums: another r of the rows moves d by r (max h - min h). Where rounding h
leaves the gain too wide, h is found again by elimination, as pairs of floats.

A total: let U be 0 where the process has ended and strictly above its backup elsewhere, U > T U.
Then no policy earns more than U: in n periods it earns at most U(s) - E[U(s_n)] - delta N, with N
the expected periods before the end and delta the smallest distance. If N stays finite, E[U(s_n)]
goes to 0; if not, what is earned falls below every bound. Likewise L < T L is surely earned by the
policy that is greedy at L, and with T_pi in the place of T both bound what the policy pi earns. So
two vectors for each of the two enclose V*(s) - V_pi(s), from every state, whatever other policies
do. They come from V near the optimum, with residual r = max|T V - V|, and w >= 1 + P_a w for all
actions a that are nearly best (0 where the process has ended): V + c w lies strictly above its
backup and V - c w strictly below, for c above r, since along nearly best actions w falls by 1 in
each period, and others lose more than c w can make up for. What rounding and the arrays of a model
file may be off is in r.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate, RelativeValues, ValueBounds
from tessella.certificates.interval import (
    EPS,
    Interval,
    IntervalArray,
    enclose_mean,
)
from tessella.certificates.loss import (
    evaluate_to_optimum_accuracy,
    get_finite_value,
    prepare_for_certificate,
)
from tessella.errors import NotConverged
from tessella.mdp.policy import Policy
from tessella.solvers.absorbing import find_absorbing_states
from tessella.solvers.bounds import bound_error, compute_bellman_residual, enclose_gain
from tessella.solvers.elimination import compute_policy_residuals
from tessella.solvers.hitting_times import bound_absorption_times_by_state
from tessella.solvers.loop import SHARP_GAIN_FRACTION
from tessella.solvers.policy_evaluation import evaluate_prepared
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.solution import Solution

STEP_RESIDUAL_MULTIPLE = 8.0  # residuals by which the ends of an enclosure move in each period
MIN_RESIDUAL = 1e-290  # in the units of rewards, where nothing is off


def certify_average(solution: Solution, policy: Policy) -> Certificate:
    """What ``policy`` loses per period against the best average, from every state."""
    mdp = solution.mdp
    optimal_value = get_finite_value(solution)
    prepared = prepare_for_certificate(solution)
    evaluation = evaluate_to_optimum_accuracy(prepared, optimal_value, policy, "gain")
    optimal_gain, *optimal_pair = _bound_gain(prepared, optimal_value, solution.policy.table, False)
    policy_gain, *policy_pair = _bound_gain(prepared, evaluation.value, policy.table, True)
    loss = _enclose_loss(optimal_gain, policy_gain).max()
    return Certificate(
        optimal_mean=optimal_gain,
        policy_mean=policy_gain,
        mean_loss=loss,
        worst_loss=loss,
        relative_loss=loss.divide(optimal_gain),
        relative_values=RelativeValues(*optimal_pair, *policy_pair),
        **Certificate.identify(mdp, policy),
    )


def _bound_gain(
    prepared: PreparedModel, value: NDArray, table: NDArray, evaluates_policy: bool
) -> tuple[Interval, NDArray, NDArray]:
    """The gain of ``table`` if ``evaluates_policy``, else the best; and values that prove it.

    From nothing but relative values: ``value``, or double-doubles where those prove more.
    """
    actions = table if evaluates_policy else None
    as_given = prepared.mdp.dynamics.rounding.in_memory
    as_saved = prepared.mdp.dynamics.rounding.in_file
    # How far a residual may change when it is computed from the saved model.
    saved_error = 2 * (as_saved.reward_error - as_given.reward_error)
    saved_error += 2 * as_saved.row_error * float(np.ptp(value))
    saved_error *= 1 + 64 * EPS
    gain = Interval.from_error(*enclose_gain(prepared, value, actions, saved_error))
    if gain.width > 2 * SHARP_GAIN_FRACTION * abs(gain):
        extended = compute_policy_residuals(prepared.mdp, prepared.row_sum_bounds.deviation, table)
        if extended is not None:
            high, low = extended.value
            lower, upper = extended.enclose_gain(actions)
            error = _bound_checker_error(prepared, high, max(abs(lower), abs(upper)))
            finer = Interval((lower + upper) / 2, lower - error, upper + error)
            if finer.width < gain.width:
                return finer, high.reshape(value.shape), low.reshape(value.shape)
    return gain, value, np.zeros_like(value)


def _bound_checker_error(prepared: PreparedModel, value: NDArray, largest_residual: float) -> float:
    """At least the error that the checker allows for the file's arrays and its own arithmetic."""
    dynamics = prepared.mdp.dynamics
    size = largest_residual + 4 * float(np.abs(value).max())
    second_order = (dynamics.longest_row + 64) ** 2 * EPS
    rounding = EPS * (8 * prepared.row_sum_bounds.deviation + second_order) * size
    row_error = dynamics.rounding.in_file.row_error * float(np.ptp(value))
    return 2 * (
        dynamics.rounding.in_file.reward_error + row_error + rounding + 8 * EPS * largest_residual
    )


def certify_total(solution: Solution, policy: Policy, start: NDArray) -> Certificate:
    """What ``policy`` loses against the best total reward, from ``start`` (grid)."""
    mdp = solution.mdp
    value = get_finite_value(solution)
    prepared = prepare_for_certificate(
        solution, absorption_time=1.0
    )  # whose bounds are those of residuals
    evaluation = evaluate_prepared(prepared, policy, value, partial=True)
    absorbing = find_absorbing_states(prepared)
    optimal_value = _enclose_value(
        prepared, absorbing, value, solution.policy.table, evaluates_policy=False
    )
    policy_value = _enclose_value(
        prepared, absorbing, evaluation.value, policy.table, evaluates_policy=True
    )
    losses = _enclose_loss(optimal_value, policy_value)
    optimal_mean = enclose_mean(start, optimal_value)
    mean_loss = enclose_mean(start, losses)
    return Certificate(
        start=start,
        optimal_mean=optimal_mean,
        policy_mean=enclose_mean(start, policy_value),
        mean_loss=mean_loss,
        worst_loss=losses.max(),
        relative_loss=mean_loss.divide(optimal_mean),
        value_bounds=ValueBounds(
            optimal_value.lower, optimal_value.upper, policy_value.lower, policy_value.upper
        ),
        **Certificate.identify(mdp, policy),
    )


def _enclose_value(
    prepared: PreparedModel,
    absorbing: NDArray,
    value: NDArray,
    table: NDArray,
    evaluates_policy: bool,
) -> IntervalArray:
    """The best total, or that of the policy ``table`` if ``evaluates_policy``."""
    value = np.where(absorbing, 0.0, value)
    actions = table if evaluates_policy else None
    step = STEP_RESIDUAL_MULTIPLE * max(bound_error(prepared, value, actions), MIN_RESIDUAL)
    time = bound_absorption_times_by_state(
        prepared, absorbing, value, table, step, evaluates_policy
    )
    if np.isfinite(time).all():
        lower = value - step * time
        upper = value + step * time
        is_upper = _is_strict_bound(prepared, absorbing, upper, actions, 1)
        if is_upper and _is_strict_bound(prepared, absorbing, lower, actions, -1):
            return IntervalArray((lower + upper) / 2, lower, upper)
    raise NotConverged(
        "the total cannot be certified: policies that are nearly as good may take too long to end"
    )


def _is_strict_bound(
    prepared: PreparedModel, absorbing: NDArray, value: NDArray, actions: NDArray | None, sign: int
) -> bool:
    """Whether ``value`` is strictly above its backup (``sign`` 1), or strictly below it (-1)."""
    residual, error = compute_bellman_residual(prepared, value, actions)
    return bool((absorbing | (sign * residual < -2 * error)).all())


def _enclose_loss(
    optimal: Interval | IntervalArray, policy: Interval | IntervalArray
) -> IntervalArray:
    """What the policy loses against the best, which is not negative; shaped as these are."""
    loss = np.subtract(optimal.parts[0], policy.parts[0])
    least = np.subtract(optimal.lower, policy.upper)
    most = np.subtract(optimal.upper, policy.lower)
    if (most < 0).any():
        raise ArithmeticError("internal error: a policy earns more than the best")
    lower = np.maximum(least - 2 * EPS * np.abs(least), 0.0)
    upper = most + 2 * EPS * most
    return IntervalArray(np.clip(loss, lower, upper), lower, upper)
