"""The compiled loop that every method shares.

Each round ends with a look at a point: a backup b = T v (or T_pi v, when a policy is evaluated) and
what the criterion's enclosure makes of the residual b - v. A stated bound is one that anybody can
find again from the value alone, by its residual (``prove``). A method is no more than a way from
(v, b, greedy policy) to the next v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from tessella.errors import ArgumentError
from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled
from tessella.rounding import EPS
from tessella.solvers.coarse import small_system
from tessella.solvers.method import Method
from tessella.solvers.operators import Data, Operators, size

RELATIVE = 1e-12  # without a tolerance, aim for this share of the largest value ...
TIED = 1e-9  # actions further apart than this, on the same scale, never count as tied
ABOVE_FLOOR = 2.0  # ... but for no less than this multiple of what rounding leaves
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
    eta = operators.rounding(value, shift)
    residual, sizes = backup - value, size(backup) + jnp.abs(shift)
    proven = operators.criterion.enclose(residual.min(), residual.max(), eta, sizes)
    return State(value, backup, greedy, shift, *proven, jnp.sum(greedy != policy))


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
    return jnp.minimum(floor, criterion.error(eta + 4 * EPS * largest))


def target(data: Data, floor):
    """The bound at which a run may stop."""
    scale, tol = data.criterion.forever(data.numbers.reward_scale), data.numbers.tol
    floor = least(data, floor)
    return jnp.where(tol > 0, tol, jnp.maximum(RELATIVE * scale, ABOVE_FLOOR * floor))


def finished(data: Data, state: State):
    floor = least(data, state.floor)
    done = (state.bound <= target(data, floor)) | (state.bound <= AT_FLOOR * floor)
    return done | jnp.isnan(state.bound)


class Stretch(NamedTuple):
    """What a compiled stretch of rounds reports."""

    state: State
    rounds: jax.Array  # done in this stretch
    bounds: jax.Array  # (chunk,) bound after each
    changes: jax.Array  # (chunk,) states whose greedy action changed in each
    target: jax.Array  # the bound that was asked for
    finished: jax.Array


def refined(method: Method, operators: Operators, state: State):
    """The method's next point, which must be one."""
    point = method.refine(operators, state)
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
    """Look at ``point``; where that widens the bound, at a plain step instead.

    A loop of one round or two, so that the look is compiled once.
    """
    step = operators.criterion.step(state.value, state.backup)

    def again(carry):
        looks, _, new = carry
        return (looks == 0) | ((looks == 1) & ~(new.bound < state.bound))

    def try_next(carry):
        looks, point, _ = carry
        return looks + 1, step, look(operators, fixed, point, state.shift, state.policy)

    return lax.while_loop(again, try_next, (0, point, state))[2]


@compiled("program", "method", "fixed", "chunk")
def advance(
    program, method: Method, fixed: bool, chunk: int, data: Data, state: State, limit
) -> Stretch:
    """Up to ``limit <= chunk`` rounds of refine and look."""
    operators = Operators(program, data)

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
        return new, k + 1, bounds.at[k].set(new.bound), changes.at[k].set(new.changed)

    start = state, jnp.zeros((), int), jnp.zeros(chunk), jnp.zeros(chunk, state.changed.dtype)
    state, rounds, bounds, changes = lax.while_loop(go_on, round_, start)
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


@compiled("program")
def coarse_system(program, data: Data, policy):
    """The small matrix of ``coarse``, of a policy's linear system."""
    operators = Operators(program, data)
    return small_system(lambda e: operators.left(policy, e), policy.shape)


@compiled("program", "fixed")
def prove(program, fixed: bool, data: Data, value, policy, extra):
    """What the residual of ``value`` proves: a bound on |value - V*|, or on |value - V_pi|.

    ``extra`` is a further error that a backup may have.
    """
    operators, v, shift = centred(program, data, value)
    backup, _ = back_up(operators, fixed, v, policy)
    # v itself is off by half a unit of its last digit, and so is the difference.
    eta = operators.rounding(v, shift) + extra + EPS * size(v)
    return operators.criterion.error((1 + EPS) * size(backup - v) + eta)


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
    return lax.map(lambda action: q_of(action) + shift, jnp.arange(program.n_actions))


class Decision(NamedTuple):
    """What the action values at a point say, without storing them."""

    margin: jax.Array  # best minus second best; inf where only one action is feasible
    policy: jax.Array  # the lowest action index among those that tie with the best
    tie: jax.Array  # what the error of the value and rounding could overturn


@compiled("program")
def decide(program, data: Data, value, bound) -> Decision:
    """Compare the actions at ``value``, which is within ``bound`` of the optimum."""
    operators, v, shift = centred(program, data, value)
    q_of, eta = operators.q(v), operators.rounding(v, shift)
    tie = 2 * (operators.criterion.largest * bound + eta)
    best, second = best_two(program, q_of, value.shape)

    # A loose bound leaves much undecided, yet the best guess is still the greedy action.
    near = jnp.minimum(tie, TIED * operators.criterion.forever(data.numbers.reward_scale))
    policy = lowest_near(program, q_of, best, jnp.maximum(near, 2 * eta))
    return Decision(best - second, policy, tie)


def lowest_near(program, q_of, best, near):
    """(grid) the lowest action index whose value is within ``near`` of the best."""

    def choose(action, chosen):
        within = (chosen < 0) & (q_of(action) >= best - near)
        return jnp.where(within, jnp.asarray(action, jnp.int32), chosen)

    return over_actions(program, choose, jnp.full(best.shape, -1, jnp.int32))


def best_two(program, q_of, shape):
    """(grid) values of the best action and of the second best."""

    def rank(action, carry):
        best, second = carry
        q_S = q_of(action)
        return jnp.maximum(best, q_S), jnp.maximum(second, jnp.minimum(best, q_S))

    lowest = jnp.full(shape, -jnp.inf)
    return over_actions(program, rank, (lowest, lowest))


class Contrast(NamedTuple):
    """How a policy's actions compare with the best ones at a point."""

    margin: jax.Array  # best minus second best
    lost: jax.Array  # best minus the policy's
    tie: jax.Array  # what the error of the value, rounding and ``extra`` could overturn


@compiled("program")
def contrast(program, data: Data, value, bound, policy, extra) -> Contrast:
    """Compare the policy's actions with the best at ``value``, which is within ``bound`` of V*."""
    operators, v, shift = centred(program, data, value)
    q_of, eta = operators.q(v), operators.rounding(v, shift)
    best, second = best_two(program, q_of, value.shape)

    def pick(action, total):
        return jnp.where(policy == action, q_of(action), total)

    # Not the policy's own sweep: its rounding may differ, and the best action must lose 0.
    chosen = over_actions(program, pick, jnp.zeros(value.shape))
    tie = 2 * (operators.criterion.largest * bound + eta + extra)
    return Contrast(best - second, best - chosen, tie)
