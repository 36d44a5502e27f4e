"""Large models: products in single precision, residuals and bounds in double.

Rounding costs a little time and no accuracy: each iteration takes its residual T v - v in double
precision, which also gives the error bound, and corrects v in single precision, with the size of
the residual taken out.

``SinglePrecision`` evaluates the greedy policy by BiCGSTAB, which needs only products with P_pi:

    (I - discount P_pi) e = T_pi v - v.

A correction that is good to a few digits cuts the residual by as many.

``MixedPrecision``, for discounted models, sweeps in its first iteration, v <- T v. Every other one
adds up

    e = t_1 + t_2 + ...,    t_1 = T v - v,    t_(j+1) = discount P_pi t_j.

Where t_m is nearly constant over the states that a process reaches while they count, the rest of
the sum is nearly t_m / (1 - discount), state by state. What that leaves,
(t_(m+1) - discount t_m) / (1 - discount), is known before the choice: where it is not smaller than
t_(m+1), as in periodic chains, the plain sum is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tessella.errors import require_whole
from tessella.numerics import JAX
from tessella.solvers.method import Method
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.policy_iteration import InexactPolicyIteration

if TYPE_CHECKING:
    from tessella.solvers.iteration import IterationState


@dataclass(frozen=True)
class MixedPrecision(Method):
    """Sweeps in single precision, with bounds and residuals in double; for discounted models.

    Args:
        first_sweeps: of the first iteration.
        correction_terms: of the sum that corrects a value; two more are computed.
    """

    first_sweeps: int = 48
    correction_terms: int = 32

    uses_single_precision = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("first_sweeps", self.first_sweeps, 1)
        require_whole("correction_terms", self.correction_terms, 1)

    def step(self, operators: Operators, state: IterationState):
        single = to_single_precision(operators)

        def run_first_sweeps():
            point = single.iterate_bellman(state.backup.astype(JAX.float32), self.first_sweeps)
            return point.astype(state.value.dtype)

        point = JAX.branch(
            JAX.isfinite(state.bound),
            lambda: self._correct_value(operators, single, state),
            run_first_sweeps,
        )
        return JAX.where(JAX.isfinite(point).all(), point, state.backup)

    def _correct_value(self, operators: Operators, single: Operators, state: IterationState):
        criterion = single.criterion
        residual = state.backup - state.value
        # Known without solving: a constant residual r changes the value by r / (1 - discount).
        common = operators.criterion.common_part(residual)
        first, scale = scale_residual(residual - common)
        fits_int8 = operators.backend.n_actions <= JAX.iinfo(JAX.int8).max
        # A quarter of the bytes.
        policy = state.policy.astype(JAX.int8) if fits_int8 else state.policy
        partial_sum, next_sum, last_sum = single.sum_neumann_series(
            policy, first, self.correction_terms
        )
        t = next_sum - partial_sum
        next_term = last_sum - next_sum
        residual_span = criterion.span(
            criterion.value_of_constant_reward(next_term - criterion.discount * t)
        )
        use_limit = residual_span < criterion.span(next_term)
        e = JAX.where(use_limit, partial_sum + criterion.value_of_constant_reward(t), last_sum)
        return state.value + operators.criterion.value_of_constant_reward(common) + scale * e


@dataclass(frozen=True)
class SinglePrecision(InexactPolicyIteration):
    """Inexact policy iteration with corrections in single precision."""

    max_sweeps: int = field(default=100_000, compare=False)
    forcing: float = 1e-4
    max_products: int = 100

    requires_jax = True

    def step(self, operators: Operators, state: IterationState):
        residual = state.backup - state.value
        # Known without solving: a constant residual r changes the value by r / (1 - discount).
        common = operators.criterion.common_part(residual)
        scaled, scale = scale_residual(residual - common)
        single = to_single_precision(operators)
        system = partial(single.policy_system, state.policy)
        e = JAX.bicgstab(system, scaled, tol=self.forcing, maxiter=self.max_products)
        point = state.value + operators.criterion.value_of_constant_reward(common) + scale * e
        return JAX.where(JAX.isfinite(point).all(), point, state.backup)


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
    return Operators(operators.backend, data)
