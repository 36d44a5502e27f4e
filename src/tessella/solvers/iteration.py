"""One iteration, the same for every method, by NumPy or compiled; ``loop`` runs them in batches.

An iteration asks the method for its next point v, computed from (v, b, greedy policy) of the last
one, backs it up, b = T v (or T_pi v, when a policy is evaluated), and lets the criterion's kernel
turn the residual b - v into a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.mdp.compilation import compile_per_shape, in_float64
from tessella.numerics import NUMPY, array_namespace
from tessella.solvers.method import Method
from tessella.solvers.operators import (
    TARGET_FLOOR_MULTIPLE,
    ModelData,
    Operators,
    compute_rounding_floor,
    compute_target,
    max_abs,
)

if TYPE_CHECKING:
    from tessella.solvers.prepared_model import PreparedModel

SAFEGUARD_GROWTH_FACTOR = 1000.0  # a bound that widens by more than this calls for a plain sweep
FLOOR_REACHED_FACTOR = 1.1  # a bound this close to its floor will not get better


class IterationState(NamedTuple):
    """The state of a run: a point, its backup, and what they say about the optimum.

    A run starts from a point that takes the place of its own backup, with an infinite bound.
    """

    value: Any  # v, (grid)
    backup: Any  # b = T v, (grid)
    policy: Any  # greedy at v, (grid)
    shift: Any  # values are v + shift
    center: Any  # the optimum is b + center + shift, off by at most the bound
    bound: Any
    floor: Any  # what rounding alone contributes to the bound
    changed: Any  # states whose greedy action changed in this sweep


def back_up_and_enclose(operators: Operators, value, shift, policy) -> IterationState:
    """Back up ``value`` and enclose the optimum, or the policy's value."""
    value, extra_shift = operators.criterion.split_shift(value)
    shift = shift + extra_shift
    operators = operators.for_shift(shift)
    backup, greedy = back_up(operators, value, policy)
    eta = operators.bound_rounding(value, shift, backup)
    residual = backup - value
    max_size = max_abs(backup) + abs(shift)
    enclosure = operators.criterion.enclose(residual.min(), residual.max(), eta, max_size)
    return IterationState(value, backup, greedy, shift, *enclosure, (greedy != policy).sum())


# For a point without the iterations that follow.
enclose_point = compile_per_shape()(back_up_and_enclose)


def back_up(operators: Operators, value, policy):
    """(T v, greedy policy), or (T_pi v, pi)."""
    if operators.evaluates_policy:
        return operators.policy_bellman(policy, value), policy
    return operators.bellman(value)


def is_finished(data: ModelData, state: IterationState):
    """Whether the bound is at the target or at its floor, or is not a number."""
    floor = FLOOR_REACHED_FACTOR * compute_rounding_floor(data, state.floor)
    target = compute_target(data, state.floor)
    return ~((state.bound > target) & (state.bound > floor))


class IterationBatch(NamedTuple):
    """What a compiled batch of iterations reports."""

    state: IterationState
    n_iterations: Any  # done in this batch
    bounds: Any  # (batch_size,) bound after each
    changes: Any  # (batch_size,) states whose greedy action changed in each
    target: Any  # the bound to be reached
    finished: Any


def compute_next_point(method: Method, operators: Operators, state: IterationState):
    """The method's next point, checked to have the grid's shape."""
    point = method.step(operators, state)
    if array_namespace(state.value) is NUMPY and not isinstance(point, np.ndarray):
        point = np.asarray(point)
    if getattr(point, "shape", None) != state.value.shape:
        actual = getattr(point, "shape", None) or type(point).__name__
        raise ArgumentError(
            f"step must return one array of the grid's shape {state.value.shape}, made with "
            "jax.numpy",
            location=method.name,
            value=f"gives {actual}",
        )
    return point


