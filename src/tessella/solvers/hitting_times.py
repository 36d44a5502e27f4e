"""Bounds on hitting times, from which the bounds of undiscounted values follow.

Let w >= 1 + P_a w~ for all actions a of a set A(s), with w~ the same as w but 0 in the states to be
reached. Then no policy that keeps to A needs more than w(s) periods, in expectation, from s to one
of them. From any trial w with  1 + P_a w~ <= w + rho,  rho < 1,  such a bound is w / (1 - rho).

For averages the target is one reference state. If h solves g + h = T h up to a residual r, with all
near-optimal actions in A, and g', h' solve it exactly when only actions of A are allowed, then,
with both 0 in the reference state,

    |h - h'| <= r w,      |q(s, a) - q'(s, a)| <= r max w.

Actions outside of A that are worse than the best by more than twice that (and rounding) are worse
at h' too; so h' and g' solve it with all actions allowed, and h' is the relative value.

For total rewards the targets are the absorbing states, where values are 0 and there is no g. A
policy that leaves A forever loses forever, and one that keeps to A ends, so h' is the best total
reward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import ENDING_MIN_DEFICIT
from tessella.mdp.compilation import compile_per_shape, in_float64, to_backend
from tessella.mdp.dynamics import fold_actions
from tessella.numerics import array_namespace
from tessella.rounding import EPS, RowSumBounds
from tessella.solvers.bounds import compute_tie_tolerance
from tessella.solvers.elimination import (
    FeasibleRows,
    PolicyResiduals,
    factorise_hitting_system,
    rows_are_affordable,
)
from tessella.solvers.operators import Operators, max_abs
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import ValueAccuracy

HITTING_SWEEPS_PER_CALL = 50  # sweeps of a trial w in one compiled call
HITTING_MAX_CALLS = 40  # compiled calls, at most
TRIAL_MAX_RESIDUAL = 0.5  # rho at which a trial is accepted
FIRST_ATTEMPT_PRODUCTS = 20  # steps of BiCGSTAB in the first attempt, at most
ATTEMPT_GROWTH_FACTOR = 5  # steps of an attempt, in those of the one before
MAX_ATTEMPTS = 3  # attempts
ATTEMPT_RELATIVE_TOLERANCE = 1e-6  # share of the right side that an attempt may leave
TIE_WIDENING_FACTOR = 4.0  # a set A that was too small is widened to this multiple of the need
MAX_WIDENINGS = 6  # times that it is widened, at most

Answer = TypeVar("Answer")


class HittingTimeProblem(NamedTuple):
    """Times to ``targets``, for a policy, or for actions near the best."""

    h: Any  # (grid)
    policy: Any  # (grid)
    targets: Any  # (grid) whether a state is one of those to be reached
    near_optimal_width: Any = np.float64(0)


@in_float64
def bound_relative_error(
    prepared: PreparedModel, value: NDArray, policy: NDArray, bound: float
) -> ValueAccuracy:
    """The error of relative values ``value``, whose gain is known within ``bound``."""
    arrays = np.asarray(value, dtype=float), np.asarray(policy, np.int32)
    h, actions = to_backend(prepared.backend, arrays)
    operators = prepared.make_operators()
    action_value_error = float(_compute_rounding(operators, h))
    operators = operators.with_data(prepared.build_policy_data(actions))
    residual = 2 * bound + 2 * action_value_error
    problem = HittingTimeProblem(h, actions, _mark_most_visited(operators, actions))
    times = _bound_near_optimal_times(prepared, operators, problem, residual, action_value_error)
    hitting_time = float(times.max())
    tie_tolerance = compute_tie_tolerance(residual * hitting_time, action_value_error)
    # Twice: from 0 in the reference to 0 in the first state.
    return ValueAccuracy(2 * residual * hitting_time, tie_tolerance)


def _bound_near_optimal_times(
    prepared: PreparedModel,
    operators: Operators,
    problem: HittingTimeProblem,
    residual: float,
    action_value_error: float,
) -> NDArray[np.float64]:
    """(grid) w for all actions that may be best, given the error r w; infinite where not found."""

    def attempt(near_optimal_width: float) -> tuple[NDArray[np.float64], float]:
        widened = problem._replace(near_optimal_width=np.float64(near_optimal_width))
        w = np.asarray(_bound_times(prepared, operators, widened))
        return w, compute_tie_tolerance(residual * float(w.max()), action_value_error)

    w = widen_ties(4 * action_value_error, attempt)
    return np.full(prepared.mdp.grid.shape, np.inf) if w is None else w


def widen_ties(
    near_optimal_width: float, attempt: Callable[[float], tuple[Answer, float]]
) -> Answer | None:
    """The answer for ties of a width that is wide enough; None where the width keeps growing.

    ``attempt(width)`` returns (answer, the width that this answer needs).
    """
    for _ in range(MAX_WIDENINGS):
        answer, required_width = attempt(near_optimal_width)
        if required_width <= near_optimal_width or not np.isfinite(required_width):
            return answer
        near_optimal_width = TIE_WIDENING_FACTOR * required_width
    return None


@in_float64
def bound_policy_hitting_time(prepared: PreparedModel, policy: NDArray) -> float:
    """Bound on the expected periods under a policy to its most visited state."""
    arrays = np.zeros(prepared.mdp.grid.shape), np.asarray(policy, np.int32)
    zeros, actions = to_backend(prepared.backend, arrays)
    operators = prepared.make_operators(evaluates_policy=True)
    operators = operators.with_data(prepared.build_policy_data(actions))
    problem = HittingTimeProblem(zeros, actions, _mark_most_visited(operators, actions))
    return float(_bound_times(prepared, operators, problem).max())


@in_float64
def bound_absorption_times_by_state(
    prepared: PreparedModel,
    absorbing: NDArray,
    value: NDArray,
    policy: NDArray,
    residual: float,
    evaluates_policy: bool,
) -> NDArray[np.float64]:
    """(grid) w, 0 at the end, with w >= 1 + P_a w for all actions a that may be optimal.

    These are the best at values that are off by up to ``residual * w``. If ``evaluates_policy``,
    they are those of ``policy`` alone. Infinite where one of them may never end.
    """
    arrays = to_backend(prepared.backend, (value, np.asarray(policy, np.int32), absorbing))
    problem = HittingTimeProblem(*arrays)
    operators = prepared.make_operators(evaluates_policy)
    if evaluates_policy:
        w = np.asarray(_bound_times(prepared, operators, problem))
    else:
        action_value_error = float(_compute_rounding(operators, problem.h))
        w = _bound_near_optimal_times(
            prepared, operators, problem, residual + action_value_error, action_value_error
        )
    return _zero_at_targets(w, absorbing)


def _bound_times(prepared: PreparedModel, operators: Operators, problem: HittingTimeProblem):
    """(grid) w of the policy's actions if one is evaluated, else of all near-optimal ones."""
    w = _refine_trial(prepared, operators, problem, _make_first_trial(operators, problem))
    can_solve = prepared.mdp.criterion.requires_absorption and rows_are_affordable(prepared.mdp)
    if not can_solve or np.isfinite(w).all():
        return w
    # A way of n periods takes n sweeps, and a Krylov method as many products; a direct solve none.
    rows = FeasibleRows.from_model(prepared.mdp)
    is_allowed = np.asarray(_mark_allowed(operators, problem))
    is_allowed = is_allowed.reshape(prepared.mdp.n_actions, -1)[rows.action, rows.state]
    actions, targets = (np.asarray(array).ravel() for array in (problem.policy, problem.targets))
    trial = find_longest_times(rows, is_allowed, actions, targets)
    if trial is None:
        return w
    trial = to_backend(prepared.backend, trial.reshape(prepared.mdp.grid.shape))
    return _refine_trial(prepared, operators, problem, trial)


