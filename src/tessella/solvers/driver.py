"""Iterating a method: the wrapper that checks, times, watches and reports; the kernels compute."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import Average
from tessella.criteria.criterion import Enclosure
from tessella.criteria.discounted import Discounted
from tessella.criteria.total import Ending
from tessella.errors import ArgumentError, ModelError, NotConverged
from tessella.mdp.dynamics import Lowered, Plain
from tessella.mdp.engine import held, in_callers_setting, in_float64, placed
from tessella.mdp.model import MDP
from tessella.mdp.pulled import only_read
from tessella.mdp.shards import Layout, Shards
from tessella.mdp.stages.sharded import ShardedProgram, among
from tessella.rounding import EPS, Mass, round_up
from tessella.solvers import kernels
from tessella.solvers.chains import refuse_chain
from tessella.solvers.checkpoint import Keeper
from tessella.solvers.coarse import Cuts, chosen, correction
from tessella.solvers.elimination import Eliminated, by_elimination
from tessella.solvers.method import Method, checked_tol
from tessella.solvers.operators import SMALLEST, Data, Numbers
from tessella.solvers.result import History, Result

LARGEST = 1e290  # values beyond this are refused: their sums could overflow
STALLED = 0.5, 8  # a bound that is not cut to this share in so many rounds calls for another way
STUCK = 0.9, 200  # and one that is not cut to this share in so many calls for a reason
STRETCH = 256  # sweeps in one compiled call
PACE = 16  # rounds that tell how long the rest takes
SHARP = 1e-9  # of the gain: averages that are known less well are found by elimination, if may be
USEFUL = 1e-6  # of the largest reward: an average that is known less well has not converged
WIDE = 10_000  # states of a model whose averages are helped by a coarse correction


@dataclass(frozen=True)
class Progress:
    """What a callback of ``solve`` sees after each sweep."""

    sweep: int
    bound: float
    changed: int
    seconds: float
    left: float | None = None  # seconds, at the pace of the last rounds; None where none is known


Callback = Callable[[Progress], object]


class Engine:
    """A model made ready for the kernels.

    ``time`` bounds the periods to the end, where a criterion rests on that; with 1, bounds are
    those of residuals. What is ``traced`` works on a program that can be compiled. It is cut
    among ``devices``, where there are several.
    """

    def __init__(
        self,
        mdp: MDP,
        tol: float | None,
        time: float | None = None,
        traced: bool = False,
        devices: Sequence[Any] = (),
    ) -> None:
        self.mdp, self.tol, self.time, self.traced = mdp, checked_tol(tol), time, traced
        self.devices = devices
        if not self.rest > 0:
            raise ModelError(mdp.criterion.refusal(self.mass))
        scale = mdp.dynamics.reward_scale
        if scale > mdp.criterion.per_period(LARGEST):
            raise ModelError(
                f"rewards up to {scale:.3g} at discount {mdp.discount} would overflow float64; "
                "rescale them"
            )
        if 0 < scale < SMALLEST:
            raise ModelError(f"rewards of at most {scale:.3g} vanish in float64; rescale them")

    @property
    def written_rest(self) -> float:
        """The same for the rows of a model file, rounded down; 0 where that may not be positive."""
        off = self.mdp.dynamics.written.rows - self.mdp.dynamics.stored.rows
        rest = self.mdp.criterion.rest(self.mass.widened(2 * off))
        return max(rest * (1 - 64 * EPS), 0.0)

    def written(self, value: NDArray) -> float:
        """How far a backup of ``value`` by the arrays of a model file may be off, and they off."""
        stored, written = self.mdp.dynamics.stored, self.mdp.dynamics.written
        largest = float(np.abs(value).max()) * self.mdp.discount * self.mass.high
        apart = (written.reward - stored.reward) + (written.rows - stored.rows) * largest
        return 2 * apart * (1 + 8 * EPS)

    @property
    def mass(self) -> Mass:
        """Bounds on the row sums of the model that was meant, not only of its stored rows."""
        # Rows made of the stored numbers are rounded; what that does meets values, as a row error.
        return self.mdp.dynamics.mass.widened(self.mdp.dynamics.stored.rows)

    @property
    def adjoint_floor(self) -> float:
        """What rounding leaves of the error of an occupancy, by the arrays of a file included."""
        # The adjoint adds up what flows into a state, which may be much.
        sums = EPS * (self.mdp.dynamics.adjoint_terms + 8)
        stored, written = self.mdp.dynamics.stored.rows, self.mdp.dynamics.written.rows
        return float(sums + 2 * written - stored) / self.rest

    @property
    def rest(self) -> float:
        """What a residual is divided by to bound an error: 1 - c when rewards are discounted."""
        return self.mdp.criterion.rest(self.mass)

    @cached_property
    def lowered(self) -> Lowered:
        dynamics = self.mdp.dynamics
        if self.devices:
            return among(dynamics, self.devices)
        return dynamics.compiled if self.traced else dynamics.lowered

    @cached_property
    def layout(self) -> Layout | None:
        """How arrays over the grid lie on several devices; None on one."""
        program = self.program
        return Layout(program, self.mdp.grid.shape) if isinstance(program, ShardedProgram) else None

    def placed(self, array: NDArray, dim: int = 0) -> Any:
        """An array whose axes from ``dim`` on are the grid's, as the kernels take it."""
        if self.layout is not None:
            return self.layout.placed(array, dim)
        return placed(self.program, array)

    def read(self, array: Any) -> NDArray:
        """An array over the grid as NumPy's."""
        return np.asarray(array if self.layout is None else self.layout.given_out(array))

    def given_out(self, array: Any) -> Any:
        """An array over the grid for a result: NumPy's, or one that stays until it is read.

        On an accelerator and on several devices it stays.
        """
        if self.layout is not None:
            return self.layout.given_out(array)
        return array if not self.plain and held() else np.asarray(array)

    @property
    def program(self):
        return self.lowered.program

    @property
    def plain(self) -> bool:
        """Whether nothing is compiled, so that one more function costs nothing."""
        return isinstance(self.program, Plain)

    def enclosure(self, unit: float) -> Enclosure:
        made = self.mdp.criterion.enclosure(self.mass, unit)
        if self.time is None or not isinstance(made, Ending):
            return made
        return made._replace(time=np.float64(self.time))

    @property
    def widely_averaged(self) -> bool:
        return self.mdp.n_states > WIDE and isinstance(self.mdp.criterion, Average)

    def data_for(self, policy: NDArray) -> Data:
        """The same, with a coarse correction made for this policy where models may need one."""
        if not self.widely_averaged:
            return self.data
        cuts = self.cuts
        seen = np.asarray(kernels.coarse_system(self.program, cuts, self.data, policy))
        return self.data._replace(coarse=placed(self.program, correction(seen, cuts)))

    @cached_property
    def cuts(self) -> tuple[Cuts, ...]:
        """Where a coarse correction has its nodes."""
        shape = self.mdp.grid.shape
        reaches = map(self.mdp.dynamics.reach, range(len(shape)))
        return chosen(shape, [r or (n, n) for n, r in zip(shape, reaches, strict=True)])

    @cached_property
    def data(self) -> Data:
        mdp, feasible = self.mdp, None
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape)
            feasible = self.placed(allowed, 1)
        return self.data_with(self.lowered.arrays, feasible)

    def data_with(self, arrays: Any, feasible: Any) -> Data:
        """The same with other arrays of the dynamics, such as those of a window."""
        dynamics = self.mdp.dynamics
        unit = EPS * (dynamics.terms + 8)
        numbers = unit, dynamics.built.rows, dynamics.built.reward, dynamics.reward_scale
        aims = self.tol or 0, kernels.RELATIVE
        rounding = Numbers(*map(np.float64, (*numbers, *aims)))
        return Data(arrays, feasible, self.enclosure(unit), rounding)


