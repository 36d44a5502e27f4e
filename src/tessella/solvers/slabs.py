"""A model looked at in slabs: some places of one axis at a time, whatever the size of the grid.

A slab is a window (``mdp.stages.windows``) whose numbers are made when its turn comes and forgotten
after it. For the values V of an optimum and U of a policy pi it gives, state by state,

    T V - V,    T_pi U - U,    the margin at V,    what the action of pi loses at V,

so that bounds and figures over the whole grid come out of a loop that holds one slab.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled, in_float64, on_device
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.operation import places
from tessella.mdp.stages.staged import Staged
from tessella.mdp.stages.windows import Cut, cut, stages_of, window_program
from tessella.numerics import numerics
from tessella.solvers.driver import Engine
from tessella.solvers.kernels import best_two
from tessella.solvers.operators import Data, Operators
from tessella.solvers.result import Result

STATES = 1 << 22  # of a slab, about


class Judged(NamedTuple):
    """What a slab says of V and of the policy's U. All arrays are over its own places."""

    residual: Any  # T V - V
    policy_residual: Any  # T_pi U - U
    margin: Any  # best minus second-best action value at V
    lost: Any  # best minus the policy's


@dataclass(frozen=True, eq=False)
class Slab:
    """A slab of a grid."""

    index: tuple[slice, ...]  # its own states
    value: NDArray[np.float64]  # V ...
    policy_value: NDArray[np.float64]  # ... and U
    actions: NDArray[np.int32]
    judged: Judged


@dataclass(frozen=True)
class Ends:
    """The least and the largest value of a grid, and what is taken out of values before a sweep."""

    low: float
    high: float
    shift: float

    @property
    def both(self) -> NDArray[np.float64]:
        return np.array([self.low, self.high])


def cut_into_slabs(mdp: MDP, states: int = STATES) -> Cut:
    """How a model is cut into slabs of about so many states."""
    count = math.ceil(mdp.n_states / states)
    if not isinstance(mdp.dynamics, Staged):
        raise ModelError("a model of stages can be looked at in slabs", value="this is a table")
    if count == 1:
        return Cut(0, mdp.grid.shape[0], 1, 0, 0)
    longest = max(mdp.grid.shape)
    found = cut(mdp.dynamics, min(count, longest))
    if found is None:
        raise ModelError(
            "a model is looked at in slabs along an axis on which a period reaches only so far",
            value="every axis of this one has moves across most of it",
        )
    return found


class Slabs:
    """A solution and a policy's evaluation, slab by slab."""

    def __init__(self, best: Result, worth: Result, policy: Policy, mdp: MDP, cut: Cut) -> None:
        self.best, self.worth, self.policy, self.mdp, self.cut = best, worth, policy, mdp, cut
        assert isinstance(mdp.dynamics, Staged)
        self.dynamics, self.engine = mdp.dynamics, Engine(mdp, None)
        self.program = window_program(self.dynamics, cut)
        self.ends = self._ends(best), self._ends(worth)

    def own(self, k: int) -> tuple[slice, ...]:
        """The states of the k-th slab."""
        rows, length = self.cut.rows, self.cut.length
        along = slice(k * rows, min((k + 1) * rows, length))
        return (slice(None),) * self.cut.axis + (along,)

    @property
    def count(self) -> int:
        """Slabs that have places of their own: the last ones may stand off the end."""
        return -(-self.cut.length // self.cut.rows)

    def _ends(self, found: Result) -> Ends:
        low, high = np.inf, -np.inf
        for k in range(self.count):
            part = found.part("value", self.own(k))
            low, high = min(low, float(part.min())), max(high, float(part.max()))
        criterion = self.engine.data_with(None, None).criterion
        return Ends(low, high, float(criterion.split(np.array([low, high]))[1]))

    def rounding(self, ends: Ends) -> float:
        """eta: how far a computed backup may be off."""
        operators = Operators(self.program, self.engine.data_with(None, None)).around(ends.shift)
        return float(operators.rounding(ends.both - ends.shift, ends.shift))

    @in_float64
    def _judged(self, k: int) -> Judged:
        where = self.cut.axis, self.cut.first(k), self.cut.window
        stages = stages_of(self.dynamics, self.cut, k)
        arrays, feasible = on_device([stage.arrays() for stage in stages]), None
        mdp = self.mdp
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape)
            feasible = on_device(places(allowed, 1 + where[0], *where[1:]))
        data = self.engine.data_with(arrays, feasible)
        values = [
            self._around(found, k) - end.shift
            for found, end in zip((self.best, self.worth), self.ends, strict=True)
        ]
        taken = places(self.policy.table, *where)
        shifts = [np.float64(end.shift) for end in self.ends]
        found = judge(self.program, self.cut, data, *values, taken, *shifts)
        last = self.own(k)[-1]
        kept = (slice(None),) * self.cut.axis + (slice(last.stop - last.start),)
        return Judged(*(np.asarray(part)[kept] for part in found))

    def _around(self, found: Result, k: int) -> NDArray[np.float64]:
        """The values of a window; off the ends of the axis those of the nearest place."""
        first, length = self.cut.first(k), self.cut.length
        low, high = max(first, 0), min(first + self.cut.window, length)
        part = found.part("value", (slice(None),) * self.cut.axis + (slice(low, high),))
        return places(part, self.cut.axis, first - low, self.cut.window)

    def __iter__(self) -> Iterator[Slab]:
        for k in range(self.count):
            own = self.own(k)
            values = self.best.part("value", own), self.worth.part("value", own)
            yield Slab(own, *values, self.policy.table[own], self._judged(k))


@compiled("program", "cut")
def judge(program, cut: Cut, data: Data, value, worth, policy, shift, policy_shift) -> Judged:
    """The slab in the middle of a window, judged; values come without their shifts."""
    operators = Operators(program, data).around(shift)
    xp, q_of = numerics(value), operators.q(value)
    best, second = best_two(program, q_of, value)

    def pick(action, total):
        return xp.where(policy == action, q_of(action), total)

    chosen = over_actions(program, pick, xp.zeros(value.shape))
    own = Operators(program, data).around(policy_shift).sweep(policy, worth)
    found = best - value, own - worth, best - second, best - chosen
    middle = (slice(None),) * cut.axis + (slice(cut.below, cut.below + cut.rows),)
    return Judged(*(part[middle] for part in found))
