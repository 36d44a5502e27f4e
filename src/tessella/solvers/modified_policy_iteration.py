"""Modified policy iteration: v <- T_pi^m T v, with pi greedy at v.

Sweeps of one policy cost less than sweeps that maximise; m = 0 is value iteration and m large is
policy iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModifiedPolicyIteration:
    """Modified policy iteration with ``partial_sweeps`` of evaluation for each improvement."""

    tol: float | None = field(default=None, compare=False)
    max_sweeps: int = field(default=1_000_000, compare=False)
    partial_sweeps: int = 20

    safeguarded = False
    krylov = False

    def refine(self, program, model, state):
        from jax import lax

        from tessella.solvers.kernels import policy_backup

        def sweep(_, value):
            return policy_backup(program, model, state.policy, value, True)

        return lax.fori_loop(0, self.partial_sweeps, sweep, state.backup)
