"""What is proven at one point v of a model: residual bounds, ties, and the best two actions.

*Residual.* The exact backup T v lies within eta (``Operators.bound_rounding``) of the computed
one, so the residual d = T v - v is known within eta, and the criterion turns it into a bound on
the error:

    |v - V*| <= bound_error(max|d| + eta),      max|d| / (1 - c) when rewards are discounted.

*Ties.* Let |v - V*| <= e, and c the contraction factor (discount times the largest row sum). An
action value is one backup of v without the maximum, so

    |q(s, a) - Q*(s, a)| <= c e + eta,      tie = 2 (c e + eta),

and an action that leads by more than ``tie`` is certainly better (``compute_tie_tolerance``). Where
``policy_proof`` bounds differences of action values by less than 2 c e, that takes its place. Two
equally good actions differ by at most ``tie``. Where several are within a width of the best, the
lowest index is taken, so that policies do not depend on the method; such an action loses at most
tie + width where it is taken. A loose bound leaves much undecided, yet the best guess is still the
greedy action, so the width is limited (``compute_tie_width``):

    width = max(min(tie, 1e-9 scale of values), 2 eta).

*Best two.* The margin of a state is its best action value minus the second best. Both come from one
pass over the actions, which stores no states x actions (``rank_actions``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.compilation import compile_per_shape, in_float64
from tessella.mdp.dynamics import fold_actions
from tessella.numerics import array_namespace, as_read_only
from tessella.rounding import EPS
from tessella.solvers.iteration import back_up, enclose_point, make_initial_state
from tessella.solvers.operators import ModelData, Operators, max_abs

if TYPE_CHECKING:
    from tessella.solvers.prepared_model import PreparedModel

# Actions further apart than this, on the scale of values, never count as tied.
TIE_RELATIVE_WIDTH = 1e-9


def compute_tie_tolerance(carried_error, backup_error):
    """2 (c e + eta): by how much an action value must lead to be certainly better.

    ``carried_error`` is c e, what the error of the values does to an action value.
    """
    return 2 * (carried_error + backup_error)


def compute_tie_width(data: ModelData, tie_tolerance, action_value_error):
    """How far below the best an action may be and still count as tied: at most the tolerance."""
    xp = array_namespace(action_value_error)
    scale = data.criterion.value_of_constant_reward(data.accuracy.reward_scale)
    return xp.maximum(xp.minimum(tie_tolerance, TIE_RELATIVE_WIDTH * scale), 2 * action_value_error)


def find_best_two(backend, q_of, template):
    """(grid) values of the best action and of the second best; arrays are like ``template``."""
    xp = array_namespace(template)

    def rank(action, carry):
        best, second = carry
        q_S = q_of(action)
        return xp.maximum(best, q_S), xp.maximum(second, xp.minimum(best, q_S))

    lowest = xp.full(template.shape, -xp.inf)
    return fold_actions(backend, rank, (lowest, lowest))


def rank_actions(backend, q_of, template, tie_width):
    """(grid) (best action value, best minus second best, lowest action index among the tied).

    ``q_of(action)`` has the action values; a state with one feasible action has an infinite margin.
    """
    best, second = find_best_two(backend, q_of, template)
    xp = array_namespace(best)

    def choose(action, chosen):
        is_tied = (chosen < 0) & (q_of(action) >= best - tie_width)
        return xp.where(is_tied, xp.asarray(action, xp.int32), chosen)

    policy = fold_actions(backend, choose, xp.full(best.shape, -1, xp.int32))
    return best, best - second, policy


class GreedyPolicy(NamedTuple):
    """The greedy policy at a point and its margins."""

    margin: Any  # best minus second best; inf where only one action is feasible
    policy: Any  # the lowest action index among those that tie with the best
    tie_tolerance: Any  # what the error of the value and rounding could overturn, or (slices) that


@in_float64
def decide(
    prepared: PreparedModel, value: Any, bound: float, comparison_error: NDArray | None = None
) -> GreedyPolicy:
    """Compare the actions at ``value``, which is within ``bound`` of the optimum.

    ``comparison_error`` (slices) is what ``policy_proof`` knows of differences of action values.
    """
    point = prepared.from_result(value)
    carried_error = prepared.data.criterion.contraction_factor * np.float64(bound)
    if comparison_error is not None:
        carried_error = np.minimum(carried_error, comparison_error / 2)
    decision = _decide(prepared.make_operators(), point, carried_error)
    tolerance = np.asarray(decision.tie_tolerance)
    return GreedyPolicy(
        prepared.to_result(decision.margin),
        prepared.to_result(decision.policy),
        tolerance if tolerance.ndim else float(tolerance),
    )


@compile_per_shape()
def _decide(operators: Operators, value, carried_error) -> GreedyPolicy:
    data = operators.data
    operators, v, shift = subtract_shift(operators, value)
    action_value_error = operators.bound_rounding(v, shift)
    tie_tolerance = compute_tie_tolerance(carried_error, action_value_error)
    tie_width = compute_tie_width(data, tie_tolerance, action_value_error)
    q_A = operators.compute_all_q(data.criterion.discount * v)
    q_of = operators.q(v) if q_A is None else q_A.__getitem__
    _, margin, policy = rank_actions(operators.backend, q_of, v, tie_width)
    return GreedyPolicy(margin, policy, tie_tolerance)


@in_float64
def compute_q_values(prepared: PreparedModel, value: NDArray) -> NDArray[np.float64]:
    """(grid, A) action values at ``value``."""
    q_A = _compute_q_values(prepared.make_operators(), np.asarray(value))
    return as_read_only(np.moveaxis(np.asarray(q_A), 0, -1))


@compile_per_shape()
def _compute_q_values(operators: Operators, value):
    """(A, *grid)"""
    operators, v, shift = subtract_shift(operators, value)
    q_of = operators.q(v)
    # One action at a time: stacking ready arrays would hold all of them twice.
    xp = array_namespace(v)
    return xp.map_items(lambda action: q_of(action) + shift, xp.arange(operators.backend.n_actions))


def bound_error(prepared: PreparedModel, value: NDArray, policy: NDArray | None = None) -> float:
    """Bound on |value - V*|, or on |value - V_pi|, from nothing but the value's residual."""
    residual, error = compute_bellman_residual(prepared, value, policy)
    return float(prepared.data.criterion.bound_error((1 + EPS) * max_abs(residual) + error))


