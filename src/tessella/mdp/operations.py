"""Stages made of numbers: the NumPy side of each operation of ``programs``.

Each knows its outcomes, ``s -> target_k(s)`` with probability ``p_k(s)``, and from them follow the
sparse matrix, the samples and the row masses. The compiled side uses faster forms of the same sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.chance import draw, faced, invert
from tessella.mdp.rounding import Mass, mass_of


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
    def compiled(self, acts: bool) -> object:
        """The description that ``programs`` runs."""

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


@dataclass(frozen=True, eq=False)
class Slices(Operation):
    """Shifts along one axis: ``pad`` maps padded positions to it, a slice starts at an offset."""

    axis: int
    pad: NDArray[np.int32]
    offsets: NDArray[np.int32]  # (A | 1, K)
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)

    @property
    def acts(self) -> bool:
        return len(self.offsets) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"pad": self.pad, "offsets": self.offsets, "probs": self.probs}

    def compiled(self, acts: bool) -> object:
        from tessella.mdp import programs

        return programs.Slices(self.axis, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        state = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        for offset, p in zip(at(self.offsets, action), at(self.probs, action), strict=True):
            to = self.pad[offset : offset + self.shape[self.axis]]
            yield np.take(state, to, axis=self.axis), np.broadcast_to(p, self.shape)

    @property
    def mass(self) -> Mass:
        return mass_of(self.probs, 1)

    @property
    def terms(self) -> int:
        return self.offsets.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return 2 * self.offsets.shape[1] + len(self.pad)

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """(A | 1, *broadcast, K) ``probs`` summed up over outcomes, for simulation."""
        return np.cumsum(np.moveaxis(self.probs, 1, -1), axis=-1)

    def sample(self, states, actions, rng):
        where = np.unravel_index(states, self.shape)
        k = invert(faced(self.cumulative, actions, where), rng)
        start = self.offsets[actions if len(self.offsets) > 1 else 0, k]
        to = list(where)
        to[self.axis] = self.pad[start + where[self.axis]].astype(np.int64)
        return np.ravel_multi_index(tuple(to), self.shape), k


@dataclass(frozen=True, eq=False)
class Gather(Operation):
    """A map along one axis: ``target`` (A | 1, *broadcast) holds positions on that axis."""

    axis: int
    target: NDArray[np.int32]

    @property
    def acts(self) -> bool:
        return len(self.target) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target}

    def compiled(self, acts: bool) -> object:
        from tessella.mdp import programs

        return programs.Gather(self.axis, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        where = list(np.indices(self.shape, sparse=True))
        where[self.axis] = at(self.target, action)
        to = np.ravel_multi_index(np.broadcast_arrays(*where), self.shape)
        yield np.broadcast_to(to, self.shape), np.ones(self.shape)

    @property
    def terms(self) -> int:
        return 0

    @property
    def adjoint_terms(self) -> int:
        return self.shape[self.axis]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        where[self.axis] = faced(self.target, actions, where).astype(np.int64)
        return np.ravel_multi_index(tuple(where), self.shape), None


@dataclass(frozen=True, eq=False)
class Matrix(Operation):
    """A chain along one axis: ``matrix`` (A | 1, *given, n, n), given axes in grid order."""

    axis: int
    matrix: NDArray[np.float64]

    @property
    def acts(self) -> bool:
        return len(self.matrix) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"matrix": self.matrix}

    def compiled(self, acts: bool) -> object:
        from tessella.mdp import programs

        return programs.Matrix(self.axis, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        state = np.arange(int(np.prod(self.shape))).reshape(self.shape)
        matrix = at(self.matrix, action)
        for k in range(matrix.shape[-1]):
            to = np.take(state, np.full(self.shape[self.axis], k), axis=self.axis)
            given = matrix.ndim > 2
            p = np.moveaxis(matrix[..., k], -1, self.axis) if given else self._own(matrix, k)
            yield to, np.broadcast_to(p, self.shape)

    def _own(self, matrix: NDArray, k: int) -> NDArray:
        shape = [1] * len(self.shape)
        shape[self.axis] = -1
        return matrix[:, k].reshape(shape)

    @property
    def mass(self) -> Mass:
        return mass_of(self.matrix, -1)

    @property
    def terms(self) -> int:
        return self.matrix.shape[-1]

    @property
    def adjoint_terms(self) -> int:
        return self.matrix.shape[-1]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        matrix, own = self.matrix, where[self.axis]
        a = actions if len(matrix) > 1 else np.zeros_like(actions)
        if matrix.ndim == 3:
            rows = matrix[a, own]
        else:
            others = [w for i, w in enumerate(where) if i != self.axis]
            index = [w if n > 1 else 0 for w, n in zip(others, matrix.shape[1:-2], strict=True)]
            rows = matrix[(a, *index, own)]
        where[self.axis] = draw(rows, rng)
        return np.ravel_multi_index(tuple(where), self.shape), None


@dataclass(frozen=True, eq=False)
class Scatter(Operation):
    """Any move: ``target`` (A | 1, K, *grid) flat states, ``probs`` (A | 1, K, *broadcast)."""

    target: NDArray[np.int32]
    probs: NDArray[np.float64]

    @property
    def acts(self) -> bool:
        return len(self.target) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target, "probs": self.probs}

    def compiled(self, acts: bool) -> object:
        from tessella.mdp import programs

        return programs.Scatter(acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        for to, p in zip(at(self.target, action), at(self.probs, action), strict=True):
            yield to, np.broadcast_to(p, self.shape)

    @property
    def mass(self) -> Mass:
        return mass_of(self.probs, 1)

    @property
    def terms(self) -> int:
        return self.target.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """(A | 1, *broadcast, K) ``probs`` summed up over outcomes, for simulation."""
        return np.cumsum(np.moveaxis(self.probs, 1, -1), axis=-1)

    def sample(self, states, actions, rng):
        where = np.unravel_index(states, self.shape)
        k = invert(faced(self.cumulative, actions, where), rng)
        a = actions if len(self.target) > 1 else 0
        return self.target[(a, k, *where)].astype(np.int64), k


@dataclass(frozen=True, eq=False)
class Stay(Operation):
    """Nothing moves."""

    @property
    def acts(self) -> bool:
        return False

    def arrays(self) -> dict[str, NDArray]:
        return {}

    def compiled(self, acts: bool) -> object:
        from tessella.mdp import programs

        return programs.Stay(acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        yield np.arange(int(np.prod(self.shape))).reshape(self.shape), np.ones(self.shape)

    @property
    def terms(self) -> int:
        return 0

    @property
    def adjoint_terms(self) -> int:
        return 0

    def sample(self, states, actions, rng):
        return states, None
