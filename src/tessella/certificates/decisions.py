"""How a policy's action compares with the best one, state by state.

Action values at V are known within tie / 2: |q - Q*| <= tie / 2. With x = max_a q - q(., pi) the
local loss ``l = V* - Q*(., pi) = max_a Q* - Q*(., pi)`` and the margin D therefore satisfy

    max(x - tie, 0) <= l <= x + tie,      margin - tie <= D <= margin + tie,

and l = 0 exactly where pi takes the decided action. Where the margin exceeds the tie tolerance the
optimal action is certain; elsewhere pi may or may not take the one that the tie rule would name.

Policy error given the margin (the paper's Figure 3) tells whether errors are where they cost
little: in a bin b of margins, error(b) = #{s in b : pi(s) != pi*(s)} / #{s in b}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.interval import EPS, IntervalArray
from tessella.errors import ArgumentError
from tessella.solvers.bounds import compare_policy, decide
from tessella.solvers.prepared_model import PreparedModel
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
    engine: PreparedModel, solution: Solution, error: float, actions: NDArray
) -> Decisions:
    """What ``table`` (grid of feasible action indices) decides, compared with the optimum.

    The solution's value is within ``error`` of the optimum.
    """
    comparison = compare_policy(
        engine, solution.value, error, actions, engine.saved_backup_error(solution.value)
    )
    x = np.asarray(comparison.local_loss)
    margin = np.asarray(comparison.margin)
    # The row sums of a file may differ by rounding, and differences round once more.
    max_difference = float(np.max(margin, initial=x.max(), where=np.isfinite(margin)))
    tie = (
        float(comparison.tie) * (1 + 2 * float(engine.data.accuracy.relative_rounding))
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


@dataclass(frozen=True, eq=False)
class MarginError:
    """Policy error in each of n bins of margins.

    Attributes:
        edges: (n + 1,) a bin holds its lower edge, the last bin both of its edges.
        states: (n,) states in each bin.
        errors: (n,) of these, states whose action differs from the optimal one.
        margins: (n,) mean margin of the states of each bin; nan in a bin without states.
        name: of the policy.
    """

    edges: NDArray[np.float64]
    states: NDArray[np.int64]
    errors: NDArray[np.int64]
    margins: NDArray[np.float64]
    name: str = ""

    @property
    def rate(self) -> NDArray[np.float64]:
        """(n,) share of wrong actions in each bin; nan in a bin without states."""
        return _divide_by_counts(self.errors, self.states)


def count_errors_by_margin(
    margin: NDArray[np.float64], wrong: NDArray[np.bool_], bins: int | NDArray, name: str = ""
) -> MarginError:
    """Count errors by margin; states with only one feasible action have none and are left out.

    Args:
        margin: (grid) margins.
        wrong: (grid) whether the action differs from the optimal one.
        bins: edges, or how many bins with about as many states each.
    """
    has_choice = np.isfinite(margin)
    edges = _choose_edges(margin[has_choice], bins)
    states, _ = np.histogram(margin[has_choice], edges)
    errors, _ = np.histogram(margin[has_choice & wrong], edges)
    sums, _ = np.histogram(margin[has_choice], edges, weights=margin[has_choice])
    return MarginError(edges, states, errors, _divide_by_counts(sums, states), name)


def _divide_by_counts(sums: NDArray, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(counts == 0, np.nan, sums / np.maximum(counts, 1))


def _choose_edges(margin: NDArray[np.float64], bins: int | NDArray) -> NDArray[np.float64]:
    edges = np.asarray(bins)
    if edges.ndim == 0:
        if edges < 1:
            raise ArgumentError("there must be at least one bin", value=f"got {edges}")
        sample = margin if margin.size else np.array([0.0, 1.0])
        edges = np.unique(np.quantile(sample, np.linspace(0, 1, int(edges) + 1)))
        if edges.size == 1:
            edges = np.array([edges[0], edges[0] + 1.0])
    edges = edges.astype(float)
    if edges.ndim != 1 or edges.size < 2 or not (np.diff(edges) > 0).all():
        raise ArgumentError("bin edges must increase", value=f"got {edges}")
    return edges
