"""Decide: a map to the post-decision state, ``w[target(x)]`` along one axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tessella.mdp import checks
from tessella.mdp.context import EvaluationContext, call_by_name
from tessella.mdp.sampling import entries_for_walkers
from tessella.mdp.stages.interpolation import (
    EdgeOption,
    OffGridOption,
    clip_to_axis,
    interpolation_along,
    interpolation_weights,
    require_known_options,
)
from tessella.mdp.stages.operation import (
    Displacement,
    Operation,
    action_slice,
    compiled_action_slice,
    drop_trailing_axes,
    gather_along,
    relative_to_block,
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
class AxisMap(Operation):
    """A map along one axis: ``target`` (A | 1, *broadcast) holds positions on that axis."""

    axis: int
    target: NDArray[np.int32]

    def restrict_to_leading_axes(self, axes: int) -> AxisMap | None:
        target = drop_trailing_axes(self.target, axes + 1)
        if target is None or self.axis >= axes:
            return None
        return replace(self, shape=self.shape[:axes], target=target)

    def input_shape(self, after: tuple[int, ...]) -> tuple[int, ...]:
        target = self.arrays()["target"].shape[1:]
        return np.broadcast_shapes(with_length(after, self.axis, 1), target)

    def max_displacement(self, axis: int) -> Displacement:
        if axis != self.axis:
            return Displacement()
        return Displacement.covering(
            self.target - np.arange(self.shape[axis]).reshape(self._own_axis_shape)
        )

    @property
    def _own_axis_shape(self) -> tuple[int, ...]:
        """The shape of what depends on its own axis alone."""
        return with_length((1,) * self.target.ndim, self.axis + 1, -1)

    def block(self, axis: int, first: int, count: int) -> AxisMap:
        target = take_range(self.target, axis + 1, first, count)
        if axis == self.axis:
            target = relative_to_block(target, first, count)
        return AxisMap(with_length(self.shape, axis, count), self.axis, target)

    @property
    def depends_on_action(self) -> bool:
        return len(self.target) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target}

    def compile(self, depends_on_action: bool) -> CompiledAxisMap:
        return CompiledAxisMap(self.axis, depends_on_action)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        where = list(np.indices(self.shape, sparse=True))
        where[self.axis] = action_slice(self.target, action)
        to = np.ravel_multi_index(np.broadcast_arrays(*where), self.shape)
        yield np.broadcast_to(to, self.shape), np.ones(self.shape)

    @property
    def rounding_terms(self) -> int:
        return 0

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.shape[self.axis]

    def sample(self, states, actions, rng):
        where = list(np.unravel_index(states, self.shape))
        where[self.axis] = entries_for_walkers(self.target, actions, where).astype(np.int64)
        return np.ravel_multi_index(tuple(where), self.shape), None


@dataclass(frozen=True, eq=False)
class AxisAssignment(AxisMap):
    """A map that says the same wherever the coordinate was: from here back it does not matter."""

    def arrays(self) -> dict[str, NDArray]:
        return {"target": take_range(self.target, self.axis + 1, 0, 1)}


@dataclass(frozen=True)
class CompiledAxisMap:
    """The compiled side of ``AxisMap``: ``w[target(x)]`` along one axis."""

    axis: int
    depends_on_action: bool

    is_identity = False
    accepts_broadcast_input = True

    def supports_policy_arrays(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        return gather_along(w, compiled_action_slice(arrays["target"], action), self.axis)
