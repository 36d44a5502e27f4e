"""Residuals block by block, for grids of any size.

A block comes with its halo (``mdp.stages.partition``). Its arrays are built when it is processed
and released after it. For the values V of an optimum and U of a policy pi, state by state, it gives

    T V - V,    T_pi U - U,    the margin at V,    the local loss of pi at V,

so that bounds over the whole grid come from a loop that holds one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.compilation import compile_per_shape, in_float64, to_device
from tessella.mdp.policy import Policy
from tessella.mdp.stages.partition import Block, Partition, build_block_backend
from tessella.mdp.stages.stage import ExpectedReward
from tessella.mdp.stages.staged import Staged
from tessella.solvers.bounds import compute_margin_and_loss
from tessella.solvers.execution_plan import ExecutionPlan
from tessella.solvers.operators import ModelData, Operators
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result

BLOCK_STATES = 1 << 22  # states of a block, about


class BlockResiduals(NamedTuple):
    """Residuals and losses of V and of the policy's U, over the block without its halo."""

    residual: Any  # T V - V
    policy_residual: Any  # T_pi U - U
    margin: Any  # best minus second-best action value at V
    local_loss: Any  # best minus the policy's


@dataclass(frozen=True, eq=False)
class ComparedBlock:
    """A block of a grid, with the values and the residuals of its states."""

    index: tuple[slice, ...]  # its own states
    value: NDArray[np.float64]  # V ...
    policy_value: NDArray[np.float64]  # ... and U
    actions: NDArray[np.int32]
    residuals: BlockResiduals


class ValueRange(NamedTuple):
    """The smallest and the largest value, and the shift that is subtracted before a sweep."""

    ends: NDArray[np.float64]  # (2,)
    shift: float


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

    def build_data(self, block: Block, keep_factors: bool = False) -> ModelData:
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
        return self.prepared.build_data(to_device(arrays), feasible)


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
        self.value_ranges = tuple(map(self._find_range, self.results))

    def _find_range(self, result: Result) -> ValueRange:
        blocks = (result.part("value", block.index) for block in self.partition.blocks)
        lows, highs = zip(*((values.min(), values.max()) for values in blocks), strict=True)
        ends = np.array([min(lows), max(highs)], dtype=float)
        criterion = self.prepared.build_data(None, None).criterion
        return ValueRange(ends, float(criterion.split_shift(ends)[1]))

    def bound_rounding(self, value_range: ValueRange) -> float:
        """eta: how far a computed backup may be off."""
        ends, shift = value_range
        operators = Operators(self.backend, self.prepared.build_data(None, None)).for_shift(shift)
        return float(operators.bound_rounding(ends - shift, shift))

    @in_float64
    def _compute_residuals(self, block: Block) -> BlockResiduals:
        values = [
            self._read_values_with_halo(result, block) - value_range.shift
            for result, value_range in zip(self.results, self.value_ranges, strict=True)
        ]
        residuals = compute_block_residuals(
            self.backend,
            self.partition,
            self.build_data(block),
            *values,
            block.with_halo(self.policy.table),
            *(np.float64(value_range.shift) for value_range in self.value_ranges),
        )
        interior = self.partition.slices(0, block.length)
        return BlockResiduals(*(np.asarray(array)[interior] for array in residuals))

    def _read_values_with_halo(self, result: Result, block: Block) -> NDArray[np.float64]:
        """The values of a block with its halo; past the ends of the axis the nearest ones."""
        low = max(block.window_start, 0)
        high = min(block.window_start + self.partition.block_with_halo, self.partition.length)
        values = result.part("value", self.partition.slices(low, high - low))
        return block.with_halo(values, offset=low)

    def __iter__(self) -> Iterator[ComparedBlock]:
        for block in self.partition.blocks:
            value, policy_value = (result.part("value", block.index) for result in self.results)
            actions = self.policy.table[block.index]
            residuals = self._compute_residuals(block)
            yield ComparedBlock(block.index, value, policy_value, actions, residuals)


@compile_per_shape("backend", "partition")
def compute_block_residuals(
    backend,
    partition: Partition,
    data: ModelData,
    value,
    policy_value,
    policy,
    shift,
    policy_shift,
) -> BlockResiduals:
    """Residuals of a block, from the values of it and its halo, which come without their shifts."""
    operators = Operators(backend, data).for_shift(shift)
    best, margin, loss = compute_margin_and_loss(backend, operators.q(value), policy, value)
    policy_backup = (
        Operators(backend, data).for_shift(policy_shift).policy_bellman(policy, policy_value)
    )
    results = best - value, policy_backup - policy_value, margin, loss
    return BlockResiduals(*map(partition.without_halo, results))
