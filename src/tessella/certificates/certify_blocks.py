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
from tessella.certificates.decisions import (
    bound_loss_error,
    enclose_decisions,
    enclose_losses,
    widen_tie_tolerance,
)
from tessella.certificates.interval import EPS, Interval, IntervalArray, enclose_share
from tessella.certificates.loss import evaluate_to_optimum_accuracy, prepare_for_certificate
from tessella.criteria.criterion import require_criterion
from tessella.criteria.discounted import Discounted
from tessella.mdp.policy import Policy
from tessella.mdp.stages.partition import partition_by_size
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.block_residuals import (
    BLOCK_STATES,
    BlockComparison,
    ComparedBlock,
    ValueRange,
)
from tessella.solvers.bounds import compute_tie_tolerance
from tessella.solvers.solution import Solution


def certify_in_blocks(
    solution: Solution,
    policy: Policy,
    start: Start = None,
    *,
    tol: float | None = None,
    block_states: int = BLOCK_STATES,
) -> BlockCertificate:
    """What ``policy`` loses against the optimum of a very large model of stages.

    Args:
        start, tol: as for ``certify``.
        block_states: states of a block, about.
    """
    mdp = solution.mdp
    require_criterion("a certificate in blocks", mdp.criterion, Discounted)
    partition = partition_by_size(mdp.dynamics, block_states)
    evaluation = evaluate_to_optimum_accuracy(
        prepare_for_certificate(solution), solution.get_raw("value"), policy
    )
    plan = solution.policy_plan
    weights = None
    if start is not None or mdp.start is not None:
        weights = start_distribution(mdp, start, policy, plan)
    comparison = BlockComparison(solution, evaluation, policy, plan, partition)
    return summarise_blocks(comparison, solution, weights, tol)


def summarise_blocks(
    comparison: BlockComparison, solution: Solution, weights: NDArray | None, tol: float | None
) -> BlockCertificate:
    """The figures of a policy, block by block; ``weights`` (S,) are those of the start."""
    proven_errors = _prove_errors(comparison)
    tolerance = proven_errors.tie_tolerance if tol is None else float(tol)
    totals = _FigureTotals(proven_errors, solution, weights, tolerance)
    for block in comparison:
        totals.add(block)
    return BlockCertificate(
        optimal_value_error=proven_errors.value_error,
        policy_value_error=proven_errors.policy_value_error,
        tolerance=tolerance,
        blocks=len(comparison.partition.blocks),
        **BlockCertificate.identify(solution.mdp, comparison.policy),
        **totals.compute_figures(),
    )


@dataclass(frozen=True)
class _ProvenErrors:
    """What the first pass over the blocks finds."""

    value_error: float  # of V
    policy_value_error: float  # of U, the policy's
    tie_tolerance: float  # what these and rounding could overturn
    max_loss: float  # no loss is larger
    max_size: float  # |V| + |U| at most


def _prove_errors(comparison: BlockComparison) -> _ProvenErrors:
    prepared = comparison.prepared
    model_data = prepared.build_data(None, None)
    residuals = np.zeros(2)
    max_local_loss = 0.0
    max_margin = 0.0
    min_margin = np.inf
    for block in comparison:
        residual, policy_residual, margin, local_loss = block.residuals
        block_maxima = np.abs(residual).max(), np.abs(policy_residual).max()
        residuals = np.maximum(residuals, block_maxima)
        max_local_loss = max(max_local_loss, local_loss.max())
        min_margin = min(min_margin, margin.min())
        max_margin = np.max(margin, initial=max_margin, where=np.isfinite(margin))

    def bound_value_error(residual: float, value_range: ValueRange) -> float:
        extra_error = prepared.saved_backup_error(value_range.ends)
        max_deviation = float(np.abs(value_range.ends - value_range.shift).max())
        eta = comparison.bound_rounding(value_range) + extra_error + EPS * max_deviation
        bound = float(model_data.criterion.bound_error((1 + EPS) * residual + eta))
        return bound * prepared.contraction_gap / prepared.saved_contraction_gap

    optimal_range, policy_range = comparison.value_ranges
    value_error = bound_value_error(float(residuals[0]), optimal_range)
    eta = comparison.bound_rounding(optimal_range) + prepared.saved_backup_error(optimal_range.ends)
    tie_tolerance = compute_tie_tolerance(
        float(model_data.criterion.contraction_factor) * value_error, eta
    )
    tie_tolerance = float(
        widen_tie_tolerance(model_data, tie_tolerance, max(max_margin, max_local_loss))
    )
    loses_nothing = max_local_loss == 0 and min_margin > tie_tolerance
    max_loss = (
        0.0
        if loses_nothing
        else float(max_local_loss + tie_tolerance) / prepared.saved_contraction_gap
    )
    max_size = float(np.abs(optimal_range.ends).max() + np.abs(policy_range.ends).max())
    return _ProvenErrors(
        value_error,
        bound_value_error(float(residuals[1]), policy_range),
        tie_tolerance,
        max_loss,
        max_size,
    )


