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

from tessella.mdp.dynamics import Mass

# A chain with at most this share of non-zero diagonals is applied by slices, not by a matrix.
BANDED = 0.2


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
        return Mass(1.0, 1.0)

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
        sums = self.probs.sum(axis=1)
        return Mass(float(sums.min()), float(sums.max()))

    @property
    def terms(self) -> int:
        return self.offsets.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return 2 * self.offsets.shape[1] + len(self.pad)

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """``probs`` summed up over outcomes, for simulation."""
        return np.cumsum(self.probs, axis=1)

    def sample(self, states, actions, rng):
        where = np.unravel_index(states, self.shape)
        k = invert(_rows(self.cumulative, actions, where), rng)
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
        where[self.axis] = _lookup(self.target, actions, where)
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
        sums = self.matrix.sum(axis=-1)
        return Mass(float(sums.min()), float(sums.max()))

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
        sums = self.probs.sum(axis=1)
        return Mass(float(sums.min()), float(sums.max()))

    @property
    def terms(self) -> int:
        return self.target.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """``probs`` summed up over outcomes, for simulation."""
        return np.cumsum(self.probs, axis=1)

    def sample(self, states, actions, rng):
        where = np.unravel_index(states, self.shape)
        k = invert(_rows(self.cumulative, actions, where), rng)
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


def shifts(
    shape: tuple[int, ...], axis: int, steps: NDArray[np.int64], probs: NDArray, edge: str
) -> Slices:
    """Moves by ``steps`` (A | 1, K) positions with ``probs`` (A | 1, K, *broadcast)."""
    n = shape[axis]
    if edge != "reflect":
        steps = np.clip(steps, 1 - n, n - 1)
    elif n > 1:  # turning back at both ends repeats after a whole round
        steps = np.where(np.abs(steps) < n, steps, steps % (2 * (n - 1)))
    else:
        steps = np.zeros_like(steps)
    low, high = min(int(steps.min()), 0), max(int(steps.max()), 0)
    padded = np.arange(low, n + high)
    if edge == "reflect":
        pad = np.abs((padded + n - 1) % max(2 * (n - 1), 1) - (n - 1))
    else:
        pad = np.clip(padded, 0, n - 1)
    offsets = (steps - low).astype(np.int32)
    return Slices(shape, axis, pad.astype(np.int32), offsets, np.ascontiguousarray(probs))


def chain(shape: tuple[int, ...], axis: int, matrix: NDArray[np.float64]) -> Operation:
    """A chain along an axis, by slices when its matrix is banded."""
    n = shape[axis]
    row, column = np.nonzero((matrix != 0).any(axis=tuple(range(matrix.ndim - 2))))
    diagonals = np.unique(column - row)
    if matrix.ndim > 3 or len(diagonals) > max(3, BANDED * n):
        return Matrix(shape, axis, matrix)
    low = int(min(diagonals.min(), 0))
    pad = np.clip(np.arange(low, n + max(int(diagonals.max()), 0)), 0, n - 1).astype(np.int32)
    at_x = np.arange(n)
    probs = np.zeros((len(matrix), len(diagonals), n))
    for k, diagonal in enumerate(diagonals):
        inside = (at_x + diagonal >= 0) & (at_x + diagonal < n)
        probs[:, k, inside] = matrix[:, at_x[inside], at_x[inside] + diagonal]
    lengths = [1] * len(shape)
    lengths[axis] = n
    offsets = (diagonals - low).astype(np.int32)[None]
    return Slices(shape, axis, pad, offsets, probs.reshape(len(matrix), len(diagonals), *lengths))


def draw(rows: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index from each row of probabilities, by inversion."""
    return invert(np.cumsum(rows, axis=-1), rng)


def invert(cumulative: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index from each row of cumulated probabilities."""
    u = rng.random(len(cumulative)) * cumulative[:, -1]  # below the total even after rounding
    return (cumulative <= u[:, None]).sum(axis=-1)


def _rows(probs: NDArray, actions: NDArray, where: tuple) -> NDArray:
    """(n, K) entries of ``probs`` (A | 1, K, *broadcast) that each walker faces."""
    index = [w if n > 1 else 0 for w, n in zip(where, probs.shape[2:], strict=True)]
    a = actions if len(probs) > 1 else np.zeros_like(actions)
    return np.moveaxis(probs, 1, -1)[(a, *index)]


def _lookup(array: NDArray, actions: NDArray, where: list) -> NDArray:
    index = [w if n > 1 else 0 for w, n in zip(where, array.shape[1:], strict=True)]
    a = actions if len(array) > 1 else np.zeros_like(actions)
    return array[(a, *index)].astype(np.int64)
