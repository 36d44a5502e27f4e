"""Dynamics over a finite horizon: time is the first axis of the states, and every period moves it.

With P_t and r_t the law and the rewards of period t, over states x without time,

    backup(w)[(t, x), a] = r_t(x, a) + sum_x' P_t(x' | x, a) w(t + 1, x'),      t < T - 1,

and in the last period what is final stands in for w. Periods are dynamics of their own, one object
where time does not matter, so that what is the same at all times is stored once. Solvers may work
on the whole, or one period at a time from the last (``at``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import ModelError, shown
from tessella.grid import StateGrid, unmasked
from tessella.mdp import checks
from tessella.mdp.dynamics import Dynamics, Lowered, Parts, Plain, Program, Steps
from tessella.mdp.scope import (
    TIME,
    Feasible,
    Period,
    Scope,
    call,
    feasible_mask,
    make_scope,
    repeated,
)
from tessella.mdp.stages.stage import Stage, StageNumbers
from tessella.mdp.stages.staged import Staged, StagedProgram
from tessella.mdp.tabular.plain import DENSE_ENTRIES, Table
from tessella.mdp.timed_tables import TimedTable, TimedTableProgram
from tessella.rounding import EPS, Added, Built, Mass

Said = ArrayLike | Callable[..., ArrayLike]  # a mask, or a function of axes and action
SMALL = 1 << 22  # probabilities of all distinct periods that are made into tables, from above
BY_PERIOD = 1 << 21  # states beyond which the whole is swept one period at a time, to save memory


@dataclass(frozen=True, eq=False)
class Timed(Dynamics):
    """Dynamics of every period of a horizon; made by the builders of ``MDP``.

    Attributes:
        scope: with time as the first axis.
        periods: (T) dynamics of each period, one object where they are the same.
        final: (states of a period) what the end pays, as of the last period: discounted by one.
    """

    scope: Scope
    periods: tuple[Dynamics, ...]
    final: NDArray[np.float64]

    @cached_property
    def distinct(self) -> list[Dynamics]:
        return list({id(period): period for period in self.periods}.values())

    @property
    def _states(self) -> int:
        """Of one period."""
        return self.final.size

    def identity(self) -> tuple:
        """What enters the fingerprint of a model: every distinct period once."""
        place = {id(period): i for i, period in enumerate(self.distinct)}
        return self.scope, [place[id(p)] for p in self.periods], self.distinct, self.final

    def row_mass(self) -> Mass:
        masses = [period.mass for period in self.distinct]
        return Mass(1.0, max(mass.over for mass in masses))  # after the last nothing goes on

    @property
    def interpolated(self) -> bool:
        return any(period.interpolated for period in self.distinct)

    @property
    def built(self) -> Built:
        if not self.small:
            return self.stored
        return self._worst([period.built for period in self.distinct])

    @property
    def stored(self) -> Built:
        return self._worst([period.stored for period in self.distinct])

    @property
    def written(self) -> Built:
        # What is final is paid in expectation, a product that a file holds rounded.
        worst = self._worst([period.written for period in self.distinct])
        return replace(worst, reward=worst.reward + EPS * (self.terms + 2) * self._final_scale)

    def _worst(self, each: Sequence[Built]) -> Built:
        rows = max(built.rows for built in each)
        # Discounting what is final has rounded it once.
        final = (rows + EPS) * self._final_scale
        return Built(rows, max(built.reward for built in each) + final)

    @property
    def _final_scale(self) -> float:
        return float(np.abs(self.final).max())

    @property
    def terms(self) -> int:
        return max(added.terms for added in self._added)

    @property
    def adjoint_terms(self) -> int:
        return max(added.adjoint_terms for added in self._added)

    @property
    def _added(self) -> list[Added]:
        """Of each distinct period; no tables are made for these where there would be too many."""
        return [
            period.through_stages
            if isinstance(period, Staged) and not self.small
            else Added(period.terms, period.adjoint_terms)
            for period in self.distinct
        ]

    @property
    def longest_row(self) -> int:
        return max(period.longest_row for period in self.distinct)

    @property
    def reward_scale(self) -> float:
        return max(period.reward_scale for period in self.distinct) + self._final_scale

    @property
    def small(self) -> bool:
        """Whether its periods are tables, or few enough numbers to be made into tables."""
        cells = min(self._states**2 * self.n_actions, DENSE_ENTRIES)  # a table may be held as dense
        staged = [period for period in self.distinct if isinstance(period, Staged)]
        return sum(max(period.entries, cells) for period in staged) <= SMALL and all(
            isinstance(period.lowered.program, Plain) for period in self.distinct
        )

    @cached_property
    def lowered(self) -> Lowered:
        """For NumPy where every period is a table, and compiled otherwise."""
        if not self.small:
            return self.lower()
        tables = [cast(Table, period.lowered.arrays) for period in self.periods]
        period = cast(Plain, self.periods[0].lowered.program)
        program = TimedTableProgram(self.n_actions, period)
        return Lowered(program, TimedTable(tables, self.final))

    def lower(self) -> Lowered:
        import jax

        from tessella.mdp.engine import on_device

        if len(self.distinct) == 1:
            low = self.distinct[0].compiled
            program, arrays = cast(Program, low.program), low.arrays
            timed = jax.tree.map(lambda _: False, arrays)
        else:
            program, arrays, timed = _stacked([_as_staged(period) for period in self.periods])
        flags = tuple(jax.tree.leaves(timed))
        large = self.scope.grid.size > BY_PERIOD
        whole = TimedProgram(program, len(self.periods), flags, large)
        return Lowered(whole, on_device({"periods": arrays, "final": self.final}))

    def to_sparse(self) -> list:
        import scipy.sparse as sp

        n, periods = self._states, len(self.periods)
        before = [period.to_sparse() for period in self.distinct]
        of = {id(period): matrices for period, matrices in zip(self.distinct, before, strict=True)}

        def whole(action: int):
            blocks = [of[id(period)][action] for period in self.periods[:-1]]
            inner = sp.block_diag(blocks, format="coo") if blocks else sp.coo_array((0, 0))
            entries = inner.data, (inner.row, inner.col + n)
            return sp.csr_array(entries, shape=(n * periods, n * periods))

        return [whole(action) for action in range(self.n_actions)]

    def reward_under(self, action: int) -> NDArray[np.float64]:
        paid = [period.reward_under(action) for period in self.periods]
        if self.final.any():
            paid[-1] = paid[-1] + self.periods[-1].to_sparse()[action] @ self.final.ravel()
        return np.concatenate(paid)

    def step(self, states, actions, rng) -> Steps:
        time, x = np.divmod(states, self._states)
        reached, paid = np.empty(len(states), np.int64), np.empty(len(states))
        ended, last = np.zeros(len(states), bool), time == len(self.periods) - 1
        for t in np.unique(time):
            at = np.flatnonzero(time == t)
            steps = self.periods[t].step(x[at], actions[at], rng)
            reached[at], paid[at], ended[at] = steps.states, steps.rewards, steps.ended
        there = last & ~ended  # what is final is for those who get to the end
        paid[there] += self.final.ravel()[reached[there]]
        return Steps(np.where(last, time, time + 1) * self._states + reached, paid, last | ended)


@dataclass(frozen=True)
class TimedProgram:
    """The compiled side: the program of a period, for all of them at once or for one.

    ``timed`` says of each of the period's arrays whether it has one slice for each time.
    """

    period: Program
    periods: int
    timed: tuple[bool, ...]
    large: bool  # swept one period at a time

    @property
    def n_actions(self) -> int:
        return self.period.n_actions

    def final(self, arrays):
        """What the end pays."""
        return arrays["final"]

    def at(self, arrays, time):
        """The arrays of one period."""
        return self._with(arrays, [a[time] for a in self._timed(arrays)])

    def tail(self, arrays, w_S, pay):
        import jax.numpy as jnp

        end = arrays["final"] if pay else jnp.zeros_like(w_S[0])
        after = jnp.concatenate([w_S[1:], end[None].astype(w_S.dtype)])
        return self._each(arrays, lambda own, w: self.period.tail(own, w, pay), after)

    def head(self, arrays, w, action, pay):
        return self._each(arrays, lambda own, v: self.period.head(own, v, action, pay), w)

    def follows(self, arrays) -> bool:
        return self.period.follows(self.at(arrays, 0))

    def head_under(self, arrays, w, policy, pay):
        def under(own, v, taken):
            return self.period.head_under(own, v, taken, pay)

        return self._each(arrays, under, w, policy)

    def _each(self, arrays, step, *by_time):
        """``step`` of each period's arrays and of slices by time, stacked."""
        import jax
        from jax import lax

        def one(slices):
            timed, *others = slices
            return step(self._with(arrays, timed), *others)

        slices = (self._timed(arrays), *by_time)
        return lax.map(one, slices) if self.large else jax.vmap(one)(slices)

    def _timed(self, arrays) -> list:
        import jax

        leaves = jax.tree.leaves(arrays["periods"])
        return [leaf for leaf, timed in zip(leaves, self.timed, strict=True) if timed]

    def _with(self, arrays, timed: list):
        """The period's arrays, with these in the places of those that depend on time."""
        import jax

        leaves, tree = jax.tree.flatten(arrays["periods"])
        own = iter(timed)
        kept = [next(own) if t else leaf for leaf, t in zip(leaves, self.timed, strict=True)]
        return jax.tree.unflatten(tree, kept)


