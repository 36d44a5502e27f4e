"""On what does the action depend?

    independent   pi(s) = pi(s + e_k) for all neighbours along axis k: no face lies across it
    through sum   pi is a function of x_i + x_j + ... and of the axes that are not in the sum

An axis on which the action does not depend has nothing to say about it: it rises, falls and has
thresholds there only as any constant does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessella.errors import require_type
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.lines import build_lines
from tessella.tessellation.tessellate import Tessellation


@dataclass(frozen=True, eq=False)
class Independent(Evidence):
    """Whether the action is the same all along an axis; violations are neighbours that differ.

    Attributes:
        axis: the axis.
    """

    axis: str

    @property
    def claim(self) -> str:
        return f"{self.tessellation.action_name} does not depend on {self.axis}"


@dataclass(frozen=True, eq=False)
class ThroughSum(Evidence):
    """Whether of some axes only their sum matters; violations have one sum and act differently.

    Attributes:
        axes: the axes of the sum.
    """

    axes: tuple[str, ...]

    @property
    def claim(self) -> str:
        *most, last = self.axes
        named = f"{', '.join(most)} and {last}"
        sum_of = " + ".join(self.axes)
        return f"{self.tessellation.action_name} depends on {named} only by {sum_of}"


def independent(tessellation: Tessellation, axis: str) -> Independent:
    """Test whether the action is the same all along ``axis``."""
    require_type("independent", tessellation, Tessellation)
    faces = tessellation.face_states(tessellation.grid.axis(axis))
    return Independent(tessellation, faces, axis)


def through_sum(tessellation: Tessellation, axes: tuple[str, ...]) -> ThroughSum:
    """Test whether the action depends on ``axes`` through their sum alone."""
    require_type("through_sum", tessellation, Tessellation)
    grid_lines = build_lines(tessellation.grid, tuple(axes))
    first = np.repeat(
        grid_lines.groups, np.diff(grid_lines.groups, append=len(grid_lines.position))
    )
    flat = tessellation.table.ravel()
    differs = np.nonzero(flat[grid_lines.states] != flat[grid_lines.states[..., first]])
    pairs = np.stack([grid_lines.states[..., first][differs], grid_lines.states[differs]], axis=-1)
    return ThroughSum(tessellation, pairs[np.argsort(pairs[:, 0], kind="stable")], tuple(axes))
