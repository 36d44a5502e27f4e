"""How complicated a tessellation is, and where its boundary runs.

With S the states, E the grid edges, B the faces (see `tessellate`):

    boundary length      L     = |B| / |E|
    boundary fraction    F     = |boundary states| / |S|
    boundary components  C_B   = connected components of the set of boundary states
    region components    C_R   = number of cells
    corner index         kappa = K / max(|B|, 1), K = boundary states with faces along two axes

All five are the paper's on two axes, and mean the same on any number. A corner touches at least
two faces and a face at most two corners, so 0 <= kappa <= 1; on one axis kappa = 0.

The boundary is read as switching curves along one axis, and drawn as line segments. For action a
and a line (fixed values of the other axes), ``first`` and ``last`` are the extreme places of a on
the line. If a fills what lies between them the description is exact there; if that is so
everywhere, the curves are the whole policy: A * 2 numbers for each line.

In an outline, state (i, j) is the unit square centred on (i, j). A face across the first axis is
then a unit segment parallel to the second axis, and the other way round; unit segments that
continue each other are joined into one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, format_value, require_type
from tessella.mdp.actions import describe_action
from tessella.support.text import align_columns
from tessella.tessellation.tessellate import (
    Rim,
    Tessellation,
    count_marked_axes,
    find_cells,
    neighbour_slices,
    require_all_states,
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
            f"Geometry, {t.name or 'a policy'}: {t.n_states:,} states, {used} of "
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
        return np.sort(margin[self.tessellation.table >= 0])


def measure(tessellation: Tessellation, rim: Rim = 0) -> Geometry:
    """The geometry of a tessellation.

    Args:
        tessellation: of any number of axes.
        rim: outer layers to leave out first; see `trim`.

    Returns:
        The five diagnostics, and sizes of regions and cells.

    Raises:
        ArgumentError: the rim leaves nothing of an axis.

    Example:
        >>> t = ts.tessellate(ts.solve(ts.benchmark("QUE-Lin")))
        >>> ts.measure(t).region_components
        2
    """
    require_type("measure", tessellation, Tessellation)
    inner = trim(tessellation, rim)
    grid = inner.grid
    boundary = inner.boundary
    faces = [int(np.count_nonzero(face)) for face in inner.faces]
    edges = [int(np.count_nonzero(pairs)) for pairs in _mark_edges(inner.table >= 0)]
    crossings = count_marked_axes(_mark_edges(boundary), grid.shape) >= 2
    n_actions = len(inner.actions)
    return Geometry(
        tessellation=inner,
        boundary_length=sum(faces) / max(sum(edges), 1),
        boundary_fraction=int(np.count_nonzero(boundary)) / inner.n_states,
        boundary_components=int(np.count_nonzero(find_cells(boundary).values)),
        region_components=len(inner.cell_actions),
        corner_index=int(np.count_nonzero(inner.face_axis_counts >= 2)) / max(sum(faces), 1),
        corner_index_by_states=int(np.count_nonzero(crossings)) / max(sum(faces), 1),
        faces_per_axis=dict(zip(grid.axes, faces, strict=True)),
        edges_per_axis=dict(zip(grid.axes, edges, strict=True)),
        volumes=np.bincount(inner.cell_actions, inner.cell_sizes, n_actions).astype(np.int64),
        components=np.bincount(inner.cell_actions, minlength=n_actions),
        cell_sizes=inner.cell_sizes,
    )


def _mark_edges(marked: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    """The edges between two ``marked`` states, shaped as `Tessellation.faces`."""
    slices = [neighbour_slices(marked.ndim, axis) for axis in range(marked.ndim)]
    return tuple(marked[below] & marked[above] for below, above in slices)


TABLE_MAX_LINES = 20  # lines of a printed table
TABLE_MAX_ACTIONS = 10  # actions of a printed table


@dataclass(frozen=True, eq=False)
class SwitchingCurves:
    """Where each action begins and ends. Arrays are (A, *shape of the other axes)."""

    tessellation: Tessellation  # what was read
    axis: str  # the axis along which actions switch
    # Place on the axis (an index) where the action first occurs, -1 where it never does.
    first: NDArray[np.int64] = field(repr=False)
    # Place where it last occurs, -1 where it never does.
    last: NDArray[np.int64] = field(repr=False)
    # Whether it fills everything from first to last; true where it never occurs.
    solid: NDArray[np.bool_] = field(repr=False)

    @property
    def exact(self) -> bool:
        """Whether the curves determine the policy."""
        return bool(self.solid.all())

    @property
    def begins(self) -> NDArray[np.float64]:
        """`first` in the axis' own values; nan where the action never occurs."""
        return self._axis_values(self.first)

    @property
    def ends(self) -> NDArray[np.float64]:
        """`last` in the axis' own values; nan where the action never occurs."""
        return self._axis_values(self.last)

    def __str__(self) -> str:
        """A table: a row for each line, a column for each action, from where to where it is taken.

        ``*`` marks an action that does not fill all between its ends.
        """
        t = self.tessellation
        count = self.first[0].size
        used = np.flatnonzero((self.first >= 0).reshape(len(t.actions), -1).any(axis=1))
        values = {n: v for n, v in zip(t.grid.axes, t.grid.values, strict=True) if n != self.axis}
        shown = used[:TABLE_MAX_ACTIONS]
        rows = [[*values, *(describe_action(t.action_name, t.actions[a]) for a in shown)]]
        for line in range(min(count, TABLE_MAX_LINES)):
            index = np.unravel_index(line, self.first.shape[1:]) if values else ()
            places = [format_value(v[i]) for v, i in zip(values.values(), index, strict=True)]
            rows.append([*places, *(self._format_span(a, line) for a in shown)])
        more = {"lines": count - TABLE_MAX_LINES, "actions": len(used) - TABLE_MAX_ACTIONS}
        return "\n".join(
            [
                f"{t.action_name} along {self.axis}, {'exact' if self.exact else 'not exact'}",
                *align_columns(rows, "r" * len(rows[0])),
                *(f"... {n:,} more {subject}" for subject, n in more.items() if n > 0),
            ]
        )

    def _format_span(self, action: int, line: int) -> str:
        grid = self.tessellation.grid
        values = grid.values[grid.axis(self.axis)]
        first = self.first[action].flat[line]
        last = self.last[action].flat[line]
        if first < 0:
            return "-"
        mark = "" if self.solid[action].flat[line] else "*"
        begin = format_value(values[first])
        end = format_value(values[last])
        return begin if first == last else f"{begin}..{end}{mark}"

    def _axis_values(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        grid = self.tessellation.grid
        return np.where(places < 0, np.nan, grid.numbers[grid.axis(self.axis)][places])


def switching_curves(tessellation: Tessellation, axis: str) -> SwitchingCurves:
    """Read the switching curves along ``axis``.

    Args:
        tessellation: of any number of axes.
        axis: the axis along which actions switch.

    Returns:
        For each action and each line along the axis, where it begins and ends; ``exact`` says
        whether that is the whole policy.

    Raises:
        ArgumentError: no axis has this name.

    Example:
        >>> t = ts.tessellate(ts.solve(ts.problem("machine_replacement").build()))
        >>> ts.switching_curves(t, "wear").exact
        True
    """
    require_all_states("switching_curves", tessellation)
    lines = np.moveaxis(tessellation.table, tessellation.grid.axis(axis), -1)
    shape = (len(tessellation.actions), *lines.shape[:-1])
    first = np.empty(shape, dtype=np.int64)
    last = np.empty(shape, dtype=np.int64)
    solid = np.empty(shape, dtype=bool)
    for a in range(len(tessellation.actions)):
        is_taken = lines == a
        count = is_taken.sum(axis=-1)
        first[a] = np.where(count, is_taken.argmax(axis=-1), -1)
        last[a] = np.where(count, lines.shape[-1] - 1 - is_taken[..., ::-1].argmax(axis=-1), -1)
        solid[a] = count == np.where(count, last[a] - first[a] + 1, 0)
    return SwitchingCurves(tessellation, axis, first, last, solid)


def outline(tessellation: Tessellation) -> NDArray[np.floating]:
    """(segments, 2 ends, 2 coordinates) of the boundary, in grid steps.

    On one axis the states are squares in a row, and the second coordinate runs from -1/2 to 1/2.
    """
    require_type("outline", tessellation, Tessellation)
    faces = tessellation.faces
    if len(faces) == 1:
        cuts = np.flatnonzero(faces[0]) + 0.5
        return np.stack([np.stack([cuts, np.full_like(cuts, y)], axis=-1) for y in (-0.5, 0.5)], 1)
    if len(faces) != 2:
        raise ArgumentError(f"an outline needs one or two axes, not {len(faces)}; take a section")
    vertical = _join_segments(faces[0])
    horizontal = _join_segments(faces[1].T)[..., ::-1]
    return np.concatenate([vertical, horizontal])


def _join_segments(faces: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Maximal segments along the second axis of ``faces``, each at a half-step of the first."""
    padded = np.zeros((faces.shape[0], faces.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = faces
    step = np.diff(padded, axis=1)
    (row, begin), (_, end) = np.nonzero(step == 1), np.nonzero(step == -1)
    ends = [np.stack([row + 0.5, stop - 0.5], axis=-1) for stop in (begin, end)]
    return np.stack(ends, axis=1)
