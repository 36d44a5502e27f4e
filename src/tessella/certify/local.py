"""How a policy's action compares with the best one, state by state.

A solution knows its action values within tie / 2: |q - Q*| <= tie / 2. With x = max_a q - q(., pi)
the local loss ``l = V* - Q*(., pi) = max_a Q* - Q*(., pi)`` and the margin D therefore satisfy

    max(x - tie, 0) <= l <= x + tie,      margin - tie <= D <= margin + tie,

and l = 0 exactly where pi takes the decided action. Where the margin exceeds the tie tolerance the
optimal action is certain; elsewhere pi may or may not take the one that the tie rule would name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.certify.enclosure import EPS, Band
from tessella.solve.solution import Solution


@dataclass(frozen=True, eq=False)
class Decisions:
    """The choices of a policy, judged. All arrays have the grid's shape.

    Attributes:
        loss: local losses.
        margin: margins of the best action over the second best.
        differs: the action is not that of the solution's policy.
        wrong: the action is surely not optimal.
        doubtful: the action may or may not be the optimal one: values too close to tell.
    """

    loss: Band
    margin: Band
    differs: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    doubtful: NDArray[np.bool_]

    @property
    def perhaps_wrong(self) -> NDArray[np.bool_]:
        return self.wrong | self.doubtful


def judge(solution: Solution, table: NDArray[np.int32]) -> Decisions:
    """Compare ``table`` (grid of feasible action indices) with the optimum."""
    best = solution.q.max(axis=-1)
    chosen = np.take_along_axis(solution.q, table[..., None], axis=-1)[..., 0]
    # Differences of action values round once more.
    tie = solution.tie_tolerance + 2 * EPS * float(np.abs(best).max() + np.abs(chosen).max())
    x = best - chosen
    right = solution.decided & (x == 0)
    wrong = x > tie
    lower = np.maximum(x - tie, 0.0)
    upper = np.where(right, 0.0, x + tie)
    margin = np.asarray(solution.margin)
    return Decisions(
        Band(x, lower, upper),
        Band(margin.copy(), np.maximum(margin - tie, 0.0), margin + tie),
        table != solution.policy.table,
        wrong,
        ~(right | wrong),
    )
