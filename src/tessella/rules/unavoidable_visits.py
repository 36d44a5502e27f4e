"""Visits that no admissible rule can avoid, and so conditions that every rule within a loss meets.

    m(s') = mu(s') + discount sum_s m(s) min_{a in A(s)} P(s' | s, a)

A rule with mean loss sum_s d(s) gap(s, rule(s)) <= limit has d >= m, so it takes no action with
m(s) gap(s, a) > limit: A(s) shrinks, m grows, and again. From the worst state, every action must
have gap(s, a) <= limit. The long-run shares d = d P^n of an average are at least

    m(s') = max_n min_s K^n(s, s'),    K(s, s') = min_{a in A(s)} P(s' | s, a),

and the loss is the same from every state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.loss_target import LossTarget

TIGHTENING_MAX_ROUNDS = 12  # rounds: visits, and the actions that they forbid
MATRIX_SQUARINGS = 8  # squarings of the rows of an average: K^n up to n = 2^8
ROUNDING_SAFETY_FACTOR = 1 - 1e-9  # covers the rounding of visits


@dataclass(frozen=True, eq=False)
class NecessaryCondition:
    """Additive costs that are at most ``target`` for every rule that meets a loss target.

    Attributes:
        costs: (S, A) finite.
        target: the bound.
        is_zero_one: whether the costs are 0 for allowed actions and 1 for all others.
    """

    costs: NDArray[np.float64]
    target: float
    is_zero_one: bool = False


def derive_necessary_conditions(
    evaluator: PolicyEvaluator, loss_target: LossTarget
) -> list[NecessaryCondition]:
    """What every rule that meets the loss target fulfils; the worst state has two conditions."""
    gap_bounds = bound_gaps_below(evaluator)
    if loss_target.worst and not evaluator.is_average:
        limit = max(loss_target.limit, loss_target.resolution)
        return [
            NecessaryCondition((gap_bounds > limit).astype(float), 0.5, True),
            _make_mean_condition(evaluator, loss_target, gap_bounds),
        ]
    return [_make_mean_condition(evaluator, loss_target, gap_bounds)]


def bound_gaps_below(evaluator: PolicyEvaluator) -> NDArray[np.float64]:
    """(S, A) what every action surely loses, infinite where infeasible."""
    gap_bounds = np.where(evaluator.feasible, 0.0, np.inf)
    if np.isfinite(evaluator.solution.tie_tolerance):  # else nothing is known of any gap
        gap_bounds = np.maximum(evaluator.gap - evaluator.solution.tie_tolerance, 0.0)
    return gap_bounds


def _make_mean_condition(
    evaluator: PolicyEvaluator, loss_target: LossTarget, gap_bounds: NDArray
) -> NecessaryCondition:
    limit = max(loss_target.limit, loss_target.resolution)
    visits = bound_unavoidable_visits(evaluator, gap_bounds, limit)
    with np.errstate(invalid="ignore"):
        costs = np.where(visits[:, None] > 0, visits[:, None] * gap_bounds, 0.0)
    costs[~evaluator.feasible] = np.inf
    if loss_target.is_zero:
        return NecessaryCondition((costs > limit).astype(float), 0.5, True)
    return NecessaryCondition(np.minimum(costs, 2 * limit), limit * (1 + 1e-9))


def bound_unavoidable_visits(
    evaluator: PolicyEvaluator, gap_bounds: NDArray, limit: float
) -> NDArray[np.float64]:
    """(S,) m of the smallest sets A; of a large model only the start itself."""
    visits = (
        np.zeros_like(evaluator.start)
        if evaluator.is_average
        else evaluator.start * ROUNDING_SAFETY_FACTOR
    )
    if not evaluator.is_small:
        return visits
    allowed = evaluator.feasible & ~(
        visits[:, None] * np.where(visits[:, None] > 0, gap_bounds, 0) > limit
    )
    for _ in range(TIGHTENING_MAX_ROUNDS):
        visits = bound_visits_below(evaluator, allowed)
        with np.errstate(invalid="ignore"):
            losses = np.where(visits[:, None] > 0, visits[:, None] * gap_bounds, 0.0)
        remaining = allowed & ~(losses > limit)
        if (remaining == allowed).all() or not remaining.any(axis=1).all():
            break
        allowed = remaining
    return visits


def bound_visits_below(evaluator: PolicyEvaluator, allowed: NDArray) -> NDArray[np.float64]:
    """(S,) m of sets A, (S, A)."""
    rows = np.where(allowed.T[:, :, None], evaluator.rows, np.inf).min(axis=0)
    rows[~np.isfinite(rows)] = 0.0
    if evaluator.is_average:
        return _bound_shares_below(rows)
    system = np.eye(len(rows)) - evaluator.mdp.discount * rows
    visits = np.linalg.solve(system.T, evaluator.start)
    return np.maximum(visits, 0.0) * ROUNDING_SAFETY_FACTOR


def _bound_shares_below(rows: NDArray) -> NDArray[np.float64]:
    """(S,) the largest column minima of the powers 1, 2, 4, ... of the rows."""
    shares = rows.min(axis=0)
    for _ in range(MATRIX_SQUARINGS):
        rows = rows @ rows
        shares = np.maximum(shares, rows.min(axis=0))
    return shares * ROUNDING_SAFETY_FACTOR
