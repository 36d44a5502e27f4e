"""Averages per period, and totals until the end."""

import numpy as np

from .arithmetic import EPS, dot, max_abs, next_down, next_up, sum_products, two_sum
from .claim import (
    AverageClaim,
    Rejected,
    TotalClaim,
    check_interval,
    check_relative_loss,
    check_start,
    reject_states,
)
from .model import AVERAGE_MAX_ROW_ERROR, Model

NOT_JUDGED = "single decisions are not evaluated"


def check_average(claim: AverageClaim, model: Model) -> str:
    """Both gains, and what follows for the loss per period; returns a remark."""
    stated = claim.relative_values
    value, rest = two_sum(stated.optimal_value, stated.optimal_value_rest)
    residuals = compute_gain_residuals(model, value, rest).max(axis=1)
    check_gain("optimal", claim.optimal_mean, model, value, residuals)
    value, rest = two_sum(stated.policy_value, stated.policy_value_rest)
    residuals = model.select_actions(compute_gain_residuals(model, value, rest), claim.policy.table)
    check_gain("policy", claim.policy_mean, model, value, residuals)
    g = claim.optimal_mean
    g_pi = claim.policy_mean
    lower = max(g[1] - g_pi[2], 0.0)
    upper = g[2] - g_pi[1]
    loss = [np.clip(g[0] - g_pi[0], lower, max(lower, upper)), lower, upper]
    check_interval("mean_loss", claim.mean_loss, loss, 8 * EPS * max_abs([g, g_pi]), EPS / 2)
    check_interval("worst_loss", claim.worst_loss, claim.mean_loss, 0, 0)
    check_relative_loss(claim.relative_loss, claim.mean_loss, g)
    return NOT_JUDGED


def compute_gain_residuals(model: Model, value: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """(S, A) r + P h - h with each row divided by its sum, 1 + excess; -inf if infeasible.

    h = value + rest, where the rest is no more than rounding value takes off.
    """
    expected, expected_rest = (
        np.sum(sum_products(model.entry_row, model.n_rows, model.data, x[model.indices]), axis=0)
        for x in (value, rest)
    )
    # It may be off by 8 EPS of itself.
    excess = (expected + expected_rest) * (model.row_excess / (1 + model.row_excess))
    correction = (expected_rest - excess)[model.row_of] - rest[:, None]
    return model.compute_residuals(value) + correction


def check_gain(
    name: str, gain: np.ndarray, model: Model, value: np.ndarray, residuals: np.ndarray
) -> None:
    """min d <= gain <= max d, widened by the errors of the arrays and of this arithmetic."""
    d = residuals
    center, lower, upper = gain
    if not lower <= center <= upper:
        raise Rejected(f"{name}_mean does not lie between its own ends")
    size = max_abs(d) + 4 * max_abs(value)  # |r| <= |d| + 2 max|h|, of the actions that decide d
    row_excess = float(np.abs(model.row_excess).max())
    error = model.reward_error + model.row_error * np.ptp(value) / (1 - model.row_error)
    error += size * EPS * (8 * row_excess + (model.longest_row + 64) ** 2 * EPS)
    error = error * (1 + 16 * EPS) + 8 * EPS * max_abs(d) + model.bound_underflow(value)
    reason = f"and relative_values.{name}_value does not prove it"
    subject = f"{name}_mean.lower is {lower:.12g}, {reason}"
    reject_states(model, ~(d - error >= lower), subject)
    subject = f"{name}_mean.upper is {upper:.12g}, {reason}"
    reject_states(model, ~(d + error <= upper), subject)


def check_total(claim: TotalClaim, model: Model) -> str:
    """Both values, and what follows for the loss until the end; returns a remark."""
    stated = claim.value_bounds
    value_bounds = vars(stated)
    check_start(claim.start, model)
    for name, value in value_bounds.items():
        check_value_bound(name, value, claim.policy.table, model)
    size = np.sum([np.abs(end) for end in value_bounds.values()], axis=0)
    start = claim.start
    rounding = model.rounding * dot(start, size)
    optimal_value = enclose_value(stated.optimal_lower, stated.optimal_upper)
    policy_value = enclose_value(stated.policy_lower, stated.policy_upper)
    optimal_mean = [dot(start, part) for part in optimal_value]
    policy_mean = [dot(start, part) for part in policy_value]
    check_interval("optimal_mean", claim.optimal_mean, optimal_mean, rounding)
    check_interval("policy_mean", claim.policy_mean, policy_mean, rounding)
    lower = np.maximum(next_down(optimal_value[1] - policy_value[2]), 0.0)
    upper = np.maximum(next_up(optimal_value[2] - policy_value[1]), lower)
    losses = np.clip(optimal_value[0] - policy_value[0], lower, upper), lower, upper
    error = 8 * EPS * size
    mean_loss = [dot(start, part) for part in losses]
    check_interval("mean_loss", claim.mean_loss, mean_loss, rounding + dot(start, error))
    worst_loss = [part.max() for part in losses]
    check_interval("worst_loss", claim.worst_loss, worst_loss, error.max(), 0.0)
    check_relative_loss(claim.relative_loss, claim.mean_loss, claim.optimal_mean)
    return NOT_JUDGED


def check_value_bound(bound: str, value: np.ndarray, table: np.ndarray, model: Model) -> None:
    """An upper bound lies above its backup, a lower bound below it, except in absorbing states."""
    name, side = bound.split("_")
    path = f"value_bounds.{bound}"
    is_absorbing = find_absorbing_states(model)
    residuals = model.compute_residuals(value)
    is_optimum = name == "optimal"
    residuals = residuals.max(axis=1) if is_optimum else model.select_actions(residuals, table)
    distance = -residuals if side == "upper" else residuals
    reject_states(
        model, is_absorbing & (value != 0), f"{path} must be 0 where the process has ended"
    )
    is_proven = distance * (1 - 8 * EPS) > bound_backup_error(model, value)
    reject_states(
        model, ~(is_absorbing | is_proven), f"{path} does not prove an end of the {name} value"
    )


def enclose_value(
    lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (lower + upper) / 2, lower, upper


def find_absorbing_states(model: Model) -> np.ndarray:
    """(S,) states that no feasible action leaves, and where none pays."""
    is_positive = model.data > 0
    row = model.entry_row[is_positive]
    count = np.bincount(row, minlength=model.n_rows)
    target = np.full(len(count), -1)  # the only one, where a row has no other
    target[row] = model.indices[is_positive]
    row = model.row_of
    stays = (count[row] == 1) & (target[row] == np.arange(model.n_states)[:, None])
    stays &= (np.abs(model.row_excess[row]) < AVERAGE_MAX_ROW_ERROR) & (model.reward == 0)
    return (stays | (model.feasible == 0)).all(axis=1)


def bound_backup_error(model: Model, value: np.ndarray) -> float:
    """What the model's arrays, rows that are off 1 by rounding and this arithmetic may do."""
    excess = np.abs(model.row_excess)
    row_error = model.row_error + float(excess[excess < AVERAGE_MAX_ROW_ERROR].max(initial=0.0))
    size = model.max_reward + 2 * max_abs(value)
    error = model.reward_error + row_error * max_abs(value)
    error += size * (model.longest_row + 64) ** 2 * EPS**2
    return error * (1 + 16 * EPS) + model.bound_underflow(value)
