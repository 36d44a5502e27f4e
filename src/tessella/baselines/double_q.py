"""Double Q-learning: two tables, each valuing the other's choice.

    with probability 1/2, b* = argmax_{b feasible in s'} Q_1(s', b),
    Q_1(s, a) <- Q_1(s, a) + step [ r + discount Q_2(s', b*) - Q_1(s, a) ],

else the same with the tables exchanged. The policy is greedy in Q_1 + Q_2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tessella.baselines.tabular_q import TabularQ


@dataclass(frozen=True)
class DoubleQ(TabularQ):
    """Q-learning with two tables; the arguments are those of ``TabularQ``."""

    title: ClassVar[str] = "Double Q-learning"
    tables: ClassVar[int] = 2

    def target(self, q_TSA, next_state, coin, feasible_SA):
        """The table that ``coin`` names learns; the other one values its choice."""
        import jax.numpy as jnp

        choice = jnp.where(feasible_SA[next_state], q_TSA[coin, next_state], -jnp.inf).argmax()
        return coin, q_TSA[1 - coin, next_state, choice]
