"""Evaluating a policy of a large model: corrections in single precision, bounds in double.

    (I - discount P_pi) e = T_pi v - v.

BiCGSTAB needs only products with P_pi, and those take half the time in single precision. A
correction that is good to a few digits cuts the residual by as many; the next starts from the
residual in double precision, which also gives the error bound. So rounding in the corrections costs
a little time and no accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from tessella.numerics import JAX
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.policy_iteration import InexactPolicyIteration

if TYPE_CHECKING:
    from tessella.solvers.kernels import IterationState


@dataclass(frozen=True)
class SinglePrecision(InexactPolicyIteration):
    """Inexact policy iteration with corrections in single precision."""

    max_sweeps: int = field(default=100_000, compare=False)
    forcing: float = 1e-4
    max_products: int = 100

    traced = True

    def refine(self, operators: Operators, state: IterationState):
        residual = state.backup - state.value
        # What all states share is known without solving: it is paid for ever.
        common = operators.criterion.common_part(residual)
        scaled, scale = scale_residual(residual - common)
        single = to_single_precision(operators)
        system = partial(single.policy_system, state.policy)
        e = JAX.bicgstab(system, scaled, tol=self.forcing, maxiter=self.max_products)
        point = state.value + operators.criterion.value_of_constant_reward(common) + scale * e
        return jnp.where(jnp.isfinite(point).all(), point, state.backup)


def scale_residual(residual):
    """The residual in single precision with its size taken out, and that size."""
    scale = jnp.maximum(jnp.abs(residual).max(), jnp.finfo(residual.dtype).tiny)
    return (residual / scale).astype(jnp.float32), scale


def to_single_precision(operators: Operators) -> Operators:
    """The same operators with their numbers in single precision."""

    def cast(x):
        return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x

    coarse = operators.data.coarse  # knows which of its numbers need all digits
    data: ModelData = jax.tree.map(cast, operators.data._replace(coarse=None))._replace(
        coarse=coarse
    )
    return Operators(operators.backend, data)
