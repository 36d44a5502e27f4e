"""Models of stages, block by block: value iteration in place, and residuals for grids of any size.

A block comes with its halo (``mdp.stages.partition``).

*In place* (``InPlace``), for models that fill a device: v <- T v on the first block, then on the
next with the new values of the first, and so on. A sweep needs one array of values and a block,
instead of five or six arrays, and contracts as plain ones do. The bound comes from a pass that
writes nothing: with d = T v - v between ``low`` and ``high``, and c the discount,

    low / (1 - c) <= V* - v <= high / (1 - c),

so v is moved to the middle of the two, and the residual of what that gives is d less a constant.
Expected rewards that are kept as factors are summed up block by block, in every sweep.

*Residuals* (``BlockComparison``): a block's arrays are built when it is processed and released
after it. For the values V of an optimum and U of a policy pi, state by state, it gives

    T V - V,    T_pi U - U,    the margin at V,    the local loss of pi at V,

so that bounds over the whole grid come from a loop that holds one block. Where all of them are
wanted, the whole grid is one block (``compare_whole``), in whatever form the model is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_whole
from tessella.mdp.compilation import compile_per_shape, in_float64, to_device
from tessella.mdp.dynamics import fold_actions
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.operation import with_length
from tessella.mdp.stages.partition import Block, Partition, build_block_backend, partition_by_size
from tessella.mdp.stages.stage import ExpectedReward, einsum_subscripts
from tessella.mdp.stages.staged import Staged
from tessella.numerics import array_namespace
from tessella.rounding import EPS
from tessella.solvers.bounds import (
    GreedyPolicy,
    bound_residual_error,
    compute_tie_tolerance,
    compute_tie_width,
    rank_actions,
)
from tessella.solvers.execution_plan import ExecutionPlan
from tessella.solvers.iteration import FLOOR_REACHED_FACTOR
from tessella.solvers.loop import Callback, RunLog
from tessella.solvers.method import Method
from tessella.solvers.operators import Operators
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result, find_status, make_run_result

BLOCK_STATES = 1 << 22  # states of a block of residuals, about
SWEEPS_PER_CHECK = 16  # sweeps in place between two computations of the bound


class PartitionedModel:
    """A model of stages in blocks, which share one backend."""

    def __init__(self, prepared: PreparedModel, partition: Partition) -> None:
        assert isinstance(prepared.mdp.dynamics, Staged)
        self.prepared = prepared
        self.mdp = prepared.mdp
        self.dynamics = prepared.mdp.dynamics
        self.partition = partition
        tiles = prepared.plan.choose_block_tiles(partition)
        self.backend = build_block_backend(self.dynamics, partition, tiles)
        self.scalars = prepared.build_data(None, None)  # the numbers of the model, without arrays
        self.operators = Operators(self.backend, self.scalars)

    def build_operators(self, block: Block, keep_factors: bool = False) -> Operators:
        """The model on a block and its halo; expected rewards as factors if these are kept."""
        mdp = self.mdp
        arrays = []
        for stage in block.stages(self.dynamics):
            stage_arrays = stage.arrays()
            if keep_factors and isinstance(stage.reward, ExpectedReward):
                stage_arrays["reward"] = (stage.reward.probs, stage.reward.reward)
            arrays.append(stage_arrays)
        feasible = None
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape)
            feasible = to_device(block.with_halo(allowed, 1))
        return self.operators.with_data(self.prepared.build_data(to_device(arrays), feasible))


@dataclass(frozen=True)
class InPlace(Method):
    """Value iteration in place, block by block: for discounted models that fill a device.

    Args:
        block_states: states of a block, about.

    Example:
        >>> mdp = ts.inventory(max_stock=40, max_regime=2, max_demand=4, orders=(0, 3))
        >>> ts.solve(mdp, ts.InPlace(1e-6)).error_bound <= 1e-6
        True
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

    @in_float64
    def run(
        self, prepared: PreparedModel, callback: Callback | None, partial: bool
    ) -> tuple[Result, GreedyPolicy]:
        """Sweep until the tolerance or a limit is reached, or until the callback stops it."""
        tol = self.tolerance(prepared.mdp)
        assert tol is not None
        partition = partition_by_size(prepared.mdp.dynamics, self.block_states)
        sweeper = InPlaceSweeper(prepared, partition)
        log = RunLog(callback)
        while True:
            count = min(SWEEPS_PER_CHECK, self.max_sweeps - len(log))
            sweeper.sweep(count)
            correction, bound, action_value_error = sweeper.enclose_values()
            log.add([bound] * count, [0] * count, tol)
            rounding_floor = float(sweeper.scalars.criterion.bound_error(action_value_error))
            is_at_floor = not bound > FLOOR_REACHED_FACTOR * rounding_floor
            if bound <= tol or is_at_floor or log.is_stopped or len(log) >= self.max_sweeps:
                break
        sweeper.value = _shift_values(sweeper.value, np.float64(correction))
        value: Any = BlockwiseArray(sweeper, np.float64, sweeper.read_values)
        result = make_run_result(
            find_status(bound, tol, is_at_floor=is_at_floor, is_stopped=log.is_stopped),
            value,
            bound,
            tol,
            log.history(),
            may_raise=not (partial or log.is_stopped),
            limit=self.limit,
        )
        return result, sweeper.decide(bound, action_value_error)


