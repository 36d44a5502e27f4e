"""Does the policy switch between actions at thresholds along an axis?

Threshold form: there is one order of the actions such that on every line along the axis the policy
runs through some of them in that order, each on one interval. Draw an arrow a -> b for every face
across the axis from action a to action b. If the arrows have no cycle, a topological order of them
is such an order; a line that breaks the form, or two lines that disagree, close a cycle. So the
test is whether a graph of at most A nodes has a cycle. A monotone policy is the special case where
the natural order of the actions will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tessella.errors import require_type
from tessella.tessellation.evidence import NO_VIOLATIONS, Evidence
from tessella.tessellation.tessellate import Tessellation


@dataclass(frozen=True, eq=False)
class Threshold(Evidence):
    """Whether the policy has threshold form; the violation is one cycle of faces, (1, 2 faces).

    Attributes:
        axis: the axis.
        order: indices of the actions in use, in the order along the axis; empty if there is none.
    """

    axis: str
    order: tuple[int, ...]

    @property
    def claim(self) -> str:
        return f"{self.tessellation.action_name} switches at thresholds in {self.axis}"

    def _describe_violation(self, states: NDArray[np.int64]) -> str:
        t = self.tessellation
        pairs = states.reshape(-1, 2)
        first = "; ".join(
            f"{t.actions[t.table.flat[s]]} to {t.actions[t.table.flat[u]]} after "
            f"{t.grid.describe(s)}"
            for s, u in pairs[:2]
        )
        return first + (f"; and {len(pairs) - 2} more" if len(pairs) > 2 else "")


def threshold(tessellation: Tessellation, axis: str) -> Threshold:
    """Test threshold form along ``axis``."""
    require_type("threshold", tessellation, Tessellation)
    pairs = tessellation.face_states(tessellation.grid.axis(axis))
    arrows = tessellation.table.ravel()[pairs]
    distinct, first = np.unique(arrows, axis=0, return_index=True)
    by_rank = sorted(np.unique(tessellation.cell_actions), key=lambda a: tessellation.ranks[a])
    graph = {int(a): [int(p) for p, q in distinct if q == a] for a in by_rank}
    try:
        order = tuple(TopologicalSorter(graph).static_order())
    except CycleError as found:
        cycle = found.args[1]
        face_index = {(int(p), int(q)): i for (p, q), i in zip(distinct, first, strict=True)}
        steps = [face_index[step] for step in pairwise(cycle)]
        return Threshold(tessellation, pairs[steps].reshape(1, -1), axis, ())
    return Threshold(tessellation, NO_VIOLATIONS, axis, order)
