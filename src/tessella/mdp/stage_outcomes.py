"""The outcomes of a stage as open meshes: how likely they are, and where they lead along an axis.

Both are (A | 1, K, *broadcast), whichever operation keeps the numbers, with K the values of the
noise, or the places of a chain. An outcome that lands between cut points leads to neighbours there:
its chance is their sum, and its place their mean.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.stages.axis_shift import AxisShift
from tessella.mdp.stages.decide import AxisMap
from tessella.mdp.stages.interpolation import Interpolation
from tessella.mdp.stages.joint_matrix import JointMatrix
from tessella.mdp.stages.jump import InterpolatedScatter
from tessella.mdp.stages.move import AxisMatrix
from tessella.mdp.stages.operation import Operation, RandomOperation, with_length
from tessella.mdp.stages.scatter import Scatter

OUTCOME_DIGITS = 9  # of chances and places that are sums over neighbours


def outcome_probabilities(operation: Operation) -> NDArray:
    """(A | 1, K, *broadcast) chances of the outcomes."""
    if isinstance(operation, AxisMatrix):
        matrix = operation.matrix
        axis = operation.axis
        if matrix.ndim == 3:  # its rows depend on no other axis
            own = _axis_shape(operation.shape, axis)
            return np.moveaxis(matrix, -1, 1).reshape(len(matrix), -1, *own)
        return np.moveaxis(np.moveaxis(matrix, -2, axis + 1), -1, 1)
    if not isinstance(operation, RandomOperation):
        return np.ones((1,) * (len(operation.shape) + 2))
    corners = _targets_per_outcome(operation)
    return (
        operation.probs
        if corners == 1
        else _sum_targets(operation.probs, corners).round(OUTCOME_DIGITS)
    )


def outcome_positions(operation: Operation, axis: int) -> NDArray:
    """(A | 1, K, *broadcast) where outcomes lead along an axis; between cut points, on average."""
    places = _target_positions(operation, axis)
    corners = _targets_per_outcome(operation)
    if corners == 1 or not isinstance(operation, RandomOperation):
        return places
    mass = _sum_targets(operation.probs, corners)
    mean = _sum_targets(operation.probs * places, corners) / np.where(mass > 0, mass, 1.0)
    return mean.round(OUTCOME_DIGITS)


def is_random_along(operation: Operation, axis: int) -> bool:
    """Whether outcomes that can happen lead from one state to different places along an axis."""
    places, possible = np.broadcast_arrays(
        outcome_positions(operation, axis), outcome_probabilities(operation) > 0
    )
    low = places.min(axis=1, initial=places.max(), where=possible)
    high = places.max(axis=1, initial=places.min(), where=possible)
    return bool((low < high).any())


def can_move_along(operation: Operation, axis: int) -> bool:
    """Whether an outcome that can happen leads away from a place of an axis."""
    own = np.arange(operation.shape[axis]).reshape(_axis_shape(operation.shape, axis))
    return bool(
        ((outcome_positions(operation, axis) != own) & (outcome_probabilities(operation) > 0)).any()
    )


def _target_positions(operation: Operation, axis: int) -> NDArray:
    """(A | 1, J, *broadcast) places along an axis that an operation may lead to."""
    shape = operation.shape
    own = _axis_shape(operation.shape, axis)
    if isinstance(operation, AxisMap) and axis == operation.axis:
        return operation.target[:, None]
    if isinstance(operation, Interpolation) and axis == operation.axis:
        return operation.target
    if isinstance(operation, JointMatrix) and axis in operation.moved:
        return np.unravel_index(operation.target, operation.moved_lengths)[
            operation.moved.index(axis)
        ]
    if isinstance(operation, AxisShift) and axis == operation.axis:
        to = operation.pad[operation.offsets[..., None] + np.arange(shape[axis])]
        return to.reshape(*operation.offsets.shape, *own)
    if isinstance(operation, Scatter):
        return operation.target // math.prod(shape[axis + 1 :]) % shape[axis]
    return np.arange(shape[axis]).reshape(1, 1, *own)


def _targets_per_outcome(operation: Operation) -> int:
    """Places that one outcome leads to: neighbours, where it lands between cut points."""
    if isinstance(operation, Interpolation):
        return operation.neighbours
    return operation.corners if isinstance(operation, InterpolatedScatter) else 1


def _sum_targets(array: NDArray, corners: int) -> NDArray:
    """(A | 1, K, ...) sums over the places of each outcome, which stand side by side."""
    return array.reshape(len(array), -1, corners, *array.shape[2:]).sum(axis=2)


def _axis_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape of what depends on one axis alone."""
    return with_length((1,) * len(shape), axis, shape[axis])
