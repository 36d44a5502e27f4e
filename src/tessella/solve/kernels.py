"""The compiled loop that every method shares.

With T the Bellman operator (or T_pi, when a policy is evaluated), b = T v and d = b - v,

    b + g(min d) <= V* <= b + g(max d),     g(x) = x * c / (1 - c),  c = discount * mass,

where ``mass`` bounds the row sums: the largest when that widens the bound, else the smallest. A
backup is off by at most ``eta = unit * (reward scale + discount max|v|)`` through rounding, which
widens both sides. A method is no more than a way from (v, b, greedy policy) to the next v.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tessella.mdp.engine import compiled
from tessella.mdp.programs import over_actions

EPS = np.finfo(float).eps
RELATIVE = 1e-12  # without a tolerance, aim for this share of reward scale / (1 - discount) ...
TIED = 1e-9  # actions further apart than this, on the same scale, never count as tied
ABOVE_FLOOR = 2.0  # ... but for no less than this multiple of what rounding leaves
AT_FLOOR = 1.1  # a bound this close to its floor will not get better


class Numbers(NamedTuple):
    """What a model contributes besides its dynamics; numbers, so that changing them is free."""

    discount: np.float64
    mass_low: np.float64
    mass_high: np.float64
    unit: np.float64
    reward_scale: np.float64
    tol: np.float64  # 0: as good as is reasonable


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
    middle: Any  # the optimum lies within b + middle +- bound
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
    """action -> (grid) its values at ``value``, -inf where it is infeasible."""
    w = program.tail(model.arrays, model.numbers.discount * value, True)

    def q_of(action):
        q_S = program.head(model.arrays, w, action, True)
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

    return over_actions(program, step, jnp.zeros(value.shape))


def rounding(numbers: Numbers, value):
    """eta: how far a computed backup of ``value`` may be off."""
    return numbers.unit * (numbers.reward_scale + numbers.discount * jnp.abs(value).max())


def reach(numbers: Numbers, x, outward):
    """g(x), with the row sum that makes the bound hold."""
    mass = jnp.where(outward, numbers.mass_high, jnp.maximum(numbers.mass_low, 0.0))
    c = numbers.discount * mass
    return x * c / (1 - c)


def look(program, model: Model, fixed: bool, value, policy) -> State:
    """Back up ``value`` and enclose the optimum (or the policy's value, when it is ``fixed``)."""
    if fixed:
        backup, greedy = policy_backup(program, model, policy, value, True), policy
    else:
        backup, greedy = bellman(program, model, value)
    eta = rounding(model.numbers, value)
    residual = backup - value
    low, high = residual.min() - eta, residual.max() + eta
    lower, upper = reach(model.numbers, low, low < 0), reach(model.numbers, high, high > 0)
    middle = (lower + upper) / 2
    # Whoever adds the middle to the backup rounds once more.
    last = EPS * (jnp.abs(backup).max() + jnp.abs(middle))
    return State(
        value,
        backup,
        greedy,
        middle,
        (upper - lower) / 2 + eta + last,
        reach(model.numbers, eta, True) + eta + last,
        jnp.sum(greedy != policy),
    )


def least(numbers: Numbers, floor):
    """What rounding leaves of the bound, however large the present point is.

    No value exceeds reward scale / (1 - c), so a far-off point is no excuse for a wide bound.
    """
    largest = numbers.reward_scale / (1 - numbers.discount * numbers.mass_high)
    eta = numbers.unit * (numbers.reward_scale + numbers.discount * largest)
    return jnp.minimum(floor, reach(numbers, eta, True) + eta + 2 * EPS * largest)


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
        point = method.refine(program, model, state)
        new = look(program, model, fixed, point, state.policy)
        if method.safeguarded:
            new = lax.cond(
                new.bound < state.bound,
                lambda: new,
                lambda: look(program, model, fixed, state.backup, state.policy),
            )
        return new, k + 1, bounds.at[k].set(new.bound), changes.at[k].set(new.changed)

    start = state, jnp.zeros((), int), jnp.zeros(chunk), jnp.zeros(chunk, state.changed.dtype)
    state, rounds, bounds, changes = lax.while_loop(go_on, round_, start)
    done = target(numbers, state.floor), finished(numbers, state)
    return Stretch(state, rounds, bounds, changes, *done)


@compiled("program")
def all_action_values(program, model: Model, value):
    """(A, *grid) values of each action."""
    # One action at a time: stacking ready arrays would hold all of them twice.
    return lax.map(q_of_action(program, model, value), jnp.arange(program.n_actions))


class Decision(NamedTuple):
    """What the action values at a point say, without storing them."""

    margin: jax.Array  # best minus second best; inf where only one action is feasible
    policy: jax.Array  # the lowest action index among those that tie with the best
    tie: jax.Array  # what the error of the value and rounding could overturn


@compiled("program")
def decide(program, model: Model, value, bound) -> Decision:
    """Compare the actions at ``value``, which is within ``bound`` of the optimum."""
    q_of = q_of_action(program, model, value)
    numbers = model.numbers
    tie = 2 * (numbers.discount * numbers.mass_high * bound + rounding(numbers, value))

    def rank(action, carry):
        best, second = carry
        q_S = q_of(action)
        return jnp.maximum(best, q_S), jnp.maximum(second, jnp.minimum(best, q_S))

    lowest = jnp.full(value.shape, -jnp.inf)
    best, second = over_actions(program, rank, (lowest, lowest))

    # A loose bound leaves much undecided, yet the best guess is still the greedy action.
    near = jnp.minimum(tie, TIED * numbers.reward_scale / (1 - numbers.discount))
    near = jnp.maximum(near, 2 * rounding(numbers, value))

    def choose(action, chosen):
        within = (chosen < 0) & (q_of(action) >= best - near)
        return jnp.where(within, jnp.asarray(action, jnp.int32), chosen)

    policy = over_actions(program, choose, jnp.full(value.shape, -1, jnp.int32))
    return Decision(best - second, policy, tie)