class InPlaceSweeper(PartitionedModel):
    """A model and its values on one device, swept block by block."""

    def __init__(self, prepared: PreparedModel, partition: Partition) -> None:
        super().__init__(prepared, partition)
        self.shape = self.mdp.grid.shape
        self.blocks = partition.blocks
        self.block_operators = [self.build_operators(block, True) for block in self.blocks]
        own_length = len(self.blocks) * partition.block_length
        padded_length = partition.halo_below + own_length + partition.halo_above
        self.value = jnp.zeros(with_length(self.shape, partition.axis, padded_length))

    def _get_window(self, block: Block) -> tuple[Any, np.int64, Operators]:
        """(values, where a block with its halo begins among them, the model there)."""
        return self.value, np.int64(block.first), self.block_operators[block.k]

    @in_float64
    def sweep(self, count: int) -> Any:
        """The values after ``count`` more sweeps."""
        for _ in range(count):
            for block in self.blocks:
                self.value = _sweep_block(self.partition, *self._get_window(block))
        return self.value

    def enclose_values(self) -> tuple[float, float, float]:
        """(what to add to the values, bound on their error then, rounding of a backup)."""
        block_bounds = [
            _bound_block_residual(self.partition, block.length, *self._get_window(block))
            for block in self.blocks
        ]
        lows, highs, sizes = np.array(jax.device_get(block_bounds)).T
        low = float(lows.min())
        high = float(highs.max())
        discount = self.mdp.discount
        correction = (low + high) / 2 / (1 - discount)
        max_value = float(sizes.max()) + abs(correction)
        action_value_error = float(self.operators.bound_rounding(np.array([max_value]), 0.0))
        action_value_error += 4 * EPS * max_value
        # The residual changes by (1 - c) middle, with c right to the row sums' distance from 1.
        row_sum_error = abs(correction) * discount * self.prepared.row_sum_bounds.deviation
        half_span = (1 + 4 * EPS) * (high - low) / 2
        bound = float(
            self.scalars.criterion.bound_error(half_span + action_value_error + row_sum_error)
        )
        return correction, bound, action_value_error

    @in_float64
    def read_values(self, block: Block) -> NDArray[np.float64]:
        """(block) its values."""
        first = self.partition.halo_below + block.first
        return np.asarray(self.value[self.partition.slices(first, block.length)])

    def decide(self, bound: float, action_value_error: float) -> GreedyPolicy:
        """The policy and its margins, by blocks, at values that are off by at most ``bound``."""
        carried_error = float(self.scalars.criterion.contraction_factor) * bound
        tie_tolerance = compute_tie_tolerance(carried_error, action_value_error)
        tie_width = float(compute_tie_width(self.scalars, tie_tolerance, action_value_error))
        margin = BlockwiseArray(self, np.float64, lambda b: self._decide_block(b, tie_width)[1])
        policy = BlockwiseArray(self, np.int32, lambda b: self._decide_block(b, tie_width)[0])
        return GreedyPolicy(margin, policy, tie_tolerance)

    @in_float64
    def _decide_block(self, block: Block, tie_width: float) -> list[NDArray]:
        """(block) its policy and margins."""
        arguments = *self._get_window(block), np.float64(tie_width)
        decision = _decide_block(self.partition, *arguments)
        interior = self.partition.slices(0, block.length)
        return [np.asarray(array)[interior] for array in decision]


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
        indices[axis] = positions - low * rows
        if isinstance(axis_index, slice):
            # Along the axis first, so that its positions do not mix with arrays along others.
            whole = np.take(whole, indices[axis], axis=axis)
            indices[axis] = slice(None)
        return whole[tuple(indices)]


