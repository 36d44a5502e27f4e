"""Value iteration and modified policy iteration: sweeps, without solving a linear system.

Value iteration is v <- T v, damped where the criterion needs it. The two-sided bounds of
``iteration`` shrink with the *span* of T v - v, which usually falls much faster than discount^k, so
the loop stops long before the classical test would.

Modified policy iteration is v <- T_pi^m T v, with pi greedy at v. Sweeps of one policy cost less
than sweeps that maximise; m = 0 is value iteration and m large is policy iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessella.errors import require_whole
from tessella.numerics import array_namespace
from tessella.solvers.method import Method

if TYPE_CHECKING:
    from tessella.solvers.iteration import IterationState
    from tessella.solvers.operators import Operators


@dataclass(frozen=True)
class ValueIteration(Method):
    """Value iteration."""

    requires_jax = False

    def step(self, operators: Operators, state: IterationState):
        return operators.criterion.next_iterate(state.value, state.backup)


@dataclass(frozen=True)
class ModifiedPolicyIteration(Method):
    """Modified policy iteration with ``partial_sweeps`` of evaluation for each improvement."""

    partial_sweeps: int = 20

    requires_jax = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("partial_sweeps", self.partial_sweeps, 0)

    def step(self, operators: Operators, state: IterationState):
        def sweep(value):
            return operators.policy_step(state.policy, value)

        first = operators.criterion.next_iterate(state.value, state.backup)
        return array_namespace(first).iterate(self.partial_sweeps, sweep, first)
