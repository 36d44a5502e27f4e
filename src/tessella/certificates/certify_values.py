"""The certificate of values that are sums of rewards: the whole grid, or block by block.

The errors of V and V_pi are those that their own residuals prove, whatever the solution says of
itself: e = r / (1 - c), with r widened by all rounding, that of writing the model to a file
included. So anyone with the file can find them again. The loss L = V* - V_pi of each state is then
enclosed by these errors and by the local losses l >= 0 (``decisions``). On the whole grid its mean
is enclosed once more, by the occupancy d of the policy:

    sum_s mu(s) L(s) = sum_s d(s) l(s) / (1 - discount);

in particular L = 0 exactly when every choice is surely optimal, however coarse the solution.

In blocks, the figures that are one number each come by the same arithmetic out of two passes
(``solvers.blocks``): the first finds what the residuals prove, the second adds up. No array
is larger than a block but the two values and the policy. Nothing has a number for every state, and
the interval of the mean loss may be a little wider without the occupancy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate, StateValues, ValueFigures
from tessella.certificates.decisions import (
    Decisions,
    bound_loss_error,
    enclose_decisions,
    enclose_losses,
)
from tessella.certificates.interval import (
    EPS,
    Interval,
    IntervalArray,
    IntervalSum,
    enclose_share,
    next_up,
)
from tessella.certificates.loss import (
    evaluate_to_optimum_accuracy,
    get_finite_value,
    prepare_for_certificate,
)
from tessella.certificates.loss_bounds import compute_loss_bounds, decompose, weigh_by_occupancy
from tessella.criteria.criterion import require_criterion
from tessella.errors import ModelError
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.partition import partition_by_size
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.blocks import BLOCK_STATES, BlockComparison, ComparedBlock, compare_whole
from tessella.solvers.bounds import compute_tie_tolerance
from tessella.solvers.operators import ModelData, max_abs
from tessella.solvers.policy_evaluation import Occupancy, compute_prepared_occupancy
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.solution import Solution

# The occupancy carries the decomposition and the bounds, not the loss.
OCCUPANCY_FINEST_TOLERANCE = 1e-9  # sum of the occupancy's errors
OCCUPANCY_COARSEST_TOLERANCE = 1e-6  # sum of the occupancy's errors
DECOMPOSITION_RELATIVE_ACCURACY = 1e-4  # of the mean loss: accuracy of its parts in large models


@dataclass(frozen=True)
class ProvenErrors:
    """What residuals prove of V and of V_pi."""

    value_error: float
    policy_value_error: float
    tie_tolerance: float  # what these and rounding could overturn
    max_loss: float  # no loss is larger
    max_size: float  # |V| + |V_pi| at most


def _prove_errors(prepared: PreparedModel, blocks: Iterable[ComparedBlock]) -> ProvenErrors:
    sizes = np.zeros((3, 2))  # |residual|, what that is off by, and |value|: of V and of U, at most
    eta = 0.0
    max_local_loss = 0.0
    max_margin = 0.0
    min_margin = np.inf
    for block in blocks:
        residuals = max_abs(block.residual), max_abs(block.policy_residual)
        errors = block.residual_error, block.policy_residual_error
        values = max_abs(block.value), max_abs(block.policy_value)
        sizes = np.maximum(sizes, [residuals, errors, values])
        eta = max(eta, block.action_value_error)
        max_local_loss = max(max_local_loss, float(block.local_loss.max()))
        min_margin = min(min_margin, float(block.margin.min()))
        max_margin = np.max(block.margin, initial=max_margin, where=np.isfinite(block.margin))
    model_data = prepared.build_data(None, None)  # the numbers of the model, without arrays
    value_error, policy_value_error = _bound_value_errors(prepared, model_data, sizes)
    eta += prepared.saved_backup_error(sizes[2, 0])
    carried_error = float(model_data.criterion.contraction_factor) * value_error
    # The row sums of a file may differ by rounding, and differences round once more.
    tie_tolerance = compute_tie_tolerance(carried_error, eta)
    tie_tolerance *= 1 + 2 * float(model_data.accuracy.relative_rounding)
    tie_tolerance += 16 * EPS * max(float(max_margin), max_local_loss)
    max_loss = (max_local_loss + tie_tolerance) / prepared.saved_contraction_gap
    if max_local_loss == 0 and min_margin > tie_tolerance:  # it surely loses nothing
        max_loss = 0.0
    max_size = float(sizes[2].sum())
    return ProvenErrors(value_error, policy_value_error, tie_tolerance, max_loss, max_size)


def _bound_value_errors(
    prepared: PreparedModel, model_data: ModelData, sizes: NDArray[np.float64]
) -> tuple[float, float]:
    """Bounds on the errors of V and of U in every state, from ``sizes`` in ``_prove_errors``."""
    residual, error, value = sizes
    error = error + [prepared.saved_backup_error(size) for size in value]
    bound = model_data.criterion.bound_error((1 + EPS) * residual + error)
    bound = bound * prepared.contraction_gap / prepared.saved_contraction_gap
    return float(bound[0]), float(bound[1])


class FigureSums:
    """The figures of a certificate, added up over blocks of states; the whole grid is one block."""

    def __init__(self, mdp: MDP, proven: ProvenErrors, tol: float | None) -> None:
        self.mdp = mdp
        self.proven = proven
        self.tolerance = proven.tie_tolerance if tol is None else float(tol)
        self.losses = IntervalSum()
        self.local_losses = IntervalSum()
        self.optimal_values = IntervalSum()
        self.policy_values = IntervalSum()
        # States whose action differs, or is a costly error: as computed, surely, and at most.
        self.differing_counts = np.zeros(3, dtype=int)
        self.costly_counts = np.zeros(3, dtype=int)
        self.worst_loss = np.array([-np.inf] * 3)
        self.worst_state = 0

    def add(
        self, block: ComparedBlock, decisions: Decisions, weights: NDArray | None
    ) -> IntervalArray:
        """Add the states of a block, all else in their shape; returns their losses.

        ``weights`` are those of the start; None for a uniform one.
        """
        proven = self.proven
        value = block.value
        policy_value = block.policy_value
        uniform_weights = np.full(value.shape, 1 / self.mdp.n_states)
        weights = uniform_weights if weights is None else weights
        error = bound_loss_error(proven.value_error, proven.policy_value_error, proven.max_size)
        losses = enclose_losses(value, policy_value, error, decisions.local_losses, proven.max_loss)
        self.losses.add(weights, losses)
        self.local_losses.add(uniform_weights, decisions.local_losses)
        self.optimal_values.add(weights, IntervalArray.from_error(value, proven.value_error))
        self.policy_values.add(
            weights, IntervalArray.from_error(policy_value, proven.policy_value_error)
        )
        masks = decisions.differs, decisions.wrong, decisions.possibly_wrong
        self.differing_counts += [int(mask.sum()) for mask in masks]
        losses_by_end = decisions.local_losses.parts
        self.costly_counts += [int((array > self.tolerance).sum()) for array in losses_by_end]
        self._find_worst(block.index, losses)
        return losses

    def _find_worst(self, index: tuple[slice, ...], losses: IntervalArray) -> None:
        maxima = [float(array.max()) for array in losses.parts]
        if maxima[0] > self.worst_loss[0]:
            position = list(np.unravel_index(int(losses.value.argmax()), losses.value.shape))
            for axis, axis_slice in enumerate(index):
                position[axis] += axis_slice.start or 0
            self.worst_state = int(np.ravel_multi_index(position, self.mdp.grid.shape))
        self.worst_loss = np.maximum(self.worst_loss, maxima)

    def make_certificate(self, policy: Policy, mean_loss: Interval, **parts: Any) -> Certificate:
        n_states = self.mdp.n_states
        optimal_mean = self.optimal_values.enclose()
        value_of_one = self.mdp.criterion.value_of_constant_reward(1)
        return Certificate(
            optimal_mean=optimal_mean,
            policy_mean=self.policy_values.enclose(),
            mean_loss=mean_loss,
            worst_loss=Interval(*self.worst_loss.tolist()),
            relative_loss=mean_loss.divide(optimal_mean),
            figures=ValueFigures(
                optimal_value_error=self.proven.value_error,
                policy_value_error=self.proven.policy_value_error,
                tolerance=self.tolerance,
                policy_error=enclose_share(self.differing_counts, n_states),
                costly_error=enclose_share(self.costly_counts, n_states),
                value_gap=self.local_losses.enclose().scale(value_of_one),
                worst_state=self.worst_state,
            ),
            **parts,
            **Certificate.identify(self.mdp, policy),
        )


# The whole grid.


def certify_whole(
    solution: Solution,
    policy: Policy,
    start: NDArray,
    eps: float | None = None,
    tol: float | None = None,
) -> Certificate:
    """What ``policy`` loses from ``start`` (grid), with all that has a number for every state."""
    mdp = solution.mdp
    prepared = prepare_for_certificate(solution)
    if not prepared.saved_contraction_gap > 0:
        raise ModelError(f"{mdp.criterion} is too near 1 for a certificate of this model")
    value = get_finite_value(solution)
    policy_value = evaluate_to_optimum_accuracy(prepared, value, policy).value
    block = compare_whole(prepared, value, policy_value, policy)
    proven = _prove_errors(prepared, [block])
    sums = FigureSums(mdp, proven, tol)
    decisions = enclose_decisions(block, solution.policy.table, proven.tie_tolerance)
    losses = sums.add(block, decisions, start)
    mean_loss = sums.losses.enclose()
    occupancy = _compute_occupancy(prepared, policy, start, mean_loss, decisions.local_losses)
    occupancy_loss = weigh_by_occupancy(occupancy, decisions.local_losses)
    return sums.make_certificate(
        policy,
        mean_loss.intersect(occupancy_loss, "the mean loss"),
        start=start,
        values=StateValues(value, policy_value, losses),
        decisions=decisions.stated,
        decomposition=decompose(
            decisions.optimal, policy.table, mdp.n_actions, decisions.local_losses, occupancy
        ),
        bounds=compute_loss_bounds(
            decisions, occupancy, _bound_reward(mdp), prepared.saved_contraction_gap, eps
        ),
    )


def _compute_occupancy(
    prepared: PreparedModel,
    policy: Policy,
    start: NDArray[np.float64],
    mean_loss: float,
    local_losses: IntervalArray,
) -> Occupancy:
    """The occupancy; for a large model only as accurate as the decomposition needs."""
    mdp = prepared.mdp
    tolerance = OCCUPANCY_FINEST_TOLERANCE
    if mdp.n_states > prepared.plan.thresholds.large_min_states:
        max_loss = mdp.criterion.value_of_constant_reward(float(local_losses.upper.max()))
        tolerance = OCCUPANCY_COARSEST_TOLERANCE
        if max_loss > 0:
            tolerance = DECOMPOSITION_RELATIVE_ACCURACY * mean_loss / max_loss
    tolerance = min(max(tolerance, OCCUPANCY_FINEST_TOLERANCE), OCCUPANCY_COARSEST_TOLERANCE)
    result = compute_prepared_occupancy(prepared, policy, start, tolerance)
    return replace(
        result,
        error_bound=result.error_bound * prepared.contraction_gap / prepared.saved_contraction_gap,
    )


def _bound_reward(mdp: MDP) -> float:
    """R, the largest |r(s, a)| over feasible pairs, rounded up."""
    largest = 0.0
    for action in range(mdp.n_actions):
        reward = np.abs(mdp.dynamics.action_reward(action))
        if mdp.feasible is not None:
            reward = reward[mdp.feasible[:, action]]
        largest = max(largest, float(reward.max(initial=0.0)))
    rounding = EPS * mdp.dynamics.rounding.backup_terms * mdp.dynamics.reward_scale
    return next_up(
        (largest + rounding + 2 * mdp.dynamics.rounding.in_file.reward_error) * (1 + 4 * EPS)
    )


# Block by block.


def certify_in_blocks(
    solution: Solution,
    policy: Policy,
    start: Start = None,
    tol: float | None = None,
    block_states: int = BLOCK_STATES,
) -> Certificate:
    """What ``policy`` loses on a model of stages, in blocks of about that many states."""
    mdp = solution.mdp
    require_criterion("a certificate in blocks", mdp.criterion, "is_discounted")
    partition = partition_by_size(mdp.dynamics, block_states)
    evaluation = evaluate_to_optimum_accuracy(
        prepare_for_certificate(solution), solution.get_raw("value"), policy
    )
    plan = solution.policy_plan
    weights = None
    if start is not None or mdp.start is not None:
        weights = start_distribution(mdp, start, policy, plan).reshape(mdp.grid.shape)
    comparison = BlockComparison(solution, evaluation, policy, plan, partition)
    return sum_blocks(comparison, solution, weights, tol)


def sum_blocks(
    comparison: BlockComparison, solution: Solution, weights: NDArray | None, tol: float | None
) -> Certificate:
    """The certificate out of all blocks; ``weights`` (grid) of the start, None if uniform."""
    proven = _prove_errors(comparison.prepared, comparison)
    sums = FigureSums(solution.mdp, proven, tol)
    for block in comparison:
        optimal_table = solution.policy.table[block.index]
        decisions = enclose_decisions(block, optimal_table, proven.tie_tolerance)
        sums.add(block, decisions, None if weights is None else weights[block.index])
    return sums.make_certificate(
        comparison.policy, sums.losses.enclose(), blocks=len(comparison.partition.blocks)
    )
