"""Large discounted models: sweeps in single precision, bounds in double.

The first round sweeps from its start, v <- T v. Every other round corrects v for its greedy policy,

    (I - discount P_pi) e = T v - v,    e = t_1 + t_2 + ...,    t_(j+1) = discount P_pi t_j,

where t_1 = T v - v is found in double precision and the sum in single, with its size taken out: so
rounding costs a little time and no accuracy. Where t_m is nearly constant over the states that a
process reaches while they count, the rest of the sum is nearly t_m / (1 - discount), state by
state. What that leaves, (t_(m+1) - discount t_m) / (1 - discount), is seen before it is taken:
where it is not smaller than t_(m+1), as in periodic chains, the plain sum is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessella.solvers.method import Method, require_whole_number

if TYPE_CHECKING:
    from tessella.solvers.kernels import IterationState
    from tessella.solvers.operators import Operators


@dataclass(frozen=True)
class MixedPrecision(Method):
    """Sweeps in single precision, with bounds and residuals in double; for discounted models.

    Args:
        first: sweeps of the first round.
        terms: of a correction; two more are computed.
    """

    first: int = 48
    terms: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole_number(self, "first", 1)
        require_whole_number(self, "terms", 1)

    def refine(self, operators: Operators, state: IterationState):
        import jax.numpy as jnp
        from jax import lax

        from tessella.solvers.single_precision import to_single_precision

        single = to_single_precision(operators)

        def run_first_sweeps():
            point = single.iterate_bellman(state.backup.astype(jnp.float32), self.first)
            return point.astype(state.value.dtype)

        point = lax.cond(
            jnp.isfinite(state.bound),
            lambda: self._correct_value(operators, single, state),
            run_first_sweeps,
        )
        return jnp.where(jnp.isfinite(point).all(), point, state.backup)

    def _correct_value(self, operators: Operators, single: Operators, state: IterationState):
        import jax.numpy as jnp

        from tessella.solvers.single_precision import scale_residual

        criterion = single.criterion
        residual = state.backup - state.value
        # What all states share is known without solving: it is paid for ever.
        common = operators.criterion.common_part(residual)
        first, scale = scale_residual(residual - common)
        fits_int8 = operators.backend.n_actions <= jnp.iinfo(jnp.int8).max
        # A quarter of the bytes.
        policy = state.policy.astype(jnp.int8) if fits_int8 else state.policy
        partial_sum, next_sum, last_sum = single.sum_neumann_series(policy, first, self.terms)
        t = next_sum - partial_sum
        next_term = last_sum - next_sum
        residual_span = criterion.span(
            criterion.value_of_constant_reward(next_term - criterion.discount * t)
        )
        use_limit = residual_span < criterion.span(next_term)
        e = jnp.where(use_limit, partial_sum + criterion.value_of_constant_reward(t), last_sum)
        return state.value + operators.criterion.value_of_constant_reward(common) + scale * e
