"""The figures of a discounted certificate: values, losses, margins, and the bounds that follow.

Enclosures are arrays with first axis (value, lower, upper).

K = 2 R / (normalisation * contraction_gap) is the factor of the policy-error bound; d(B) is the
occupancy of a set B of states, B_x the set of states whose margin is at most x.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_cdt

from .arithmetic import (
    EPS,
    dot,
    is_close,
    max_abs,
    next_down,
    next_up,
    sum_products,
    two_sum,
    write_bounds,
)
from .claim import (
    Rejected,
    StatedRate,
    ValueClaim,
    check_actions,
    check_equal,
    check_interval,
    check_relative_loss,
    check_start,
    reject_states,
)
from .model import Model

RATE_MAX_LOG_CONSTANT = 600.0  # logarithm of a rate's constant beyond which none is stated
RATE_MAX_EXPONENT = 8.0  # exponent of a rate


@dataclass
class CheckedDecisions:
    """Choices of the policy: (3, S) local losses and margins, (S,) sets of states."""

    local_losses: np.ndarray
    margin: np.ndarray
    differs: np.ndarray
    wrong: np.ndarray
    possibly_wrong: np.ndarray

    @property
    def masks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.differs, self.wrong, self.possibly_wrong


def check_values(claim: ValueClaim, model: Model) -> str:
    """All figures; returns what else is confirmed, beyond the losses."""
    check_actions("decisions.optimal", claim.decisions.optimal, model)
    residuals = check_errors(claim, model)
    check_occupancy(claim, model)
    decisions = check_decisions(claim, model, residuals)
    check_losses(claim, model, decisions.local_losses)
    check_shares(claim, decisions)
    check_decomposition(claim, model, decisions.local_losses)
    check_bounds(claim, model, decisions)
    _, occupancy_error = write_bounds(0.0, claim.decomposition.occupancy_error)
    return f"the occupancy right to {occupancy_error}"


def check_errors(claim: ValueClaim, model: Model) -> np.ndarray:
    """The stated errors of V and V_pi are at least what their residuals prove.

    Returns (S, A) q - V, the action values at V less V.
    """
    values = claim.values
    residuals = model.compute_residuals(values.optimal_value)
    policy_residuals = model.compute_residuals(values.policy_value)
    policy_residual = model.select_actions(policy_residuals, claim.policy.table)
    optimal = (values.optimal_value, claim.figures.optimal_value_error, residuals.max(axis=1))
    policy = (values.policy_value, claim.figures.policy_value_error, policy_residual)
    for (value, error, residual), subject in (
        (optimal, "the optimal value does not satisfy the optimality equation of the model"),
        (policy, "the value of the policy does not satisfy the equation of the policy"),
    ):
        allowed = error * model.discounting.contraction_gap
        allowed = allowed - model.bound_model_error(value) - model.bound_underflow(value)
        is_bad = ~(np.abs(residual) * (1 + 8 * EPS) <= allowed)
        reject_states(model, is_bad, f"{subject} within its error")
    return residuals


def bound_rounding(claim: ValueClaim, model: Model) -> float:
    """A generous bound on the rounding of action values in the usual precision."""
    value = claim.values.optimal_value
    size = model.max_reward + max_abs([value, claim.values.policy_value])
    return model.discounting.relative_rounding * size + 4 * model.bound_model_error(value)


def check_occupancy(claim: ValueClaim, model: Model) -> None:
    """d = normalisation * start + discount P_pi' d, within the stated error."""
    start = claim.start
    d = claim.decomposition.occupancy
    discount = model.discount
    reject_states(model, ~(d >= 0), "occupancy: a probability is negative")
    check_start(claim.start, model)
    row = model.select_actions(model.row_of, claim.policy.table)
    length = model.row_lengths[row]
    # The state from which each transition of the policy starts.
    state = np.repeat(np.arange(model.n_states), length)
    position_in_row = np.arange(state.size) - np.repeat(np.cumsum(length) - length, length)
    entry = model.indptr[row][state] + position_in_row
    next_state = model.indices[entry]
    probability = model.data[entry]
    all_states = np.arange(model.n_states)
    # Of the start: 1 - discount in two exact factors, or the normalisation of a horizon.
    start_factors = (
        (1.0, discount) if model.periods is None else (model.discounting.normalisation, 0.0)
    )
    residual, residual_low = sum_products(
        np.concatenate([next_state, all_states, all_states, all_states]),
        model.n_states,
        np.concatenate([d[state], start, -start, -d]),
        np.repeat([discount, *start_factors, 1.0], [next_state.size, *[model.n_states] * 3]),
        np.concatenate([probability, np.ones(3 * model.n_states)]),
    )
    total = float(np.abs(residual + residual_low).sum()) * (1 + model.rounding)
    row_error = model.row_error * model.discounting.contraction_factor * float(d.sum())
    total += row_error * (1 + model.rounding) + 1e-300
    if not total <= claim.decomposition.occupancy_error * model.discounting.contraction_gap:
        raise Rejected("the occupancy is not where the policy leads from the start")


