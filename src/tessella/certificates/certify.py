"""certify(solution, policy) -> Certificate.

How the loss is proven depends on the criterion: values that are sums of rewards by their residuals
(``certify_values``), an average and a total by vectors that are above or below their own backups
(``certify_undiscounted``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify_undiscounted import certify_average, certify_total
from tessella.certificates.certify_values import certify_in_blocks, certify_whole
from tessella.errors import ArgumentError, is_number, require_type
from tessella.mdp.as_policy import Labels, as_policy
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.solution import Solution


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

    For an average it is the loss per period, the same from every start.

    Args:
        solution: of the model.
        policy: a policy in any form: see ``as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        eps: margin for the localisation bound; None for the smallest at which it applies.
        tol: actions within this of the best are not costly errors; None for the tie tolerance.
        labels: whether the policy answers in action indices or values, where that is not clear.
        blocks: True for totals only, computed block by block; False for figures of every state
            too; None for what the solution's plan says.

    Returns:
        The certificate; ``save`` writes it for the checker, ``summary`` puts it in words.

    Raises:
        PolicyError: the policy takes an infeasible or unknown action.
        ArgumentError: the solution has no accurate values, as after ``until="policy"``.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> proof = ts.certify(solution, lambda queue: 1 * (queue < 20))
        >>> print(f"at most {proof.relative_loss.upper:.2%} of the optimal value")
        at most 2.04% of the optimal value
    """
    require_type("certify", solution, Solution)
    solution.require_values("certify")
    mdp = solution.mdp
    criterion = mdp.criterion
    _require_number("eps", eps)
    _require_number("tol", tol)
    if blocks is None:
        blocks = solution.policy_plan.certificate_route == "blocks"
    checked_policy = _name_after_origin(solution, policy, as_policy(mdp, policy, labels))
    if blocks:
        _require_no_options(eps, None, "in blocks")
        return certify_in_blocks(solution, checked_policy, start, tol)
    weights = start_distribution(mdp, start, checked_policy, solution.policy_plan)
    weights = weights.reshape(mdp.grid.shape)
    if not (criterion.has_gain or criterion.requires_absorption):
        return certify_whole(solution, checked_policy, weights, eps, tol)
    _require_no_options(eps, tol, f"of {criterion}")
    if criterion.has_gain:
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


def _require_number(name: str, number: float | None) -> None:
    if number is not None and not (is_number(number) and number >= 0):
        requirement = f"{name} must be a number, finite and not negative"
        raise ArgumentError(requirement, value=f"got {number!r}")


def _require_no_options(eps: float | None, tol: float | None, kind: str) -> None:
    if eps is not None or tol is not None:
        requirement = f"eps and tol ask about single decisions; a certificate {kind} has none"
        raise ArgumentError(requirement, value=f"got eps={eps!r}, tol={tol!r}")
