"""Is the action monotone along an axis, or along a sum of axes?

With r the order of the actions and z the position on a line (see `lines`), ``pi`` rises when
z(s) < z(s') implies r(pi(s)) <= r(pi(s')). Next groups are enough: with g and g' two groups of
equal z that follow each other, it rises when max r over g <= min r over g', since then
max g <= min g' <= max g' <= min g'' and so on. States of one z are not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_type
from tessella.tessellation.evidence import NO_VIOLATIONS, Evidence, require_numeric_actions
from tessella.tessellation.lines import Along, GridLines, build_lines
from tessella.tessellation.tessellate import Tessellation

Direction = Literal["rises", "falls"]


@dataclass(frozen=True, eq=False)
class Monotone(Evidence):
    """Whether the action rises (or falls) along an axis; violations are neighbours, lower z first.

    Attributes:
        axis: the axis, or the sum of axes as ``stock + transit``.
        direction: "rises" or "falls", both in the weak sense; "stays" where no state of a line
            acts differently from another, whatever was asked.
    """

    axis: str
    direction: Literal["rises", "falls", "stays"]

    @property
    def claim(self) -> str:
        verb = "does not depend on" if self.direction == "stays" else f"{self.direction} in"
        return f"{self.tessellation.action_name} {verb} {self.axis}"


def monotone(
    tessellation: Tessellation, axis: Along, direction: Direction | None = None
) -> Monotone:
    """Test monotonicity along an axis, or a sum of axes given as a tuple of their names.

    Actions must be numbers. Without a direction, the one that has fewer violations is tested.
    """
    require_type("monotone", tessellation, Tessellation)
    if direction not in (None, *get_args(Direction)):
        raise ArgumentError(
            "an action rises or falls", location="direction", value=f"is {direction!r}"
        )
    require_numeric_actions(tessellation, "monotonicity")
    grid_lines = build_lines(tessellation.grid, axis)
    rank = tessellation.ranks[tessellation.table.ravel()[grid_lines.states]]
    if (rank == rank[..., :1]).all():
        return Monotone(tessellation, NO_VIOLATIONS, grid_lines.name, "stays")
    # Falling ranks are rising ranks counted from the other end.
    violations_of = {
        "rises": lambda: _find_drops(grid_lines, rank),
        "falls": lambda: _find_drops(grid_lines, rank.max() - rank),
    }
    violations = {
        candidate: violations_of[candidate]()
        for candidate in violations_of
        if direction in (None, candidate)
    }
    chosen = min(violations, key=lambda candidate: len(violations[candidate]))
    return Monotone(tessellation, violations[chosen], grid_lines.name, chosen)  # type: ignore[arg-type]


def _find_drops(grid_lines: GridLines, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n, 2) states of next groups whose ranks fall: a highest one, and a lowest one after it."""
    m = len(grid_lines.position)
    position = np.arange(m)
    # Rank and place in one number, so that an extreme says where it is: the first such place.
    highest = np.maximum.reduceat(rank * m + (m - 1 - position), grid_lines.groups, axis=-1)
    lowest = np.minimum.reduceat(rank * m + position, grid_lines.groups, axis=-1)
    drop = np.nonzero(highest[..., :-1] // m > lowest[..., 1:] // m)
    spots = m - 1 - highest[..., :-1][drop] % m, lowest[..., 1:][drop] % m
    pairs = np.stack([grid_lines.states[(*drop[:-1], spot)] for spot in spots], axis=-1)
    return pairs[np.argsort(pairs[:, 0], kind="stable")]
