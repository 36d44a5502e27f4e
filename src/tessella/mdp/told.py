"""A model told back: what happens in one period, in the order of events, and how large it is."""

from __future__ import annotations

import math

from tessella.mdp.dynamics import Dynamics
from tessella.mdp.model import MDP
from tessella.mdp.stages.decide import Gather
from tessella.mdp.stages.operation import Operation
from tessella.mdp.stages.pay import Stay
from tessella.mdp.stages.stage import StageNumbers
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.tabular import Tabular
from tessella.mdp.timed import Timed


def events(mdp: MDP) -> list[str]:
    """One sentence for each event of a period."""
    dynamics, name = mdp.dynamics, mdp.action_name
    by_time = isinstance(dynamics, Timed)
    one: Dynamics = dynamics.periods[0] if isinstance(dynamics, Timed) else dynamics
    if not isinstance(one, Staged):
        entries = f" ({one.rows.nnz:,} entries)" if isinstance(one, Tabular) else ""
        return [f"the next state is drawn from the row of state and {name}{entries}"]
    axes = mdp.grid.axes[1:] if by_time else mdp.grid.axes
    return [_told(stage, axes, name, mdp.minimise) for stage in one.stages]


def _told(stage: StageNumbers, axes: tuple[str, ...], action: str, costs: bool) -> str:
    operation = stage.operation
    if isinstance(operation, Stay):
        what = "nothing moves"
    elif isinstance(operation, Gather):
        what = f"{_axis(operation, axes)} is set to a new value"
    elif stage.noise is not None:
        across = getattr(operation, "axis", None)
        moved = "the state" if across is None else _axis(operation, axes)
        count = len(stage.noise[1])
        drawn = f"{stage.noise[0]} ({count} outcomes) moves {moved}"
        what = drawn if count > 1 else f"{moved} moves"
    elif hasattr(operation, "axis"):
        what = f"{_axis(operation, axes)} moves on by chance"
    else:
        what = "coordinates within the period begin or end"
    what += f", by {action}" if operation.acts else ""
    if stage.reward is not None:
        what += f"; it {'costs' if costs else 'pays'}"
    return what


def _axis(operation: Operation, axes: tuple[str, ...]) -> str:
    place = int(getattr(operation, "axis", -1))
    return axes[place] if 0 <= place < len(axes) else "a coordinate within the period"


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
