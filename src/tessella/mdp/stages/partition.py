"""Blocks of a staged model: consecutive positions on one axis, with a halo of others around them.

A period moves a state along an axis by a limited number of positions: ``halo_below`` down and
``halo_above`` up. So a backup of ``block_length`` consecutive positions needs the values of

    halo_below + block_length + halo_above

of them and no others. A backup on a block and its halo alone is wrong in the halo, since moves stop
at its ends, and right in the block. All blocks have one length, so the last of them may extend past
the end of the axis: there it has copies of the last position, which no state of the model reaches.

All blocks are held at once or one after the other (``solvers.blocks``), or each on its own device
(``sharded``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tessella.errors import ModelError
from tessella.mdp.dynamics import Dynamics, TileSizes
from tessella.mdp.stages.operation import take_range, with_length
from tessella.mdp.stages.stage import BuiltStage
from tessella.mdp.stages.staged import StageBackend, Staged, build_stage_backend

HALO_MAX_SHARE = 0.25  # of the length of a block: its halo, along the slowest axis


@dataclass(frozen=True)
class Partition:
    """How an axis is cut into blocks, each with its halo."""

    axis: int
    length: int  # of the axis
    count: int  # of blocks
    halo_below: int
    halo_above: int

    @property
    def block_length(self) -> int:
        """Positions of a block, without its halo."""
        return -(-self.length // self.count)

    @property
    def block_with_halo(self) -> int:
        """Positions of a block and its halo."""
        return self.halo_below + self.block_length + self.halo_above

    @property
    def padded_length(self) -> int:
        """Positions of all blocks, those past the end of the axis included."""
        return self.block_length * self.count

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that begin within the axis."""
        return tuple(Block(self, k) for k in range(-(-self.length // self.block_length)))

    def slices(self, first: int, length: int) -> tuple[slice, ...]:
        """The index of ``length`` positions from ``first`` on."""
        return (slice(None),) * self.axis + (slice(first, first + length),)

    def without_halo(self, array: Any, length: int | None = None) -> Any:
        """The first ``length`` positions of a block, by default all, of an array with its halo."""
        return array[self.slices(self.halo_below, length or self.block_length)]

    def block_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of a block with its halo, in a grid of ``shape``."""
        return with_length(shape, self.axis, self.block_with_halo)


@dataclass(frozen=True)
class Block:
    """The k-th block of a partition."""

    partition: Partition
    k: int

    @property
    def first(self) -> int:
        """Its first position on the axis."""
        return self.k * self.partition.block_length

    @property
    def window_start(self) -> int:
        """Where its halo begins, perhaps before the axis."""
        return self.first - self.partition.halo_below

    @property
    def length(self) -> int:
        """Number of its positions that lie on the axis."""
        return min(self.partition.block_length, self.partition.length - self.first)

    @property
    def index(self) -> tuple[slice, ...]:
        """Its states, as an index of arrays over the grid."""
        return self.partition.slices(self.first, self.length)

    def with_halo(self, array: Any, dim: int = 0, offset: int = 0) -> Any:
        """Its part, with the halo, of an array whose axes from ``dim`` on are the grid's.

        Past the ends of the axis it repeats the nearest position. ``offset`` is the position on the
        axis at which the array begins.
        """
        axis = dim + self.partition.axis
        return take_range(array, axis, self.window_start - offset, self.partition.block_with_halo)

    def stages(self, dynamics: Staged) -> tuple[BuiltStage, ...]:
        """The stages on the block and its halo."""
        window = self.partition.axis, self.window_start, self.partition.block_with_halo
        return tuple(stage.block(*window) for stage in dynamics.stages)


def find_partition(dynamics: Dynamics, count: int) -> Partition | None:
    """A partition into ``count`` blocks along the slowest axis with a small halo, or None.

    Where every axis has a large halo, the axis with the smallest is taken.
    """
    if not isinstance(dynamics, Staged):
        return None
    reaches = [dynamics.max_displacement(axis) for axis in range(len(dynamics.shape))]
    partitions = [
        Partition(axis, length, count, *reach)
        for axis, (length, reach) in enumerate(zip(dynamics.shape, reaches, strict=True))
        if reach is not None and count <= length
    ]
    # A block with its halo must be smaller than the whole.
    worthwhile = [
        partition for partition in partitions if partition.block_with_halo < partition.length
    ]
    for partition in worthwhile:
        if partition.halo_below + partition.halo_above <= HALO_MAX_SHARE * partition.block_length:
            return partition
    return min(
        worthwhile,
        key=lambda partition: partition.block_with_halo / partition.block_length,
        default=None,
    )


def partition_among_devices(dynamics: Dynamics, count: int) -> Partition:
    """The partition of a model among ``count`` devices."""
    partition = find_partition(dynamics, count)
    if partition is None:
        requirement = "a model is divided among devices along an axis with bounded moves"
        raise ModelError(requirement, value=f"among {count}, each would need all of this one")
    return partition


def partition_by_size(dynamics: Dynamics, block_states: int) -> Partition:
    """The partition of a model into blocks of about ``block_states`` states."""
    if not isinstance(dynamics, Staged):
        raise ModelError("only models of stages can be cut into blocks", value="this is a table")
    count = math.ceil(math.prod(dynamics.shape) / block_states)
    if count == 1:
        return Partition(0, dynamics.shape[0], 1, 0, 0)
    partition = find_partition(dynamics, min(count, max(dynamics.shape)))
    if partition is None:
        requirement = "a model is cut into blocks along an axis with bounded moves"
        raise ModelError(requirement, value="every axis of this one has moves across most of it")
    return partition


def build_block_backend(
    dynamics: Staged, partition: Partition, tiles: TileSizes | None
) -> StageBackend:
    """The backend that all blocks share."""
    stages = Block(partition, 0).stages(dynamics)
    return build_stage_backend(stages, tiles, dynamics.n_actions, for_any_block=True)