@in_float64
def compute_bellman_residual(
    prepared: PreparedModel, value: NDArray, policy: NDArray | None = None
) -> tuple[NDArray[np.float64], float]:
    """((grid) T v - v or T_pi v - v, its error); of the arrays of a model file, too."""
    table = np.zeros(value.shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    point = np.asarray(value, dtype=float)
    operators = prepared.make_operators(policy is not None)
    residual, error = _compute_residual(operators, point, table)
    return np.asarray(residual), float(error) + prepared.saved_backup_error(value)


@compile_per_shape()
def _compute_residual(operators: Operators, value, policy):
    operators, v, shift = subtract_shift(operators, value)
    backup, _ = back_up(operators, v, policy)
    return backup - v, bound_residual_error(operators, v, shift, backup)


def bound_residual_error(operators: Operators, v, shift, backup):
    """How far the computed residual backup - v may be off."""
    # v itself is off by half a unit of its last digit, and so is the difference.
    return operators.bound_rounding(v, shift, backup) + EPS * max_abs(v)


@in_float64
def enclose_gain(
    prepared: PreparedModel, value: NDArray, policy: NDArray | None, extra_error: float
) -> tuple[float, float]:
    """(gain, by how much it may be off): of the best policy, or of ``policy``, from every state.

    From nothing but the residual of the relative values ``value``, off by ``extra_error`` more.
    """
    state = make_initial_state(prepared, value, policy)
    operators = prepared.make_operators(policy is not None)
    evaluated = enclose_point(operators, state.value, state.shift, state.policy)
    # The middle that is taken out of the values is itself off by half a unit of its last digit.
    error = float(evaluated.bound) + extra_error + 4 * EPS * float(np.ptp(value))
    return float(evaluated.center), error * (1 + 8 * EPS)


def subtract_shift(operators: Operators, value):
    """(operators for the shift, value - shift, shift)."""
    v, shift = operators.criterion.split_shift(value)
    return operators.for_shift(shift), v, shift
