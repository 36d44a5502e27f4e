"""How a policy's action compares with the best one, state by state.

Action values at V are known within tie / 2: |q - Q*| <= tie / 2. With x = max_a q - q(., pi) the
local loss ``l = V* - Q*(., pi) = max_a Q* - Q*(., pi)`` and the margin D therefore satisfy

    max(x - tie, 0) <= l <= x + tie,      margin - tie <= D <= margin + tie,

and l = 0 exactly where pi takes the decided action. Where the margin exceeds the tie tolerance the
optimal action is certain; elsewhere pi may or may not take the one that the tie rule would name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.enclosure import EPS, Band
from tessella.solvers.driver import Engine, contrast, decide
from tessella.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class Decisions:
    """The choices of a policy, judged. All arrays have the grid's shape.

    Attributes:
        tie: what the error of the value, and rounding, could overturn.
        loss: local losses.
        margin: margins of the best action over the second best.
        optimal: the solution's policy; where the error proven here tells actions apart that the
            solution could not, the best action.
        differs: the action is not the optimal one of these.
        wrong: the action is surely not optimal.
        doubtful: the action may or may not be the optimal one: values too close to tell.
    """

    tie: float
    loss: Band
    margin: Band
    optimal: NDArray[np.int32]
    differs: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    doubtful: NDArray[np.bool_]

    @property
    def perhaps_wrong(self) -> NDArray[np.bool_]:
        return self.wrong | self.doubtful


def decisions_of(engine: Engine, solution: Solution, error: float, table: NDArray) -> Decisions:
    """What ``table`` (grid of feasible action indices) decides, beside the optimum.

    The solution's value is within ``error`` of the optimum.
    """
    found = contrast(engine, solution.value, error, table, engine.written(solution.value))
    x, margin = np.asarray(found.lost), np.asarray(found.margin)
    # The row sums of a file may differ by rounding, and differences round once more.
    largest = float(np.max(margin, initial=x.max(), where=np.isfinite(margin)))
    tie = float(found.tie) * (1 + 2 * float(engine.data.numbers.unit)) + 16 * EPS * largest
    right = (margin > tie) & (x == 0)
    wrong = x > tie
    optimal = solution.policy.table
    told_apart = (margin > tie) & ~solution.decided
    if told_apart.any():
        optimal = np.where(told_apart, decide(engine, solution.value, error).policy, optimal)
    return Decisions(
        tie,
        Band(x, np.maximum(x - tie, 0.0), np.where(right, 0.0, x + tie)),
        Band(margin, np.maximum(margin - tie, 0.0), margin + tie),
        optimal,
        table != optimal,
        wrong,
        ~(right | wrong),
    )
