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

from tessella.criteria.discounted import Discounted
from tessella.mdp.model import MDP
from tessella.mdp.stages.staged import Staged
from tessella.solvers.method import Method, whole

if TYPE_CHECKING:
    from tessella.solvers.kernels import State
    from tessella.solvers.operators import Operators

# It is taken by itself for models of stages with more states than these ...
MANY = 10_000
GREED = 8  # ... if a sweep over all actions is so many sweeps of one policy, at most
NEAR_ONE = 0.99  # beyond it, linear solvers are quicker than sweeps (``benchmarks/methods.py``)
LARGE = 1 << 22  # and on an accelerator for models of any kind with so many


def pays_off(mdp: MDP) -> bool:
    """Whether ``solve`` takes it by itself."""
    if mdp.n_states <= MANY or not isinstance(mdp.criterion, Discounted):
        return False
    return mdp.discount <= NEAR_ONE and (_quickly_swept(mdp) or _large_on_accelerator(mdp))


def _quickly_swept(mdp: MDP) -> bool:
    """Whether it goes through stages, over all actions nearly as quickly as over one."""
    dynamics = mdp.dynamics
    if not isinstance(dynamics, Staged) or dynamics.small:
        return False
    return dynamics.products <= GREED * dynamics.products_of_one


def _large_on_accelerator(mdp: MDP) -> bool:
    from tessella.mdp.engine import held

    return mdp.n_states >= LARGE and held()


@dataclass(frozen=True)
class MixedPrecision(Method):
    """Sweeps in single precision, with bounds and residuals in double; for discounted models.

    Args:
        first: sweeps of the first round.
        terms: of a correction; two more are looked at.
    """

    first: int = 48
    terms: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "first", 1)
        whole(self, "terms", 1)

    def refine(self, operators: Operators, state: State):
        import jax.numpy as jnp
        from jax import lax

        from tessella.solvers.single_precision import in_single

        rough = in_single(operators)

        def swept():
            point = rough.swept(state.backup.astype(jnp.float32), self.first)
            return point.astype(state.value.dtype)

        point = lax.cond(
            jnp.isfinite(state.bound), lambda: self._corrected(operators, rough, state), swept
        )
        return jnp.where(jnp.isfinite(point).all(), point, state.backup)

    def _corrected(self, operators: Operators, rough: Operators, state: State):
        import jax.numpy as jnp

        from tessella.solvers.single_precision import scaled_residual

        criterion = rough.criterion
        residual = state.backup - state.value
        # What all states share is known without solving: it is paid for ever.
        shared = operators.criterion.shared(residual)
        first, scale = scaled_residual(residual - shared)
        few = operators.program.n_actions <= jnp.iinfo(jnp.int8).max
        policy = state.policy.astype(jnp.int8) if few else state.policy  # a quarter of the bytes
        before, now, later = rough.summed(policy, first, self.terms)
        t, after = now - before, later - now
        left = criterion.spread(criterion.forever(after - criterion.discount * t))
        taken = left < criterion.spread(after)
        e = jnp.where(taken, before + criterion.forever(t), later)
        return state.value + operators.criterion.forever(shared) + scale * e
