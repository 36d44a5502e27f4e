"""Value iteration: v <- T v, damped where the criterion asks for it.

The two-sided bounds of ``kernels`` shrink with the *span* of T v - v, which usually falls much
faster than discount^k, so the loop stops long before the classical test would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessella.solvers.method import Method

if TYPE_CHECKING:
    from tessella.solvers.kernels import IterationState
    from tessella.solvers.operators import Operators


@dataclass(frozen=True)
class ValueIteration(Method):
    """Value iteration."""

    traced = False

    def refine(self, operators: Operators, state: IterationState):
        return operators.criterion.step(state.value, state.backup)
