"""Dynamics over a finite horizon: time is the first axis of the states, and every period moves it.

With P_t and r_t the law and the rewards of period t, over states x without time,

    backup(w)[(t, x), a] = r_t(x, a) + sum_x' P_t(x' | x, a) w(t + 1, x'),      t < T - 1,

and in the last period the final value replaces w. Each period has dynamics, one shared object where
time does not matter, so that equal periods are stored once. Solvers may work
on the whole, or one period at a time from the last (``period_arrays``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import ModelError, format_value, raise_for_first
from tessella.grid import require_product, require_unmasked
from tessella.mdp.checks import as_numbers
from tessella.mdp.dynamics import (
    PLAIN_FORMS,
    REWARD,
    Backend,
    BackendModel,
    CompileOptions,
    Dynamics,
    ModelParts,
    StepResult,
)
from tessella.mdp.stages.operation import CompiledOperation
from tessella.mdp.stages.stage import BuiltStage, Stage
from tessella.mdp.stages.staged import StageBackend, Staged
from tessella.mdp.state_action_space import (
    TIME,
    Feasible,
    StateActionSpace,
    build_feasible_mask,
    call_by_name,
    make_state_action_space,
    multiply_entry_counts,
)
from tessella.mdp.tabular.rows import (
    CompiledRowBackend,
    LayoutRule,
    RowArrays,
    fill_chunks,
    round_up_size,
)
from tessella.mdp.tabular.tabular import Tabular
from tessella.numerics import array_namespace
from tessella.rounding import EPS, ModelRounding, RoundingBounds, RowSumBounds

Result = TypeVar("Result")
GivenMask = ArrayLike | Callable[..., ArrayLike]  # a mask, or a function of axes and action


@dataclass(frozen=True, eq=False)
class FiniteHorizonDynamics(Dynamics):
    """Dynamics of every period of a horizon; made by the builders of ``MDP``.

    Attributes:
        space: with time as the first axis.
        periods: (T) dynamics of each period, one object where they are the same.
        discounted_final: (states of a period) the reward at the end, discounted to the last period.
        file_rounding: ``rounding.in_file``, as stated in the file from which this was read.
    """

    space: StateActionSpace
    periods: tuple[Dynamics, ...]
    discounted_final: NDArray[np.float64]
    file_rounding: ModelRounding | None = None

    offers_rows = True

    @property
    def kind(self) -> str:
        return "timed"

    @cached_property
    def distinct_periods(self) -> list[Dynamics]:  # type: ignore[override]
        return list({id(period): period for period in self.periods}.values())

    @property
    def is_table(self) -> bool:
        return all(period.is_table for period in self.distinct_periods)

    @property
    def n_periods(self) -> int:
        return len(self.periods)

    @property
    def max_row_entries(self) -> int:
        return max(period.max_row_entries for period in self.distinct_periods)

    def fingerprint_key(self) -> tuple:
        """What enters the fingerprint of a model: every distinct period once."""
        index = {id(period): i for i, period in enumerate(self.distinct_periods)}
        return (
            self.space,
            [index[id(p)] for p in self.periods],
            self.distinct_periods,
            self.discounted_final,
        )

    def _map_periods(self, function: Callable[[Dynamics], Result]) -> list[Result]:
        """The results for all periods, one object where periods are the same."""
        results = {id(period): function(period) for period in self.distinct_periods}
        return [results[id(period)] for period in self.periods]

    @property
    def counts(self) -> frozenset[str]:
        return frozenset().union(*(period.counts for period in self.distinct_periods))

    def with_reward(self, weights: Mapping[str, float]) -> FiniteHorizonDynamics:
        periods = self._map_periods(lambda period: period.with_reward(weights))
        final = weights.get(REWARD, 0.0) * self.discounted_final
        return replace(self, periods=tuple(periods), discounted_final=final, file_rounding=None)

    def compute_row_sums(self) -> RowSumBounds:
        row_sums = [period.row_sums for period in self.distinct_periods]
        # Rows of the last period are empty: the process ends.
        return RowSumBounds(1.0, max(bounds.excess for bounds in row_sums))

    @property
    def is_interpolated(self) -> bool:
        return any(period.is_interpolated for period in self.distinct_periods)

    @cached_property
    def rounding(self) -> RoundingBounds:  # type: ignore[override]
        by_period = [period.rounding for period in self.distinct_periods]
        terms = max(rounding.backup_terms for rounding in by_period)
        in_memory = self._add_final_rounding([rounding.in_memory for rounding in by_period])
        saved = self._add_final_rounding([rounding.in_file for rounding in by_period])
        # In a file, rewards include the expected final reward, over a row that is rounded.
        final_error = EPS * (max(terms, self.longest_row) + 2) * self._final_scale
        saved = replace(saved, reward_error=saved.reward_error + final_error)
        return RoundingBounds(in_memory, self.file_rounding or saved, terms)

    def _add_final_rounding(self, by_period: Sequence[ModelRounding]) -> ModelRounding:
        worst = ModelRounding.worst_of(by_period)
        # Discounting the final reward has rounded it once.
        final_error = (worst.row_error + EPS) * self._final_scale
        return replace(worst, reward_error=worst.reward_error + final_error)

    @property
    def _final_scale(self) -> float:
        return float(np.abs(self.discounted_final).max())

    @property
    def adjoint_rounding_terms(self) -> int:
        return max(period.adjoint_rounding_terms for period in self.distinct_periods)

    @property
    def longest_row(self) -> int:
        return max(period.longest_row for period in self.distinct_periods)

    @property
    def reward_scale(self) -> float:
        return max(period.reward_scale for period in self.distinct_periods) + self._final_scale

    def as_rows(self, max_entries: float = math.inf) -> FiniteHorizonDynamics | None:
        """The same with every period by rows, which have ``max_entries`` each at most."""
        periods = self._map_periods(lambda period: period.as_rows(max_entries))
        if None in periods:
            return None
        return replace(self, periods=tuple(cast(list[Dynamics], periods)))

    def build_numpy_model(self, choose_layout: LayoutRule | None = None) -> BackendModel:
        models = self._map_periods(lambda period: period.build_numpy_model(choose_layout))
        # Each time has a copy, which keeps the rows of its own last policy.
        tables = [replace(cast(RowArrays, model.arrays)) for model in models]
        backend = TableHorizonBackend(models[0].backend)
        return BackendModel(backend, {"periods": tables, "final": self.discounted_final})

    def compile(self, options: CompileOptions = PLAIN_FORMS) -> BackendModel:
        import jax

        from tessella.mdp.compilation import to_device

        if len(self.distinct_periods) == 1:
            model = self.distinct_periods[0].compile(options)
            backend = model.backend
            arrays = model.arrays
            timed = jax.tree.map(lambda _: False, arrays)
        else:
            backend, arrays, timed = _stack_periods(self.periods)
        flags = tuple(jax.tree.leaves(timed))
        period_backend = CompiledHorizonBackend(
            backend, len(self.periods), flags, options.one_period_at_a_time
        )
        return BackendModel(
            period_backend, to_device({"periods": arrays, "final": self.discounted_final})
        )

    def to_sparse(self) -> list:
        import scipy.sparse as sp

        by_period = self._map_periods(lambda period: period.to_sparse())
        n = self.discounted_final.size * len(by_period)
        matrices = []
        for action in range(self.n_actions):
            blocks = [period[action] for period in by_period[:-1]]
            inner = sp.block_diag(blocks, format="coo") if blocks else sp.coo_array((0, 0))
            entries = inner.data, (inner.row, inner.col + self.discounted_final.size)
            matrices.append(sp.csr_array(entries, shape=(n, n)))
        return matrices

    def action_reward(self, action: int) -> NDArray[np.float64]:
        rewards = [period.action_reward(action) for period in self.periods]
        if self.discounted_final.any():
            rewards[-1] = (
                rewards[-1] + self.periods[-1].to_sparse()[action] @ self.discounted_final.ravel()
            )
        return np.concatenate(rewards)

    def step(self, states, actions, rng) -> StepResult:
        time, x = np.divmod(states, self.discounted_final.size)
        next_states = np.empty(len(states), np.int64)
        rewards = np.empty(len(states))
        ended = np.zeros(len(states), bool)
        last = time == len(self.periods) - 1
        for t in np.unique(time):
            indices = np.flatnonzero(time == t)
            steps = self.periods[t].step(x[indices], actions[indices], rng)
            next_states[indices] = steps.next_states
            rewards[indices] = steps.rewards
            ended[indices] = steps.ended
        reaches_final = last & ~ended  # only walkers that reach the end get the final reward
        rewards[reaches_final] += self.discounted_final.ravel()[next_states[reaches_final]]
        next_times = np.where(last, time, time + 1)
        return StepResult(
            next_times * self.discounted_final.size + next_states, rewards, last | ended
        )


@dataclass(frozen=True)
class HorizonBackend(Backend):
    """The backward pass of a horizon, by that of its periods."""

    period_backend: Backend

    @property
    def n_actions(self) -> int:  # type: ignore[override]
        return self.period_backend.n_actions

    def read_final(self, arrays):
        """The final reward, discounted."""
        return arrays["final"]

    @abstractmethod
    def period_arrays(self, arrays, time):
        """The arrays of one period."""

    @abstractmethod
    def map_periods(self, arrays, step, *by_time) -> Any:
        """The results of ``step`` for each period's arrays and slices of ``by_time``."""

    def shared_backup(self, arrays, w_S, include_reward):
        def back_up_period(period, w):
            return self.period_backend.shared_backup(period, w, include_reward)

        return self.map_periods(
            arrays, back_up_period, self._next_values(arrays, w_S, include_reward)
        )

    def action_backup(self, arrays, w, action, include_reward):
        def back_up_period(period, v):
            return self.period_backend.action_backup(period, v, action, include_reward)

        return self._stack(arrays, self.map_periods(arrays, back_up_period, w))

    def policy_backup(self, arrays, w_S, policy, include_reward):
        def back_up_period(period, w, actions):
            return self.period_backend.policy_backup(period, w, actions, include_reward)

        next_values = self._next_values(arrays, w_S, include_reward)
        return self._stack(arrays, self.map_periods(arrays, back_up_period, next_values, policy))

    def _next_values(self, arrays, w_S, include_reward):
        """The values after each period: those of the next period, or final rewards."""
        xp = array_namespace(w_S)
        end = self.read_final(arrays) if include_reward else xp.zeros_like(w_S[0])
        return xp.concatenate([w_S[1:], end[None].astype(w_S.dtype)])

    def _stack(self, arrays, by_time):
        return array_namespace(self.read_final(arrays)).asarray(by_time)


