"""Backward induction: the periods of a horizon, each solved once, from the last.

    v_t = max_a [ r_t + discount P_t v_(t+1) ],      v_T = final.

No point is improved and none need be proven: with eta_t the rounding of a backup, the error of each
period follows from that of the next,

    e_t = eta_t + c e_(t+1),      c = discount * largest row sum.

Only one period is worked on at a time, and its action values are computed once where they fit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, NotConverged
from tessella.mdp.dynamics import under_policy
from tessella.mdp.engine import compiled, in_callers_setting, in_float64, placed
from tessella.mdp.model import MDP
from tessella.mdp.timed import Timed, TimedProgram
from tessella.mdp.timed_tables import TimedTableProgram
from tessella.numerics import numerics
from tessella.rounding import EPS, round_up
from tessella.solvers.driver import Callback, Engine, Progress
from tessella.solvers.kernels import best_two, lowest_near, tie_window
from tessella.solvers.method import Method
from tessella.solvers.operators import Data, Operators
from tessella.solvers.result import History, Result

Timely = TimedProgram | TimedTableProgram
KEPT = 1 << 27  # action values of a period that are kept while it is worked on: 1 GiB
OUTWARD = 1 + 32 * EPS  # covers the rounding of a bound's own arithmetic


@dataclass(frozen=True)
class BackwardInduction(Method):
    """Period by period, from the last; for models with a finite horizon."""

    traced = False

    def check_supports(self, mdp: MDP) -> None:
        if not serves(mdp):
            rule = "backward induction serves models with a finite horizon, told by period"
            raise ArgumentError(rule, value=f"got {mdp.criterion}")

    def refine(self, operators, state):
        return state.backup


class Induced(NamedTuple):
    """What one period's backup gives; (T, ...) for all of them, from the first on."""

    value: Any  # (states)
    policy: Any  # (states) the lowest action index among those that tie with the best
    margin: Any  # (states) best minus second best
    error: Any  # on |value - V*|
    tie: Any  # what that error and rounding could overturn


def serves(mdp: MDP) -> bool:
    """Whether a model can be solved so: its dynamics are told by period."""
    return isinstance(mdp.dynamics, Timed)


@in_float64
def induce(
    engine: Engine, method: Method, callback: Callback | None, partial: bool
) -> tuple[Result, Induced]:
    """The optimum, and what is known of its policy; ``callback`` is told of every period.

    A callback may stop it. Of the earlier times no more is known then than the rewards tell.
    """
    mdp, periods, stopped = engine.mdp, engine.mdp.grid.shape[0], False
    began, found, seconds = time.perf_counter(), [], []
    program = cast(Timely, engine.program)
    w, error = program.final(engine.data.arrays), np.float64(0)
    for t in reversed(range(periods)):
        feasible = None if engine.data.feasible is None else engine.data.feasible[:, t]
        w, now = _period(program, engine.data, feasible, np.int32(t), w, error)
        error = now.error
        found.append(Induced(*(np.asarray(part) for part in now)))
        seconds.append(time.perf_counter() - began)
        if callback is not None:
            progress = Progress(len(found), float(error), 0, seconds[-1])
            with in_callers_setting():
                stopped = bool(callback(progress))
        if stopped:
            break
    reached = len(found)
    found += [_not_reached(engine, t) for t in reversed(range(periods - reached))]
    whole = Induced(*(np.stack(part[::-1]) for part in zip(*found, strict=True)))
    bounds = whole.error[::-1][:reached]
    history = History(bounds, np.zeros(reached, np.int64), np.array(seconds))
    largest, wanted = float(whole.error.max()), method.tolerance(mdp)
    converged = reached == periods and (wanted is None or largest <= wanted)
    reason = f"every period was solved once; rounding leaves {round_up(largest)}"
    if reached < periods:
        reason = (
            f"stopped by the callback after {reached} of {periods} periods, counted from the last; "
            "earlier times have the value 0"
        )
    elif not converged:
        reason = f"float64 cannot certify tol={wanted:.3g} for this model: {reason}"
    result = Result(whole.value, largest, converged, reason, history)
    if not converged and not partial and reached == periods:
        raise NotConverged(reason, result)
    return result, whole


def _not_reached(engine: Engine, t: int) -> Induced:
    """The period at time ``t`` before it is solved: value 0, and the first feasible action."""
    mdp, numbers = engine.mdp, engine.data.numbers
    states = mdp.grid.shape[1:]
    most = np.asarray(engine.data.criterion.reach(numbers.reward_scale + numbers.reward_error))
    first = mdp.feasible_mask.reshape(*mdp.grid.shape, -1)[t].argmax(axis=-1).astype(np.int32)
    return Induced(np.zeros(states), first, np.zeros(states), most, 2 * most)


@compiled("program")
def _period(program: Timely, data: Data, feasible, t, w, error) -> tuple[Any, Induced]:
    """One period: ``w`` is discount * value of the next, known within ``error``.

    (discount * value, what is found of this one).
    """
    own = data._replace(arrays=program.at(data.arrays, t), feasible=feasible)
    operators = Operators(program.period, own)
    q_of = _action_values(operators, w)
    value = w / data.criterion.discount
    eta, carried = operators.rounding(value, 0.0), data.criterion.largest * error
    best, second = best_two(program, q_of, w)
    error = (operators.rounding(value, 0.0, best) + carried) * OUTWARD
    tie = 2 * (eta + carried) * OUTWARD
    policy = lowest_near(program, q_of, best, tie_window(data, tie, eta))
    return data.criterion.discount * best, Induced(best, policy, best - second, error, tie)


def _action_values(operators: Operators, w):
    """action -> (states) its values, where ``w`` is the next period's, discounted."""
    program, data, xp = operators.program, operators.data, numerics(w)
    tail = program.tail(data.arrays, w, True)

    def q_of(action):
        q_S = program.head(data.arrays, tail, action, True)
        return q_S if data.feasible is None else xp.where(data.feasible[action], q_S, -xp.inf)

    if program.n_actions * w.size > KEPT:
        return q_of
    q_A = xp.each(q_of, xp.arange(program.n_actions))
    return lambda action: q_A[action]


@in_float64
def induced_value(engine: Engine, policy: NDArray) -> NDArray[np.float64]:
    """(grid) the value of a policy, period by period."""
    table = placed(engine.program, np.asarray(policy, np.int32))
    return np.asarray(_under(engine.program, engine.data, table))


@compiled("program")
def _under(program: Timely, data: Data, policy):
    arrays, discount = data.arrays, data.criterion.discount

    def period(w, now):
        t, taken = now
        value = under_policy(program.period, program.at(arrays, t), taken, w, True)
        return discount * value, value

    return numerics(policy).back(period, program.final(arrays), policy)