def check_decisions(claim: ValueClaim, model: Model, residuals: np.ndarray) -> CheckedDecisions:
    """l = max_a q - q(., pi) within the slack, 0 where pi takes the decided action.

    Action values are off by at most h = c e + model error, so differences of them by 2 h; the slack
    has to cover that and what the stated differences are off.
    """
    stated = claim.decisions
    slack = float(stated.margin_slack)
    min_slack = check_slack(claim, model, slack)
    ascending = np.sort(residuals, axis=1)
    best = ascending[:, -1]
    chosen = model.select_actions(residuals, claim.policy.table)
    loss_of_optimal = best - model.select_actions(residuals, stated.optimal)
    subject = "decisions.optimal: the optimal action is not optimal"
    reject_states(model, ~(loss_of_optimal <= slack), subject)
    margin = np.full(model.n_states, np.inf)
    if model.n_actions > 1:
        margin = best - ascending[:, -2]
    subject = "decisions.margin is not the best minus the second-best action value"
    reject_states(model, ~is_close(stated.margin, margin, slack - min_slack), subject)
    stated_loss = stated.local_losses[0]
    subject = "decisions.local_losses.value is not max_a q - q(., pi)"
    reject_states(model, ~is_close(stated_loss, best - chosen, slack - min_slack), subject)
    is_optimal = (stated.margin > slack) & (stated_loss == 0)
    # A stated loss may be rounded; a certainly optimal action must be certainly optimal here too.
    is_certain = (chosen == best) & (margin > min_slack)
    subject = "the action of the policy is not surely the best, as stated"
    reject_states(model, is_optimal & ~is_certain, subject)
    upper = np.where(is_optimal, 0, stated_loss + slack)
    loss = np.array([stated_loss, np.maximum(stated_loss - slack, 0), upper])
    check_interval("decisions.local_losses", stated.local_losses, loss, 0, 0, model=model)
    margin_ends = np.maximum(stated.margin - slack, 0), stated.margin + slack
    return CheckedDecisions(
        local_losses=stated.local_losses,
        margin=np.array([stated.margin, *margin_ends]),
        differs=claim.policy.table != stated.optimal,
        wrong=stated_loss > slack,
        possibly_wrong=~is_optimal,
    )


def check_slack(claim: ValueClaim, model: Model, slack: float) -> float:
    """The least slack that the errors of the values allow."""
    error = model.discounting.contraction_factor * float(claim.figures.optimal_value_error)
    error += model.bound_model_error(claim.values.optimal_value)
    min_slack = 2 * error * (1 + 4 * EPS)
    if not min_slack <= slack <= min_slack * (1 + 1e-7) + 64 * bound_rounding(claim, model):
        raise Rejected(
            f"decisions.margin_slack is {min_slack:.6g} and rounding, not {slack:.6g} as stated"
        )
    return min_slack