class TableHorizonBackend(HorizonBackend):
    """Periods that are tables, which NumPy multiplies one after the other."""

    is_compiled = False
    has_direct_solve = True

    def period_arrays(self, arrays, time):
        return arrays["periods"][time]

    def map_periods(self, arrays, step, *by_time):
        return [step(*given) for given in zip(arrays["periods"], *by_time, strict=True)]

    def solve_policy_system(self, arrays, rhs, policy, discount):
        x = rhs.copy()
        for t in reversed(range(len(x) - 1)):
            table = arrays["periods"][t]
            x[t] += discount * self.period_backend.policy_backup(table, x[t + 1], policy[t], False)
        return x

    def policy_adjoint(self, arrays, policy, template):
        periods = zip(arrays["periods"], policy, strict=True)
        moves = [self.period_backend.policy_adjoint(*given, template[0]) for given in periods]

        def move(x):
            moved = np.zeros_like(x)
            for t, move_period in enumerate(moves[:-1]):
                moved[t + 1] = move_period(x[t])
            return moved

        return move


@dataclass(frozen=True)
class CompiledHorizonBackend(HorizonBackend):
    """Periods that JAX compiles, all of them at once or one after the other.

    ``varies_with_time`` says of each of the period's arrays whether it has one slice for each time.
    """

    n_periods: int
    varies_with_time: tuple[bool, ...]
    one_period_at_a_time: bool

    def period_arrays(self, arrays, time):
        import jax

        leaves, tree = jax.tree.flatten(arrays["periods"])
        flags = zip(leaves, self.varies_with_time, strict=True)
        return jax.tree.unflatten(tree, [leaf[time] if varies else leaf for leaf, varies in flags])

    def map_periods(self, arrays, step, *by_time):
        import jax

        def apply_step(slices):
            time, *others = slices
            return step(self.period_arrays(arrays, time), *others)

        if self.one_period_at_a_time:
            return jax.lax.map(apply_step, (jax.numpy.arange(self.n_periods), *by_time))
        axes = [0 if varies else None for varies in self.varies_with_time]
        period_axes = jax.tree.unflatten(jax.tree.structure(arrays["periods"]), axes)
        in_axes = (period_axes, *(0 for _ in by_time))
        return jax.vmap(step, in_axes)(arrays["periods"], *by_time)