def _expand_index(index: Any, n_axes: int) -> list[Any]:
    """One index for each axis, with an ellipsis written out."""
    indices = list(index) if isinstance(index, tuple) else [index]
    missing = [slice(None)] * (n_axes - len([i for i in indices if i is not Ellipsis]))
    for position, axis_index in enumerate(indices):
        if axis_index is Ellipsis:
            return [*indices[:position], *missing, *indices[position + 1 :]]
    return [*indices, *missing]


def _sum_expected_rewards(operators: Operators) -> Operators:
    """The same with expected rewards summed up."""

    def sum_reward(stage: dict[str, Any]) -> dict[str, Any]:
        reward = stage.get("reward")
        if not isinstance(reward, tuple):
            return stage
        shape = np.broadcast_shapes(*(factor.shape[:-1] for factor in reward))
        return stage | {"reward": jnp.einsum(*einsum_subscripts(*reward)).reshape(shape)}

    data = operators.data
    return operators.with_data(data._replace(arrays=[sum_reward(stage) for stage in data.arrays]))


def _slice_window(partition: Partition, value, first):
    return lax.dynamic_slice_in_dim(value, first, partition.block_with_halo, partition.axis)


@compile_per_shape("partition", donate_first=True)
def _sweep_block(partition: Partition, value, first, operators: Operators):
    window = _slice_window(partition, value, first)
    best, _ = _sum_expected_rewards(operators).bellman(window)
    return lax.dynamic_update_slice_in_dim(
        value, partition.without_halo(best), first + partition.halo_below, partition.axis
    )


@compile_per_shape("partition", "length")
def _bound_block_residual(partition: Partition, length: int, value, first, operators: Operators):
    window = _slice_window(partition, value, first)
    best, _ = _sum_expected_rewards(operators).bellman(window)
    values = partition.without_halo(window, length)
    residual = partition.without_halo(best, length) - values
    return jnp.stack([residual.min(), residual.max(), jnp.abs(values).max()])


@compile_per_shape("partition")
def _decide_block(partition: Partition, value, first, operators: Operators, tie_width):
    window = _slice_window(partition, value, first)
    q_of = _sum_expected_rewards(operators).q(window)
    _, margin, policy = rank_actions(operators.backend, q_of, window, tie_width)
    return partition.without_halo(policy), partition.without_halo(margin)


@compile_per_shape(donate_first=True)
def _shift_values(value, center):
    return value + center


@dataclass(frozen=True, eq=False)
class ComparedBlock:
    """A block of a grid: values V of an optimum and U of a policy, with residuals and losses."""

    index: tuple[slice, ...]  # its own states
    value: NDArray[np.float64]  # V
    policy_value: NDArray[np.float64]  # U
    actions: NDArray[np.int32]  # of the policy
    residual: NDArray[np.float64]  # T V - V
    policy_residual: NDArray[np.float64]  # T_pi U - U
    margin: NDArray[np.float64]  # best minus second-best action value at V
    local_loss: NDArray[np.float64]  # best minus the policy's
    best_action: NDArray[np.int32]
    action_value_error: float  # how far rounding may move an action value at V ...
    residual_error: float  # ... and the residuals
    policy_residual_error: float


