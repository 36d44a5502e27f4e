"""Policy iteration, exact and inexact, without a matrix.

With pi greedy at v and d = T v - v = T_pi v - v, the value of pi is v + e where

    (I - discount P_pi) e = d.

The system is solved by BiCGSTAB, which needs only products with P_pi: to nearly full accuracy
(policy iteration), or only until the residual has fallen by ``forcing`` (inexact policy iteration:
what is left is mended after the next improvement). The iteration count of a Krylov method hardly
grows as the discount approaches 1, where sweeps need 1 / (1 - discount) of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tessella.solvers.method import Method, between, whole

HELPED = 0.5  # a linear solve that leaves more of the residual than this has failed
SWEEPS_INSTEAD = 4  # sweeps in place of each product that was allowed: most of the work, then


@dataclass(frozen=True)
class PolicyIteration(Method):
    """Howard's policy iteration; each policy is evaluated to nearly full accuracy."""

    max_sweeps: int = field(default=10_000, compare=False)
    max_products: int = 500

    linear = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "max_products", 1)

    def refine(self, operators, state):
        return evaluate_greedy(operators, state, 1e-13, self.max_products)


@dataclass(frozen=True)
class InexactPolicyIteration(Method):
    """Policy iteration with evaluations cut short; the automatic choice for discounts near 1."""

    max_sweeps: int = field(default=10_000, compare=False)
    forcing: float = 1e-2
    max_products: int = 200

    safeguarded = True
    linear = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, "forcing", 0, 1)
        whole(self, "max_products", 1)

    def refine(self, operators, state):
        return evaluate_greedy(operators, state, self.forcing, self.max_products)


def evaluate_greedy(operators, state, forcing: float, max_products: int):
    """v + e; or, where the linear solver gets nowhere, as far as plain sweeps of the policy go.

    No Krylov method beats sweeps on a long cycle of states before it has gone round it once. Where
    dynamics offer a direct solve, a run that stalls so is helped by one instead (see ``driver``).
    """
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.sparse.linalg import bicgstab

    def left(e):
        return operators.left(state.policy, e)

    def sweep(_, value):
        return operators.sweep(state.policy, value)

    # What all states share is known without solving: it is paid for ever.
    residual = state.backup - state.value
    shared = (residual.max() + residual.min()) / 2
    guess = jnp.full_like(residual, operators.criterion.forever(shared))
    e, _ = bicgstab(left, residual, x0=guess, tol=forcing, maxiter=max_products)
    rest = jnp.linalg.norm(residual - left(e)) / jnp.linalg.norm(residual)
    helped = (rest < HELPED) | (residual == 0).all()
    sweeps = SWEEPS_INSTEAD * max_products
    return lax.cond(
        helped,
        lambda: state.value + e,
        lambda: lax.fori_loop(0, sweeps, sweep, state.backup),
    )
