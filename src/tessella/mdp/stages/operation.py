"""What every move of a stage can do, in numbers and compiled.

Its numbers are outcomes, ``s -> target_k(s)`` with probability ``p_k(s)``; from them follow the
sparse matrix, the samples and the row masses. Its compiled form is a faster way to the same sum: a
frozen description (axis, whether it depends on the action) to which the numbers come in as arrays.
Both keep a leading action axis, of length A, or 1 where all actions share the numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tessella.rounding import Mass


class CompiledOperation(Protocol):
    """A move as the engine runs it, linear in ``w``; JAX is loaded when it is first applied."""

    @property
    def acts(self) -> bool: ...

    @property
    def stays(self) -> bool:
        """Whether every state stays where it is."""
        ...

    def follows(self, arrays: Any) -> bool:
        """Whether ``action`` may be a policy, an array (grid) with each state's own."""
        ...

    def apply(self, arrays: Any, w: Any, action: Any) -> Any:
        """The expectation of ``w`` after the move, under ``action``."""
        ...


@dataclass(frozen=True, eq=False)
class Operation(ABC):
    """Arrays carry a leading action axis, of length 1 where all actions share them."""

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def acts(self) -> bool:
        """Whether the move depends on the action."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray]: ...

    @abstractmethod
    def compiled(self, acts: bool) -> CompiledOperation:
        """Its compiled form; ``acts`` says whether the move or its reward knows the action."""

    @abstractmethod
    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        """(target states, probabilities), each of the grid's shape, one pair for each outcome."""

    @property
    def mass(self) -> Mass:
        return Mass(0.0, 0.0)

    @property
    @abstractmethod
    def terms(self) -> int:
        """Most numbers added up in one entry of the expectation."""

    @property
    @abstractmethod
    def adjoint_terms(self) -> int:
        """Most numbers added up in one entry of its adjoint."""

    @abstractmethod
    def sample(
        self, states: NDArray, actions: NDArray, rng: np.random.Generator
    ) -> tuple[NDArray, NDArray | None]:
        """(states reached, index of the noise drawn or None), for n walkers."""


def at(array: NDArray, action: int) -> NDArray:
    """The slice for ``action`` of an array that may be shared by all."""
    return array[action if array.shape[0] > 1 else 0]


def of_action(array, action):
    """The slice for ``action`` of an array that may be shared by all, compiled.

    For a policy (grid), each state's own number: the array is (A | 1, *broadcast).
    """
    import jax.numpy as jnp
    from jax import lax

    if array.shape[0] == 1:
        return array[0]
    if not jnp.ndim(action):
        return lax.dynamic_index_in_dim(array, action, 0, keepdims=False)
    full = jnp.broadcast_to(array, (array.shape[0], *action.shape))
    return jnp.take_along_axis(full, action[None], 0, mode="clip")[0]


def shared(*arrays) -> bool:
    """Whether all actions share these numbers."""
    return all(array.shape[0] == 1 for array in arrays)