def _as_staged(period: Dynamics) -> Staged:
    assert isinstance(period, Staged)  # nothing else is built for each time
    return period


def _stacked(periods: list[Staged]) -> tuple[StagedProgram, list, list]:
    """Program, arrays, and which of the arrays have a slice for each time."""
    operations, arrays, timed = [], [], []
    for stages in zip(*(period.stages for period in periods), strict=True):
        kinds = [stage.operation.compiled(stage.acts) for stage in stages]
        each = [stage.arrays() for stage in _once(stages)]
        alike = all(kind == kinds[0] for kind in kinds)
        if not alike or any(_shapes(a) != _shapes(each[0]) for a in each):
            i = len(operations) + 1
            raise ModelError(
                "a stage must depend on the same axes at all times", place=f"stage {i}"
            )
        operations.append(kinds[0])
        one = {key: _shared([a[key] for a in each]) for key in each[0]}
        arrays.append({key: values for key, (values, _) in one.items()})
        timed.append({key: depends for key, (_, depends) in one.items()})
    return StagedProgram(tuple(operations), periods[0].n_actions), arrays, timed


def _once(stages: Sequence[StageNumbers]) -> Sequence[StageNumbers]:
    """One stage for all times where it is one object."""
    return stages[:1] if all(stage is stages[0] for stage in stages) else stages