@in_float64
def iterate(
    engine: Engine,
    method: Method,
    *,
    policy: NDArray | None = None,
    guess: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
    keeper: Keeper | None = None,
) -> Result:
    """Iterate ``method`` until the engine's tolerance, its own limit, or the callback's wish.

    With a ``policy`` it evaluates that; without, it looks for the optimum. A ``keeper`` writes down
    the best point now and then, and a run that was broken off goes on from it.
    """
    kept = None if keeper is None else keeper.kept()
    log = _Log(callback, None if kept is None else kept.history)
    fixed, data = policy is not None, engine.data
    state = _start(engine, guess if kept is None else kept.value, policy)
    wide = method.linear and engine.widely_averaged
    plain = method.linear and engine.plain and not fixed  # where one more function costs nothing
    if wide or plain or kept is not None:  # a point whose greedy policy is not known yet
        state = kernels.first_look(engine.program, fixed, data, state)
        log.add([state.bound], [state.changed], kernels.target(data, state.floor))
        if wide and engine.plain:
            direct = by_elimination(engine, state, fixed, early=True)
            if direct is not None:
                return _report(engine, method, data, state, log, partial, direct)
        data = engine.data_for(state.policy) if wide else data
    chunk = STALLED[1] if method.linear else STRETCH
    helped = False  # by a direct solve; then every policy is evaluated so while they improve
    while True:
        one = helped or callback is not None  # a limit, not a chunk: no other program is compiled
        limit = 0 if log.stopped else min(1 if one else chunk, method.max_sweeps - len(log))
        limit = limit if keeper is None else max(min(limit, keeper.rounds), 0)
        stretch = kernels.advance(engine.program, method, fixed, chunk, data, state, limit)
        state, rounds = stretch.state, int(stretch.rounds)
        told = np.asarray(stretch.bounds)[:rounds], np.asarray(stretch.changes)[:rounds]
        log.add(*told, stretch.target)
        if bool(stretch.finished) and not log.stopped and len(log) < method.max_sweeps:
            state = _polished(engine, method, fixed, data, state)
            if state is not stretch.state:
                log.add([state.bound], [state.changed], stretch.target)
        cut_short = log.stopped or len(log) >= method.max_sweeps
        done = bool(stretch.finished) or _rounded_off(method, data, state, log)
        ended = done or cut_short
        if log.eliminates(engine, method, done, cut_short):
            direct = _eliminated(engine, fixed, state, ended)
            if direct is not None:
                return _report(engine, method, data, state, log, partial, direct)
        if keeper is not None and (keeper.due or ended):
            keeper.write(_value(engine, data.criterion, state), log.history())
        if ended:
            return _report(engine, method, data, state, log, partial)
        if helped and not log.changes[-1]:
            helped = False  # the policy stays: what is left is for the method's own rounds
        elif method.linear and log.stalled and engine.widely_averaged:
            data = engine.data_for(state.policy)
        elif method.linear and not engine.plain and (helped or log.stalled):
            direct = _directly(engine, state)
            state, helped = direct or state, direct is not None
        if log.stuck:
            refuse_chain(engine.mdp, engine.read(state.policy), fixed)


