"""The transition of a stage, as arrays and compiled.

An operation has outcomes, ``s -> target_k(s)`` with probability ``p_k(s)``, which determine the
sparse matrix, the samples and the row sums. Compiled code computes the same sum faster: a *map*
reads ``w`` at the target, a *shift* adds slices of ``w``, a *matrix* multiplies it along some axes,
a *scatter* reads it at every target; a *reshape* moves nothing. That code is the ``apply`` of the
operation's class; it gets the numbers as arrays, so that operations with other numbers share it
(``CompiledOperation``). Arrays have a leading action axis, of length A, or 1 where all actions
share the numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.grid import StateGrid
from tessella.mdp.dynamics import draw_indices, take_walker_entries
from tessella.rounding import RowSumBounds, bound_sums

MEAN_DECIMALS = 9  # digits to which sums and means over neighbours are rounded


Displacement = tuple[int, int]  # positions that a state may move down an axis, and up
NO_DISPLACEMENT: Displacement = (0, 0)


@dataclass(frozen=True, eq=False)
class Operation(ABC):
    """An operation on states of a grid; by default one with a single outcome.

    Attributes:
        shape: of the grid.
        axes: those along which it may move a state.

    Class attributes:
        hashed_name: its name in the fingerprint of a model, which saved files contain.
        mesh_fields: the fields that are open meshes over the grid, after ``mesh_lead_dims`` others.
        accepts_broadcast_input: whether ``apply`` takes an open mesh ``w``, of length one along
            axes that do not matter to it.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    hashed_name: ClassVar[str]
    mesh_fields: ClassVar[tuple[str, ...]] = ()
    mesh_lead_dims: ClassVar[int] = 2  # (A | 1, K, *broadcast)
    accepts_broadcast_input: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def apply(static_args: Any, arrays: Any, w: Any, action: Any, /) -> Any:
        """The expectation of ``w`` after the operation, compiled; linear in ``w``.

        ``action`` is one action, or a policy (grid) where ``supports_policy_arrays``.
        """

    @staticmethod
    def supports_policy_arrays(static_args: Any, arrays: Any, /) -> bool:
        """Whether ``action`` may be a policy, an array (grid) with each state's own."""
        return True

    @property
    def static_args(self) -> Hashable:
        """The static arguments of ``apply``: each value of them is compiled once."""
        return self.axes

    def compile(self, depends_on_action: bool) -> CompiledOperation:
        """Its compiled form; ``depends_on_action`` is true if it or its reward does."""
        return CompiledOperation(type(self), self.shape, self.static_args, depends_on_action)

    @abstractmethod
    def fingerprint_key(self) -> tuple:
        """The numbers that enter the fingerprint of a model."""

    def arrays(self) -> dict[str, NDArray]:
        """The arrays of ``apply``."""
        return {name: getattr(self, name) for name in self.mesh_fields}

    @property
    def depends_on_action(self) -> bool:
        """Whether the operation depends on the action."""
        return any(len(getattr(self, name)) > 1 for name in self.mesh_fields)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The grid on which it leaves the state; only scratch axes change it."""
        return self.shape

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an open mesh of values before it, from that of those after it."""
        return self.shape

    @property
    def axis(self) -> int:
        """The axis along which it moves a state, where that is one."""
        (axis,) = self.axes
        return axis

    @abstractmethod
    def positions(self, axis: int) -> NDArray:
        """(A | 1, K, *broadcast) where the K outcomes lead along an axis."""

    def current_positions(self, axis: int) -> NDArray:
        """(1, 1, *broadcast) the positions along an axis before the operation."""
        mesh_shape = with_length((1,) * len(self.shape), axis, -1)
        return np.arange(self.shape[axis]).reshape(1, 1, *mesh_shape)

    def max_displacement(self, axis: int) -> Displacement | None:
        """How far it moves a state along ``axis``; None where it has no ``block``."""
        if axis not in self.axes:
            return NO_DISPLACEMENT
        return bound_displacement(self.positions(axis) - self.current_positions(axis))

    def restrict_to_leading_axes(self, count: int) -> Operation | None:
        """The same on the first axes alone; None where it may depend on others or move them."""
        rank = self.mesh_lead_dims + count
        short = {name: drop_trailing_axes(getattr(self, name), rank) for name in self.mesh_fields}
        if max(self.axes, default=-1) >= count or any(a is None for a in short.values()):
            return None
        return replace(self, shape=self.shape[:count], **short)

    def block(self, axis: int, first: int, count: int) -> Operation:
        """The same on ``count`` positions of ``axis`` from ``first`` on.

        Positions past its ends repeat the nearest one; moves out of the block stop at its ends.
        """
        dim = self.mesh_lead_dims + axis
        parts = {
            name: take_range(getattr(self, name), dim, first, count) for name in self.mesh_fields
        }
        if axis in self.axes:
            parts["target"] = relative_to_block(parts["target"], first, count)
        return replace(self, shape=with_length(self.shape, axis, count), **parts)

    def target_states(self, action: int) -> Iterator[NDArray]:
        """(grid) the states to which the outcomes lead, one outcome after the other."""
        states = np.arange(math.prod(self.shape)).reshape(self.shape)
        steps: Any = 0
        for axis in self.axes:
            moves = action_slice(self.positions(axis), action) - self.current_positions(axis)[0]
            steps = steps + moves * math.prod(self.shape[axis + 1 :])
        return (states + step for step in steps)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        """(target states, probabilities), each of the grid's shape, one pair for each outcome."""
        return ((target, np.ones(self.shape)) for target in self.target_states(action))

    def noise_probabilities(self) -> NDArray[np.float64]:
        """(A | 1, K, *broadcast) probabilities of the values of the noise."""
        return np.ones((1,) * (len(self.shape) + 2))

    def noise_positions(self, axis: int) -> NDArray:
        """(A | 1, K, *broadcast) where the values of the noise lead along an axis.

        Where a value lands between grid points, the mean of its neighbours.
        """
        return self.positions(axis)

    @property
    def row_sums(self) -> RowSumBounds:
        return RowSumBounds(0.0, 0.0)

    @property
    def relative_rounding(self) -> float:
        """Relative error of stored probabilities; above 0 where targets are between grid points."""
        return 0.0

    @property
    def rounding_terms(self) -> int:
        """Largest number of terms in one entry of the expectation."""
        return 0

    @property
    def max_outcomes(self) -> int:
        """Largest number of outcomes of one state under one action."""
        return max(self.rounding_terms, 1)

    @property
    def adjoint_rounding_terms(self) -> int:
        """Largest number of terms in one entry of its adjoint."""
        return 0

    @abstractmethod
    def sample(
        self, states: NDArray, actions: NDArray, rng: np.random.Generator
    ) -> tuple[NDArray, NDArray | None]:
        """(states reached, index of the noise drawn or None), for n walkers."""


