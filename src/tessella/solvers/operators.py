"""The operators of a model, by NumPy or compiled: T, T_pi and P_pi in the usual notation.

    q(s, a) = r(s, a) - offset + discount sum_s' P(s' | s, a) v(s'),
    (T v)(s) = max_a q(s, a),        (T_pi v)(s) = q(s, pi(s)).

Values are stored as V = v + shift with ``shift`` near their middle: sweeping a part that all states
share would cost digits. The ``reward_offset`` is what the shift takes off each period's reward. A
method of solving sees a model as these operators and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tessella.criteria.criterion import CriterionKernel
from tessella.mdp.dynamics import Backend, fold_actions
from tessella.numerics import array_namespace
from tessella.rounding import EPS
from tessella.solvers.multigrid import apply_correction

DEFAULT_RELATIVE_TOLERANCE = 1e-12  # of the largest value: the target without a tolerance ...
TARGET_FLOOR_MULTIPLE = 2.0  # ... but no less than this multiple of what rounding leaves
MIN_REWARD_SCALE = 1e-280  # rewards below this are rejected: their products could vanish


class ErrorParameters(NamedTuple):
    """What rounding and building do to a backup; numbers, so that changing them is free."""

    relative_rounding: np.float64  # rounding of a backup, relative to what goes in
    row_error: np.float64  # relative error of the rows: what building the model cost
    reward_error: np.float64  # absolute error of the rewards, likewise
    reward_scale: np.float64
    tol: np.float64  # 0: the default target
    # The default target: this share of the largest value, above rounding.
    relative_tolerance: np.float64
    max_floor: np.float64 = np.float64(np.inf)  # see ``bound_rounding_floor``


class ModelData(NamedTuple):
    """The numbers of a model, as compiled functions take them."""

    arrays: Any  # of the dynamics
    feasible: Any  # (A, *grid), or None
    criterion: CriterionKernel
    accuracy: ErrorParameters
    coarse_correction: Any = None  # preconditioner of slowly mixing chains: see ``multigrid``


@dataclass(frozen=True)
class Operators:
    """The operators of one model; values are arrays of the grid's shape.

    Compiled functions take them like an array, and are compiled again for another backend.
    """

    backend: Backend
    data: ModelData
    reward_offset: Any = 0.0  # what the shift of the values takes off each reward
    evaluates_policy: bool = False  # whether a policy is evaluated, and no optimum is sought

    @property
    def criterion(self) -> CriterionKernel:
        return self.data.criterion

    @property
    def is_compiled(self) -> bool:
        """Whether JAX computes; else NumPy does."""
        return self.backend.is_compiled

    def with_data(self, data: ModelData) -> Operators:
        """The operators with other numbers, such as those of another accuracy."""
        return replace(self, data=data)

    def for_shift(self, shift: Any) -> Operators:
        """The operators for values less ``shift``."""
        return replace(self, reward_offset=self.criterion.reward_shift(shift))

    def q(self, value: Any) -> Callable[[Any], Any]:
        """action -> (grid) its values at ``value``, -inf where it is infeasible."""
        return self.q_of_discounted(self.criterion.discount * value)

    def q_of_discounted(self, discounted: Any) -> Callable[[Any], Any]:
        """The same from discount * value."""
        feasible = self.data.feasible
        xp = array_namespace(discounted)
        back_up = self.expect(discounted, include_reward=True)

        def q_of(action):
            q_S = back_up(action) - self.reward_offset
            return q_S if feasible is None else xp.where(feasible[action], q_S, -xp.inf)

        return q_of

    def expect(self, w: Any, include_reward: bool = False) -> Callable[[Any], Any]:
        """action -> (grid) P_a w, with what the action pays if ``include_reward``."""
        arrays = self.data.arrays
        shared = self.backend.shared_backup(arrays, w, include_reward)
        return lambda action: self.backend.action_backup(arrays, shared, action, include_reward)

    def bellman(self, value: Any) -> tuple[Any, Any]:
        """(T v, greedy action), without storing states x actions unless they are few."""
        return self._maximise_action(self.criterion.discount * value)

    def compute_all_q(self, discounted: Any) -> Any:
        """(A, grid) the values of all actions, where they are few and NumPy computes; else None."""
        q_A = self.backend.all_action_values(self.data.arrays, discounted)
        feasible = self.data.feasible
        if q_A is None:
            return None
        q_A -= self.reward_offset
        return q_A if feasible is None else np.where(feasible, q_A, -np.inf)

    def iterate_bellman(self, value: Any, count: Any) -> Any:
        """The point after ``count`` sweeps of T."""
        return self._sweep(self._maximise_value, value, count)

    def iterate_greedy(self, policy: Any, value: Any, count: Any) -> Any:
        """The point after ``count`` sweeps: of T, or of T_pi where a policy is evaluated."""
        if not self.evaluates_policy:
            return self.iterate_bellman(value, count)
        return self._sweep(
            lambda w: self._back_up_policy(policy, w, True) - self.reward_offset, value, count
        )

    def sum_neumann_series(self, policy: Any, first: Any, count: Any) -> tuple[Any, Any, Any]:
        """Sums of ``count`` terms of first + discount P_pi first + ..., of one more, and of two.

        Where the criterion damps sweeps, these are the points that damped sweeps lead to.
        """

        def add_term(w):
            return first + self._back_up_policy(policy, w, False)

        partial_sum = self._sweep(add_term, first, count - 1)
        next_sum = self._sweep(add_term, partial_sum, 1)
        return partial_sum, next_sum, self._sweep(add_term, next_sum, 1)

    def _sweep(self, back_up: Callable[[Any], Any], value: Any, count: Any) -> Any:
        """The point after ``count`` sweeps, where ``back_up`` takes the discounted point.

        The discounting is fused with the sweeps; a criterion that damps has no discount.
        """
        discount = self.criterion.discount
        next_iterate = self.criterion.next_iterate
        w = array_namespace(value).iterate(
            count - 1, lambda w: next_iterate(w, discount * back_up(w)), discount * value
        )
        return next_iterate(w, back_up(w))

    def _maximise_value(self, discounted: Any) -> Any:
        q_A = self.compute_all_q(discounted)
        return self._maximise_action(discounted)[0] if q_A is None else q_A.max(axis=0)

    def _maximise_action(self, discounted: Any) -> tuple[Any, Any]:
        q_A = self.compute_all_q(discounted)
        if q_A is not None:
            return q_A.max(axis=0), q_A.argmax(axis=0).astype(np.int32)
        q_of = self.q_of_discounted(discounted)
        xp = array_namespace(discounted)

        def step(action, carry):
            best, greedy = carry
            q_S = q_of(action)
            is_better = q_S > best
            greedy = xp.where(is_better, xp.asarray(action, xp.int32), greedy)
            return xp.where(is_better, q_S, best), greedy

        lowest = xp.full(discounted.shape, -xp.inf, discounted.dtype)
        start = lowest, xp.zeros(discounted.shape, xp.int32)
        return fold_actions(self.backend, step, start)

    @property
    def has_cheap_bellman(self) -> bool:
        """Whether an optimum is sought, and sweeps over all actions cost little."""
        seeks_optimum = not self.evaluates_policy and self.has_direct_solve
        return seeks_optimum and self.backend.sweeps_are_cheap(self.data.arrays)

    @property
    def has_long_rows(self) -> bool:
        """Whether rows have enough entries that their factors fill up."""
        return self.backend.has_long_rows(self.data.arrays)

    def policy_bellman(self, policy: Any, value: Any) -> Any:
        """T_pi v."""
        return (
            self._back_up_policy(policy, self.criterion.discount * value, True) - self.reward_offset
        )

    def policy_expectation(self, policy: Any, value: Any) -> Any:
        """discount P_pi v, in the precision of v."""
        return self._back_up_policy(policy, self.criterion.discount * value, False)

    def _back_up_policy(self, policy, discounted, include_reward: bool):
        return self.backend.policy_backup(self.data.arrays, discounted, policy, include_reward)

    def policy_system(self, policy: Any, unknown: Any) -> Any:
        """h + g - discount P_pi h: the left side of the linear system of a policy.

        The unknown holds the values h, and where the criterion knows one, the gain g.
        """
        value, gain = self.criterion.split_unknowns(unknown)
        return value + gain - self.policy_expectation(policy, value)

    @property
    def has_direct_solve(self) -> bool:
        """Whether that system can be solved directly where iterations get nowhere."""
        return self.backend.has_direct_solve and self.criterion.discount < 1

    def solve_policy_system(self, policy: Any, residual: Any) -> Any:
        """Its solution for a right side."""
        discount = self.criterion.discount
        return self.backend.solve_policy_system(self.data.arrays, residual, policy, discount)

    def policy_system_adjoint(self, policy: Any, template: Any) -> Callable[[Any], Any]:
        """x -> A' x, with A the matrix of ``policy_system``, for arrays like ``template``.

        The gain is the mean of the unknown, added to every row: that part is its own adjoint.
        """
        adjoint = self.backend.policy_adjoint(self.data.arrays, policy, template)
        criterion = self.criterion
        return lambda x: x + criterion.split_unknowns(x)[1] - criterion.discount * adjoint(x)

    def preconditioner(self, adjoint: bool = False) -> Callable[[Any], Any] | None:
        """A rough inverse of that system, or of its adjoint, where there is a coarse correction."""
        correction = self.data.coarse_correction
        if correction is None:
            return None
        return partial(apply_correction, correction, adjoint=adjoint)

    def add_correction(self, value: Any, unknown: Any) -> Any:
        """``value`` improved by the solution of that system."""
        return value + self.criterion.split_unknowns(unknown)[0]

    def policy_step(self, policy: Any, value: Any) -> Any:
        """The next point of plain sweeps of a policy."""
        return self.criterion.next_iterate(value, self.policy_bellman(policy, value))

    def bound_rounding(self, value: Any, shift: Any, backup: Any = None) -> Any:
        """eta: how far computed action values at ``value``, and at shift + value, may be off.

        With a ``backup``, how far that is off, which only the best actions decide. In a table a
        reward is an action value less the discounted next values, so rewards of the best actions
        are no larger than |b| + |offset| + c max|v|, however large those of other actions are.
        """
        accuracy = self.data.accuracy
        max_value = max_abs(value)
        max_reward = accuracy.reward_scale
        if backup is not None and self.backend.has_separate_reward:
            discounted_size = self.criterion.contraction_factor * max_value
            max_size = max_abs(backup) + abs(self.reward_offset) + discounted_size
            max_size = (1 + 4 * accuracy.relative_rounding) * max_size + MIN_REWARD_SCALE
            max_reward = np.minimum(max_reward, max_size)
        return _bound_backup_error(self.data, max_reward, abs(self.reward_offset), max_value, shift)


def _bound_backup_error(data: ModelData, max_reward, max_offset, max_value, shift):
    """What rounding and building do to a backup of values up to ``max_value``, and of a shift."""
    accuracy = data.accuracy
    criterion = data.criterion
    rounded = max_reward + max_offset + criterion.discount * max_value
    row_error = accuracy.row_error * criterion.contraction_factor * max_value
    row_sum_error = criterion.bound_row_sum_error(shift, max_value)
    model_error = accuracy.reward_error + row_error
    return accuracy.relative_rounding * rounded + row_sum_error + model_error


def max_abs(x: Any) -> Any:
    """max |x|."""
    return abs(x).max()


def bound_rounding_floor(data: ModelData) -> np.float64:
    """The part of the bound that is due to rounding, at most, however large a point is.

    No value exceeds that of the largest reward in every period, so distant points change nothing.
    """
    criterion = data.criterion
    max_reward = data.accuracy.reward_scale
    max_value = criterion.bound_value(max_reward)
    # All of it may be in the shift, and then the offset is as large as a reward.
    max_offset = criterion.reward_shift(max_value)
    backup_error = _bound_backup_error(data, max_reward, max_offset, max_value, max_value)
    return np.float64(criterion.bound_error(backup_error + 4 * EPS * max_value))


def compute_rounding_floor(data: ModelData, floor):
    """The part of the bound that is due to rounding, where the present point has ``floor``."""
    return array_namespace(floor).minimum(floor, data.accuracy.max_floor)


def compute_target(data: ModelData, floor):
    """The bound at which a run may stop: the tolerance, or without one what rounding allows."""
    rounding_floor = compute_rounding_floor(data, floor)
    scale = data.criterion.value_of_constant_reward(data.accuracy.reward_scale)
    tol = data.accuracy.tol
    xp = array_namespace(rounding_floor)
    default_target = xp.maximum(
        data.accuracy.relative_tolerance * scale, TARGET_FLOOR_MULTIPLE * rounding_floor
    )
    return xp.where(tol > 0, tol, default_target)
