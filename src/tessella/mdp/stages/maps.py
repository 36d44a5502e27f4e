"""Maps of coordinates: ``Decide``, along one axis, and ``Jump``, of several at once with a noise.

    Decide    E[w](x) = w(target(x))                        the post-decision state
    Jump      E[w](s) = sum_k p_k(s) w(target_k(s))         over whole states

A jump that touches few axes is kept as what it does on those: see ``scatter``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.grid import index_type
from tessella.mdp import checks
from tessella.mdp.dynamics import gather_walker_entries
from tessella.mdp.stages.interpolation import (
    EdgeOption,
    Neighbours,
    OffGridOption,
    build_interpolated_scatter,
    clip_to_axis,
    find_neighbours,
    require_known_options,
)
from tessella.mdp.stages.operation import (
    Operation,
    RandomOperation,
    compiled_action_slice,
    gather_along,
    with_length,
)
from tessella.mdp.stages.scatter import Scatter, build_joint_matrix
from tessella.mdp.stages.stage import (
    CompiledStage,
    Function,
    Noise,
    Stage,
    compute_expected_stage_reward,
    compute_stage_reward,
    require_noise,
    tabulate_noise,
)
from tessella.mdp.state_action_space import (
    NoiseTable,
    StateActionSpace,
    call_by_name,
    charge_entries,
)


@dataclass(frozen=True, eq=False)
class Decide(Stage):
    """The coordinate along ``axis`` becomes ``to(...)``, which must lie on the grid.

    With ``between="interpolate"`` it may lie between grid points, see ``interpolation``; with
    ``edge="clip"`` what lies past the ends of the axis stops there.
    """

    axis: str
    to: Function
    pays: Function | None = None
    between: OffGridOption = "error"
    edge: EdgeOption = "error"
    costs: Function | None = None

    def compile(self, space: StateActionSpace) -> CompiledStage:
        subject = f"deciding {self.axis}"
        require_known_options(subject, self.between, self.edge)
        operation = self._build_operation(space, space.axis(self.axis), subject)
        paid = compute_stage_reward(space, self.net_reward, f"the reward of {subject}")
        return CompiledStage(operation, paid, self.net_reward, None)

    def _build_operation(self, space: StateActionSpace, axis: int, subject: str) -> Operation:
        values = call_by_name(self.to, space.mesh(), subject)
        if self.between == "interpolate":
            neighbours = find_neighbours(space, axis, values, subject, self.edge)
            return build_interpolated_scatter(space, {axis: neighbours}, np.ones((1,) * space.rank))
        values = clip_to_axis(space, axis, values, subject, self.edge)
        target = checks.locate_on_axis(space, axis, values, subject)[..., 0]
        if space.time is not None:  # at other times it may depend on the axis
            lengths = with_length(target.shape, axis + 1, space.grid.shape[axis])
            target = np.broadcast_to(target, lengths)
        return AxisMap(space.grid.shape, (axis,), target.copy())


@dataclass(frozen=True, eq=False)
class AxisMap(Operation):
    """A map along one axis: ``target`` (A | 1, *broadcast) holds positions on that axis.

    Where it is the same wherever the coordinate was, that does not matter before the map.
    """

    target: NDArray[np.int32]

    mesh_fields = ("target",)
    mesh_lead_dims = 1
    accepts_broadcast_input = True

    @property
    def hashed_name(self) -> str:
        return "Gather"

    def fingerprint_key(self) -> tuple:
        lengths = with_length(self.target.shape, self.axis + 1, self.shape[self.axis])
        return self.shape, self.axis, np.broadcast_to(self.target, lengths)

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        return np.broadcast_shapes(with_length(after, self.axis, 1), self.target.shape[1:])

    def positions(self, axis: int) -> NDArray:
        return self.target[:, None] if axis == self.axis else self.current_positions(axis)

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.shape[self.axis]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        where[self.axis] = gather_walker_entries(self.target, actions, where).astype(np.int64)
        return np.ravel_multi_index(tuple(where), self.shape), None

    @staticmethod
    def apply(axes, arrays, w, action, /):
        return gather_along(w, compiled_action_slice(arrays["target"], action), axes[0])


@dataclass(frozen=True, eq=False)
class Jump(Stage):
    """One noise moves several coordinates at once: ``to(...)`` maps axis names to new values.

    With ``between="interpolate"`` they may lie between grid points, see ``interpolation``; with
    ``edge="clip"`` what lies past the ends of an axis stops there.
    """

    noise: Noise
    to: Callable[..., Mapping[str, ArrayLike]]
    pays: Function | None = None
    between: OffGridOption = "error"
    edge: EdgeOption = "error"
    costs: Function | None = None

    def __post_init__(self) -> None:
        require_noise(self.noise, "a jump")

    def compile(self, space: StateActionSpace) -> CompiledStage:
        subject = f"the jump on {self.noise.name}"
        require_known_options(subject, self.between, self.edge)
        noise_table = tabulate_noise(space, self.noise, subject)
        new_values = read_axis_updates(
            space, call_by_name(self.to, space.mesh(noise_table.variable), subject), subject
        )
        operation = self._build_operation(space, new_values, noise_table, subject)
        paid, error = compute_expected_stage_reward(
            space, self.net_reward, f"the reward of {subject}", noise_table
        )
        return CompiledStage(operation, paid, self.net_reward, noise_table.variable, error)

    def _build_operation(
        self,
        space: StateActionSpace,
        new_values: dict[int, ArrayLike],
        noise_table: NoiseTable,
        subject: str,
    ) -> RandomOperation:
        if self.between == "interpolate":
            return _build_interpolation(space, new_values, noise_table, subject, self.edge)
        new_values = {
            a: clip_to_axis(space, a, v, subject, self.edge) for a, v in new_values.items()
        }
        joint_matrix = build_joint_matrix(space, new_values, noise_table, subject)
        if joint_matrix is not None:
            return joint_matrix
        target = flatten_targets(space, new_values, subject, noise_table)
        target = np.broadcast_to(target, (*target.shape[:-1], len(noise_table)))
        return Scatter(
            space.grid.shape,
            tuple(range(space.grid.ndim)),
            np.ascontiguousarray(np.moveaxis(target, -1, 1)),
            np.ascontiguousarray(np.moveaxis(noise_table.probs, -1, 1)),
        )


def _build_interpolation(
    space: StateActionSpace,
    new_values: dict[int, ArrayLike],
    noise_table: NoiseTable,
    subject: str,
    edge: str,
) -> RandomOperation:
    """Landings between grid points, along one axis or on the corners of a cell."""

    def find_cut_points(axis: int) -> Neighbours:
        text = space.grid.values[axis].dtype.kind == "U"
        if axis in new_values and not text:
            return find_neighbours(space, axis, new_values[axis], subject, edge, noise_table)
        value = new_values.get(axis, space.mesh()[space.grid.axes[axis]])
        at_point = checks.locate_on_axis(space, axis, value, subject, noise_table)
        return [(at_point, np.ones((1,) * space.rank))]

    axes = new_values if len(new_values) == 1 else range(space.grid.ndim)
    return build_interpolated_scatter(
        space, {axis: find_cut_points(axis) for axis in axes}, noise_table.probs
    )


def read_axis_updates(
    space: StateActionSpace, result: object, subject: str
) -> dict[int, ArrayLike]:
    """Position of an axis to its new values, from a mapping of names."""
    if not isinstance(result, Mapping):
        raise ModelError(
            f"{subject} must return a mapping of axis names to values", value=f"got {result!r}"
        )
    return {space.axis(name): value for name, value in result.items()}


def find_target_states(
    space: StateActionSpace, result: object, subject: str, noise_table: NoiseTable
) -> NDArray[np.integer]:
    """Flat next states, (A | 1, *grid, K | 1), from a mapping of axis names to new values."""
    return flatten_targets(space, read_axis_updates(space, result, subject), subject, noise_table)


def flatten_targets(
    space: StateActionSpace, new_values: dict[int, ArrayLike], subject: str, noise_table: NoiseTable
) -> NDArray[np.integer]:
    """The same from new values by position of the axis."""
    where = []
    for axis, name in enumerate(space.grid.axes):
        value = new_values.get(axis, space.mesh()[name])
        where.append(checks.locate_on_axis(space, axis, value, subject, noise_table))
    full = np.broadcast_shapes(*(w.shape for w in where), (1, *space.grid.shape, 1))
    charge_entries(math.prod(full[:-1]) * len(noise_table), subject)
    where = tuple(np.broadcast_to(w, full) for w in where)
    return np.ravel_multi_index(where, space.grid.shape).astype(index_type(space.grid.size))
