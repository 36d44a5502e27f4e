"""Running a method: the wrapper that checks, times, watches and reports; the kernels compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, NotConverged
from tessella.mdp.engine import in_float64
from tessella.mdp.model import MDP
from tessella.solve import kernels
from tessella.solve.solution import History

STRETCH = 256  # sweeps in one compiled call when nobody watches


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each sweep."""

    sweep: int
    bound: float
    changed: int
    seconds: float


Callback = Callable[[Progress], object]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run: V* (or V_pi) lies within ``bound`` of ``value``."""

    value: NDArray[np.float64]
    policy: NDArray[np.int32]
    bound: float
    converged: bool
    reason: str
    history: History


class Engine:
    """A model made ready for the kernels."""

    def __init__(self, mdp: MDP, tol: float | None) -> None:
        if tol is not None and not (np.isfinite(tol) and tol > 0):
            raise ModelError(f"tol must be a positive number, or None; got {tol}")
        self.mdp, self.tol = mdp, tol
        mass = mdp.dynamics.mass
        if mdp.discount * mass.high >= 1:
            raise ModelError(
                f"discount {mdp.discount} is too near 1 for rows that sum to {mass.high:.17g}"
            )

    @property
    def program(self):
        return self.mdp.dynamics.lowered.program

    @cached_property
    def model(self) -> kernels.Model:
        mdp, mass = self.mdp, self.mdp.dynamics.mass
        numbers = kernels.Numbers(
            *(
                jnp.asarray(x, dtype=jnp.float64)
                for x in (
                    mdp.discount,
                    mass.low,
                    mass.high,
                    np.finfo(float).eps * (mdp.dynamics.terms + 8),
                    mdp.dynamics.reward_scale,
                    self.tol or 0.0,
                )
            )
        )
        feasible = None
        if mdp.feasible is not None:
            feasible = jnp.asarray(mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape))
        return kernels.Model(mdp.dynamics.lowered.arrays, feasible, numbers)

    def zeros(self) -> tuple:
        shape = self.mdp.grid.shape
        return jnp.zeros(shape), jnp.zeros(shape, jnp.int32)


@in_float64
def run(
    engine: Engine,
    method,
    *,
    policy: NDArray | None = None,
    start: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
) -> Run:
    """Iterate ``method`` until its tolerance, its limit, or the callback's wish."""
    began = time.perf_counter()
    value, actions = engine.zeros()
    fixed = policy is not None
    if policy is not None:
        actions = jnp.asarray(policy, jnp.int32).reshape(value.shape)
    if start is not None:
        value = jnp.asarray(start, jnp.float64).reshape(value.shape)
    state = kernels.first_look(engine.program, fixed, engine.model, value, actions)
    log = _Log(began, callback)
    log.add([float(state.bound)], [int(state.changed)])
    chunk = STRETCH if callback is None else 1
    while not (log.stopped or _finished(engine, state)) and len(log) < method.max_sweeps:
        limit = min(chunk, method.max_sweeps - len(log))
        state, count, bounds, changes = kernels.advance(
            engine.program, method, fixed, chunk, engine.model, state, limit
        )
        count = int(count)
        log.add(np.asarray(bounds)[:count], np.asarray(changes)[:count])
    return _report(engine, method, state, log, partial)


def _finished(engine: Engine, state: kernels.State) -> bool:
    return bool(kernels.finished(engine.model.numbers, state))


class _Log:
    """History in the making; tells the callback."""

    def __init__(self, began: float, callback: Callback | None) -> None:
        self.began, self.callback, self.stopped = began, callback, False
        self.bounds: list[float] = []
        self.changes: list[int] = []
        self.seconds: list[float] = []

    def __len__(self) -> int:
        return len(self.bounds)

    def add(self, bounds, changes) -> None:
        before = self.seconds[-1] if self.seconds else 0.0
        now = time.perf_counter() - self.began
        count = len(bounds)
        self.seconds += list(before + (now - before) * np.arange(1, count + 1) / max(count, 1))
        self.bounds += [float(b) for b in bounds]
        self.changes += [int(c) for c in changes]
        if self.callback is not None:
            last = Progress(len(self), self.bounds[-1], self.changes[-1], self.seconds[-1])
            self.stopped = bool(self.callback(last))

    def history(self) -> History:
        return History(np.array(self.bounds), np.array(self.changes), np.array(self.seconds))


def _report(engine: Engine, method, state: kernels.State, log: _Log, partial: bool) -> Run:
    bound, floor = float(state.bound), float(state.floor)
    wanted = float(kernels.target(engine.model.numbers, state.floor))
    converged = bound <= wanted
    if converged:
        reason = f"bound {bound:.3g} is within the tolerance {wanted:.3g}"
    elif not np.isfinite(bound):
        reason = "the numbers of this model overflow float64; rescale its rewards"
    elif bound <= kernels.AT_FLOOR * floor:
        reason = (
            f"float64 cannot certify tol={wanted:.3g} for this model: rounding alone leaves "
            f"{floor:.3g}; ask for more than that, or for tol=None"
        )
    elif log.stopped:
        reason = f"stopped by the callback after {len(log)} sweeps at bound {bound:.3g}"
    else:
        reason = (
            f"the limit of {method.max_sweeps:,} sweeps was reached at bound {bound:.3g}, "
            f"short of {wanted:.3g}"
        )
    value = np.asarray(state.backup + state.middle)
    # Adding the middle rounds once more.
    bound += float(np.finfo(float).eps * np.abs(value).max())
    done = Run(value, np.asarray(state.policy), bound, converged, reason, log.history())
    if not converged and not partial and not log.stopped:
        raise NotConverged(reason, done)
    return done


@in_float64
def q_values(engine: Engine, value: NDArray) -> tuple[NDArray[np.float64], float]:
    """(grid, A) action values at ``value``, and how far rounding may put them off."""
    point = jnp.asarray(value)
    q_A = kernels.all_action_values(engine.program, engine.model, point)
    eta = float(kernels.rounding(engine.model.numbers, point))
    return np.moveaxis(np.asarray(q_A), 0, -1), eta