class _IntervalSum:
    """``sum_s w_s x_s`` accumulated over blocks, for weights w >= 0 and intervals x."""

    def __init__(self) -> None:
        self.totals = np.zeros(3)
        self.magnitude = 0.0
        self.largest_block = 0
        self.n_blocks = 0

    def add(self, weights: NDArray | float, intervals: IntervalArray) -> None:
        ends = intervals.lower, intervals.upper
        self.totals = self.totals + [float(np.sum(weights * array)) for array in intervals.parts]
        self.magnitude += sum(float(np.sum(weights * np.abs(array))) for array in ends)
        self.largest_block = max(self.largest_block, intervals.value.size)
        self.n_blocks = self.n_blocks + 1

    @property
    def enclosed(self) -> Interval:
        # Products and sums within a block, then one sum over blocks: whatever their order.
        slack = (self.largest_block + self.n_blocks + 8) * EPS * self.magnitude
        value, lower, upper = self.totals
        return Interval(value, lower - slack, upper + slack)


class _FigureTotals:
    """All figures of a certificate, accumulated over blocks."""

    def __init__(
        self,
        proven_errors: _ProvenErrors,
        solution: Solution,
        weights: NDArray | None,
        tolerance: float,
    ) -> None:
        self.mdp = solution.mdp
        self.proven_errors = proven_errors
        self.optimal = solution.policy
        self.weights = None if weights is None else weights.reshape(self.mdp.grid.shape)
        self.tolerance = tolerance
        self.loss_error = bound_loss_error(
            proven_errors.value_error, proven_errors.policy_value_error, proven_errors.max_size
        )
        self.loss_sum = _IntervalSum()
        self.local_loss_sum = _IntervalSum()
        self.optimal_value_sum = _IntervalSum()
        self.policy_value_sum = _IntervalSum()
        self.differing_counts = np.zeros(3, dtype=int)
        self.costly_counts = np.zeros(3, dtype=int)
        self.worst_loss = np.array([-np.inf] * 3)
        self.worst_state = 0

    def add(self, block: ComparedBlock) -> None:
        local_loss = block.residuals.local_loss
        margin = block.residuals.margin
        proven = self.proven_errors
        optimal = self.optimal.table[block.index]
        # Where the best action is certain, the policy takes it if its local loss is 0.
        differs = np.where(margin > proven.tie_tolerance, local_loss > 0, block.actions != optimal)
        decisions = enclose_decisions(local_loss, margin, proven.tie_tolerance, optimal, differs)
        self.differing_counts += decisions.count_differences()
        self.costly_counts += decisions.count_costly(self.tolerance)
        self.local_loss_sum.add(1 / self.mdp.n_states, decisions.local_losses)
        losses = enclose_losses(
            block.value,
            block.policy_value,
            self.loss_error,
            decisions.local_losses,
            proven.max_loss,
        )
        self._find_worst(block, losses)
        weights = 1 / self.mdp.n_states if self.weights is None else self.weights[block.index]
        self.loss_sum.add(weights, losses)
        values = IntervalArray.from_error(block.value.copy(), proven.value_error)
        self.optimal_value_sum.add(weights, values)
        values = IntervalArray.from_error(block.policy_value.copy(), proven.policy_value_error)
        self.policy_value_sum.add(weights, values)

    def _find_worst(self, block: ComparedBlock, losses: IntervalArray) -> None:
        maxima = [float(array.max()) for array in losses.parts]
        if maxima[0] > self.worst_loss[0]:
            position = np.unravel_index(int(losses.value.argmax()), losses.value.shape)
            block_start = [axis_slice.start or 0 for axis_slice in block.index]
            block_start += [0] * (len(position) - len(block_start))
            index = tuple(int(i) + first for i, first in zip(position, block_start, strict=True))
            self.worst_state = int(np.ravel_multi_index(index, self.mdp.grid.shape))
        self.worst_loss = np.maximum(self.worst_loss, maxima)

    def compute_figures(self) -> dict[str, Any]:
        mean_loss = self.loss_sum.enclosed
        optimal_mean = self.optimal_value_sum.enclosed
        value_of_one = self.mdp.criterion.value_of_constant_reward(1)
        return {
            "mean_loss": mean_loss,
            "relative_loss": mean_loss.divide(optimal_mean),
            "worst_loss": Interval(*self.worst_loss),
            "worst_state": self.worst_state,
            "policy_error": enclose_share(self.differing_counts, self.mdp.n_states),
            "costly_error": enclose_share(self.costly_counts, self.mdp.n_states),
            "value_gap": self.local_loss_sum.enclosed.scale(value_of_one),
            "optimal_mean": optimal_mean,
            "policy_mean": self.policy_value_sum.enclosed,
        }