def _stack_periods(periods: Sequence[Dynamics]) -> tuple[Backend, Any, Any]:
    """Backend, arrays, and which of the arrays have a slice for each time."""
    if isinstance(periods[0], Tabular):
        return _stack_tables(cast(Sequence[Tabular], periods))
    by_period = [cast(Staged, period).stages for period in periods]
    by_stage = enumerate(zip(*by_period, strict=True), start=1)
    stacked = [_stack_stage(stages, f"stage {number}") for number, stages in by_stage]
    operations, arrays, timed = zip(*stacked, strict=True)
    return StageBackend(operations, periods[0].n_actions), list(arrays), list(timed)


def _stack_tables(
    tables: Sequence[Tabular],
) -> tuple[CompiledRowBackend, dict[str, NDArray], dict[str, bool]]:
    """The tables of all times, their rows filled up to one number and one length."""
    n_rows = round_up_size(max(len(table.rows.indptr) - 1 for table in tables))
    length = round_up_size(max(table.longest_row for table in tables))
    by_time = []
    for table in tables:
        row_lengths = np.zeros(n_rows, dtype=np.int64)
        row_lengths[: len(table.rows.indptr) - 1] = np.diff(table.rows.indptr)
        pairs = {"row_of": table.row_of.T, "reward": table.reward.T}
        by_time.append(fill_chunks(table.rows, row_lengths, length) | pairs)
    arrays = {name: np.stack([given[name] for given in by_time]) for name in by_time[0]}
    backend = CompiledRowBackend(n_rows, tables[0].n_actions, tables[0].shape)
    return backend, arrays, dict.fromkeys(arrays, True)