def _refine_trial(prepared: PreparedModel, operators: Operators, problem: HittingTimeProblem, w):
    """(grid) a bound from sweeps of the trial ``w``; inf where none is reached."""
    for _ in range(HITTING_MAX_CALLS):
        w, rho = _sweep_trial(operators, problem, w)
        largest = float(w.max())
        rho = float(rho) + EPS * (prepared.dynamics.rounding.backup_terms + 8) * largest
        row_error = prepared.dynamics.rounding.in_memory.row_error
        rho += (compute_row_sum_error(prepared.row_sum_bounds) + row_error) * largest
        if rho < TRIAL_MAX_RESIDUAL:
            return w / (1 - rho) * (1 + 8 * EPS)
        if not np.isfinite(largest):
            break
    return np.full(prepared.mdp.grid.shape, np.inf)


def find_longest_times(
    rows: FeasibleRows, is_allowed: NDArray, actions: NDArray, targets: NDArray
) -> NDArray[np.float64] | None:
    """(S,) the longest expected times to ``targets`` with ``is_allowed`` (K,) actions, roughly.

    By policy iteration from ``actions``; None where some policy never gets there.
    """
    slack = np.full(len(rows.state), TRIAL_MAX_RESIDUAL / 4)
    actions = rows.improve(actions, np.where(is_allowed, 0.0, -np.inf), slack)  # to allowed ones

    def evaluate(actions: NDArray) -> PolicyResiduals | None:
        factors = factorise_hitting_system(rows.select_policy(actions).matrix, targets)
        if factors is None:
            return None
        w = factors.solve(np.ones(rows.n_states))
        if not (w >= 0).all():  # no times: the system is singular but for rounding
            return None
        residuals = 1 + rows.matrix @ np.where(targets, 0.0, w) - w[rows.state]
        residuals = np.where(is_allowed, residuals, -np.inf)
        return PolicyResiduals(rows, actions, w, residuals, slack)

    longest = rows.iterate_policies(actions, evaluate)
    return None if longest is None else longest.value


