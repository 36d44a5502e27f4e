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
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, format_value
from tessella.grid import index_type, require_unmasked
from tessella.mdp import checks
from tessella.mdp.context import EvaluationContext, NoiseTable
from tessella.mdp.dynamics import entries_for_walkers
from tessella.mdp.stages.operation import (
    AxisOperation,
    RandomOperation,
    compiled_action_slice,
    gather_along,
    is_shared_by_actions,
)
from tessella.rounding import EPS

OffGridOption = Literal["error", "interpolate"]
EdgeOption = Literal["error", "clip"]
INTERPOLATION_ROUNDING = 2 * EPS  # of a probability, for each axis that is interpolated


@dataclass(frozen=True, eq=False)
class InterpolationWeights:
    """Where values of an axis fall: the sides, each an open mesh of positions and of weights."""

    neighbours: list[tuple[NDArray[np.int32], NDArray[np.float64]]]


def require_known_options(subject: str, between: str, edge: str) -> None:
    """Refuse settings that no stage has."""
    if between not in ("error", "interpolate"):
        requirement = f"{subject}: between must be 'error' or 'interpolate'"
        raise ModelError(requirement, value=f"got {between!r}")
    if edge not in ("error", "clip"):
        requirement = f"{subject}: edge must be 'error' or 'clip'"
        raise ModelError(requirement, value=f"got {edge!r}")


def clip_to_axis(
    context: EvaluationContext, axis: int, values: Any, subject: str, edge: str
) -> Any:
    """``values`` with those past the ends of an axis of numbers put there, if ``edge`` says so."""
    if edge != "clip" or context.grid.values[axis].dtype.kind == "U":
        return values
    cuts = context.grid.values[axis]
    said = f"{subject}: {context.grid.axes[axis]}"
    numbers = np.asarray(require_unmasked(values, said, context.describe))
    return np.clip(numbers, cuts.min(), cuts.max()) if numbers.dtype.kind in "biuf" else values


def interpolation_weights(
    context: EvaluationContext,
    axis: int,
    values: Any,
    subject: str,
    edge: str,
    noise: NoiseTable | None = None,
) -> InterpolationWeights:
    """The cut points on both sides of each value of an open mesh."""
    cuts = _sorted_cut_points(context, axis, subject)
    name = context.grid.axes[axis]

    x = checks.mesh_numbers(context, values, f"{subject}: {name}", noise)
    near = context.grid.locate(axis, x)  # within rounding of a cut point is on it
    low = cuts.min()
    high = cuts.max()
    outside = ~((x >= low) & (x <= high)) & (near < 0)
    outside &= np.isnan(x) if edge == "clip" else True
    checks.raise_for_first(
        f"{subject} leaves the axis: "
        f"{name} must stay within {format_value(low)}..{format_value(high)}",
        checks.drop_unused_entries(context, outside, noise),
        lambda p: context.describe(p, x.shape, noise),
        lambda p: f"goes to {name}={format_value(float(x[p]))}",
        "cases",
    )
    x = np.clip(np.where(np.isnan(x), low, x), low, high)
    return _neighbour_weights(cuts, x, near)


def _sorted_cut_points(context: EvaluationContext, axis: int, subject: str) -> NDArray[np.float64]:
    """The cut points of an axis, which must rise or fall."""
    name = context.grid.axes[axis]
    values = context.grid.values[axis]
    if values.dtype.kind == "U":
        requirement = f"{subject} cannot interpolate along an axis of text"
        raise ModelError(requirement, location=name, value=f"holds {values[0]}")
    cuts = context.grid.numbers[axis]
    steps = np.diff(cuts)
    turns = np.flatnonzero(np.sign(steps) != np.sign(steps[0])) if len(steps) else steps
    if len(turns):
        first = int(turns[0])
        raise ModelError(
            f"{subject}: cut points must stand in order",
            location=f"{name}={format_value(cuts[first + 1])}",
            value=f"stands after {format_value(cuts[first])}",
            count=len(turns),
            total=len(steps),
            noun="steps",
        )
    return cuts


def _neighbour_weights(
    cuts: NDArray[np.float64], x: NDArray, near: NDArray[np.int64]
) -> InterpolationWeights:
    """Positions and weights below and above; one side where every x is on a cut point."""
    on = near >= 0
    if on.all() or len(cuts) == 1:
        return InterpolationWeights([(np.maximum(near, 0).astype(np.int32), np.ones(x.shape))])
    falls = cuts[0] > cuts[-1]
    rising = cuts[::-1] if falls else cuts
    above = np.clip(np.searchsorted(rising, x), 1, len(cuts) - 1)
    u = rising[above - 1]
    v = rising[above]
    weights = np.where(on, 1.0, (v - x) / (v - u)), np.where(on, 0.0, (x - u) / (v - u))
    index = (len(cuts) - above, len(cuts) - 1 - above) if falls else (above - 1, above)
    sides = [np.where(on, near, i).astype(np.int32) for i in index]
    return InterpolationWeights(list(zip(sides, weights, strict=True)))


