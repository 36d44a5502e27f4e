"""Maps of coordinates: ``Decide``, along one axis, and ``Jump``, of several at once with a noise.

    Decide    E[w](x) = w(target(x))                        the post-decision state
    Jump      E[w](s) = sum_k p_k(s) w(target_k(s))         over whole states

A jump that depends on and moves few axes is stored on those alone: see ``scatter``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.grid import describe_coordinates, index_type
from tessella.mdp.checks import FunctionChecks
from tessella.mdp.dynamics import take_walker_entries
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
from tessella.mdp.stages.stage import Function, Noise, Stage, require_noise
from tessella.mdp.state_action_space import charge_entries


@dataclass(frozen=True, eq=False)
class Decide(Stage):
    """The coordinate along ``axis`` becomes ``to(...)``, which must lie on the grid.

    With ``between="interpolate"`` it may lie between grid points, see ``interpolation``; with
    ``edge="clip"`` what lies past the ends of the axis stops there.

    Args:
        axis: the axis that changes.
        to: a function of axes and action that returns the new coordinate.
        between, edge: see above.
        pays, costs, counts: as in ``Pay``.

    Example:
        >>> receive = ts.Decide("stock", to=lambda stock, order: np.minimum(stock + order, 10),
        ...                     costs=lambda order: 2.0 * order)
        >>> mdp = ts.MDP.staged({"stock": range(11)}, (0, 5), 0.9, [receive], action_name="order")
        >>> int(mdp.to_arrays().transition[1, 3].argmax())   # order 5 with a stock of 3
        8
    """

    axis: str
    to: Function
    pays: Function | None = None
    between: OffGridOption = "error"
    edge: EdgeOption = "error"
    costs: Function | None = None
    counts: Mapping[str, float | Function] | None = None

    subject_template = "deciding {axis}"

    def build_operation(self, checks: FunctionChecks) -> Operation:
        require_known_options(self.subject, self.between, self.edge)
        space = checks.space
        axis = space.axis(self.axis)
        values = checks.call(self.to)
        if self.between == "interpolate":
            neighbours = find_neighbours(checks, axis, values, self.edge)
            return build_interpolated_scatter(checks, {axis: neighbours})
        target = checks.locate(axis, clip_to_axis(checks, axis, values, self.edge))[..., 0]
        if space.time is not None:  # the target may depend on the axis at other times
            lengths = with_length(target.shape, axis + 1, space.grid.shape[axis])
            target = np.broadcast_to(target, lengths)
        return AxisMap(space.grid.shape, (axis,), target.copy())


@dataclass(frozen=True, eq=False)
class AxisMap(Operation):
    """A map along one axis: ``target`` (A | 1, *broadcast) holds positions on that axis.

    If ``target`` does not depend on the axis, neither do the values before the map.
    """

    target: NDArray[np.int32]

    hashed_name = "Gather"
    mesh_fields = ("target",)
    mesh_lead_dims = 1
    accepts_broadcast_input = True

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
        positions = list(np.unravel_index(states, self.shape))
        positions[self.axis] = take_walker_entries(self.target, actions, positions).astype(np.int64)
        return np.ravel_multi_index(tuple(positions), self.shape), None

    @staticmethod
    def apply(axes, arrays, w, action, /):
        return gather_along(w, compiled_action_slice(arrays["target"], action), axes[0])


@dataclass(frozen=True, eq=False)
class Jump(Stage):
    """One noise moves several coordinates at once: ``to(...)`` maps axis names to new values.

    With ``between="interpolate"`` they may lie between grid points, see ``interpolation``; with
    ``edge="clip"`` what lies past the ends of an axis stops there.

    Args:
        noise: what is random; one with a single value makes a jump without chance.
        to: a function of axes, action and noise that returns new coordinates by axis.
        between, edge: see above.
        pays, costs, counts: as in ``Pay``; functions may name the noise too.

    Example:
        >>> demand = ts.Noise("demand", range(2), [0.5, 0.5])
        >>> def next_day(new, demand):
        ...     return {"old": np.maximum(new - demand, 0), "new": 1}
        ...
        >>> age = ts.Jump(demand, to=next_day)
        >>> ts.MDP.staged({"old": range(2), "new": range(2)}, ("wait",), 0.9, [age])
        MDP(old 2 x new 2; 1 actions, discount 0.9, staged)
    """

    noise: Noise
    to: Callable[..., Mapping[str, ArrayLike]]
    pays: Function | None = None
    between: OffGridOption = "error"
    edge: EdgeOption = "error"
    costs: Function | None = None
    counts: Mapping[str, float | Function] | None = None

    subject_template = "the jump on {noise.name}"

    def __post_init__(self) -> None:
        require_noise(self.noise, "a jump")

    def build_operation(self, checks: FunctionChecks) -> RandomOperation:
        require_known_options(self.subject, self.between, self.edge)
        new_values = read_axis_updates(checks, checks.call(self.to))
        if self.between == "interpolate":
            return _build_interpolation(checks, new_values, self.edge)
        new_values = {a: clip_to_axis(checks, a, v, self.edge) for a, v in new_values.items()}
        joint_matrix = build_joint_matrix(checks, new_values)
        if joint_matrix is not None:
            return joint_matrix
        target = find_target_states(checks, new_values)
        target = np.broadcast_to(target, (*target.shape[:-1], checks.n_outcomes))
        shape = checks.space.grid.shape
        return Scatter(
            shape,
            tuple(range(len(shape))),
            np.ascontiguousarray(np.moveaxis(target, -1, 1)),
            np.ascontiguousarray(np.moveaxis(checks.probs, -1, 1)),
        )


def _build_interpolation(
    checks: FunctionChecks, new_values: dict[int, ArrayLike], edge: str
) -> RandomOperation:
    """Landings between grid points, along one axis or on the corners of a cell."""
    grid = checks.space.grid

    def find_landings(axis: int) -> Neighbours:
        if axis in new_values and grid.values[axis].dtype.kind != "U":
            return find_neighbours(checks, axis, new_values[axis], edge)
        at_point = _locate_targets(checks, new_values, axis)
        return [(at_point, np.ones((1,) * checks.space.rank))]

    axes = new_values if len(new_values) == 1 else range(grid.ndim)
    return build_interpolated_scatter(checks, {axis: find_landings(axis) for axis in axes})


def read_axis_updates(checks: FunctionChecks, result: object) -> dict[int, ArrayLike]:
    """Position of an axis to its new values, from a mapping of names."""
    if not isinstance(result, Mapping):
        requirement = f"{checks.subject} must return a mapping of axis names to values"
        raise ModelError(requirement, value=f"got {result!r}")
    return {checks.space.axis(name): value for name, value in result.items()}


def _locate_targets(
    checks: FunctionChecks, new_values: dict[int, ArrayLike], axis: int
) -> NDArray[np.int32]:
    """Positions along an axis after the new values are set."""
    unchanged = checks.space.along(axis, checks.space.grid.values[axis])
    return checks.locate(axis, new_values.get(axis, unchanged))


def find_target_states(
    checks: FunctionChecks, new_values: dict[int, ArrayLike]
) -> NDArray[np.integer]:
    """Flat next states, (A | 1, *grid, K | 1), from new values by position of the axis."""
    grid = checks.space.grid
    positions_by_axis = [_locate_targets(checks, new_values, axis) for axis in range(grid.ndim)]
    full = np.broadcast_shapes(*(w.shape for w in positions_by_axis), (1, *grid.shape, 1))
    charge_entries(math.prod(full[:-1]) * checks.n_outcomes, checks.subject)
    positions_by_axis = tuple(np.broadcast_to(w, full) for w in positions_by_axis)
    states = grid.find_states(positions_by_axis)

    def describe_target(place: tuple) -> str:
        target = zip(grid.axes, grid.values, positions_by_axis, strict=True)
        coordinates = {name: values[positions[place]] for name, values, positions in target}
        return f"goes to {describe_coordinates(coordinates)}"

    requirement = f"{checks.subject} must lead to states that exist"
    checks.raise_for_first(requirement, states < 0, describe_target)
    return np.maximum(states, 0).astype(index_type(grid.size))
