"""Jump: one noise moves several coordinates at once.

    E[w](s) = sum_k p_k(s) w(target_k(s))        over whole states

One that touches few axes is kept as what it does on those: see ``joint``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.grid import index_type
from tessella.mdp import checks
from tessella.mdp.scope import Scope, call
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
from tessella.mdp.stages.operation import (
    RandomOperation,
    Reach,
    at,
    of_action,
    own,
    places,
    trimmed,
    with_length,
    within,
)
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
    where = tuple(np.broadcast_to(w, full) for w in where)
    return np.ravel_multi_index(where, scope.grid.shape).astype(index_type(scope.grid.size))


@dataclass(frozen=True, eq=False)
class Scatter(RandomOperation):
    """Any map: ``target`` (A | 1, K, *grid) flat states, ``probs`` (A | 1, K, *broadcast)."""

    target: NDArray[np.integer]
    probs: NDArray[np.float64]

    def without(self, axes: int) -> Scatter | None:
        probs, short = trimmed(self.probs, axes + 2), self.shape[:axes]
        to = self.target.reshape(*self.target.shape[: axes + 2], -1)
        others = to.shape[-1]
        stays = probs is not None and (to % others == np.arange(others)).all()
        if probs is None or not stays or (to // others != to[..., :1] // others).any():
            return None
        target = (to[..., 0] // others).astype(index_type(math.prod(short)))
        return Scatter(short, target, probs)

    def reach(self, axis: int) -> Reach:
        along = self.target // math.prod(self.shape[axis + 1 :]) % self.shape[axis]
        own = with_length((1,) * self.target.ndim, axis + 2, -1)
        return Reach.of(along.astype(np.int64) - np.arange(self.shape[axis]).reshape(own))

    def window(self, axis: int, first: int, count: int) -> Scatter:
        shape = with_length(self.shape, axis, count)
        where = list(np.unravel_index(places(self.target, axis + 2, first, count), self.shape))
        where[axis] = within(where[axis], first, count)
        target = np.ravel_multi_index(tuple(where), shape).astype(self.target.dtype)
        probs = places(self.probs, axis + 2, first, count)
        return replace(self, shape=shape, target=target, probs=probs)

    @property
    def acts(self) -> bool:
        return len(self.target) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target, "probs": self.probs}

    def compiled(self, acts: bool) -> CompiledScatter:
        return CompiledScatter(acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        for to, p in zip(at(self.target, action), at(self.probs, action), strict=True):
            yield to, np.broadcast_to(p, self.shape)

    @property
    def terms(self) -> int:
        return self.target.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        a = actions if len(self.target) > 1 else 0
        return self.target[(a, k, *where)].astype(np.int64), k


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


@dataclass(frozen=True)
class CompiledScatter:
    """The compiled side of ``Scatter``."""

    acts: bool

    stays = False
    takes_open = False

    def follows(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        import jax.numpy as jnp
        from jax import lax

        flat, target, probs = w.ravel(), arrays["target"], arrays["probs"]

        def add(total, term):
            to, p = term
            return total + p * jnp.take(flat, to, mode="clip"), None

        def add_own(total, k):
            return add(total, (own(target, action, k), own(probs, action, k)))

        if jnp.ndim(action):
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(target.shape[1]))[0]
        terms = of_action(target, action), of_action(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
