"""The bounds of the paper on the loss, with their premises.

K = 2 R / (share gap) is the factor of the policy-error bound; d(B) the occupancy of a set B of
states, B_x the states whose margin is at most x.
"""

from dataclasses import dataclass

import numpy as np

from .arithmetic import EPS, dot, max_abs
from .claim import StatedRate, ValueClaim
from .compare import Rejected, check_equal, check_interval
from .model import Model
from .values import CheckedDecisions, bound_rounding, enclose_sum

RATE_MAX_LOG_CONSTANT = 600.0  # logarithm of a rate's constant beyond which none is stated
RATE_MAX_EXPONENT = 8.0  # exponent of a rate


@dataclass(frozen=True)
class BoundFactor:
    """K, and what a multiple of it may be off in relation to its size."""

    factor: float
    relative_slack: float


def check_bounds(claim: ValueClaim, model: Model, decisions: CheckedDecisions) -> None:
    reward_bound = claim.bounds.reward_bound
    least = model.max_reward + model.reward_error
    most = least + 2 * model.reward_error + 16 * bound_rounding(claim, model)
    if not least * (1 + EPS) <= reward_bound <= most:
        raise Rejected(
            f"bounds.reward_bound is {least:.12g} and rounding, not {reward_bound:.12g} as stated"
        )
    scale = BoundFactor(
        2 * reward_bound / (model.discounting.share * model.discounting.gap),
        model.rounding + model.discounting.row_slack,
    )
    d = decisions
    wrong = enclose_occupancy(claim, d.differs, d.wrong, d.possibly_wrong)
    check_interval("bounds.error_share", claim.bounds.error_share, wrong, model.rounding)
    bound = scale.factor * claim.bounds.error_share
    check_bound("bounds.policy_error", claim.bounds.policy_error, bound, scale)
    check_localisation(claim, model, d, scale)
    check_second_best(claim, model, d)
    check_rate(claim, model, d, scale)


def check_bound(path: str, stated, derived: np.ndarray | None, scale: BoundFactor) -> None:
    """A bound on the loss: only its upper end is a claim."""
    tolerance = 0.0 if derived is None else derived[2] * scale.relative_slack
    check_interval(path, stated, derived, tolerance, check_lower=False)


def enclose_occupancy(
    claim: ValueClaim, estimated: np.ndarray, certain: np.ndarray, possible: np.ndarray
) -> np.ndarray:
    """Enclosed occupancy of a set; none at all only where no state may belong."""
    value, low, high = (dot(claim.occupancy, mask * 1.0) for mask in (estimated, certain, possible))
    error = claim.occupancy_error
    return np.array([value, max(low - error, 0), high + error if possible.any() else 0])


def check_localisation(
    claim: ValueClaim, model: Model, decisions: CheckedDecisions, scale: BoundFactor
) -> None:
    """Whether all errors have margins up to eps, and the bound if they have."""
    path = "bounds.localisation"
    stated = claim.bounds.localisation
    premise = tuple(
        None if x is None else int(x) for x in (stated.holds, stated.exceptions, stated.example)
    )
    derived = examine_premise(decisions, stated.eps)
    check_equal(f"{path} (holds, exceptions, example)", premise, derived)
    value, lower, upper = (margin <= stated.eps for margin in decisions.margin)
    neighbourhood = enclose_occupancy(claim, value, upper, lower)
    check_interval(f"{path}.neighbourhood", stated.neighbourhood, neighbourhood, model.rounding)
    bound = scale.factor * stated.neighbourhood if stated.holds else None
    check_bound(f"{path}.bound", stated.bound, bound, scale)


def examine_premise(decisions: CheckedDecisions, eps: float) -> tuple[bool | None, int, int | None]:
    """(whether all errors have margins up to ``eps``, surely others, the first of them)."""
    _, lower, upper = decisions.margin
    exceptions = np.flatnonzero(decisions.wrong & (lower > eps))
    if exceptions.size:
        return False, int(exceptions.size), int(exceptions[0])
    return None if (decisions.possibly_wrong & (upper > eps)).any() else True, 0, None


def check_second_best(claim: ValueClaim, model: Model, d: CheckedDecisions) -> None:
    """Loss = sum d margin 1{pi != pi*} / (1 - discount) if errors take the second-best action."""
    path = "bounds.second_best"
    stated = claim.bounds.second_best
    exceptions = int((d.wrong & (d.loss[1] > d.margin[2])).sum())
    check_equal(f"{path}.exceptions", stated.exceptions, exceptions)
    holds = True
    if exceptions:
        holds = False
    elif (d.possibly_wrong & (d.loss[0] > d.margin[0])).any():
        holds = None
    check_equal(f"{path}.holds", stated.holds, holds)
    if not holds:
        check_interval(f"{path}.loss", stated.loss, None, 0)
        return
    masks = np.array([d.differs, d.wrong, d.possibly_wrong])
    loss = enclose_sum(claim, np.where(masks, d.margin, 0)) / model.discounting.share
    check_interval(f"{path}.loss", stated.loss, loss, model.rounding * loss[2])


