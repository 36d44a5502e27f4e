"""Value iteration in place, block by block, for models that fill a device.

    v <- T v    on the first block, then on the next with the new values of the first, and so on.

A sweep needs one array of values and a block, instead of five or six arrays. Sweeps in
place contract as plain ones do. The bound comes from a pass that writes nothing: with d = T v - v
between ``low`` and ``high``, and c the discount,

    low / (1 - c) <= V* - v <= high / (1 - c),

so v is moved to the middle of the two, and the residual of what that gives is d less a constant.
Expected rewards that are kept as factors are summed up block by block, in every sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_whole
from tessella.mdp.compilation import compile_per_shape, in_caller_precision, in_float64
from tessella.mdp.model import MDP
from tessella.mdp.stages.operation import with_length
from tessella.mdp.stages.partition import Block, Partition, partition_by_size
from tessella.mdp.stages.stage import einsum_subscripts
from tessella.mdp.stages.staged import StageBackend
from tessella.rounding import EPS
from tessella.solvers.block_residuals import PartitionedModel
from tessella.solvers.bounds import Decision, compute_tie_tolerance, compute_tie_width, rank_actions
from tessella.solvers.iteration import FLOOR_REACHED_FACTOR
from tessella.solvers.loop import Callback, Progress
from tessella.solvers.method import Method
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import History, Result, find_status, make_run_result

SWEEPS_PER_CHECK = 16  # sweeps between two computations of the bound


@dataclass(frozen=True)
class InPlace(Method):
    """Value iteration in place, block by block: for discounted models that fill a device.

    Args:
        block_states: states of a block, about.
    """

    block_states: int = 1 << 26

    follows_stages = True
    has_own_loop = True
    runs_on_one_device = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("block_states", self.block_states, 1)
        if self.tol is None:
            raise ArgumentError("value iteration in place needs a tolerance", value="got None")

    def check_supports(self, mdp: MDP) -> None:
        if not (mdp.dynamics.has_stages and mdp.criterion.is_discounted):
            requirement = "value iteration in place serves models of stages with discounted rewards"
            kind = "stages" if mdp.dynamics.has_stages else "tables"
            raise ArgumentError(requirement, value=f"this model has {kind} and {mdp.criterion}")

    @property
    def states_per_block(self) -> int:
        return self.block_states

    def step(self, operators, state):
        return state.backup

    def run(
        self, prepared: PreparedModel, callback: Callback | None, partial: bool
    ) -> tuple[Result, Decision]:
        return iterate_in_place(prepared, self, callback, partial)


@dataclass(frozen=True)
class ResidualBounds:
    """Bounds over all states, from one pass over the blocks."""

    low: float  # T v - v is at least this ...
    high: float  # ... and at most this
    max_value: float  # max |v|


class InPlaceSweeper(PartitionedModel):
    """A model and its values on one device, swept block by block."""

    def __init__(self, prepared: PreparedModel, partition: Partition) -> None:
        super().__init__(prepared, partition)
        self.shape = self.mdp.grid.shape
        self.blocks = partition.blocks
        self.data = [self.build_data(block, keep_factors=True) for block in self.blocks]
        own_length = len(self.blocks) * partition.block_length
        padded_length = partition.halo_below + own_length + partition.halo_above
        self.value = jnp.zeros(with_length(self.shape, partition.axis, padded_length))

    def _window(self, block: Block) -> tuple[Any, np.int64, ModelData]:
        """(values, where a block with its halo begins among them, the model there)."""
        return self.value, np.int64(block.first), self.data[block.k]

    def sweep(self) -> None:
        for block in self.blocks:
            self.value = _sweep_block(self.backend, self.partition, *self._window(block))

    def compute_residual_bounds(self) -> ResidualBounds:
        block_bounds = [
            _bound_block_residual(self.backend, self.partition, block.length, *self._window(block))
            for block in self.blocks
        ]
        low, high, size = np.array(jax.device_get(block_bounds)).T
        return ResidualBounds(float(low.min()), float(high.max()), float(size.max()))

    def shift_values(self, center: float) -> None:
        self.value = _shift_values(self.value, np.float64(center))

    @in_float64
    def read_values(self, block: Block) -> NDArray[np.float64]:
        """(block) its values."""
        first = self.partition.halo_below + block.first
        return np.asarray(self.value[self.partition.slices(first, block.length)])

    @in_float64
    def decide_block(self, block: Block, tie_width: float) -> tuple[NDArray, NDArray]:
        """(block) its policy and margins."""
        decision = _decide_block(
            self.backend, self.partition, *self._window(block), np.float64(tie_width)
        )
        interior = self.partition.slices(0, block.length)
        policy, margin = (np.asarray(array)[interior] for array in decision)
        return policy, margin


class BlockwiseArray:
    """An array over the grid that computes only the blocks that are read."""

    def __init__(
        self, sweeper: InPlaceSweeper, dtype: Any, make_block: Callable[[Block], NDArray]
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
        blocks = self.partition.blocks[low : max(high, low) + 1]
        whole = np.concatenate([self._make_block(block) for block in blocks], axis=axis)
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
        shape = np.broadcast_shapes(*(factor.shape[:-1] for factor in reward))
        return stage | {"reward": jnp.einsum(*einsum_subscripts(*reward)).reshape(shape)}

    return data._replace(arrays=[sum_reward(stage) for stage in data.arrays])


def _slice_window(partition: Partition, value, first):
    return lax.dynamic_slice_in_dim(value, first, partition.block_with_halo, partition.axis)


@compile_per_shape("backend", "partition", donate_first=True)
def _sweep_block(backend: StageBackend, partition: Partition, value, first, data: ModelData):
    window = _slice_window(partition, value, first)
    best, _ = Operators(backend, _sum_expected_rewards(data)).bellman(window)
    return lax.dynamic_update_slice_in_dim(
        value, partition.without_halo(best), first + partition.halo_below, partition.axis
    )


@compile_per_shape("backend", "partition", "length")
def _bound_block_residual(
    backend: StageBackend, partition: Partition, length: int, value, first, data: ModelData
):
    window = _slice_window(partition, value, first)
    best, _ = Operators(backend, _sum_expected_rewards(data)).bellman(window)
    values = partition.without_halo(window, length)
    residual = partition.without_halo(best, length) - values
    return jnp.stack([residual.min(), residual.max(), jnp.abs(values).max()])


@compile_per_shape("backend", "partition")
def _decide_block(
    backend: StageBackend, partition: Partition, value, first, data: ModelData, tie_width
):
    window = _slice_window(partition, value, first)
    q_of = Operators(backend, _sum_expected_rewards(data)).q(window)
    ranked = rank_actions(backend, q_of, window, tie_width)
    return partition.without_halo(ranked.policy), partition.without_halo(ranked.margin)


@in_float64
def iterate_in_place(
    prepared: PreparedModel, method: InPlace, callback: Callback | None, partial: bool
) -> tuple[Result, Decision]:
    """Sweep until the tolerance or a limit is reached, or until the callback stops it."""
    mdp = prepared.mdp
    tol = method.tolerance(prepared.mdp)
    assert tol is not None
    sweeper = InPlaceSweeper(prepared, partition_by_size(mdp.dynamics, method.block_states))
    started = time.perf_counter()
    bounds = []
    seconds = []
    stopped = False
    while True:
        count = min(SWEEPS_PER_CHECK, method.max_sweeps - len(bounds))
        for _ in range(count):
            sweeper.sweep()
        center, bound, eta = _enclose_values(prepared, sweeper.compute_residual_bounds())
        elapsed = time.perf_counter() - started
        bounds += [bound] * count
        seconds += [elapsed] * count
        if callback is not None:
            with in_caller_precision():
                stopped = bool(callback(Progress(len(bounds), bound, 0, elapsed)))
        at_floor = not bound > FLOOR_REACHED_FACTOR * float(_compute_rounding_floor(prepared, eta))
        if bound <= tol or at_floor or stopped or len(bounds) >= method.max_sweeps:
            break
    sweeper.shift_values(center)
    changed = np.zeros(len(bounds), dtype=np.int64)
    history = History(np.array(bounds), changed, np.array(seconds))
    return _make_result(sweeper, method, (bound, eta, tol), history, stopped, partial)


def _compute_rounding_floor(prepared: PreparedModel, eta: float) -> float:
    """The part of the bound that is due to rounding alone."""
    return float(prepared.build_data(None, None).criterion.bound_error(eta))


def build_in_place_sweep(prepared: PreparedModel, partition: Partition) -> Callable[[int], None]:
    """A function that runs ``count`` more sweeps in place: for timing them."""

    @in_float64
    def sweep(count: int) -> None:
        for _ in range(count):
            sweeper.sweep()
        jax.block_until_ready(sweeper.value)

    sweeper = in_float64(InPlaceSweeper)(prepared, partition)
    return sweep


def _enclose_values(
    prepared: PreparedModel, residual_bounds: ResidualBounds
) -> tuple[float, float, float]:
    """(shift of the values, bound on their error after it, rounding of a backup)."""
    data = prepared.build_data(None, None)
    mdp = prepared.mdp
    center = (residual_bounds.low + residual_bounds.high) / 2 / (1 - mdp.discount)
    max_value = residual_bounds.max_value + abs(center)
    rounding = float(Operators(_EMPTY_BACKEND, data).bound_rounding(np.array([max_value]), 0.0))
    eta = rounding + 4 * EPS * max_value
    # The residual changes by (1 - c) middle, with c right to the row sums' distance from 1.
    row_sum_error = abs(center) * mdp.discount * prepared.row_sum_bounds.deviation
    half_span = (1 + 4 * EPS) * (residual_bounds.high - residual_bounds.low) / 2
    return center, float(data.criterion.bound_error(half_span + eta + row_sum_error)), eta


def _make_result(
    sweeper: InPlaceSweeper,
    method: InPlace,
    accuracy: tuple[float, float, float],
    history: History,
    stopped: bool,
    partial: bool,
) -> tuple[Result, Decision]:
    bound, eta, tol = accuracy
    data = sweeper.prepared.build_data(None, None)
    tie_tolerance = compute_tie_tolerance(float(data.criterion.contraction_factor) * bound, eta)
    tie_width = float(compute_tie_width(data, tie_tolerance, eta))
    at_floor = bound <= FLOOR_REACHED_FACTOR * _compute_rounding_floor(sweeper.prepared, eta)
    value: Any = BlockwiseArray(sweeper, np.float64, sweeper.read_values)
    result = make_run_result(
        find_status(bound, tol, at_floor=at_floor, is_stopped=stopped),
        value,
        bound,
        tol,
        history,
        may_raise=not (partial or stopped),
        limit=method.limit,
    )

    def decide(block: Block) -> tuple[NDArray, NDArray]:
        return sweeper.decide_block(block, tie_width)

    policy = BlockwiseArray(sweeper, np.int32, lambda block: decide(block)[0])
    margin = BlockwiseArray(sweeper, np.float64, lambda block: decide(block)[1])
    return result, Decision(margin, policy, tie_tolerance)


_EMPTY_BACKEND = StageBackend((), 0)


@compile_per_shape(donate_first=True)
def _shift_values(value, center):
    return value + center
