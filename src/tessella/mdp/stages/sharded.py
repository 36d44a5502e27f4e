"""One staged model over several devices: each has one block of the slowest axis.

A backward pass begins with an exchange: every device gets the halo of its block from its
neighbours. Everything else is the backend of ``staged`` on the block (``partition``), kernels of
accelerators included, and no device ever holds more than that.

Arrays over the grid are cut along one axis. Arrays of the model have a first axis of length
``count``, for the blocks, each made on its device. All devices have parts of one length, so the
last of them may end in copies of the last position of the grid, which ``ShardedArray`` hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

from tessella.mdp.compilation import in_float64, to_device
from tessella.mdp.dynamics import Backend, BackendModel, TileSizes
from tessella.mdp.stages.operation import take_range, with_length
from tessella.mdp.stages.partition import Block, Partition, build_block_backend
from tessella.mdp.stages.staged import StageBackend, Staged

MESH_AXIS = "rows"  # name of the one axis of the device mesh


@dataclass(frozen=True)
class ShardedBackend(Backend):
    """The backend of a block, run on every device at once."""

    block_backend: StageBackend
    partition: Partition
    mesh: Mesh

    @property
    def n_actions(self) -> int:  # type: ignore[override]
        return self.block_backend.n_actions

    @property
    def partition_spec(self) -> P:
        """The specification of how arrays over the grid are cut."""
        return P(*(None,) * self.partition.axis, MESH_AXIS)

    def _on_every_device(self, work, *specs):
        def local_work(arrays, *others):  # arrays of the model, of the block of this device
            return work(jax.tree.map(lambda array: array[0], arrays), *others)

        return shard_map(
            local_work,
            mesh=self.mesh,
            in_specs=(P(MESH_AXIS), *specs),
            out_specs=self.partition_spec,
            check_vma=False,
        )

    def shard_layout(self, shape: tuple[int, ...]) -> ShardLayout:
        return ShardLayout(self, shape)

    def shared_backup(self, arrays, w_S, include_reward):
        def work(arrays, w):
            return self.block_backend.shared_backup(arrays, self._with_halo(w), include_reward)

        return self._on_every_device(work, self.partition_spec)(arrays, w_S)

    def action_backup(self, arrays, w, action, include_reward):
        def work(arrays, w, action):
            backup = self.block_backend.action_backup(arrays, w, action, include_reward)
            return self.partition.without_halo(backup)

        return self._on_every_device(work, self.partition_spec, P())(arrays, w, jnp.asarray(action))

    def supports_policy_arrays(self, arrays) -> bool:
        def without_first(array: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(array.shape[1:], array.dtype)

        return self.block_backend.supports_policy_arrays(jax.tree.map(without_first, arrays))

    def finish_policy_backup(self, arrays, w, policy, include_reward):
        # The backup of a state depends on its own action alone: the halo may have any actions.
        padding = [(0, 0)] * policy.ndim
        padding[self.partition.axis] = self.partition.halo_below, self.partition.halo_above

        def work(arrays, w, policy):
            padded = jnp.pad(policy, padding)
            backup = self.block_backend.finish_policy_backup(arrays, w, padded, include_reward)
            return self.partition.without_halo(backup)

        specs = self.partition_spec, self.partition_spec
        return self._on_every_device(work, *specs)(arrays, w, policy)

    def _with_halo(self, w):
        """A block and its halo, received from the devices around this one."""
        partition = self.partition
        hops_below = range(1, 1 - (-partition.halo_below // partition.block_length))
        hops_above = range(1, 1 - (-partition.halo_above // partition.block_length))
        below = [self._receive(w, hop, partition.halo_below) for hop in hops_below]
        above = [self._receive(w, -hop, partition.halo_above) for hop in hops_above]
        return jnp.concatenate([*reversed(below), w, *above], axis=partition.axis)

    def _receive(self, w, hop: int, halo: int):
        """The needed part of the block of the device ``hop`` before this one; zeros without one."""
        block_length = self.partition.block_length
        count = self.partition.count
        needed = min(block_length, halo - (abs(hop) - 1) * block_length)
        first = block_length - needed if hop > 0 else 0
        part = w[self.partition.slices(first, needed)]
        pairs = [(i, i + hop) for i in range(count) if 0 <= i + hop < count]
        return lax.ppermute(part, MESH_AXIS, pairs) if pairs else jnp.zeros_like(part)


@in_float64
def build_sharded_backend(
    dynamics: Staged, partition: Partition, devices: Sequence[Any], tiles: TileSizes | None
) -> BackendModel:
    """The model on ``devices``, one block each; arrays are made block by block."""
    mesh = Mesh(np.array(devices), (MESH_AXIS,))
    local_blocks = [
        k for k, device in enumerate(devices) if device.process_index == jax.process_index()
    ]
    parts = []
    for k in local_blocks:
        with jax.default_device(devices[k]):
            arrays = to_device([stage.arrays() for stage in Block(partition, k).stages(dynamics)])
            parts.append(jax.tree.map(lambda array: array[None], arrays))
    sharding = NamedSharding(mesh, P(MESH_AXIS))

    def assemble(*parts):
        shape = (partition.count, *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, sharding, list(parts))

    backend = ShardedBackend(build_block_backend(dynamics, partition, tiles), partition, mesh)
    return BackendModel(backend, jax.tree.map(assemble, *parts))


@dataclass(frozen=True)
class ShardLayout:
    """How arrays over a grid of ``shape`` lie on the devices of a backend."""

    backend: ShardedBackend
    shape: tuple[int, ...]

    @property
    def partition(self) -> Partition:
        return self.backend.partition

    def zeros(self, dtype: Any) -> jax.Array:
        shape = with_length(self.shape, self.partition.axis, self.partition.padded_length)
        return jnp.zeros(shape, dtype, device=self._sharding(0))

    def to_devices(self, array: NDArray, dim: int = 0) -> jax.Array:
        """An array whose axes from ``dim`` on are the grid's, part by part."""
        axis = dim + self.partition.axis
        shape = with_length(array.shape, axis, self.partition.padded_length)

        def part(index: Any) -> NDArray:
            first, after, _ = index[axis].indices(self.partition.padded_length)
            return take_range(array, axis, first, after - first)

        return jax.make_array_from_callback(shape, self._sharding(dim), part)

    def _sharding(self, dim: int) -> NamedSharding:
        return NamedSharding(self.backend.mesh, P(*(None,) * dim, *self.backend.partition_spec))

    def to_result(self, array: jax.Array) -> ShardedArray:
        return ShardedArray(array, self.partition)

    def from_result(self, array: ShardedArray) -> jax.Array:
        return array.array


@dataclass(frozen=True, eq=False)
class ShardedArray:
    """An array on several devices that is read as a NumPy array, whole or in part.

    Where several processes hold it, all of them must read the same entries at the same time, which
    they send to one another.
    """

    array: jax.Array
    partition: Partition

    @property
    def shape(self) -> tuple[int, ...]:
        return with_length(self.array.shape, self.partition.axis, self.partition.length)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        if self.array.is_fully_addressable:
            whole = np.asarray(self.array)[self._grid_slices]
        else:
            whole = self[()]
        return whole.astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> NDArray:
        everywhere = NamedSharding(self.array.sharding.mesh, P())  # type: ignore[attr-defined]
        read = jax.jit(lambda array: array[self._grid_slices][index], out_shardings=everywhere)
        return np.asarray(read(self.array))

    @property
    def _grid_slices(self) -> tuple[slice, ...]:
        return self.partition.slices(0, self.partition.length)