def _shapes(arrays: Mapping[str, NDArray]) -> dict[str, tuple[int, ...]]:
    return {key: values.shape for key, values in arrays.items()}


def _shared(each: list[NDArray]) -> tuple[NDArray, bool]:
    """The array of all times, or all of them stacked; and whether time matters."""
    if all(np.array_equal(array, each[0]) for array in each[1:]):
        return each[0], False
    return np.stack(each), True


def over_time(
    scope: Scope,
    horizon: FiniteHorizon,
    stages: Sequence[Stage],
    feasible: Feasible,
    scratch: Mapping[str, Sequence] | None,
) -> Parts:
    """A staged model with a horizon; functions may name ``time``."""
    wide = _with_time(scope, horizon)
    mask = None if feasible is None else feasible_mask(wide, _tiled(scope, horizon, feasible))
    by_time = None if mask is None else mask.reshape(horizon.periods, scope.grid.size, -1)
    make = Shared(None if by_time is None else np.logical_or.reduce(by_time))
    periods: list[Dynamics] = []
    for t in range(horizon.periods):
        moment = replace(scope, period=Period(t))
        allowed = None if by_time is None else by_time[t]
        # What the second period works out, all others do; what time does not change, the first did.
        with repeated({0: 1, 1: horizon.periods - 1}.get(t, 0)):
            periods.append(Staged.build(moment, stages, allowed, scratch, make))
        if make.all_of(stages):
            periods *= horizon.periods  # time does not matter
            break
    return _parts(scope, wide, horizon, tuple(periods), mask)