def compute_row_sum_error(row_sums: RowSumBounds) -> float:
    """How far rounding may have moved a row sum; a process that may end only ends sooner."""
    may_end = not row_sums.deviation < ENDING_MIN_DEFICIT
    return max(row_sums.excess, 0.0) if may_end else row_sums.deviation


@compile_per_shape()
def _mark_most_visited(operators: Operators, policy):
    """(grid) the state with the largest share of time in the long run, marked."""
    xp = array_namespace(policy)
    rhs = xp.full(policy.shape, 1 / policy.size)
    system = operators.policy_system_adjoint(policy, rhs)
    occupancy = _solve_roughly(system, rhs, operators.preconditioner(adjoint=True))
    flat_index = xp.arange(policy.size).reshape(policy.shape)
    return flat_index == xp.argmax(occupancy)


def _solve_roughly(system: Any, rhs: Any, preconditioner: Any) -> Any:
    """x with system(x) near ``rhs``, from x = rhs on.

    BiCGSTAB may diverge after some products, or break down; so it is restarted from the best point
    so far, with a growing limit, and steps that do not reduce the residual are discarded.
    """
    xp = array_namespace(rhs)

    def attempt(carry):
        max_products, x = carry
        residual = rhs - system(x)
        limits = {"tol": ATTEMPT_RELATIVE_TOLERANCE, "maxiter": max_products}
        step = xp.bicgstab(system, residual, preconditioner=preconditioner, **limits)
        is_better = abs(rhs - system(x + step)).sum() < abs(residual).sum()
        # NaN compares as not better.
        return max_products * ATTEMPT_GROWTH_FACTOR, xp.where(is_better, x + step, x)

    return xp.iterate(MAX_ATTEMPTS, attempt, (FIRST_ATTEMPT_PRODUCTS, rhs))[1]


@compile_per_shape()
def _compute_rounding(operators: Operators, value):
    v, shift = operators.criterion.split_shift(value)
    return operators.bound_rounding(v, shift) + EPS * max_abs(v)


@compile_per_shape()
def _make_first_trial(operators: Operators, problem: HittingTimeProblem):
    """Roughly the expected time under one policy; 1 where the solve fails."""

    def system(w):
        ahead = _zero_at_targets(w, problem.targets)
        return w - operators.policy_expectation(problem.policy, ahead)

    xp = array_namespace(problem.policy)
    ones = xp.ones(problem.policy.shape)
    w = _solve_roughly(system, ones, operators.preconditioner())
    return xp.where((w > 0).all(), w, ones)


@compile_per_shape()
def _sweep_trial(operators: Operators, problem: HittingTimeProblem, w):
    """(w after some sweeps of 1 + max_a P_a w~, the largest increase in the last)."""
    xp = array_namespace(w)
    is_allowed = _find_allowed(operators, problem)

    def sweep(w):
        expected = operators.expect(_zero_at_targets(w, problem.targets))

        def step(action, longest):
            time = 1 + expected(action)
            return xp.maximum(longest, xp.where(is_allowed(action), time, -xp.inf))

        return fold_actions(operators.backend, step, xp.full(w.shape, -xp.inf))

    w = xp.iterate(HITTING_SWEEPS_PER_CALL, sweep, w)
    return w, (sweep(w) - w).max()


@compile_per_shape()
def _mark_allowed(operators: Operators, problem: HittingTimeProblem):
    """(A, grid) whether an action is one of those whose times are bounded."""
    xp = array_namespace(problem.h)
    return xp.map_items(_find_allowed(operators, problem), xp.arange(operators.backend.n_actions))


def _find_allowed(operators: Operators, problem: HittingTimeProblem) -> Callable[[Any], Any]:
    """action -> (grid) whether it is the policy's own, or near the best."""
    if operators.evaluates_policy:
        return lambda action: problem.policy == action
    h = problem.h
    xp = array_namespace(h)
    q_of = operators.q(operators.criterion.split_shift(h)[0])
    lowest = xp.full(h.shape, -xp.inf)
    best = fold_actions(operators.backend, lambda a, b: xp.maximum(b, q_of(a)), lowest)
    return lambda action: q_of(action) >= best - problem.near_optimal_width


def _zero_at_targets(w: Any, targets: Any) -> Any:
    """w with 0 in the states to be reached."""
    return array_namespace(w).where(targets, 0.0, w)