def back_up_safeguarded(operators: Operators, state: IterationState, point) -> IterationState:
    """Back up ``point``; where that widens the bound by far, take a plain step instead.

    The value of a policy may well have a wider bound than the point it was greedy at, while values
    propagate through the states. With a discount and a bound e at that point it is within 2 e of
    V*, so its own bound is at most 4 e / (1 - discount), which a direct solve may reach. But if the
    rounding of a total alone exceeds the known bound, the policy does not end and its linear system
    is singular.

    A loop of one or two passes, so that the backup is compiled once.
    """
    plain_step = operators.criterion.next_iterate(state.value, state.backup)
    max_growth = SAFEGUARD_GROWTH_FACTOR
    if operators.has_direct_solve:
        max_growth += operators.criterion.value_of_constant_reward(4.0)

    def should_retry(carry):
        n_tries, _, new = carry
        is_worse = ~(new.bound < max_growth * state.bound)
        if operators.criterion.requires_absorption:
            is_worse = is_worse | (new.floor > TARGET_FLOOR_MULTIPLE * state.bound)
        return (n_tries == 0) | ((n_tries == 1) & is_worse)

    def try_next(carry):
        n_tries, point, _ = carry
        start = point, state.shift, state.policy
        return n_tries + 1, plain_step, back_up_and_enclose(operators, *start)

    return array_namespace(point).while_loop(should_retry, try_next, (0, point, state))[2]


@compile_per_shape("method", "batch_size")
def run_iterations(
    method: Method, batch_size: int, operators: Operators, state: IterationState, limit
) -> IterationBatch:
    """Up to ``limit <= batch_size`` iterations, each of which computes a point and backs it up."""
    data = operators.data
    xp = array_namespace(state.value)

    def should_continue(carry):
        state, k, *_ = carry
        return (k < limit) & ~is_finished(data, state)

    def run_iteration(carry):
        state, k, bounds, changes = carry
        point = compute_next_point(method, operators.for_shift(state.shift), state)
        if method.safeguarded:
            new = back_up_safeguarded(operators, state, point)
        else:
            new = back_up_and_enclose(operators, point, state.shift, state.policy)
        return new, k + 1, xp.put(bounds, k, new.bound), xp.put(changes, k, new.changed)

    initial = state, 0, xp.zeros(batch_size), xp.zeros(batch_size, state.changed.dtype)
    state, n_iterations, bounds, changes = xp.while_loop(should_continue, run_iteration, initial)
    status = compute_target(data, state.floor), is_finished(data, state)
    return IterationBatch(state, n_iterations, bounds, changes, *status)


def make_initial_state(
    prepared: PreparedModel, value: NDArray | None, policy: NDArray | None
) -> IterationState:
    """Where a run begins: at ``value`` and ``policy``, or at zeros."""
    shape = prepared.mdp.grid.shape
    if value is None and policy is None:
        return _make_state(*prepared.make_zeros())
    point = np.zeros(shape) if value is None else np.asarray(value, dtype=float)
    n_bad = int(np.count_nonzero(~np.isfinite(point)))
    if point.size != prepared.mdp.n_states or n_bad:
        requirement = f"a guess must hold finite values of shape {shape}"
        got = f"{n_bad:,} are not finite" if n_bad else f"got shape {point.shape}"
        raise ArgumentError(requirement, value=got)
    if prepared.mdp.dynamics.reward_scale == 0:
        point = np.zeros(shape)  # all values are 0; a distant guess would decay slowly
    actions = np.zeros(shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    return _make_state(*(prepared.to_device(array.reshape(shape)) for array in (point, actions)))


def _make_state(v, pi) -> IterationState:
    zero = np.float64(0)
    return IterationState(v, v, pi, zero, zero, np.float64(np.inf), zero, np.int64(0))


@in_float64
def run_sweeps(prepared: PreparedModel, count: int) -> Any:
    """(grid) the point after ``count`` plain sweeps from zero: for timing them."""
    value, _ = prepared.make_zeros()
    sweep = compile_per_shape()(Operators.iterate_bellman)
    return sweep(prepared.make_operators(), value, np.int64(count))
