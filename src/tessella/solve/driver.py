"""Running a method: the wrapper that checks, times, watches and reports; the kernels compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, NotConverged
from tessella.mdp.engine import in_float64, on_device
from tessella.mdp.model import MDP
from tessella.solve import kernels
from tessella.solve.solution import History

LARGEST = 1e290  # values beyond this are refused: their sums could overflow
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
        if mdp.dynamics.reward_scale > LARGEST * (1 - mdp.discount):
            raise ModelError(
                f"rewards up to {mdp.dynamics.reward_scale:.3g} at discount {mdp.discount} would "
                f"overflow float64; rescale them"
            )

    @property
    def program(self):
        return self.mdp.dynamics.lowered.program

    @cached_property
    def model(self) -> kernels.Model:
        mdp, mass = self.mdp, self.mdp.dynamics.mass
        unit = np.finfo(float).eps * (mdp.dynamics.terms + 8)
        numbers = (
            mdp.discount,
            mass.low,
            mass.high,
            unit,
            mdp.dynamics.reward_scale,
            self.tol or 0,
        )
        feasible = None
        if mdp.feasible is not None:
            feasible = on_device(mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape))
        arrays = mdp.dynamics.lowered.arrays
        return kernels.Model(arrays, feasible, kernels.Numbers(*map(np.float64, numbers)))


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
    """Iterate ``method`` until its tolerance, its limit, or the callback's wish.

    With a ``policy`` the run evaluates it; without, it looks for the optimum.
    """
    log = _Log(time.perf_counter(), callback)
    state = _start(engine.mdp.grid.shape, start, policy)
    chunk = STRETCH if callback is None else 1
    while True:
        limit = min(chunk, method.max_sweeps - len(log))
        stretch = kernels.advance(
            engine.program, method, policy is not None, chunk, engine.model, state, limit
        )
        state, count = stretch.state, int(stretch.rounds)
        log.add(np.asarray(stretch.bounds)[:count], np.asarray(stretch.changes)[:count])
        if bool(stretch.finished) or log.stopped or len(log) >= method.max_sweeps:
            return _report(method, stretch, log, partial)


def _start(shape: tuple[int, ...], value: NDArray | None, policy: NDArray | None) -> kernels.State:
    point = np.zeros(shape) if value is None else np.asarray(value, dtype=float).reshape(shape)
    actions = np.zeros(shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    v, pi = on_device(point), on_device(actions.reshape(shape))
    zero, infinite = np.float64(0), np.float64(np.inf)
    return kernels.State(v, v, pi, zero, infinite, zero, np.int64(0))


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


def _report(method, stretch: kernels.Stretch, log: _Log, partial: bool) -> Run:
    state, wanted = stretch.state, float(stretch.target)
    bound, floor = float(state.bound), float(state.floor)
    converged = bound <= wanted
    if converged:
        reason = f"bound {bound:.3g} is within the tolerance {wanted:.3g}"
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
    value = np.asarray(state.backup) + float(state.middle)
    # Adding the middle rounds once more.
    bound += float(np.finfo(float).eps * np.abs(value).max())
    done = Run(value, bound, converged, reason, log.history())
    if not converged and not partial and not log.stopped:
        raise NotConverged(reason, done)
    return done


@in_float64
def q_values(engine: Engine, value: NDArray) -> NDArray[np.float64]:
    """(grid, A) action values at ``value``."""
    q_A = kernels.all_action_values(engine.program, engine.model, np.asarray(value))
    return np.moveaxis(np.asarray(q_A), 0, -1)


@in_float64
def decide(engine: Engine, value: NDArray, bound: float) -> kernels.Decision:
    """Margins, policy and tie tolerance at ``value``, as NumPy arrays."""
    found = kernels.decide(engine.program, engine.model, np.asarray(value), np.float64(bound))
    return kernels.Decision(*(np.asarray(part) for part in found))  # type: ignore[arg-type]
