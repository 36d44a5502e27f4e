"""certify(solution, policy) -> Certificate.

The errors of V and V_pi are those that their own residuals prove, whatever the solution says of
itself: e = r / (1 - c), with r widened by all rounding, that of writing the model to a file
included. So whoever has the file can find them again. The loss L = V* - V_pi is then enclosed in
two ways, which must agree. From the errors, |L - (V - V_pi)| <= e + e' in every state. From the
policy-loss decomposition, L solves ``L = l + discount P_pi L`` with the local losses l >= 0, so

    l <= L <= max l / (1 - c),     sum_s mu(s) L(s) = sum_s d(s) l(s) / (1 - discount);

in particular L = 0 exactly when every choice is surely optimal, however coarse the solution.

An average and a total are proven in other ways (``certify_average``, ``certify_total``), and a very
large model is certified block by block (``certify_blocks``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.bounds import compute_bounds, decompose
from tessella.certificates.certificate import Certificate, ValueCertificate
from tessella.certificates.certify_blocks import certify_in_blocks
from tessella.certificates.certify_undiscounted import certify_average, certify_total
from tessella.certificates.decisions import classify_decisions
from tessella.certificates.interval import (
    EPS,
    Interval,
    IntervalArray,
    enclose_mean,
    next_down,
    next_up,
)
from tessella.certificates.loss import evaluate_against, get_finite_value
from tessella.criteria.average import Average
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import ArgumentError, ModelError, counted, is_number, require_type
from tessella.mdp.as_policy import Labels, as_policy
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.bounds import bound_error
from tessella.solvers.occupancy import Occupancy, compute_visits
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.solution import Solution

# The occupancy carries the decomposition and the bounds, not the loss.
OCCUPANCY_FINEST_TOLERANCE = 1e-9  # sum of the occupancy's errors
OCCUPANCY_COARSEST_TOLERANCE = 1e-6  # sum of the occupancy's errors
DECOMPOSITION_RELATIVE_ACCURACY = 1e-4  # of the mean loss: accuracy of its parts in large models


def certify(
    solution: Solution,
    policy: Any,
    start: Start = None,
    *,
    eps: float | None = None,
    tol: float | None = None,
    labels: Labels | None = None,
    blocks: bool | None = None,
) -> Certificate:
    """What ``policy`` loses against the optimum of the solution's model.

    Of an average it is the loss per period, which is the same from every start.

    Args:
        policy: whatever decides: see ``as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        eps: margin for the localisation bound; None for the smallest at which it applies.
        tol: an action within this of the best is no costly error; None for the tie tolerance.
        labels: whether the policy answers in action indices or values, where that is not clear.
        blocks: whether to compute block by block the figures that are one number each, and nothing
            that has a number for every state; None as the solution's plan says.
    """
    require_type("certify", solution, Solution)
    mdp = solution.mdp
    _require_number("eps", eps)
    _require_number("tol", tol)
    if blocks is None:
        blocks = solution.policy_plan.certificate_route == "blocks"
    if blocks:
        _refuse_options(eps, None, "in blocks")
        return certify_in_blocks(solution, policy, start, tol=tol, labels=labels)
    checked_policy = as_policy(mdp, policy, labels)
    start_weights = start_distribution(mdp, start, checked_policy, solution.policy_plan).reshape(
        mdp.grid.shape
    )
    if isinstance(mdp.criterion, Discounted | FiniteHorizon):
        return certify_values(solution, checked_policy, start_weights, eps, tol)
    _refuse_options(eps, tol, f"of {mdp.criterion}")
    if isinstance(mdp.criterion, Average):
        return certify_average(solution, checked_policy)
    return certify_total(solution, checked_policy, start_weights)


def certify_values(
    solution: Solution,
    policy: Policy,
    start: NDArray,
    eps: float | None = None,
    tol: float | None = None,
) -> ValueCertificate:
    """What ``policy`` loses from ``start`` (grid), where values are sums of rewards."""
    mdp = solution.mdp
    engine = PreparedModel(solution.policy_plan)
    if not engine.saved_contraction_gap > 0:
        raise ModelError(f"{mdp.criterion} is too near 1 for a certificate of this model")
    # Of the solution's own bound nothing is believed.
    optimum = _bound_value(engine, get_finite_value(solution))
    policy_value = evaluate_against(solution, policy).value
    evaluated = _bound_value(engine, policy_value, policy.table)
    decisions = classify_decisions(engine, solution, optimum.error, policy.table)
    losses = _enclose_losses(engine, optimum, evaluated, decisions.loss)
    mean_loss = enclose_mean(start, losses)
    occupancy = _compute_occupancy(engine, policy, start, mean_loss, decisions.loss)
    tolerance = decisions.tie if tol is None else float(tol)
    return ValueCertificate(
        discount=mdp.discount,
        periods=getattr(mdp.criterion, "periods", None),
        optimal=decisions.optimal,
        start=start,
        tolerance=tolerance,
        optimal_value=optimum.value,
        optimal_value_error=optimum.error,
        policy_value=evaluated.value,
        policy_value_error=evaluated.error,
        margin=decisions.margin.value,
        margin_slack=decisions.tie,
        local_losses=decisions.loss,
        losses=losses,
        occupancy=occupancy.share,
        occupancy_error=occupancy.error_bound,
        policy_error=_enclose_state_share(
            decisions.differs, decisions.wrong, decisions.possibly_wrong
        ),
        costly_error=_enclose_state_share(
            *(bounds > tolerance for bounds in _unpack_intervals(decisions.loss))
        ),
        decomposition=decompose(
            decisions.optimal, policy.table, mdp.n_actions, decisions.loss, occupancy
        ),
        bounds=compute_bounds(
            decisions, occupancy, _bound_reward(mdp), engine.saved_contraction_gap, eps
        ),
        **Certificate.identify(mdp, policy),
        **_compute_totals(start, optimum, evaluated, losses, decisions.loss, occupancy),
    )


def _compute_totals(
    start: NDArray,
    optimum: BoundedValue,
    evaluated: BoundedValue,
    losses: IntervalArray,
    local_losses: IntervalArray,
    occupancy: Occupancy,
) -> dict[str, Any]:
    """The single figures of a certificate."""
    value_of_one = occupancy.mdp.criterion.value_of_constant_reward(1)
    uniform_weights = np.full(start.shape, 1 / start.size)
    optimal_mean = _enclose_mean_value(start, optimum)
    occupancy_loss = _enclose_loss_by_occupancy(local_losses, occupancy, occupancy.mdp)
    mean_loss = enclose_mean(start, losses).intersect(occupancy_loss, "the mean loss")
    return {
        "value_gap": enclose_mean(uniform_weights, local_losses).scale(value_of_one),
        "optimal_mean": optimal_mean,
        "policy_mean": _enclose_mean_value(start, evaluated),
        "mean_loss": mean_loss,
        "relative_loss": mean_loss.divide(optimal_mean),
        "worst_loss": losses.max(),
    }


def _require_number(name: str, number: float | None) -> None:
    if number is not None and not (is_number(number) and number >= 0):
        requirement = f"{name} must be a number, finite and not negative"
        raise ArgumentError(requirement, value=f"got {number!r}")


def _refuse_options(eps: float | None, tol: float | None, kind: str) -> None:
    if eps is not None or tol is not None:
        requirement = f"eps and tol ask about single decisions; a certificate {kind} has none"
        raise ArgumentError(requirement, value=f"got eps={eps!r}, tol={tol!r}")


@dataclass(frozen=True, eq=False)
class BoundedValue:
    """A value (grid), and what its residual proves about its error in every state."""

    value: NDArray[np.float64]
    error: float


def _bound_value(
    engine: PreparedModel, value: NDArray, actions: NDArray | None = None
) -> BoundedValue:
    error = bound_error(engine, value, actions, engine.saved_backup_error(value))
    return BoundedValue(value, error * engine.contraction_gap / engine.saved_contraction_gap)


def _compute_occupancy(
    engine: PreparedModel,
    policy: Policy,
    start: NDArray[np.float64],
    mean_loss: float,
    local_losses: IntervalArray,
) -> Occupancy:
    """The occupancy; of a large model as coarse as the parts of the loss allow."""
    mdp = engine.mdp
    tolerance = OCCUPANCY_FINEST_TOLERANCE
    if mdp.n_states > engine.plan.thresholds.fine_occupancy_max_states:
        max_loss = mdp.criterion.value_of_constant_reward(float(local_losses.upper.max()))
        tolerance = OCCUPANCY_COARSEST_TOLERANCE
        if max_loss > 0:
            tolerance = DECOMPOSITION_RELATIVE_ACCURACY * mean_loss / max_loss
    tolerance = min(max(tolerance, OCCUPANCY_FINEST_TOLERANCE), OCCUPANCY_COARSEST_TOLERANCE)
    result = compute_visits(mdp, policy, start, tol=tolerance, plan=engine.plan)
    return replace(
        result,
        error_bound=result.error_bound * engine.contraction_gap / engine.saved_contraction_gap,
    )


def _enclose_losses(
    engine: PreparedModel,
    optimum: BoundedValue,
    evaluated: BoundedValue,
    local_losses: IntervalArray,
) -> IntervalArray:
    """(grid) enclosures of L, from both ways."""
    difference = optimum.value - evaluated.value
    size = float(np.abs(optimum.value).max() + np.abs(evaluated.value).max())
    error = (optimum.error + evaluated.error) * (1 + 4 * EPS) + 2 * EPS * size
    max_loss = float(local_losses.upper.max()) / engine.saved_contraction_gap
    lower = np.maximum(difference - error, local_losses.lower)
    upper = np.minimum(difference + error, max_loss)
    bad = np.flatnonzero(lower > upper)
    if bad.size:
        raise ArithmeticError(
            f"internal error: the two loss enclosures do not intersect in "
            f"{counted(bad.size, 'state')}, first in "
            f"{engine.mdp.grid.describe(int(bad[0]))}"
        )
    return IntervalArray(np.clip(difference, lower, upper), lower, upper)


def _enclose_loss_by_occupancy(
    local_losses: IntervalArray, occupancy: Occupancy, mdp: MDP
) -> Interval:
    """sum_s d(s) l(s) / (1 - discount)."""
    total = enclose_mean(occupancy.share, local_losses)
    error = occupancy.error_bound * float(local_losses.upper.max())
    total = Interval(total, next_down(max(total.lower - error, 0.0)), next_up(total.upper + error))
    return total.scale(mdp.criterion.value_of_constant_reward(1))


def _enclose_mean_value(start: NDArray, bounded: BoundedValue) -> Interval:
    return enclose_mean(
        start,
        IntervalArray(bounded.value, bounded.value - bounded.error, bounded.value + bounded.error),
    )


def _unpack_intervals(intervals: IntervalArray) -> tuple[NDArray, NDArray, NDArray]:
    return intervals.value, intervals.lower, intervals.upper


def _enclose_state_share(estimated: NDArray, certain: NDArray, possible: NDArray) -> Interval:
    """Share of states in a set that has the ``certain`` states and may have the ``possible``."""
    value, lower, upper = (int(mask.sum()) / mask.size for mask in (estimated, certain, possible))
    return Interval(value, next_down(lower), next_up(upper))


def _find_largest_reward(mdp: MDP, action: int) -> float:
    """max |r(s, a)| over the states where the action is feasible."""
    reward = np.abs(mdp.dynamics.action_reward(action))
    return float(
        reward.max() if mdp.feasible is None else reward[mdp.feasible[:, action]].max(initial=0.0)
    )


def _bound_reward(mdp: MDP) -> float:
    """R, the largest |r(s, a)| over feasible pairs, rounded up."""
    largest = max(_find_largest_reward(mdp, action) for action in range(mdp.n_actions))
    rounding = EPS * mdp.dynamics.rounding_terms * mdp.dynamics.reward_scale
    return next_up((largest + rounding + 2 * mdp.dynamics.rounding_as_saved.reward) * (1 + 4 * EPS))