@dataclass(frozen=True)
class MarginDistribution:
    """d(B_x) at the lower ends of the margins, ascending; states of one margin count together."""

    margins: np.ndarray  # (S,)
    cumulative: np.ndarray  # (S,)
    range_ends: np.ndarray  # (2,) between which the largest margin of a rate's range lies

    def restrict(self, largest: float) -> "MarginDistribution":
        """To positive margins up to ``largest``."""
        inside = (self.margins > 0) & (self.margins <= largest)
        return MarginDistribution(self.margins[inside], self.cumulative[inside], self.range_ends)


def compute_distribution(claim: ValueClaim, model: Model, margin: np.ndarray) -> MarginDistribution:
    order = np.argsort(margin, kind="stable")
    ascending = margin[order]
    cumulative = np.cumsum(claim.occupancy[order])[
        np.searchsorted(ascending, ascending, side="right") - 1
    ]
    half = cumulative[-1] / 2 * (1 + np.array([-1, 1]) * model.rounding)
    half_index = np.minimum(np.searchsorted(cumulative, half), model.n_states - 1)
    max_margin = ascending[np.isfinite(ascending)].max(initial=0.0)
    range_ends = np.minimum(ascending[half_index], max_margin)
    eps = claim.bounds.localisation.eps
    return MarginDistribution(ascending, cumulative, np.maximum(eps, range_ends))


def check_rate(
    claim: ValueClaim, model: Model, decisions: CheckedDecisions, scale: BoundFactor
) -> None:
    """d(B_x) <= C x^alpha for x in smallest..largest, with hardly a smaller C; and what follows."""
    distribution = compute_distribution(claim, model, decisions.margin[1])
    rate = claim.bounds.rate
    if rate is None:
        # None must be missed that would surely be there.
        inside = distribution.restrict(distribution.range_ends[0])
        x = np.log(inside.margins)
        y = np.log(bound_occupancy(claim, model, inside))
        if x.size and RATE_MAX_EXPONENT * max_abs(x) + max_abs(y) < RATE_MAX_LOG_CONSTANT:
            raise Rejected("bounds.rate must be stated")
        return
    check_range(rate, distribution)
    check_constant(claim, model, rate, distribution.restrict(rate.largest))
    check_rate_bounds(claim, model, rate, scale)


def bound_occupancy(claim: ValueClaim, model: Model, inside: MarginDistribution) -> np.ndarray:
    """d(B_x), on the safe side as it is stated."""
    return inside.cumulative + claim.occupancy_error + (model.n_states + 2) * EPS


def check_range(rate: StatedRate, distribution: MarginDistribution) -> None:
    inside = distribution.restrict(rate.largest)
    low, high = distribution.range_ends
    if not inside.margins.size or rate.smallest != inside.margins[0]:
        raise Rejected("bounds.rate.smallest is not the smallest margin above 0")
    if not low <= rate.largest <= high:
        raise Rejected(f"bounds.rate.largest is {low:.12g}, not {rate.largest:.12g} as stated")
    if not 0 < rate.exponent <= RATE_MAX_EXPONENT:
        raise Rejected(
            f"bounds.rate.exponent must lie in 0..{RATE_MAX_EXPONENT:g}, "
            f"not be {rate.exponent:.12g}"
        )


def check_constant(
    claim: ValueClaim, model: Model, rate: StatedRate, inside: MarginDistribution
) -> None:
    alpha = rate.exponent
    x = np.log(inside.margins)
    # What the occupancy surely is not above, and what is stated to be on the safe side.
    rounding = (model.n_states + 2) * EPS
    surely = np.log(inside.cumulative * (1 + rounding) + claim.occupancy_error)
    stated = np.log(bound_occupancy(claim, model, inside))
    size = 1 + max_abs(stated) + alpha * max_abs(x)
    log_constant = np.log(rate.constant)
    sure_excess = (surely - alpha * x - log_constant).max()
    stated_excess = (stated - alpha * x - log_constant).max()
    if not (sure_excess <= -16 * EPS * size and stated_excess >= -64 * model.rounding * size):
        raise Rejected(f"bounds.rate.constant is not the smallest for its exponent, {alpha:.12g}")


def check_rate_bounds(
    claim: ValueClaim, model: Model, rate: StatedRate, scale: BoundFactor
) -> None:
    eps = claim.bounds.localisation.eps
    applies = claim.bounds.localisation.holds and rate.smallest <= eps <= rate.largest
    share = np.full(3, rate.constant * eps**rate.exponent)
    bound = scale.factor * share
    check_interval(
        "bounds.rate.bound",
        rate.bound,
        bound if applies else None,
        bound * (256 * EPS + scale.relative_slack),
        check_lower=False,
    )
    sharper_bound = share * eps / model.discounting.share
    check_interval(
        "bounds.rate.second_best_bound",
        rate.second_best_bound,
        sharper_bound if applies and claim.bounds.second_best.holds else None,
        sharper_bound * 256 * EPS,
    )
