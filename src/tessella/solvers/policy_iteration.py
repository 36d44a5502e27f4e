"""Value iteration, modified policy iteration, and policy iteration, exact and inexact.

Value iteration is v <- T v, damped where the criterion needs it. The two-sided bounds of
``iteration`` shrink with the *span* of T v - v, which usually falls much faster than discount^k, so
the loop stops long before the classical test would. Modified policy iteration is v <- T_pi^m T v,
with pi greedy at v: sweeps of one policy cost less than sweeps that maximise.

Policy iteration takes the value of pi, which with d = T v - v = T_pi v - v is v + e where

    (I - discount P_pi) e = d.

It is solved to nearly full accuracy (policy iteration), or only until the residual has fallen by
``forcing`` (inexact policy iteration: the rest is corrected after the next improvement): by sweeps
where a few will do, else by BiCGSTAB, which needs only products with P_pi. The iteration count of a
Krylov method hardly grows as the discount approaches 1, where sweeps of a chain that mixes slowly
need 1 / (1 - discount) of them.

Small tables, and those of short rows, are first swept over all actions (``run_greedy_sweeps``):
NumPy compares all of these in one go, and fewer policies are left to evaluate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.errors import require_whole
from tessella.numerics import NUMPY, array_namespace
from tessella.solvers.method import Method, require_between
from tessella.solvers.operators import Operators, compute_target

if TYPE_CHECKING:
    from tessella.solvers.iteration import IterationState

SMALLEST_POSITIVE = 1e-300  # what a quotient or a logarithm takes instead of 0
# These decide by what a run sees of its own progress (benchmarks/methods.py).
TRIAL_SWEEPS = 4  # sweeps of a policy that show how fast sweeps are
# Where no more sweeps than these are needed, nothing is quicker.
FEW_ROW_SWEEPS = 40  # sweeps over the rows of a table
FEW_STAGE_SWEEPS = 100  # sweeps through stages
# Share of the states: where the actions of more of them change, a policy has not settled.
SETTLED_FRACTION = 1e-3
EARLY_MAX_SWEEPS = 8  # sweeps through stages for a policy that has not settled
SETTLED_MAX_SWEEPS = 250  # sweeps through stages for a policy that has settled
# A linear solve that leaves more of the residual's span than this has failed.
SOLVE_MAX_SPAN_RATIO = 0.5
EXACT_RELATIVE_TOLERANCE = 1e-13  # of the residual: what policy iteration leaves of it
# After a failed linear solve, sweep up to this many times its product limit.
FALLBACK_SWEEPS_PER_PRODUCT = 2
# Steps of a linear solver before a direct solve takes over, where there is one.
DIRECT_SOLVE_AFTER_STEPS = 50
SWEEPS_PER_SOLVER_STEP = 4  # sweeps saved for each step (two products), at least
# Share of the residual that may be left: its norm may hide entries larger than itself.
SOLVER_SAFETY_FACTOR = 0.1
# The same for sweeps, whose pace is that of the largest entries.
SWEEP_SAFETY_FACTOR = 0.5
DEFAULT_TARGET_FACTOR = 0.1  # without a tolerance: narrow bounds cost one more iteration
# Share of the residual that a linear solver may leave, times target over bound.
DIRECT_TARGET_FACTOR = 0.01
# Bursts of sweeps over all actions cost about as much as evaluating a policy.
BURST_SWEEPS = 8  # sweeps over all actions between two comparisons of the policy
STATES_PER_BURST = 50  # states for each burst
MAX_BURSTS = 5  # bursts
POLICY_STAYS_FRACTION = 0.01  # share of the states whose action may change in a burst
# Sweeps that take as long as a direct solve, for each root of the number of states.
DIRECT_COST_SWEEPS_PER_ROOT_STATE = 4
DIRECT_COST_MAX_SWEEPS = 400  # sweeps that take as long as any direct solve
ITERATIVE_COST_SWEEPS = 60  # sweeps of long rows that take as long as a solve by iterations
ITERATIVE_MAX_STEPS = 40  # steps of these iterations, of two products each
# States up to which a table's linear systems are solved in one of these two ways.
DIRECT_MAX_STATES = 1000


@dataclass(frozen=True)
class ValueIteration(Method):
    """Value iteration.

    Args:
        tol: the bound on the error of values to reach; None for twelve digits.
        max_sweeps: the most sweeps.

    Example:
        >>> ts.solve(ts.benchmark("QUE-Lin"), ts.ValueIteration(1e-6)).error_bound <= 1e-6
        True
    """

    requires_jax = False

    def step(self, operators: Operators, state: IterationState):
        return operators.criterion.next_iterate(state.value, state.backup)


@dataclass(frozen=True)
class ModifiedPolicyIteration(Method):
    """Modified policy iteration: a few sweeps of evaluation for each improvement.

    Args:
        tol, max_sweeps: as in ``ValueIteration``.
        partial_sweeps: sweeps of evaluation for each improvement.

    Example:
        >>> ts.solve(ts.benchmark("QUE-Lin"), ts.ModifiedPolicyIteration(1e-6)).error_bound <= 1e-6
        True
    """

    partial_sweeps: int = 20

    requires_jax = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("partial_sweeps", self.partial_sweeps, 0)

    def step(self, operators: Operators, state: IterationState):
        def sweep(value):
            return operators.policy_step(state.policy, value)

        first = operators.criterion.next_iterate(state.value, state.backup)
        return array_namespace(first).iterate(self.partial_sweeps, sweep, first)


@dataclass(frozen=True)
class PolicyIteration(Method):
    """Howard's policy iteration; each policy is evaluated to nearly full accuracy.

    Args:
        tol, max_sweeps: as in ``ValueIteration``.
        max_products: the most matrix products of one linear solve; small tables have their own
            limit.

    Example:
        >>> ts.solve(ts.benchmark("QUE-Lin"), ts.PolicyIteration(1e-6)).error_bound <= 1e-6
        True
    """

    max_sweeps: int = field(default=10_000, compare=False)
    max_products: int = 500

    solves_linear_systems = True
    requires_jax = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("max_products", self.max_products, 1)

    def step(self, operators: Operators, state: IterationState):
        forcing = EXACT_RELATIVE_TOLERANCE
        if operators.data.coarse_correction is not None:
            forcing = choose_relative_tolerance(operators, state, forcing)
        return self.evaluate_greedy_policy(operators, state, forcing)

    def evaluate_greedy_policy(self, operators: Operators, state: IterationState, forcing: Any):
        """v + e, by sweeps or a linear solver: the first few sweeps decide which.

        Sweeps of the policy cut the span of the residual by some rho each. Where few of them will
        do, they are the cheapest way; else the linear solver takes over. It may stagnate (no Krylov
        method beats sweeps on a long line of states before it has traversed it once), and then
        sweeps continue up to a limit. Tables are then solved directly; where other dynamics offer a
        direct solve, ``loop`` uses it when a run stalls.
        """
        xp = array_namespace(state.value)
        span = operators.criterion.span
        first_residual = state.backup - state.value
        start = operators.criterion.next_iterate(state.value, state.backup)
        trial, residual = run_trial_sweeps(operators, state.policy, start)
        first_span = xp.maximum(span(first_residual), SMALLEST_POSITIVE)
        rho = (span(residual) / first_span) ** (1 / (TRIAL_SWEEPS + 1))
        log_rate = xp.log(xp.clip(rho, SMALLEST_POSITIVE, 1 - 1e-9))
        sweeps_needed = xp.log(forcing) / log_rate - TRIAL_SWEEPS
        max_few = FEW_ROW_SWEEPS
        sweep_count = sweeps_needed
        # Through stages, a sweep of all actions takes hardly longer than one of a policy.
        if not operators.has_direct_solve:
            max_few = FEW_STAGE_SWEEPS
            ratio = compute_target_ratio(operators, state)
            share = xp.clip(SWEEP_SAFETY_FACTOR * ratio, SMALLEST_POSITIVE, 1.0)
            sweeps_to_target = xp.log(share) / log_rate - TRIAL_SWEEPS
            is_settled = state.changed <= SETTLED_FRACTION * state.value.size
            sweep_count = xp.where(
                is_settled,
                xp.minimum(sweeps_to_target, SETTLED_MAX_SWEEPS),
                xp.minimum(sweeps_needed, EARLY_MAX_SWEEPS),
            )
        # Both ways end in the same loop of sweeps, so that it is compiled once.
        system = state.policy, trial, residual, forcing, sweeps_needed
        value, count = xp.branch(
            sweeps_needed <= max_few,
            lambda: (trial, xp.ceil(xp.maximum(sweep_count, 0)).astype(int)),
            lambda: self._solve_by_bicgstab(operators, *system),
        )
        return xp.iterate(count, lambda v: operators.policy_step(state.policy, v), value)

    def _solve_by_bicgstab(
        self, operators: Operators, policy, value, residual, forcing, sweeps_needed
    ):
        """(v + e, 0) with e by BiCGSTAB; (v, sweeps to do) where that leaves much of ``residual``.

        ``residual`` (grid) is that of v. Sweeps alone would be ``sweeps_needed``: a solver that
        gets nowhere has cost half as much at most.
        """
        xp = array_namespace(value)
        # Known without solving: a constant residual r changes the value by r / (1 - discount).
        span = operators.criterion.span
        common = operators.criterion.common_part(residual)
        max_steps = max(self.max_products // 2, 1)
        if operators.has_direct_solve:
            max_steps = min(max_steps, DIRECT_SOLVE_AFTER_STEPS)
        else:
            paying_steps = sweeps_needed / SWEEPS_PER_SOLVER_STEP
            max_steps = xp.clip(paying_steps, TRIAL_SWEEPS, max_steps).astype(int)
        e = xp.bicgstab(
            lambda e: operators.policy_system(policy, e),
            residual - common,
            tol=forcing,
            maxiter=max_steps,
            preconditioner=operators.preconditioner(),
        )
        value = value + operators.criterion.value_of_constant_reward(common)
        # A small norm may hide large entries; sweeps smooth them.
        corrected, residual_after = run_trial_sweeps(
            operators, policy, operators.add_correction(value, e)
        )
        is_solved = span(residual_after) <= SOLVE_MAX_SPAN_RATIO * span(residual)
        # The factors of many long rows fill up: they would take hours.
        is_sparse = not operators.has_long_rows or value.size <= DIRECT_MAX_STATES
        if operators.has_direct_solve and is_sparse and not is_solved:
            e = operators.solve_policy_system(policy, residual - common)
            corrected = operators.add_correction(value, e)
            return run_trial_sweeps(operators, policy, corrected)[0], 0
        max_fallback = FALLBACK_SWEEPS_PER_PRODUCT * self.max_products
        fallback_sweeps = xp.clip(xp.ceil(sweeps_needed), 0, max_fallback).astype(int)
        return xp.where(is_solved, corrected, value), xp.where(is_solved, 0, fallback_sweeps)


@dataclass(frozen=True)
class InexactPolicyIteration(PolicyIteration):
    """Policy iteration with evaluations cut short: the automatic choice.

    Args:
        tol, max_sweeps, max_products: as in ``PolicyIteration``.
        forcing: share of the residual that a linear solver may leave, between 0 and 1.

    Example:
        >>> ts.solve(ts.benchmark("QUE-Lin"), ts.InexactPolicyIteration(1e-6)).error_bound <= 1e-6
        True
    """

    max_products: int = 200
    forcing: float = 1e-2

    safeguarded = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, "forcing", 0, 1)

    def step(self, operators: Operators, state: IterationState):
        if operators.has_cheap_bellman:
            return self._step_with_greedy_sweeps(operators, state)
        forcing = choose_relative_tolerance(operators, state, self.forcing)
        return self.evaluate_greedy_policy(operators, state, forcing)

    def _step_with_greedy_sweeps(self, operators: Operators, state: IterationState):
        """The next point where sweeps over all actions are cheap, or where values propagate slowly.

        Evaluating a policy that the next few sweeps would change anyway is wasted, so sweeps over
        all actions come first, until they leave the policy about as it is. If they show that a few
        more reach the target, those are all; else the policy is evaluated: directly if the model is
        small and its rows are short, by a linear solver if they are long.
        """
        greedy = run_greedy_sweeps(operators, state)
        value, backup, policy = greedy[:3]
        criterion = operators.criterion
        residual = backup - value
        # Known without solving: a constant residual r changes the value by r / (1 - discount).
        common = criterion.common_part(residual)
        n = value.size
        max_cheap_sweeps = min(
            DIRECT_COST_SWEEPS_PER_ROOT_STATE * math.sqrt(n),
            ITERATIVE_COST_SWEEPS if operators.has_long_rows else DIRECT_COST_MAX_SWEEPS,
        )
        if greedy.sweeps_needed <= max_cheap_sweeps:
            start = backup + criterion.discount * criterion.value_of_constant_reward(common)
            return iterate_policy(operators, policy, start, math.ceil(greedy.sweeps_needed))
        if n > DIRECT_MAX_STATES:
            greedy_state = state._replace(value=value, backup=backup, policy=policy)
            return self.evaluate_greedy_policy(operators, greedy_state, self.forcing)
        tol = max(
            DIRECT_TARGET_FACTOR * greedy.target_ratio,
            EXACT_RELATIVE_TOLERANCE if greedy.policy_stays else self.forcing,
        )
        e = solve_small_system(operators, policy, residual - common, tol)
        return operators.add_correction(value + criterion.value_of_constant_reward(common), e)


class GreedyState(NamedTuple):
    """A point that sweeps over all actions lead to."""

    value: NDArray[np.float64]  # v, (grid)
    backup: NDArray[np.float64]  # T v, (grid)
    policy: NDArray[np.int32]  # greedy at v, (grid)
    sweeps_needed: float  # sweeps from here to the target, at the pace of the last ones
    target_ratio: float  # half the target over its bound
    policy_stays: bool  # whether the last sweeps left the policy about as it was


def run_greedy_sweeps(operators: Operators, state: IterationState) -> GreedyState:
    """Sweep over all actions until that leaves the policy about as it is, or for long enough."""
    criterion = operators.criterion
    half_target = float(compute_target(operators.data, state.floor)) / 2

    def bound_next_value(value, backup):
        return criterion.bound_error(criterion.discount * criterion.span(backup - value) / 2)

    bound = float(bound_next_value(state.value, state.backup))
    n = state.value.size
    current = GreedyState(state.value, state.backup, state.policy, 0, 1.0, False)
    for _ in range(min(max(n // STATES_PER_BURST, 1), MAX_BURSTS)):
        value = operators.iterate_bellman(current.backup, BURST_SWEEPS - 1)
        backup, policy = operators.bellman(value)
        previous_bound = bound
        bound = float(bound_next_value(value, backup))
        policy_stays = np.count_nonzero(policy != current.policy) <= POLICY_STAYS_FRACTION * n
        bursts_left = count_steps_left(previous_bound, bound, half_target)
        sweeps_needed = BURST_SWEEPS * bursts_left
        target_ratio = min(half_target / max(bound, SMALLEST_POSITIVE), 1.0)
        current = GreedyState(value, backup, policy, sweeps_needed, target_ratio, policy_stays)
        if not sweeps_needed or policy_stays:
            break
    return current


def count_steps_left(before: float, now: float, target: float) -> float:
    """Steps from ``now`` to ``target``, at the pace of the last one, which came from ``before``.

    0 at the target and where the pace is not known, inf where nothing is gained.
    """
    if not target < now < math.inf or not math.isfinite(before):
        return 0.0
    if not now < before:
        return math.inf
    return math.log(now / max(target, SMALLEST_POSITIVE)) / math.log(before / now)


def iterate_policy(operators: Operators, policy, value, count: int):
    """T_pi^count v for discounted rewards: v <- r_pi + discount P_pi v, in few calls of NumPy."""
    reward = operators.policy_bellman(policy, np.zeros_like(value))
    for _ in range(count):
        value = operators.policy_expectation(policy, value)
        value += reward
    return value


def solve_small_system(
    operators: Operators, policy, rhs, tol: float, max_steps: int = ITERATIVE_MAX_STEPS
):
    """The solution of a policy's linear system: directly, or to a residual of ``tol``.

    Elimination fills long rows, while their chains mostly mix fast, so that few iterations do.
    """
    size = abs(rhs).max()
    if operators.has_long_rows and size:
        scaled = rhs / size  # SciPy takes small numbers for a breakdown

        def system(x):
            return x - operators.policy_expectation(policy, x)

        x = NUMPY.bicgstab(system, scaled, tol=tol, maxiter=max_steps)
        if np.linalg.norm(scaled - system(x)) <= 2 * tol * np.linalg.norm(scaled):
            return size * x
    return operators.solve_policy_system(policy, rhs)


def choose_relative_tolerance(operators: Operators, state: IterationState, forcing: float):
    """The forcing, but no less than the run still needs: further accuracy at the end is wasted.

    Near the rounding floor, a linear solver would otherwise use up all its products.
    """
    tolerance = SOLVER_SAFETY_FACTOR * compute_target_ratio(operators, state)
    return array_namespace(tolerance).clip(tolerance, forcing, 0.5)


def compute_target_ratio(operators: Operators, state: IterationState):
    """The share of its bound that a run may end with; smaller if no tolerance was given."""
    data = operators.data
    ratio = compute_target(operators.data, state.floor) / state.bound
    if data.coarse_correction is not None:
        return ratio
    return array_namespace(ratio).where(data.accuracy.tol > 0, ratio, DEFAULT_TARGET_FACTOR * ratio)


def run_trial_sweeps(operators: Operators, policy, start):
    """The point after ``TRIAL_SWEEPS`` sweeps, and its residual, which is half of one more."""

    def sweep(carry):
        value = carry[2]
        backup = operators.policy_bellman(policy, value)
        return value, backup, operators.criterion.next_iterate(value, backup)

    value, backup, _ = array_namespace(start).iterate(
        TRIAL_SWEEPS + 1, sweep, (start, start, start)
    )
    return value, backup - value