def _stack_stage(
    stages: Sequence[BuiltStage], location: str
) -> tuple[CompiledOperation, dict[str, NDArray], dict[str, bool]]:
    """The operation of a stage at all times, its arrays, and which have a slice for each time."""
    compiled = {stage.operation.compile(stage.depends_on_action) for stage in stages}
    distinct = [stage.arrays() for stage in dict.fromkeys(stages)]
    shapes = {tuple((key, values.shape) for key, values in arrays.items()) for arrays in distinct}
    if len(compiled) > 1 or len(shapes) > 1:
        requirement = "a stage must depend on the same axes at all times"
        raise ModelError(requirement, location=location)
    stacked = {}
    varies_with_time = {}
    for key, first in distinct[0].items():
        by_time = [arrays[key] for arrays in distinct]
        varies = not all(np.array_equal(array, first) for array in by_time)
        varies_with_time[key] = varies
        stacked[key] = np.stack(by_time) if varies else first
    return compiled.pop(), stacked, varies_with_time


def build_horizon(
    space: StateActionSpace,
    horizon: FiniteHorizon,
    stages: Sequence[Stage],
    feasible: Feasible,
    scratch: Mapping[str, Sequence] | None,
) -> ModelParts:
    """A staged model with a horizon; functions may name ``time``."""
    timed_space = _add_time_axis(space, horizon)
    mask = (
        None
        if feasible is None
        else build_feasible_mask(timed_space, _repeat_mask(space, horizon, feasible))
    )
    by_time = None if mask is None else mask.reshape(horizon.periods, space.grid.size, -1)
    ever_feasible = None if by_time is None else np.logical_or.reduce(by_time)
    timeless: dict[int, BuiltStage] = {}  # stages that do not name the time, compiled once

    def build_stage(stage: Stage, space: StateActionSpace) -> BuiltStage:
        if stage.names_time:
            return stage.build(space)
        if id(stage) not in timeless:
            if space.feasible is not None and ever_feasible is not None:
                space = replace(space, feasible=ever_feasible.T.reshape(space.feasible.shape))
            timeless[id(stage)] = stage.build(space)
        return timeless[id(stage)]

    periods: list[Dynamics] = []
    for t in range(horizon.periods):
        period_space = replace(space, time=t)
        period_mask = None if by_time is None else by_time[t]
        # The first period also compiles what time does not change. All others equal the second.
        with multiply_entry_counts({0: 1, 1: horizon.periods - 1}.get(t, 0)):
            periods.append(Staged.build(period_space, stages, period_mask, scratch, build_stage))
        if not any(stage.names_time for stage in stages):
            periods *= horizon.periods  # time does not matter
            break
    return _make_parts(space, timed_space, horizon, tuple(periods), mask)


