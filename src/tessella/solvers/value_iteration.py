"""Value iteration: v <- T v.

The two-sided bounds of ``kernels`` shrink with the *span* of T v - v, which usually falls much
faster than discount^k, so the loop stops long before the classical test would.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ValueIteration:
    """Value iteration.

    Args:
        tol: bound on max|V - V*|; None asks for about twelve digits of reward scale/(1-discount).
        max_sweeps: the limit on Bellman sweeps.
    """

    tol: float | None = field(default=None, compare=False)
    max_sweeps: int = field(default=1_000_000, compare=False)

    safeguarded = False
    krylov = False

    def refine(self, program, model, state):
        return state.backup