def _eliminated(
    engine: Engine, fixed: bool, state: kernels.State, ended: bool
) -> Eliminated | None:
    """An average by elimination, where that knows it better than a run that has ended."""
    bound = float(state.bound)
    if ended and bound <= SHARP * abs(float(state.middle)):
        return None
    known = ended and bound <= USEFUL * engine.mdp.dynamics.reward_scale
    found = by_elimination(engine, state, fixed, known=known)
    return found if found is not None and found.bound < bound else None


def _polished(
    engine: Engine, method: Method, fixed: bool, data: Data, state: kernels.State
) -> kernels.State:
    """One round more, where that brings the bound nearer to what rounding leaves.

    Without a tolerance, where nothing is compiled and a linear solver makes a round worth while.
    """
    if engine.tol or not (method.linear and engine.plain):
        return state
    finer = data._replace(numbers=data.numbers._replace(relative=np.float64(0)))
    if not np.isfinite(data.criterion.forever(1.0)):
        return state
    more = kernels.advance(engine.program, method, fixed, 1, finer, state, 1)
    better = int(more.rounds) and more.state.bound < state.bound
    return more.state if better else state


def _rounded_off(method: Method, data: Data, state: kernels.State, log: _Log) -> bool:
    """Whether only rounding moves the bound to and fro, near what it leaves, and no round helps.

    Of rounds that solve linear systems: sweeps near discount 1 bring next to nothing each, and yet
    get there.
    """
    near = float(state.bound) <= kernels.ABOVE_FLOOR * float(kernels.least(data, state.floor))
    return method.linear and log.stuck and near


def _directly(engine: Engine, state: kernels.State) -> kernels.State | None:
    """A start from the value of the present policy, where dynamics offer a direct solve."""
    mdp = engine.mdp
    if not isinstance(mdp.criterion, Discounted):
        return None
    actions = engine.read(state.policy)
    system = mdp.dynamics.factorised(actions, mdp.discount)
    if system is None:
        return None
    reward = mdp.reward[np.arange(mdp.n_states), actions.ravel()]
    return _start(engine, system.solve(reward), actions)


