"""Jump: one noise moves several coordinates at once.

    E[w](s) = sum_k p_k(s) w(target_k(s))        over whole states

One that touches few axes is kept as what it does on those: see ``joint``.
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
from tessella.mdp.scope import Scope, call, count_entries
from tessella.mdp.stages.between import (
    ROUNDED,
    Between,
    End,
    Landing,
    along,
    clipped,
    land,
    refuse_unknown,
    scattered,
)
from tessella.mdp.stages.joint import joint
from tessella.mdp.stages.noise import Law, Noise, make_law, refuse_other, reward_on
from tessella.mdp.stages.operation import RandomOperation
from tessella.mdp.stages.scatter import Scatter
from tessella.mdp.stages.stage import Function, Stage, StageNumbers


@dataclass(frozen=True, eq=False)
class Jump(Stage):
    """One noise moves several coordinates at once: ``to(...)`` maps axis names to new values.

    With ``between="interpolate"`` they may lie between cut points, see ``between``; with
    ``edge="clip"`` what lies past the ends of an axis stops there.
    """

    noise: Noise
    to: Callable[..., Mapping[str, ArrayLike]]
    pays: Function | None = None
    between: Between = "error"
    edge: End = "error"
    costs: Function | None = None

    def __post_init__(self) -> None:
        refuse_other(self.noise, "a jump")

    def numbers(self, scope: Scope) -> StageNumbers:
        what = f"the jump on {self.noise.name}"
        refuse_unknown(what, self.between, self.edge)
        law = make_law(scope, self.noise, what)
        moved = moves(scope, call(self.to, scope.mesh(law.named), what), what)
        operation = self._operation(scope, moved, law, what)
        paid, error = reward_on(scope, self.paid, f"the reward of {what}", law)
        return StageNumbers(operation, paid, self.paid, law.named, error)

    def _operation(
        self, scope: Scope, moved: dict[int, ArrayLike], law: Law, what: str
    ) -> RandomOperation:
        if self.between == "interpolate":
            return _interpolated(scope, moved, law, what, self.edge)
        moved = {a: clipped(scope, a, v, what, self.edge) for a, v in moved.items()}
        few = joint(scope, moved, law, what)
        if few is not None:
            return few
        target = flat_targets(scope, moved, what, law)
        target = np.broadcast_to(target, (*target.shape[:-1], len(law.named[1])))
        return Scatter(
            scope.grid.shape,
            np.ascontiguousarray(np.moveaxis(target, -1, 1)),
            np.ascontiguousarray(np.moveaxis(law.probs, -1, 1)),
        )


def _interpolated(
    scope: Scope, moved: dict[int, ArrayLike], law: Law, what: str, edge: str
) -> RandomOperation:
    """Landings between cut points, along one axis or on the corners of a cell."""

    def landing(axis: int) -> Landing:
        text = scope.grid.values[axis].dtype.kind == "U"
        if axis in moved and not text:
            return land(scope, axis, moved[axis], what, edge, law.named, law.probs)
        value = moved.get(axis, scope.mesh()[scope.grid.axes[axis]])
        at_point = checks.positions(scope, axis, value, what, law.named, law.probs)
        return Landing([(at_point, np.ones((1,) * scope.rank))])

    if len(moved) == 1:
        (axis,) = moved
        return along(scope, axis, landing(axis), law.probs)
    landings = [landing(axis) for axis in range(scope.grid.ndim)]
    between = sum(len(landing.sides) > 1 for landing in landings)
    return Corners(scope.grid.shape, *scattered(scope, landings, law.probs), between)


def moves(scope: Scope, result: object, what: str) -> dict[int, ArrayLike]:
    """Position of an axis to its new values, from a mapping of names."""
    if not isinstance(result, Mapping):
        raise ModelError(
            f"{what} must return a mapping of axis names to values", value=f"got {result!r}"
        )
    return {scope.axis(name): value for name, value in result.items()}


def targets(scope: Scope, result: object, what: str, law: Law) -> NDArray[np.integer]:
    """Flat next states, (A | 1, *grid, K | 1), from a mapping of axis names to new values."""
    return flat_targets(scope, moves(scope, result, what), what, law)


def flat_targets(
    scope: Scope, moved: dict[int, ArrayLike], what: str, law: Law
) -> NDArray[np.integer]:
    """The same from new values by position of the axis."""
    where = []
    for axis, name in enumerate(scope.grid.axes):
        value = moved.get(axis, scope.mesh()[name])
        where.append(checks.positions(scope, axis, value, what, law.named, law.probs))
    full = np.broadcast_shapes(*(w.shape for w in where), (1, *scope.grid.shape, 1))
    count_entries(math.prod(full[:-1]) * len(law.named[1]), what)
    where = tuple(np.broadcast_to(w, full) for w in where)
    return np.ravel_multi_index(where, scope.grid.shape).astype(index_type(scope.grid.size))


@dataclass(frozen=True, eq=False)
class Corners(Scatter):
    """Landings between cut points: each value of the noise leads to the corners of a cell."""

    corners: int
    between: int  # axes that are interpolated along

    @property
    def rounded(self) -> float:
        return ROUNDED * self.between

    @property
    def interpolates(self) -> bool:
        return self.between > 0

    def sample(self, states, actions, rng):
        states, j = super().sample(states, actions, rng)
        return states, j // self.corners