class BlockComparison(PartitionedModel):
    """A solution and a policy's evaluation, block by block."""

    def __init__(
        self,
        optimum: Result,
        evaluation: Result,
        policy: Policy,
        plan: ExecutionPlan,
        partition: Partition,
    ) -> None:
        super().__init__(
            PreparedModel(plan.using(representation="stages", backend="jax")), partition
        )
        self.results = optimum, evaluation
        self.policy = policy
        self.shifts = tuple(map(self._find_shift, self.results))

    def _find_shift(self, result: Result) -> np.float64:
        """What is subtracted from all values before a backup."""
        blocks = (result.part("value", block.index) for block in self.partition.blocks)
        lows, highs = zip(*((values.min(), values.max()) for values in blocks), strict=True)
        ends = np.array([min(lows), max(highs)], dtype=float)
        return np.float64(self.scalars.criterion.split_shift(ends)[1])

    @in_float64
    def _compare(self, block: Block) -> ComparedBlock:
        values = [
            self._read_values_with_halo(result, block) - shift
            for result, shift in zip(self.results, self.shifts, strict=True)
        ]
        table = block.with_halo(self.policy.table)
        arrays, errors = compute_block_residuals(
            self.partition, self.build_operators(block), *values, table, *self.shifts
        )
        interior = self.partition.slices(0, block.length)
        computed: list[Any] = [np.asarray(array)[interior] for array in arrays]
        computed += map(float, errors)
        value, policy_value = (result.part("value", block.index) for result in self.results)
        actions = self.policy.table[block.index]
        return ComparedBlock(block.index, value, policy_value, actions, *computed)

    def _read_values_with_halo(self, result: Result, block: Block) -> NDArray[np.float64]:
        """The values of a block with its halo; past the ends of the axis the nearest ones."""
        low = max(block.window_start, 0)
        high = min(block.window_start + self.partition.block_with_halo, self.partition.length)
        values = result.part("value", self.partition.slices(low, high - low))
        return block.with_halo(values, offset=low)

    def __iter__(self) -> Iterator[ComparedBlock]:
        return map(self._compare, self.partition.blocks)


@in_float64
def compare_whole(
    prepared: PreparedModel, value: NDArray, policy_value: NDArray, policy: Policy
) -> ComparedBlock:
    """The comparison on the whole grid, which is one block."""
    split_shift = prepared.data.criterion.split_shift
    v, shift = split_shift(value)
    u, policy_shift = split_shift(policy_value)
    arrays, errors = compute_block_residuals(
        None, prepared.make_operators(), v, u, policy.table, shift, policy_shift
    )
    computed: list[Any] = [*map(np.asarray, arrays), *map(float, errors)]
    return ComparedBlock((), value, policy_value, policy.table, *computed)


@compile_per_shape("partition")
def compute_block_residuals(
    partition: Partition | None,
    operators: Operators,
    value,
    policy_value,
    policy,
    shift,
    policy_shift,
):
    """(arrays, errors) of a ``ComparedBlock``, from values on its halo too, less their shifts."""
    xp = array_namespace(value)
    policy_operators = operators.for_shift(policy_shift)
    operators = operators.for_shift(shift)
    q_of = operators.q(value)

    def rank(action, carry):
        best, second, best_action, chosen = carry
        q_S = q_of(action)
        is_better = q_S > best
        return (
            xp.where(is_better, q_S, best),
            xp.maximum(second, xp.minimum(best, q_S)),
            xp.where(is_better, xp.asarray(action, xp.int32), best_action),
            # Not the policy's own sweep: its rounding may differ, and the best action must lose 0.
            xp.where(policy == action, q_S, chosen),
        )

    lowest = xp.full(value.shape, -xp.inf)
    start = lowest, lowest, xp.zeros(value.shape, xp.int32), lowest
    best, second, best_action, chosen = fold_actions(operators.backend, rank, start)
    policy_backup = policy_operators.policy_bellman(policy, policy_value)
    residuals = best - value, policy_backup - policy_value
    arrays = *residuals, best - second, best - chosen, best_action
    errors = (
        operators.bound_rounding(value, shift),
        bound_residual_error(operators, value, shift, best),
        bound_residual_error(policy_operators, policy_value, policy_shift, policy_backup),
    )
    if partition is not None:
        arrays = tuple(map(partition.without_halo, arrays))
    return arrays, errors
