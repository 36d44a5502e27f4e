"""The outcomes of a stage as open meshes: how likely they are, and where they lead along an axis.

Both are (A | 1, K, *broadcast), whichever operation keeps the numbers, with K the values of the
noise, or the places of a chain. An outcome that lands between cut points leads to neighbours there:
its chance is their sum, and its place their mean.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.stages.between import Blend
from tessella.mdp.stages.decide import Gather
from tessella.mdp.stages.joint import Joint
from tessella.mdp.stages.jump import Corners
from tessella.mdp.stages.move import Matrix
from tessella.mdp.stages.operation import Operation, RandomOperation, with_length
from tessella.mdp.stages.scatter import Scatter
from tessella.mdp.stages.slices import Slices

DIGITS = 9  # of chances and places that are sums over neighbours


def law(operation: Operation) -> NDArray:
    """(A | 1, K, *broadcast) chances of the outcomes."""
    if isinstance(operation, Matrix):
        matrix, axis = operation.matrix, operation.axis
        if matrix.ndim == 3:  # its rows depend on no other axis
            own = _own(operation.shape, axis)
            return np.moveaxis(matrix, -1, 1).reshape(len(matrix), -1, *own)
        return np.moveaxis(np.moveaxis(matrix, -2, axis + 1), -1, 1)
    if not isinstance(operation, RandomOperation):
        return np.ones((1,) * (len(operation.shape) + 2))
    corners = _corners(operation)
    return operation.probs if corners == 1 else _sums(operation.probs, corners).round(DIGITS)


def landing(operation: Operation, axis: int) -> NDArray:
    """(A | 1, K, *broadcast) where outcomes lead along an axis; between cut points, on average."""
    places, corners = _places(operation, axis), _corners(operation)
    if corners == 1 or not isinstance(operation, RandomOperation):
        return places
    mass = _sums(operation.probs, corners)
    mean = _sums(operation.probs * places, corners) / np.where(mass > 0, mass, 1.0)
    return mean.round(DIGITS)


def spreads(operation: Operation, axis: int) -> bool:
    """Whether outcomes that can happen lead from one state to different places along an axis."""
    places, possible = np.broadcast_arrays(landing(operation, axis), law(operation) > 0)
    low = places.min(axis=1, initial=places.max(), where=possible)
    high = places.max(axis=1, initial=places.min(), where=possible)
    return bool((low < high).any())


def leaves(operation: Operation, axis: int) -> bool:
    """Whether an outcome that can happen leads away from a place of an axis."""
    own = np.arange(operation.shape[axis]).reshape(_own(operation.shape, axis))
    return bool(((landing(operation, axis) != own) & (law(operation) > 0)).any())


def _places(operation: Operation, axis: int) -> NDArray:
    """(A | 1, J, *broadcast) places along an axis that an operation may lead to."""
    shape, own = operation.shape, _own(operation.shape, axis)
    if isinstance(operation, Gather) and axis == operation.axis:
        return operation.target[:, None]
    if isinstance(operation, Blend) and axis == operation.axis:
        return operation.target
    if isinstance(operation, Joint) and axis in operation.moved:
        return np.unravel_index(operation.target, operation.lengths)[operation.moved.index(axis)]
    if isinstance(operation, Slices) and axis == operation.axis:
        to = operation.pad[operation.offsets[..., None] + np.arange(shape[axis])]
        return to.reshape(*operation.offsets.shape, *own)
    if isinstance(operation, Scatter):
        return operation.target // math.prod(shape[axis + 1 :]) % shape[axis]
    return np.arange(shape[axis]).reshape(1, 1, *own)


def _corners(operation: Operation) -> int:
    """Places that one outcome leads to: neighbours, where it lands between cut points."""
    if isinstance(operation, Blend):
        return operation.sides
    return operation.corners if isinstance(operation, Corners) else 1


def _sums(array: NDArray, corners: int) -> NDArray:
    """(A | 1, K, ...) sums over the places of each outcome, which stand side by side."""
    return array.reshape(len(array), -1, corners, *array.shape[2:]).sum(axis=2)


def _own(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape of what depends on one axis alone."""
    return with_length((1,) * len(shape), axis, shape[axis])
