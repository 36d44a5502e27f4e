"""How a policy's action compares with the best one, state by state.

With ``tie`` the tie tolerance, |q - Q*| <= tie / 2 at V. With x = max_a q - q(., pi) the local loss
``l = V* - Q*(., pi) = max_a Q* - Q*(., pi)`` and the margin D therefore satisfy

    max(x - tie, 0) <= l <= x + tie,      margin - tie <= D <= margin + tie,

and l = 0 exactly where pi takes the decided action. Where the margin exceeds the tie tolerance the
optimal action is certain; elsewhere pi may or may not take the one that the tie rule would name.

The loss L = V* - V_pi of each state is enclosed in two ways, which must agree: by the errors e of V
and e' of V_pi, and by the local losses, since ``L = l + discount P_pi L``:

    |L - (V - V_pi)| <= e + e',      l <= L <= max l / (1 - c).

All of this is state by state, so that it serves a whole grid and each block of it.

Policy error given the margin (the paper's Figure 3) shows whether errors are where they cost
little: in a bin b of margins, error(b) = #{s in b : pi(s) != pi*(s)} / #{s in b}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.interval import EPS, IntervalArray
from tessella.errors import ArgumentError, counted
from tessella.solvers.blocks import ComparedBlock


@dataclass(frozen=True, eq=False)
class StateDecisions:
    """What a certificate states of each decision. (grid)

    Attributes:
        optimal: action indices of the optimal policy.
        margin: best minus second-best action value, within ``margin_slack``.
        local_losses: what the action of each state loses if all else is optimal.
    """

    optimal: NDArray[np.int32]
    margin: NDArray[np.float64]
    margin_slack: float
    local_losses: IntervalArray


@dataclass(frozen=True, eq=False)
class Decisions:
    """The choices of a policy, compared with the best. All arrays have the grid's shape.

    Attributes:
        tie_tolerance: what the error of the value, and rounding, could overturn.
        local_losses: best minus the policy's action value.
        margin: margins of the best action over the second best.
        optimal: the best action where it is certain, elsewhere the solution's.
        differs: the action is not that of ``optimal``.
        wrong: the action is certainly not optimal.
        possibly_wrong: the action is not certainly optimal.
    """

    tie_tolerance: float
    local_losses: IntervalArray
    margin: IntervalArray
    optimal: NDArray[np.int32]
    differs: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    possibly_wrong: NDArray[np.bool_]

    @property
    def stated(self) -> StateDecisions:
        """The part of a certificate; all else follows from it."""
        slack = self.tie_tolerance
        return StateDecisions(self.optimal, self.margin.value, slack, self.local_losses)


def enclose_decisions(
    block: ComparedBlock, optimal_table: NDArray[np.int32], tie_tolerance: float
) -> Decisions:
    """What follows from local losses and margins that are known within ``tie_tolerance``.

    ``optimal_table`` has the solution's actions in the states of the block.
    """
    margin = block.margin
    local_loss = block.local_loss
    is_decided = margin > tie_tolerance
    is_optimal = is_decided & (local_loss == 0)
    optimal = np.where(is_decided, block.best_action, optimal_table)
    return Decisions(
        tie_tolerance,
        IntervalArray(
            local_loss,
            np.maximum(local_loss - tie_tolerance, 0.0),
            np.where(is_optimal, 0.0, local_loss + tie_tolerance),
        ),
        IntervalArray(margin, np.maximum(margin - tie_tolerance, 0.0), margin + tie_tolerance),
        optimal,
        block.actions != optimal,
        local_loss > tie_tolerance,
        ~is_optimal,
    )


def bound_loss_error(error: float, policy_error: float, max_size: float) -> float:
    """How far V - V_pi may be off, with both errors and |V| + |V_pi| at most ``max_size``."""
    return (error + policy_error) * (1 + 4 * EPS) + 2 * EPS * max_size


def enclose_losses(
    value: NDArray,
    policy_value: NDArray,
    error: float,
    local_losses: IntervalArray,
    max_loss: float,
) -> IntervalArray:
    """Enclosures of L from both ways; ``error`` is that of the difference of the values."""
    difference = value - policy_value
    lower = np.maximum(difference - error, local_losses.lower)
    upper = np.minimum(difference + error, max_loss)
    bad = np.flatnonzero(lower > upper)
    if bad.size:
        first = np.unravel_index(bad[0], lower.shape)
        raise ArithmeticError(
            f"internal error: the two loss enclosures do not intersect in "
            f"{counted(bad.size, 'state')}: at least {lower[first]:g} and at most "
            f"{upper[first]:g} at position {tuple(map(int, first))}"
        )
    return IntervalArray(np.clip(difference, lower, upper), lower, upper)


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
