"""Models that fill a device: value iteration in place, one slab after the other.

    v <- T v    on the first slab, then on the next with what the first has now, and so on.

One array of values is all that a sweep needs beside a slab, in place of five or six. Sweeps in
place contract as plain ones do. The bound comes from a round that writes nothing: with d = T v - v
between ``low`` and ``high``, and c the discount,

    low / (1 - c) <= V* - v <= high / (1 - c),

so v is moved to the middle of the two, and the residual of what that gives is d less a constant.
Expected rewards that are kept as factors are summed up slab by slab, in every sweep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tessella.errors import ArgumentError
from tessella.mdp.engine import in_float64, on_device
from tessella.mdp.stages.operation import with_length
from tessella.mdp.stages.reward import ExpectedReward
from tessella.mdp.stages.staged import Staged, StagedProgram
from tessella.mdp.stages.windows import Cut, stages_of, window_program
from tessella.rounding import EPS
from tessella.solvers.driver import Engine
from tessella.solvers.kernels import best_two, lowest_near
from tessella.solvers.operators import Data, Operators

LOOKED = 16  # sweeps between two looks at the bound


@dataclass(frozen=True)
class Found:
    """What a look at all slabs says."""

    low: float  # T v - v is at least this ...
    high: float  # ... and at most this
    size: float  # max |v|


class InPlace:
    """A model and its values on one device, swept slab by slab."""

    def __init__(self, engine: Engine, cut: Cut) -> None:
        assert isinstance(engine.mdp.dynamics, Staged)
        if engine.mdp.feasible is not None:
            raise ArgumentError("sweeps in place serve models whose actions are all feasible")
        self.engine, self.cut, dynamics = engine, cut, engine.mdp.dynamics
        self.program = window_program(dynamics, cut)
        self.shape = engine.mdp.grid.shape
        self.slabs = -(-cut.length // cut.rows)
        self.data = [self._data(dynamics, k) for k in range(self.slabs)]
        self.value = jnp.zeros(with_length(self.shape, cut.axis, self._padded))

    @property
    def _padded(self) -> int:
        return self.cut.below + self.slabs * self.cut.rows + self.cut.above

    def _data(self, dynamics: Staged, k: int) -> Data:
        arrays = []
        for stage in stages_of(dynamics, self.cut, k):
            told, reward = stage.arrays(), stage.reward
            if isinstance(reward, ExpectedReward):
                told["reward"] = (reward.probs, reward.reward)
            arrays.append(on_device(told))
        return self.engine.data_with(arrays, None)

    def _each(self) -> Iterator[tuple[np.int64, Data]]:
        for k, data in enumerate(self.data):
            yield np.int64(k * self.cut.rows), data

    def sweep(self) -> None:
        for first, data in self._each():
            self.value = _swept(self.program, self.cut, self.value, first, data)

    def look(self) -> Found:
        ends = [
            _looked(self.program, self.cut, self._own(k), self.value, first, data)
            for k, (first, data) in enumerate(self._each())
        ]
        low, high, size = np.array(jax.device_get(ends)).T
        return Found(float(low.min()), float(high.max()), float(size.max()))

    def _own(self, k: int) -> int:
        """Places of the k-th slab that the axis has."""
        return min(self.cut.rows, self.cut.length - k * self.cut.rows)

    def decided(self, k: int, bound: float) -> tuple[Any, Any]:
        """(policy, margin) of the k-th slab."""
        first, data = np.int64(k * self.cut.rows), self.data[k]
        return _decided(self.program, self.cut, self.value, first, data, np.float64(bound))


def _arrays(data: Data) -> Data:
    """The same with expected rewards summed up."""

    def made(stage: dict[str, Any]) -> dict[str, Any]:
        reward = stage.get("reward")
        if not isinstance(reward, tuple):
            return stage
        p, r = reward
        shape = np.broadcast_shapes(p.shape[:-1], r.shape[:-1])
        p, r = (jnp.squeeze(a, _ones(a)) for a in (p, r))
        named = _letters(reward[0]), _letters(reward[1])
        out = "".join(sorted(set(named[0] + named[1]) - {"z"}))
        return stage | {"reward": jnp.einsum(f"{named[0]},{named[1]}->{out}", p, r).reshape(shape)}

    return data._replace(arrays=[made(stage) for stage in data.arrays])


def _ones(array: Any) -> tuple[int, ...]:
    return tuple(i for i, n in enumerate(array.shape[:-1]) if n == 1)


def _letters(array: Any) -> str:
    kept = (i for i, n in enumerate(array.shape[:-1]) if n > 1)
    return "".join(chr(ord("a") + i) for i in kept) + "z"


def _window(cut: Cut, value, first):
    return lax.dynamic_slice_in_dim(value, first, cut.window, cut.axis)


def _middle(cut: Cut, array, rows: int | None = None):
    return lax.slice_in_dim(array, cut.below, cut.below + (rows or cut.rows), axis=cut.axis)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def _swept(program: StagedProgram, cut: Cut, value, first, data: Data):
    best, _ = Operators(program, _arrays(data)).bellman(_window(cut, value, first))
    return lax.dynamic_update_slice_in_dim(value, _middle(cut, best), first + cut.below, cut.axis)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _looked(program: StagedProgram, cut: Cut, rows: int, value, first, data: Data):
    here = _window(cut, value, first)
    best, _ = Operators(program, _arrays(data)).bellman(here)
    own = _middle(cut, here, rows)
    apart = _middle(cut, best, rows) - own
    return jnp.stack([apart.min(), apart.max(), jnp.abs(own).max()])


@partial(jax.jit, static_argnums=(0, 1))
def _decided(program: StagedProgram, cut: Cut, value, first, data: Data, near):
    here = _window(cut, value, first)
    q_of = Operators(program, _arrays(data)).q(here)
    best, second = best_two(program, q_of, here)
    policy = lowest_near(program, q_of, best, near)
    return _middle(cut, policy), _middle(cut, best - second)


@in_float64
def iterate_in_place(
    engine: Engine, cut: Cut, tol: float, max_sweeps: int
) -> tuple[InPlace, float, int]:
    """(values moved to the middle, bound on their error, sweeps)."""
    run, sweeps = InPlace(engine, cut), 0
    criterion = engine.data_with(None, None).criterion
    while True:
        for _ in range(LOOKED):
            run.sweep()
        sweeps += LOOKED
        found = run.look()
        middle = (found.low + found.high) / 2 / (1 - engine.mdp.discount)
        size = found.size + abs(middle)
        operators = Operators(run.program, engine.data_with(None, None))
        eta = float(operators.rounding(np.array([size]), 0.0)) + 4 * EPS * size
        # The middle is taken off with a row sum of 1, which is right to ``mass.off``.
        off = abs(middle) * engine.mdp.discount * engine.mass.off
        bound = float(criterion.error((found.high - found.low) / 2 + eta + off))
        if bound <= tol or sweeps >= max_sweeps:
            run.value = _moved(run.value, np.float64(middle))
            return run, bound, sweeps


@partial(jax.jit, donate_argnums=0)
def _moved(value, middle):
    return value + middle
