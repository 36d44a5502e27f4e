"""The paper's bounds on the loss of a policy, each beside the exact loss that it bounds.

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.enclosure import EPS, Band, Enclosed, mean, share
from tessella.certificates.local import Decisions
from tessella.solvers.occupancy import Occupancy

STEEPEST = 8.0  # margins in a narrow band would otherwise suggest absurd exponents
LARGEST_LOGARITHM = 600.0  # of a constant that a float can hold


@dataclass(frozen=True)
class Localisation:
    """Margin localisation: are all errors where the margin is at most ``eps``?

    Attributes:
        holds: the premise; None where the margins are too close to ``eps`` to tell.
        exceptions: states outside the neighbourhood with a surely wrong action.
        example: flat index of the first of them.
        neighbourhood: d(B_eps).
        bound: on the loss; None unless the premise holds.
    """

    eps: float
    holds: bool | None
    exceptions: int
    example: int | None
    neighbourhood: Enclosed
    bound: Enclosed | None


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
    bound: Enclosed | None
    second_best_bound: Enclosed | None


@dataclass(frozen=True)
class SecondBest:
    """The binary-action identity, which holds wherever errors take the second-best action.

    Attributes:
        holds: the premise; None where actions are too close to tell which is the second best.
        exceptions: states whose action is surely worse than the second best.
        loss: margins of wrong choices, by occupancy, over 1 - discount; None unless it holds.
    """

    holds: bool | None
    exceptions: int
    loss: Enclosed | None


@dataclass(frozen=True)
class Bounds:
    """What the paper promises about the loss.

    Attributes:
        reward_bound: R, the largest |r(s, a)| over feasible pairs.
        error_share: d{pi != pi*}, the share of time in states with a wrong action.
        policy_error: the policy-error bound.
    """

    reward_bound: float
    error_share: Enclosed
    policy_error: Enclosed
    localisation: Localisation
    rate: MarginRate | None
    second_best: SecondBest


def bound(
    decisions: Decisions,
    visits: Occupancy,
    reward_bound: float,
    rest: float,
    eps: float | None,
) -> Bounds:
    """All bounds.

    Args:
        reward_bound: R, rounded up.
        rest: 1 - c, rounded down.
        eps: of the margin neighbourhood; None for the smallest at which the premise surely holds.
    """
    forever = visits.mdp.criterion.forever
    factor = forever(2 * reward_bound) / rest
    parts = decisions.wrong, decisions.perhaps_wrong, decisions.differs
    wrong = share(visits.share, *parts, visits.error_bound)
    localised = _localise(decisions, visits, factor, eps)
    second = _second_best(decisions, visits)
    rate = _rate(decisions.margin, visits, localised)
    if rate is not None and localised.holds and rate.smallest <= localised.eps <= rate.largest:
        rate = _applied(rate, localised.eps, factor, forever(localised.eps), second.holds is True)
    return Bounds(reward_bound, wrong, wrong.times(factor), localised, rate, second)


def _localise(
    decisions: Decisions, visits: Occupancy, factor: float, eps: float | None
) -> Localisation:
    margin, perhaps = decisions.margin, decisions.perhaps_wrong
    if eps is None:
        eps = float(margin.upper[perhaps].max(initial=0.0))
    inside = margin.value <= eps, margin.upper <= eps, margin.lower <= eps
    exceptions = np.flatnonzero(decisions.wrong & (margin.lower > eps))
    possible = bool((perhaps & (margin.upper > eps)).any())
    holds = False if exceptions.size else (None if possible else True)
    near = share(visits.share, inside[1], inside[2], inside[0], visits.error_bound)
    return Localisation(
        eps,
        holds,
        int(exceptions.size),
        int(exceptions[0]) if exceptions.size else None,
        near,
        near.times(factor) if holds else None,
    )


def _second_best(decisions: Decisions, visits: Occupancy) -> SecondBest:
    margin, loss = decisions.margin, decisions.loss
    exceptions = int((decisions.wrong & (loss.lower > margin.upper)).sum())
    if exceptions:
        return SecondBest(False, exceptions, None)
    # An action that is best or second best at V loses no more than the margin and its slack.
    if (decisions.perhaps_wrong & (loss.value > margin.value)).any():
        return SecondBest(None, 0, None)

    def charged(part: NDArray, where: NDArray) -> NDArray:
        return np.where(where, part, 0.0)

    charges = Band(
        charged(margin.value, decisions.differs),
        charged(margin.lower, decisions.wrong),
        charged(margin.upper, decisions.perhaps_wrong),
    )
    total = mean(visits.share, charges)
    off = visits.error_bound * float(charges.upper.max())
    total = Enclosed(total, max(total.lower - off, 0.0), total.upper + off)
    return SecondBest(True, 0, total.times(visits.mdp.criterion.forever(1)))


def _rate(margin: Band, visits: Occupancy, localised: Localisation) -> MarginRate | None:
    """C and alpha from the half of the time that is spent in states of the lower margins.

    Margins are taken at their lower ends, which can only raise d(B_eps). Ties are left out of the
    range, not out of d(B_eps): no power of eps covers them as eps goes to 0.
    """
    order = np.argsort(margin.lower, axis=None)
    at, d = margin.lower.ravel()[order], visits.share.ravel()[order]
    reached = np.cumsum(d)[np.searchsorted(at, at, side="right") - 1]  # ties are reached together
    half = at[min(np.searchsorted(reached, reached[-1] / 2), at.size - 1)]
    largest = max(localised.eps, float(min(half, at[np.isfinite(at)].max(initial=0.0))))
    inside = (at > 0) & (at <= largest)
    if not inside.any():
        return None
    x, y = np.log(at[inside]), np.log((reached + visits.error_bound + (at.size + 2) * EPS)[inside])
    exponent = _slope(x, y, d[inside])
    slack = 64 * EPS * (1 + np.abs(y).max() + exponent * np.abs(x).max())
    logarithm = float(np.max(y - exponent * x) + slack)
    if abs(logarithm) > LARGEST_LOGARITHM:
        return None
    constant, smallest = float(np.exp(logarithm)), float(at[inside][0])
    return MarginRate(constant, exponent, smallest, largest, None, None)


def _slope(x: NDArray, y: NDArray, weights: NDArray) -> float:
    """Of the weighted least-squares line; 1 where the points do not decide one."""
    w = weights / weights.sum() if weights.sum() > 0 else np.full(x.size, 1 / x.size)
    x, y = x - w @ x, y - w @ y
    spread = float(w @ x**2)
    slope = float(w @ (x * y)) / spread if spread > 0 else 1.0
    return min(slope, STEEPEST) if slope > 0 else 1.0


def _applied(
    rate: MarginRate, eps: float, factor: float, forever_eps: float, second_best: bool
) -> MarginRate:
    reached = Enclosed.of(
        rate.constant * eps**rate.exponent, 64 * EPS * rate.constant * eps**rate.exponent
    )
    sharper = reached.times(forever_eps) if second_best else None
    return MarginRate(
        rate.constant,
        rate.exponent,
        rate.smallest,
        rate.largest,
        reached.times(factor),
        sharper,
    )
