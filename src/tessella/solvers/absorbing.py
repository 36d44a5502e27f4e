"""Absorbing states, and bounds on total rewards from a bound on the time to absorption.

A state ends the process where all actions stay there and pay nothing. An action leaves state s if
and only if P_a > 0 for the states whose index differs from s in some bit: that takes 2 log2 S
products, of numbers that are not negative, so that none is lost to rounding. A run first computes
values with a small residual, then bounds the time to the end under every policy that may be optimal
(``hitting_times``), which turns residuals into bounds on values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import ENDING_MIN_DEFICIT
from tessella.errors import ModelError, NotConverged
from tessella.mdp.compilation import compile_per_shape, in_float64, to_backend
from tessella.mdp.dynamics import fold_actions
from tessella.numerics import array_namespace
from tessella.rounding import EPS
from tessella.solvers.bounds import decide
from tessella.solvers.elimination import (
    DoubleDouble,
    FeasibleRows,
    PolicyResiduals,
    check_recurrent_classes,
    factorise_hitting_system,
    find_shortest_path_policy,
    refine_values,
    rows_are_affordable,
)
from tessella.solvers.hitting_times import (
    TRIAL_MAX_RESIDUAL,
    bound_absorption_times_by_state,
    compute_row_sum_error,
    find_longest_times,
    widen_ties,
)
from tessella.solvers.loop import Callback, iterate
from tessella.solvers.method import Method
from tessella.solvers.operators import Operators, max_abs
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import History, Result, Status, make_run_result

TIME_BOUND_MAX_TRIES = 6  # to find a bound on the time that also holds at the resulting values
TIME_GROWTH_FACTOR = 1.5  # times the required time, so that the next attempt succeeds


def solve_total_reward(
    prepared: PreparedModel, method: Method, *, callback: Callback | None, partial: bool
) -> tuple[PreparedModel, Result]:
    """(the prepared model with a proven absorption time, the optimum)."""
    absorbing = find_absorbing_states(prepared)
    try:
        return _iterate_with_time_bound(prepared, method, absorbing, callback, partial)
    except ModelError as error:  # a waiting cost may be lost in the rounding of the values
        solved = _improve_proper_policy(prepared, absorbing, partial)
        if solved is None:
            raise ModelError(
                "the total reward needs policies that end; some that are as good as the best, as "
                "far as float64 can resolve, are not proven to end"
            ) from error
        return solved


def _iterate_with_time_bound(
    prepared: PreparedModel,
    method: Method,
    absorbing: NDArray,
    callback: Callback | None,
    partial: bool,
) -> tuple[PreparedModel, Result]:
    """Iterate ``method``, and bound the time to the end at the values that it finds."""
    mdp = prepared.mdp
    # With an absorption time of 1, its bounds are residuals.
    residual_model = PreparedModel(prepared.plan, absorption_time=1.0)
    hidden_callback = None if callback is None else _hide_bounds(callback)
    guess = zero_absorbing_states(absorbing, method.init(mdp))
    result = iterate(residual_model, method, guess=guess, callback=hidden_callback, partial=partial)
    history = replace(result.history, bound=np.full(result.sweeps, np.inf))
    absorption_time = 0.0
    bounded_model = residual_model
    for _ in range(TIME_BOUND_MAX_TRIES):
        residual = result.error_bound / max(absorption_time, 1.0)
        actions = np.asarray(decide(residual_model, result.value, residual).policy)
        times = bound_absorption_times_by_state(
            residual_model, absorbing, result.value, actions, residual, evaluates_policy=False
        )
        required_time = float(times.max(initial=1.0))
        if not np.isfinite(required_time):
            requirement = "the total reward needs policies that end; the best is not proven to end"
            raise ModelError(requirement)
        if required_time <= absorption_time:  # the assumed time holds at this value
            return bounded_model, replace(result, history=history)
        absorption_time = required_time * TIME_GROWTH_FACTOR if absorption_time else required_time
        bounded_model = PreparedModel(prepared.plan, prepared.tol, absorption_time)
        result = iterate(
            bounded_model, method, guess=result.value, callback=callback, partial=partial
        )
        history = history.followed_by(result.history)
    raise NotConverged("could not bound the time to absorption")


def _improve_proper_policy(
    prepared: PreparedModel, absorbing: NDArray, partial: bool
) -> tuple[PreparedModel, Result] | None:
    """Policy iteration from the shortest way to the end, by differences of values.

    Each policy ends, and is changed only where an improvement is proven. A residual is summed from
    differences (``FeasibleRows.compute_residuals``), so that waiting costs keep their digits,
    however large values are. None if the rows cannot be built, or nothing bounds the time.
    """
    mdp = prepared.mdp
    is_absorbing = absorbing.ravel()
    if not rows_are_affordable(mdp):
        return None
    started = time.perf_counter()
    rows = FeasibleRows.from_model(mdp)
    may_stop = rows.end > 0
    targets = is_absorbing.copy()
    targets[rows.state[may_stop]] = True
    actions = find_shortest_path_policy(rows, np.flatnonzero(targets))
    actions[rows.state[may_stop]] = rows.action[may_stop]
    best = rows.iterate_policies(
        actions, lambda actions: _evaluate_by_differences(prepared, rows, is_absorbing, actions)
    )
    if best is None:
        return None
    _, actions, value, residuals, error = best
    low = rows.max_by_state(residuals - error)
    high = rows.max_by_state(residuals + error)
    residual = float(np.maximum(np.abs(low), np.abs(high)).max())
    min_local_loss = low[rows.state] - (residuals + error)
    absorption_time = _bound_time_by_differences(
        prepared, rows, min_local_loss, residual, actions, is_absorbing
    )
    if absorption_time is None:
        return None
    size = float(np.abs(value[0]).max())
    rounding = EPS * (mdp.dynamics.rounding.backup_terms + 8) * size
    bound = (residual * absorption_time + rounding) * (1 + 8 * EPS)
    history = History(np.array([bound]), np.array([0]), np.array([time.perf_counter() - started]))
    is_known = not prepared.tol or bound <= prepared.tol
    shape = absorbing.shape
    result = make_run_result(
        Status.SOLVED_DIRECTLY if is_known else Status.ROUNDING_LIMIT,
        value[0].reshape(shape),
        bound,
        prepared.tol,
        history,
        may_raise=not partial,
        table=actions.reshape(shape),
    )
    return PreparedModel(prepared.plan, prepared.tol, absorption_time), result


def _evaluate_by_differences(
    prepared: PreparedModel, rows: FeasibleRows, is_absorbing: NDArray, actions: NDArray
) -> PolicyResiduals | None:
    """Residuals at the total of a policy, a double-double; None where it never ends."""
    chosen = rows.select_policy(actions)
    factors = factorise_hitting_system(chosen.matrix, is_absorbing)
    value = None
    if factors is not None:
        value = refine_values(
            chosen.reward,
            lambda residuals: np.where(is_absorbing, 0.0, factors.solve(residuals)),
            lambda value: _compute_residuals(prepared, chosen, value)[0],
            max_abs,
        )
    if value is None:
        check_recurrent_classes(prepared.mdp, actions, False)
        return None
    return PolicyResiduals(rows, actions, value, *_compute_residuals(prepared, rows, value))


def _compute_residuals(
    prepared: PreparedModel, rows: FeasibleRows, value: DoubleDouble
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """((K,) r + P V - V, a bound on its error)."""
    row_sum_error = compute_row_sum_error(prepared.row_sum_bounds)
    residuals, error = rows.compute_residuals(
        value, prepared.mdp.dynamics.rounding.in_file, row_sum_error
    )
    error += row_sum_error * np.abs(value[0][rows.state])
    return residuals, error * (1 + 8 * EPS)


def _bound_time_by_differences(
    prepared: PreparedModel,
    rows: FeasibleRows,
    min_local_loss: NDArray,
    residual: float,
    actions: NDArray,
    is_absorbing: NDArray,
) -> float | None:
    """Bound on the time to the end for all actions that may be optimal, given ``residual``.

    ``min_local_loss`` (K,): how much worse than the best an action is at least.
    """
    unit = EPS * (np.diff(rows.matrix.indptr).max() + 8)
    unit += compute_row_sum_error(prepared.row_sum_bounds)
    unit += prepared.mdp.dynamics.rounding.in_file.row_error

    def attempt(tie_width: float) -> tuple[float | None, float]:
        is_allowed = min_local_loss <= tie_width
        w = find_longest_times(rows, is_allowed, actions, is_absorbing)
        if w is None:
            return None, np.inf
        residuals = 1 + rows.matrix @ np.where(is_absorbing, 0.0, w) - w[rows.state]
        largest = np.abs(w).max()
        excess = residuals[is_allowed].max() + unit * largest
        if not excess < TRIAL_MAX_RESIDUAL:
            return None, np.inf
        absorption_time = float(largest / (1 - excess) * (1 + 8 * EPS))
        return absorption_time, 2 * residual * absorption_time * (1 + 8 * EPS)

    return widen_ties(0.0, attempt)


def _hide_bounds(callback: Callback) -> Callback:
    """A callback that sees an infinite bound, while none is proven."""
    return lambda progress: callback(replace(progress, bound=float("inf"), left=None))


def zero_absorbing_states(absorbing: NDArray, guess: NDArray | None) -> NDArray | None:
    """A guess that is 0 in absorbing states: any other constant would stay there."""
    if guess is None or np.shape(guess) not in (absorbing.shape, (absorbing.size,)):
        return guess
    return np.where(absorbing, 0.0, np.reshape(guess, absorbing.shape))


def bound_policy_absorption(
    prepared: PreparedModel, actions: NDArray
) -> tuple[PreparedModel, NDArray[np.bool_]]:
    """(the prepared model with the absorption time of one policy, (grid) absorbing states)."""
    absorbing = find_absorbing_states(prepared)
    times = bound_absorption_times_by_state(
        prepared, absorbing, np.zeros(absorbing.shape), actions, 0.0, evaluates_policy=True
    )
    absorption_time = float(times.max(initial=1.0))
    if not np.isfinite(absorption_time):
        check_recurrent_classes(prepared.mdp, actions, True)
        raise ModelError("the total reward needs policies that end; this one is not proven to end")
    return PreparedModel(prepared.plan, prepared.tol, absorption_time), absorbing


@in_float64
def find_absorbing_states(prepared: PreparedModel) -> NDArray[np.bool_]:
    """(grid) whether a state ends the process; rejects a model whose end cannot be reached."""
    mdp = prepared.mdp
    ones = to_backend(prepared.backend, np.ones(mdp.grid.shape))
    absorbing, can_reach = _find_ends(prepared.make_operators(), ones)
    unreachable = np.flatnonzero(~np.asarray(can_reach))
    if unreachable.size:
        raise ModelError(
            "the total reward needs an end that can be reached from everywhere",
            location=mdp.grid.describe(int(unreachable[0])),
            value="cannot reach it",
            count=unreachable.size,
            total=mdp.n_states,
            noun="states",
        )
    return np.asarray(absorbing)


@compile_per_shape()
def _find_ends(operators: Operators, ones):
    """(grid) (whether a state ends the process, whether an end can be reached from it)."""
    xp = array_namespace(ones)
    row_sum = operators.expect(ones)
    reward = operators.expect(0.0 * ones, include_reward=True)
    index = xp.arange(ones.size).reshape(ones.shape)

    def may_end(action):
        return row_sum(action) < 1 - ENDING_MIN_DEFICIT

    def mark_by_bit(carry):
        k, is_left = carry
        bit = (index >> k) % 2
        to_ones = operators.expect(1.0 * bit)
        to_zeros = operators.expect(1.0 - bit)

        def is_bit_changed(action):
            return xp.where(bit == 1, to_zeros(action), to_ones(action)) > 0

        return k + 1, _mark_states(operators, is_left, is_bit_changed)

    def grow(carry):
        can_reach, _ = carry
        probability = operators.expect(can_reach.astype(float))
        extended = _mark_states(operators, can_reach, lambda action: probability(action) > 0)
        return extended, (extended != can_reach).any()

    is_left = _mark_states(operators, ones == 0, lambda a: may_end(a) | (reward(a) != 0))
    n_bits = int(ones.size - 1).bit_length()
    absorbing = ~xp.iterate(n_bits, mark_by_bit, (0, is_left))[1]
    first = _mark_states(operators, absorbing, may_end)
    can_reach, _ = xp.while_loop(lambda carry: carry[1], grow, (first, xp.array(True)))
    return absorbing, can_reach


def _mark_states(operators: Operators, marked: Any, is_marked: Callable[[Any], Any]) -> Any:
    """(grid) where ``marked``, or where ``is_marked(action)`` holds for a feasible action."""
    feasible = operators.data.feasible

    def mark(action, found):
        is_new = is_marked(action)
        return found | (is_new if feasible is None else is_new & feasible[action])

    return fold_actions(operators.backend, mark, marked)
