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
policy would need many of them: the time of a solve then hardly depends on the discount. ``phases``
decides which of the two, by what the iterations achieve.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tessella.errors import require_whole
from tessella.numerics import JAX
from tessella.solvers.method import Method, require_between
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.policy_iteration import choose_relative_tolerance
from tessella.solvers.thresholds import DEFAULT_EVALUATION, EvaluationThresholds

if TYPE_CHECKING:
    from tessella.solvers.iteration import IterationState


@dataclass(frozen=True)
class MixedPrecision(Method):
    """Sweeps, then linear systems, in single precision, with bounds and residuals in double.

    Args:
        first_sweeps: of the first iteration.
        correction_terms: of the sum that corrects a value; two more are computed.
        forcing: share of the residual that a linear system may leave.
        max_products: products with P_pi for one linear system.
    """

    first_sweeps: int = 48
    correction_terms: int = 32
    forcing: float = 1e-2
    max_products: int = 100
    thresholds: EvaluationThresholds = field(default=DEFAULT_EVALUATION, repr=False)

    uses_single_precision = True

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
            e = self._sum_series(single, policy, d)
        else:
            tol = choose_relative_tolerance(operators, state, self.forcing, self.thresholds)
            e = self._solve_system(single, policy, d, tol.astype(d.dtype))
        return state.value + operators.criterion.value_of_constant_reward(common) + scale * e

    def _sum_series(self, single: Operators, policy, d):
        criterion = single.criterion
        partial_sum, next_sum, last_sum = single.sum_neumann_series(
            policy, d, self.correction_terms
        )
        t = next_sum - partial_sum
        next_term = last_sum - next_sum
        residual_span = criterion.span(
            criterion.value_of_constant_reward(next_term - criterion.discount * t)
        )
        use_limit = residual_span < criterion.span(next_term)
        return JAX.where(use_limit, partial_sum + criterion.value_of_constant_reward(t), last_sum)

    def _solve_system(self, single: Operators, policy, d, tol):
        e = JAX.bicgstab(
            partial(single.policy_system, policy),
            d,
            tol=tol,
            maxiter=max(self.max_products // 2, 1),
            preconditioner=single.precondition,
        )

        def sweep(e):  # of v + e, where T_pi (v + e) - v = d + discount P_pi e
            return single.criterion.next_iterate(e, d + single.policy_expectation(policy, e))

        # A small norm may hide large entries; sweeps smooth them.
        return JAX.iterate(self.thresholds.trial_sweeps + 1, sweep, e)


def scale_residual(residual):
    """The residual in single precision with its size taken out, and that size."""
    scale = JAX.maximum(JAX.abs(residual).max(), JAX.finfo(residual.dtype).tiny)
    return (residual / scale).astype(JAX.float32), scale


def to_single_precision(operators: Operators) -> Operators:
    """The same operators with their numbers in single precision."""
    import jax

    def cast(x):
        return x.astype(JAX.float32) if JAX.issubdtype(x.dtype, JAX.floating) else x

    # It decides itself which of its numbers need double precision.
    correction = operators.data.coarse_correction
    data: ModelData = jax.tree.map(cast, operators.data._replace(coarse_correction=None))._replace(
        coarse_correction=correction
    )
    return Operators(operators.backend, data, evaluates_policy=operators.evaluates_policy)