def _start(engine: Engine, value: NDArray | None, policy: NDArray | None) -> kernels.State:
    shape = engine.mdp.grid.shape
    if value is None and policy is None and engine.layout is not None:
        return _begun(*map(engine.layout.zeros, (jnp.float64, jnp.int32)))
    if value is None and policy is None and not engine.plain and held():
        return _begun(jnp.zeros(shape), jnp.zeros(shape, jnp.int32))  # nothing of it on the host
    point = np.zeros(shape) if value is None else np.asarray(value, dtype=float)
    if point.size != int(np.prod(shape)) or not np.isfinite(point).all():
        raise ArgumentError(
            f"a guess must hold finite values of shape {shape}", value=f"got {point.shape}"
        )
    if (
        engine.mdp.dynamics.reward_scale == 0
    ):  # worth 0: what is far off would vanish, digit by digit
        point = np.zeros(shape)
    actions = np.zeros(shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    return _begun(*(engine.placed(array.reshape(shape)) for array in (point, actions)))


def _begun(v, pi) -> kernels.State:
    zero, infinite = np.float64(0), np.float64(np.inf)
    return kernels.State(v, v, pi, zero, zero, infinite, zero, np.int64(0))


def _value(engine: Engine, criterion: Enclosure, state: kernels.State) -> NDArray[np.float64]:
    """The values that a run would report now."""
    found = engine.read(state.backup), float(state.middle), float(state.shift)
    return criterion.values(*found)[0]


class _Log:
    """History in the making, or going on; tells the callback."""

    def __init__(self, callback: Callback | None, before: History | None) -> None:
        self.callback, self.stopped = callback, False
        self.tried = False  # whether elimination was, in vain
        self.bounds: list[float] = [] if before is None else before.bound.tolist()
        self.changes: list[int] = [] if before is None else before.changed.tolist()
        self.seconds: list[float] = [] if before is None else before.seconds.tolist()
        self.began = time.perf_counter() - (self.seconds[-1] if self.seconds else 0.0)

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def stalled(self) -> bool:
        """Whether the last rounds brought little."""
        share, rounds = STALLED
        return len(self) > rounds and not self.bounds[-1] < share * self.bounds[-1 - rounds]

    @property
    def stuck(self) -> bool:
        """Whether many rounds brought next to nothing."""
        share, rounds = STUCK
        return len(self) > rounds and not self.bounds[-1] < share * self.bounds[-1 - rounds]

    def eliminates(self, engine: Engine, method: Method, done: bool, cut_short: bool) -> bool:
        """Whether an average may need elimination: at the end, and where rounds bring little."""
        if not isinstance(engine.mdp.criterion, Average) or (cut_short and not done):
            return False
        if done:
            return True
        little = (self.stalled if method.linear else self.stuck) and not self.tried
        self.tried = self.tried or little
        return little

    def left(self, target: float) -> float | None:
        """Seconds until the bound is at ``target``, at the pace of the last rounds."""
        rounds = min(PACE, len(self) - 1)
        if rounds < 1 or not 0 < self.bounds[-1] < self.bounds[-1 - rounds] < np.inf:
            return None
        cut = np.log(self.bounds[-1 - rounds] / self.bounds[-1]) / rounds
        each = (self.seconds[-1] - self.seconds[-1 - rounds]) / rounds
        return (
            float(max(np.log(self.bounds[-1] / target), 0.0) / cut * each) if target > 0 else None
        )

    def add(self, bounds, changes, target) -> None:
        before = self.seconds[-1] if self.seconds else 0.0
        now = time.perf_counter() - self.began
        count = len(bounds)
        self.seconds += list(before + (now - before) * np.arange(1, count + 1) / max(count, 1))
        self.bounds += [float(b) for b in bounds]
        self.changes += [int(c) for c in changes]
        if self.callback is not None and count:
            left = self.left(float(target))
            last = Progress(len(self), self.bounds[-1], self.changes[-1], self.seconds[-1], left)
            with in_callers_setting():
                self.stopped = bool(self.callback(last))

    def history(self) -> History:
        return History(np.array(self.bounds), np.array(self.changes), np.array(self.seconds))


def _report(
    engine: Engine,
    method: Method,
    data: Data,
    state: kernels.State,
    log: _Log,
    partial: bool,
    direct: Eliminated | None = None,
) -> Result:
    wanted = float(kernels.target(data, state.floor))
    bound, floor = float(state.bound), float(kernels.least(data, state.floor))
    value, gain = _values(engine, data.criterion, state)
    table = None
    if direct is not None:
        value, table, gain, bound = direct
    if np.isnan(bound):
        raise NotConverged(
            f"the run broke down after {len(log)} sweeps: its numbers are not finite"
        )
    most = np.inf if gain is None or engine.tol else USEFUL * engine.mdp.dynamics.reward_scale
    converged = bound <= min(wanted, most)
    if converged:
        reason = f"bound {round_up(bound)} is within the tolerance {wanted:.3g}"
    elif gain is not None and bound <= wanted:
        reason = f"float64 leaves a bound of {round_up(bound)}, too wide to be of use"
    elif bound <= kernels.AT_FLOOR * floor or _rounded_off(method, data, state, log):
        reason = (
            f"float64 cannot certify tol={wanted:.3g} for this model: rounding leaves a bound of "
            f"{round_up(bound)}; ask for more than that, or for tol=None"
        )
    elif log.stopped:
        reason = f"stopped by the callback after {len(log)} sweeps at bound {round_up(bound)}"
    else:
        reason = f"{method.limit} at bound {round_up(bound)}, short of {wanted:.3g}"
    done = Result(value, bound, converged, reason, log.history(), gain=gain, table=table)
    if not converged and not partial and not log.stopped:
        raise NotConverged(reason, done)
    return done


def _values(engine: Engine, criterion: Enclosure, state: kernels.State) -> tuple[Any, float | None]:
    """(values to report, gain or None), as they are given out."""
    numbers = float(state.middle), float(state.shift)
    if engine.layout is None:
        return criterion.values(engine.given_out(state.backup), *numbers)
    value, gain = criterion.values(state.backup, *numbers)
    return engine.layout.given_out(value), gain


@in_float64
def swept(engine: Engine, count: int) -> None:
    """So many plain sweeps from zero, in double precision: for timing them."""
    state = _start(engine, None, None)
    many = np.int64(count)
    jax.block_until_ready(kernels.plain_sweeps(engine.program, engine.data, state.value, many))


@in_float64
def q_values(engine: Engine, value: NDArray) -> NDArray[np.float64]:
    """(grid, A) action values at ``value``."""
    q_A = kernels.all_action_values(engine.program, engine.data, np.asarray(value))
    return only_read(np.moveaxis(np.asarray(q_A), 0, -1))


@in_float64
def prove(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> float:
    """Bound on |value - V*|, or on |value - V_pi|, from nothing but the value's residual.

    ``extra`` is a further error that a backup may have, such as that of a file's arrays.
    """
    numbers = _at_point(value, policy, extra)
    return float(kernels.prove(engine.program, policy is not None, engine.data, *numbers))


@in_float64
def rise(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> tuple[NDArray[np.float64], float]:
    """((grid) T v - v, how far that may be off), or with T_pi; ``extra`` as for ``prove``."""
    numbers = _at_point(value, policy, extra)
    apart, off = kernels.rise(engine.program, policy is not None, engine.data, *numbers)
    return np.asarray(apart), float(off)


def _at_point(value: NDArray, policy: NDArray | None, extra: float) -> tuple[NDArray, ...]:
    table = np.zeros(value.shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    return np.asarray(value, dtype=float), table, np.float64(extra)  # type: ignore[return-value]


@in_float64
def enclose_gain(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> tuple[float, float]:
    """(gain, by how much it may be off): of the best policy, or of ``policy``, from every state.

    From nothing but the residual of the relative values ``value``; ``extra`` as for ``prove``.
    """
    state = _start(engine, value, policy)
    seen = kernels.first_look(engine.program, policy is not None, engine.data, state)
    # The middle that a look takes out of the values is itself off by half a unit of its last digit.
    off = float(seen.bound) + extra + 4 * EPS * float(np.ptp(value))
    return float(seen.middle), off * (1 + 8 * EPS)


@in_float64
def decide(engine: Engine, value: Any, bound: float) -> kernels.Decision:
    """Margins, policy and tie tolerance at ``value``, as they are given out."""
    if isinstance(value, Shards):
        value = value.array
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    found = kernels.decide(engine.program, engine.data, value, np.float64(bound))
    margin, policy = engine.given_out(found.margin), engine.given_out(found.policy)
    return kernels.Decision(margin, policy, float(found.tie))


@in_float64
def contrast(
    engine: Engine, value: NDArray, bound: float, policy: NDArray, extra: float = 0.0
) -> kernels.Contrast:
    """How the actions of ``policy`` compare with the best at ``value``, as NumPy arrays."""
    numbers = np.asarray(value, dtype=float), np.float64(bound), np.asarray(policy, np.int32)
    found = kernels.contrast(engine.program, engine.data, *numbers, np.float64(extra))
    return kernels.Contrast(*(np.asarray(part) for part in found))  # type: ignore[arg-type]
