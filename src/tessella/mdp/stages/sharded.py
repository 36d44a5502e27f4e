"""One staged model over several devices: each has one window of the slowest axis.

A backward pass begins with an exchange: every device gets the few places around its own that the
period may reach from the devices beside it. All else is the program of ``staged`` on the window
(``windows``), kernels of accelerators included, and no device ever holds more than that.

Arrays over the grid are cut along one axis; the model's own come with a first axis of length
``count``, one window after the other, each made on its device.
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

from tessella.errors import ModelError
from tessella.mdp.dynamics import Dynamics, Lowered
from tessella.mdp.engine import in_float64, on_device
from tessella.mdp.stages.staged import Staged, StagedProgram
from tessella.mdp.stages.windows import Cut, cut, stages_of, window_program

ROWS = "rows"  # what the mesh's one axis is called


@dataclass(frozen=True)
class ShardedProgram:
    """The program of a window, run on every device at once."""

    local: StagedProgram
    cut: Cut
    mesh: Mesh

    @property
    def n_actions(self) -> int:
        return self.local.n_actions

    @property
    def along(self) -> P:
        """How arrays over the grid are cut."""
        return P(*(None,) * self.cut.axis, ROWS)

    def _everywhere(self, work, *specs):
        return shard_map(
            work, mesh=self.mesh, in_specs=(P(ROWS), *specs), out_specs=self.along, check_vma=False
        )

    def tail(self, arrays, w_S, pay):
        def work(arrays, w):
            return self.local.tail(own_of(arrays), self._with_neighbours(w), pay)

        return self._everywhere(work, self.along)(arrays, w_S)

    def head(self, arrays, w, action, pay):
        def work(arrays, w, action):
            return self._middle(self.local.head(own_of(arrays), w, action, pay))

        return self._everywhere(work, self.along, P())(arrays, w, jnp.asarray(action))

    def follows(self, arrays) -> bool:
        return self.local.follows(jax.tree.map(_without_first, arrays))

    def head_under(self, arrays, w, policy, pay):
        # The policy of a place matters to that place alone: around them any action will do.
        around = [(0, 0)] * policy.ndim
        around[self.cut.axis] = self.cut.below, self.cut.above

        def work(arrays, w, policy):
            wide = jnp.pad(policy, around)
            return self._middle(self.local.head_under(own_of(arrays), w, wide, pay))

        return self._everywhere(work, self.along, self.along)(arrays, w, policy)

    def _middle(self, w):
        first = self.cut.below
        return lax.slice_in_dim(w, first, first + self.cut.rows, axis=self.cut.axis)

    def _with_neighbours(self, w):
        """A window, with what the devices beside this one have of it."""
        below = [self._from(w, hop, self.cut.below) for hop in self._hops(self.cut.below)]
        above = [self._from(w, -hop, self.cut.above) for hop in self._hops(self.cut.above)]
        return jnp.concatenate([*reversed(below), w, *above], axis=self.cut.axis)

    def _hops(self, places: int) -> range:
        return range(1, 1 - (-places // self.cut.rows))

    def _from(self, w, hop: int, places: int):
        """What is needed of the device ``hop`` before this one; zeros where there is none."""
        rows, count = self.cut.rows, self.cut.count
        needed = min(rows, places - (abs(hop) - 1) * rows)
        first = rows - needed if hop > 0 else 0
        part = lax.slice_in_dim(w, first, first + needed, axis=self.cut.axis)
        pairs = [(i, i + hop) for i in range(count) if 0 <= i + hop < count]
        return lax.ppermute(part, ROWS, pairs) if pairs else jnp.zeros_like(part)


def own_of(arrays):
    """The arrays of this device's window."""
    return jax.tree.map(lambda array: array[0], arrays)


def _without_first(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape[1:], array.dtype)


def among(dynamics: Dynamics, devices: Sequence[Any]) -> Lowered:
    """A model cut among ``devices``; one that cannot be cut is refused."""
    found = parts_of(dynamics, len(devices))
    assert isinstance(dynamics, Staged)
    return lower_sharded(dynamics, found, devices)


def parts_of(dynamics: Dynamics, count: int) -> Cut:
    """How a model is cut among ``count`` devices."""
    found = cut(dynamics, count)
    if found is None:
        raise ModelError(
            "a model is cut among devices along an axis on which a period reaches only so far",
            value=f"among {count}, each would need all of this one",
        )
    return found


@in_float64
def lower_sharded(dynamics: Staged, cut: Cut, devices: Sequence[Any]) -> Lowered:
    """The model on ``devices``, one window each; arrays are made window by window."""
    mesh = Mesh(np.array(devices), (ROWS,))
    mine = [k for k, device in enumerate(devices) if device.process_index == jax.process_index()]
    parts = []
    for k in mine:
        with jax.default_device(devices[k]):
            arrays = on_device([stage.arrays() for stage in stages_of(dynamics, cut, k)])
            parts.append(jax.tree.map(lambda array: array[None], arrays))
    sharding = NamedSharding(mesh, P(ROWS))

    def whole(*parts):
        shape = (cut.count, *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, sharding, list(parts))

    program = ShardedProgram(window_program(dynamics, cut), cut, mesh)
    return Lowered(program, jax.tree.map(whole, *parts))
