"""Is the action monotone along an axis?

With r the order of the actions, ``pi`` rises along axis k when r(pi(s)) <= r(pi(s + e_k)) for all
neighbours s, s + e_k. Neighbours are enough: a pair further apart in the wrong order has
neighbours in the wrong order between them. Only faces can violate it, so only faces are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tessella.errors import ModelError
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.tessellate import Tessellation

Direction = Literal["rises", "falls"]


@dataclass(frozen=True, eq=False)
class Monotone(Evidence):
    """Whether the action rises (or falls) along an axis; violations are neighbours, in axis order.

    Attributes:
        axis: the axis.
        direction: "rises" or "falls", both in the weak sense.
    """

    axis: str
    direction: Direction

    @property
    def claim(self) -> str:
        return f"{self.tessellation.action_name} {self.direction} in {self.axis}"


def monotone(tessellation: Tessellation, axis: str, direction: Direction | None = None) -> Monotone:
    """Test monotonicity along ``axis``; with no direction, the one that has fewer violations.

    Numbers are compared by size, named actions by their place in ``actions``.
    """
    if direction not in (None, *get_args(Direction)):
        raise ModelError("an action rises or falls", "direction", f"is {direction!r}")
    pairs = tessellation.face_states(tessellation.grid.axis(axis))
    rank = tessellation.ranks[tessellation.table.ravel()[pairs]]
    rises = rank[:, 0] < rank[:, 1]
    if direction is None:
        direction = "rises" if 2 * rises.sum() >= len(rises) else "falls"
    return Monotone(tessellation, pairs[rises == (direction == "falls")], axis, direction)