def check_losses(claim: ValueClaim, model: Model, local_losses: np.ndarray) -> None:
    """l <= L <= max l / (1 - c) and |L - (V - V_pi)| <= e + e_pi, state by state and in mean."""
    discounting = model.discounting
    optimal = claim.values.optimal_value
    policy = claim.values.policy_value
    max_loss = local_losses[2].max() / discounting.contraction_gap
    difference, difference_low = two_sum(optimal, -policy)
    error, error_low = two_sum(claim.figures.optimal_value_error, claim.figures.policy_value_error)
    lower = np.maximum(
        next_down(difference - error + (difference_low - error_low)), local_losses[1]
    )
    upper = np.minimum(next_up(difference + error + (difference_low + error_low)), max_loss)
    losses = [np.clip(difference, lower, np.maximum(lower, upper)), lower, upper]
    size = max_abs(optimal) + max_abs(policy) + error
    slack = (
        discounting.relative_rounding * (size + max_loss / discounting.contraction_gap)
        + 4 * EPS * error
    )
    slack = slack + discounting.row_slack * max_loss
    check_interval("values.losses", claim.values.losses, losses, slack, 0, model=model)
    check_interval("worst_loss", claim.worst_loss, claim.values.losses.max(axis=1), 0, 0)
    worst_state = int(claim.values.losses[0].argmax())
    check_equal("figures.worst_state", claim.figures.worst_state, worst_state)
    mean = enclose_start_mean(claim.start, optimal, claim.figures.optimal_value_error)
    check_interval("optimal_mean", claim.optimal_mean, mean, model.rounding * size)
    mean = enclose_start_mean(claim.start, policy, claim.figures.policy_value_error)
    check_interval("policy_mean", claim.policy_mean, mean, model.rounding * size)
    check_mean_loss(claim, model, local_losses)


def enclose_start_mean(start: np.ndarray, value: np.ndarray, error: float) -> list[float]:
    weights = np.concatenate([start, start])
    ends = (np.full(len(value), by) for by in (0, -error, error))
    return [dot(weights, np.concatenate([value, end])) for end in ends]


def check_mean_loss(claim: ValueClaim, model: Model, local_losses: np.ndarray) -> None:
    """The mean loss lies in what the losses by state and what the occupancy enclose."""
    normalisation = model.discounting.normalisation
    by_value = [dot(part, claim.start) for part in claim.values.losses]
    by_occupancy = enclose_sum(claim, local_losses) / normalisation
    lower = max(by_value[1], by_occupancy[1], 0)
    upper = min(by_value[2], by_occupancy[2])
    mean = [np.clip(by_value[0], lower, max(lower, upper)), lower, upper]
    tolerance = model.rounding * (max_abs(claim.values.losses) + by_occupancy[2])
    check_interval("mean_loss", claim.mean_loss, mean, tolerance)
    value_gap = np.array([dot(part, 1 / model.n_states) for part in local_losses]) / normalisation
    check_interval(
        "figures.value_gap", claim.figures.value_gap, value_gap, model.rounding * value_gap[2]
    )
    check_relative_loss(claim.relative_loss, claim.mean_loss, claim.optimal_mean)


def enclose_sum(claim: ValueClaim, parts: np.ndarray) -> np.ndarray:
    """Sum of d(s) x(s) over states, for x >= 0 in an enclosure and the exact occupancy."""
    error = claim.decomposition.occupancy_error * parts[2].max()
    value, lower, upper = (dot(part, claim.decomposition.occupancy) for part in parts)
    return np.array([value, max(lower - error, 0.0), upper + error])


def check_shares(claim: ValueClaim, decisions: CheckedDecisions) -> None:
    differs = [mask.mean() for mask in decisions.masks]
    check_interval("figures.policy_error", claim.figures.policy_error, differs, 4 * EPS, EPS / 2)
    costly = (decisions.local_losses > claim.figures.tolerance).mean(axis=1)
    check_interval("figures.costly_error", claim.figures.costly_error, costly, 4 * EPS, EPS / 2)


def check_decomposition(claim: ValueClaim, model: Model, local_losses: np.ndarray) -> None:
    """Sums of d(s) l(s) / (1 - discount) over states, by state, region, pair and face."""
    best = claim.decisions.optimal
    pair = best * model.n_actions + claim.policy.table
    face = best * model.n_actions + best  # of listed states, which need not have neighbours
    if not model.lists_states:
        face = find_nearest_faces(best.reshape(model.shape), model.n_actions).ravel()
    stated = claim.decomposition
    for name, intervals, group in (
        ("state", stated.state, np.arange(model.n_states)),
        ("region", stated.region, best),
        ("pair", stated.pair, pair),
        ("face", stated.face, face),
    ):
        count = intervals.shape[1]
        value, lower, upper = (
            np.sum(sum_products(group, count, claim.decomposition.occupancy, part), axis=0)
            for part in local_losses
        )
        largest = np.zeros(count)
        np.maximum.at(largest, group, local_losses[2])
        error = claim.decomposition.occupancy_error * largest
        derived = np.array([value, np.maximum(lower - error, 0), upper + error])
        derived = derived / model.discounting.normalisation
        check_interval(
            f"decomposition.{name}",
            intervals,
            derived,
            model.rounding * derived[2],
            model=model if name == "state" else None,
        )


