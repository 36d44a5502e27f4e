"""The compiled loop that every method shares.

Values are held as V = v + shift with ``shift`` a constant near their middle: what all states share
need not go through the sweeps, where it would cost digits. With T the Bellman operator (or T_pi,
when a policy is evaluated) less the gain (1 - discount) shift, b = T v, d = b - v, and

    c = discount * row sum, between c_low and c_high, rest = 1 - c (> 0),

the residual of w = b + m lies between c min d - rest m and c max d - rest m; the best m balances
the two sides, and a residual of size r proves |w + shift - V*| <= r / rest. To r come ``eta``, what
rounding does to a backup, and the rounding of w + shift itself. So a stated bound is one that
anybody can find again from the value alone: by its residual (``prove``). A method is no more than a
way from (v, b, greedy policy) to the next v.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled

EPS = np.finfo(float).eps
RELATIVE = 1e-12  # without a tolerance, aim for this share of reward scale / (1 - discount) ...
TIED = 1e-9  # actions further apart than this, on the same scale, never count as tied
ABOVE_FLOOR = 2.0  # ... but for no less than this multiple of what rounding leaves
AT_FLOOR = 1.1  # a bound this close to its floor will not get better
OUTWARD = 1 + 32 * EPS  # covers the rounding of a bound's own arithmetic


class Numbers(NamedTuple):
    """What a model contributes besides its dynamics; numbers, so that changing them is free."""

    discount: np.float64
    c_low: np.float64  # discount times the smallest row sum ...
    c_high: np.float64  # ... and the largest
    rest_low: np.float64  # 1 - c_high
    rest_high: np.float64  # 1 - c_low
    unit: np.float64  # rounding of a backup, relative to what goes in
    uneven: np.float64  # discount times the largest distance of a row sum from 1
    row_error: np.float64  # relative error of the rows: what building the model cost
    reward_error: np.float64  # absolute error of the rewards, likewise
    reward_scale: np.float64
    centred: np.float64  # 1 where taking out a constant pays, else 0
    tol: np.float64  # 0: as good as is reasonable
    gain: np.float64 = np.float64(0)  # taken off each period's reward: (1 - discount) shift


class Model(NamedTuple):
    arrays: object
    feasible: jax.Array | None  # (A, *grid)
    numbers: Numbers


class State(NamedTuple):
    """Where a run stands: a point, its backup, and what they say about the optimum.

    A run starts from a point that stands in for its own backup, with an infinite bound.
    """

    value: Any  # v, (grid)
    backup: Any  # b = T v, (grid)
    policy: Any  # greedy at v, (grid)
    shift: Any  # values are v + shift
    middle: Any  # the optimum lies within b + middle + shift +- bound
    bound: Any
    floor: Any  # what rounding alone contributes to the bound
    changed: Any  # states whose greedy action changed in this sweep


class Refine(Protocol):
    """The heart of a method: the next point. Hashable, so that it can steer compilation.

    Tolerance and limit take no part in comparing methods: they are numbers, not another program.
    """

    def refine(self, program, model: Model, state: State): ...

    safeguarded: bool  # a round that widens the bound is replaced by a plain sweep
    krylov: bool  # a stalled run may be helped by a direct solve


def q_of_action(program, model: Model, value):
    """action -> (grid) its values at ``value`` less the gain, -inf where it is infeasible."""
    w = program.tail(model.arrays, model.numbers.discount * value, True)

    def q_of(action):
        q_S = program.head(model.arrays, w, action, True) - model.numbers.gain
        return q_S if model.feasible is None else jnp.where(model.feasible[action], q_S, -jnp.inf)

    return q_of


def bellman(program, model: Model, value):
    """(T v, greedy action), without storing states x actions."""
    q_of = q_of_action(program, model, value)

    def step(action, carry):
        best, greedy = carry
        q_S = q_of(action)
        better = q_S > best
        greedy = jnp.where(better, jnp.asarray(action, jnp.int32), greedy)
        return jnp.where(better, q_S, best), greedy

    start = jnp.full(value.shape, -jnp.inf), jnp.zeros(value.shape, jnp.int32)
    return over_actions(program, step, start)


def policy_backup(program, model: Model, policy, value, pay: bool):
    """T_pi v, or discount * P_pi v when nothing is paid."""
    w = program.tail(model.arrays, model.numbers.discount * value, pay)

    def step(action, total):
        return jnp.where(policy == action, program.head(model.arrays, w, action, pay), total)

    total = over_actions(program, step, jnp.zeros(value.shape))
    return total - model.numbers.gain if pay else total


def size(x):
    """max |x|."""
    return jnp.abs(x).max()


def split(numbers: Numbers, value):
    """(value - shift, shift), with the middle of the values as the shift where that pays."""
    shift = numbers.centred * (value.max() + value.min()) / 2
    return value - shift, shift


def around(model: Model, shift) -> Model:
    """The model for values less ``shift``."""
    gain = (1 - model.numbers.discount) * shift
    return model._replace(numbers=model.numbers._replace(gain=gain))


def rounding(numbers: Numbers, value, shift):
    """eta: how far a computed backup of ``value``, and of shift + value, may be off."""
    n, most, apart = numbers, size(value), jnp.abs(shift)
    sums = n.unit * (n.reward_scale + jnp.abs(n.gain) + n.discount * most)
    # Rows that do not sum to 1 do not pass on the shift as it is.
    passed_on = n.uneven * apart + 2 * EPS * jnp.abs(n.gain)
    return sums + passed_on + n.reward_error + n.row_error * n.c_high * most


def look(program, model: Model, fixed: bool, value, shift, policy) -> State:
    """Back up ``value`` and enclose the optimum (or the policy's value, when it is ``fixed``)."""
    value, more = split(model.numbers, value)
    shift = shift + more
    model = around(model, shift)
    numbers = model.numbers
    if fixed:
        backup, greedy = policy_backup(program, model, policy, value, True), policy
    else:
        backup, greedy = bellman(program, model, value)
    eta = rounding(numbers, value, shift)
    residual = backup - value
    low, high = residual.min(), residual.max()
    low, high = low * carried(numbers, low < 0), high * carried(numbers, high > 0)
    middle = (low + high) / (numbers.rest_low + numbers.rest_high)
    above = high - middle * jnp.where(middle > 0, numbers.rest_low, numbers.rest_high)
    below = middle * jnp.where(middle > 0, numbers.rest_high, numbers.rest_low) - low
    # Whoever adds the middle and the shift to the backup rounds twice more.
    last = (1 + numbers.c_high) * EPS * (size(backup) + jnp.abs(middle) + jnp.abs(shift))
    slip = EPS * size(residual)
    return State(
        value,
        backup,
        greedy,
        shift,
        middle,
        (jnp.maximum(above, below) + eta + last + slip) / numbers.rest_low * OUTWARD,
        (eta + last) / numbers.rest_low * OUTWARD,
        jnp.sum(greedy != policy),
    )


def carried(numbers: Numbers, outward):
    """c, with the row sum that makes the bound hold."""
    return jnp.where(outward, numbers.c_high, numbers.c_low)


def least(numbers: Numbers, floor):
    """What rounding leaves of the bound, however large the present point is.

    No value exceeds reward scale / (1 - c), so a far-off point is no excuse for a wide bound.
    """
    largest = numbers.reward_scale / numbers.rest_low
    eta = rounding(numbers._replace(gain=0.0), largest, 0.0)
    return jnp.minimum(floor, (eta + 4 * EPS * largest) / numbers.rest_low * OUTWARD)


def target(numbers: Numbers, floor):
    """The bound at which a run may stop."""
    scale = numbers.reward_scale / (1 - numbers.discount)
    floor = least(numbers, floor)
    return jnp.where(
        numbers.tol > 0, numbers.tol, jnp.maximum(RELATIVE * scale, ABOVE_FLOOR * floor)
    )


def finished(numbers: Numbers, state: State):
    floor = least(numbers, state.floor)
    done = (state.bound <= target(numbers, floor)) | (state.bound <= AT_FLOOR * floor)
    return done | jnp.isnan(state.bound)


class Stretch(NamedTuple):
    """What a compiled stretch of rounds reports."""

    state: State
    rounds: jax.Array  # done in this stretch
    bounds: jax.Array  # (chunk,) bound after each
    changes: jax.Array  # (chunk,) states whose greedy action changed in each
    target: jax.Array  # the bound that was asked for
    finished: jax.Array


@compiled("program", "method", "fixed", "chunk")
def advance(
    program, method: Refine, fixed: bool, chunk: int, model: Model, state: State, limit
) -> Stretch:
    """Up to ``limit <= chunk`` rounds of refine and look."""
    numbers = model.numbers

    def go_on(carry):
        state, k, *_ = carry
        return (k < limit) & ~finished(numbers, state)

    def round_(carry):
        state, k, bounds, changes = carry
        point = method.refine(program, around(model, state.shift), state)
        new = look(program, model, fixed, point, state.shift, state.policy)
        if method.safeguarded:
            new = lax.cond(
                new.bound < state.bound,
                lambda: new,
                lambda: look(program, model, fixed, state.backup, state.shift, state.policy),
            )
        return new, k + 1, bounds.at[k].set(new.bound), changes.at[k].set(new.changed)

    start = state, jnp.zeros((), int), jnp.zeros(chunk), jnp.zeros(chunk, state.changed.dtype)
    state, rounds, bounds, changes = lax.while_loop(go_on, round_, start)
    done = target(numbers, state.floor), finished(numbers, state)
    return Stretch(state, rounds, bounds, changes, *done)


@compiled("program", "fixed")
def prove(program, fixed: bool, model: Model, value, policy, extra):
    """What the residual of ``value`` proves: a bound on |value - V*|, or on |value - V_pi|.

    ``extra`` is a further error that a backup may have.
    """
    v, shift = split(model.numbers, value)
    model = around(model, shift)
    if fixed:
        backup = policy_backup(program, model, policy, v, True)
    else:
        backup, _ = bellman(program, model, v)
    # v itself is off by half a unit of its last digit, and so is the difference.
    eta = rounding(model.numbers, v, shift) + extra + EPS * size(v)
    residual = (1 + EPS) * size(backup - v)
    return (residual + eta) / model.numbers.rest_low * OUTWARD


@compiled("program")
def all_action_values(program, model: Model, value):
    """(A, *grid) values of each action."""
    v, shift = split(model.numbers, value)
    q_of = q_of_action(program, around(model, shift), v)
    # One action at a time: stacking ready arrays would hold all of them twice.
    return lax.map(lambda action: q_of(action) + shift, jnp.arange(program.n_actions))


class Decision(NamedTuple):
    """What the action values at a point say, without storing them."""

    margin: jax.Array  # best minus second best; inf where only one action is feasible
    policy: jax.Array  # the lowest action index among those that tie with the best
    tie: jax.Array  # what the error of the value and rounding could overturn


@compiled("program")
def decide(program, model: Model, value, bound) -> Decision:
    """Compare the actions at ``value``, which is within ``bound`` of the optimum."""
    v, shift = split(model.numbers, value)
    model = around(model, shift)
    numbers = model.numbers
    q_of, eta = q_of_action(program, model, v), rounding(numbers, v, shift)
    tie = 2 * (numbers.c_high * bound + eta)
    best, second = best_two(program, q_of, value.shape)

    # A loose bound leaves much undecided, yet the best guess is still the greedy action.
    near = jnp.minimum(tie, TIED * numbers.reward_scale / (1 - numbers.discount))
    near = jnp.maximum(near, 2 * eta)

    def choose(action, chosen):
        within = (chosen < 0) & (q_of(action) >= best - near)
        return jnp.where(within, jnp.asarray(action, jnp.int32), chosen)

    policy = over_actions(program, choose, jnp.full(value.shape, -1, jnp.int32))
    return Decision(best - second, policy, tie)


def best_two(program, q_of, shape):
    """(grid) values of the best action and of the second best."""

    def rank(action, carry):
        best, second = carry
        q_S = q_of(action)
        return jnp.maximum(best, q_S), jnp.maximum(second, jnp.minimum(best, q_S))

    lowest = jnp.full(shape, -jnp.inf)
    return over_actions(program, rank, (lowest, lowest))


class Judgement(NamedTuple):
    """How a policy's actions compare with the best ones at a point."""

    margin: jax.Array  # best minus second best
    lost: jax.Array  # best minus the policy's
    tie: jax.Array  # what the error of the value, rounding and ``extra`` could overturn


@compiled("program")
def judge(program, model: Model, value, bound, policy, extra) -> Judgement:
    """Compare the policy's actions with the best at ``value``, which is within ``bound`` of V*."""
    v, shift = split(model.numbers, value)
    model = around(model, shift)
    q_of, eta = q_of_action(program, model, v), rounding(model.numbers, v, shift)
    best, second = best_two(program, q_of, value.shape)

    def pick(action, total):
        return jnp.where(policy == action, q_of(action), total)

    chosen = over_actions(program, pick, jnp.zeros(value.shape))
    return Judgement(best - second, best - chosen, 2 * (model.numbers.c_high * bound + eta + extra))
