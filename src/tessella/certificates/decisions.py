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

from tessella.certificates.interval import EPS, IntervalArray
from tessella.solvers.engine import Engine, compare_policy, decide
from tessella.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class Decisions:
    """The choices of a policy, compared with the best. All arrays have the grid's shape.

    Attributes:
        tie: what the error of the value, and rounding, could overturn.
        loss: local losses.
        margin: margins of the best action over the second best.
        optimal: the solution's policy; where the error proven here separates actions that the
            solution could not, the best action.
        differs: the action is not the optimal one of these.
        wrong: the action is surely not optimal.
        undecided: the action may or may not be the optimal one: values too close to tell.
    """

    tie: float
    loss: IntervalArray
    margin: IntervalArray
    optimal: NDArray[np.int32]
    differs: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    undecided: NDArray[np.bool_]

    @property
    def possibly_wrong(self) -> NDArray[np.bool_]:
        return self.wrong | self.undecided


def classify_decisions(
    engine: Engine, solution: Solution, error: float, actions: NDArray
) -> Decisions:
    """What ``table`` (grid of feasible action indices) decides, beside the optimum.

    The solution's value is within ``error`` of the optimum.
    """
    comparison = compare_policy(
        engine, solution.value, error, actions, engine.saved_model_error(solution.value)
    )
    x = np.asarray(comparison.local_loss)
    margin = np.asarray(comparison.margin)
    # The row sums of a file may differ by rounding, and differences round once more.
    max_difference = float(np.max(margin, initial=x.max(), where=np.isfinite(margin)))
    tie = (
        float(comparison.tie) * (1 + 2 * float(engine.data.numbers.relative_rounding))
        + 16 * EPS * max_difference
    )
    is_optimal = (margin > tie) & (x == 0)
    is_wrong = x > tie
    optimal = solution.policy.table
    newly_decided = (margin > tie) & ~solution.decided
    if newly_decided.any():
        optimal = np.where(newly_decided, decide(engine, solution.value, error).policy, optimal)
    return Decisions(
        tie,
        IntervalArray(x, np.maximum(x - tie, 0.0), np.where(is_optimal, 0.0, x + tie)),
        IntervalArray(margin, np.maximum(margin - tie, 0.0), margin + tie),
        optimal,
        actions != optimal,
        is_wrong,
        ~(is_optimal | is_wrong),
    )