def find_nearest_faces(table: np.ndarray, n_actions: int) -> np.ndarray:
    """(grid) code a * n_actions + b, a < b, of the nearest neighbours whose actions a, b differ.

    A state that touches several takes the first: axis by axis, the neighbour above before the one
    below. Of others as near, SciPy's order decides; without any face, the code is of (a, a).
    """
    touched = []
    for axis in range(table.ndim):
        rows = np.moveaxis(table, axis, 0)
        low = np.minimum(rows[1:], rows[:-1])
        high = np.maximum(rows[1:], rows[:-1])
        none = np.full((1, *rows.shape[1:]), -1)
        face = np.concatenate([none, np.where(low < high, low * n_actions + high, -1), none])
        touched += [np.moveaxis(face[1:], 0, axis), np.moveaxis(face[:-1], 0, axis)]
    sides = np.array(touched)
    code = np.take_along_axis(sides, (sides >= 0).argmax(axis=0)[None], axis=0)[0]
    if (code < 0).all():
        return table * n_actions + table
    near = distance_transform_cdt(code < 0, "taxicab", return_distances=False, return_indices=True)
    return code[tuple(np.asarray(near))]


def compute_bound_factor(claim: ValueClaim, model: Model) -> float:
    """K, by which an occupancy bounds the loss."""
    discounting = model.discounting
    gap = discounting.normalisation * discounting.contraction_gap
    return 2 * claim.bounds.reward_bound / gap


def check_bounds(claim: ValueClaim, model: Model, decisions: CheckedDecisions) -> None:
    reward_bound = claim.bounds.reward_bound
    least = model.max_reward + model.reward_error
    most = least + 2 * model.reward_error + 16 * bound_rounding(claim, model)
    if not least * (1 + EPS) <= reward_bound <= most:
        raise Rejected(
            f"bounds.reward_bound is {least:.12g} and rounding, not {reward_bound:.12g} as stated"
        )
    wrong = enclose_occupancy(claim, *decisions.masks)
    check_interval("bounds.error_share", claim.bounds.error_share, wrong, model.rounding)
    bound = compute_bound_factor(claim, model) * claim.bounds.error_share
    check_bound("bounds.policy_error", claim.bounds.policy_error, bound, model)
    check_localisation(claim, model, decisions)
    check_second_best(claim, model, decisions)
    check_rate(claim, model, decisions)


def check_bound(
    path: str, stated, derived: np.ndarray | None, model: Model, relative_slack: float = 0.0
) -> None:
    """A multiple of K, of which only the upper end is a claim."""
    relative_slack += model.rounding + model.discounting.row_slack
    tolerance = 0.0 if derived is None else derived[2] * relative_slack
    check_interval(path, stated, derived, tolerance, check_lower=False)


def enclose_occupancy(
    claim: ValueClaim, estimated: np.ndarray, certain: np.ndarray, possible: np.ndarray
) -> np.ndarray:
    """Enclosed occupancy of a set; none at all only where no state may belong."""
    value, low, high = (
        dot(claim.decomposition.occupancy, mask * 1.0) for mask in (estimated, certain, possible)
    )
    error = claim.decomposition.occupancy_error
    return np.array([value, max(low - error, 0), high + error if possible.any() else 0])


def check_localisation(claim: ValueClaim, model: Model, decisions: CheckedDecisions) -> None:
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
    bound = compute_bound_factor(claim, model) * stated.neighbourhood if stated.holds else None
    check_bound(f"{path}.bound", stated.bound, bound, model)


def examine_premise(decisions: CheckedDecisions, eps: float) -> tuple[bool | None, int, int | None]:
    """(whether all errors have margins up to ``eps``, surely others, the first of them)."""
    _, lower, upper = decisions.margin
    exceptions = np.flatnonzero(decisions.wrong & (lower > eps))
    if exceptions.size:
        return False, int(exceptions.size), int(exceptions[0])
    return None if (decisions.possibly_wrong & (upper > eps)).any() else True, 0, None


