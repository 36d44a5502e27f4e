"""certify(solution, policy) -> Certificate.

The errors of V and V_pi are those that their own residuals prove, whatever the solution says of
itself: e = r / (1 - c), with r widened by all rounding, that of writing the model to a file
included. So whoever has the file can find them again. The loss L = V* - V_pi of each state is then
enclosed by these errors and by the local losses l >= 0 (``decisions``), and its mean once more, by
the occupancy d of the policy:

    sum_s mu(s) L(s) = sum_s d(s) l(s) / (1 - discount);

in particular L = 0 exactly when every choice is surely optimal, however coarse the solution.

An average and a total are proven in other ways (``certify_average``, ``certify_total``), and a very
large model is certified block by block (``certify_blocks``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate, ValueCertificate
from tessella.certificates.certify_blocks import certify_in_blocks
from tessella.certificates.certify_undiscounted import certify_average, certify_total
from tessella.certificates.decisions import (
    bound_loss_error,
    classify_decisions,
    enclose_losses,
)
from tessella.certificates.interval import (
    EPS,
    Interval,
    IntervalArray,
    enclose_mean,
    enclose_share,
    next_down,
    next_up,
)
from tessella.certificates.loss import (
    evaluate_to_optimum_accuracy,
    get_finite_value,
    prepare_for_certificate,
)
from tessella.certificates.loss_bounds import compute_loss_bounds, decompose
from tessella.errors import ArgumentError, ModelError, is_number, require_type
from tessella.mdp.as_policy import Labels, as_policy
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.bounds import bound_error
from tessella.solvers.occupancy import Occupancy, compute_prepared_occupancy
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
    solution.require_values("certify")
    mdp = solution.mdp
    _require_number("eps", eps)
    _require_number("tol", tol)
    if blocks is None:
        blocks = solution.policy_plan.certificate_route == "blocks"
    checked_policy = _name_after_origin(solution, policy, as_policy(mdp, policy, labels))
    if blocks:
        _refuse_options(eps, None, "in blocks")
        return certify_in_blocks(solution, checked_policy, start, tol=tol)
    weights = start_distribution(mdp, start, checked_policy, solution.policy_plan)
    weights = weights.reshape(mdp.grid.shape)
    if not (mdp.criterion.has_gain or mdp.criterion.requires_absorption):
        return certify_values(solution, checked_policy, weights, eps, tol)
    _refuse_options(eps, tol, f"of {mdp.criterion}")
    if mdp.criterion.has_gain:
        return certify_average(solution, checked_policy)
    return certify_total(solution, checked_policy, weights)


def _name_after_origin(solution: Solution, source: Any, policy: Policy) -> Policy:
    """The policy; the optimal policy of another solution is renamed after its origin."""
    optimal = solution.policy
    if policy is optimal or not policy.name or policy.name != optimal.name:
        return policy
    if np.array_equal(policy.table, optimal.table):
        return policy
    origin = "another model or criterion"
    if isinstance(source, Solution) and source.mdp.criterion != solution.mdp.criterion:
        origin = str(source.mdp.criterion)
    return policy.with_name(f"{policy.name} for {origin}")


def certify_values(
    solution: Solution,
    policy: Policy,
    start: NDArray,
    eps: float | None = None,
    tol: float | None = None,
) -> ValueCertificate:
    """What ``policy`` loses from ``start`` (grid), where values are sums of rewards."""
    mdp = solution.mdp
    prepared = prepare_for_certificate(solution)
    if not prepared.saved_contraction_gap > 0:
        raise ModelError(f"{mdp.criterion} is too near 1 for a certificate of this model")
    # The solution's own bound is not trusted.
    value = get_finite_value(solution)
    value_error = _bound_value_error(prepared, value)
    policy_value = evaluate_to_optimum_accuracy(prepared, value, policy).value
    policy_value_error = _bound_value_error(prepared, policy_value, policy.table)
    decisions = classify_decisions(prepared, solution, value_error, policy.table)
    max_size = float(np.abs(value).max() + np.abs(policy_value).max())
    losses = enclose_losses(
        value,
        policy_value,
        bound_loss_error(value_error, policy_value_error, max_size),
        decisions.local_losses,
        float(decisions.local_losses.upper.max()) / prepared.saved_contraction_gap,
    )
    mean_loss = enclose_mean(start, losses)
    occupancy = _compute_occupancy(prepared, policy, start, mean_loss, decisions.local_losses)
    occupancy_loss = _enclose_loss_by_occupancy(decisions.local_losses, occupancy)
    mean_loss = mean_loss.intersect(occupancy_loss, "the mean loss")
    optimal_mean = enclose_mean(start, IntervalArray.from_error(value, value_error))
    policy_mean = enclose_mean(start, IntervalArray.from_error(policy_value, policy_value_error))
    uniform_weights = np.full(start.shape, 1 / start.size)
    tolerance = decisions.tie_tolerance if tol is None else float(tol)
    return ValueCertificate(
        discount=mdp.discount,
        periods=getattr(mdp.criterion, "periods", None),
        optimal=decisions.optimal,
        start=start,
        tolerance=tolerance,
        optimal_value=value,
        optimal_value_error=value_error,
        policy_value=policy_value,
        policy_value_error=policy_value_error,
        margin=decisions.margin.value,
        margin_slack=decisions.tie_tolerance,
        local_losses=decisions.local_losses,
        losses=losses,
        occupancy=occupancy.share,
        occupancy_error=occupancy.error_bound,
        policy_error=enclose_share(decisions.count_differences(), mdp.n_states),
        costly_error=enclose_share(decisions.count_costly(tolerance), mdp.n_states),
        decomposition=decompose(
            decisions.optimal, policy.table, mdp.n_actions, decisions.local_losses, occupancy
        ),
        bounds=compute_loss_bounds(
            decisions, occupancy, _bound_reward(mdp), prepared.saved_contraction_gap, eps
        ),
        value_gap=enclose_mean(uniform_weights, decisions.local_losses).scale(
            mdp.criterion.value_of_constant_reward(1)
        ),
        optimal_mean=optimal_mean,
        policy_mean=policy_mean,
        mean_loss=mean_loss,
        relative_loss=mean_loss.divide(optimal_mean),
        worst_loss=losses.max(),
        **Certificate.identify(mdp, policy),
    )


def _require_number(name: str, number: float | None) -> None:
    if number is not None and not (is_number(number) and number >= 0):
        requirement = f"{name} must be a number, finite and not negative"
        raise ArgumentError(requirement, value=f"got {number!r}")


def _refuse_options(eps: float | None, tol: float | None, kind: str) -> None:
    if eps is not None or tol is not None:
        requirement = f"eps and tol ask about single decisions; a certificate {kind} has none"
        raise ArgumentError(requirement, value=f"got eps={eps!r}, tol={tol!r}")


def _bound_value_error(
    prepared: PreparedModel, value: NDArray, actions: NDArray | None = None
) -> float:
    """Bound on the error of ``value`` (grid) in every state, from its residual."""
    error = bound_error(prepared, value, actions, prepared.saved_backup_error(value))
    return error * prepared.contraction_gap / prepared.saved_contraction_gap


def _compute_occupancy(
    prepared: PreparedModel,
    policy: Policy,
    start: NDArray[np.float64],
    mean_loss: float,
    local_losses: IntervalArray,
) -> Occupancy:
    """The occupancy; for a large model only as accurate as the decomposition needs."""
    mdp = prepared.mdp
    tolerance = OCCUPANCY_FINEST_TOLERANCE
    if mdp.n_states > prepared.plan.thresholds.fine_occupancy_max_states:
        max_loss = mdp.criterion.value_of_constant_reward(float(local_losses.upper.max()))
        tolerance = OCCUPANCY_COARSEST_TOLERANCE
        if max_loss > 0:
            tolerance = DECOMPOSITION_RELATIVE_ACCURACY * mean_loss / max_loss
    tolerance = min(max(tolerance, OCCUPANCY_FINEST_TOLERANCE), OCCUPANCY_COARSEST_TOLERANCE)
    result = compute_prepared_occupancy(prepared, policy, start, tolerance)
    return replace(
        result,
        error_bound=result.error_bound * prepared.contraction_gap / prepared.saved_contraction_gap,
    )


def _enclose_loss_by_occupancy(local_losses: IntervalArray, occupancy: Occupancy) -> Interval:
    """sum_s d(s) l(s) / (1 - discount)."""
    total = enclose_mean(occupancy.share, local_losses)
    error = occupancy.error_bound * float(local_losses.upper.max())
    total = Interval(total, next_down(max(total.lower - error, 0.0)), next_up(total.upper + error))
    return total.scale(occupancy.mdp.criterion.value_of_constant_reward(1))


def _bound_reward(mdp: MDP) -> float:
    """R, the largest |r(s, a)| over feasible pairs, rounded up."""
    largest = 0.0
    for action in range(mdp.n_actions):
        reward = np.abs(mdp.dynamics.action_reward(action))
        if mdp.feasible is not None:
            reward = reward[mdp.feasible[:, action]]
        largest = max(largest, float(reward.max(initial=0.0)))
    rounding = EPS * mdp.dynamics.rounding.backup_terms * mdp.dynamics.reward_scale
    return next_up(
        (largest + rounding + 2 * mdp.dynamics.rounding.in_file.reward_error) * (1 + 4 * EPS)
    )
