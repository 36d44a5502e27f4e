"""The paper's bounds on the loss of a policy, and its decomposition by state.

With R the largest |r(s, a)| over feasible pairs, d the discounted occupancy of pi, D the margin,
B_eps = {D <= eps} and K = 2 R / ((1 - discount) (1 - c)), with c the discount times the largest row
sum (the paper's K = 2 R / (1 - discount)^2 where rows sum to 1):

    policy error   J* - J <= K d{pi != pi*}
    localisation   J* - J <= K d(B_eps)                  if pi = pi* outside B_eps
    rate           J* - J <= K C eps^alpha               if also d(B_eps) <= C eps^alpha
    second best    J* - J  = sum d D 1{pi != pi*} / (1 - discount)  and, with the rate's premises,
                   J* - J <= C eps^(alpha + 1) / (1 - discount)  if every error takes the
                   second-best action, as with two actions

Premises are checked, with what is certain about margins and choices, and reported.

By the policy-loss decomposition, J(pi*) - J(pi) is the sum over states of

    c(s) = d(s) l(s) / (1 - discount),

with d the discounted occupancy of pi and l its local loss. Sums of c over groups of states show the
loss by region (what would be optimal), by action pair (optimal and taken) and by face: the boundary
between two optimal actions that is nearest to the state, in grid steps. If d is off by at most
``error`` in all, a group's sum of d l is off by at most ``error max l`` over the group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.decisions import Decisions
from tessella.certificates.interval import (
    EPS,
    Interval,
    IntervalArray,
    enclose_mean,
    enclose_weight,
    next_down,
    next_up,
)
from tessella.solvers.policy_evaluation import Occupancy

RATE_MAX_EXPONENT = 8.0  # margins in a narrow band would otherwise suggest absurd exponents
RATE_MAX_LOG_CONSTANT = 600.0  # of a constant that a float can hold


@dataclass(frozen=True)
class Localisation:
    """Margin localisation: are all errors where the margin is at most ``eps``?

    Attributes:
        holds: the premise; None where the margins are too close to ``eps`` to decide.
        exceptions: states outside the neighbourhood with a certainly wrong action.
        example: flat index of the first of them.
        neighbourhood: d(B_eps).
        bound: on the loss; None unless the premise holds.
    """

    eps: float
    holds: bool | None
    exceptions: int
    example: int | None
    neighbourhood: Interval
    bound: Interval | None

    def __post_init__(self) -> None:
        _require_claim("localisation.bound", self.holds, self.bound)


@dataclass(frozen=True)
class MarginRate:
    """``d(B_eps) <= constant * eps**exponent`` for every eps in ``smallest..largest``.

    Attributes:
        bound: on the loss, at the eps of the localisation; None unless its premise holds and the
            eps lies in the range.
        second_best_bound: the sharper one; None unless no error is worse than the second best.
    """

    constant: float
    exponent: float
    smallest: float
    largest: float
    bound: Interval | None
    second_best_bound: Interval | None


@dataclass(frozen=True)
class SecondBest:
    """The binary-action identity, which holds wherever errors take the second-best action.

    Attributes:
        holds: the premise; None where actions are too close to decide which is second best.
        exceptions: states whose action is surely worse than the second best.
        loss: margins of wrong choices, by occupancy, over 1 - discount; None unless it holds.
    """

    holds: bool | None
    exceptions: int
    loss: Interval | None

    def __post_init__(self) -> None:
        _require_claim("second_best.loss", self.holds, self.loss)


def _require_claim(name: str, holds: bool | None, claim: Interval | None) -> None:
    """A bound is stated if and only if its premise holds; in a file it may not be so."""
    if (claim is not None) != bool(holds):
        raise ValueError(f"{name} must be stated if its premise holds, and only then")


@dataclass(frozen=True)
class LossBounds:
    """What the paper states about the loss.

    Attributes:
        reward_bound: R, the largest |r(s, a)| over feasible pairs.
        error_share: d{pi != pi*}, the share of time in states with a wrong action.
        policy_error: the policy-error bound.
    """

    reward_bound: float
    error_share: Interval
    policy_error: Interval
    localisation: Localisation
    rate: MarginRate | None
    second_best: SecondBest


def compute_loss_bounds(
    decisions: Decisions,
    occupancy: Occupancy,
    reward_bound: float,
    contraction_gap: float,
    eps: float | None,
) -> LossBounds:
    """All bounds.

    Args:
        reward_bound: R, rounded up.
        contraction_gap: 1 - c, rounded down.
        eps: of the margin neighbourhood; None for the smallest at which the premise surely holds.
    """
    value_of_constant_reward = occupancy.mdp.criterion.value_of_constant_reward
    factor = value_of_constant_reward(2 * reward_bound) / contraction_gap
    masks = decisions.wrong, decisions.possibly_wrong, decisions.differs
    error_share = enclose_weight(occupancy.share, *masks, occupancy.error_bound)
    localisation = _localise(decisions, occupancy, factor, eps)
    second_best = _check_second_best(decisions, occupancy)
    rate = _fit_rate(decisions.margin, occupancy, localisation)
    if (
        rate is not None
        and localisation.holds
        and rate.smallest <= localisation.eps <= rate.largest
    ):
        share = rate.constant * localisation.eps**rate.exponent
        neighbourhood = Interval.from_error(share, 64 * EPS * share)
        sharper = neighbourhood.scale(value_of_constant_reward(localisation.eps))
        rate = replace(
            rate,
            bound=neighbourhood.scale(factor),
            second_best_bound=sharper if second_best.holds else None,
        )
    return LossBounds(
        reward_bound, error_share, error_share.scale(factor), localisation, rate, second_best
    )


def _localise(
    decisions: Decisions, occupancy: Occupancy, factor: float, eps: float | None
) -> Localisation:
    margin = decisions.margin
    possibly_wrong = decisions.possibly_wrong
    if eps is None:
        eps = float(margin.upper[possibly_wrong].max(initial=0.0))
    exceptions = np.flatnonzero(decisions.wrong & (margin.lower > eps))
    may_fail = bool((possibly_wrong & (margin.upper > eps)).any())
    holds = None if may_fail else True
    if exceptions.size:
        holds = False
    neighbourhood = enclose_weight(
        occupancy.share,
        margin.upper <= eps,
        margin.lower <= eps,
        margin.value <= eps,
        occupancy.error_bound,
    )
    return Localisation(
        eps,
        holds,
        int(exceptions.size),
        int(exceptions[0]) if exceptions.size else None,
        neighbourhood,
        neighbourhood.scale(factor) if holds else None,
    )


def _check_second_best(decisions: Decisions, occupancy: Occupancy) -> SecondBest:
    margin = decisions.margin
    loss = decisions.local_losses
    exceptions = int((decisions.wrong & (loss.lower > margin.upper)).sum())
    if exceptions:
        return SecondBest(False, exceptions, None)
    # An action that is best or second best at V loses no more than the margin and its slack.
    if (decisions.possibly_wrong & (loss.value > margin.value)).any():
        return SecondBest(None, 0, None)
    margins_of_errors = IntervalArray(
        np.where(decisions.differs, margin.value, 0.0),
        np.where(decisions.wrong, margin.lower, 0.0),
        np.where(decisions.possibly_wrong, margin.upper, 0.0),
    )
    return SecondBest(True, 0, weigh_by_occupancy(occupancy, margins_of_errors))


def weigh_by_occupancy(occupancy: Occupancy, amounts: IntervalArray) -> Interval:
    """sum_s d(s) x(s) / (1 - discount), of amounts x that are not negative."""
    total = enclose_mean(occupancy.share, amounts)
    error = occupancy.error_bound * float(amounts.upper.max())
    total = Interval(total, next_down(max(total.lower - error, 0.0)), next_up(total.upper + error))
    return total.scale(occupancy.mdp.criterion.value_of_constant_reward(1))


def _fit_rate(
    margin: IntervalArray, occupancy: Occupancy, localisation: Localisation
) -> MarginRate | None:
    """C and alpha from the half of the time that is spent in states of the lower margins.

    Margins are taken at their lower ends, which can only raise d(B_eps). Ties are left out of the
    range, not out of d(B_eps): no power of eps covers them as eps goes to 0.
    """
    order = np.argsort(margin.lower, axis=None)
    sorted_margins = margin.lower.ravel()[order]
    d = occupancy.share.ravel()[order]
    cumulative = np.cumsum(d)[
        np.searchsorted(sorted_margins, sorted_margins, side="right") - 1
    ]  # ties are reached together
    median_margin = sorted_margins[
        min(np.searchsorted(cumulative, cumulative[-1] / 2), sorted_margins.size - 1)
    ]
    largest = max(
        localisation.eps,
        float(min(median_margin, sorted_margins[np.isfinite(sorted_margins)].max(initial=0.0))),
    )
    inside = (sorted_margins > 0) & (sorted_margins <= largest)
    if not inside.any():
        return None
    x = np.log(sorted_margins[inside])
    y = np.log((cumulative + occupancy.error_bound + (sorted_margins.size + 2) * EPS)[inside])
    exponent = _fit_slope(x, y, d[inside])
    slack = 64 * EPS * (1 + np.abs(y).max() + exponent * np.abs(x).max())
    log_constant = float(np.max(y - exponent * x) + slack)
    if abs(log_constant) > RATE_MAX_LOG_CONSTANT:
        return None
    constant = float(np.exp(log_constant))
    smallest = float(sorted_margins[inside][0])
    return MarginRate(constant, exponent, smallest, largest, None, None)


def _fit_slope(x: NDArray, y: NDArray, weights: NDArray) -> float:
    """Of the weighted least-squares line; 1 where the points do not decide one."""
    w = weights / weights.sum() if weights.sum() > 0 else np.full(x.size, 1 / x.size)
    x = x - w @ x
    y = y - w @ y
    variance = float(w @ x**2)
    slope = float(w @ (x * y)) / variance if variance > 0 else 1.0
    return min(slope, RATE_MAX_EXPONENT) if slope > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The loss in parts. Each of the last four has the whole loss as its sum. ``A`` actions.

    Attributes:
        occupancy: (grid) discounted share of time, off by at most ``occupancy_error`` in all.
        state: (grid) by state.
        region: (A,) by the action that would be optimal.
        pair: (A, A) by the action that would be optimal and the one that is taken.
        face: (A, A) by the two actions a < b that meet at the nearest face of the optimal policy;
            where that has no face at all, on the diagonal.
    """

    occupancy: NDArray[np.float64]
    occupancy_error: float
    state: IntervalArray
    region: IntervalArray
    pair: IntervalArray
    face: IntervalArray


