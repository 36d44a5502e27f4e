"""evaluate(mdp, policy) -> Evaluation and occupancy(mdp, policy) -> Occupancy: value and visits.

*The value* of a policy, V_pi = r_pi + discount P_pi V_pi, by the same loop as solving: by Krylov
corrections, enclosed by ``iteration`` with T_pi in place of T.

*The occupancy*: how often each state is visited, discounted,

    d = (1 - discount) sum_t discount^t mu P_pi^t = (1 - discount) mu + discount P_pi' d,

with the adjoint of the policy's expectation. For a trial d with residual rho, the error is at most
||rho||_1 / (1 - discount) in total; the sum of d is 1, or less in a model that can end. With a
horizon, d is a share of the time that is left after the start, and sums to 1 from any of them; one
forward pass over the periods computes it.
Corrections of large models are in single precision, residuals never (see ``mixed_precision``).

A measure is evaluated like the objective: the same model with a count as its reward. An average is
stated as the model states averages: per period, or per unit of time in a model built from rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import require_criterion
from tessella.errors import NotConverged, counted, require_type
from tessella.mdp.compilation import compile_per_shape, in_float64, to_backend
from tessella.mdp.dynamics import REWARD
from tessella.mdp.measures import CONSTANT, MeasureFormula, MeasureValue, Weights
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.events import average_unit
from tessella.mdp.start import Start, start_distribution
from tessella.numerics import array_namespace
from tessella.rounding import EPS, round_down, round_up
from tessella.solvers.absorbing import bound_policy_absorption, zero_absorbing_states
from tessella.solvers.backward_induction import evaluate_by_periods
from tessella.solvers.execution_plan import ExecutionPlan, plan_for_policies
from tessella.solvers.hitting_times import bound_policy_hitting_time
from tessella.solvers.loop import Callback, iterate
from tessella.solvers.method import validate_tol
from tessella.solvers.mixed_precision import MixedPrecision, scale_residual, to_single_precision
from tessella.solvers.operators import Operators
from tessella.solvers.policy_iteration import InexactPolicyIteration
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result, format_average
from tessella.solvers.solution import Solution

DOUBLE_FORCING = 1e-6  # share of the residual that an iteration in double precision may leave
MAX_ROUNDS = 200  # corrections, or series of plain steps
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
class Evaluation(Result):
    """The value of a policy: V_pi lies within ``error_bound`` of ``value`` in every state.

    Attributes:
        start: (grid) distribution of the first state; None where all states are as likely.
    """

    mdp: MDP
    policy: Policy
    start: NDArray[np.float64] | None = None

    @property
    def mean(self) -> float:
        """Expected over the first state, or the gain; known within ``error_bound``."""
        if self.gain is not None:
            return self.gain
        return float(self.value.mean() if self.start is None else (self.start * self.value).sum())

    @cached_property
    def measures(self) -> dict[str, MeasureValue | None]:
        """All measures of the model; None for a ratio whose denominator may be 0."""
        formulas = self.mdp.measures
        counts = set().union(*(formula.names for formula in formulas.values())) - {REWARD}
        sums = {
            name: evaluate_sum(self.mdp, self.policy, {name: 1.0}, self.start)
            for name in sorted(counts)
        }
        sums[REWARD] = report_sum(self, {})
        sums[CONSTANT] = MeasureValue.from_sum(1.0, 0.0)
        return {name: evaluate_formula(formula, sums) for name, formula in formulas.items()}

    def __str__(self) -> str:
        subject = f"of {self.policy.name or 'a policy'}, {self.mdp.name or 'MDP'}"
        sense = self.mdp.sense
        sweeps = counted(self.sweeps, "sweep")
        if self.gain is not None:
            average = format_average(self.mdp, self)
            return f"{sense.gain.capitalize()} {subject}: {average}, {sweeps}, {self.status_text}"
        display_value = sense.display(self.value)
        extremes = [
            f"{display_value.flat[s]:.6g} at {self.mdp.grid.describe(int(s))}"
            for s in (display_value.argmin(), display_value.argmax())
        ]
        averaged = "over the start"
        if self.start is None:
            averaged = f"over {self.value.size:,} states"
        return (
            f"{sense.value.capitalize()} {subject}: "
            f"mean {sense.display(self.mean):.6g} {averaged}\n"
            f"lowest {extremes[0]}, highest {extremes[1]}\n"
            f"|V - V_pi| <= {round_up(self.error_bound, 2)}, "
            f"{sweeps}, {self.status_text}"
        )


def evaluate(
    mdp: MDP,
    policy: Any,
    start: Start = None,
    *,
    tol: float | None = None,
    guess: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
    plan: ExecutionPlan | None = None,
) -> Evaluation:
    """The value of ``policy`` in every state.

    Args:
        mdp: the model.
        policy: a policy in any form: see ``tessella.as_policy``.
        start: the start that its mean is over, in any form: see ``tessella.mdp.start``; None for
            the model's own. It does not affect the values of states.
        tol: bound on max|V - V_pi|; None for about twelve digits or more.
        callback, partial: as in ``solve``.
        guess: (grid) where to begin, such as the optimum's value.
        plan: an execution plan, such as ``solution.plan``; by default chosen for the model.

    Returns:
        Value, mean over the start, gain of an average, and measures, each with its bounds.

    Raises:
        PolicyError: the policy takes an infeasible or unknown action.

    Example:
        >>> mdp = ts.problem("machine_replacement").build()
        >>> found = ts.evaluate(mdp, lambda wear: 1 * (wear >= 12))
        >>> print(f"cost {-found.gain:.4f} a period")
        cost 6.6129 a period
    """
    require_type("evaluate", mdp, MDP)
    checked_policy = mdp.policy(policy)
    plan = plan_for_policies(mdp, plan)
    start_weights = None
    if start is not None or mdp.start is not None:
        weights = start_distribution(mdp, start, checked_policy, plan)
        start_weights = weights.reshape(mdp.grid.shape)
    options = {"callback": callback, "partial": partial}
    evaluation = evaluate_prepared(PreparedModel(plan, tol), checked_policy, guess, **options)
    return replace(evaluation, start=start_weights)


def evaluate_prepared(
    prepared: PreparedModel,
    policy: Policy,
    guess: NDArray | None = None,
    *,
    callback: Callback | None = None,
    partial: bool = False,
) -> Evaluation:
    """Evaluate on a prepared model, to its tolerance; its plan must be one for policies."""
    mdp = prepared.mdp
    if guess is None and mdp.dynamics.n_periods is not None:
        guess = evaluate_by_periods(prepared, policy.table)
    if mdp.criterion.requires_absorption:
        prepared, absorbing = bound_policy_absorption(prepared, policy.table)
        guess = zero_absorbing_states(absorbing, guess)
    method = MixedPrecision()
    if prepared.plan.evaluation_precision == "double":
        method = InexactPolicyIteration(forcing=DOUBLE_FORCING)
    options = {"callback": callback, "partial": partial}
    result = iterate(prepared, method, policy=policy.table, guess=guess, **options)
    return Evaluation(**vars(result), mdp=mdp, policy=policy)


def find_sum_scale(mdp: MDP) -> float:
    """What expected sums are multiplied by to be stated: an average may be per unit of time."""
    return average_unit(mdp.clock)[0] if mdp.criterion.has_gain else 1.0


def evaluate_sum(mdp: MDP, policy: Any, weights: Weights, start: Start = None) -> MeasureValue:
    """The expected weighted sum of counts under a policy."""
    model = mdp.with_objective(weights)
    return report_sum(evaluate(model, policy, start, partial=True), weights)


def report_sum(result: Evaluation | Solution, weights: Weights) -> MeasureValue:
    """What was earned with weights as rewards, and their number, as measures state it."""
    scale = find_sum_scale(result.mdp)
    earned = scale * result.mean
    value = earned + weights.get(CONSTANT, 0.0)
    size = 0.0 if result.gain is not None else float(np.abs(result.value).max())
    rounding = 4 * EPS * (abs(earned) + abs(value))
    rounding += bound_sum_rounding(result.value.size) * scale * size
    return MeasureValue.from_sum(value, scale * result.error_bound + rounding)


def bound_sum_rounding(size: int) -> float:
    """What rounding adds to a sum of products, relative to that of their sizes.

    NumPy adds up pairs of sums of blocks; a product and a weight are rounded too.
    """
    return EPS * (32 + math.log2(size))


def weigh_sums(weights: Weights, sums: Mapping[str, MeasureValue]) -> MeasureValue:
    """The sum of these ``sums``, each with its weight."""
    terms = [(weight, sums[name]) for name, weight in weights.items()]
    size = sum(abs(weight * term.value) for weight, term in terms)
    error = sum(abs(weight) * term.error_bound for weight, term in terms)
    value = float(sum(weight * term.value for weight, term in terms))
    return MeasureValue.from_sum(value, float(error + 4 * EPS * len(terms) * size))


def evaluate_formula(
    formula: MeasureFormula, sums: Mapping[str, MeasureValue]
) -> MeasureValue | None:
    """A measure, from the expected sums of its counts; None where its denominator may be 0."""
    top = weigh_sums(formula.numerator, sums)
    below = weigh_sums(formula.denominator, sums)
    if below.low <= 0 <= below.high:
        return None
    ends = [t / b for t in (top.low, top.high) for b in (below.low, below.high)]
    outward = 4 * EPS * float(np.abs(ends).max())
    return MeasureValue(top.value / below.value, min(ends) - outward, max(ends) + outward)


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
    plan: ExecutionPlan | None = None,
) -> Occupancy:
    """Share of time in each state: discounted, from a start; or in the long run.

    With a horizon it is a share of the periods that are left after the start.

    Args:
        mdp: the model.
        policy: a policy in any form: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        tol: bound on the total error (1e-11), raised to what rounding allows.
        plan: an execution plan, such as ``solution.plan``; by default chosen for the model.

    Returns:
        ``share``, an array of the grid's shape that sums to 1, and a bound on its error.

    Raises:
        PolicyError: the policy takes an infeasible or unknown action.

    Example:
        >>> mdp = ts.benchmark("QUE-Lin")
        >>> time = ts.occupancy(mdp, ts.solve(mdp), start=0)
        >>> time.share.shape, round(float(time.share.sum()), 9)
        ((31, 21), 1.0)
    """
    require_type("occupancy", mdp, MDP)
    result = compute_occupancy(mdp, policy, start, tol=tol, plan=plan)
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
    guess: NDArray | None = None,
    plan: ExecutionPlan | None = None,
    only_quickly: bool = False,
) -> Occupancy:
    """The occupancy as shares of the whole horizon, also of the periods before the start.

    ``guess`` is the first iterate, such as the occupancy of a similar policy. With
    ``only_quickly``, NotConverged is raised where the steps of the process would have to help.
    """
    require_criterion("occupancy", mdp.criterion, "is_discounted", "has_gain", "has_horizon")
    checked_policy = mdp.policy(policy)
    tol = validate_tol(tol) or 1e-11
    plan = plan_for_policies(mdp, plan)
    mu = start_distribution(mdp, start, checked_policy, plan).reshape(mdp.grid.shape)
    prepared = PreparedModel(plan)
    return compute_prepared_occupancy(prepared, checked_policy, mu, tol, guess, only_quickly)


@in_float64
def compute_prepared_occupancy(
    prepared: PreparedModel,
    checked_policy: Policy,
    mu: NDArray,
    tol: float,
    guess: NDArray | None = None,
    only_quickly: bool = False,
) -> Occupancy:
    """The same for a prepared model, from the distribution ``mu`` (grid) of the first state."""
    mdp = prepared.mdp
    actions = checked_policy.table
    uses_single = prepared.plan.evaluation_precision == "single"
    # It turns the sum of a residual into a bound on the sum of the errors.
    factor = 1 / prepared.contraction_gap
    if mdp.criterion.has_gain:  # the norm of (I - P + mean)^-1: see ``hitting_times``
        factor = 1 + 2 * bound_policy_hitting_time(prepared, actions)
    floor = prepared.adjoint_rounding_floor * prepared.contraction_gap * factor
    target = max(tol, 2 * floor)
    policy, rhs = to_backend(prepared.backend, (actions, mdp.criterion.occupancy_rhs(mu)))
    operators = prepared.make_operators()
    if mdp.criterion.has_gain or 1 / prepared.contraction_gap > COARSE_MIN_PERIODS:
        operators = operators.with_data(prepared.build_policy_data(policy))
    system = operators, policy, rhs
    d = rhs
    if guess is not None:
        d = to_backend(prepared.backend, guess.reshape(mu.shape).astype(float))
    residual = bound = np.inf
    for _ in range(MAX_ROUNDS):
        previous = residual
        if mdp.dynamics.n_periods is None:
            d, residual = _improve_occupancy(uses_single, system, d, previous, only_quickly)
        else:
            d, residual = _run_forward_pass(*system)
        residual = float(residual)
        bound = residual * factor + floor
        if bound <= target:
            return Occupancy(mdp, checked_policy, mu, np.asarray(d), bound)
        if residual > CORRECTION_MAX_RESIDUAL_RATIO * previous:
            d = _solve_directly(prepared, np.asarray(actions), rhs, d)
    reached = f"{round_up(bound)} after {MAX_ROUNDS} rounds"
    raise NotConverged(f"occupancy: bound {reached}, not {round_down(target)}")


def _improve_occupancy(
    uses_single: bool, system: tuple, d, previous: float, only_quickly: bool
) -> tuple[Any, Any]:
    """(d, sum of its residual) after a Krylov correction; where that fails, after plain steps."""
    trial, residual = _correct(uses_single, *system, d)
    if not float(residual) < CORRECTION_MAX_RESIDUAL_RATIO * previous:
        if only_quickly:
            raise NotConverged("occupancy: a correction did not help")
        trial, residual = _run_plain_steps(*system, d)
    return trial, residual


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


@compile_per_shape("uses_single")
def _correct(uses_single: bool, operators: Operators, policy, source, d):
    """(d after one Krylov correction, sum of the remaining residual)."""
    xp = array_namespace(source)
    system = exact = operators.policy_system_adjoint(policy, source)
    rhs = source - exact(d)
    scale = 1.0
    tol = DOUBLE_CORRECTION_TOLERANCE
    max_steps = DOUBLE_CORRECTION_MAX_STEPS
    if uses_single:
        rhs, scale = scale_residual(rhs)
        system = to_single_precision(operators).policy_system_adjoint(policy, rhs)
        tol = SINGLE_CORRECTION_TOLERANCE
        max_steps = SINGLE_CORRECTION_MAX_STEPS
    preconditioner = operators.preconditioner(adjoint=True)
    e = xp.bicgstab(system, rhs, tol=tol, maxiter=max_steps, preconditioner=preconditioner)
    trial = xp.maximum(d + scale * e, 0.0)
    return trial, abs(source - exact(trial)).sum()


@compile_per_shape()
def _run_forward_pass(operators: Operators, policy, source):
    """(d of a horizon, one period after the other, sum of the remaining residual)."""
    backend: Any = operators.backend
    arrays = operators.data.arrays
    xp = array_namespace(source)

    def visit_period(arriving, t):
        share = source[t] + arriving
        move = backend.period_backend.policy_adjoint(
            backend.period_arrays(arrays, t), policy[t], share
        )
        return operators.criterion.discount * move(share), share

    d = xp.scan(visit_period, xp.zeros_like(source[0]), len(source))
    system = operators.policy_system_adjoint(policy, source)
    return d, abs(source - system(d)).sum()


@compile_per_shape()
def _run_plain_steps(operators: Operators, policy, rhs, d):
    """(d after some steps of the process, sum of the remaining residual)."""
    system = operators.policy_system_adjoint(policy, rhs)
    xp = array_namespace(rhs)
    d = xp.iterate(PLAIN_STEPS, lambda x: x + (rhs - system(x)), d)
    d = xp.maximum(d, 0.0)
    return d, abs(rhs - system(d)).sum()
