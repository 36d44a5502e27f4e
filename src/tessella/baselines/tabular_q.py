"""Tabular Q-learning.

    Q(s, a) <- Q(s, a) + step [ r + discount max_{b feasible in s'} Q(s', b) - Q(s, a) ]

with no future after a transition that ended the process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tessella.baselines.options import ConstantStep, Sampling, StepSize, UniformPairs
from tessella.mdp.model import MDP


@dataclass(frozen=True)
class TabularQ:
    """Q-learning with one table.

    Args:
        step: step size, ``ConstantStep`` or ``DecayingStep``.
        sampling: ``UniformPairs``, the paper's protocol as reconstructed, or ``Trajectory``.
        start: the value every entry begins with.
    """

    step: StepSize = field(default_factory=ConstantStep)
    sampling: Sampling = field(default_factory=UniformPairs)
    start: float = 0.0

    title: ClassVar[str] = "Tabular Q-learning"
    tables: ClassVar[int] = 1

    def size(self, mdp: MDP) -> int:
        """Numbers stored."""
        return self.tables * mdp.n_states * mdp.n_actions

    def target(self, q_TSA, next_state, coin, feasible_SA):
        """Which table learns, and its target: the value of the future after ``next_state``."""
        import jax.numpy as jnp

        return 0, jnp.where(feasible_SA[next_state], q_TSA[0, next_state], -jnp.inf).max()
