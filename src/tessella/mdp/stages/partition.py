"""Windows of a staged model: some places of one axis, with those around them that matter.

A period moves a state along an axis by no more than its reach: so many places ``below``, so many
``above``. So a backup of ``rows`` neighbouring places needs the values of

    below + rows + above

of them and no others. Worked out on such a window alone, what comes out near its two ends is wrong,
since stages stop there that would go on; the ``rows`` in its middle are right. An axis is cut into
windows of one length, so the last of them may stand partly off its end: what is there is a copy of
the last place, which no state of the model reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.mdp.dynamics import Dynamics
from tessella.mdp.stages.stage import CompiledStage
from tessella.mdp.stages.staged import StageBackend, Staged, build_stage_backend
from tessella.mdp.stages.tiling import choose_tiles

HALO_MAX_SHARE = 0.25  # of its rows: how much may stand around them along the slowest axis


@dataclass(frozen=True)
class Partition:
    """How an axis is cut into windows."""

    axis: int
    length: int  # of the axis
    count: int  # of windows
    halo_below: int
    halo_above: int

    @property
    def block_length(self) -> int:
        """Places of the axis that a window is made for."""
        return -(-self.length // self.count)

    @property
    def block_with_halo(self) -> int:
        """Places that it looks at."""
        return self.halo_below + self.block_length + self.halo_above

    @property
    def padded_length(self) -> int:
        """Places of the axis with those off its end."""
        return self.block_length * self.count

    @property
    def is_worthwhile(self) -> bool:
        """Whether a window is smaller than the whole."""
        return self.block_with_halo < self.length

    def block_start(self, k: int) -> int:
        """Where the k-th window begins, perhaps before the axis."""
        return k * self.block_length - self.halo_below


def find_partition(dynamics: Dynamics, count: int) -> Partition | None:
    """Into ``count`` windows, along the slowest axis that has little around them; None if none.

    Where every axis has much, the one that has least is taken.
    """
    if not isinstance(dynamics, Staged):
        return None
    candidates = []
    for axis, length in enumerate(dynamics.shape):
        reach = dynamics.max_displacement(axis)
        if reach is not None and count <= length:
            candidates.append(Partition(axis, length, count, *reach))
    worthwhile = [one for one in candidates if one.pays]
    small_halo = [one for one in worthwhile if one.below + one.above <= HALO_MAX_SHARE * one.rows]
    return min(
        small_halo or worthwhile, key=_halo_ratio if not small_halo else _axis_order, default=None
    )


def _halo_ratio(partition: Partition) -> float:
    return partition.block_with_halo / partition.block_length


def _axis_order(partition: Partition) -> int:
    return partition.axis


def block_stages(dynamics: Staged, partition: Partition, k: int) -> tuple[CompiledStage, ...]:
    """The stages on the k-th window."""
    return tuple(
        stage.block(partition.axis, partition.block_start(k), partition.block_with_halo)
        for stage in dynamics.stages
    )


def build_block_backend(dynamics: Staged, partition: Partition) -> StageBackend:
    """The program that all windows share."""
    stages = block_stages(dynamics, partition, 0)
    shape = stages[0].operation.shape
    return build_stage_backend(stages, choose_tiles(shape), dynamics.n_actions, for_any_block=True)
