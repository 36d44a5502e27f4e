"""How long it takes to reach certain states, at most: what values without a discount rest on.

Let w >= 1 + P_a w~ for all actions a of a set A(s), with w~ the same as w but 0 in the states to be
reached. Then no policy that keeps to A needs more than w(s) periods, in expectation, from s to one
of them. From any trial w with  1 + P_a w~ <= w + rho,  rho < 1,  such a bound is w / (1 - rho).

For averages it is one reference state. If h solves g + h = T h up to a residual r, with all actions
near the best in A, and g', h' solve it exactly when only actions of A are allowed, then, both taken
as 0 in the reference,

    |h - h'| <= r w,      |q(s, a) - q'(s, a)| <= r max w.

Actions outside of A that are worse than the best by more than twice that (and rounding) are worse
at h' too; so h' and g' solve it with all actions allowed, and h' is the relative value.

For total rewards it is the end, where values are 0 and there is no g. A policy that leaves A for
ever loses for ever, and one that keeps to A ends, so h' is the best total reward.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import ENDS
from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled, in_float64, placed
from tessella.numerics import numerics
from tessella.rounding import EPS, Mass
from tessella.solvers.driver import Engine
from tessella.solvers.operators import Data, Operators, size
from tessella.solvers.result import Precision

SWEEPS, STRETCHES = 50, 40  # of a trial w in one compiled call, and calls at most
CLOSE = 0.5  # rho at which a trial will do
SHORT, LONGER, ATTEMPTS = 20, 5, 3  # products of the first attempt, growth, how many
ROUGH = 1e-6  # what an attempt may leave
WIDENED, TRIES = 4.0, 6  # a set A that was too small is widened by this, so many times


@in_float64
def relative_error(engine: Engine, value: NDArray, policy: NDArray, bound: float) -> Precision:
    """The error of relative values ``value``, whose gain is known within ``bound``."""
    numbers = np.asarray(value, dtype=float), np.asarray(policy, np.int32)
    h, table = placed(engine.program, numbers)
    data = engine.data_for(table)
    reference = _most_visited(engine.program, data, table)
    eta = float(_rounding(engine.program, engine.data, h))
    residual = 2 * bound + 2 * eta
    time, tie = _near_best(engine, data, h, table, reference, residual, eta)
    return Precision(2 * residual * time, tie)  # from 0 in the reference to 0 in the first state


@in_float64
def ending_time(engine: Engine, ends: NDArray, value: NDArray, policy: NDArray, r: float) -> float:
    """Bound on the expected periods to the end for all policies that could be best.

    ``value`` has a residual of at most ``r``; inf where some such policy may never end.
    """
    v, table, closed = placed(engine.program, (value, np.asarray(policy, np.int32), ends))
    eta = float(_rounding(engine.program, engine.data, v))
    return _near_best(engine, engine.data, v, table, closed, r + eta, eta)[0]


def _near_best(engine: Engine, data: Data, h, table, closed, residual: float, eta: float):
    """(largest w, tie) for all actions that the error r w leaves within reach of the best."""
    reach = 4 * eta
    for _ in range(TRIES):
        time = _time(engine, data, h, np.float64(reach), table, closed, True)
        needed = 2 * (residual * time + eta)
        if needed <= reach or not np.isfinite(needed):
            return time, needed
        reach = WIDENED * needed
    return np.inf, np.inf


@in_float64
def policy_time(engine: Engine, policy: NDArray, ends: NDArray | None = None) -> float:
    """Bound on the expected periods under a policy to its most visited state, or to the end."""
    program = engine.program
    table = placed(program, np.asarray(policy, np.int32))
    data = engine.data_for(table)
    closed = _most_visited(program, data, table) if ends is None else placed(program, ends)
    zeros = placed(program, np.zeros(engine.mdp.grid.shape))
    return _time(engine, data, zeros, np.float64(0), table, closed, False)


@in_float64
def times_to_the_end(
    engine: Engine, ends: NDArray, value: NDArray, policy: NDArray, step: float, fixed: bool
) -> NDArray[np.float64]:
    """(grid) w, 0 at the end: w >= 1 + P_a w for all actions that ``step * w`` could make the best.

    With a ``fixed`` policy for its actions alone. inf where such policies may never end.
    """
    v, table, closed = placed(engine.program, (value, np.asarray(policy, np.int32), ends))
    reach = 4 * float(_rounding(engine.program, engine.data, v))
    for _ in range(TRIES):
        where = engine, engine.data, v, np.float64(reach), table, closed
        w = _without(np.asarray(_times(*where, not fixed)), ends)
        needed = 4 * step * float(w.max())
        if fixed or needed <= reach or not np.isfinite(needed):
            return w
        reach = WIDENED * needed
    return np.full(value.shape, np.inf)


def _time(engine: Engine, data: Data, h, reach, table, closed, several: bool) -> float:
    """max w over states, for actions within ``reach`` of the best, or for a policy's own."""
    return float(_times(engine, data, h, reach, table, closed, several).max())