def decompose(
    optimal: NDArray[np.int32],
    policy_table: NDArray[np.int32],
    n_actions: int,
    loss: IntervalArray,
    occupancy: Occupancy,
) -> Decomposition:
    """Split the loss of the policy ``policy_table`` (grid of action indices)."""
    best = optimal.astype(np.int64)
    chosen = policy_table.astype(np.int64)
    all_states = np.arange(best.size)

    faces = best * n_actions + best  # of listed states, which need not have neighbours
    if not occupancy.mdp.grid.is_listed:
        faces = find_nearest_faces(best, n_actions)

    split_by = partial(_sum_by_group, loss, occupancy)
    return Decomposition(
        occupancy.share,
        occupancy.error_bound,
        split_by(all_states, best.shape),
        split_by(best, (n_actions,)),
        split_by(best * n_actions + chosen, (n_actions, n_actions)),
        split_by(faces, (n_actions, n_actions)),
    )


def find_nearest_faces(action_table: NDArray[np.int64], n_actions: int) -> NDArray[np.int64]:
    """(grid) code ``a * actions + b``, a < b, of the face nearest to each state.

    Of faces as near, one is chosen by a fixed order; without any face, the code is of (a, a).
    """
    from scipy.ndimage import distance_transform_cdt

    code = np.full(action_table.shape, -1, dtype=np.int64)
    for axis in range(action_table.ndim):
        low, high = (np.moveaxis(action_table, axis, 0)[half] for half in (np.s_[:-1], np.s_[1:]))
        face = np.where(low != high, np.minimum(low, high) * n_actions + np.maximum(low, high), -1)
        code_lines = np.moveaxis(code, axis, 0)
        for side in (code_lines[:-1], code_lines[1:]):
            np.copyto(side, face, where=side < 0)
    if (code < 0).all():
        return action_table * n_actions + action_table
    nearest = distance_transform_cdt(
        code < 0, metric="taxicab", return_distances=False, return_indices=True
    )
    return code[tuple(np.asarray(nearest))]


def _sum_by_group(
    loss: IntervalArray, occupancy: Occupancy, groups: NDArray, shape: tuple[int, ...]
) -> IntervalArray:
    groups = groups.ravel()
    n = int(np.prod(shape))
    d = occupancy.share.ravel()
    value_of_constant_reward = occupancy.mdp.criterion.value_of_constant_reward

    def sum_groups(values: NDArray) -> NDArray:
        return value_of_constant_reward(np.bincount(groups, d * values.ravel(), minlength=n))

    max_loss = np.zeros(n)
    np.maximum.at(max_loss, groups, loss.upper.ravel())
    size = sum_groups(loss.upper)
    # The rounding of a sum of that many terms, and what the occupancy may be off by.
    slack = (groups.size + 6) * EPS * size
    slack += value_of_constant_reward(occupancy.error_bound * (1 + 4 * EPS) * max_loss)
    lower = np.maximum(sum_groups(loss.lower) - slack, 0.0)
    return IntervalArray(
        *(array.reshape(shape) for array in (sum_groups(loss.value), lower, size + slack))
    )
