"""Landing between cut points: a coordinate that falls between two values of its axis.

Between neighbours u <= x <= v the walker goes to u with weight (v - x) / (v - u) and to v with
weight (x - u) / (v - u), axis by axis (multilinear), so that

    E[w](s) = sum_k p_k (w interpolated at target_k(s)).

Rows stay stochastic: interpolation is a lottery over neighbours that keeps the mean coordinate, and
a w that is linear along each axis is met exactly. What is solved, bounded and certified is this
interpolated model. Differences and quotient are rounded once each and the product with p once more,
so a stored probability is off by at most four roundings of its own size for each axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, shown
from tessella.grid import index_type, unmasked
from tessella.mdp import checks
from tessella.mdp.chance import entries_at
from tessella.mdp.scope import NamedValues, Scope
from tessella.mdp.stages.operation import (
    RandomOperation,
    Reach,
    at,
    gathered,
    of_action,
    places,
    shared,
    with_length,
    within,
)
from tessella.rounding import EPS

Between = Literal["error", "interpolate"]
End = Literal["error", "clip"]
ROUNDED = 2 * EPS  # of a probability, for each axis that is interpolated


@dataclass(frozen=True, eq=False)
class Landing:
    """Where values of an axis fall: the sides, each an open mesh of positions and of weights."""

    sides: list[tuple[NDArray[np.int32], NDArray[np.float64]]]


def refuse_unknown(what: str, between: str, edge: str) -> None:
    """Refuse settings that no stage has."""
    if between not in ("error", "interpolate"):
        rule = f"{what}: between must be 'error' or 'interpolate'"
        raise ModelError(rule, value=f"got {between!r}")
    if edge not in ("error", "clip"):
        rule = f"{what}: edge must be 'error' or 'clip'"
        raise ModelError(rule, value=f"got {edge!r}")


def clipped(scope: Scope, axis: int, values: Any, what: str, edge: str) -> Any:
    """``values`` with those past the ends of an axis of numbers put there, if ``edge`` says so."""
    if edge != "clip" or scope.grid.values[axis].dtype.kind == "U":
        return values
    cuts, said = scope.grid.values[axis], f"{what}: {scope.grid.axes[axis]}"
    numbers = np.asarray(unmasked(values, said, scope.describe))
    return np.clip(numbers, cuts.min(), cuts.max()) if numbers.dtype.kind in "biuf" else values


def land(
    scope: Scope,
    axis: int,
    values: Any,
    what: str,
    edge: str,
    noise: NamedValues | None = None,
    probs: NDArray | None = None,
) -> Landing:
    """The cut points on both sides of each value of an open mesh."""
    cuts, name = _ordered(scope, axis, what), scope.grid.axes[axis]

    def place(p: tuple, shape: tuple) -> str:
        return scope.describe(p, shape, noise)

    said = f"{what}: {name}"
    last = 1 if noise is None else len(noise[1])
    x = scope.ranked(checks.as_numbers(values, said, place), said, last)
    near = scope.grid.locate(axis, x)  # within rounding of a cut point is on it
    low, high = cuts.min(), cuts.max()
    outside = ~((x >= low) & (x <= high)) & (near < 0)
    outside &= np.isnan(x) if edge == "clip" else True
    checks.refuse(
        f"{what} leaves the axis: {name} must stay within {shown(low)}..{shown(high)}",
        checks.read_at(scope, outside, probs),
        lambda p: place(p, x.shape),
        lambda p: f"goes to {name}={shown(float(x[p]))}",
        "cases",
    )
    x = np.clip(np.where(np.isnan(x), low, x), low, high)
    return _sides(cuts, x, near)


def _ordered(scope: Scope, axis: int, what: str) -> NDArray[np.float64]:
    """The cut points of an axis, which must rise or fall."""
    name, values = scope.grid.axes[axis], scope.grid.values[axis]
    if values.dtype.kind == "U":
        rule = f"{what} cannot interpolate along an axis of text"
        raise ModelError(rule, place=name, value=f"holds {values[0]}")
    cuts = scope.grid.numbers[axis]
    steps = np.diff(cuts)
    turns = np.flatnonzero(np.sign(steps) != np.sign(steps[0])) if len(steps) else steps
    if len(turns):
        first = int(turns[0])
        raise ModelError(
            f"{what}: cut points must stand in order",
            place=f"{name}={shown(cuts[first + 1])}",
            value=f"stands after {shown(cuts[first])}",
            count=len(turns),
            total=len(steps),
            noun="steps",
        )
    return cuts


def _sides(cuts: NDArray[np.float64], x: NDArray, near: NDArray[np.int64]) -> Landing:
    """Positions and weights below and above; one side where every x is on a cut point."""
    on = near >= 0
    if on.all() or len(cuts) == 1:
        return Landing([(np.maximum(near, 0).astype(np.int32), np.ones(x.shape))])
    falls = cuts[0] > cuts[-1]
    rising = cuts[::-1] if falls else cuts
    above = np.clip(np.searchsorted(rising, x), 1, len(cuts) - 1)
    u, v = rising[above - 1], rising[above]
    weights = np.where(on, 1.0, (v - x) / (v - u)), np.where(on, 0.0, (x - u) / (v - u))
    index = (len(cuts) - above, len(cuts) - 1 - above) if falls else (above - 1, above)
    sides = [np.where(on, near, i).astype(np.int32) for i in index]
    return Landing(list(zip(sides, weights, strict=True)))


def along(scope: Scope, axis: int, landing: Landing, probs: NDArray[np.float64]) -> Blend:
    """Landings along one axis, with ``probs`` (A | 1, *broadcast, K) of the noise."""
    count = probs.shape[-1]
    own = [1] * scope.rank
    own[axis + 1], own[-1] = scope.grid.shape[axis], count
    targets = [np.broadcast_to(t, np.broadcast_shapes(t.shape, own)) for t, _ in landing.sides]
    chances = [_spread(probs * w, count) for _, w in landing.sides]
    return Blend(
        scope.grid.shape,
        axis,
        _outcomes(targets).astype(np.int32),
        _outcomes(chances),
        len(landing.sides),
    )


def scattered(
    scope: Scope, landings: list[Landing], probs: NDArray[np.float64]
) -> tuple[NDArray[np.integer], NDArray[np.float64], int]:
    """Flat targets and their probabilities (A | 1, K * corners, ...), and the number of corners."""
    count, grid = probs.shape[-1], scope.grid
    targets, chances = [], []
    for corner in itertools.product(*(landing.sides for landing in landings)):
        where, p = [t for t, _ in corner], probs
        for _, weight in corner:
            p = p * weight
        full = np.broadcast_shapes(*(t.shape for t in where), (1, *grid.shape, count))
        flat = np.ravel_multi_index(tuple(np.broadcast_to(t, full) for t in where), grid.shape)
        targets.append(flat.astype(index_type(grid.size)))
        chances.append(_spread(p, count))
    return _outcomes(targets), _outcomes(chances), len(targets)


def _spread(array: NDArray, count: int) -> NDArray:
    return np.broadcast_to(array, (*array.shape[:-1], count))


def _outcomes(sides: list[NDArray]) -> NDArray:
    """(A | 1, K * sides, ...) from one open mesh with K at the end for each side."""
    stacked = np.stack(np.broadcast_arrays(*sides), axis=-1)
    return np.ascontiguousarray(np.moveaxis(stacked.reshape(*stacked.shape[:-2], -1), -1, 1))


@dataclass(frozen=True, eq=False)
class Blend(RandomOperation):
    """Outcomes along one axis: ``target`` (A | 1, J, *broadcast) holds positions on that axis.

    There are J = K * sides of them, those of one value of the noise side by side.
    """

    axis: int
    target: NDArray[np.int32]
    probs: NDArray[np.float64]  # (A | 1, J, *broadcast)
    sides: int

    def reach(self, axis: int) -> Reach:
        if axis != self.axis:
            return Reach()
        own = with_length((1,) * self.target.ndim, axis + 2, -1)
        return Reach.of(self.target - np.arange(self.shape[axis]).reshape(own))

    def window(self, axis: int, first: int, count: int) -> Blend:
        target, probs = (places(a, axis + 2, first, count) for a in (self.target, self.probs))
        if axis == self.axis:
            target = within(target, first, count)
        return Blend(with_length(self.shape, axis, count), self.axis, target, probs, self.sides)

    @property
    def acts(self) -> bool:
        return len(self.target) > 1 or len(self.probs) > 1

    @property
    def rounded(self) -> float:
        return ROUNDED if self.sides > 1 else 0.0

    @property
    def interpolates(self) -> bool:
        return self.sides > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target, "probs": self.probs}

    def compiled(self, acts: bool) -> CompiledBlend:
        return CompiledBlend(self.axis, acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        where = list(np.indices(self.shape, sparse=True))
        for to, p in zip(at(self.target, action), at(self.probs, action), strict=True):
            where[self.axis] = to
            flat = np.ravel_multi_index(np.broadcast_arrays(*where), self.shape)
            yield np.broadcast_to(flat, self.shape), np.broadcast_to(p, self.shape)

    @property
    def terms(self) -> int:
        return self.target.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return self.target.shape[1] * (1 + self.shape[self.axis])

    def sample(self, states, actions, rng):
        where, j = self.draw(states, actions, rng)
        to = list(where)
        rows = entries_at(np.moveaxis(self.target, 1, -1), actions, where)
        to[self.axis] = rows[np.arange(len(states)), j].astype(np.int64)
        return np.ravel_multi_index(tuple(to), self.shape), j // self.sides


@dataclass(frozen=True)
class CompiledBlend:
    """The compiled side of ``Blend``: ``sum_j p_j w[target_j(x)]`` along one axis."""

    axis: int
    acts: bool

    stays = False
    takes_open = False

    def follows(self, arrays) -> bool:
        return shared(arrays["target"], arrays["probs"])

    def apply(self, arrays, w, action):
        import jax.numpy as jnp
        from jax import lax

        def add(total, term):
            target, p = term
            return total + p * gathered(w, target, self.axis), None

        terms = of_action(arrays["target"], action), of_action(arrays["probs"], action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