def check_second_best(claim: ValueClaim, model: Model, decisions: CheckedDecisions) -> None:
    """Loss = sum d margin 1{pi != pi*} / (1 - discount) if errors take the second-best action."""
    path = "bounds.second_best"
    stated = claim.bounds.second_best
    exceptions = int((decisions.wrong & (decisions.local_losses[1] > decisions.margin[2])).sum())
    check_equal(f"{path}.exceptions", stated.exceptions, exceptions)
    holds = True
    if exceptions:
        holds = False
    elif (decisions.possibly_wrong & (decisions.local_losses[0] > decisions.margin[0])).any():
        holds = None
    check_equal(f"{path}.holds", stated.holds, holds)
    if not holds:
        check_interval(f"{path}.loss", stated.loss, None, 0)
        return
    margins = np.where(decisions.masks, decisions.margin, 0)
    loss = enclose_sum(claim, margins) / model.discounting.normalisation
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
    cumulative = np.cumsum(claim.decomposition.occupancy[order])[
        np.searchsorted(ascending, ascending, side="right") - 1
    ]
    half = cumulative[-1] / 2 * (1 + np.array([-1, 1]) * model.rounding)
    half_index = np.minimum(np.searchsorted(cumulative, half), model.n_states - 1)
    max_margin = ascending[np.isfinite(ascending)].max(initial=0.0)
    range_ends = np.minimum(ascending[half_index], max_margin)
    eps = claim.bounds.localisation.eps
    return MarginDistribution(ascending, cumulative, np.maximum(eps, range_ends))


def check_rate(claim: ValueClaim, model: Model, decisions: CheckedDecisions) -> None:
    """d(B_x) <= C x^alpha for x in smallest..largest, with nearly the smallest C."""
    distribution = compute_distribution(claim, model, decisions.margin[1])
    rate = claim.bounds.rate
    if rate is None:
        # A rate that certainly exists must be stated.
        inside = distribution.restrict(distribution.range_ends[0])
        x = np.log(inside.margins)
        y = np.log(bound_occupancy(claim, model, inside))
        if x.size and RATE_MAX_EXPONENT * max_abs(x) + max_abs(y) < RATE_MAX_LOG_CONSTANT:
            raise Rejected("bounds.rate must be stated")
        return
    check_range(rate, distribution)
    check_constant(claim, model, rate, distribution.restrict(rate.largest))
    check_rate_bounds(claim, model, rate)


def bound_occupancy(claim: ValueClaim, model: Model, inside: MarginDistribution) -> np.ndarray:
    """An upper bound on d(B_x), as the certificate states it."""
    return inside.cumulative + claim.decomposition.occupancy_error + (model.n_states + 2) * EPS


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
    # The least upper bound on the occupancy, and the one that the certificate uses.
    rounding = (model.n_states + 2) * EPS
    surely = np.log(inside.cumulative * (1 + rounding) + claim.decomposition.occupancy_error)
    stated = np.log(bound_occupancy(claim, model, inside))
    size = 1 + max_abs(stated) + alpha * max_abs(x)
    log_constant = np.log(rate.constant)
    sure_excess = (surely - alpha * x - log_constant).max()
    stated_excess = (stated - alpha * x - log_constant).max()
    if not (sure_excess <= -16 * EPS * size and stated_excess >= -64 * model.rounding * size):
        raise Rejected(f"bounds.rate.constant is not the smallest for its exponent, {alpha:.12g}")


def check_rate_bounds(claim: ValueClaim, model: Model, rate: StatedRate) -> None:
    eps = claim.bounds.localisation.eps
    applies = claim.bounds.localisation.holds and rate.smallest <= eps <= rate.largest
    share = np.full(3, rate.constant * eps**rate.exponent)
    bound = compute_bound_factor(claim, model) * share if applies else None
    check_bound("bounds.rate.bound", rate.bound, bound, model, 256 * EPS)
    sharper_bound = share * eps / model.discounting.normalisation
    check_interval(
        "bounds.rate.second_best_bound",
        rate.second_best_bound,
        sharper_bound if applies and claim.bounds.second_best.holds else None,
        sharper_bound * 256 * EPS,
    )
