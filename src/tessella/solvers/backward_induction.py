"""Backward induction: the periods of a horizon, each solved once, from the last.

    v_t = max_a [ r_t + discount P_t v_(t+1) ],      v_T = final.

No residual is needed: with eta_t the rounding of a backup, the error of each period follows from
that of the next,

    e_t = eta_t + c e_(t+1),      c = discount * largest row sum.

Only one period is worked on at a time, and its action values are computed once where they fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.mdp.compilation import compile_per_shape, in_float64, to_backend
from tessella.mdp.finite_horizon import HorizonBackend
from tessella.mdp.model import MDP
from tessella.numerics import array_namespace
from tessella.rounding import OUTWARD_FACTOR
from tessella.solvers.bounds import (
    GreedyPolicy,
    compute_tie_tolerance,
    compute_tie_width,
    rank_actions,
)
from tessella.solvers.loop import Callback, RunLog
from tessella.solvers.method import Method
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result, Status, make_run_result

# Action values of a period that are kept while it is worked on: 1 GiB.
PERIOD_MAX_ACTION_VALUES = 1 << 27


@dataclass(frozen=True)
class BackwardInduction(Method):
    """Period by period, from the last; for models with a finite horizon.

    Args:
        tol: as in ``ValueIteration``.
        max_sweeps: the most periods.

    Example:
        >>> season = ts.benchmark("QUE-Lin").with_criterion(ts.FiniteHorizon(12))
        >>> ts.solve(season, ts.BackwardInduction()).converged
        True
    """

    requires_jax = False
    runs_on_one_device = True
    has_own_loop = True

    def check_supports(self, mdp: MDP) -> None:
        if mdp.dynamics.n_periods is None:
            requirement = "backward induction needs a finite-horizon model"
            raise ArgumentError(requirement, value=f"got {mdp.criterion}")

    def step(self, operators, state):
        return state.backup

    @in_float64
    def run(
        self, prepared: PreparedModel, callback: Callback | None, partial: bool
    ) -> tuple[Result, GreedyPolicy]:
        """The optimum, and what is known of its policy; ``callback`` is called after every period.

        A callback or the limit of sweeps, one for each period, may stop it; the bounds of earlier
        times then follow from the rewards alone.
        """
        periods = prepared.mdp.grid.shape[0]
        log = RunLog(callback)
        period_results: list[PeriodResult] = []
        for period_result in _solve_periods(prepared):
            period_results.append(period_result)
            log.add([period_result.error], [0], target=0.0)
            if log.is_stopped or len(log) >= self.max_sweeps:
                break
        unreached = reversed(range(periods - len(log)))
        period_results += [_make_unreached_period(prepared, t) for t in unreached]
        columns = zip(*reversed(period_results), strict=True)
        value, policy, margin, error, tie_tolerance = map(np.stack, columns)
        error_bound = float(error.max())
        tolerance = self.tolerance(prepared.mdp)
        status = Status.SOLVED_BY_PERIODS
        if len(log) < periods:
            status = Status.STOPPED_EARLY if log.is_stopped else Status.PERIOD_LIMIT
        elif tolerance is not None and not error_bound <= tolerance:
            status = Status.ROUNDING_LIMIT
        result = make_run_result(
            status,
            value,
            error_bound,
            tolerance,
            log.history(),
            may_raise=not partial,
            periods=periods,
            limit=self.limit,
        )
        return result, GreedyPolicy(margin, policy, float(tie_tolerance.max()))


class PeriodResult(NamedTuple):
    """What one period's backup gives."""

    value: Any  # (states)
    policy: Any  # (states) the lowest action index among those that tie with the best
    margin: Any  # (states) best minus second best
    error: Any  # on |value - V*|
    tie_tolerance: Any  # what that error and rounding could overturn


def _solve_periods(prepared: PreparedModel) -> Iterator[PeriodResult]:
    """What each period's backup gives, from the last on."""
    backend = cast(HorizonBackend, prepared.backend)
    data = prepared.data
    w = backend.read_final(data.arrays)
    error = np.float64(0)
    for t in reversed(range(prepared.mdp.grid.shape[0])):
        feasible = None if data.feasible is None else data.feasible[:, t]
        w, period_result = _solve_period(backend, data, feasible, np.int32(t), w, error)
        error = period_result.error
        yield PeriodResult(*(np.asarray(array) for array in period_result))


def _make_unreached_period(prepared: PreparedModel, t: int) -> PeriodResult:
    """The period at time ``t`` before it is solved: value 0, and the first feasible action."""
    mdp = prepared.mdp
    accuracy = prepared.data.accuracy
    states = mdp.grid.shape[1:]
    value_bound = np.asarray(
        prepared.data.criterion.bound_value(accuracy.reward_scale + accuracy.reward_error)
    )
    first = mdp.feasible_mask.reshape(*mdp.grid.shape, -1)[t].argmax(axis=-1).astype(np.int32)
    return PeriodResult(np.zeros(states), first, np.zeros(states), value_bound, 2 * value_bound)


@compile_per_shape("backend")
def _solve_period(
    backend: HorizonBackend, data: ModelData, feasible, t, w, error
) -> tuple[Any, PeriodResult]:
    """One period: ``w`` is discount * value of the next, known within ``error``.

    Returns (discount * value of this period, its result).
    """
    period_data = data._replace(arrays=backend.period_arrays(data.arrays, t), feasible=feasible)
    operators = Operators(backend.period_backend, period_data)
    q_of = operators.q_of_discounted(w)
    if backend.n_actions * w.size <= PERIOD_MAX_ACTION_VALUES:
        xp = array_namespace(w)
        q_A = xp.map_items(q_of, xp.arange(backend.n_actions))
        q_of = q_A.__getitem__
    value = w / data.criterion.discount
    action_value_error = operators.bound_rounding(value, 0.0)
    carried_error = data.criterion.contraction_factor * error
    tie_tolerance = compute_tie_tolerance(carried_error, action_value_error) * OUTWARD_FACTOR
    best, margin, policy = rank_actions(
        backend, q_of, w, compute_tie_width(data, tie_tolerance, action_value_error)
    )
    error = (operators.bound_rounding(value, 0.0, best) + carried_error) * OUTWARD_FACTOR
    return data.criterion.discount * best, PeriodResult(best, policy, margin, error, tie_tolerance)


@in_float64
def evaluate_by_periods(prepared: PreparedModel, policy: NDArray) -> NDArray[np.float64]:
    """(grid) the value of a policy, period by period."""
    table = to_backend(prepared.backend, np.asarray(policy, np.int32))
    return np.asarray(_evaluate_policy(prepared.backend, prepared.data, table))


@compile_per_shape("backend")
def _evaluate_policy(backend: HorizonBackend, data: ModelData, policy):
    arrays = data.arrays
    discount = data.criterion.discount

    def back_up_period(w, t):
        value = backend.period_backend.policy_backup(
            backend.period_arrays(arrays, t), w, policy[t], True
        )
        return discount * value, value

    return array_namespace(policy).scan(
        back_up_period, backend.read_final(arrays), len(policy), reverse=True
    )
