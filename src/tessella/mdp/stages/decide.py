"""Decide: a map to the post-decision state, ``w[target(x)]`` along one axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.mdp import checks
from tessella.mdp.context import EvaluationContext, call_by_name
from tessella.mdp.dynamics import entries_for_walkers
from tessella.mdp.stages.interpolation import (
    EdgeOption,
    OffGridOption,
    clip_to_axis,
    interpolation_along,
    interpolation_weights,
    require_known_options,
)
from tessella.mdp.stages.operation import (
    AxisOperation,
    Operation,
    compiled_action_slice,
    gather_along,
    take_range,
    with_length,
)
from tessella.mdp.stages.stage import CompiledStage, Function, Stage, stage_reward


@dataclass(frozen=True, eq=False)
class Decide(Stage):
    """The coordinate along ``axis`` becomes ``to(...)``, which must lie on the grid.

    With ``between="interpolate"`` it may lie between cut points, see ``interpolation``; with
    ``edge="clip"`` what lies past the ends of the axis stops there.
    """

    axis: str
    to: Function
    pays: Function | None = None
    between: OffGridOption = "error"
    edge: EdgeOption = "error"
    costs: Function | None = None

    def compile(self, context: EvaluationContext) -> CompiledStage:
        subject = f"deciding {self.axis}"
        require_known_options(subject, self.between, self.edge)
        operation = self._operation(context, context.axis(self.axis), subject)
        paid = stage_reward(context, self.net_reward, f"the reward of {subject}")
        return CompiledStage(operation, paid, self.net_reward, None)

    def _operation(self, context: EvaluationContext, axis: int, subject: str) -> Operation:
        values = call_by_name(self.to, context.mesh(), subject)
        if self.between == "interpolate":
            landing = interpolation_weights(context, axis, values, subject, self.edge)
            return interpolation_along(context, axis, landing, np.ones((1,) * context.rank))
        values = clip_to_axis(context, axis, values, subject, self.edge)
        target = checks.axis_positions(context, axis, values, subject)[..., 0]
        own = target.shape[axis + 1] > 1 or context.period is not None  # it may be at other times
        kind = AxisMap if own else AxisAssignment
        lengths = with_length(target.shape, axis + 1, context.grid.shape[axis])
        return kind(context.grid.shape, axis, np.broadcast_to(target, lengths).copy())


@dataclass(frozen=True, eq=False)
class AxisMap(AxisOperation):
    """A map along one axis: ``target`` (A | 1, *broadcast) holds positions on that axis."""

    target: NDArray[np.int32]

    meshes = ("target",)
    mesh_lead = 1
    accepts_broadcast_input = True

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        target = self.arrays()["target"].shape[1:]
        return np.broadcast_shapes(with_length(after, self.axis, 1), target)

    def positions(self, axis: int) -> NDArray:
        return self.target[:, None] if axis == self.axis else self.own_positions(axis)

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.shape[self.axis]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        where[self.axis] = entries_for_walkers(self.target, actions, where).astype(np.int64)
        return np.ravel_multi_index(tuple(where), self.shape), None

    @staticmethod
    def apply(axis, arrays, w, action, /):
        return gather_along(w, compiled_action_slice(arrays["target"], action), axis)


@dataclass(frozen=True, eq=False)
class AxisAssignment(AxisMap):
    """A map that is the same wherever the coordinate was: before it, that does not matter."""

    def arrays(self) -> dict[str, NDArray]:
        return {"target": take_range(self.target, self.axis + 1, 0, 1)}

    def block(self, axis: int, first: int, count: int) -> Operation:
        return AxisMap(self.shape, self.axis, self.target).block(axis, first, count)
