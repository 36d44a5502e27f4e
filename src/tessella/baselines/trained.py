"""What training a baseline gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy


@dataclass(frozen=True, eq=False)
class TrainingCurve:
    """How training went, without reading the exact solution.

    Attributes:
        unit: what ``at`` counts.
        at: (m,) updates, or iterations, done.
        tables: (m, grid) the greedy policy at that time.
        residual: (m,) mean absolute change asked for: the temporal difference of the updates
            since the last entry, or the change of the action values in that iteration.
    """

    unit: Literal["updates", "iterations"]
    at: NDArray[np.int64]
    tables: NDArray[np.int32]
    residual: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.at)

    def up_to(self, last: int) -> TrainingCurve:
        """The entries up to ``last``."""
        keep = self.at <= last
        return TrainingCurve(self.unit, self.at[keep], self.tables[keep], self.residual[keep])


@dataclass(frozen=True, eq=False, repr=False)
class TrainedPolicy(Policy):
    """A policy learned from a simulator.

    Attributes:
        curve: how training went.
        simulator_calls: transitions it was shown.
    """

    curve: TrainingCurve | None = field(default=None, repr=False)
    simulator_calls: int = 0


def select_greedy(q_SA: NDArray[np.float64], mdp: MDP) -> NDArray[np.int32]:
    """(grid) lowest feasible action of highest value."""
    best = np.where(mdp.feasible_mask, q_SA, -np.inf).argmax(axis=1)
    return best.reshape(mdp.grid.shape).astype(np.int32)
