"""A model told back: what happens in one period, in the order of events, and how large it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Dynamics
from tessella.mdp.model import MDP
from tessella.mdp.stages.between import Blend
from tessella.mdp.stages.decide import Gather
from tessella.mdp.stages.joint import Joint
from tessella.mdp.stages.move import Matrix
from tessella.mdp.stages.operation import Operation, Reach
from tessella.mdp.stages.pay import Stay
from tessella.mdp.stages.reward import ExpectedReward
from tessella.mdp.stages.scatter import Scatter
from tessella.mdp.stages.scratch import Open, Resting
from tessella.mdp.stages.slices import Slices
from tessella.mdp.stages.stage import StageNumbers
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.tabular import Tabular
from tessella.mdp.timed import Timed

NOTHING = 1e-12  # of the largest reward: what rounding may leave of none


def events(mdp: MDP) -> list[str]:
    """One sentence for each event of a period."""
    dynamics, name, axes = mdp.dynamics, mdp.action_name, mdp.grid.axes
    periods: Sequence[Dynamics] = [dynamics]
    if isinstance(dynamics, Timed):
        periods, axes = dynamics.distinct, axes[1:]
    if not isinstance(periods[0], Staged):
        rows = periods[0].rows if isinstance(periods[0], Tabular) else None
        entries = "" if rows is None else f" ({rows.nnz:,} entries)"
        return [f"the next state is drawn from the row of state and {name}{entries}"]
    told = []
    for stages in zip(*(p.stages for p in periods if isinstance(p, Staged)), strict=False):
        event = _Event(tuple(dict.fromkeys(stages)), axes, name)
        told.append(str(event))
        axes = event.axes_after
    return told


@dataclass(frozen=True)
class _Event:
    """A stage, as it is in each period that differs; scratch axes are among its ``axes``."""

    stages: tuple[StageNumbers, ...]
    axes: tuple[str, ...]
    action: str

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
        given = self._along(array for stage in self.stages for array in _factors(stage))
        on = f" that depends on {_together(given)}" if given else ""
        return f"an amount{on} is {' or '.join(done)}" if done else "nothing is paid"

    def _within(self, operation: Resting) -> str:
        """Of coordinates that exist within a period only: they begin, or end."""
        if not isinstance(operation, Open):
            gone = self.axes[operation.grid.ndim :]
            return f"{_together(gone)} {'are' if len(gone) > 1 else 'is'} forgotten"
        known, grid = len(self.axes), operation.grid
        new = zip(grid.axes[known:], grid.values[known:], strict=True)
        begun = _together([f"{axis} begins at {values[0]}" for axis, values in new])
        return f"{begun}, known within the period only"

    def _change(self) -> str:
        """What changes, and by what: chance, the action, other coordinates."""
        moved, noise = self._moved(), self.stages[0].noise
        by_action = f", depending on {self.action}" if self._acts else ""
        if noise is not None and len(noise[1]) > 1:
            what = f"changes {_together(moved)}" if moved else "is drawn, the state stays"
            return f"{noise[0]} ({len(noise[1])} outcomes) {what}{by_action}"
        if not moved:
            return "the state stays"
        if noise is None and isinstance(self.operation, Matrix | Slices):
            return f"{_together(moved)} moves on by chance{by_action}"
        given = self._along(array for stage in self.stages for array in _map(stage.operation))
        value = "get new values" if len(moved) > 1 else "gets a new value"
        told = f"{_together(moved)} {value}"
        return f"{told}, from {_together(given)}" if given else told

    def _moved(self) -> list[str]:
        still, own = Reach(), [stage.operation for stage in self.stages]
        return [
            axis
            for k, axis in enumerate(self.axes)
            if any(operation.reach(k) != still for operation in own)
        ]

    @property
    def _acts(self) -> bool:
        return any(stage.operation.acts for stage in self.stages)

    def _along(self, arrays: Iterator[NDArray]) -> list[str]:
        """Names of the axes, and of the action, along which (A | 1, *broadcast) numbers differ."""
        names = (self.action, *self.axes)
        found = {name for array in arrays for k, name in enumerate(names) if _differs(array, k)}
        return [name for name in (*self.axes, self.action) if name in found]


def _factors(stage: StageNumbers) -> list[NDArray]:
    """(A | 1, *broadcast, ...) what a stage pays, and the probabilities that it is paid with."""
    reward = stage.reward
    if isinstance(reward, ExpectedReward):
        return [reward.reward, reward.probs]
    return [] if reward is None else [reward]


def _map(operation: Operation) -> Iterator[NDArray]:
    """(A | 1, *broadcast, ...) what decides where an operation without chance leads."""
    shape = operation.shape
    if isinstance(operation, Gather):
        yield operation.target
    elif isinstance(operation, Blend):
        yield np.moveaxis(operation.target, 1, -1)
        yield np.moveaxis(operation.probs, 1, -1)
    elif isinstance(operation, Joint):
        yield np.moveaxis(operation.target, 1, -1)
    elif isinstance(operation, Slices):
        to = operation.pad[operation.offsets[:, :1] + np.arange(shape[operation.axis])]
        yield np.expand_dims(to, [k + 1 for k in range(len(shape)) if k != operation.axis])
    elif isinstance(operation, Scatter):
        for axis in range(len(shape)):
            if operation.reach(axis) != Reach():
                to = operation.target // math.prod(shape[axis + 1 :]) % shape[axis]
                yield np.moveaxis(to, 1, -1)


def _differs(array: NDArray, axis: int) -> bool:
    return array.shape[axis] > 1 and bool((array != array.take([0], axis)).any())


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
