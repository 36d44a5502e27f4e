"""The certificate of a very large model, block by block.

The figures of ``certify`` that are one number each, by the same arithmetic, out of two passes over
blocks of the grid (``solvers.block_residuals``): the first finds what the residuals
of V and V_pi prove, the second adds up. Besides the two values and the policy, no array is larger
than a block. What has a number for every state, and the second way to the mean loss by the
occupancy, are left out; so its interval may be a little wider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import BlockCertificate
from tessella.certificates.interval import EPS, Interval, IntervalArray, next_down, next_up
from tessella.certificates.loss import evaluate_against
from tessella.criteria.criterion import require_criterion
from tessella.criteria.discounted import Discounted
from tessella.mdp.as_policy import Labels, as_policy
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.block_residuals import (
    BLOCK_STATES,
    BlockComparison,
    ComparedBlock,
    ValueRange,
    choose_partition,
)
from tessella.solvers.bounds import compute_tie
from tessella.solvers.solution import Solution


def certify_in_blocks(
    solution: Solution,
    policy: Any,
    start: Start = None,
    *,
    tol: float | None = None,
    labels: Labels | None = None,
    states: int = BLOCK_STATES,
) -> BlockCertificate:
    """What ``policy`` loses against the optimum of a very large model of stages.

    Args:
        policy: whatever decides: see ``as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        tol: an action within this of the best is no costly error; None for the tie tolerance.
        labels: whether the policy answers in action indices or values, where that is not clear.
        states: of a block, about.
    """
    mdp = solution.mdp
    require_criterion("a certificate in blocks", mdp.criterion, Discounted)
    partition = choose_partition(mdp, states)
    checked_policy = as_policy(mdp, policy, labels)
    evaluation = evaluate_against(solution, checked_policy, guess=solution.get_raw("value"))
    plan = solution.policy_plan
    weights = None
    if start is not None or mdp.start is not None:
        weights = start_distribution(mdp, start, checked_policy, plan)
    comparison = BlockComparison(solution, evaluation, checked_policy, plan, partition)
    return summarise_blocks(comparison, solution, weights, tol)


def summarise_blocks(
    comparison: BlockComparison, solution: Solution, weights: NDArray | None, tol: float | None
) -> BlockCertificate:
    """The figures of a policy, block by block; ``weights`` (S,) are those of the start."""
    mdp = comparison.mdp
    proven_errors = _prove_errors(comparison)
    totals = _FigureTotals(
        mdp, proven_errors, solution, weights, proven_errors.tie if tol is None else float(tol)
    )
    for block in comparison:
        totals.add(block)
    return BlockCertificate(
        optimal_value_error=proven_errors.value_error,
        policy_value_error=proven_errors.policy_value_error,
        tolerance=totals.tolerance,
        slabs=comparison.n_blocks,
        **BlockCertificate.identify(mdp, comparison.policy),
        **totals.compute_figures(),
    )


@dataclass(frozen=True)
class _ProvenErrors:
    """What the first pass over the blocks finds."""

    value_error: float  # of V
    policy_value_error: float  # of U, the policy's
    tie: float  # what these and rounding could overturn
    max_loss: float  # no loss is larger
    max_size: float  # |V| + |U| at most


def _prove_errors(comparison: BlockComparison) -> _ProvenErrors:
    engine = comparison.engine
    model_data = engine.build_data(None, None)
    residuals = np.zeros(2)
    max_local_loss = 0.0
    max_margin = 0.0
    min_margin = np.inf
    for block in comparison:
        residuals_here = block.residuals
        pair = residuals_here.residual, residuals_here.policy_residual
        residuals = np.maximum(residuals, [np.abs(array).max() for array in pair])
        max_local_loss = max(max_local_loss, residuals_here.local_loss.max())
        min_margin = min(min_margin, residuals_here.margin.min())
        max_margin = max(
            max_margin,
            np.max(residuals_here.margin, initial=0, where=np.isfinite(residuals_here.margin)),
        )

    def bound_value_error(residual: float, value_range: ValueRange) -> float:
        extra = engine.saved_backup_error(value_range.as_array)
        max_deviation = float(np.abs(value_range.as_array - value_range.shift).max())
        eta = comparison.rounding(value_range) + extra + EPS * max_deviation
        bound = float(model_data.criterion.bound_error((1 + EPS) * residual + eta))
        return bound * engine.contraction_gap / engine.saved_contraction_gap

    optimal_range, policy_range = comparison.value_ranges
    value_error = bound_value_error(float(residuals[0]), optimal_range)
    eta = comparison.rounding(optimal_range) + engine.saved_backup_error(optimal_range.as_array)
    tie = compute_tie(float(model_data.criterion.contraction_factor) * value_error, eta)
    # The row sums of a file may differ by rounding, and differences round once more.
    tie = tie * (1 + 2 * float(model_data.accuracy.relative_rounding)) + 16 * EPS * max(
        max_margin, max_local_loss
    )
    tie = float(tie)
    loses_nothing = max_local_loss == 0 and min_margin > tie
    max_loss = 0.0 if loses_nothing else float(max_local_loss + tie) / engine.saved_contraction_gap
    max_size = float(np.abs(optimal_range.as_array).max() + np.abs(policy_range.as_array).max())
    return _ProvenErrors(
        value_error, bound_value_error(float(residuals[1]), policy_range), tie, max_loss, max_size
    )


class _IntervalSum:
    """``sum_s w_s x_s`` in the making, for weights that are not negative and x in a band."""

    def __init__(self) -> None:
        self.totals = np.zeros(3)
        self.magnitude = 0.0
        self.largest_block = 0
        self.n_blocks = 0

    def add(self, weights: NDArray | float, intervals: IntervalArray) -> None:
        arrays = intervals.value, intervals.lower, intervals.upper
        self.totals = self.totals + [float(np.sum(weights * array)) for array in arrays]
        self.magnitude += sum(float(np.sum(weights * np.abs(array))) for array in arrays[1:])
        self.largest_block = max(self.largest_block, intervals.value.size)
        self.n_blocks = self.n_blocks + 1

    @property
    def enclosed(self) -> Interval:
        # Products and sums within a block, then one sum over blocks: whatever their order.
        slack = (self.largest_block + self.n_blocks + 8) * EPS * self.magnitude
        value, lower, upper = self.totals
        return Interval(value, lower - slack, upper + slack)


class _FigureTotals:
    """All figures in the making."""

    def __init__(
        self,
        mdp: MDP,
        proven_errors: _ProvenErrors,
        solution: Solution,
        weights: NDArray | None,
        tolerance: float,
    ) -> None:
        self.mdp = mdp
        self.proven_errors = proven_errors
        self.solution = solution
        self.optimal: Policy = solution.policy
        self.weights = None if weights is None else weights.reshape(mdp.grid.shape)
        self.tolerance = tolerance
        self.loss_error = (proven_errors.value_error + proven_errors.policy_value_error) * (
            1 + 4 * EPS
        ) + 2 * EPS * proven_errors.max_size
        self.loss_sum = _IntervalSum()
        self.local_loss_sum = _IntervalSum()
        self.optimal_value_sum = _IntervalSum()
        self.policy_value_sum = _IntervalSum()
        self.differing_counts = np.zeros(3, dtype=int)
        self.costly_counts = np.zeros(3, dtype=int)
        self.worst_loss = np.array([-np.inf] * 3)
        self.worst_state = 0

    def add(self, block: ComparedBlock) -> None:
        x = block.residuals.local_loss
        margin = block.residuals.margin
        tie = self.proven_errors.tie
        is_optimal = (margin > tie) & (x == 0)
        is_wrong = x > tie
        # One action is surely the best there, and x is 0 where the policy takes it.
        differs = np.where(margin > tie, x > 0, block.actions != self.optimal.table[block.index])
        local_losses = IntervalArray(
            x, np.maximum(x - tie, 0.0), np.where(is_optimal, 0.0, x + tie)
        )
        self.differing_counts += [int(mask.sum()) for mask in (differs, is_wrong, ~is_optimal)]
        for i, mask in enumerate((local_losses.value, local_losses.lower, local_losses.upper)):
            self.costly_counts[i] += int((mask > self.tolerance).sum())
        self._add_losses(block, local_losses)
        self.local_loss_sum.add(1 / self.mdp.n_states, local_losses)

    def _add_losses(self, block: ComparedBlock, local_losses: IntervalArray) -> None:
        difference = block.value - block.policy_value
        proven_errors = self.proven_errors
        lower = np.maximum(difference - self.loss_error, local_losses.lower)
        upper = np.minimum(difference + self.loss_error, proven_errors.max_loss)
        if (lower > upper).any():
            raise ArithmeticError("internal error: the two loss enclosures do not intersect")
        losses = IntervalArray(np.clip(difference, lower, upper), lower, upper)
        maxima = [float(array.max()) for array in (losses.value, lower, upper)]
        if maxima[0] > self.worst_loss[0]:
            position = np.unravel_index(int(losses.value.argmax()), losses.value.shape)
            block_start = [axis_slice.start or 0 for axis_slice in block.index]
            block_start += [0] * (len(position) - len(block_start))
            index = tuple(int(i) + first for i, first in zip(position, block_start, strict=True))
            self.worst_state = int(np.ravel_multi_index(index, self.mdp.grid.shape))
        self.worst_loss = np.maximum(self.worst_loss, maxima)
        weights = 1 / self.mdp.n_states if self.weights is None else self.weights[block.index]
        self.loss_sum.add(weights, losses)
        values = (
            (block.value, self.optimal_value_sum, proven_errors.value_error),
            (
                block.policy_value,
                self.policy_value_sum,
                proven_errors.policy_value_error,
            ),
        )
        for value, value_sum, error in values:
            value_sum.add(weights, IntervalArray(value.copy(), value - error, value + error))

    def compute_figures(self) -> dict[str, Any]:
        mean_loss = self.loss_sum.enclosed
        optimal_mean = self.optimal_value_sum.enclosed
        return {
            "mean_loss": mean_loss,
            "relative_loss": mean_loss.divide(optimal_mean),
            "worst_loss": Interval(*self.worst_loss),
            "worst_state": self.worst_state,
            "policy_error": self._enclose_state_share(self.differing_counts),
            "costly_error": self._enclose_state_share(self.costly_counts),
            "value_gap": self.local_loss_sum.enclosed.scale(
                self.mdp.criterion.value_of_constant_reward(1)
            ),
            "optimal_mean": optimal_mean,
            "policy_mean": self.policy_value_sum.enclosed,
        }

    def _enclose_state_share(self, counts: NDArray) -> Interval:
        value, lower, upper = (int(count) / self.mdp.n_states for count in counts)
        return Interval(value, next_down(lower), next_up(upper))