class RandomOperation(Operation):
    """An operation with K outcomes in every state: ``probs`` (A | 1, K, *broadcast)."""

    probs: NDArray[np.float64]

    @property
    def targets_per_value(self) -> int:
        """Consecutive outcomes that belong to one value of the noise; 1 without interpolation."""
        return 1

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        probs = action_slice(self.probs, action)
        for target, p in zip(self.target_states(action), probs, strict=True):
            yield target, np.broadcast_to(p, self.shape)

    def noise_probabilities(self) -> NDArray[np.float64]:
        if self.targets_per_value == 1:
            return self.probs
        return self._sum_targets(self.probs).round(MEAN_DECIMALS)

    def noise_positions(self, axis: int) -> NDArray:
        positions = self.positions(axis)
        if self.targets_per_value == 1:
            return positions
        mass = self._sum_targets(self.probs)
        mean = self._sum_targets(self.probs * positions) / np.where(mass > 0, mass, 1.0)
        return mean.round(MEAN_DECIMALS)

    def _sum_targets(self, array: NDArray) -> NDArray:
        """(A | 1, K, ...) sums over the outcomes of each value of the noise."""
        lead, _, *others = array.shape
        return array.reshape(lead, -1, self.targets_per_value, *others).sum(axis=2)

    @property
    def row_sums(self) -> RowSumBounds:
        return bound_sums(self.probs, 1)

    @property
    def rounding_terms(self) -> int:
        return self.probs.shape[1]

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """(A | 1, *broadcast, K) ``probs`` summed up over outcomes, for simulation."""
        return np.cumsum(np.moveaxis(self.probs, 1, -1), axis=-1)

    def draw(
        self, states: NDArray, actions: NDArray, rng: np.random.Generator
    ) -> tuple[list[NDArray], NDArray[np.int64]]:
        """Coordinates of n walkers, and the index of the outcome that each of them drew."""
        positions = list(np.unravel_index(states, self.shape))
        return positions, draw_indices(
            take_walker_entries(self.cumulative, actions, positions), rng
        )


@dataclass(frozen=True, eq=False)
class Reshape(Operation):
    """Every state keeps its position, while scratch axes, the last ones, may be added or dropped.

    Added axes begin at their first values; dropped axes are forgotten.
    """

    grid: StateGrid | None = None  # after the operation; None for the same

    accepts_broadcast_input = True

    @property
    def static_args(self) -> Hashable:
        """The number of added axes, and the lengths of the dropped ones."""
        return max(len(self.output_shape) - len(self.shape), 0), self._dropped

    @property
    def hashed_name(self) -> str:  # type: ignore[override]
        if self.grid is None:
            return "Stay"
        return "Forget" if self._dropped else "Open"

    def fingerprint_key(self) -> tuple:
        return (self.shape,) if self.grid is None else (self.shape, self.grid)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.shape if self.grid is None else self.grid.shape

    @property
    def _added_size(self) -> int:
        """Number of states of the added axes."""
        return math.prod(self.output_shape[len(self.shape) :])

    @property
    def _dropped(self) -> tuple[int, ...]:
        """Lengths of the dropped axes."""
        return self.shape[len(self.output_shape) :]

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return (*after, *(1,) * (len(self.shape) - len(after)))[: len(self.shape)]

    def positions(self, axis: int) -> NDArray:
        return self.current_positions(axis)

    def block(self, axis: int, first: int, count: int) -> Reshape:
        shape = with_length(self.shape, axis, count)
        if self.grid is None:
            return Reshape(shape, ())
        lengths = with_length(self.grid.shape, axis, count)
        grid = StateGrid({n: range(k) for n, k in zip(self.grid.axes, lengths, strict=True)})
        return Reshape(shape, (), grid)

    def target_states(self, action: int) -> Iterator[NDArray]:
        states = np.arange(math.prod(self.shape)).reshape(self.shape)
        yield states * self._added_size // math.prod(self._dropped)

    @property
    def adjoint_rounding_terms(self) -> int:
        return math.prod(self._dropped) if self._dropped else 0

    def sample(self, states, actions, rng):
        return states * self._added_size // math.prod(self._dropped), None

    @staticmethod
    def apply(static_args, arrays, w, action, /):
        added, dropped = static_args
        if added or dropped:  # an open mesh, of length one along dropped axes
            return w[(..., *(0,) * added, *(None,) * len(dropped))]
        return w


