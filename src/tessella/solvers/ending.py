"""Where a process ends, and how total rewards are enclosed once it is known how long that takes.

A state ends the process where all actions stay there and pay nothing. A run first looks for values
with a small residual, then bounds the time to the end under every policy that could be best
(``hitting``), and so turns residuals into bounds on values.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tessella.criteria.average import ENDS
from tessella.errors import ModelError
from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled, in_float64, on_device
from tessella.rounding import EPS
from tessella.solvers.chains import refuse_chain
from tessella.solvers.driver import Callback, Engine, decide, iterate
from tessella.solvers.hitting import ending_time, policy_time
from tessella.solvers.method import Method
from tessella.solvers.operators import Data
from tessella.solvers.result import Result


def until_the_end(
    engine: Engine, method: Method, *, callback: Callback | None, partial: bool
) -> tuple[Engine, Result]:
    """(an engine whose bounds hold, the optimum)."""
    mdp, ends = engine.mdp, ending_states(engine)
    near = Engine(mdp, None, time=1.0)
    guess = method.begin(mdp)
    first = iterate(near, method, guess=guess, callback=callback, partial=partial)
    table = np.asarray(decide(near, first.value, first.error_bound).policy)
    time = ending_time(near, ends, first.value, table, first.error_bound)
    if not np.isfinite(time):
        refuse_chain(mdp, table, False)
        raise ModelError(
            "the total reward needs policies that end; some that are as good as the best, as far "
            "as can be told, may go on for ever"
        )
    proven = Engine(mdp, engine.tol, time=time)
    found = iterate(proven, method, guess=first.value, callback=callback, partial=partial)
    return proven, found


def until_a_policy_ends(engine: Engine, table: NDArray) -> Engine:
    """An engine whose bounds hold for the values of one policy."""
    ends = ending_states(engine)
    time = policy_time(engine, table, ends)
    if not np.isfinite(time):
        refuse_chain(engine.mdp, table, True)
        raise ModelError("the total reward needs policies that end; this one may go on for ever")
    return Engine(engine.mdp, engine.tol, time=time)


@in_float64
def ending_states(engine: Engine) -> NDArray[np.bool_]:
    """(grid) whether a state ends the process; refuses a model whose end cannot be reached."""
    mdp = engine.mdp
    trial = on_device(1 + np.random.default_rng(0).random(mdp.grid.shape))
    slack = 2 * EPS * (mdp.dynamics.terms + 8) + 2 * mdp.dynamics.built.rows
    ends, reached = _ends(engine.program, engine.data, trial, np.float64(slack))
    stuck = np.flatnonzero(~np.asarray(reached))
    if stuck.size:
        raise ModelError(
            "the total reward needs an end that can be reached from everywhere",
            place=mdp.grid.describe(int(stuck[0])),
            value="cannot reach it",
            count=stuck.size,
            total=mdp.n_states,
            noun="states",
        )
    return np.asarray(ends)


@compiled("program")
def _ends(program, data: Data, trial, slack) -> tuple[Any, Any]:
    """(grid) which states end the process, and from which an end can be reached."""
    arrays, feasible = data.arrays, data.feasible

    def some(action, marked):
        return marked if feasible is None else marked & feasible[action]

    def expect(w):
        tail = program.tail(arrays, w, False)
        return lambda action: program.head(arrays, tail, action, False)

    stay_of, paid_of = expect(trial), program.tail(arrays, jnp.zeros_like(trial), True)

    def leaves(action, left):
        moved = jnp.abs(stay_of(action) - trial) > slack
        paid = program.head(arrays, paid_of, action, True) != 0
        return left | some(action, moved | paid)

    ends = ~over_actions(program, leaves, jnp.zeros(trial.shape, bool))
    going_on = expect(jnp.ones_like(trial))

    def stops(action, stopped):
        return stopped | some(action, going_on(action) < 1 - ENDS)

    first = over_actions(program, stops, ends)

    def grow(carry):
        reached, _ = carry
        chance = expect(reached.astype(trial.dtype))
        more = over_actions(program, lambda a, r: r | some(a, chance(a) > 0), reached)
        return more, (more != reached).any()

    reached, _ = lax.while_loop(lambda carry: carry[1], grow, (first, jnp.array(True)))
    return ends, reached
