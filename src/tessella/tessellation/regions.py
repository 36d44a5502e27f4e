"""Shape of the regions: are they connected, are they orthogonally convex?

A region is *connected* when it is one cell, and *orthogonally convex* when every line parallel to
an axis meets it in one interval. Neither implies the other: a U is connected and not
orthogonally convex, two boxes that share no line are orthogonally convex and not connected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.errors import require_type
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.tessellate import Tessellation


@dataclass(frozen=True, eq=False)
class Connected(Evidence):
    """Whether each region is one cell.

    A violation pairs the first state of a region's largest cell with that of another of its cells.

    Attributes:
        components: (A,) cells of each action.
        islands: labels of the cells that are not the largest of their region.
    """

    components: NDArray[np.int64] = field(repr=False)
    islands: NDArray[np.int64] = field(repr=False)

    @property
    def claim(self) -> str:
        return "regions are connected"

    def _describe_violation(self, states: NDArray[np.int64]) -> str:
        t = self.tessellation
        places = " and ".join(t.grid.describe(s) for s in states)
        return f"{t.action_of(states[0])} at {places} in separate cells"


@dataclass(frozen=True, eq=False)
class Convex(Evidence):
    """Whether each line along an axis meets each region in one interval.

    A violation is the last state of one interval and the first state of the next one with the same
    action on the same line.
    """

    @property
    def claim(self) -> str:
        return "regions are orthogonally convex"

    def _describe_violation(self, states: NDArray[np.int64]) -> str:
        t = self.tessellation
        places = " and again at ".join(t.grid.describe(s) for s in states)
        return f"{t.action_of(states[0])} at {places}, not between"


def connected(tessellation: Tessellation) -> Connected:
    """Test whether each region is one cell."""
    require_type("connected", tessellation, Tessellation)
    actions = tessellation.cell_actions
    sizes = tessellation.cell_sizes
    ranked = np.lexsort((np.arange(len(actions)), -sizes, actions))
    others = np.flatnonzero(actions[ranked][1:] == actions[ranked][:-1]) + 1
    islands = np.sort(ranked[others])
    largest = np.full(len(tessellation.actions), -1)
    leads = np.setdiff1d(np.arange(len(actions)), islands, assume_unique=True)
    largest[actions[leads]] = leads
    first = _find_first_states(tessellation)
    pairs = np.stack([first[largest[actions[islands]]], first[islands]], axis=-1)
    counts = np.bincount(actions, minlength=len(tessellation.actions))
    return Connected(tessellation, pairs, counts, islands)


def convex(tessellation: Tessellation) -> Convex:
    """Test whether each region is orthogonally convex."""
    require_type("convex", tessellation, Tessellation)
    axes = range(tessellation.grid.ndim)
    return Convex(tessellation, np.concatenate([_find_returns(tessellation, k) for k in axes]))


def _find_first_states(tessellation: Tessellation) -> NDArray[np.int64]:
    first = np.empty(len(tessellation.cell_actions), dtype=np.int64)
    flat = tessellation.cells.ravel()
    # The last assignment wins, so the states are written from the last to the first.
    first[flat[::-1]] = np.arange(flat.size)[::-1]
    return first


def _find_returns(tessellation: Tessellation, axis: int) -> NDArray[np.int64]:
    """(m, 2) states where a line along ``axis`` leaves an action and where it comes back to it."""
    lines = np.moveaxis(tessellation.table, axis, -1)
    starts = np.ones(lines.shape, dtype=bool)
    starts[..., 1:] = np.moveaxis(tessellation.faces[axis], axis, -1)
    begin = np.flatnonzero(starts)
    end = np.append(begin[1:], lines.size) - 1
    key = (begin // lines.shape[-1]) * len(tessellation.actions) + lines[starts]
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    pairs = np.stack([end[order[again]], begin[order[again + 1]]], axis=-1)
    spots = np.unravel_index(pairs, lines.shape)
    return np.ravel_multi_index(
        (*spots[:axis], spots[-1], *spots[axis:-1]), tessellation.grid.shape
    )