@dataclass(frozen=True)
class CompiledOperation:
    """An operation without its numbers, which compiled code gets as arrays."""

    operation_type: type[Operation]
    shape: tuple[int, ...]  # of the grid on which it begins
    static_args: Hashable
    depends_on_action: bool

    def supports_policy_arrays(self, arrays: Any) -> bool:
        """Whether ``action`` may be a policy, an array (grid) with each state's own."""
        return self.operation_type.supports_policy_arrays(self.static_args, arrays)

    def apply(self, arrays: Any, w: Any, action: Any) -> Any:
        """The expectation of ``w`` after the operation, under ``action``."""
        return self.operation_type.apply(self.static_args, arrays, w, action)

    def apply_with_reward(self, arrays: Any, w: Any, action: Any) -> Any:
        """The expectation of ``w`` and the stage's reward."""
        return self.apply(arrays, w, action) + compiled_action_slice(arrays["reward"], action)


def action_slice(array: NDArray, action: int) -> NDArray:
    """The slice for ``action`` of an array that may be shared by all."""
    return array[action if array.shape[0] > 1 else 0]


def compiled_action_slice(array, action):
    """The slice for ``action`` of an array that may be shared by all, compiled.

    For a policy (grid), each state's own number: the array is (A | 1, *broadcast).
    """
    import jax.numpy as jnp
    from jax import lax

    if array.shape[0] == 1:
        return array[0]
    if not jnp.ndim(action):
        return lax.dynamic_index_in_dim(array, action, 0, keepdims=False)
    return gather_policy_entries(array, action)


def gather_policy_entries(array, policy, *index):
    """(grid) each state's own number, out of an array (A | 1, *index, *broadcast)."""
    import jax.numpy as jnp
    from jax import lax

    shape = policy.shape
    lengths = array.shape[1 + len(index) :]
    positions = [
        lax.broadcasted_iota(jnp.int32, shape, axis) if n > 1 else 0
        for axis, n in enumerate(lengths)
    ]
    action = policy if array.shape[0] > 1 else 0
    return jnp.broadcast_to(array[(action, *index, *positions)], shape)


def with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    """``shape`` with another length of one axis."""
    return (*shape[:axis], length, *shape[axis + 1 :])


def take_range(array: NDArray, dim: int, first: int, count: int) -> NDArray:
    """``count`` entries of one dimension from ``first`` on; past its ends the nearest one."""
    length = array.shape[dim]
    if length == 1:
        return array  # all positions share this entry
    if first >= 0 and first + count <= length:
        return array[(slice(None),) * dim + (slice(first, first + count),)]
    return np.take(array, np.clip(np.arange(first, first + count), 0, length - 1), axis=dim)


def bound_displacement(steps: NDArray) -> Displacement:
    """The smallest displacement that contains all ``steps``."""
    return max(-int(steps.min()), 0), max(int(steps.max()), 0)


def relative_to_block(positions: NDArray, first: int, count: int) -> NDArray:
    """Positions on an axis as positions in a block of it, clipped to the block."""
    return np.clip(positions - first, 0, count - 1).astype(positions.dtype)


def drop_trailing_axes(array: NDArray, rank: int) -> NDArray | None:
    """An open mesh on its first ``rank`` dimensions; None if it depends on others."""
    return None if np.prod(array.shape[rank:]) > 1 else array.reshape(array.shape[:rank])


def gather_along(w, target, axis: int):
    """``w[target(x)]`` along one axis, compiled; both are open meshes."""
    import jax.numpy as jnp

    if target.size == target.shape[axis]:
        return jnp.take(w, target.ravel(), axis=axis, mode="clip")
    others = np.broadcast_shapes(with_length(w.shape, axis, 1), with_length(target.shape, axis, 1))
    target = jnp.broadcast_to(target, with_length(others, axis, target.shape[axis]))
    w = jnp.broadcast_to(w, with_length(others, axis, w.shape[axis]))
    return jnp.take_along_axis(w, target, axis=axis, mode="clip")


def is_shared_by_actions(*arrays) -> bool:
    """Whether all actions share these numbers."""
    return all(array.shape[0] == 1 for array in arrays)
