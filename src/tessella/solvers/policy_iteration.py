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

HELPED = 0.5  # a linear solve that leaves more of the residual than this has failed
SWEEPS_INSTEAD = 4  # sweeps in place of each product that was allowed: most of the work, then


@dataclass(frozen=True)
class PolicyIteration:
    """Howard's policy iteration; each policy is evaluated to nearly full accuracy."""

    tol: float | None = field(default=None, compare=False)
    max_sweeps: int = field(default=10_000, compare=False)
    max_products: int = 500

    safeguarded = False
    krylov = True

    def refine(self, program, model, state):
        return evaluate_greedy(program, model, state, 1e-13, self.max_products)


@dataclass(frozen=True)
class InexactPolicyIteration:
    """Policy iteration with evaluations cut short; the automatic choice for discounts near 1."""

    tol: float | None = field(default=None, compare=False)
    max_sweeps: int = field(default=10_000, compare=False)
    forcing: float = 1e-2
    max_products: int = 200

    safeguarded = True
    krylov = True

    def refine(self, program, model, state):
        return evaluate_greedy(program, model, state, self.forcing, self.max_products)


def evaluate_greedy(program, model, state, forcing: float, max_products: int):
    """v + e; or, where the linear solver gets nowhere, as far as plain sweeps of the policy go.

    No Krylov method beats sweeps on a long cycle of states before it has gone round it once. A
    tabular model that stalls so is solved by a sparse factorisation instead (see ``driver``).
    """
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.sparse.linalg import bicgstab

    from tessella.solvers.kernels import policy_backup

    def product(e):
        return e - policy_backup(program, model, state.policy, e, False)

    def sweep(_, value):
        return policy_backup(program, model, state.policy, value, True)

    # What all states share is known without solving: a constant residual c adds c / (1 - discount).
    residual = state.backup - state.value
    shared = (residual.max() + residual.min()) / 2
    guess = jnp.full_like(residual, shared / (1 - model.numbers.discount))
    e, _ = bicgstab(product, residual, x0=guess, tol=forcing, maxiter=max_products)
    left = jnp.linalg.norm(residual - product(e)) / jnp.linalg.norm(residual)
    helped = (left < HELPED) | (residual == 0).all()
    sweeps = SWEEPS_INSTEAD * max_products
    return lax.cond(
        helped,
        lambda: state.value + e,
        lambda: lax.fori_loop(0, sweeps, sweep, state.backup),
    )
