"""The loop that every method shares, by NumPy or compiled.

Each round ends with a look at a point: a backup b = T v (or T_pi v, when a policy is evaluated) and
what the criterion's enclosure makes of the residual b - v. A stated bound is one that anybody can
find again from the value alone, by its residual (``prove``). A method is no more than a way from
(v, b, greedy policy) to the next v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tessella.criteria.total import Ending
from tessella.errors import ArgumentError
from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled
from tessella.numerics import NUMPY, numerics
from tessella.rounding import EPS
from tessella.solvers.coarse import Cuts, small_system
from tessella.solvers.method import Method
from tessella.solvers.operators import Data, Operators, size

RELATIVE = 1e-12  # without a tolerance, aim for this share of the largest value ...
ABOVE_FLOOR = 2.0  # ... but for no less than this multiple of what rounding leaves
TIED = 1e-9  # actions further apart than this, on the scale of values, never count as tied
WIDER = 1000.0  # a bound that widens by more than this calls for a plain sweep
AT_FLOOR = 1.1  # a bound this close to its floor will not get better


class State(NamedTuple):
    """Where a run stands: a point, its backup, and what they say about the optimum.

    A run starts from a point that stands in for its own backup, with an infinite bound.
    """

    value: Any  # v, (grid)
    backup: Any  # b = T v, (grid)
    policy: Any  # greedy at v, (grid)
    shift: Any  # values are v + shift
    middle: Any  # the optimum lies within b + middle + shift, off by bound
    bound: Any
    floor: Any  # what rounding alone contributes to the bound
    changed: Any  # states whose greedy action changed in this sweep


def look(operators: Operators, fixed: bool, value, shift, policy) -> State:
    """Back up ``value`` and enclose the optimum (or the policy's value, when it is ``fixed``)."""
    value, more = operators.criterion.split(value)
    shift = shift + more
    operators = operators.around(shift)
    backup, greedy = back_up(operators, fixed, value, policy)
    eta = operators.rounding(value, shift, backup)
    residual, sizes = backup - value, size(backup) + abs(shift)
    proven = operators.criterion.enclose(residual.min(), residual.max(), eta, sizes)
    return State(value, backup, greedy, shift, *proven, (greedy != policy).sum())


def back_up(operators: Operators, fixed: bool, value, policy):
    """(T v, greedy policy), or (T_pi v, pi)."""
    if fixed:
        return operators.sweep(policy, value), policy
    return operators.bellman(value)


def least(data: Data, floor):
    """What rounding leaves of the bound, however large the present point is.

    No value exceeds that of the largest reward, paid for ever, so a far-off point is no excuse.
    """
    n, criterion = data.numbers, data.criterion
    largest = criterion.reach(n.reward_scale)
    # All of it may stand in the shift, and then the gain is as large as a reward.
    sums = n.unit * (n.reward_scale + criterion.gain(largest) + criterion.discount * largest)
    built = n.reward_error + n.row_error * criterion.largest * largest
    eta = sums + built + criterion.uneven(largest, largest)
    return numerics(floor).minimum(floor, criterion.error(eta + 4 * EPS * largest))


def target(data: Data, floor):
    """The bound at which a run may stop."""
    return _target(data, least(data, floor))


def _target(data: Data, least_floor):
    scale, tol = data.criterion.forever(data.numbers.reward_scale), data.numbers.tol
    xp = numerics(least_floor)
    aim = xp.maximum(data.numbers.relative * scale, ABOVE_FLOOR * least_floor)
    return xp.where(tol > 0, tol, aim)


def finished(data: Data, state: State):
    floor = least(data, state.floor)
    done = (state.bound <= _target(data, floor)) | (state.bound <= AT_FLOOR * floor)
    return done | numerics(state.bound).isnan(state.bound)


class Stretch(NamedTuple):
    """What a compiled stretch of rounds reports."""

    state: State
    rounds: Any  # done in this stretch
    bounds: Any  # (chunk,) bound after each
    changes: Any  # (chunk,) states whose greedy action changed in each
    target: Any  # the bound that was asked for
    finished: Any


def refined(method: Method, operators: Operators, state: State):
    """The method's next point, which must be one."""
    point = method.refine(operators, state)
    if numerics(state.value) is NUMPY and not isinstance(point, np.ndarray):
        point = np.asarray(point)
    if getattr(point, "shape", None) != state.value.shape:
        got = getattr(point, "shape", None) or type(point).__name__
        raise ArgumentError(
            f"refine must return one array of the grid's shape {state.value.shape}, made with "
            "jax.numpy",
            place=method.name,
            value=f"gives {got}",
        )
    return point


def guarded(operators: Operators, fixed: bool, state: State, point) -> State:
    """Look at ``point``; where that widens the bound by far, at a plain step instead.

    The value of a policy may well have a wider bound than the point it was greedy at, while what it
    will be worth travels through the states. But a total whose rounding alone is worse than what is
    known already is none: the policy never ends, and its linear system has no solution.

    A loop of one round or two, so that the look is compiled once.
    """
    step = operators.criterion.step(state.value, state.backup)

    def again(carry):
        looks, _, new = carry
        far = ~(new.bound < WIDER * state.bound)
        if isinstance(operators.criterion, Ending):
            far = far | (new.floor > ABOVE_FLOOR * state.bound)
        return (looks == 0) | ((looks == 1) & far)

    def try_next(carry):
        looks, point, _ = carry
        return looks + 1, step, look(operators, fixed, point, state.shift, state.policy)

    return numerics(point).loop(again, try_next, (0, point, state))[2]


@compiled("program", "method", "fixed", "chunk")
def advance(
    program, method: Method, fixed: bool, chunk: int, data: Data, state: State, limit
) -> Stretch:
    """Up to ``limit <= chunk`` rounds of refine and look."""
    operators, xp = Operators(program, data, fixed=fixed), numerics(state.value)

    def go_on(carry):
        state, k, *_ = carry
        return (k < limit) & ~finished(data, state)

    def round_(carry):
        state, k, bounds, changes = carry
        point = refined(method, operators.around(state.shift), state)
        if method.safeguarded:
            new = guarded(operators, fixed, state, point)
        else:
            new = look(operators, fixed, point, state.shift, state.policy)
        return new, k + 1, xp.put(bounds, k, new.bound), xp.put(changes, k, new.changed)

    start = state, 0, xp.zeros(chunk), xp.zeros(chunk, state.changed.dtype)
    state, rounds, bounds, changes = xp.loop(go_on, round_, start)
    done = target(data, state.floor), finished(data, state)
    return Stretch(state, rounds, bounds, changes, *done)


@compiled("program")
def plain_sweeps(program, data: Data, value, count):
    """T^count v."""
    return Operators(program, data).swept(value, count)


@compiled("program", "fixed")
def first_look(program, fixed: bool, data: Data, state: State) -> State:
    """A run's first point, looked at before anything is made of it."""
    return look(Operators(program, data), fixed, state.value, state.shift, state.policy)


@compiled("program", "cuts")
def coarse_system(program, cuts: tuple[Cuts, ...], data: Data, policy):
    """What the small matrix of ``coarse`` is made of, for a policy."""
    operators = Operators(program, data)
    return small_system(lambda e: operators.expect(policy, e), cuts, policy)


@compiled("program", "fixed")
def prove(program, fixed: bool, data: Data, value, policy, extra):
    """What the residual of ``value`` proves: a bound on |value - V*|, or on |value - V_pi|.

    ``extra`` is a further error that a backup may have.
    """
    apart, eta = rise(program, fixed, data, value, policy, extra)
    return data.criterion.error((1 + EPS) * size(apart) + eta)


@compiled("program", "fixed")
def rise(program, fixed: bool, data: Data, value, policy, extra):
    """(T v - v, how far that may be off), or with T_pi."""
    operators, v, shift = centred(program, data, value)
    backup, _ = back_up(operators, fixed, v, policy)
    # v itself is off by half a unit of its last digit, and so is the difference.
    return backup - v, operators.rounding(v, shift, backup) + extra + EPS * size(v)


def centred(program, data: Data, value):
    """(operators, value - shift, shift)."""
    operators = Operators(program, data)
    v, shift = operators.criterion.split(value)
    return operators.around(shift), v, shift


@compiled("program")
def all_action_values(program, data: Data, value):
    """(A, *grid) values of each action."""
    operators, v, shift = centred(program, data, value)
    q_of = operators.q(v)
    # One action at a time: stacking ready arrays would hold all of them twice.
    xp = numerics(v)
    return xp.each(lambda action: q_of(action) + shift, xp.arange(program.n_actions))


class Decision(NamedTuple):
    """What the action values at a point say, without storing them."""

    margin: Any  # best minus second best; inf where only one action is feasible
    policy: Any  # the lowest action index among those that tie with the best
    tie: Any  # what the error of the value and rounding could overturn


@compiled("program")
def decide(program, data: Data, value, bound) -> Decision:
    """Compare the actions at ``value``, which is within ``bound`` of the optimum."""
    operators, v, shift = centred(program, data, value)
    eta = operators.rounding(v, shift)
    tie = 2 * (operators.criterion.largest * bound + eta)
    near, q_A = tie_window(data, tie, eta), operators.all_q(v)
    if q_A is not None:
        return Decision(*ranked(q_A, near), tie)
    q_of = operators.q(v)
    best, second = best_two(program, q_of, v)
    return Decision(best - second, lowest_near(program, q_of, best, near), tie)


def tie_window(data: Data, tie, eta):
    """How far below the best an action's value may be for its index to count: at most ``tie``.

    Computed action values are within tie / 2 of the optimal ones. So two actions that are equally
    good differ by at most ``tie``, and an action inside the window loses at most tie + window, that
    is 2 tie, where it is taken. A loose bound leaves much undecided, yet the best guess is still
    the greedy action: the window stays below ``TIED``.
    """
    xp = numerics(eta)
    narrow = xp.minimum(tie, TIED * data.criterion.forever(data.numbers.reward_scale))
    return xp.maximum(narrow, 2 * eta)


def ranked(q_A, near):
    """(grid) margins and the lowest actions near the best, from (A, grid) values of all actions."""
    best = q_A.max(axis=0)
    policy = (q_A >= best - near).argmax(axis=0).astype(np.int32)
    if len(q_A) == 1:
        return np.full(best.shape, np.inf), policy
    return best - np.partition(q_A, -2, axis=0)[-2], policy


def lowest_near(program, q_of, best, near):
    """(grid) the lowest action index whose value is within ``near`` of the best."""
    xp = numerics(best)

    def choose(action, chosen):
        within = (chosen < 0) & (q_of(action) >= best - near)
        return xp.where(within, xp.asarray(action, xp.int32), chosen)

    return over_actions(program, choose, xp.full(best.shape, -1, xp.int32))


def best_two(program, q_of, like):
    """(grid) values of the best action and of the second best; arrays are like ``like``."""
    xp = numerics(like)

    def rank(action, carry):
        best, second = carry
        q_S = q_of(action)
        return xp.maximum(best, q_S), xp.maximum(second, xp.minimum(best, q_S))

    lowest = xp.full(like.shape, -xp.inf)
    return over_actions(program, rank, (lowest, lowest))


class Contrast(NamedTuple):
    """How a policy's actions compare with the best ones at a point."""

    margin: Any  # best minus second best
    lost: Any  # best minus the policy's
    tie: Any  # what the error of the value, rounding and ``extra`` could overturn


@compiled("program")
def contrast(program, data: Data, value, bound, policy, extra) -> Contrast:
    """Compare the policy's actions with the best at ``value``, which is within ``bound`` of V*."""
    operators, v, shift = centred(program, data, value)
    xp, q_of, eta = numerics(v), operators.q(v), operators.rounding(v, shift)
    best, second = best_two(program, q_of, v)

    def pick(action, total):
        return xp.where(policy == action, q_of(action), total)

    # Not the policy's own sweep: its rounding may differ, and the best action must lose 0.
    chosen = over_actions(program, pick, xp.zeros(value.shape))
    tie = 2 * (operators.criterion.largest * bound + eta + extra)
    return Contrast(best - second, best - chosen, tie)
