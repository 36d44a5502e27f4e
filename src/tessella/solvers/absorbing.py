"""Absorbing states, and bounds on total rewards from a bound on the time to absorption.

A state ends the process where all actions stay there and pay nothing (in models of more than
200,000 states, up to rounding). A run first computes values
with a small residual, then bounds the time to the end under every policy that may be optimal
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
from tessella.mdp.model import MDP
from tessella.numerics import array_namespace
from tessella.rounding import EPS, two_sum
from tessella.solvers.bounds import decide
from tessella.solvers.elimination import (
    CLASSES_MAX_STATES,
    REFINEMENT_MAX_PASSES,
    DoubleDouble,
    FeasibleRows,
    PolicyResiduals,
    check_recurrent_classes,
    factorise_hitting_system,
    find_shortest_path_policy,
    rows_are_affordable,
)
from tessella.solvers.hitting_times import (
    TRIAL_MAX_RESIDUAL,
    bound_absorption_time,
    bound_policy_hitting_time,
    compute_row_sum_error,
    find_longest_times,
    widen_ties,
)
from tessella.solvers.loop import Callback, iterate
from tessella.solvers.method import Method
from tessella.solvers.operators import ModelData, Operators
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
                "far as float64 can tell, are not proven to end"
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
        required_time = bound_absorption_time(
            residual_model, absorbing, result.value, actions, residual
        )
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
    may_stop = rows.matrix.sum(axis=1) < 1 - ENDING_MIN_DEFICIT
    targets = is_absorbing.copy()
    targets[rows.state[may_stop]] = True
    actions = find_shortest_path_policy(rows, np.flatnonzero(targets))
    actions[rows.state[may_stop]] = rows.action[may_stop]

    def evaluate(actions: NDArray) -> PolicyResiduals | None:
        value = _evaluate_by_differences(prepared, rows.select_policy(actions), is_absorbing)
        if value is None:
            check_recurrent_classes(mdp, actions, False)
            return None
        return PolicyResiduals(rows, value, *_compute_residuals(prepared, rows, value))

    best = rows.iterate_policies(actions, evaluate)
    if best is None:
        return None
    actions, (_, value, residuals, error) = best
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
    prepared: PreparedModel, chosen: FeasibleRows, is_absorbing: NDArray
) -> DoubleDouble | None:
    """The total of a policy as a double-double; None where it never ends."""
    factors = factorise_hitting_system(chosen.matrix, is_absorbing)
    if factors is None:
        return None
    value = (np.zeros(len(is_absorbing)), np.zeros(len(is_absorbing)))
    residuals = chosen.reward
    largest = np.inf
    for _ in range(REFINEMENT_MAX_PASSES):
        high, low = two_sum(value[0], np.where(is_absorbing, 0.0, factors.solve(residuals)))
        refined = two_sum(high, low + value[1])
        residuals = _compute_residuals(prepared, chosen, refined)[0]
        if not np.abs(residuals).max() < largest / 2:
            break
        value = refined
        largest = np.abs(residuals).max()
    return value if np.isfinite(largest) else None


def _compute_residuals(
    prepared: PreparedModel, rows: FeasibleRows, value: DoubleDouble
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """((K,) r + P V - V, a bound on its error); what a row lacks to 1 ends the process."""
    row_sum_error = compute_row_sum_error(prepared.row_sum_bounds)
    residuals, error = rows.compute_residuals(
        value, prepared.mdp.dynamics.rounding.in_file, row_sum_error
    )
    missing = 1 - rows.matrix.sum(axis=1)
    missing = np.where(missing > ENDING_MIN_DEFICIT, missing, 0.0)
    size = np.abs(value[0][rows.state])
    lengths = np.diff(rows.matrix.indptr)
    error += (row_sum_error + np.where(missing > 0, EPS * (lengths + 8), 0.0)) * size
    return residuals - missing * value[0][rows.state], error * (1 + 8 * EPS)


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
    absorption_time = bound_policy_hitting_time(prepared, actions, absorbing)
    if not np.isfinite(absorption_time):
        check_recurrent_classes(prepared.mdp, actions, True)
        raise ModelError("the total reward needs policies that end; this one is not proven to end")
    return PreparedModel(prepared.plan, prepared.tol, absorption_time), absorbing


@in_float64
def find_absorbing_states(prepared: PreparedModel) -> NDArray[np.bool_]:
    """(grid) whether a state ends the process; refuses a model whose end cannot be reached."""
    mdp = prepared.mdp
    if mdp.n_states <= CLASSES_MAX_STATES:
        absorbing = to_backend(prepared.backend, _find_absorbing_by_rows(mdp))
    else:
        random = 1 + np.random.default_rng(0).random(mdp.grid.shape)
        trial = to_backend(prepared.backend, random)
        dynamics = prepared.dynamics
        slack = 2 * EPS * (dynamics.rounding.backup_terms + 8)
        slack = np.float64(slack + 2 * dynamics.rounding.in_memory.row_error)
        absorbing = _find_absorbing_by_trial(prepared.backend, prepared.data, trial, slack)
    can_reach = _find_reaching_states(prepared.backend, prepared.data, absorbing)
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


def _find_absorbing_by_rows(mdp: MDP) -> NDArray[np.bool_]:
    """(grid) states whose feasible rows lead to themselves alone, and pay nothing."""
    is_absorbing = np.ones(mdp.n_states, dtype=bool)
    for action, matrix in enumerate(mdp.dynamics.to_sparse()):
        matrix.eliminate_zeros()
        is_self_loop = (np.diff(matrix.indptr) == 1) & (matrix.diagonal() > 1 - ENDING_MIN_DEFICIT)
        has_reward = mdp.dynamics.action_reward(action) != 0
        is_absorbing &= (is_self_loop & ~has_reward) | ~mdp.feasible_mask[:, action]
    return is_absorbing.reshape(mdp.grid.shape)


@compile_per_shape("backend")
def _find_absorbing_by_trial(backend, data: ModelData, trial, slack):
    """(grid) the same without rows; a probability of leaving below ``slack`` counts as 0."""
    xp = array_namespace(trial)
    operators = Operators(backend, data)
    expected = operators.expect(trial)
    reward = operators.expect(xp.zeros_like(trial), with_reward=True)

    def is_leaving(action):
        return (abs(expected(action) - trial) > slack) | (reward(action) != 0)

    return ~_mark_states(operators, xp.zeros(trial.shape, bool), is_leaving)


@compile_per_shape("backend")
def _find_reaching_states(backend, data: ModelData, absorbing):
    """(grid) from which states an end can be reached."""
    xp = array_namespace(absorbing)
    operators = Operators(backend, data)
    row_sum = operators.expect(xp.ones(absorbing.shape))

    def grow(carry):
        can_reach, _ = carry
        probability = operators.expect(can_reach.astype(float))
        extended = _mark_states(operators, can_reach, lambda action: probability(action) > 0)
        return extended, (extended != can_reach).any()

    first = _mark_states(operators, absorbing, lambda a: row_sum(a) < 1 - ENDING_MIN_DEFICIT)
    return xp.while_loop(lambda carry: carry[1], grow, (first, xp.array(True)))[0]


def _mark_states(operators: Operators, marked: Any, is_marked: Callable[[Any], Any]) -> Any:
    """(grid) where ``marked``, or where ``is_marked(action)`` holds for a feasible action."""
    feasible = operators.data.feasible

    def mark(action, found):
        is_new = is_marked(action)
        return found | (is_new if feasible is None else is_new & feasible[action])

    return fold_actions(operators.backend, mark, marked)