def _times(engine: Engine, data: Data, h, reach, table, closed, several: bool):
    """(grid) w, for actions within ``reach`` of the best, or for a policy's own."""
    program = engine.program
    w = _first_trial(program, data, table, closed)
    for _ in range(STRETCHES):
        w, rho = _sweeps(program, several, data, h, reach, table, closed, w)
        largest = float(w.max())
        rho = float(rho) + EPS * (engine.mdp.dynamics.terms + 8) * largest
        rho += (_uneven(engine.mass) + engine.mdp.dynamics.built.rows) * largest
        if rho < CLOSE:
            return w / (1 - rho) * (1 + 8 * EPS)
        if not np.isfinite(largest):
            break
    return np.full(engine.mdp.grid.shape, np.inf)


def _uneven(mass: Mass) -> float:
    """How far rounding may have put a row sum off; a process that ends is there the sooner."""
    return mass.off if mass.off < ENDS else max(mass.over, 0.0)


@compiled("program")
def _most_visited(program, data: Data, policy):
    """(grid) the state with the largest share of time in the long run, marked."""
    operators, xp = Operators(program, data), numerics(policy)
    source = xp.full(policy.shape, 1 / policy.size)
    share = _roughly(
        operators.left_adjoint(policy, source), source, operators.preconditioned_adjoint
    )
    flat = xp.arange(policy.size).reshape(policy.shape)
    return flat == xp.argmax(share)


def _roughly(left: Any, right: Any, preconditioner: Any) -> Any:
    """x with left(x) near ``right``, from x = right on.

    BiCGSTAB may lose its way after some products, or break down; so it begins anew from the best
    point so far, each time for longer, and what does not help is not taken.
    """
    xp = numerics(right)

    def attempt(carry):
        most, x = carry
        rest = right - left(x)
        step = xp.bicgstab(left, rest, tol=ROUGH, maxiter=most, rough=preconditioner)
        better = abs(right - left(x + step)).sum() < abs(rest).sum()
        return most * LONGER, xp.where(better, x + step, x)  # what is no number is not better

    return xp.repeat(ATTEMPTS, attempt, (SHORT, right))[1]


@compiled("program")
def _rounding(program, data: Data, value):
    operators = Operators(program, data)
    v, shift = operators.criterion.split(value)
    return operators.rounding(v, shift) + EPS * size(v)


@compiled("program")
def _first_trial(program, data: Data, policy, closed):
    """The expected time under one policy, roughly; 1 where that cannot be."""
    operators = Operators(program, data)

    def left(w):
        return w - operators.expect(policy, _without(w, closed))

    ones = numerics(policy).ones(policy.shape)
    w = _roughly(left, ones, operators.preconditioned)
    return numerics(w).where((w > 0).all(), w, ones)


@compiled("program", "several")
def _sweeps(program, several: bool, data: Data, h, reach, policy, closed, w):
    """(w after some sweeps of 1 + max_a P_a w~, the largest rise in the last)."""
    operators, xp = Operators(program, data), numerics(h)
    q_of = operators.q(operators.criterion.split(h)[0])
    lowest = xp.full(h.shape, -xp.inf)
    best = over_actions(program, lambda a, b: xp.maximum(b, q_of(a)), lowest) if several else None

    def sweep(w):
        tail = program.tail(data.arrays, _without(w, closed), False)

        def step(action, longest):
            allowed = q_of(action) >= best - reach if several else policy == action
            time = 1 + program.head(data.arrays, tail, action, False)
            return xp.maximum(longest, xp.where(allowed, time, -xp.inf))

        return over_actions(program, step, lowest)

    w = xp.repeat(SWEEPS, sweep, w)
    return w, (sweep(w) - w).max()


def _without(w: Any, closed: Any) -> Any:
    """w with 0 in the states to be reached."""
    return numerics(w).where(closed, 0.0, w)
