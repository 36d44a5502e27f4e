"""Stages made of numbers: functions called once on the grid, their results checked and kept.

A stage that pays r on a noise with probabilities p keeps ``sum_k p_k r_k``, given the state at its
moment; a move by a matrix is a noise whose value is the place that is reached.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, shown
from tessella.grid import StateGrid, plain_values
from tessella.mdp import checks
from tessella.mdp import operations as op
from tessella.mdp.moves import chain, shifts
from tessella.mdp.rounding import expected_error
from tessella.mdp.scope import NamedValues, Scope, call
from tessella.mdp.stages import Decide, Function, Jump, Move, Noise, Pay, Shift, Stage


@dataclass(frozen=True, eq=False)
class Compiled:
    """A stage made of numbers."""

    operation: op.Operation
    reward: NDArray[np.float64] | None  # (A | 1, *broadcast) expected over the stage's noise
    pays: Function | None  # the stage's own reward function, for simulation
    noise: NamedValues | None  # its name and (K,) values
    reward_error: float = 0.0  # bound on what rounding did to the expected reward

    @property
    def acts(self) -> bool:
        return self.operation.acts or (self.reward is not None and len(self.reward) > 1)

    def arrays(self) -> dict[str, NDArray]:
        reward = {} if self.reward is None else {"reward": self.reward}
        return self.operation.arrays() | reward


@dataclass(frozen=True, eq=False)
class Law:
    """A noise made of numbers."""

    named: NamedValues
    probs: NDArray[np.float64]  # open mesh (A | 1, *broadcast, K)


def compile_stage(scope: Scope, stage: Stage) -> Compiled:
    """``stage`` as arrays over the grid of ``scope``."""
    match stage:
        case Pay():
            reward = _reward(scope, stage.pays, "the reward of a Pay stage")
            return Compiled(op.Stay(scope.grid.shape), reward, stage.pays, None)
        case Decide():
            return _decide(scope, stage)
        case Shift():
            return _shift(scope, stage)
        case Move():
            return _move(scope, stage)
        case Jump():
            return _jump(scope, stage)
    raise ModelError("a stage is Pay, Decide, Shift, Move or Jump", "", f"got {stage!r}")


def _decide(scope: Scope, stage: Decide) -> Compiled:
    axis = scope.grid.axis(stage.axis)
    what = f"deciding {stage.axis}"
    target = checks.positions(scope, axis, call(stage.to, scope.mesh(), what), what)[..., 0]
    lengths = list(target.shape)
    lengths[axis + 1] = scope.grid.shape[axis]
    operation = op.Gather(scope.grid.shape, axis, np.broadcast_to(target, lengths).copy())
    reward = _reward(scope, stage.pays, f"the reward of {what}")
    return Compiled(operation, reward, stage.pays, None)


def _shift(scope: Scope, stage: Shift) -> Compiled:
    axis = scope.grid.axis(stage.axis)
    what = f"the shift of {stage.axis} by {stage.noise.name}"
    law = make_law(scope, stage.noise, what)
    steps = _steps(scope, stage, axis, law, what)
    if stage.edge == "error":
        _refuse_leaving(scope, axis, steps, law, what)
    whole = _within(steps, scope.grid.shape[axis], stage.edge)
    operation = shifts(scope.grid.shape, axis, whole, np.moveaxis(law.probs, -1, 1), stage.edge)
    reward, error = _reward_on(scope, stage.pays, f"the reward of {what}", law)
    return Compiled(operation, reward, stage.pays, law.named, error)


def _steps(scope: Scope, stage: Shift, axis: int, law: Law, what: str) -> NDArray[np.float64]:
    """(A | 1, K) how many grid steps each noise value moves, a whole number of any size."""
    if stage.edge not in ("clip", "reflect", "error"):
        raise ModelError(
            f"{what}: edge must be 'clip', 'reflect' or 'error'", "", f"got {stage.edge!r}"
        )
    gap = _gap(scope.grid, axis, what)
    count = len(law.named[1])
    mesh = scope.mesh(law.named)
    allowed = {n: mesh[n] for n in (law.named[0], scope.action_name)}
    by = law.named[1] if stage.by is None else call(stage.by, allowed, f"{what}: its amount")
    amounts = checks.as_numbers(by, f"{what}: its amount")
    amounts = scope.ranked(amounts, f"{what}: its amount", count)
    if amounts.size > len(amounts) * count:
        raise ModelError(f"{what}: its amount may depend on the action and the noise only")
    with np.errstate(over="ignore", invalid="ignore"):
        steps = amounts / gap
        odd = ~(np.abs(steps - np.rint(steps)) <= 1e-9)  # not a number where infinite
    checks.refuse(
        f"{what} must be by whole grid steps",
        odd,
        lambda p: scope.describe(p, amounts.shape, law.named),
        lambda p: f"moves by {shown(amounts[p])} where neighbours are {shown(abs(gap))} apart",
        "amounts",
    )
    whole = np.rint(steps).reshape(len(steps), -1)
    return np.broadcast_to(whole, (len(whole), count))


def _within(steps: NDArray[np.float64], n: int, edge: str) -> NDArray[np.int64]:
    """Steps to the same places of an axis of length n, few enough to be integers."""
    if edge == "reflect":  # turning back at both ends repeats after a whole round
        return np.fmod(steps, max(2 * (n - 1), 1)).astype(np.int64)
    return np.clip(steps, -n, n).astype(np.int64)


def _gap(grid: StateGrid, axis: int, what: str) -> float:
    """The distance between neighbours of an evenly spaced axis, negative when it descends."""
    numbers = grid.numbers[axis]
    if len(numbers) == 1:
        return 1.0
    gaps, rounding = np.diff(numbers), 8 * np.spacing(np.abs(numbers).max())
    gap = (numbers[-1] - numbers[0]) / len(gaps)
    if grid.values[axis].dtype.kind == "i":  # exact, where float64 would round beyond 2^53
        gaps, rounding = np.diff(grid.values[axis].astype(object)).astype(float), 0.0
        gap = gaps.mean()
    if np.abs(gaps - gap).max() > 1e-9 * abs(gap) + min(rounding, abs(gap) / 4):
        low, high = shown(np.abs(gaps).min()), shown(np.abs(gaps).max())
        raise ModelError(f"{what}: the axis must be evenly spaced", "", f"gaps are {low} to {high}")
    return float(gap)


def _refuse_leaving(scope: Scope, axis: int, steps: NDArray, law: Law, what: str) -> None:
    d, n = scope.grid.ndim, scope.grid.shape[axis]
    lengths = [1] * (d + 2)
    lengths[axis + 1] = n
    by = steps.reshape(len(steps), *[1] * d, -1)
    to = np.arange(n).reshape(lengths) + by
    # Whether an outcome can happen may depend on more than the axis and the noise.
    shape = np.broadcast_shapes(to.shape, law.probs.shape)
    outside = np.broadcast_to((to < 0) | (to >= n), shape)
    amounts = np.broadcast_to(by * _gap(scope.grid, axis, what), shape)
    checks.refuse(
        f"{what} leaves the grid",
        checks.read_at(scope, outside, law.probs),
        lambda p: scope.describe(p, shape, law.named),
        lambda p: f"moves by {shown(amounts[p])}",
        "cases",
    )


def _move(scope: Scope, stage: Move) -> Compiled:
    axis = scope.grid.axis(stage.axis)
    n = scope.grid.shape[axis]
    what = f"the move of {stage.axis}"
    given = stage.matrix
    if callable(given):
        given = call(given, {name: a[..., None] for name, a in scope.mesh().items()}, what)
    matrix = checks.as_numbers(given, what)
    if matrix.ndim < 2 or matrix.shape[-2:] != (n, n):
        raise ModelError(f"{what} must be a ({n}, {n}) matrix", "", f"has shape {matrix.shape}")
    matrix = matrix.reshape((1,) * (scope.rank + 1 - matrix.ndim) + matrix.shape)
    if matrix.ndim > scope.rank + 1 or matrix.shape[axis + 1] != 1:
        raise ModelError(f"{what} cannot be given its own axis: the rows of the matrix are that")
    # Rows along the axis itself, the place reached as the noise: an open mesh like any other.
    law = checks.probabilities(
        scope, np.moveaxis(np.squeeze(matrix, axis + 1), -2, axis + 1), n, f"the rows of {what}"
    )
    matrix = np.moveaxis(law, axis + 1, -2)
    if all(length == 1 for length in matrix.shape[1:-2]):
        matrix = matrix.reshape(len(matrix), n, n)
    reward = _reward(scope, stage.pays, f"the reward of {what}")
    return Compiled(chain(scope.grid.shape, axis, matrix), reward, stage.pays, None)


def _jump(scope: Scope, stage: Jump) -> Compiled:
    what = f"the jump on {stage.noise.name}"
    law = make_law(scope, stage.noise, what)
    target = targets(scope, call(stage.to, scope.mesh(law.named), what), what, law)
    target = np.broadcast_to(target, (*target.shape[:-1], len(law.named[1])))
    operation = op.Scatter(
        scope.grid.shape,
        np.ascontiguousarray(np.moveaxis(target, -1, 1)),
        np.ascontiguousarray(np.moveaxis(law.probs, -1, 1)),
    )
    reward, error = _reward_on(scope, stage.pays, f"the reward of {what}", law)
    return Compiled(operation, reward, stage.pays, law.named, error)


def targets(scope: Scope, result, what: str, law: Law) -> NDArray[np.int32]:
    """Flat next states, (A | 1, *grid, K | 1), from a mapping of axis names to new values."""
    if not hasattr(result, "items"):
        raise ModelError(f"{what} must return a mapping of axis names to values; got {result!r}")
    moved = {scope.grid.axis(name): value for name, value in result.items()}
    where = []
    for axis, name in enumerate(scope.grid.axes):
        value = moved.get(axis, scope.mesh()[name])
        where.append(checks.positions(scope, axis, value, what, law.named, law.probs))
    full = np.broadcast_shapes(*(w.shape for w in where), (1, *scope.grid.shape, 1))
    where = tuple(np.broadcast_to(w, full) for w in where)
    return np.ravel_multi_index(where, scope.grid.shape).astype(np.int32)


def make_law(scope: Scope, noise: Noise, what: str) -> Law:
    """``noise`` as checked numbers."""
    values = plain_values(noise.values, f"{what}: its values")
    if not values.size:
        raise ModelError(f"{what}: a noise needs at least one value")
    scope.mesh((noise.name, values))
    given = noise.probabilities
    result = call(given, scope.mesh(), what) if callable(given) else given
    probs = checks.probabilities(scope, result, len(values), f"the probabilities of {what}")
    return Law((noise.name, values), probs)


def _reward(scope: Scope, pays: Function | None, what: str) -> NDArray[np.float64] | None:
    """(A | 1, *broadcast) reward of a stage that pays on no noise."""
    if pays is None:
        return None
    return checks.rewards(scope, call(pays, scope.mesh(), what), what)[..., 0]


def _reward_on(
    scope: Scope, pays: Function | None, what: str, law: Law
) -> tuple[NDArray[np.float64] | None, float]:
    """(A | 1, *broadcast) expected reward, sum_k p_k r_k, and a bound on its rounding."""
    if pays is None:
        return None, 0.0
    result = call(pays, scope.mesh(law.named), what)
    reward = checks.rewards(scope, result, what, law.named, law.probs)
    if reward.shape[-1] == 1:  # paid whatever the noise
        return reward[..., 0], 0.0
    expected = expectation(law.probs, reward)
    one_sign = (reward >= 0).all() or (reward <= 0).all()
    sizes = np.abs(expected) if one_sign else expectation(law.probs, np.abs(reward))
    return expected, expected_error(reward.shape[-1], sizes)


def expectation(probs: NDArray, reward: NDArray) -> NDArray[np.float64]:
    """``sum_k probs[..., k] reward[..., k]`` over open meshes, as a matrix product if it can be."""
    rank = probs.ndim - 1
    letters = [chr(ord("a") + i) for i in range(rank)]
    out = np.broadcast_shapes(probs.shape[:-1], reward.shape[:-1])

    def varying(array: NDArray) -> tuple[str, NDArray]:
        kept = [i for i in range(rank) if array.shape[i] > 1]
        shape = [array.shape[i] for i in kept] + [array.shape[-1]]
        return "".join(letters[i] for i in kept) + "z", array.reshape(shape)

    (left, p), (right, r) = varying(probs), varying(reward)
    result = "".join(letters[i] for i in range(rank) if out[i] > 1)
    return np.einsum(f"{left},{right}->{result}", p, r, optimize=True).reshape(out)
