"""Models that fill a device: value iteration in place, one slab after the other.

    v <- T v    on the first slab, then on the next with what the first has now, and so on.

One array of values is all that a sweep needs beside a slab, in place of five or six. Sweeps in
place contract as plain ones do. The bound comes from a round that writes nothing: with d = T v - v
between ``low`` and ``high``, and c the discount,

    low / (1 - c) <= V* - v <= high / (1 - c),

so v is moved to the middle of the two, and the residual of what that gives is d less a constant.
Expected rewards that are kept as factors are summed up slab by slab, in every sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tessella.criteria.discounted import Discounted
from tessella.errors import ArgumentError, NotConverged
from tessella.mdp.engine import compiled, in_callers_setting, in_float64, on_device
from tessella.mdp.model import MDP
from tessella.mdp.stages.operation import places, with_length
from tessella.mdp.stages.reward import ExpectedReward
from tessella.mdp.stages.staged import Staged, StagedProgram
from tessella.mdp.stages.windows import Cut, stages_of, window_program
from tessella.rounding import EPS, round_up
from tessella.solvers.driver import Callback, Engine, Progress
from tessella.solvers.kernels import best_two, lowest_near, tie_window
from tessella.solvers.method import Method, whole
from tessella.solvers.operators import Data, Operators
from tessella.solvers.result import History, Result
from tessella.solvers.slabs import cut_into_slabs

LOOKED = 16  # sweeps between two looks at the bound


@dataclass(frozen=True)
class InPlace(Method):
    """Value iteration in place, slab by slab: for discounted models that fill a device.

    Args:
        states: of a slab, about.
    """

    states: int = 1 << 26

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "states", 1)
        if self.tol is None:
            raise ArgumentError("value iteration in place needs a tolerance", value="got None")

    def check_supports(self, mdp: MDP) -> None:
        if not isinstance(mdp.dynamics, Staged) or not isinstance(mdp.criterion, Discounted):
            rule = "value iteration in place serves models of stages with discounted rewards"
            raise ArgumentError(rule, value=f"this is {mdp.criterion}")

    def refine(self, operators, state):
        return state.backup


@dataclass(frozen=True)
class Ends:
    """What a look at all slabs finds."""

    low: float  # T v - v is at least this ...
    high: float  # ... and at most this
    size: float  # max |v|


class Sweeper:
    """A model and its values on one device, swept slab by slab."""

    def __init__(self, engine: Engine, cut: Cut) -> None:
        dynamics = engine.mdp.dynamics
        assert isinstance(dynamics, Staged)
        self.engine, self.cut = engine, cut
        self.program, self.shape = window_program(dynamics, cut), engine.mdp.grid.shape
        self.slabs = -(-cut.length // cut.rows)
        self.data = [self._data(dynamics, k) for k in range(self.slabs)]
        padded = cut.below + self.slabs * cut.rows + cut.above
        self.value = jnp.zeros(with_length(self.shape, cut.axis, padded))

    def _data(self, dynamics: Staged, k: int) -> Data:
        arrays, feasible, mdp = [], None, self.engine.mdp
        for stage in stages_of(dynamics, self.cut, k):
            told, reward = stage.arrays(), stage.reward
            if isinstance(reward, ExpectedReward):
                told["reward"] = (reward.probs, reward.reward)
            arrays.append(on_device(told))
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *self.shape)
            where = self.cut.axis + 1, self.cut.first(k), self.cut.window
            feasible = on_device(places(allowed, *where))
        return self.engine.data_with(arrays, feasible)

    def _each(self) -> Iterator[tuple[np.int64, Data]]:
        for k, data in enumerate(self.data):
            yield np.int64(k * self.cut.rows), data

    def sweep(self) -> None:
        for first, data in self._each():
            self.value = _swept(self.program, self.cut, self.value, first, data)

    def look(self) -> Ends:
        ends = [
            _looked(self.program, self.cut, self.own(k), self.value, first, data)
            for k, (first, data) in enumerate(self._each())
        ]
        low, high, size = np.array(jax.device_get(ends)).T
        return Ends(float(low.min()), float(high.max()), float(size.max()))

    def own(self, k: int) -> int:
        """Places of the k-th slab that the axis has."""
        return min(self.cut.rows, self.cut.length - k * self.cut.rows)

    def move(self, middle: float) -> None:
        self.value = _moved(self.value, np.float64(middle))

    def values(self, k: int) -> NDArray[np.float64]:
        """(slab) values of the k-th slab."""
        first = self.cut.below + k * self.cut.rows
        part = lax.slice_in_dim(self.value, first, first + self.own(k), axis=self.cut.axis)
        return np.asarray(part)

    @in_float64
    def decided(self, k: int, near: float) -> tuple[NDArray, NDArray]:
        """(slab) policy and margins of the k-th slab."""
        first, data = np.int64(k * self.cut.rows), self.data[k]
        found = _decided(self.program, self.cut, self.value, first, data, np.float64(near))
        kept = (slice(None),) * self.cut.axis + (slice(self.own(k)),)
        policy, margin = (np.asarray(part)[kept] for part in found)
        return policy, margin


class InSlabs:
    """An array over the grid that is made slab by slab, of those that are read."""

    def __init__(self, run: Sweeper, dtype: Any, slab: Callable[[int], NDArray]) -> None:
        self.cut, self.shape, self.dtype, self._slab = run.cut, run.shape, np.dtype(dtype), slab

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self[()].astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> NDArray:
        axis, rows, length = self.cut.axis, self.cut.rows, self.cut.length
        given = index if isinstance(index, tuple) else (index,)
        given = [*given, *[slice(None)] * (len(self.shape) - len(given))]
        along = given[axis]
        wanted = np.arange(length)[along]
        if not wanted.size:
            wanted = np.zeros(1, int)
        first = int(wanted.min()) // rows
        parts = [self._slab(k) for k in range(first, int(wanted.max()) // rows + 1)]
        given[axis] = np.arange(length)[along] - first * rows
        if isinstance(along, slice):  # a view, and no array that would mix with others
            begin, end, step = along.indices(length)
            given[axis] = slice(begin - first * rows, max(end - first * rows, 0), step)
        return np.concatenate(parts, axis=axis)[tuple(given)]


def _arrays(data: Data) -> Data:
    """The same with expected rewards summed up."""

    def made(stage: dict[str, Any]) -> dict[str, Any]:
        reward = stage.get("reward")
        if not isinstance(reward, tuple):
            return stage
        p, r = reward
        shape = np.broadcast_shapes(p.shape[:-1], r.shape[:-1])
        p, r = (jnp.squeeze(a, _ones(a)) for a in (p, r))
        named = _letters(reward[0]), _letters(reward[1])
        out = "".join(sorted(set(named[0] + named[1]) - {"z"}))
        return stage | {"reward": jnp.einsum(f"{named[0]},{named[1]}->{out}", p, r).reshape(shape)}

    return data._replace(arrays=[made(stage) for stage in data.arrays])


def _ones(array: Any) -> tuple[int, ...]:
    return tuple(i for i, n in enumerate(array.shape[:-1]) if n == 1)


def _letters(array: Any) -> str:
    kept = (i for i, n in enumerate(array.shape[:-1]) if n > 1)
    return "".join(chr(ord("a") + i) for i in kept) + "z"


def _window(cut: Cut, value, first):
    return lax.dynamic_slice_in_dim(value, first, cut.window, cut.axis)


def _middle(cut: Cut, array, rows: int | None = None):
    return lax.slice_in_dim(array, cut.below, cut.below + (rows or cut.rows), axis=cut.axis)


@compiled("program", "cut", consumed=True)
def _swept(program: StagedProgram, cut: Cut, value, first, data: Data):
    best, _ = Operators(program, _arrays(data)).bellman(_window(cut, value, first))
    return lax.dynamic_update_slice_in_dim(value, _middle(cut, best), first + cut.below, cut.axis)


@compiled("program", "cut", "rows")
def _looked(program: StagedProgram, cut: Cut, rows: int, value, first, data: Data):
    here = _window(cut, value, first)
    best, _ = Operators(program, _arrays(data)).bellman(here)
    own = _middle(cut, here, rows)
    apart = _middle(cut, best, rows) - own
    return jnp.stack([apart.min(), apart.max(), jnp.abs(own).max()])


@compiled("program", "cut")
def _decided(program: StagedProgram, cut: Cut, value, first, data: Data, near):
    here = _window(cut, value, first)
    q_of = Operators(program, _arrays(data)).q(here)
    best, second = best_two(program, q_of, here)
    policy = lowest_near(program, q_of, best, near)
    return _middle(cut, policy), _middle(cut, best - second)


@dataclass(frozen=True, eq=False)
class Swept:
    """What value iteration in place leaves."""

    result: Result
    policy: InSlabs
    margin: InSlabs
    tie: float  # margins up to this are ties


@in_float64
def iterate_in_place(
    engine: Engine, method: InPlace, callback: Callback | None, partial: bool
) -> Swept:
    """Sweep until the tolerance, the method's limit, or the callback's wish."""
    mdp, tol = engine.mdp, method.tolerance(engine.mdp)
    assert tol is not None
    run, began = Sweeper(engine, cut_into_slabs(mdp, method.states)), time.perf_counter()
    bounds, seconds, stopped = [], [], False
    while True:
        count = min(LOOKED, method.max_sweeps - len(bounds))
        for _ in range(count):
            run.sweep()
        middle, bound, eta = _enclosed(engine, run.look())
        spent = time.perf_counter() - began
        bounds += [bound] * count
        seconds += [spent] * count
        if callback is not None:
            with in_callers_setting():
                stopped = bool(callback(Progress(len(bounds), bound, 0, spent)))
        if bound <= tol or stopped or len(bounds) >= method.max_sweeps:
            break
    run.move(middle)
    changed = np.zeros(len(bounds), dtype=np.int64)
    history = History(np.array(bounds), changed, np.array(seconds))
    return _reported(run, method, (bound, eta, tol), history, stopped, partial)


def swept_in_place(engine: Engine, cut: Cut) -> Callable[[int], None]:
    """So many sweeps in place from where the last ended: for timing them."""

    @in_float64
    def sweep(count: int) -> None:
        for _ in range(count):
            run.sweep()
        jax.block_until_ready(run.value)

    run = in_float64(Sweeper)(engine, cut)
    return sweep


def _enclosed(engine: Engine, ends: Ends) -> tuple[float, float, float]:
    """(what values are moved by, bound on their error then, rounding of a backup)."""
    data, mdp = engine.data_with(None, None), engine.mdp
    middle = (ends.low + ends.high) / 2 / (1 - mdp.discount)
    size = ends.size + abs(middle)
    eta = float(Operators(_NONE, data).rounding(np.array([size]), 0.0)) + 4 * EPS * size
    # The residual changes by (1 - c) middle, with c right to the row sums' distance from 1.
    off = abs(middle) * mdp.discount * engine.mass.off
    apart = (1 + 4 * EPS) * (ends.high - ends.low) / 2
    return middle, float(data.criterion.error(apart + eta + off)), eta


def _reported(
    run: Sweeper,
    method: InPlace,
    found: tuple[float, float, float],
    history: History,
    stopped: bool,
    partial: bool,
) -> Swept:
    bound, eta, tol = found
    data = run.engine.data_with(None, None)
    tie = 2 * (float(data.criterion.largest) * bound + eta)
    near = float(tie_window(data, tie, eta))
    reason = f"bound {round_up(bound)} is within the tolerance {tol:.3g}"
    if not bound <= tol:
        reason = f"{method.limit} at bound {round_up(bound)}, short of {tol:.3g}"
    if stopped and not bound <= tol:
        reason = f"stopped by the callback after {len(history)} sweeps at bound {round_up(bound)}"
    value: Any = InSlabs(run, np.float64, run.values)
    done = Result(value, bound, bound <= tol, reason, history)
    if not done.converged and not partial and not stopped:
        raise NotConverged(reason, done)
    policy = InSlabs(run, np.int32, lambda k: run.decided(k, near)[0])
    return Swept(done, policy, InSlabs(run, np.float64, lambda k: run.decided(k, near)[1]), tie)


_NONE = StagedProgram((), 0)


@compiled(consumed=True)
def _moved(value, middle):
    return value + middle