def repeat_over_horizon(parts: ModelParts, horizon: FiniteHorizon) -> ModelParts:
    """A model whose periods are all alike, over a horizon."""
    timed_space = _add_time_axis(parts.space, horizon)
    mask = parts.feasible
    if mask is not None:
        mask = np.tile(mask, (horizon.periods, 1))
    timed_parts = _make_parts(
        parts.space, timed_space, horizon, (parts.dynamics,) * horizon.periods, mask
    )
    if parts.start is None:
        return timed_parts
    return replace(timed_parts, start=_start_at_time_zero(parts.start, horizon))


def _make_parts(
    space: StateActionSpace, timed_space: StateActionSpace, horizon: FiniteHorizon, periods, mask
) -> ModelParts:
    final = horizon.discount * _compute_final_reward(space, horizon)
    start = _start_at_time_zero(np.full(space.grid.size, 1 / space.grid.size), horizon)
    return ModelParts(timed_space, FiniteHorizonDynamics(timed_space, periods, final), mask, start)


def _start_at_time_zero(start: NDArray[np.float64], horizon: FiniteHorizon) -> NDArray[np.float64]:
    return np.concatenate([start, np.zeros((horizon.periods - 1) * start.size)])


def _add_time_axis(space: StateActionSpace, horizon: FiniteHorizon) -> StateActionSpace:
    """The state-action space with time as the first axis."""
    if TIME in (*space.grid.axes, *space.action_values):
        requirement = f"with a finite horizon neither axis nor action can be called {TIME!r}"
        raise ModelError(requirement)
    require_product(space.grid, "a finite horizon", error=ModelError)
    axes = dict(zip(space.grid.axes, space.grid.values, strict=True))
    grid = space.grid.with_axes({TIME: range(horizon.periods), **axes})
    return make_state_action_space(grid, space.actions, space.action_name)


def _repeat_mask(space: StateActionSpace, horizon: FiniteHorizon, feasible: GivenMask) -> GivenMask:
    """A mask of one period as a mask of all; a function as it is."""
    if callable(feasible):
        return feasible
    mask = np.asarray(require_unmasked(feasible, "feasible"))
    full = (*space.grid.shape, len(space.actions))
    if mask.shape not in (full, (space.grid.size, full[-1])):
        return mask
    return np.broadcast_to(mask.reshape(full), (horizon.periods, *full))


def _compute_final_reward(space: StateActionSpace, horizon: FiniteHorizon) -> NDArray[np.float64]:
    """(grid) the final reward, checked."""
    given = horizon.final
    subject = "the final value"
    shape = space.grid.shape
    if callable(given):
        names = {name: mesh[0, ..., 0] for name, mesh in space.mesh().items()}
        given = call_by_name(given, {name: names[name] for name in space.grid.axes}, subject)
    array = as_numbers(given, subject)
    array = array.reshape(shape) if array.shape == (space.grid.size,) else array
    try:
        values = np.broadcast_to(array, shape)
    except ValueError:
        requirement = f"{subject} must have the grid's shape {shape}"
        raise ModelError(requirement, value=f"has shape {array.shape}") from None
    raise_for_first(
        f"{subject} must be finite",
        ~np.isfinite(values).ravel(),
        space.grid.describe,
        lambda state: f"is {format_value(float(values.flat[state]))}",
        "states",
    )
    return values.copy()
