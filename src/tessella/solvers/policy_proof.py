"""Comparisons of actions, bounded slice by slice: a policy is proven long before its values.

Let z be the exogenous axes of a model, K their matrix (``mdp.exogenous``) and x all others. A slice
holds the states of one z. For any v let d = T v - v, osc(z) = max_x d - min_x d in a slice, and

    w >= osc + s + discount K w,        s = 2 discount error max|d| / (1 - c).

Then for all actions a, b of a state in slice z

    | [Q*(a) - Q*(b)] - [Q_v(a) - Q_v(b)] |  <=  discount (K w)(z) + s.

Proof. With v_0 = v, v_(j+1) = T v_j and d_j = v_(j+1) - v_j, d_(j+1)(x, z) lies between the least
and the largest discount P_a d_j, and so, for any x and a, between discount sum_z' K(z, z') [min,
max] of d_j over slice z', off by discount error max|d_j|, where max|d_j| <= c^j max|d|. Summed
over j, the spans of V* - v within slices are at most W <= osc + s + discount K W. I - discount K
is an M-matrix, so W <= w. Two actions of one state lead to the same law of z': one more K.

Rounding: d is known within eta, so 2 eta is added to osc. A computed w need not satisfy its
inequality; a constant t / (1 - |discount K|) makes up for a violation of at most t.

Without exogenous axes all states are one slice, K = 1: the span of d. Where a process can end, the
end is one more state of it, with d = 0.

``prove_policy`` iterates until every action leads by more than this bound, or the bound is what
rounding leaves: by plain sweeps, or by the plan's method where that works in single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.compilation import compile_per_shape, in_float64
from tessella.mdp.exogenous import Exogenous
from tessella.rounding import EPS, OUTWARD_FACTOR, round_up
from tessella.solvers.bounds import GreedyPolicy, decide, find_best_two, subtract_shift
from tessella.solvers.iteration import (
    IterationBatch,
    IterationState,
    make_initial_state,
    run_iterations,
)
from tessella.solvers.loop import USEFUL_REWARD_FRACTION, Callback, RunLog
from tessella.solvers.method import Method
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.policy_iteration import ValueIteration, count_steps_left
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result, Status, make_run_result

if TYPE_CHECKING:
    import scipy.sparse as sp

FIRST_SWEEPS = 4  # sweeps before the first bound; later a quarter of all sweeps so far
MAX_SWEEPS_PER_CHECK = 100  # sweeps between two bounds, at most
# A bound within this multiple of what rounding leaves: what is then undecided is tied.
ROUNDING_MULTIPLE = 1.5
# The end computes margins again, by other code: until then they must be larger by this factor.
MARGIN_FACTOR = 1 + 1e-6


@dataclass(frozen=True, eq=False)
class ExogenousSlices:
    """The slices of a model, with what bounds comparisons within them."""

    axes: tuple[int, ...]  # the exogenous axes
    shape: tuple[int, ...]  # of an array over slices, of length one along all other axes
    matrix: sp.csr_array  # (Z, Z) discount K
    error: float  # discount times the error of K
    gap: float  # 1 - c
    includes_end: bool  # whether the process can end, which all states share
    is_dense: bool  # whether the matrix is factorised as dense

    @staticmethod
    def build(prepared: PreparedModel) -> ExogenousSlices:
        """The slices of the exogenous axes; one of all states where there are none."""
        import scipy.sparse as sp

        mdp = prepared.mdp
        exogenous = mdp.exogenous
        includes_end = False
        if exogenous is None:
            sums = prepared.row_sum_bounds
            includes_end = not prepared.data.criterion.use_shift  # rows may sum to less than 1
            error = max(sums.excess, 0.0) if includes_end else sums.deviation
            exogenous = Exogenous((), (), (), sp.csr_array(np.eye(1)), error)
        lengths = enumerate(mdp.grid.shape)
        matrix = sp.csr_array(mdp.discount * exogenous.matrix)
        share = matrix.nnz / (len(matrix.indptr) - 1) ** 2
        return ExogenousSlices(
            exogenous.axes,
            tuple(n if axis in exogenous.axes else 1 for axis, n in lengths),
            matrix,
            mdp.discount * (exogenous.error + 2 * EPS),
            prepared.contraction_gap,
            includes_end,
            share > prepared.plan.thresholds.dense_exogenous_share,
        )

    def bound_comparisons(self, low: NDArray, high: NDArray, error: float) -> NDArray[np.float64]:
        """(slices) by how much a difference of two action values may be off.

        ``low`` and ``high`` (slices) enclose T v - v, each off by at most ``error``.
        """
        if self.includes_end:
            low = np.minimum(low, 0.0)
            high = np.maximum(high, 0.0)
        size = float(np.maximum(np.abs(low), np.abs(high)).max()) * (1 + EPS) + error
        extra = 2 * self.error * size / self.gap * OUTWARD_FACTOR
        rhs = ((high - low) * (1 + 4 * EPS) + 2 * error + extra).ravel()
        w = self._solve(rhs)
        unit = EPS * (int(np.diff(self.matrix.indptr).max()) + 4)
        product = self.matrix @ w
        missing = rhs + product - w + unit * (rhs + np.abs(product) + np.abs(w))
        row_sum = float(self.matrix.sum(axis=1).max()) * (1 + unit)
        if not (np.isfinite(w).all() and row_sum < 1):
            return np.full(self.shape, np.inf)
        w = w + max(float(missing.max()), 0.0) / (1 - row_sum) * OUTWARD_FACTOR
        return ((self.matrix @ w + extra) * (1 + unit) * OUTWARD_FACTOR).reshape(self.shape)

    def bound_point(self, point: SlicedPoint) -> NDArray[np.float64]:
        """(slices) the same at a point."""
        low, high = np.asarray(point.low), np.asarray(point.high)
        return self.bound_comparisons(low, high, float(point.backup_error))

    @cached_property
    def _solve(self) -> Callable[[NDArray], NDArray[np.float64]]:
        """rhs -> about the solution of (I - discount K) w = rhs, factorised once."""
        from scipy import linalg, sparse
        from scipy.sparse.linalg import splu

        n = len(self.matrix.indptr) - 1
        if self.is_dense:
            return partial(linalg.lu_solve, linalg.lu_factor(np.eye(n) - self.matrix.toarray()))
        return splu(sparse.csc_array(sparse.eye_array(n) - self.matrix)).solve


class SlicedPoint(NamedTuple):
    """What the backup of a point v says of each slice."""

    low: Any  # (slices) the least T v - v
    high: Any  # (slices) the largest T v - v
    margin: Any  # (slices) the least margin of an action
    backup_error: Any  # of T v
    action_value_error: Any


@compile_per_shape("axes")
def measure_slices(axes: tuple[int, ...], operators: Operators, value) -> SlicedPoint:
    """Back up ``value``, and look at its slices along ``axes``."""
    operators, v, shift = subtract_shift(operators, value)
    best, second = find_best_two(operators.backend, operators.q(v), v)
    others = tuple(axis for axis in range(v.ndim) if axis not in axes)
    return SlicedPoint(
        (best - v).min(axis=others, keepdims=True),
        (best - v).max(axis=others, keepdims=True),
        (best - second).min(axis=others, keepdims=True),
        operators.bound_rounding(v, shift, best),
        operators.bound_rounding(v, shift),
    )


@in_float64
def decide_by_slices(prepared: PreparedModel, value: Any, bound: float) -> GreedyPolicy:
    """The decision at ``value``, with bounds by slices where they could separate more actions."""
    decision = decide(prepared, value, bound)
    mdp = prepared.mdp
    if not mdp.criterion.is_discounted or prepared.shard_layout is not None:
        return decision
    value_part = 2 * float(prepared.data.criterion.contraction_factor) * bound
    # Rounding alone leaves the rest undecided.
    is_undecided = (decision.margin > decision.tie_tolerance - value_part) & (
        decision.margin <= decision.tie_tolerance
    )
    if not bool(is_undecided.any()) or mdp.exogenous is None:
        return decision
    slices = ExogenousSlices.build(prepared)
    point = prepared.from_result(value)
    measured = measure_slices(slices.axes, prepared.make_operators(), point)
    return decide(prepared, value, bound, slices.bound_point(measured))


class PolicyProof(NamedTuple):
    """A run that ended because its actions are decided, or tied within rounding."""

    result: Result
    decision: GreedyPolicy
    has_values: bool  # whether its values are as accurate as they can be
    method: str  # name of the method that took the steps


@in_float64
def prove_policy(prepared: PreparedModel, callback: Callback | None) -> PolicyProof | None:
    """Iterate until every action is decided, or tied within rounding.

    None where that would take longer than solving for the values.
    """
    thresholds = prepared.plan.thresholds
    method = prepared.plan.method
    if not method.uses_single_precision:
        method = ValueIteration()
    slices = ExogenousSlices.build(prepared)
    log = RunLog(callback)
    operators = prepared.make_operators()
    state = make_initial_state(prepared, None, None)
    ratio_before = np.inf
    while True:
        limit = 1  # larger steps, or sweeps: more of them each time
        if not method.uses_single_precision:
            limit = min(max(FIRST_SWEEPS, len(log) // 4), MAX_SWEEPS_PER_CHECK)
        batch = run_iterations(method, MAX_SWEEPS_PER_CHECK, operators, state, limit)
        state = batch.state
        count = int(batch.n_iterations)
        log.add(batch.bounds[:count], batch.changes[:count], batch.target)
        measured = measure_slices(slices.axes, operators, _report_value(operators.data, state))
        error = slices.bound_point(measured)
        ratio = _compute_tolerance_ratio(slices, measured, error)
        if ratio <= 1 or float(state.bound) <= float(batch.target) or log.is_stopped:
            return _make_proof(prepared, method, log, batch, error, is_proven=ratio <= 1)
        left = count * count_steps_left(ratio_before, ratio, 1.0)
        is_tried = len(log) >= thresholds.proof_trial_sweeps
        is_slow = is_tried and len(log) + left > thresholds.proof_max_sweeps
        if is_slow or bool(batch.finished):  # by a bound that is not finite
            return None
        ratio_before = ratio


def _make_proof(
    prepared: PreparedModel,
    method: Method,
    log: RunLog,
    batch: IterationBatch,
    error: NDArray[np.float64],
    is_proven: bool,
) -> PolicyProof:
    """What the last point of a run decides; comparisons may be off by ``error`` (slices) there."""
    mdp = prepared.mdp
    bound = float(batch.state.bound)
    target = float(batch.target)  # the bound at which values are as accurate as they can be
    value = prepared.to_result(_report_value(prepared.data, batch.state))
    decision = decide(prepared, value, bound, error)
    n_decided = int((decision.margin > decision.tie_tolerance).sum())
    tolerance = float(np.max(decision.tie_tolerance))
    has_values = bound <= target
    if has_values:
        status = Status.CONVERGED
    elif not is_proven:
        status = Status.STOPPED
    elif n_decided == mdp.n_states:
        status = Status.POLICY_PROVEN
    elif n_decided or tolerance <= USEFUL_REWARD_FRACTION * mdp.dynamics.reward_scale:
        status = Status.TIED_WITHIN_ROUNDING
    else:
        status = Status.NOTHING_DECIDED
    result = make_run_result(
        status,
        value,
        bound,
        target,
        log.history(),
        may_raise=False,
        tolerance=round_up(tolerance),
        decided=f"{n_decided:,}",
        states=f"{mdp.n_states:,}",
    )
    return PolicyProof(result, decision, has_values, method.name)


def _report_value(data: ModelData, state: IterationState) -> Any:
    """Computed where it is needed: a model that fills a device has no memory to keep it."""
    return data.criterion.report_values(state.backup, state.center, state.shift)[0]


def _compute_tolerance_ratio(slices: ExogenousSlices, point: SlicedPoint, error: NDArray) -> float:
    """The largest ratio of a slice's tolerance to what is enough there; at most 1 at the end.

    A tolerance is enough if it is below all margins, or near what rounding leaves.
    """
    comparison_error = 2 * float(point.action_value_error)
    zero = np.zeros(slices.shape)
    rounding = slices.bound_comparisons(zero, zero, float(point.backup_error)) + comparison_error
    enough = np.maximum(np.asarray(point.margin) / MARGIN_FACTOR, ROUNDING_MULTIPLE * rounding)
    is_unlimited = np.isinf(enough)  # one action in each state, or nothing can be proven
    with np.errstate(invalid="ignore"):
        ratio = np.where(
            is_unlimited & np.isfinite(rounding), 0.0, (error + comparison_error) / enough
        )
    return float(np.where(np.isnan(ratio), np.inf, ratio).max())
