"""Where a process ends, and how total rewards are enclosed once it is known how long that takes.

A state ends the process where all actions stay there and pay nothing (in models of more than
200,000 states, up to rounding). A run first looks for values
with a small residual, then bounds the time to the end under every policy that could be best
(``hitting``), and so turns residuals into bounds on values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import ENDS
from tessella.errors import ModelError, NotConverged
from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled, in_float64, placed
from tessella.mdp.model import MDP
from tessella.numerics import numerics
from tessella.rounding import EPS
from tessella.solvers.chains import LARGEST, refuse_chain, shortest_way
from tessella.solvers.driver import Callback, Engine, decide, iterate
from tessella.solvers.elimination import Rows, may_be_written
from tessella.solvers.hitting import ending_time, policy_time
from tessella.solvers.method import Method
from tessella.solvers.operators import Data
from tessella.solvers.result import Result

TRIES = 6  # to find a time to the end that holds at the value found with it
MORE = 1.5  # of the time needed, so that the next look finds no more


def until_the_end(
    engine: Engine, method: Method, *, callback: Callback | None, partial: bool
) -> tuple[Engine, Result]:
    """(an engine whose bounds hold, the optimum)."""
    mdp, ends = engine.mdp, ending_states(engine)
    near = Engine(mdp, None, time=1.0, traced=engine.traced)  # whose bounds are those of residuals
    watch = None if callback is None else _unbounded(callback)
    guess = zero_at(ends, method.begin(mdp))
    try:
        found = iterate(near, method, guess=guess, callback=watch, partial=partial)
    except ModelError:  # waiting may cost so little, and the end so much, that no round turns to it
        guess = _value_of_ending(mdp, ends)
        if guess is None:
            raise
        found = iterate(near, method, guess=guess, callback=watch, partial=partial)
    history, time = replace(found.history, bound=np.full(found.sweeps, np.inf)), 0.0
    proven = near
    for _ in range(TRIES):
        residual = found.error_bound / max(time, 1.0)
        needed = _time(near, ends, found.value, residual)
        if needed <= time:  # what was assumed is so at the value that was found
            return proven, replace(found, history=history)
        time = needed * MORE if time else needed
        proven = Engine(mdp, engine.tol, time=time, traced=engine.traced)
        found = iterate(proven, method, guess=found.value, callback=callback, partial=partial)
        history = history.then(found.history)
    raise NotConverged("the time to the end grows with every look at it; nothing is proven")


def _value_of_ending(mdp: MDP, ends: NDArray) -> NDArray[np.float64] | None:
    """(grid) the value of the shortest way to the end: policies that improve on it all end.

    None where the model is too large to be written out.
    """
    from scipy.sparse import diags_array, eye_array
    from scipy.sparse.linalg import splu

    if not may_be_written(mdp):
        return None
    rows = Rows.feasible(mdp)
    stops = rows.rows.sum(axis=1) < 1 - ENDS
    ended = ends.ravel()
    targets = ended.copy()
    targets[rows.state[stops]] = True
    actions = shortest_way(rows, np.flatnonzero(targets))
    actions[rows.state[stops]] = rows.action[stops]
    goes_on = (~ended).astype(float)
    chosen = rows.under(actions)
    system = eye_array(mdp.n_states) - diags_array(goes_on) @ chosen.rows
    return splu(system.tocsc()).solve(goes_on * chosen.reward).reshape(ends.shape)


def _time(near: Engine, ends: NDArray, value: NDArray, residual: float) -> float:
    """Bound on the time to the end for policies that could be best; refuses where it has none."""
    table = np.asarray(decide(near, value, residual).policy)
    time = ending_time(near, ends, value, table, residual)
    if not np.isfinite(time):
        refuse_chain(near.mdp, table, False)
        raise ModelError(
            "the total reward needs policies that end; some that are as good as the best, as far "
            "as can be told, may go on for ever"
        )
    return time


def _unbounded(callback: Callback) -> Callback:
    """A callback that is told of no bound, as long as none is proven."""
    return lambda progress: callback(replace(progress, bound=float("inf"), left=None))


def zero_at(ends: NDArray, guess: NDArray | None) -> NDArray | None:
    """A guess that is 0 where the process has ended: any other constant would stay there."""
    if guess is None or np.shape(guess) not in (ends.shape, (ends.size,)):
        return guess
    return np.where(ends, 0.0, np.reshape(guess, ends.shape))


def until_a_policy_ends(engine: Engine, table: NDArray) -> tuple[Engine, NDArray[np.bool_]]:
    """An engine whose bounds hold for the values of one policy, and where the process ends."""
    ends = ending_states(engine)
    time = policy_time(engine, table, ends)
    if not np.isfinite(time):
        refuse_chain(engine.mdp, table, True)
        raise ModelError("the total reward needs policies that end; this one may go on for ever")
    return Engine(engine.mdp, engine.tol, time=time, traced=engine.traced), ends


@in_float64
def ending_states(engine: Engine) -> NDArray[np.bool_]:
    """(grid) whether a state ends the process; refuses a model whose end cannot be reached."""
    mdp = engine.mdp
    if mdp.n_states <= LARGEST:
        ends = placed(engine.program, _by_rows(mdp))
    else:
        random = 1 + np.random.default_rng(0).random(mdp.grid.shape)
        trial = placed(engine.program, random)
        slack = 2 * EPS * (mdp.dynamics.terms + 8) + 2 * mdp.dynamics.built.rows
        ends = _by_trial(engine.program, engine.data, trial, np.float64(slack))
    reached = _reached(engine.program, engine.data, ends)
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


def _by_rows(mdp: MDP) -> NDArray[np.bool_]:
    """(grid) states whose feasible rows lead to themselves alone, and pay nothing."""
    stays = np.ones(mdp.n_states, dtype=bool)
    for action, matrix in enumerate(mdp.dynamics.to_sparse()):
        matrix.eliminate_zeros()
        alone = (np.diff(matrix.indptr) == 1) & (matrix.diagonal() > 1 - ENDS)
        paid = mdp.dynamics.reward_under(action) != 0
        stays &= (alone & ~paid) | ~mdp.feasible_mask[:, action]
    return stays.reshape(mdp.grid.shape)


@compiled("program")
def _by_trial(program, data: Data, trial, slack):
    """(grid) the same without rows; leaving with a chance below ``slack`` counts as staying."""
    arrays, feasible, xp = data.arrays, data.feasible, numerics(trial)
    tail = program.tail(arrays, trial, False)
    paid = program.tail(arrays, xp.zeros_like(trial), True)

    def leaves(action, left):
        moved = abs(program.head(arrays, tail, action, False) - trial) > slack
        moved = moved | (program.head(arrays, paid, action, True) != 0)
        return left | _some(feasible, action, moved)

    return ~over_actions(program, leaves, xp.zeros(trial.shape, bool))


@compiled("program")
def _reached(program, data: Data, ends):
    """(grid) from which states an end can be reached."""
    arrays, feasible, xp = data.arrays, data.feasible, numerics(ends)

    def expect(w):
        tail = program.tail(arrays, w, False)
        return lambda action: program.head(arrays, tail, action, False)

    going_on = expect(xp.ones(ends.shape))

    def stops(action, stopped):
        return stopped | _some(feasible, action, going_on(action) < 1 - ENDS)

    def grow(carry):
        reached, _ = carry
        chance = expect(reached.astype(float))

        def leads(action, found):
            return found | _some(feasible, action, chance(action) > 0)

        more = over_actions(program, leads, reached)
        return more, (more != reached).any()

    first = over_actions(program, stops, ends)
    return xp.loop(lambda carry: carry[1], grow, (first, xp.array(True)))[0]


def _some(feasible: Any, action: Any, marked: Any) -> Any:
    return marked if feasible is None else marked & feasible[action]
