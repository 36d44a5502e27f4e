"""A model told back: what happens in one period, in the order of events, and how large it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Dynamics
from tessella.mdp.model import MDP
from tessella.mdp.outcomes import landing, law, leaves, spreads
from tessella.mdp.stages.move import Matrix
from tessella.mdp.stages.operation import Operation, Reach
from tessella.mdp.stages.pay import Stay
from tessella.mdp.stages.reward import ExpectedReward
from tessella.mdp.stages.scratch import Open, Resting
from tessella.mdp.stages.slices import Slices
from tessella.mdp.stages.stage import StageNumbers
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.tabular import Tabular
from tessella.mdp.timed import Timed

NOTHING = 1e-12  # of the largest reward: what rounding may leave of none


def events(mdp: MDP) -> list[str]:
    """One sentence for each event of a period."""
    dynamics, name, axes, time = mdp.dynamics, mdp.action_name, mdp.grid.axes, ""
    periods: Sequence[Dynamics] = [dynamics]
    if isinstance(dynamics, Timed):
        periods, time, axes = dynamics.distinct, axes[0], axes[1:]
    if not isinstance(periods[0], Staged):
        rows = periods[0].rows if isinstance(periods[0], Tabular) else None
        entries = "" if rows is None else f" ({rows.nnz:,} entries)"
        return [f"the next state is drawn from the row of state and {name}{entries}"]
    told = []
    for stages in zip(*(p.stages for p in periods if isinstance(p, Staged)), strict=False):
        event = _Event(tuple(dict.fromkeys(stages)), axes, name, time)
        told.append(str(event))
        axes = event.axes_after
    return told


@dataclass(frozen=True)
class _Event:
    """A stage, as it is in each period that differs; scratch axes are among its ``axes``."""

    stages: tuple[StageNumbers, ...]
    axes: tuple[str, ...]
    action: str
    time: str

    @property
    def operation(self) -> Operation:
        return self.stages[0].operation

    @property
    def axes_after(self) -> tuple[str, ...]:
        return self.operation.grid.axes if isinstance(self.operation, Resting) else self.axes

    def __str__(self) -> str:
        if isinstance(self.operation, Stay):
            return f"{self._payment()}; the state stays"
        if isinstance(self.operation, Resting):
            return self._within(self.operation)
        what, signs = self._change(), self._signs()
        return f"{what}; it {' or '.join(signs)}" if signs else what

    def _signs(self) -> list[str]:
        """Whether it pays, costs, or both, each in some state."""
        paid = [_factors(stage)[0] for stage in self.stages if stage.reward is not None]
        low = min((float(np.min(numbers)) for numbers in paid), default=0.0)
        high = max((float(np.max(numbers)) for numbers in paid), default=0.0)
        small = NOTHING * max(-low, high)
        return ["pays"] * (high > small) + ["costs"] * (low < -small)

    def _payment(self) -> str:
        """What a stage pays in which nothing moves."""
        done = [{"pays": "paid", "costs": "charged"}[sign] for sign in self._signs()]
        given = self._along(_factors)
        on = f" that depends on {_together(given)}" if given else ""
        return f"an amount{on} is {' or '.join(done)}" if done else "nothing is paid"

    def _within(self, operation: Resting) -> str:
        """Of coordinates that exist within a period only: they begin, or end."""
        if not isinstance(operation, Open):
            gone = self.axes[operation.grid.ndim :]
            return f"{_together(gone)} {_verb(gone, 'is', 'are')} forgotten"
        known, grid = len(self.axes), operation.grid
        new = zip(grid.axes[known:], grid.values[known:], strict=True)
        begun = _together([f"{axis} begins at {values[0]}" for axis, values in new])
        return f"{begun}, known within the period only"

    def _change(self) -> str:
        """What changes, and by what: chance, the action, other coordinates."""
        moved, noise = self._moved(), self.stages[0].noise
        if noise is not None and len(noise[1]) > 1:
            return self._drawn(noise[0], len(noise[1]), moved)
        if not moved:
            return "the state stays"
        if noise is None and isinstance(self.operation, Matrix | Slices):
            return self._stepped(moved)
        return f"{_together(moved)} {self._set(moved)}"

    def _drawn(self, noise: str, count: int, moved: list[str]) -> str:
        """Of a noise: what its law depends on, what it changes, and what changes without it."""
        drawn = [axis for axis in moved if self._any(spreads, axis)]
        others = [axis for axis in moved if axis not in drawn and self._any(leaves, axis)]
        law, acts = self._given(), self.action in self._from(drawn)
        chances = f", chances by {_together(law)}" if law else ""
        what = f"changes {_together(drawn)}" if drawn else "is drawn"
        told = [f"{noise} ({count} outcomes{chances}) {what}"]
        told += [f"depending on {self.action}"] * acts
        if others:
            itself = set(self._from(others)) <= set(others)
            does = _verb(others, "moves on", "move on") if itself else self._set(others)
            told.append(f"while {_together(others)} {does}")
        return ", ".join(told if drawn or others else [*told, "the state stays"])

    def _stepped(self, moved: list[str]) -> str:
        """Of a Markov chain: its rows may depend on more than its own coordinate."""
        given = [name for name in self._given() if name not in moved]
        on = f", depending on {_together(given)}" if given else ""
        laws = [law(stage.operation) for stage in self.stages]
        chance = " by chance" * any(((p > 0) & (p < 1)).any() for p in laws)
        return f"{_together(moved)} moves on{chance}{on}"

    def _set(self, axes: list[str]) -> str:
        given = self._from(axes)
        value = _verb(axes, "gets a new value", "get new values")
        return f"{value}, from {_together(given)}" if given else value

    def _given(self) -> list[str]:
        """What the chances depend on."""
        return self._along(lambda stage: [np.moveaxis(law(stage.operation), 1, -1)])

    def _from(self, axes: list[str]) -> list[str]:
        """What new coordinates depend on, but for the outcome."""

        def places(stage: StageNumbers) -> list[NDArray]:
            own = [landing(stage.operation, self.axes.index(axis)) for axis in axes]
            return [np.moveaxis(along, 1, -1) for along in own]

        return self._along(places)

    def _any(self, test: Callable[[Operation, int], bool], axis: str) -> bool:
        return any(test(stage.operation, self.axes.index(axis)) for stage in self.stages)

    def _moved(self) -> list[str]:
        still, own = Reach(), [stage.operation for stage in self.stages]
        return [
            axis
            for k, axis in enumerate(self.axes)
            if any(operation.reach(k) != still for operation in own)
        ]

    def _along(self, numbers: Callable[[StageNumbers], list[NDArray]]) -> list[str]:
        """By which of axes, time and action the (A | 1, *broadcast, ...) numbers differ."""
        names, first, found = (self.action, *self.axes), numbers(self.stages[0]), set()
        for own in map(numbers, self.stages):
            found |= {name for array in own for k, name in enumerate(names) if _differs(array, k)}
            found |= set() if _same(own, first) else {self.time}
        return [name for name in (*self.axes, self.time, self.action) if name in found]


def _factors(stage: StageNumbers) -> list[NDArray]:
    """(A | 1, *broadcast, ...) what a stage pays, and the probabilities that it is paid with."""
    reward = stage.reward
    if isinstance(reward, ExpectedReward):
        return [reward.reward, reward.probs]
    return [] if reward is None else [reward]


def _differs(array: NDArray, axis: int) -> bool:
    return array.shape[axis] > 1 and bool((array != array.take([0], axis)).any())


def _same(some: list[NDArray], others: list[NDArray]) -> bool:
    """Whether open meshes hold the same numbers, whatever their lengths."""
    pairs = zip(some, others, strict=False)
    return len(some) == len(others) and all(bool((a == b).all()) for a, b in pairs)


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return many if len(names) > 1 else one


def _together(names: Sequence[str]) -> str:
    """``stock, regime and order``."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def bytes_of(dynamics: Dynamics) -> int:
    """Bytes of the arrays that tell what happens."""
    if isinstance(dynamics, Timed):
        return dynamics.final.nbytes + sum(map(bytes_of, dynamics.distinct))
    if isinstance(dynamics, Staged):
        arrays = [array for stage in dynamics.stages for array in stage.arrays().values()]
    elif isinstance(dynamics, Tabular):
        rows = dynamics.rows
        arrays = [rows.data, rows.indices, rows.indptr, dynamics.row_of, dynamics.reward]
    else:
        arrays = []
    return sum(array.nbytes for array in arrays)


def widest(dynamics: Dynamics) -> int:
    """Numbers of the largest array that a period goes through, scratch axes included."""
    if isinstance(dynamics, Timed):
        return len(dynamics.periods) * max(map(widest, dynamics.distinct))
    return dynamics.widest if isinstance(dynamics, Staged) else math.prod(dynamics.shape)
