"""occupancy(mdp, policy) -> Occupancy: how often each state is visited, discounted.

    d = (1 - discount) sum_t discount^t mu P_pi^t = (1 - discount) mu + discount P_pi' d,

with the adjoint of the policy's expectation. For a trial d with residual rho, the error is at most
||rho||_1 / (1 - discount) in total; the sum of d is 1, or less in a model that can end. With a
horizon, d is a share of the time that is left after the start, and sums to 1 from any of them; one
forward pass over the periods computes it.
Corrections of large models are in single precision, residuals never (see ``mixed_precision``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import require_criterion
from tessella.errors import NotConverged, require_type
from tessella.mdp.compilation import compile_per_shape, in_float64, to_backend
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.numerics import array_namespace
from tessella.rounding import EPS, round_down, round_up
from tessella.solvers.execution_plan import ExecutionPlan, plan_for_policies
from tessella.solvers.hitting_times import bound_policy_hitting_time
from tessella.solvers.method import validate_tol
from tessella.solvers.mixed_precision import scale_residual, to_single_precision
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.prepared_model import PreparedModel

# A correction that leaves more of the residual than this has failed.
CORRECTION_MAX_RESIDUAL_RATIO = 0.5
SINGLE_CORRECTION_TOLERANCE = 1e-3  # share of the residual that single precision may leave
SINGLE_CORRECTION_MAX_STEPS = 150  # steps of BiCGSTAB in single precision
DOUBLE_CORRECTION_TOLERANCE = 1e-8  # share of the residual that double precision may leave
DOUBLE_CORRECTION_MAX_STEPS = 200  # steps of BiCGSTAB in double precision
# Periods that a discount weighs: from these on, a coarse correction saves more than it costs.
COARSE_MIN_PERIODS = 1000.0
PLAIN_STEPS = 800  # steps of the process where a correction did not help


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Share of time in each state; with a discount, earlier periods count more."""

    mdp: MDP
    policy: Policy
    start: NDArray[np.float64]  # (grid) distribution of the first state
    share: NDArray[np.float64]  # (grid)
    error_bound: float  # on the sum over states of |share - exact|

    def __str__(self) -> str:
        order = np.argsort(-self.share, axis=None, kind="stable")
        shares = self.share.ravel()[order]
        half = 1 + int(np.searchsorted(shares.cumsum(), shares.sum() / 2))
        lines = [f"  {self.share.flat[s]:.2%} in {self.mdp.grid.describe(s)}" for s in order[:3]]
        title = f"Occupancy of {self.policy.name or 'a policy'}, {self.mdp.name or 'MDP'}"
        headline = f"{title}: half of the time in {half:,} of {shares.size:,} states"
        return "\n".join([headline, *lines, f"total error at most {round_up(self.error_bound, 2)}"])


def occupancy(
    mdp: MDP,
    policy: Any,
    start: Start = None,
    *,
    tol: float | None = None,
    max_rounds: int = 200,
    plan: ExecutionPlan | None = None,
) -> Occupancy:
    """Share of time in each state: discounted, from a start; or in the long run.

    With a horizon it is a share of the periods that are left after the start.

    Args:
        policy: whatever decides: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        tol: bound on the total error (1e-11), raised to what rounding allows.
        plan: the routes to take, such as ``solution.plan``; by default chosen for the model.
    """
    require_type("occupancy", mdp, MDP)
    result = compute_occupancy(mdp, policy, start, tol=tol, max_rounds=max_rounds, plan=plan)
    remaining = mdp.criterion.remaining_time_share(result.start)
    share = result.share / remaining
    bound = result.error_bound / remaining + 4 * EPS
    return replace(result, share=share, error_bound=bound) if remaining != 1 else result


def compute_occupancy(
    mdp: MDP,
    policy: Any,
    start: Start,
    *,
    tol: float | None,
    max_rounds: int = 200,
    guess: NDArray | None = None,
    plan: ExecutionPlan | None = None,
) -> Occupancy:
    """The occupancy as shares of the whole horizon, also of the periods before the start.

    ``guess`` is the first iterate, such as the occupancy of a similar policy.
    """
    require_criterion("occupancy", mdp.criterion, "is_discounted", "has_gain", "has_horizon")
    checked_policy = mdp.policy(policy)
    tol = validate_tol(tol) or 1e-11
    plan = plan_for_policies(mdp, plan)
    mu = start_distribution(mdp, start, checked_policy, plan).reshape(mdp.grid.shape)
    return compute_prepared_occupancy(
        PreparedModel(plan), checked_policy, mu, tol, max_rounds, guess
    )


