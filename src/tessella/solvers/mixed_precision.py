"""Large models: sweeps and corrections in single precision, residuals and bounds in double.

Rounding costs a little time and no accuracy: each iteration takes its residual T v - v in double
precision, which also gives the error bound, and corrects v in single precision, with the size of
the residual taken out. The first iteration sweeps, v <- T v. Every other one solves roughly for the
correction e of the greedy policy's value,

    (I - discount P_pi) e = d = T v - v,        for averages (I - P_pi) e + mean(e) = d.

*Sweeps* add up e = t_1 + t_2 + ..., t_1 = d, t_(j+1) = discount P_pi t_j, until what they leave is
small enough. Where t_m is nearly constant over the states that a process reaches while they count,
the rest of the sum is nearly t_m / (1 - discount), state by state. What that leaves,
(t_(m+1) - discount t_m) / (1 - discount), is known before the choice: where it is not smaller than
t_(m+1), as in periodic chains, the plain sum is taken.

*Linear systems* with a coarse correction (``multigrid``) take the place of sweeps where a settled
policy would need many of them: the time of a solve then hardly depends on the discount.

A run consists of *phases*, methods that take over from one another by what the iterations achieve.
The linear system of a poor policy is as hard as that of a good one, and often harder: a queue that
admits everybody fills up, and hardly ever empties. Sweeps cost little, and after as many as the
longest way through the states takes, the greedy policy is nearly the best. So large models are
swept until the policy settles. If sweeps then approach the target slowly, linear systems do the
rest; where these achieve little, as in periodic chains, sweeps continue or, if they would be too
many, inexact policy iteration in double precision takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tessella.errors import require_whole
from tessella.numerics import JAX
from tessella.solvers import policy_iteration
from tessella.solvers.method import Method, require_between
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.policy_iteration import InexactPolicyIteration, ModifiedPolicyIteration

if TYPE_CHECKING:
    from tessella.solvers.iteration import IterationState
    from tessella.solvers.loop import RunLog
    from tessella.solvers.prepared_model import PreparedModel

PHASE_CHECK_ITERATIONS = 2  # iterations after which a phase is checked
# A phase of linear systems ends where these leave more than this share of the bound.
SLOW_REDUCTION = 0.5
# Iterations that are left (benchmarks/discounts.py): up to the first number linear systems would
# take longer, from the second on sweeps would.
FEW_ITERATIONS = 10
MANY_ITERATIONS = 80
WARM_UP_MAX_ITERATIONS = 100  # after these, a policy that still changes counts as settled
WARM_UP_METHOD = ModifiedPolicyIteration(partial_sweeps=20)


@dataclass(frozen=True)
class MixedPrecision(Method):
    """Sweeps, then linear systems, in single precision, with bounds and residuals in double.

    Args:
        first_sweeps: of the first iteration.
        correction_terms: of the sum that corrects a value, at most; two more are computed.
        forcing: share of the residual that a linear system may leave.
        max_products: products with P_pi for one linear system.

    Example:
        >>> ts.solve(ts.benchmark("QUE-Lin"), ts.MixedPrecision(1e-6)).error_bound <= 1e-6
        True
    """

    first_sweeps: int = 48
    correction_terms: int = 32
    forcing: float = 1e-2
    max_products: int = 100

    uses_single_precision = True
    runs_in_phases = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("first_sweeps", "correction_terms", "max_products"):
            require_whole(name, getattr(self, name), 1)
        require_between(self, "forcing", 0, 1)

    def step(self, operators: Operators, state: IterationState):
        single = to_single_precision(operators)

        def run_first_sweeps():
            point = single.iterate_greedy(
                state.policy, state.backup.astype(JAX.float32), self.first_sweeps
            )
            return point.astype(state.value.dtype)

        point = JAX.branch(
            JAX.isfinite(state.bound),
            lambda: self._correct_value(operators, single, state),
            run_first_sweeps,
        )
        return JAX.where(JAX.isfinite(point).all(), point, state.backup)

    def _correct_value(self, operators: Operators, single: Operators, state: IterationState):
        residual = state.backup - state.value
        # Known without solving: a constant residual r changes the value by r / (1 - discount).
        common = operators.criterion.common_part(residual)
        d, scale = scale_residual(residual - common)
        fits_int8 = operators.backend.n_actions <= JAX.iinfo(JAX.int8).max
        # A quarter of the bytes.
        policy = state.policy.astype(JAX.int8) if fits_int8 else state.policy
        if operators.data.coarse_correction is None:
            e = self._sum_series(single, policy, d, self._count_terms(operators, state))
        else:
            tol = policy_iteration.choose_relative_tolerance(operators, state, self.forcing)
            e = self._solve_system(single, policy, d, tol.astype(d.dtype))
        return state.value + operators.criterion.value_of_constant_reward(common) + scale * e

    def _count_terms(self, operators: Operators, state: IterationState):
        """The terms that the run still needs, at most ``correction_terms``; all for averages."""
        ratio = policy_iteration.compute_target_ratio(operators, state)
        log_share = JAX.log(policy_iteration.SWEEP_SAFETY_FACTOR * ratio)
        needed = log_share / JAX.log(operators.criterion.contraction_factor)
        needed = JAX.where(operators.criterion.discount < 1, needed, self.correction_terms)
        needed = JAX.nan_to_num(needed)  # where target and bound are 0
        return JAX.clip(needed, 1, self.correction_terms).astype(JAX.int32)

    def _sum_series(self, single: Operators, policy, d, count):
        criterion = single.criterion
        partial_sum, next_sum, last_sum = single.sum_neumann_series(policy, d, count)
        t = next_sum - partial_sum
        next_term = last_sum - next_sum
        residual_span = criterion.span(
            criterion.value_of_constant_reward(next_term - criterion.discount * t)
        )
        is_limit_closer = residual_span < criterion.span(next_term)
        return JAX.where(
            is_limit_closer, partial_sum + criterion.value_of_constant_reward(t), last_sum
        )

    def _solve_system(self, single: Operators, policy, d, tol):
        e = JAX.bicgstab(
            partial(single.policy_system, policy),
            d,
            tol=tol,
            maxiter=max(self.max_products // 2, 1),
            preconditioner=single.preconditioner(),
        )

        def sweep(e):  # of v + e, where T_pi (v + e) - v = d + discount P_pi e
            return single.criterion.next_iterate(e, d + single.policy_expectation(policy, e))

        # A small norm may hide large entries; sweeps smooth them.
        return JAX.iterate(policy_iteration.TRIAL_SWEEPS + 1, sweep, e)


def scale_residual(residual):
    """The residual in single precision with its size taken out, and that size."""
    scale = JAX.maximum(JAX.abs(residual).max(), JAX.finfo(residual.dtype).tiny)
    return (residual / scale).astype(JAX.float32), scale


def to_single_precision(operators: Operators) -> Operators:
    """The same operators with their numbers in single precision."""
    import jax

    def cast(x):
        return x.astype(JAX.float32) if JAX.issubdtype(x.dtype, JAX.floating) else x

    # The correction decides itself which of its numbers need double precision; bounds always do.
    whole = {name: getattr(operators.data, name) for name in ("coarse_correction", "accuracy")}
    others = operators.data._replace(coarse_correction=None, accuracy=None)
    data: ModelData = jax.tree.map(cast, others)._replace(**whole)
    return replace(operators, data=data, gain=0.0)


class Phase(NamedTuple):
    """A method, and the rule by which the next phase takes over; the last phase has none."""

    method: Method
    has_ended: Callable[[RunLog], bool] | None = None
    uses_coarse_correction: bool = False


def make_phases(prepared: PreparedModel, method: Method) -> list[Phase]:
    """The phases of a run by ``method``: one alone, unless the model is large."""
    max_changes = policy_iteration.SETTLED_FRACTION * prepared.mdp.n_states
    has_gain = prepared.mdp.criterion.has_gain
    is_coarse = prepared.plan.preconditioner == "coarse"

    def has_settled(log: RunLog) -> bool:
        is_late = log.phase_iterations >= WARM_UP_MAX_ITERATIONS
        return is_late or log.changes[-1] <= max_changes

    def needs_more_than(limit: int) -> Callable[[RunLog], bool]:
        return lambda log: has_settled(log) and log.count_iterations_left() > limit

    def is_slow(log: RunLog) -> bool:
        return log.has_slowed(SLOW_REDUCTION, PHASE_CHECK_ITERATIONS)

    if method.solves_linear_systems and is_coarse and has_gain:
        return [Phase(WARM_UP_METHOD, has_settled), Phase(method, None, True)]
    if not method.runs_in_phases:
        return [Phase(method)]
    forcing = prepared.plan.thresholds.large_forcing
    in_double = InexactPolicyIteration(method.tol, forcing=forcing)
    sweeps = Phase(method, needs_more_than(MANY_ITERATIONS))
    if not is_coarse:
        return [sweeps, Phase(in_double)]
    first_sweeps = Phase(method, needs_more_than(FEW_ITERATIONS))
    systems = Phase(method, is_slow, True)
    if has_gain:
        return [first_sweeps, systems, Phase(in_double, None, True)]
    return [first_sweeps, systems, sweeps, Phase(in_double)]
