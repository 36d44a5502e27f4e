"""Modified policy iteration: v <- T_pi^m T v, with pi greedy at v.

Sweeps of one policy cost less than sweeps that maximise; m = 0 is value iteration and m large is
policy iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessella.numerics import numerics
from tessella.solvers.method import Method, require_whole_number

if TYPE_CHECKING:
    from tessella.solvers.kernels import IterationState
    from tessella.solvers.operators import Operators


@dataclass(frozen=True)
class ModifiedPolicyIteration(Method):
    """Modified policy iteration with ``partial_sweeps`` of evaluation for each improvement."""

    partial_sweeps: int = 20

    traced = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole_number(self, "partial_sweeps", 0)

    def refine(self, operators: Operators, state: IterationState):
        def sweep(value):
            return operators.policy_step(state.policy, value)

        first = operators.criterion.step(state.value, state.backup)
        return numerics(first).repeat(self.partial_sweeps, sweep, first)
