"""Windows of a staged model: some places of one axis, with those around them that matter.

A period moves a state along an axis by no more than its reach: so many places ``below``, so many
``above``. So a backup of ``rows`` neighbouring places needs the values of

    below + rows + above

of them and no others. Worked out on such a window alone, what comes out near its two ends is wrong,
since stages stop there that would go on; the ``rows`` in its middle are right. An axis is cut into
windows of one length, so the last of them may stand partly off its end: what is there is a copy of
the last place, which no state of the model reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.mdp.dynamics import Dynamics
from tessella.mdp.stages.stage import StageNumbers
from tessella.mdp.stages.staged import Staged, StagedProgram, program_of
from tessella.mdp.stages.tiling import tiling

MARGIN = 0.25  # of its rows: how much may stand around them along the slowest axis


@dataclass(frozen=True)
class Cut:
    """How an axis is cut into windows."""

    axis: int
    length: int  # of the axis
    count: int  # of windows
    below: int
    above: int

    @property
    def rows(self) -> int:
        """Places of the axis that a window is made for."""
        return -(-self.length // self.count)

    @property
    def window(self) -> int:
        """Places that it looks at."""
        return self.below + self.rows + self.above

    @property
    def padded(self) -> int:
        """Places of the axis with those off its end."""
        return self.rows * self.count

    @property
    def pays(self) -> bool:
        """Whether a window is smaller than the whole."""
        return self.window < self.length

    def first(self, k: int) -> int:
        """Where the k-th window begins, perhaps before the axis."""
        return k * self.rows - self.below


def cut(dynamics: Dynamics, count: int) -> Cut | None:
    """Into ``count`` windows, along the slowest axis that has little around them; None if none.

    Where every axis has much, the one that has least is taken.
    """
    if not isinstance(dynamics, Staged):
        return None
    found = []
    for axis, length in enumerate(dynamics.shape):
        reach = dynamics.reach(axis)
        if reach is not None and count <= length:
            found.append(Cut(axis, length, count, *reach))
    paying = [one for one in found if one.pays]
    near = [one for one in paying if one.below + one.above <= MARGIN * one.rows]
    return min(near or paying, key=_around if not near else _place, default=None)


def _around(cut: Cut) -> float:
    return cut.window / cut.rows


def _place(cut: Cut) -> int:
    return cut.axis


def stages_of(dynamics: Staged, cut: Cut, k: int) -> tuple[StageNumbers, ...]:
    """The stages on the k-th window."""
    return tuple(stage.window(cut.axis, cut.first(k), cut.window) for stage in dynamics.stages)


def window_program(dynamics: Staged, cut: Cut) -> StagedProgram:
    """The program that all windows share."""
    stages = stages_of(dynamics, cut, 0)
    shape = stages[0].operation.shape
    return program_of(stages, tiling(shape), dynamics.n_actions, anywhere=True)
