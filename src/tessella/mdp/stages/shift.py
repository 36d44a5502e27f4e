"""Shift: the coordinate along one axis moves by a random amount.

    E[w](x) = sum_k p_k w(edge(x + by_k))

It is applied by slices of a padded array; see ``slices``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, shown
from tessella.grid import StateGrid
from tessella.mdp import checks
from tessella.mdp.scope import Scope, call
from tessella.mdp.stages.between import Between, along, land, refuse_unknown
from tessella.mdp.stages.noise import Law, Noise, make_law, refuse_other, reward_on
from tessella.mdp.stages.operation import RandomOperation
from tessella.mdp.stages.slices import Slices
from tessella.mdp.stages.stage import Function, Stage, StageNumbers

Edge = Literal["clip", "reflect", "wrap", "error"]


@dataclass(frozen=True, eq=False)
class Shift(Stage):
    """The coordinate along an evenly spaced ``axis`` moves by ``by(noise, action)``.

    ``edge`` says what happens past the ends: ``clip`` stops there, ``reflect`` turns back,
    ``wrap`` goes on at the other end (weekdays, angles), ``error`` refuses a model that could get
    there. ``pays`` and ``costs`` may depend on the noise; they see the coordinate before the move.
    With ``between="interpolate"`` it may move by any amount, along cut points of any spacing, and
    land between them: see ``between``.
    """

    axis: str
    noise: Noise
    by: Function | None = None
    edge: Edge = "clip"
    pays: Function | None = None
    between: Between = "error"
    costs: Function | None = None

    def __post_init__(self) -> None:
        refuse_other(self.noise, f"a shift of {self.axis}")

    def numbers(self, scope: Scope) -> StageNumbers:
        axis = scope.axis(self.axis)
        what = f"the shift of {self.axis} by {self.noise.name}"
        law = make_law(scope, self.noise, what)
        operation = self._operation(scope, axis, law, what)
        paid, error = reward_on(scope, self.paid, f"the reward of {what}", law)
        return StageNumbers(operation, paid, self.paid, law.named, error)

    def _operation(self, scope: Scope, axis: int, law: Law, what: str) -> RandomOperation:
        if self.between != "error":
            refuse_unknown(what, self.between, self.edge)
            own = [1] * scope.rank
            own[axis + 1] = -1
            to = scope.grid.numbers[axis].reshape(own) + _amounts(scope, self, law, what)
            landing = land(scope, axis, to, what, self.edge, law.named, law.probs)
            return along(scope, axis, landing, law.probs)
        steps = _steps(scope, self, axis, law, what)
        if self.edge == "error":
            _refuse_leaving(scope, axis, steps, law, what)
        whole = _within(steps, scope.grid.shape[axis], self.edge)
        return shifts(scope.grid.shape, axis, whole, np.moveaxis(law.probs, -1, 1), self.edge)


def _amounts(scope: Scope, stage: Shift, law: Law, what: str) -> NDArray[np.float64]:
    """(A | 1, 1, ..., K | 1) how far each noise value moves."""
    count = len(law.named[1])
    mesh = scope.mesh(law.named)
    allowed = {n: mesh[n] for n in (law.named[0], *scope.named_actions)}
    by = law.named[1] if stage.by is None else call(stage.by, allowed, f"{what}: its amount")
    amounts = checks.as_numbers(by, f"{what}: its amount")
    amounts = scope.ranked(amounts, f"{what}: its amount", count)
    if amounts.size > len(amounts) * count:
        raise ModelError(f"{what}: its amount may depend on the action and the noise only")
    return amounts


def _steps(scope: Scope, stage: Shift, axis: int, law: Law, what: str) -> NDArray[np.float64]:
    """(A | 1, K) how many grid steps each noise value moves, a whole number of any size."""
    if stage.edge not in get_args(Edge):
        *others, last = map(repr, get_args(Edge))
        rule = f"{what}: edge must be {', '.join(others)} or {last}"
        raise ModelError(rule, value=f"got {stage.edge!r}")
    gap = _gap(scope.grid, axis, what)
    amounts = _amounts(scope, stage, law, what)
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
    return np.broadcast_to(whole, (len(whole), len(law.named[1])))


def _within(steps: NDArray[np.float64], n: int, edge: str) -> NDArray[np.int64]:
    """Steps to the same places of an axis of length n, few enough to be integers."""
    if edge == "reflect":  # turning back at both ends repeats after a whole round
        return np.fmod(steps, max(2 * (n - 1), 1)).astype(np.int64)
    if edge == "wrap":
        return np.fmod(steps, n).astype(np.int64)
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
        raise ModelError(
            f"{what}: the axis must be evenly spaced", value=f"gaps are {low} to {high}"
        )
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


def shifts(
    shape: tuple[int, ...], axis: int, steps: NDArray[np.int64], probs: NDArray, edge: str
) -> Slices:
    """Moves by ``steps`` (A | 1, K) positions with ``probs`` (A | 1, K, *broadcast)."""
    n = shape[axis]
    if edge != "reflect":
        steps = np.clip(steps, 1 - n, n - 1)
    elif n > 1:  # turning back at both ends repeats after a whole round
        steps = np.where(np.abs(steps) < n, steps, steps % (2 * (n - 1)))
    else:
        steps = np.zeros_like(steps)
    low, high = min(int(steps.min()), 0), max(int(steps.max()), 0)
    padded = np.arange(low, n + high)
    if edge == "reflect":
        pad = np.abs((padded + n - 1) % max(2 * (n - 1), 1) - (n - 1))
    elif edge == "wrap":
        pad = padded % n
    else:
        pad = np.clip(padded, 0, n - 1)
    offsets = (steps - low).astype(np.int32)
    return Slices(shape, axis, pad.astype(np.int32), offsets, np.ascontiguousarray(probs))
