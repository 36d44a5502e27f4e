"""Comparisons of actions, bounded slice by slice: a policy is proven long before its values.

Let z be the exogenous axes of a model, K their matrix (``mdp.exogenous``) and x all others. A slice
holds the states of one z. For any v let d = T v - v, osc(z) = max_x d - min_x d in a slice, and

    w >= osc + s + discount K w,        s = 2 discount error max|d| / (1 - c).

Then for all actions a, b of a state in slice z

    | [Q*(a) - Q*(b)] - [Q_v(a) - Q_v(b)] |  <=  discount (K w)(z) + s.

Proof. With v_0 = v, v_(j+1) = T v_j and d_j = v_(j+1) - v_j, d_(j+1)(x, z) lies between the least
and the largest discount P_a d_j, and so, whatever x and a, between discount sum_z' K(z, z') [min,
max] of d_j over slice z', off by discount error max|d_j|, where max|d_j| <= c^j max|d|. Summed
over j, the spans of V* - v within slices are at most W <= osc + s + discount K W. I - discount K
is an M-matrix, so W <= w. Two actions of one state lead to the same law of z': one more K.

Rounding: d is known within eta, so 2 eta is added to osc. A computed w need not satisfy its
inequality; a constant t / (1 - |discount K|) makes up for a violation of at most t.

Without exogenous axes all states are one slice, K = 1: the span of d. Where a process can end, the
end is one more state of it, with d = 0.

``prove_policy`` sweeps until every action leads by more than this bound, or the bound is what
rounding leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.compilation import compile_per_shape, in_float64
from tessella.mdp.dynamics import fold_actions
from tessella.mdp.exogenous import Exogenous
from tessella.numerics import array_namespace
from tessella.rounding import EPS, OUTWARD_FACTOR
from tessella.solvers.bounds import Decision, center_values, decide
from tessella.solvers.loop import Callback, RunLog
from tessella.solvers.mixed_precision import to_single_precision
from tessella.solvers.operators import ModelData, Operators, max_abs
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result, Status, make_run_result

if TYPE_CHECKING:
    import scipy.sparse as sp

FIRST_SWEEPS = 4  # sweeps before the first bound; later a quarter of those so far
SINGLE_PRECISION_SWEEPS = 12  # sweeps in single precision, before any in double
TRIAL_SWEEPS = 32  # sweeps that show how fast the bound falls
# A bound within this multiple of what rounding leaves: what is then undecided is tied.
ROUNDING_MULTIPLE = 3.0
# Margins are computed once more at the end, by other code: they lead by this much more.
MARGIN_FACTOR = 1 + 1e-6
DENSE_SHARE = 1 / 8  # of entries that are not 0, from which on K is factorised as dense


@dataclass(frozen=True, eq=False)
class Slices:
    """The slices of a model, with what bounds comparisons within them."""

    axes: tuple[int, ...]  # the exogenous axes
    shape: tuple[int, ...]  # of an array over slices, of length one along all other axes
    matrix: sp.csr_array  # (Z, Z) discount K
    error: float  # discount times the error of K
    gap: float  # 1 - c
    includes_end: bool  # whether the process can end, which all states share

    @staticmethod
    def build(prepared: PreparedModel) -> Slices:
        """The slices of the exogenous axes; one of all states where there are none."""
        import scipy.sparse as sp

        mdp = prepared.mdp
        exogenous = mdp.exogenous
        includes_end = False
        if exogenous is None:
            sums = prepared.row_sum_bounds
            includes_end = not float(prepared.data.criterion.use_shift)  # type: ignore[attr-defined]
            error = max(sums.excess, 0.0) if includes_end else sums.deviation
            exogenous = Exogenous((), (), (), sp.csr_array(np.eye(1)), error)
        lengths = enumerate(mdp.grid.shape)
        return Slices(
            exogenous.axes,
            tuple(n if axis in exogenous.axes else 1 for axis, n in lengths),
            sp.csr_array(mdp.discount * exogenous.matrix),
            mdp.discount * (exogenous.error + 2 * EPS),
            prepared.contraction_gap,
            includes_end,
        )

    def bound_comparisons(self, low: NDArray, high: NDArray, eta: float) -> NDArray[np.float64]:
        """(slices) by how much a difference of two action values may be off.

        ``low`` and ``high`` (slices) enclose T v - v, each off by at most ``eta``.
        """
        if self.includes_end:
            low = np.minimum(low, 0.0)
            high = np.maximum(high, 0.0)
        size = float(np.maximum(np.abs(low), np.abs(high)).max()) * (1 + EPS) + eta
        extra = 2 * self.error * size / self.gap * OUTWARD_FACTOR
        rhs = ((high - low) * (1 + 4 * EPS) + 2 * eta + extra).ravel()
        w = self._solve(rhs)
        unit = EPS * (int(np.diff(self.matrix.indptr).max()) + 4)
        product = self.matrix @ w
        missing = rhs + product - w + unit * (rhs + np.abs(product) + np.abs(w))
        row_sum = float(self.matrix.sum(axis=1).max()) * (1 + unit)
        if not (np.isfinite(w).all() and row_sum < 1):
            return np.full(self.shape, np.inf)
        w = w + max(float(missing.max()), 0.0) / (1 - row_sum) * OUTWARD_FACTOR
        return ((self.matrix @ w + extra) * (1 + unit) * OUTWARD_FACTOR).reshape(self.shape)

    def _solve(self, rhs: NDArray) -> NDArray[np.float64]:
        """About the solution of (I - discount K) w = rhs."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        n = len(rhs)
        if self.matrix.nnz > DENSE_SHARE * n * n:
            return np.linalg.solve(np.eye(n) - self.matrix.toarray(), rhs)
        return splu(sparse.csc_array(sparse.eye_array(n) - self.matrix)).solve(rhs)


