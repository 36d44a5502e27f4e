"""Blocks of a staged model: some places of one axis, with a halo of those around them that matter.

A period moves a state along an axis by a limited number of places: ``halo_below`` down and
``halo_above`` up. So a backup of ``block_length`` neighbouring places needs the values of

    halo_below + block_length + halo_above

of them and no others. On a block and its halo alone, what comes out in the halo is wrong, since
stages stop there that would go on; the block in the middle is right. An axis is cut into
blocks of one length, so the last of them may lie partly past its end: what is there is a copy of
the last place, which no state of the model reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.mdp.dynamics import Dynamics, TileSizes
from tessella.mdp.stages.stage import CompiledStage
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
        """Places of a block, without its halo."""
        return -(-self.length // self.count)

    @property
    def block_with_halo(self) -> int:
        """Places of a block and its halo."""
        return self.halo_below + self.block_length + self.halo_above

    @property
    def padded_length(self) -> int:
        """Places of the axis with those past its end."""
        return self.block_length * self.count

    @property
    def is_worthwhile(self) -> bool:
        """Whether a block with its halo is smaller than the whole."""
        return self.block_with_halo < self.length

    def block_start(self, k: int) -> int:
        """Where the halo of the k-th block begins, perhaps before the axis."""
        return k * self.block_length - self.halo_below


def find_partition(dynamics: Dynamics, count: int) -> Partition | None:
    """Into ``count`` blocks, along the slowest axis with a small halo; None if none will do.

    Where every axis has a large halo, the one with the smallest is taken.
    """
    if not isinstance(dynamics, Staged):
        return None
    candidates: list[Partition] = []
    for axis, length in enumerate(dynamics.shape):
        reach = dynamics.max_displacement(axis)
        if reach is not None and count <= length:
            candidates.append(Partition(axis, length, count, *reach))
    worthwhile = [one for one in candidates if one.is_worthwhile]
    small_halo = [
        one
        for one in worthwhile
        if one.halo_below + one.halo_above <= HALO_MAX_SHARE * one.block_length
    ]
    return min(
        small_halo or worthwhile, key=_halo_ratio if not small_halo else _axis_order, default=None
    )


def _halo_ratio(partition: Partition) -> float:
    return partition.block_with_halo / partition.block_length


def _axis_order(partition: Partition) -> int:
    return partition.axis


def block_stages(dynamics: Staged, partition: Partition, k: int) -> tuple[CompiledStage, ...]:
    """The stages on the k-th block and its halo."""
    return tuple(
        stage.block(partition.axis, partition.block_start(k), partition.block_with_halo)
        for stage in dynamics.stages
    )


def block_shape(dynamics: Staged, partition: Partition) -> tuple[int, ...]:
    """Places along each axis of a block with its halo."""
    lengths = list(dynamics.shape)
    lengths[partition.axis] = partition.block_with_halo
    return tuple(lengths)


def build_block_backend(
    dynamics: Staged, partition: Partition, tiles: TileSizes | None
) -> StageBackend:
    """The backend that all blocks share."""
    stages = block_stages(dynamics, partition, 0)
    return build_stage_backend(stages, tiles, dynamics.n_actions, for_any_block=True)
