"""What happens to the state in a stage, in numbers and compiled.

Its numbers are outcomes, ``s -> target_k(s)`` with probability ``p_k(s)``; from them follow the
sparse matrix, the samples and the row masses. Its compiled form is a faster way to the same sum: a
frozen description (axis, whether it depends on the action) to which the numbers come in as arrays.
Both keep a leading action axis, of length A, or 1 where all actions share the numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.sampling import entries_for_walkers, invert_cumulative
from tessella.rounding import RowSumBounds, bound_sums


class CompiledOperation(Protocol):
    """An operation as compiled code runs it, linear in ``w``; JAX is loaded when first applied."""

    @property
    def depends_on_action(self) -> bool: ...

    @property
    def is_identity(self) -> bool:
        """Whether every state stays where it is."""
        ...

    @property
    def accepts_broadcast_input(self) -> bool:
        """Whether ``w`` may be an open mesh, of length one along what does not matter to it."""
        ...

    def supports_policy_arrays(self, arrays: Any) -> bool:
        """Whether ``action`` may be a policy, an array (grid) with each state's own."""
        ...

    def apply(self, arrays: Any, w: Any, action: Any) -> Any:
        """The expectation of ``w`` after the operation, under ``action``."""
        ...


class Displacement(NamedTuple):
    """How far a state may move along an axis, in places."""

    below: int = 0
    above: int = 0

    def __add__(self, other: tuple) -> Displacement:
        """That of one move after another."""
        return Displacement(self.below + other[0], self.above + other[1])

    @staticmethod
    def covering(steps: NDArray) -> Displacement:
        """The least that holds all ``steps``."""
        return Displacement(max(-int(steps.min()), 0), max(int(steps.max()), 0))


@dataclass(frozen=True, eq=False)
class Operation(ABC):
    """Arrays carry a leading action axis, of length 1 where all actions share them."""

    shape: tuple[int, ...]

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The grid on which it leaves the state; only scratch axes change it."""
        return self.shape

    def restrict_to_leading_axes(self, axes: int) -> Operation | None:
        """The same on the first ``axes`` alone; None where others matter to it, or may do so."""
        return None

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an open mesh of values before it, from that of those after it."""
        return self.shape

    def max_displacement(self, axis: int) -> Displacement | None:
        """How far it moves a state along ``axis``; None where it has no ``block``."""
        return None

    def block(self, axis: int, first: int, count: int) -> Operation:
        """The same on ``count`` places of ``axis`` from ``first`` on, some perhaps off its ends.

        Off the ends stands what the nearest place has. What would leave the block stops there.
        """
        raise NotImplementedError(f"no window of {type(self).__name__}")

    @property
    @abstractmethod
    def depends_on_action(self) -> bool:
        """Whether the operation depends on the action."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray]: ...

    @abstractmethod
    def compile(self, depends_on_action: bool) -> CompiledOperation:
        """Its compiled form; ``depends_on_action`` is true if it or its reward does."""

    @abstractmethod
    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        """(target states, probabilities), each of the grid's shape, one pair for each outcome."""

    @property
    def row_sums(self) -> RowSumBounds:
        return RowSumBounds(0.0, 0.0)

    @property
    def relative_rounding(self) -> float:
        """How far a stored probability may be off the one that was meant, as a share of it."""
        return 0.0

    @property
    def is_interpolating(self) -> bool:
        """Whether it lands between cut points, and goes to the neighbours."""
        return False

    @property
    @abstractmethod
    def rounding_terms(self) -> int:
        """Most numbers added up in one entry of the expectation."""

    @property
    @abstractmethod
    def adjoint_rounding_terms(self) -> int:
        """Most numbers added up in one entry of its adjoint."""

    @abstractmethod
    def sample(
        self, states: NDArray, actions: NDArray, rng: np.random.Generator
    ) -> tuple[NDArray, NDArray | None]:
        """(states reached, index of the noise drawn or None), for n walkers."""


class RandomOperation(Operation):
    """An operation with K outcomes in every state: ``probs`` (A | 1, K, *broadcast)."""

    probs: NDArray[np.float64]

    @property
    def row_sums(self) -> RowSumBounds:
        return bound_sums(self.probs, 1)

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """(A | 1, *broadcast, K) ``probs`` summed up over outcomes, for simulation."""
        return np.cumsum(np.moveaxis(self.probs, 1, -1), axis=-1)

    def draw(
        self, states: NDArray, actions: NDArray, rng: np.random.Generator
    ) -> tuple[tuple[NDArray, ...], NDArray[np.int64]]:
        """Coordinates of n walkers, and the index of the outcome that each of them drew."""
        where = np.unravel_index(states, self.shape)
        return where, invert_cumulative(entries_for_walkers(self.cumulative, actions, where), rng)


def action_slice(array: NDArray, action: int) -> NDArray:
    """The slice for ``action`` of an array that may be shared by all."""
    return array[action if array.shape[0] > 1 else 0]


def apply_with_reward(operation: CompiledOperation, arrays: Any, w: Any, action: Any) -> Any:
    """The expectation of ``w`` and the stage's reward, in one go where the operation can."""
    fused = getattr(operation, "apply_with_reward", None)
    if fused is not None:
        return fused(arrays, w, action)
    return operation.apply(arrays, w, action) + compiled_action_slice(arrays["reward"], action)


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
    where = [
        lax.broadcasted_iota(jnp.int32, shape, axis) if n > 1 else 0
        for axis, n in enumerate(lengths)
    ]
    action = policy if array.shape[0] > 1 else 0
    return jnp.broadcast_to(array[(action, *index, *where)], shape)


def with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    """``shape`` with another length of one axis."""
    return (*shape[:axis], length, *shape[axis + 1 :])


def take_range(array: NDArray, dim: int, first: int, count: int) -> NDArray:
    """``count`` places of one dimension from ``first`` on; off its ends the nearest one."""
    length = array.shape[dim]
    if length == 1:
        return array  # all places share it
    if first >= 0 and first + count <= length:
        return array[(slice(None),) * dim + (slice(first, first + count),)]
    return np.take(array, np.clip(np.arange(first, first + count), 0, length - 1), axis=dim)


def relative_to_block(places: NDArray, first: int, count: int) -> NDArray:
    """Places of an axis as those of a block of it, stopped at its ends."""
    return np.clip(places - first, 0, count - 1).astype(places.dtype)


def drop_trailing_axes(array: NDArray, rank: int) -> NDArray | None:
    """An open mesh on its first ``rank`` dimensions; None where it depends on others."""
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