class SlicedPoint(NamedTuple):
    """A point v of a model, and what its backup says of each slice."""

    value: Any  # v, (grid)
    next_value: Any  # T v and a constant, (grid)
    policy: Any  # greedy at v, (grid)
    low: Any  # (slices) the least T v - v ...
    high: Any  # ... and the largest
    margin: Any  # (slices) the least margin of an action
    backup_error: Any  # of T v
    eta: Any  # of any action value
    error_bound: Any  # |v - V*|
    changed: Any  # states whose greedy action is another than before


@compile_per_shape("backend", "axes")
def _measure(backend, axes: tuple[int, ...], data: ModelData, value, policy) -> SlicedPoint:
    operators, v, shift = center_values(backend, data, value)
    best, margin, greedy = _rank(operators, v)
    eta = operators.bound_rounding(v, shift)
    backup_error = operators.bound_rounding(v, shift, best)
    residual = best - v
    others = tuple(axis for axis in range(v.ndim) if axis not in axes)
    criterion = operators.criterion
    # A residual that all states share changes the values by a constant, and is taken out.
    common = criterion.discount * criterion.common_part(residual)
    return SlicedPoint(
        value,
        best + (shift + criterion.value_of_constant_reward(common)),
        greedy,
        residual.min(axis=others, keepdims=True),
        residual.max(axis=others, keepdims=True),
        margin.min(axis=others, keepdims=True),
        backup_error,
        eta,
        criterion.bound_error((1 + EPS) * max_abs(residual) + backup_error + EPS * max_abs(v)),
        (greedy != policy).sum(),
    )


def _rank(operators: Operators, v):
    """(grid) (best action value, best minus second best, best action), in one pass."""
    xp = array_namespace(v)
    q_of = operators.q(v)

    def step(action, carry):
        best, second, greedy = carry
        q_S = q_of(action)
        greedy = xp.where(q_S > best, xp.asarray(action, xp.int32), greedy)
        return xp.maximum(best, q_S), xp.maximum(second, xp.minimum(best, q_S)), greedy

    lowest = xp.full(v.shape, -xp.inf)
    start = lowest, lowest, xp.zeros(v.shape, xp.int32)
    best, second, greedy = fold_actions(operators.backend, step, start)
    return best, best - second, greedy


@compile_per_shape("backend")
def _run_sweeps(backend, data: ModelData, value, count):
    """T^count v."""
    operators, v, shift = center_values(backend, data, value)
    return operators.iterate_bellman(v, count) + shift


@compile_per_shape("backend")
def _run_single_precision_sweeps(backend, data: ModelData, value, count):
    single = to_single_precision(Operators(backend, data))
    swept = single.iterate_bellman(value.astype(np.float32), count)
    return swept.astype(value.dtype)


