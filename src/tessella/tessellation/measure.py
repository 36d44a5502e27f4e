"""How complicated a tessellation is.

With S the states, E the grid edges, B the faces (see `tessellate`):

    boundary length      L     = |B| / |E|
    boundary fraction    F     = |boundary states| / |S|
    boundary components  C_B   = connected components of the set of boundary states
    region components    C_R   = number of cells
    corner index         kappa = K / max(|B|, 1), K = boundary states with faces along two axes

All five are the paper's on two axes, and mean the same on any number. A corner touches at least
two faces and a face at most two corners, so 0 <= kappa <= 1; on one axis kappa = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, require_type
from tessella.tessellation.tessellate import (
    Rim,
    Tessellation,
    count_touched_axes,
    find_cells,
    neighbour_slices,
    trim,
)


@dataclass(frozen=True, eq=False)
class Geometry:
    """The geometry of one tessellation. ``A`` actions, ``n`` cells.

    The paper's K is "the number of boundary states having at least one horizontal and one vertical
    boundary neighbor". Two readings are possible. `corner_index` reads *a neighbour across a face*:
    the state acts differently from a horizontal and from a vertical neighbour, so a straight
    boundary has no corners and the index lies in 0..1. `corner_index_by_states` reads *a neighbour
    that is a boundary state itself*: then every state along a straight boundary counts (its
    horizontal neighbour across the face, its vertical ones along it) and the index exceeds 1, which
    is neither a corner nor normalised. The first is therefore taken as the meaning.

    Attributes:
        tessellation: what was measured; without its rim, if one was left out.
        boundary_length: L, share of grid edges that are faces; 0 where there are no edges.
        boundary_fraction: F, share of states that are boundary states.
        boundary_components: C_B.
        region_components: C_R.
        corner_index: kappa.
        corner_index_by_states: kappa in the second reading.
        faces_per_axis: axis name to number of faces across it.
        edges_per_axis: axis name to number of grid edges along it.
        volumes: (A,) states of each action.
        components: (A,) cells of each action, summing to C_R.
        cell_sizes: (n,) states of each cell, as numbered in the tessellation.
    """

    tessellation: Tessellation
    boundary_length: float
    boundary_fraction: float
    boundary_components: int
    region_components: int
    corner_index: float
    corner_index_by_states: float
    faces_per_axis: dict[str, int]
    edges_per_axis: dict[str, int]
    volumes: NDArray[np.int64] = field(repr=False)
    components: NDArray[np.int64] = field(repr=False)
    cell_sizes: NDArray[np.int64] = field(repr=False)

    @property
    def faces(self) -> int:
        """``|B|``: edges whose two states get different actions."""
        return sum(self.faces_per_axis.values())

    @property
    def largest_cell_share(self) -> float:
        """Share of states in the largest cell."""
        return float(self.cell_sizes.max() / self.cell_sizes.sum())

    @property
    def diagnostics(self) -> dict[str, float | int]:
        """The paper's five, by their letters."""
        return {
            "L": self.boundary_length,
            "F": self.boundary_fraction,
            "C_B": self.boundary_components,
            "C_R": self.region_components,
            "kappa": self.corner_index,
        }

    @property
    def figures(self) -> dict[str, float | int]:
        """The same five by their attribute names, for files."""
        names = ("boundary_length", "boundary_fraction", "boundary_components")
        return {n: getattr(self, n) for n in (*names, "region_components", "corner_index")}

    def __str__(self) -> str:
        t = self.tessellation
        used = np.count_nonzero(self.volumes)
        return (
            f"Geometry, {t.name or 'a policy'}: {t.grid.size:,} states, {used} of "
            f"{len(t.actions)} actions in use\n"
            f"cells {self.region_components:,}, the largest with {self.largest_cell_share:.1%} "
            f"of the states\n"
            f"boundary length {self.boundary_length:.4f}, fraction {self.boundary_fraction:.4f}, "
            f"components {self.boundary_components:,}, corner index {self.corner_index:.4f}"
        )

    def margin_profile(self, eps: ArrayLike) -> NDArray[np.float64]:
        """(shape of eps) share of states whose margin is at most eps.

        A state with one feasible action has an infinite margin: no finite eps counts it.
        """
        shares = np.searchsorted(self._margins, np.asarray(eps), side="right")
        return shares / self._margins.size

    @cached_property
    def _margins(self) -> NDArray[np.float64]:
        margin = self.tessellation.margin
        if margin is None:
            raise ArgumentError("a margin profile needs margins: tessellate a solution")
        return np.sort(margin, axis=None)


def measure(tessellation: Tessellation, rim: Rim = 0) -> Geometry:
    """The geometry of a tessellation.

    Args:
        tessellation: of any number of axes.
        rim: outer layers to leave out first; see `trim`.
    """
    require_type("measure", tessellation, Tessellation)
    inner = trim(tessellation, rim)
    grid = inner.grid
    boundary = inner.boundary
    faces = [int(np.count_nonzero(face)) for face in inner.faces]
    edges = [face.size for face in inner.faces]
    n_actions = len(inner.actions)
    return Geometry(
        tessellation=inner,
        boundary_length=sum(faces) / max(sum(edges), 1),
        boundary_fraction=int(np.count_nonzero(boundary)) / grid.size,
        boundary_components=int(np.count_nonzero(find_cells(boundary).values)),
        region_components=len(inner.cell_actions),
        corner_index=int(np.count_nonzero(inner.exposure >= 2)) / max(sum(faces), 1),
        corner_index_by_states=_count_crossings(boundary) / max(sum(faces), 1),
        faces_per_axis=dict(zip(grid.axes, faces, strict=True)),
        edges_per_axis=dict(zip(grid.axes, edges, strict=True)),
        volumes=np.bincount(inner.cell_actions, inner.cell_sizes, n_actions).astype(np.int64),
        components=np.bincount(inner.cell_actions, minlength=n_actions),
        cell_sizes=inner.cell_sizes,
    )


def _count_crossings(boundary: NDArray[np.bool_]) -> int:
    """Boundary states that have a neighbouring boundary state along two or more axes."""
    pairs = []
    for axis in range(boundary.ndim):
        below, above = neighbour_slices(boundary.ndim, axis)
        pairs.append(boundary[below] & boundary[above])
    return int(np.count_nonzero(count_touched_axes(tuple(pairs), boundary.shape) >= 2))
