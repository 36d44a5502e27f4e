"""Models that fill a device: value iteration in place, one block after the other.

    v <- T v    on the first block, then on the next with what the first has now, and so on.

One array of values is all that a sweep needs beside a block, in place of five or six. Sweeps in
place contract as plain ones do. The bound comes from a round that writes nothing: with d = T v - v
between ``low`` and ``high``, and c the discount,

    low / (1 - c) <= V* - v <= high / (1 - c),

so v is moved to the middle of the two, and the residual of what that gives is d less a constant.
Expected rewards that are kept as factors are summed up block by block, in every sweep.
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
from tessella.errors import ArgumentError, NotConverged, require_whole
from tessella.mdp.compilation import compile_per_shape, in_callers_setting, in_float64, to_device
from tessella.mdp.model import MDP
from tessella.mdp.stages.operation import take_range, with_length
from tessella.mdp.stages.partition import Partition, block_stages, build_block_backend
from tessella.mdp.stages.stage import ExpectedReward
from tessella.mdp.stages.staged import StageBackend, Staged
from tessella.rounding import EPS
from tessella.solvers.block_residuals import choose_partition
from tessella.solvers.engine import Engine
from tessella.solvers.kernels import (
    FLOOR_REACHED_FACTOR,
    find_best_two,
    pick_lowest_tied,
    tie_window,
)
from tessella.solvers.loop import Callback, Progress
from tessella.solvers.method import Method
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.result import History, Result, Status

SWEEPS_PER_CHECK = 16  # sweeps between two computations of the bound


@dataclass(frozen=True)
class InPlace(Method):
    """Value iteration in place, block by block: for discounted models that fill a device.

    Args:
        states: of a block, about.
    """

    states: int = 1 << 26

    follows_stages = True
    runs_on_one_device = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("states", self.states, 1)
        if self.tol is None:
            raise ArgumentError("value iteration in place needs a tolerance", value="got None")

    def check_supports(self, mdp: MDP) -> None:
        if not isinstance(mdp.dynamics, Staged) or not isinstance(mdp.criterion, Discounted):
            requirement = "value iteration in place serves models of stages with discounted rewards"
            raise ArgumentError(requirement, value=f"this is {mdp.criterion}")

    def refine(self, operators, state):
        return state.backup


@dataclass(frozen=True)
class ResidualBounds:
    """What a pass over all blocks finds."""

    low: float  # T v - v is at least this ...
    high: float  # ... and at most this
    max_value: float  # max |v|


class InPlaceSweeper:
    """A model and its values on one device, swept block by block."""

    def __init__(self, engine: Engine, partition: Partition) -> None:
        dynamics = engine.mdp.dynamics
        assert isinstance(dynamics, Staged)
        self.engine = engine
        self.partition = partition
        tiles = engine.plan.tiles_of_block(partition)
        self.backend = build_block_backend(dynamics, partition, tiles)
        self.shape = engine.mdp.grid.shape
        self.n_blocks = -(-partition.length // partition.block_length)
        self.data = [self._build_data(dynamics, k) for k in range(self.n_blocks)]
        padded = (
            partition.halo_below + self.n_blocks * partition.block_length + partition.halo_above
        )
        self.value = jnp.zeros(with_length(self.shape, partition.axis, padded))

    def _build_data(self, dynamics: Staged, k: int) -> ModelData:
        arrays = []
        feasible = None
        mdp = self.engine.mdp
        for stage in block_stages(dynamics, self.partition, k):
            stage_arrays = stage.arrays()
            reward = stage.reward
            if isinstance(reward, ExpectedReward):
                stage_arrays["reward"] = (reward.probs, reward.reward)
            arrays.append(to_device(stage_arrays))
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *self.shape)
            window = (
                self.partition.axis + 1,
                self.partition.block_start(k),
                self.partition.block_with_halo,
            )
            feasible = to_device(take_range(allowed, *window))
        return self.engine.build_data(arrays, feasible)

    def _iterate_blocks(self) -> Iterator[tuple[np.int64, ModelData]]:
        for k, data in enumerate(self.data):
            yield np.int64(k * self.partition.block_length), data

    def sweep(self) -> None:
        for first, data in self._iterate_blocks():
            self.value = _sweep_block(self.backend, self.partition, self.value, first, data)

    def compute_residual_bounds(self) -> ResidualBounds:
        block_bounds = [
            _bound_block_residual(
                self.backend, self.partition, self.rows_of_block(k), self.value, first, data
            )
            for k, (first, data) in enumerate(self._iterate_blocks())
        ]
        low, high, size = np.array(jax.device_get(block_bounds)).T
        return ResidualBounds(float(low.min()), float(high.max()), float(size.max()))

    def rows_of_block(self, k: int) -> int:
        """Places of the k-th block that the axis has."""
        return min(
            self.partition.block_length, self.partition.length - k * self.partition.block_length
        )

    def move(self, center: float) -> None:
        self.value = _shift_values(self.value, np.float64(center))

    def read_block_values(self, k: int) -> NDArray[np.float64]:
        """(block) values of the k-th block."""
        first = self.partition.halo_below + k * self.partition.block_length
        block = lax.slice_in_dim(
            self.value, first, first + self.rows_of_block(k), axis=self.partition.axis
        )
        return np.asarray(block)

    @in_float64
    def decide_block(self, k: int, tie_width: float) -> tuple[NDArray, NDArray]:
        """(block) policy and margins of the k-th block."""
        first = np.int64(k * self.partition.block_length)
        data = self.data[k]
        decision = _decide_block(
            self.backend, self.partition, self.value, first, data, np.float64(tie_width)
        )
        interior = (slice(None),) * self.partition.axis + (slice(self.rows_of_block(k)),)
        policy, margin = (np.asarray(array)[interior] for array in decision)
        return policy, margin


class BlockwiseArray:
    """An array over the grid that is made block by block, of those that are read."""

    def __init__(
        self, sweeper: InPlaceSweeper, dtype: Any, make_block: Callable[[int], NDArray]
    ) -> None:
        self.partition = sweeper.partition
        self.shape = sweeper.shape
        self.dtype = np.dtype(dtype)
        self._make_block = make_block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self[()].astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> NDArray:
        axis = self.partition.axis
        rows = self.partition.block_length
        indices = _expand_index(index, len(self.shape))
        axis_index = indices[axis]
        positions = np.arange(self.partition.length)[axis_index]
        low = int(positions.min(initial=self.partition.length - 1)) // rows
        high = int(positions.max(initial=0)) // rows
        blocks = [self._make_block(k) for k in range(low, max(high, low) + 1)]
        whole = np.concatenate(blocks, axis=axis)
        if not isinstance(axis_index, slice):
            indices[axis] = positions - low * rows
            return whole[tuple(indices)]
        # Along the axis first, so that its positions do not mix with arrays along others.
        taken = np.take(whole, positions - low * rows, axis=axis)
        indices[axis] = slice(None)
        return taken[tuple(indices)]


def _expand_index(index: Any, n_axes: int) -> list[Any]:
    """One index for each axis, with an ellipsis written out."""
    indices = list(index) if isinstance(index, tuple) else [index]
    missing = [slice(None)] * (n_axes - len([i for i in indices if i is not Ellipsis]))
    for position, one in enumerate(indices):
        if one is Ellipsis:
            return [*indices[:position], *missing, *indices[position + 1 :]]
    return [*indices, *missing]


def _sum_expected_rewards(data: ModelData) -> ModelData:
    """The same with expected rewards summed up."""

    def sum_reward(stage: dict[str, Any]) -> dict[str, Any]:
        reward = stage.get("reward")
        if not isinstance(reward, tuple):
            return stage
        p, r = reward
        shape = np.broadcast_shapes(p.shape[:-1], r.shape[:-1])
        p, r = (jnp.squeeze(a, _find_unit_axes(a)) for a in (p, r))
        subscripts = _make_subscripts(reward[0]), _make_subscripts(reward[1])
        out = "".join(sorted(set(subscripts[0] + subscripts[1]) - {"z"}))
        return stage | {
            "reward": jnp.einsum(f"{subscripts[0]},{subscripts[1]}->{out}", p, r).reshape(shape)
        }

    return data._replace(arrays=[sum_reward(stage) for stage in data.arrays])


def _find_unit_axes(array: Any) -> tuple[int, ...]:
    return tuple(i for i, n in enumerate(array.shape[:-1]) if n == 1)


def _make_subscripts(array: Any) -> str:
    long_axes = (i for i, n in enumerate(array.shape[:-1]) if n > 1)
    return "".join(chr(ord("a") + i) for i in long_axes) + "z"


def _slice_window(partition: Partition, value, first):
    return lax.dynamic_slice_in_dim(value, first, partition.block_with_halo, partition.axis)


def _slice_interior(partition: Partition, array, rows: int | None = None):
    return lax.slice_in_dim(
        array,
        partition.halo_below,
        partition.halo_below + (rows or partition.block_length),
        axis=partition.axis,
    )


@compile_per_shape("backend", "cut", donate_first=True)
def _sweep_block(backend: StageBackend, cut: Partition, value, first, data: ModelData):
    best, _ = Operators(backend, _sum_expected_rewards(data)).bellman(
        _slice_window(cut, value, first)
    )
    return lax.dynamic_update_slice_in_dim(
        value, _slice_interior(cut, best), first + cut.halo_below, cut.axis
    )


@compile_per_shape("backend", "cut", "rows")
def _bound_block_residual(
    backend: StageBackend, cut: Partition, rows: int, value, first, data: ModelData
):
    window = _slice_window(cut, value, first)
    best, _ = Operators(backend, _sum_expected_rewards(data)).bellman(window)
    values = _slice_interior(cut, window, rows)
    residual = _slice_interior(cut, best, rows) - values
    return jnp.stack([residual.min(), residual.max(), jnp.abs(values).max()])


@compile_per_shape("backend", "cut")
def _decide_block(backend: StageBackend, cut: Partition, value, first, data: ModelData, tie_width):
    window = _slice_window(cut, value, first)
    q_of = Operators(backend, _sum_expected_rewards(data)).q(window)
    best, second = find_best_two(backend, q_of, window)
    policy = pick_lowest_tied(backend, q_of, best, tie_width)
    return _slice_interior(cut, policy), _slice_interior(cut, best - second)


@dataclass(frozen=True, eq=False)
class InPlaceResult:
    """What value iteration in place leaves."""

    result: Result
    policy: BlockwiseArray
    margin: BlockwiseArray
    tie: float  # margins up to this are ties


@in_float64
def iterate_in_place(
    engine: Engine, method: InPlace, callback: Callback | None, partial: bool
) -> InPlaceResult:
    """Sweep until the tolerance or a limit is reached, or until the callback stops it."""
    mdp = engine.mdp
    tol = method.tolerance(engine.mdp)
    assert tol is not None
    sweeper = InPlaceSweeper(engine, choose_partition(mdp, method.states))
    started = time.perf_counter()
    bounds = []
    seconds = []
    stopped = False
    while True:
        count = min(SWEEPS_PER_CHECK, method.max_sweeps - len(bounds))
        for _ in range(count):
            sweeper.sweep()
        center, bound, eta = _enclose_values(engine, sweeper.compute_residual_bounds())
        elapsed = time.perf_counter() - started
        bounds += [bound] * count
        seconds += [elapsed] * count
        if callback is not None:
            with in_callers_setting():
                stopped = bool(callback(Progress(len(bounds), bound, 0, elapsed)))
        at_floor = not bound > FLOOR_REACHED_FACTOR * float(_floor_of(engine, eta))
        if bound <= tol or at_floor or stopped or len(bounds) >= method.max_sweeps:
            break
    sweeper.move(center)
    changed = np.zeros(len(bounds), dtype=np.int64)
    history = History(np.array(bounds), changed, np.array(seconds))
    return _make_result(sweeper, method, (bound, eta, tol), history, stopped, partial)


def _floor_of(engine: Engine, eta: float) -> float:
    """What rounding alone leaves of the bound."""
    return float(engine.build_data(None, None).criterion.bound_error(eta))


def build_in_place_sweep(engine: Engine, partition: Partition) -> Callable[[int], None]:
    """So many sweeps in place from where the last ended: for timing them."""

    @in_float64
    def sweep(count: int) -> None:
        for _ in range(count):
            sweeper.sweep()
        jax.block_until_ready(sweeper.value)

    sweeper = in_float64(InPlaceSweeper)(engine, partition)
    return sweep


def _enclose_values(engine: Engine, residual_bounds: ResidualBounds) -> tuple[float, float, float]:
    """(what values are moved by, bound on their error then, rounding of a backup)."""
    data = engine.build_data(None, None)
    mdp = engine.mdp
    center = (residual_bounds.low + residual_bounds.high) / 2 / (1 - mdp.discount)
    max_value = residual_bounds.max_value + abs(center)
    eta = (
        float(Operators(_EMPTY_BACKEND, data).rounding(np.array([max_value]), 0.0))
        + 4 * EPS * max_value
    )
    # The residual changes by (1 - c) middle, with c right to the row sums' distance from 1.
    row_sum_error = abs(center) * mdp.discount * engine.row_sum_bounds.deviation
    half_span = (1 + 4 * EPS) * (residual_bounds.high - residual_bounds.low) / 2
    return center, float(data.criterion.bound_error(half_span + eta + row_sum_error)), eta


def _make_result(
    sweeper: InPlaceSweeper,
    method: InPlace,
    accuracy: tuple[float, float, float],
    history: History,
    stopped: bool,
    partial: bool,
) -> InPlaceResult:
    bound, eta, tol = accuracy
    data = sweeper.engine.build_data(None, None)
    tie = 2 * (float(data.criterion.contraction_factor) * bound + eta)
    tie_width = float(tie_window(data, tie, eta))
    status = Status.LIMIT
    if bound <= tol:
        status = Status.CONVERGED
    elif np.isnan(bound):
        raise NotConverged(Status.BROKE_DOWN.describe(bound, tol, len(history), method.limit))
    elif bound <= FLOOR_REACHED_FACTOR * _floor_of(sweeper.engine, eta):
        status = Status.ROUNDING_LIMIT
    elif stopped:
        status = Status.STOPPED
    reason = status.describe(bound, tol, len(history), method.limit)
    value: Any = BlockwiseArray(sweeper, np.float64, sweeper.read_block_values)
    result = Result(value, bound, bound <= tol, reason, history)
    if not result.converged and not partial and not stopped:
        raise NotConverged(reason, result)
    policy = BlockwiseArray(sweeper, np.int32, lambda k: sweeper.decide_block(k, tie_width)[0])
    return InPlaceResult(
        result,
        policy,
        BlockwiseArray(sweeper, np.float64, lambda k: sweeper.decide_block(k, tie_width)[1]),
        tie,
    )


_EMPTY_BACKEND = StageBackend((), 0)


@compile_per_shape(donate_first=True)
def _shift_values(value, center):
    return value + center
