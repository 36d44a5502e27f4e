"""Arrays over a grid that lie on several devices, each with some places of one axis.

The devices' parts are of one length, so the last of them may end in places that the grid does not
have: copies of its last one. Whoever reads such an array does not see them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

from tessella.mdp.stages.operation import take_range, with_length
from tessella.mdp.stages.sharded import ShardedBackend


class ShardLayout:
    """How arrays over a grid of ``shape`` lie on the devices of a backend."""

    def __init__(self, backend: ShardedBackend, shape: tuple[int, ...]) -> None:
        self.partition = backend.partition
        self.mesh = backend.mesh
        self.shape = shape

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
        return NamedSharding(
            self.mesh, P(*(None,) * (dim + self.partition.axis), *self.mesh.axis_names)
        )

    def to_result(self, array: jax.Array) -> ShardedArray:
        return ShardedArray(array, self.partition.axis, self.partition.length)


class ShardedArray:
    """An array on several devices that is read as NumPy's, whole or in part.

    Where several processes hold it, all of them must read it alike: they send each other what is
    read.
    """

    def __init__(self, array: jax.Array, axis: int, length: int) -> None:
        self.array = array
        self.axis = axis
        self.length = length

    @property
    def shape(self) -> tuple[int, ...]:
        return with_length(self.array.shape, self.axis, self.length)

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
        return (slice(None),) * self.axis + (slice(self.length),)
