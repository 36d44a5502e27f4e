"""Residuals block by block: some places of one axis at a time, whatever the size of the grid.

A block comes with its halo (``mdp.stages.partition``). Its numbers are made when its turn comes and
forgotten after it. For the values V of an optimum and U of a policy pi it gives, state by state,

    T V - V,    T_pi U - U,    the margin at V,    what the action of pi loses at V,

so that bounds and figures over the whole grid come out of a loop that holds one block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.compilation import compile_per_shape, in_float64, to_device
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.operation import take_range
from tessella.mdp.stages.partition import (
    Partition,
    block_stages,
    build_block_backend,
    find_partition,
)
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


@dataclass(frozen=True)
class ValueRange:
    """The least and the largest value of a grid, and what is taken out of values before a sweep."""

    low: float
    high: float
    shift: float

    @property
    def as_array(self) -> NDArray[np.float64]:
        return np.array([self.low, self.high])


def choose_partition(mdp: MDP, states: int = BLOCK_STATES) -> Partition:
    """How a model is cut into blocks of about so many states."""
    count = math.ceil(mdp.n_states / states)
    if not isinstance(mdp.dynamics, Staged):
        raise ModelError("only models of stages can be cut into blocks", value="this is a table")
    if count == 1:
        return Partition(0, mdp.grid.shape[0], 1, 0, 0)
    longest = max(mdp.grid.shape)
    partition = find_partition(mdp.dynamics, min(count, longest))
    if partition is None:
        raise ModelError(
            "a model is cut into blocks along an axis on which a period moves only so far",
            value="every axis of this one has moves across most of it",
        )
    return partition


class BlockComparison:
    """A solution and a policy's evaluation, block by block."""

    def __init__(
        self,
        optimum: Result,
        evaluation: Result,
        policy: Policy,
        plan: ExecutionPlan,
        partition: Partition,
    ) -> None:
        mdp = plan.mdp
        self.optimum = optimum
        self.evaluation = evaluation
        self.policy = policy
        self.mdp = mdp
        self.partition = partition
        assert isinstance(mdp.dynamics, Staged)
        self.dynamics = mdp.dynamics
        self.engine = PreparedModel(plan.using(representation="stages", backend="jax"))
        tiles = plan.tiles_of_block(partition)
        self.backend = build_block_backend(self.dynamics, partition, tiles)
        self.value_ranges = self._find_range(optimum), self._find_range(evaluation)

    def index_of_block(self, k: int) -> tuple[slice, ...]:
        """The states of the k-th block."""
        rows = self.partition.block_length
        length = self.partition.length
        axis_slice = slice(k * rows, min((k + 1) * rows, length))
        return (slice(None),) * self.partition.axis + (axis_slice,)

    @property
    def n_blocks(self) -> int:
        """Number of blocks with places of their own: the last ones may lie past the end."""
        return -(-self.partition.length // self.partition.block_length)

    def _find_range(self, result: Result) -> ValueRange:
        low = np.inf
        high = -np.inf
        for k in range(self.n_blocks):
            block = result.part("value", self.index_of_block(k))
            low = min(low, float(block.min()))
            high = max(high, float(block.max()))
        criterion = self.engine.build_data(None, None).criterion
        return ValueRange(low, high, float(criterion.split_shift(np.array([low, high]))[1]))

    def rounding(self, value_range: ValueRange) -> float:
        """eta: how far a computed backup may be off."""
        operators = Operators(self.backend, self.engine.build_data(None, None)).for_shift(
            value_range.shift
        )
        return float(
            operators.rounding(value_range.as_array - value_range.shift, value_range.shift)
        )

    @in_float64
    def _compute_residuals(self, k: int) -> BlockResiduals:
        window = self.partition.axis, self.partition.block_start(k), self.partition.block_with_halo
        stages = block_stages(self.dynamics, self.partition, k)
        arrays = to_device([stage.arrays() for stage in stages])
        feasible = None
        mdp = self.mdp
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape)
            feasible = to_device(take_range(allowed, 1 + window[0], *window[1:]))
        data = self.engine.build_data(arrays, feasible)
        values = [
            self._read_window_values(residuals, k) - value_range.shift
            for residuals, value_range in zip(
                (self.optimum, self.evaluation), self.value_ranges, strict=True
            )
        ]
        actions = take_range(self.policy.table, *window)
        shifts = [np.float64(value_range.shift) for value_range in self.value_ranges]
        residuals = compute_block_residuals(
            self.backend, self.partition, data, *values, actions, *shifts
        )
        axis_slice = self.index_of_block(k)[-1]
        interior = (slice(None),) * self.partition.axis + (
            slice(axis_slice.stop - axis_slice.start),
        )
        return BlockResiduals(*(np.asarray(array)[interior] for array in residuals))

    def _read_window_values(self, result: Result, k: int) -> NDArray[np.float64]:
        """The values of a block with its halo; past the ends of the axis the nearest ones."""
        first = self.partition.block_start(k)
        length = self.partition.length
        low = max(first, 0)
        high = min(first + self.partition.block_with_halo, length)
        values = result.part("value", (slice(None),) * self.partition.axis + (slice(low, high),))
        return take_range(values, self.partition.axis, first - low, self.partition.block_with_halo)

    def __iter__(self) -> Iterator[ComparedBlock]:
        for k in range(self.n_blocks):
            index = self.index_of_block(k)
            values = self.optimum.part("value", index), self.evaluation.part("value", index)
            yield ComparedBlock(
                index, *values, self.policy.table[index], self._compute_residuals(k)
            )


@compile_per_shape("backend", "cut")
def compute_block_residuals(
    backend, cut: Partition, data: ModelData, value, policy_value, policy, shift, policy_shift
) -> BlockResiduals:
    """Residuals of a block, from the values of it and its halo, which come without their shifts."""
    operators = Operators(backend, data).for_shift(shift)
    best, margin, loss = compute_margin_and_loss(backend, operators.q(value), policy, value)
    policy_backup = (
        Operators(backend, data).for_shift(policy_shift).policy_bellman(policy, policy_value)
    )
    results = best - value, policy_backup - policy_value, margin, loss
    interior = (slice(None),) * cut.axis + (
        slice(cut.halo_below, cut.halo_below + cut.block_length),
    )
    return BlockResiduals(*(array[interior] for array in results))