@in_float64
def compute_prepared_occupancy(
    prepared: PreparedModel,
    checked_policy: Policy,
    mu: NDArray,
    tol: float,
    max_rounds: int = 200,
    guess: NDArray | None = None,
) -> Occupancy:
    """The same for a prepared model, from the distribution ``mu`` (grid) of the first state."""
    mdp = prepared.mdp
    actions = checked_policy.table
    use_single = prepared.plan.evaluation_precision == "single"
    factor = _compute_error_factor(prepared, actions)
    floor = prepared.adjoint_rounding_floor * prepared.contraction_gap * factor
    target = max(tol, 2 * floor)
    policy, rhs = to_backend(prepared.backend, (actions, mdp.criterion.occupancy_rhs(mu)))
    data = prepared.data
    if mdp.criterion.has_gain or 1 / prepared.contraction_gap > COARSE_MIN_PERIODS:
        data = prepared.build_policy_data(policy)
    system = prepared.backend, data, policy, rhs
    d = rhs
    if guess is not None:
        d = to_backend(prepared.backend, guess.reshape(mu.shape).astype(float))
    residual = bound = np.inf
    for _ in range(max_rounds):
        previous = residual
        if mdp.dynamics.n_periods is None:
            d, residual = _improve(use_single, system, d, previous)
        else:
            d, residual = _run_forward_pass(*system)
        residual = float(residual)
        bound = residual * factor + floor
        if bound <= target:
            return Occupancy(mdp, checked_policy, mu, np.asarray(d), bound)
        if residual > CORRECTION_MAX_RESIDUAL_RATIO * previous:
            d = _solve_directly(prepared, np.asarray(actions), rhs, d)
    reached = round_up(bound)
    needed = round_down(target)
    raise NotConverged(f"occupancy: bound {reached} after {max_rounds} rounds, not {needed}")


def _improve(use_single: bool, system: tuple, d, previous: float) -> tuple[Any, Any]:
    """d after a Krylov correction, or after steps of the process itself where that did not help."""
    backend, *arguments = system
    trial, residual = _correct(backend, use_single, *arguments, d)
    if not float(residual) < CORRECTION_MAX_RESIDUAL_RATIO * previous:
        trial, residual = _run_plain_steps(backend, *arguments, d)
    return trial, residual


def _compute_error_factor(prepared: PreparedModel, table: NDArray) -> float:
    """The factor that turns the sum of a residual into a bound on the sum of the errors."""
    if prepared.mdp.criterion.has_gain:
        # The norm of (I - P + mean)^-1: see ``hitting_times``.
        return 1 + 2 * bound_policy_hitting_time(prepared, table)
    return 1 / prepared.contraction_gap


def _solve_directly(prepared: PreparedModel, table: NDArray, rhs, d):
    """The occupancy by a direct solve, where the dynamics have one; else ``d``."""
    mdp = prepared.mdp
    if not mdp.criterion.is_discounted:
        return d
    system = prepared.dynamics.factorise_policy_system(table, mdp.discount)
    if system is None:
        return d
    solution = system.solve(np.asarray(rhs).ravel(), trans="T")
    return to_backend(prepared.backend, solution.reshape(d.shape))


@compile_per_shape("backend", "single")
def _correct(backend, single: bool, data: ModelData, policy, source, d):
    """(d after one Krylov correction, sum of the remaining residual)."""
    operators = Operators(backend, data)
    xp = array_namespace(source)
    system = exact = operators.policy_system_adjoint(policy, source)
    rhs = source - exact(d)
    scale = 1.0
    tol = DOUBLE_CORRECTION_TOLERANCE
    max_steps = DOUBLE_CORRECTION_MAX_STEPS
    if single:
        rhs, scale = scale_residual(rhs)
        system = to_single_precision(operators).policy_system_adjoint(policy, rhs)
        tol = SINGLE_CORRECTION_TOLERANCE
        max_steps = SINGLE_CORRECTION_MAX_STEPS
    preconditioner = operators.precondition_adjoint
    e = xp.bicgstab(system, rhs, tol=tol, maxiter=max_steps, preconditioner=preconditioner)
    trial = xp.maximum(d + scale * e, 0.0)
    return trial, abs(source - exact(trial)).sum()


@compile_per_shape("backend")
def _run_forward_pass(backend, data: ModelData, policy, source):
    """(d of a horizon, one period after the other, sum of the remaining residual)."""
    discount = data.criterion.discount
    xp = array_namespace(source)

    def visit_period(arriving, t):
        share = source[t] + arriving
        move = backend.period_backend.policy_adjoint(
            backend.period_arrays(data.arrays, t), policy[t], share
        )
        return discount * move(share), share

    d = xp.scan(visit_period, xp.zeros_like(source[0]), len(source))
    system = Operators(backend, data).policy_system_adjoint(policy, source)
    return d, abs(source - system(d)).sum()


@compile_per_shape("backend")
def _run_plain_steps(backend, data: ModelData, policy, rhs, d):
    """(d after some steps of the process, sum of the remaining residual)."""
    system = Operators(backend, data).policy_system_adjoint(policy, rhs)
    xp = array_namespace(rhs)
    d = xp.iterate(PLAIN_STEPS, lambda x: x + (rhs - system(x)), d)
    d = xp.maximum(d, 0.0)
    return d, abs(rhs - system(d)).sum()