class Shared:
    """Makes the numbers of stages, once for those that do not name the time.

    ``ever`` (S, A) says which pairs can occur at some time.
    """

    def __init__(self, ever: NDArray[np.bool_] | None) -> None:
        self.ever = ever
        self.made: dict[int, StageNumbers] = {}

    def __call__(self, stage: Stage, moment: Scope) -> StageNumbers:
        if id(stage) in self.made:
            return self.made[id(stage)]
        assert moment.period is not None
        moment.period.named = False
        numbers = stage.numbers(moment)
        if moment.period.named:
            return numbers
        if moment.allowed is not None and self.ever is not None:
            ever = self.ever.T.reshape(moment.allowed.shape)
            numbers = stage.numbers(replace(moment, allowed=ever))
        self.made[id(stage)] = numbers
        return numbers

    def all_of(self, stages: Sequence[Stage]) -> bool:
        return all(id(stage) in self.made for stage in stages)


def with_horizon(parts: Parts, horizon: FiniteHorizon) -> Parts:
    """A model whose periods are all alike, over a horizon."""
    wide = _with_time(parts.scope, horizon)
    mask = parts.feasible
    if mask is not None:
        mask = np.tile(mask, (horizon.periods, 1))
    made = _parts(parts.scope, wide, horizon, (parts.dynamics,) * horizon.periods, mask)
    return made if parts.start is None else replace(made, start=_at_first(parts.start, horizon))


def _parts(scope: Scope, wide: Scope, horizon: FiniteHorizon, periods, mask) -> Parts:
    final = horizon.discount * _final(scope, horizon)
    start = _at_first(np.full(scope.grid.size, 1 / scope.grid.size), horizon)
    return Parts(wide, Timed(wide, periods, final), mask, start)


def _at_first(start: NDArray[np.float64], horizon: FiniteHorizon) -> NDArray[np.float64]:
    """A start at time 0."""
    return np.concatenate([start, np.zeros((horizon.periods - 1) * start.size)])


def _with_time(scope: Scope, horizon: FiniteHorizon) -> Scope:
    """The scope with time as the first axis."""
    if TIME in (*scope.grid.axes, *scope.named_actions):
        rule = f"with a finite horizon neither axis nor action can be called {TIME!r}"
        raise ModelError(rule)
    axes = dict(zip(scope.grid.axes, scope.grid.values, strict=True))
    grid = StateGrid({TIME: range(horizon.periods), **axes})
    return make_scope(grid, scope.actions, scope.action_name)


def _tiled(scope: Scope, horizon: FiniteHorizon, feasible: Said) -> Said:
    """A mask of one period as a mask of all; a function as it is."""
    if callable(feasible):
        return feasible
    mask = np.asarray(unmasked(feasible, "feasible"))
    full = (*scope.grid.shape, len(scope.actions))
    if mask.shape not in (full, (scope.grid.size, full[-1])):
        return mask
    return np.broadcast_to(mask.reshape(full), (horizon.periods, *full))


def _final(scope: Scope, horizon: FiniteHorizon) -> NDArray[np.float64]:
    """(grid) what the end pays, checked."""
    given, what, shape = horizon.final, "the final value", scope.grid.shape
    if callable(given):
        names = {name: mesh[0, ..., 0] for name, mesh in scope.mesh().items()}
        given = call(given, {name: names[name] for name in scope.grid.axes}, what)
    array = checks.as_numbers(given, what)
    try:
        wide = np.broadcast_to(
            array if array.shape != (scope.grid.size,) else array.reshape(shape), shape
        )
    except ValueError:
        rule = f"{what} must have the grid's shape {shape}"
        raise ModelError(rule, value=f"has shape {array.shape}") from None
    checks.refuse(
        f"{what} must be finite",
        ~np.isfinite(wide),
        lambda place: scope.grid.describe(int(np.ravel_multi_index(place, shape))),
        lambda place: f"is {shown(float(wide[place]))}",
        "states",
    )
    return wide.copy()
