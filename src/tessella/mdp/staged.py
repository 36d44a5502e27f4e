"""Staged dynamics: one period as a list of events, never a matrix over states.

With stages 1..m in the order of events, E_i the expectation of stage i and r_i what it pays,

    backup(w) = r_1 + E_1[ r_2 + E_2[ ... r_m + E_m[ w ] ] ]

where r_i is the stage's expected reward given the state at its moment. Memory is linear in states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.grid import StateGrid
from tessella.mdp import operations as op
from tessella.mdp import scope as sc
from tessella.mdp.dynamics import Dynamics, Lowered, Mass, Steps
from tessella.mdp.stages import Decide, Function, Jump, Move, Noise, Pay, Shift, Stage


@dataclass(frozen=True, eq=False)
class Compiled:
    """A stage made of numbers."""

    operation: op.Operation
    reward: NDArray[np.float64] | None  # (A | 1, *broadcast) expected over the stage's noise
    pays: Function | None  # the stage's own reward function, for simulation
    noise: tuple[str, NDArray] | None  # its name and (K,) values

    @property
    def acts(self) -> bool:
        return self.operation.acts or (self.reward is not None and len(self.reward) > 1)

    def arrays(self) -> dict[str, NDArray]:
        reward = {} if self.reward is None else {"reward": self.reward}
        return self.operation.arrays() | reward


@dataclass(frozen=True, eq=False)
class Staged(Dynamics):
    """Dynamics told as stages; build it with ``MDP.staged``."""

    scope: sc.Scope
    stages: tuple[Compiled, ...]

    @staticmethod
    def build(scope: sc.Scope, stages: Sequence[Stage]) -> Staged:
        if not stages:
            raise ModelError("a staged model needs at least one stage")
        return Staged(scope, tuple(_compile(scope, stage) for stage in stages))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.scope.grid.shape

    @property
    def n_actions(self) -> int:
        return len(self.scope.actions)

    @cached_property
    def mass(self) -> Mass:
        masses = [stage.operation.mass for stage in self.stages]
        # Slack for the rounding of the sums themselves.
        slack = np.finfo(float).eps * (self.terms + 2)
        low = float(np.prod([m.low for m in masses])) - slack
        high = float(np.prod([m.high for m in masses])) + slack
        return Mass(low, high)

    @cached_property
    def terms(self) -> int:
        # Two more for each stage: the products, and the reward that is added.
        return sum(stage.operation.terms + 2 for stage in self.stages)

    @cached_property
    def reward_scale(self) -> float:
        return float(sum(np.abs(s.reward).max() for s in self.stages if s.reward is not None))

    def lower(self) -> Lowered:
        from tessella.mdp import programs
        from tessella.mdp.engine import on_device

        operations = tuple(stage.operation.compiled(stage.acts) for stage in self.stages)
        program = programs.StagedProgram(operations, self.n_actions)  # type: ignore[arg-type]
        return Lowered(program, on_device([stage.arrays() for stage in self.stages]))

    def to_sparse(self) -> list:
        from functools import reduce

        return [
            reduce(
                lambda left, right: left @ right,
                [_matrix(stage.operation, a) for stage in self.stages],
            ).tocsr()
            for a in range(self.n_actions)
        ]

    def expected_reward(self) -> NDArray[np.float64]:
        reward_SA = np.empty((self.scope.grid.size, self.n_actions))
        for a in range(self.n_actions):
            w = np.zeros(self.shape)
            for stage in reversed(self.stages):
                w = sum(p * w.ravel()[to] for to, p in stage.operation.outcomes(a))
                if stage.reward is not None:
                    w = w + op.at(stage.reward, a)
            reward_SA[:, a] = np.broadcast_to(w, self.shape).ravel()
        return reward_SA

    def step(self, states, actions, rng) -> Steps:
        paid = np.zeros(len(states))
        for stage in self.stages:
            now = states
            states, k = stage.operation.sample(now, actions, rng)
            if stage.pays is not None:
                names = self.scope.grid.coordinates(now)
                names[self.scope.action_name] = self.scope.action_values[actions]
                if stage.noise is not None:
                    names[stage.noise[0]] = stage.noise[1][k]
                paid = paid + np.asarray(sc.call(stage.pays, names, "reward"), dtype=float)
        return Steps(states, paid, np.zeros(len(states), dtype=bool))


def _matrix(operation: op.Operation, action: int):
    import scipy.sparse as sp

    n = int(np.prod(operation.shape))
    source = np.arange(n)
    total = sp.csr_array((n, n))
    for to, p in operation.outcomes(action):
        kept = np.flatnonzero(p.ravel())
        entries = (p.ravel()[kept], (source[kept], to.ravel()[kept]))
        total = total + sp.csr_array(entries, shape=(n, n))
    return total


def _compile(scope: sc.Scope, stage: Stage) -> Compiled:
    compilers: dict[type, Callable[[sc.Scope, Stage], Compiled]] = {
        Pay: _pay,
        Decide: _decide,
        Shift: _shift,
        Move: _move,
        Jump: _jump,
    }
    if type(stage) not in compilers:
        raise ModelError(f"a stage is Pay, Decide, Shift, Move or Jump; got {stage!r}")
    return compilers[type(stage)](scope, stage)


def _pay(scope: sc.Scope, stage: Pay) -> Compiled:
    reward = _reward(scope, stage.pays, "the reward of a Pay stage")
    return Compiled(op.Stay(scope.grid.shape), reward, stage.pays, None)


def _decide(scope: sc.Scope, stage: Decide) -> Compiled:
    axis = scope.grid.axis(stage.axis)
    what = f"deciding {stage.axis}"
    to = np.asarray(sc.call(stage.to, scope.mesh(), what))[..., 0]
    target = sc.positions(scope.grid, axis, to, what, scope.describe)
    lengths = list(target.shape)
    lengths[axis + 1] = scope.grid.shape[axis]
    operation = op.Gather(scope.grid.shape, axis, np.broadcast_to(target, lengths).copy())
    reward = _reward(scope, stage.pays, f"the reward of {what}")
    return Compiled(operation, reward, stage.pays, None)


def _shift(scope: sc.Scope, stage: Shift) -> Compiled:
    axis = scope.grid.axis(stage.axis)
    what = f"the shift of {stage.axis} by {stage.noise.name}"
    values, probs = _noise(scope, stage.noise, what)
    steps = _steps(scope, stage, axis, values, what)
    operation = _slices(scope.grid, axis, steps, np.moveaxis(probs, -1, 1), stage.edge, what)
    reward = _reward(scope, stage.pays, f"the reward of {what}", stage.noise.name, values, probs)
    return Compiled(operation, reward, stage.pays, (stage.noise.name, values))


def _steps(scope: sc.Scope, stage: Shift, axis: int, values: NDArray, what: str) -> NDArray:
    """(A | 1, K) how many grid steps each noise value moves."""
    numbers = scope.grid.numbers[axis]
    gaps = np.diff(numbers)
    if len(gaps) and not np.allclose(gaps, gaps[0], rtol=1e-12, atol=0):
        raise ModelError(f"{what}: the axis must be evenly spaced; gaps {gaps.min()}..{gaps.max()}")
    mesh = scope.mesh((stage.noise.name, values))
    allowed = {n: mesh[n] for n in (stage.noise.name, scope.action_name)}
    by = values if stage.by is None else sc.call(stage.by, allowed, f"{what}: its amount")
    amounts = sc.as_numbers(by, f"{what}: its amount")
    amounts = amounts.reshape((1,) * (scope.rank - amounts.ndim) + amounts.shape)
    amounts = amounts.reshape(amounts.shape[0], -1)
    amounts = np.broadcast_to(amounts, (amounts.shape[0], len(values)))
    steps = amounts / (gaps[0] if len(gaps) else 1.0)
    if not (np.isfinite(steps).all() and np.allclose(steps, np.rint(steps), rtol=0, atol=1e-9)):
        raise ModelError(f"{what}: amounts must be whole grid steps; got {amounts.ravel()[:5]} ...")
    return np.rint(steps).astype(np.int64)


def _slices(
    grid: StateGrid, axis: int, steps: NDArray, probs: NDArray, edge: str, what: str
) -> op.Slices:
    n = grid.shape[axis]
    if edge == "error":
        _refuse_leaving(grid, axis, steps, probs, what)
    if edge != "reflect":
        steps = np.clip(steps, 1 - n, n - 1)
    low, high = min(int(steps.min()), 0), max(int(steps.max()), 0)
    padded = np.arange(low, n + high)
    if edge == "reflect":
        period = max(2 * (n - 1), 1)
        folded = np.abs((padded + n - 1) % period - (n - 1)) if n > 1 else np.zeros_like(padded)
        pad = folded
    else:
        pad = np.clip(padded, 0, n - 1)
    offsets = (steps - low).astype(np.int32)
    return op.Slices(grid.shape, axis, pad.astype(np.int32), offsets, np.ascontiguousarray(probs))


def _refuse_leaving(grid: StateGrid, axis: int, steps: NDArray, probs: NDArray, what: str) -> None:
    n = grid.shape[axis]
    lengths = [1] * (grid.ndim + 2)
    lengths[axis + 2] = n
    to = np.arange(n).reshape(lengths) + steps.reshape(*steps.shape, *[1] * grid.ndim)
    leaves = ((to < 0) | (to >= n)) & (probs > 0)
    if leaves.any():
        place = np.argwhere(leaves)[0]
        raise ModelError(
            f"{what} leaves the grid",
            f"{grid.axes[axis]}={grid.values[axis][place[axis + 2]]}",
            f"moves by {steps[min(place[0], len(steps) - 1), place[1]]} steps",
            int(leaves.sum()),
            leaves.size,
            "cases",
        )


def _move(scope: sc.Scope, stage: Move) -> Compiled:
    axis = scope.grid.axis(stage.axis)
    n = scope.grid.shape[axis]
    what = f"the move of {stage.axis}"
    if callable(stage.matrix):
        mesh = {name: array[..., None] for name, array in scope.mesh().items()}
        result = sc.as_numbers(sc.call(stage.matrix, mesh, what), what)
    else:
        result = sc.as_numbers(stage.matrix, what)
    if result.shape[-2:] != (n, n):
        raise ModelError(f"{what} must be an ({n}, {n}) matrix; got shape {result.shape}")
    matrix = result.reshape((1,) * (scope.rank + 1 - result.ndim) + result.shape)
    if matrix.shape[axis + 1] != 1:
        raise ModelError(f"{what} cannot be given its own axis: the matrix rows are that")
    sc.check_distributions(
        matrix, what, lambda p: f"from {stage.axis}={scope.grid.values[axis][p[-1]]}"
    )
    matrix = np.squeeze(matrix, axis=axis + 1)
    if all(length == 1 for length in matrix.shape[1:-2]):
        matrix = matrix.reshape(len(matrix), n, n)
    reward = _reward(scope, stage.pays, f"the reward of {what}")
    return Compiled(op.chain(scope.grid.shape, axis, matrix), reward, stage.pays, None)


def _jump(scope: sc.Scope, stage: Jump) -> Compiled:
    what = f"the jump on {stage.noise.name}"
    values, probs = _noise(scope, stage.noise, what)
    mesh = scope.mesh((stage.noise.name, values))
    result = sc.call(stage.to, mesh, what)
    target = targets(scope, result, what)
    k = len(values)
    if target.shape[-1] != k:
        target = np.broadcast_to(target, (*target.shape[:-1], k))
    operation = op.Scatter(
        scope.grid.shape,
        np.ascontiguousarray(np.moveaxis(target, -1, 1)),
        np.ascontiguousarray(np.moveaxis(probs, -1, 1)),
    )
    reward = _reward(scope, stage.pays, f"the reward of {what}", stage.noise.name, values, probs)
    return Compiled(operation, reward, stage.pays, (stage.noise.name, values))


def targets(scope: sc.Scope, result, what: str) -> NDArray[np.int32]:
    """Flat next states, (A | 1, *grid, K | 1), from a mapping of axis names to new values."""
    if not hasattr(result, "items"):
        raise ModelError(f"{what} must return a mapping of axis names to values; got {result!r}")
    moved = {scope.grid.axis(name): np.asarray(value) for name, value in result.items()}
    where = []
    for axis, name in enumerate(scope.grid.axes):
        stay = scope.mesh()[name]
        value = moved.get(axis, stay)
        value = value.reshape((1,) * (scope.rank - value.ndim) + value.shape)
        where.append(sc.positions(scope.grid, axis, value, what, scope.describe))
    full = np.broadcast_shapes(*(w.shape for w in where), (1, *scope.grid.shape, 1))
    where = [np.broadcast_to(w, full) for w in where]
    return np.ravel_multi_index(where, scope.grid.shape).astype(np.int32)


def _noise(scope: sc.Scope, noise: Noise, what: str) -> tuple[NDArray, NDArray]:
    """(K,) values and open-mesh probabilities (A | 1, *broadcast, K)."""
    values = sc.as_numbers(noise.values, f"{what}: its values")
    if values.ndim != 1 or values.size == 0:
        raise ModelError(f"{what}: a noise needs a list of values; got shape {values.shape}")
    values = np.asarray(noise.values)
    given = noise.probabilities
    result = sc.call(given, scope.mesh(), what) if callable(given) else given
    return values, sc.probabilities(scope, result, len(values), f"the probabilities of {what}")


def _reward(
    scope: sc.Scope,
    pays: Function | None,
    what: str,
    name: str = "",
    values: NDArray | None = None,
    probs: NDArray | None = None,
) -> NDArray | None:
    """(A | 1, *broadcast) expected reward of a stage: sum_k p_k r_k."""
    if pays is None:
        return None
    mesh = scope.mesh((name, values) if values is not None else None)
    reward = sc.rewards(scope, sc.call(pays, mesh, what), what)
    if reward.shape[-1] == 1 or probs is None:
        return reward[..., 0]
    return expectation(probs, reward)


def expectation(probs: NDArray, reward: NDArray) -> NDArray:
    """``sum_k probs[..., k] reward[..., k]`` over open meshes, by matrix products where possible."""
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
