"""The loop that every method shares, by NumPy or compiled.

Each round ends by evaluating a point: a backup b = T v (or T_pi v, when a policy is evaluated) and
what the criterion's kernel makes of the residual b - v. A stated bound can be
recomputed from the value's residual (``bound_error``). A method computes the next v from
(v, b, greedy policy).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tessella.errors import ArgumentError
from tessella.mdp.compilation import compile_per_shape
from tessella.mdp.dynamics import fold_actions
from tessella.numerics import NUMPY, array_namespace
from tessella.rounding import EPS
from tessella.solvers.method import Method
from tessella.solvers.multigrid import CoarseAxis, probe_coarse_system
from tessella.solvers.operators import ModelData, Operators, max_abs

DEFAULT_RELATIVE_TOLERANCE = 1e-12  # of the largest value: the target without a tolerance ...
TARGET_FLOOR_MULTIPLE = 2.0  # ... but for no less than this multiple of what rounding leaves
# Actions further apart than this, on the scale of values, never count as tied.
TIE_RELATIVE_WIDTH = 1e-9
SAFEGUARD_GROWTH_FACTOR = 1000.0  # a bound that widens by more than this calls for a plain sweep
FLOOR_REACHED_FACTOR = 1.1  # a bound this close to its floor will not get better


class IterationState(NamedTuple):
    """Where a run stands: a point, its backup, and what they say about the optimum.

    A run starts from a point that stands in for its own backup, with an infinite bound.
    """

    value: Any  # v, (grid)
    backup: Any  # b = T v, (grid)
    policy: Any  # greedy at v, (grid)
    shift: Any  # values are v + shift
    center: Any  # the optimum lies within b + center + shift, off by bound
    bound: Any
    floor: Any  # what rounding alone contributes to the bound
    changed: Any  # states whose greedy action changed in this sweep


def evaluate_point(
    operators: Operators, evaluates_policy: bool, value, shift, policy
) -> IterationState:
    """Back up ``value`` and enclose the optimum (the policy's value if ``evaluates_policy``)."""
    value, extra_shift = operators.criterion.split_shift(value)
    shift = shift + extra_shift
    operators = operators.for_shift(shift)
    backup, greedy = back_up(operators, evaluates_policy, value, policy)
    eta = operators.rounding(value, shift, backup)
    residual = backup - value
    max_size = max_abs(backup) + abs(shift)
    enclosure = operators.criterion.enclose(residual.min(), residual.max(), eta, max_size)
    return IterationState(value, backup, greedy, shift, *enclosure, (greedy != policy).sum())


def back_up(operators: Operators, evaluates_policy: bool, value, policy):
    """(T v, greedy policy), or (T_pi v, pi)."""
    if evaluates_policy:
        return operators.policy_bellman(policy, value), policy
    return operators.bellman(value)


def compute_rounding_floor(data: ModelData, floor):
    """What rounding leaves of the bound, however large the present point is.

    No value exceeds that of the largest reward in every period, so distant points change nothing.
    """
    n = data.accuracy
    criterion = data.criterion
    value_bound = criterion.value_bound(n.reward_scale)
    # All of it may stand in the shift, and then the gain is as large as a reward.
    sums = n.relative_rounding * (
        n.reward_scale + criterion.gain(value_bound) + criterion.discount * value_bound
    )
    model_error = n.reward_error + n.row_error * criterion.contraction_factor * value_bound
    eta = sums + model_error + criterion.row_sum_error(value_bound, value_bound)
    return array_namespace(floor).minimum(floor, criterion.bound_error(eta + 4 * EPS * value_bound))


def compute_target(data: ModelData, floor):
    """The bound at which a run may stop."""
    return _compute_target(data, compute_rounding_floor(data, floor))


def _compute_target(data: ModelData, rounding_floor):
    scale = data.criterion.value_of_constant_reward(data.accuracy.reward_scale)
    tol = data.accuracy.tol
    xp = array_namespace(rounding_floor)
    default_target = xp.maximum(
        data.accuracy.relative_tolerance * scale, TARGET_FLOOR_MULTIPLE * rounding_floor
    )
    return xp.where(tol > 0, tol, default_target)


def is_finished(data: ModelData, state: IterationState):
    rounding_floor = compute_rounding_floor(data, state.floor)
    is_done = (state.bound <= _compute_target(data, rounding_floor)) | (
        state.bound <= FLOOR_REACHED_FACTOR * rounding_floor
    )
    return is_done | array_namespace(state.bound).isnan(state.bound)


class IterationBatch(NamedTuple):
    """What a compiled batch of rounds reports."""

    state: IterationState
    n_rounds: Any  # done in this batch
    bounds: Any  # (chunk,) bound after each
    changes: Any  # (chunk,) states whose greedy action changed in each
    target: Any  # the bound that was asked for
    finished: Any


def compute_next_point(method: Method, operators: Operators, state: IterationState):
    """The method's next point, which must be one."""
    point = method.refine(operators, state)
    if array_namespace(state.value) is NUMPY and not isinstance(point, np.ndarray):
        point = np.asarray(point)
    if getattr(point, "shape", None) != state.value.shape:
        actual = getattr(point, "shape", None) or type(point).__name__
        raise ArgumentError(
            f"refine must return one array of the grid's shape {state.value.shape}, made with "
            "jax.numpy",
            location=method.name,
            value=f"gives {actual}",
        )
    return point


def evaluate_safeguarded(
    operators: Operators, evaluates_policy: bool, state: IterationState, point
) -> IterationState:
    """Evaluate ``point``; where that widens the bound by far, a plain step instead.

    The value of a policy may well have a wider bound than the point it was greedy at, while values
    propagate through the states. But if the rounding of a total alone exceeds the known bound, the
    policy does not end and its linear system is singular.

    A loop of one round or two, so that the evaluation is compiled once.
    """
    plain_step = operators.criterion.step(state.value, state.backup)

    def should_retry(carry):
        n_tries, _, new = carry
        is_worse = ~(new.bound < SAFEGUARD_GROWTH_FACTOR * state.bound)
        if operators.criterion.requires_absorption:
            is_worse = is_worse | (new.floor > TARGET_FLOOR_MULTIPLE * state.bound)
        return (n_tries == 0) | ((n_tries == 1) & is_worse)

    def try_next(carry):
        n_tries, point, _ = carry
        return (
            n_tries + 1,
            plain_step,
            evaluate_point(operators, evaluates_policy, point, state.shift, state.policy),
        )

    return array_namespace(point).while_loop(should_retry, try_next, (0, point, state))[2]


@compile_per_shape("backend", "method", "evaluates_policy", "chunk")
def run_rounds(
    backend,
    method: Method,
    evaluates_policy: bool,
    chunk: int,
    data: ModelData,
    state: IterationState,
    limit,
) -> IterationBatch:
    """Up to ``limit <= chunk`` rounds, each of which refines and evaluates a point."""
    operators = Operators(backend, data, evaluates_policy=evaluates_policy)
    xp = array_namespace(state.value)

    def should_continue(carry):
        state, k, *_ = carry
        return (k < limit) & ~is_finished(data, state)

    def run_round(carry):
        state, k, bounds, changes = carry
        point = compute_next_point(method, operators.for_shift(state.shift), state)
        if method.safeguarded:
            new = evaluate_safeguarded(operators, evaluates_policy, state, point)
        else:
            new = evaluate_point(operators, evaluates_policy, point, state.shift, state.policy)
        return new, k + 1, xp.put(bounds, k, new.bound), xp.put(changes, k, new.changed)

    initial = state, 0, xp.zeros(chunk), xp.zeros(chunk, state.changed.dtype)
    state, n_rounds, bounds, changes = xp.while_loop(should_continue, run_round, initial)
    status = compute_target(data, state.floor), is_finished(data, state)
    return IterationBatch(state, n_rounds, bounds, changes, *status)


@compile_per_shape("backend")
def run_plain_sweeps(backend, data: ModelData, value, count):
    """T^count v."""
    return Operators(backend, data).iterate_bellman(value, count)


@compile_per_shape("backend", "evaluates_policy")
def evaluate_first_point(
    backend, evaluates_policy: bool, data: ModelData, state: IterationState
) -> IterationState:
    """A run's first point, evaluated before a method refines it."""
    return evaluate_point(
        Operators(backend, data), evaluates_policy, state.value, state.shift, state.policy
    )


@compile_per_shape("backend", "axes")
def compute_coarse_system(backend, axes: tuple[CoarseAxis, ...], data: ModelData, policy):
    """What the system of the nodes of ``multigrid`` is made of, for a policy."""
    operators = Operators(backend, data)
    return probe_coarse_system(lambda e: operators.policy_expectation(policy, e), axes, policy)


@compile_per_shape("backend", "evaluates_policy")
def bound_error(backend, evaluates_policy: bool, data: ModelData, value, policy, extra):
    """What the residual of ``value`` proves: a bound on |value - V*|, or on |value - V_pi|.

    ``extra`` is a further error that a backup may have.
    """
    residual, eta = compute_bellman_residual(backend, evaluates_policy, data, value, policy, extra)
    return data.criterion.bound_error((1 + EPS) * max_abs(residual) + eta)


@compile_per_shape("backend", "evaluates_policy")
def compute_bellman_residual(
    backend, evaluates_policy: bool, data: ModelData, value, policy, extra
):
    """(T v - v, how far that may be off), or with T_pi."""
    operators, v, shift = center_values(backend, data, value)
    backup, _ = back_up(operators, evaluates_policy, v, policy)
    # v itself is off by half a unit of its last digit, and so is the difference.
    return backup - v, operators.rounding(v, shift, backup) + extra + EPS * max_abs(v)


def center_values(backend, data: ModelData, value):
    """(operators, value - shift, shift)."""
    operators = Operators(backend, data)
    v, shift = operators.criterion.split_shift(value)
    return operators.for_shift(shift), v, shift


@compile_per_shape("backend")
def compute_all_action_values(backend, data: ModelData, value):
    """(A, *grid) values of each action."""
    operators, v, shift = center_values(backend, data, value)
    q_of = operators.q(v)
    # One action at a time: stacking ready arrays would hold all of them twice.
    xp = array_namespace(v)
    return xp.map_items(lambda action: q_of(action) + shift, xp.arange(backend.n_actions))


class Decision(NamedTuple):
    """What the action values at a point say, without storing them."""

    margin: Any  # best minus second best; inf where only one action is feasible
    policy: Any  # the lowest action index among those that tie with the best
    tie: Any  # what the error of the value and rounding could overturn


@compile_per_shape("backend")
def decide(backend, data: ModelData, value, bound) -> Decision:
    """Compare the actions at ``value``, which is within ``bound`` of the optimum."""
    operators, v, shift = center_values(backend, data, value)
    eta = operators.rounding(v, shift)
    tie = 2 * (operators.criterion.contraction_factor * bound + eta)
    tie_width = tie_window(data, tie, eta)
    q_A = operators.compute_all_q(v)
    if q_A is not None:
        return Decision(*rank_actions(q_A, tie_width), tie)
    q_of = operators.q(v)
    best, second = find_best_two(backend, q_of, v)
    return Decision(best - second, pick_lowest_tied(backend, q_of, best, tie_width), tie)


def tie_window(data: ModelData, tie, eta):
    """How far below the best an action's value may be for its index to count: at most ``tie``.

    Computed action values are within tie / 2 of the optimal ones. So two actions that are equally
    good differ by at most ``tie``, and an action inside this width loses at most tie + width, that
    is 2 tie, where it is taken. A loose bound leaves much undecided, yet the best guess is still
    the greedy action: this width stays below ``TIE_RELATIVE_WIDTH``.
    """
    xp = array_namespace(eta)
    narrow = xp.minimum(
        tie,
        TIE_RELATIVE_WIDTH * data.criterion.value_of_constant_reward(data.accuracy.reward_scale),
    )
    return xp.maximum(narrow, 2 * eta)


def rank_actions(q_A, tie_width):
    """(grid) margins and the lowest actions near the best, from (A, grid) values of all actions."""
    best = q_A.max(axis=0)
    policy = (q_A >= best - tie_width).argmax(axis=0).astype(np.int32)
    if len(q_A) == 1:
        return np.full(best.shape, np.inf), policy
    return best - np.partition(q_A, -2, axis=0)[-2], policy


def pick_lowest_tied(backend, q_of, best, tie_width):
    """(grid) the lowest action index whose value is within ``tie_width`` of the best."""
    xp = array_namespace(best)

    def choose(action, chosen):
        is_tied = (chosen < 0) & (q_of(action) >= best - tie_width)
        return xp.where(is_tied, xp.asarray(action, xp.int32), chosen)

    return fold_actions(backend, choose, xp.full(best.shape, -1, xp.int32))


def find_best_two(backend, q_of, template):
    """(grid) values of the best action and of the second best; arrays are like ``template``."""
    xp = array_namespace(template)

    def rank(action, carry):
        best, second = carry
        q_S = q_of(action)
        return xp.maximum(best, q_S), xp.maximum(second, xp.minimum(best, q_S))

    lowest = xp.full(template.shape, -xp.inf)
    return fold_actions(backend, rank, (lowest, lowest))


class PolicyComparison(NamedTuple):
    """How a policy's actions compare with the best ones at a point."""

    margin: Any  # best minus second best
    local_loss: Any  # best minus the policy's
    tie: Any  # what the error of the value, rounding and ``extra`` could overturn


@compile_per_shape("backend")
def compare_policy(backend, data: ModelData, value, bound, policy, extra) -> PolicyComparison:
    """Compare the policy's actions with the best at ``value``, which is within ``bound`` of V*."""
    operators, v, shift = center_values(backend, data, value)
    xp = array_namespace(v)
    q_of = operators.q(v)
    eta = operators.rounding(v, shift)
    best, second = find_best_two(backend, q_of, v)

    def pick(action, picked):
        return xp.where(policy == action, q_of(action), picked)

    # Not the policy's own sweep: its rounding may differ, and the best action must lose 0.
    chosen = fold_actions(backend, pick, xp.zeros(value.shape))
    tie = 2 * (operators.criterion.contraction_factor * bound + eta + extra)
    return PolicyComparison(best - second, best - chosen, tie)