@in_float64
def decide_by_slices(prepared: PreparedModel, value: Any, bound: float) -> Decision:
    """``decide``, with bounds by slices where these could tell more actions apart."""
    decision = decide(prepared, value, bound)
    mdp = prepared.mdp
    if not mdp.criterion.is_discounted or prepared.layout is not None:
        return decision
    carried = 2 * float(prepared.data.criterion.contraction_factor) * bound
    # Rounding alone leaves the rest undecided.
    is_open = (decision.margin > decision.tie_tolerance - carried) & (
        decision.margin <= decision.tie_tolerance
    )
    if not bool(is_open.any()) or mdp.exogenous is None:
        return decision
    slices = Slices.build(prepared)
    point = prepared.from_result(value)
    measured = _measure(prepared.backend, slices.axes, prepared.data, point, decision.policy)
    return decide(prepared, value, bound, _bound_point(slices, measured))


def _bound_point(slices: Slices, point: SlicedPoint) -> NDArray[np.float64]:
    low, high = np.asarray(point.low), np.asarray(point.high)
    return slices.bound_comparisons(low, high, float(point.backup_error))


@dataclass
class _Proof:
    """What is proven at a point, slice by slice."""

    comparison_error: NDArray[np.float64]
    shortfall: float  # the largest ratio of a bound to what would do; at most 1 at the end

    @staticmethod
    def at_point(slices: Slices, point: SlicedPoint) -> _Proof:
        error = _bound_point(slices, point)
        eta = float(point.eta)
        zero = np.zeros(slices.shape)
        rounding = slices.bound_comparisons(zero, zero, float(point.backup_error)) + 2 * eta
        enough = np.maximum(np.asarray(point.margin) / MARGIN_FACTOR, ROUNDING_MULTIPLE * rounding)
        with np.errstate(invalid="ignore"):
            ratio = np.where(np.isinf(enough), 0.0, (error + 2 * eta) / enough)
        return _Proof(error, float(np.nan_to_num(ratio, nan=np.inf).max()))


@in_float64
def prove_policy(
    prepared: PreparedModel, callback: Callback | None
) -> tuple[Result, Decision] | None:
    """Sweep until every action is decided, or tied within rounding.

    None where sweeps would take longer than solving for the values.
    """
    backend = prepared.backend
    data = prepared.data
    slices = Slices.build(prepared)
    log = RunLog(callback)
    value, policy = prepared.make_zeros()
    max_sweeps = prepared.plan.thresholds.proof_max_sweeps
    count = FIRST_SWEEPS - 1
    if not prepared.is_numpy and prepared.mdp.n_states > prepared.plan.thresholds.single_min_states:
        n_single = np.int64(SINGLE_PRECISION_SWEEPS)
        value = _run_single_precision_sweeps(backend, data, value, n_single)
        log.add(np.full(SINGLE_PRECISION_SWEEPS, np.inf), np.zeros(SINGLE_PRECISION_SWEEPS), 0.0)
    shortfall_before = np.inf
    while True:
        value = _run_sweeps(backend, data, value, np.int64(count))
        point = _measure(backend, slices.axes, data, value, policy)
        proof = _Proof.at_point(slices, point)
        changes = np.zeros(count + 1, np.int64)
        changes[-1] = int(point.changed)
        bounds = np.append(np.full(count, np.inf), float(point.error_bound))
        log.add(bounds, changes, 0.0)
        if proof.shortfall <= 1 or log.is_stopped:
            return _make_result(prepared, log, point, proof)
        left = _estimate_sweeps_left(shortfall_before, proof.shortfall, count + 1)
        if len(log) >= TRIAL_SWEEPS and len(log) + left > max_sweeps:
            return None
        shortfall_before = proof.shortfall
        value, policy = point.next_value, point.policy
        count = max(FIRST_SWEEPS, len(log) // 4) - 1


def _estimate_sweeps_left(before: float, now: float, sweeps: int) -> float:
    """Sweeps until the shortfall is 1, at the pace of the last ones."""
    if not np.isfinite(before):
        return 0.0
    return np.inf if not now < before else sweeps * np.log(now) / np.log(before / now)


def _make_result(
    prepared: PreparedModel, log: RunLog, point: SlicedPoint, proof: _Proof
) -> tuple[Result, Decision]:
    status = Status.STOPPED if proof.shortfall > 1 else Status.POLICY_PROVEN
    bound = float(point.error_bound)
    value = prepared.to_result(point.value)
    result = make_run_result(status, value, bound, None, log.history(), may_raise=False)
    return result, decide(prepared, value, bound, proof.comparison_error)