def interpolation_along(
    context: EvaluationContext, axis: int, weights: InterpolationWeights, probs: NDArray[np.float64]
) -> Interpolation:
    """Landings along one axis, with ``probs`` (A | 1, *broadcast, K) of the noise."""
    count = probs.shape[-1]
    own = [1] * context.rank
    own[axis + 1] = context.grid.shape[axis]
    own[-1] = count
    targets = [np.broadcast_to(t, np.broadcast_shapes(t.shape, own)) for t, _ in weights.neighbours]
    chances = [_broadcast_last(probs * w, count) for _, w in weights.neighbours]
    return Interpolation(
        context.grid.shape,
        axis,
        _stack_outcomes(targets).astype(np.int32),
        _stack_outcomes(chances),
        len(weights.neighbours),
    )


def interpolation_corners(
    context: EvaluationContext,
    weights_by_axis: list[InterpolationWeights],
    probs: NDArray[np.float64],
) -> tuple[NDArray[np.integer], NDArray[np.float64], int]:
    """Flat targets and their probabilities (A | 1, K * corners, ...), and the number of corners."""
    count = probs.shape[-1]
    grid = context.grid
    targets = []
    chances = []
    for corner in itertools.product(*(weights.neighbours for weights in weights_by_axis)):
        where = [t for t, _ in corner]
        p = probs
        for _, weight in corner:
            p = p * weight
        full = np.broadcast_shapes(*(t.shape for t in where), (1, *grid.shape, count))
        flat = np.ravel_multi_index(tuple(np.broadcast_to(t, full) for t in where), grid.shape)
        targets.append(flat.astype(index_type(grid.size)))
        chances.append(_broadcast_last(p, count))
    return _stack_outcomes(targets), _stack_outcomes(chances), len(targets)


def _broadcast_last(array: NDArray, count: int) -> NDArray:
    return np.broadcast_to(array, (*array.shape[:-1], count))


def _stack_outcomes(sides: list[NDArray]) -> NDArray:
    """(A | 1, K * sides, ...) from one open mesh with K at the end for each side."""
    stacked = np.stack(np.broadcast_arrays(*sides), axis=-1)
    return np.ascontiguousarray(np.moveaxis(stacked.reshape(*stacked.shape[:-2], -1), -1, 1))


@dataclass(frozen=True, eq=False)
class Interpolation(RandomOperation, AxisOperation):
    """Outcomes along one axis: ``target`` (A | 1, J, *broadcast) holds positions on that axis.

    There are J = K * neighbours of them, those of one value of the noise side by side.
    Compiled, ``sum_j p_j w[target_j(x)]`` along the axis.
    """

    target: NDArray[np.int32]
    probs: NDArray[np.float64]  # (A | 1, J, *broadcast)
    neighbours: int

    meshes = ("target", "probs")

    @property
    def targets_per_value(self) -> int:
        return self.neighbours

    def positions(self, axis: int) -> NDArray:
        return self.target if axis == self.axis else self.own_positions(axis)

    def restrict_to_leading_axes(self, axes: int) -> None:
        return None

    @property
    def relative_rounding(self) -> float:
        return INTERPOLATION_ROUNDING if self.neighbours > 1 else 0.0

    @property
    def is_interpolating(self) -> bool:
        return self.neighbours > 1

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.target.shape[1] * (1 + self.shape[self.axis])

    def sample(self, states, actions, rng):
        where, j = self.draw(states, actions, rng)
        rows = entries_for_walkers(np.moveaxis(self.target, 1, -1), actions, where)
        where[self.axis] = rows[np.arange(len(states)), j].astype(np.int64)
        return np.ravel_multi_index(tuple(where), self.shape), j // self.neighbours

    @staticmethod
    def supports_policy_arrays(arrays, /) -> bool:
        return is_shared_by_actions(arrays["target"], arrays["probs"])

    @staticmethod
    def apply(axis, arrays, w, action, /):
        import jax.numpy as jnp
        from jax import lax

        def add(total, term):
            target, p = term
            return total + p * gather_along(w, target, axis), None

        terms = (
            compiled_action_slice(arrays["target"], action),
            compiled_action_slice(arrays["probs"], action),
        )
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
