"""A policy as a partition of its grid, and parts of it: the grid without its rim, and sections.

    region of a     R_a = {s : pi(s) = a}
    cell            a connected component of a region (neighbours differ by one step on one axis)
    grid edge       E = {{s, s'} : s and s' are neighbours}
    face            B = {{s, s'} in E : pi(s) != pi(s')}, the paper's boundary edges
    boundary state  a state that touches a face

On two axes these are the paper's definitions; nothing in them needs the number two.

Cells are found in one pass for all actions. A *run* is a maximal stretch of equal values along the
last axis. Two runs that overlap across another axis, with the same value, belong to one component;
the first place of their overlap is the start of one of the two, so it is enough to look where a run
starts. Components of the small graph (runs, overlaps) are the cells. With R runs there are at most
2 R (d - 1) overlaps, whatever the number of actions; for a policy with structure R is far below the
number of states.

Where only some combinations of values are states, the others belong to no cell: the table and the
cells hold -1 there, and a grid edge has a state at both ends.

A part is tessellated afresh: two states are in one cell of the part only if they are connected
inside it, and a face counts only if both of its states are inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tessella.errors import ArgumentError, format_value, require_type
from tessella.grid import StateGrid, index_type
from tessella.mdp.actions import component_names, describe_action
from tessella.mdp.model import MDP

if TYPE_CHECKING:
    from tessella.solvers.solution import Solution


NO_STATE = -1  # in a table, where there is no state


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of an array, numbered by their first element in C order."""

    labels: NDArray[np.integer]  # (array shape) the cell of each element
    values: NDArray  # (n,) the value that each cell holds
    sizes: NDArray[np.int64]  # (n,) elements in each cell


def find_cells(table: NDArray) -> Cells:
    """Cells of ``table`` (any shape with at least one axis) under nearest-neighbour connection."""
    starts = np.ones(table.shape, dtype=bool)  # of runs
    np.not_equal(table[..., 1:], table[..., :-1], out=starts[..., 1:])
    run = np.cumsum(starts, dtype=index_type(table.size + 1)).reshape(table.shape)
    run -= 1
    values = table[starts]
    lengths = np.diff(np.flatnonzero(starts), append=table.size)
    n_runs = len(values)
    overlaps = [np.empty((2, 0), dtype=run.dtype)]  # pairs of runs of one cell
    for axis in range(table.ndim - 1):
        below, above = neighbour_slices(table.ndim, axis)
        is_overlap = starts[below] | starts[above]
        is_overlap &= table[below] == table[above]
        overlaps.append(np.stack([run[below][is_overlap], run[above][is_overlap]]))
    first, second = np.concatenate(overlaps, axis=1)
    links = coo_array((np.ones(first.size, dtype=np.int8), (first, second)), (n_runs, n_runs))
    count, cell = connected_components(links, directed=False)
    cell_values = np.empty(count, dtype=table.dtype)
    cell_values[cell] = values
    sizes = np.bincount(cell, weights=lengths, minlength=count).astype(np.int64)
    return Cells(cell[run], cell_values, sizes)


def require_all_states(subject: str, tessellation: Tessellation) -> None:
    """Reject what is no tessellation, or one of a grid on which some places are no states."""
    require_type(subject, tessellation, Tessellation)
    if tessellation.n_states < tessellation.grid.size:
        requirement = f"{subject} needs every combination of the axes' values to be a state"
        value = f"{tessellation.n_states:,} of {tessellation.grid.size:,} are"
        raise ArgumentError(requirement, value=value)


def neighbour_slices(ndim: int, axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Slices that pair each element with the next one along ``axis``."""
    below = [slice(None)] * ndim
    above = [slice(None)] * ndim
    below[axis] = slice(None, -1)
    above[axis] = slice(1, None)
    return tuple(below), tuple(above)


@dataclass(frozen=True, eq=False)
class Tessellation:
    """Cells, faces and boundary states of one policy. ``A`` actions, ``n`` cells, ``d`` axes.

    Attributes:
        grid: the states.
        actions: (A,) the meaning of the action indices.
        action_name: what the actions are called, for legends ("order").
        table: (grid shape) action index of each state, -1 where there is none.
        cells: (grid shape) cell of each state, likewise; cells are numbered by their first state.
        cell_actions: (n,) action index of each cell.
        cell_sizes: (n,) states in each cell.
        faces: d bool arrays; entry ``i`` of array ``k`` is true if state ``i`` and the next one
            along axis ``k`` act differently, so its length along axis ``k`` is one less.
        face_axis_counts: (grid shape) along how many axes a state touches a face, 0 to d.
        margin: (grid shape) best minus second-best action value, if a solution was given; nan where
            there is no state.
        name: what it shows, for titles.
    """

    grid: StateGrid
    actions: tuple
    action_name: str
    table: NDArray[np.int32] = field(repr=False)
    cells: NDArray[np.int32] = field(repr=False)
    cell_actions: NDArray[np.int32] = field(repr=False)
    cell_sizes: NDArray[np.int64] = field(repr=False)
    faces: tuple[NDArray[np.bool_], ...] = field(repr=False)
    face_axis_counts: NDArray[np.uint8] = field(repr=False)
    margin: NDArray[np.float64] | None = field(default=None, repr=False)
    name: str = ""

    @cached_property
    def n_states(self) -> int:
        return int(self.cell_sizes.sum())

    @cached_property
    def boundary(self) -> NDArray[np.bool_]:
        """(grid shape) whether a state touches a face."""
        return _freeze(self.face_axis_counts > 0)

    @cached_property
    def quantities(self) -> NDArray[np.float64] | None:
        """(A,) the actions as numbers; none if they are names or combinations."""
        if not all(isinstance(a, int | float | np.number) for a in self.actions):
            return None
        return _freeze(np.asarray(self.actions, dtype=float))

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """(A,) place of each action in their natural order.

        Numbers are ordered by size; names, which have no order of their own, as they are listed.
        """
        keys = np.arange(len(self.actions)) if self.quantities is None else self.quantities
        return _freeze(np.argsort(np.argsort(keys, kind="stable")))

    def action_of(self, state: int) -> str:
        """``order=4``: what the policy does in the state with this flat index."""
        return describe_action(self.action_name, self.actions[self.table.flat[state]])

    def face_states(self, axis: int) -> NDArray[np.int64]:
        """(faces across axis, 2) flat indices of the two states of each face, lower one first."""
        indices = np.nonzero(self.faces[axis])
        below = np.ravel_multi_index(indices, self.grid.shape)
        step = int(np.prod(self.grid.shape[axis + 1 :], dtype=np.int64))
        return np.stack([below, below + step], axis=-1)

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        count = f"{self.n_states:,} states, {len(self.cell_actions):,} cells"
        return f"Tessellation({name}{count}, {len(self.actions)} actions)"


def tessellate(
    source: MDP | Solution, policy: Any = None, *, component: str | None = None
) -> Tessellation:
    """The tessellation of a solution's policy, or of any policy of a model.

    Args:
        source: a solution; with a ``policy``, a model or a solution of it.
        policy: a policy in any form: see ``tessella.as_policy``.
        component: for actions of several components, the one to tessellate; its values become
            the actions. Then there are no margins, which compare whole actions.

    Returns:
        The policy as regions of the grid, for ``measure``, ``examine``, ``compare`` and plots.

    Raises:
        PolicyError: the policy takes an infeasible or unknown action.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> ts.tessellate(solution).table.shape
        (31, 21)
    """
    mdp = cast(MDP, getattr(source, "mdp", source))
    if policy is None and mdp is source:
        raise ArgumentError("tessellate needs a solution, or a model and a policy")
    require_type("tessellate", mdp, MDP)
    if policy is None and not hasattr(source, "margin"):
        requirement = "tessellate needs a solution of values, or a model and a policy"
        raise ArgumentError(requirement, value=f"got a {type(source).__name__}")
    grid = mdp.grid
    table = grid.spread(mdp.policy(source if policy is None else policy).table.ravel(), NO_STATE)
    if component is not None:
        values = _list_component_values(mdp.actions, component)
        actions = tuple(dict.fromkeys(values))
        action_indices = np.array([actions.index(value) for value in values], dtype=np.int32)
        table = np.where(table < 0, NO_STATE, action_indices[table])
        return build_tessellation(grid.product, actions, component, table, None, mdp.name)
    margin = None
    if policy is None:
        margin = grid.spread(cast("Solution", source).margin.ravel(), np.nan)
    return build_tessellation(
        grid.product, tuple(mdp.actions), mdp.action_name, table, margin, mdp.name
    )


def _list_component_values(actions: tuple, component: str) -> list:
    """(A,) the value of this component in each action."""
    names = component_names(actions)
    if component not in names:
        hint = f"the components are {', '.join(names)}" if names else "actions have no components"
        raise ArgumentError(f"no component is called {component!r}", value=hint)
    return [action[component] for action in actions]


def build_tessellation(
    grid: StateGrid,
    actions: tuple,
    action_name: str,
    table: NDArray[np.int32],
    margin: NDArray | None = None,
    name: str = "",
) -> Tessellation:
    """The tessellation of a grid-shaped ``table`` of valid action indices, or -1 for no state."""
    cells = find_cells(table)
    if (cells.values < 0).any():
        is_cell = cells.values >= 0
        numbers = np.where(is_cell, np.cumsum(is_cell) - 1, NO_STATE)
        cells = Cells(numbers[cells.labels], cells.values[is_cell], cells.sizes[is_cell])
    slices = [neighbour_slices(table.ndim, axis) for axis in range(table.ndim)]
    faces = tuple(
        (table[below] != table[above]) & (np.minimum(table[below], table[above]) >= 0)
        for below, above in slices
    )
    return Tessellation(
        grid=grid,
        actions=actions,
        action_name=action_name,
        table=_freeze(table),
        cells=_freeze(cells.labels),
        cell_actions=_freeze(cells.values),
        cell_sizes=_freeze(cells.sizes),
        faces=tuple(_freeze(face) for face in faces),
        face_axis_counts=_freeze(count_marked_axes(faces, table.shape)),
        margin=None if margin is None else _freeze(margin),
        name=name,
    )


def count_marked_axes(marks: tuple[NDArray, ...], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """(shape) along how many axes a state is an end of a marked grid edge.

    Args:
        marks: one bool array for each axis, shaped as `Tessellation.faces`.
        shape: grid shape.
    """
    total = np.zeros(shape, dtype=np.uint8)
    touched = np.empty(shape, dtype=bool)
    for axis, mark in enumerate(marks):
        below, above = neighbour_slices(len(shape), axis)
        touched[...] = False
        touched[below] = mark
        touched[above] |= mark
        total += touched
    return total


def _freeze(array: NDArray) -> NDArray:
    view = array.view()
    view.setflags(write=False)
    return view


Rim = int | Mapping[str, int | tuple[int, int]]


def trim(tessellation: Tessellation, rim: Rim) -> Tessellation:
    """The tessellation without the outer layers of the grid.

    Where an unbounded quantity (a queue, a stock) was cut off, the states near the cut act on it,
    and the cells and faces they make belong to the cut and not to the problem.

    Args:
        tessellation: the whole.
        rim: layers to leave out: one number for both ends of every axis, or axis name to one
            number (both ends) or to a pair (low end, high end); axes not named stay whole.
    """
    require_type("trim", tessellation, Tessellation)
    grid = tessellation.grid
    axes = dict(zip(grid.axes, grid.values, strict=True))
    subgrid = [slice(None)] * grid.ndim
    rim_by_axis = rim if isinstance(rim, Mapping) else dict.fromkeys(grid.axes, rim)
    for name, layers in rim_by_axis.items():
        axis = grid.axis(name)
        low, high = _read_layers(name, layers)
        n = grid.shape[axis]
        if low < 0 or high < 0 or low + high >= n:
            raise ArgumentError(
                "a rim must leave a part of each axis", location=name, value=f"{low}+{high} of {n}"
            )
        subgrid[axis] = slice(low, n - high)
        axes[name] = axes[name][subgrid[axis]]
    inner = grid.with_axes(axes)
    if inner.shape == grid.shape:
        return tessellation
    return _cut_subgrid(tessellation, inner, tuple(subgrid), tessellation.name)


def section(tessellation: Tessellation, **fixed: object) -> Tessellation:
    """The slice where the named axes have the given values: ``section(t, regime=3)``."""
    require_type("section", tessellation, Tessellation)
    grid = tessellation.grid
    axes = dict(zip(grid.axes, grid.values, strict=True))
    free_axes = {name: values for name, values in axes.items() if name not in fixed}
    if not free_axes:
        raise ArgumentError("a section must leave at least one axis free")
    index: list[Any] = [slice(None)] * grid.ndim
    equations = []
    for name, value in fixed.items():
        axis = grid.axis(name)
        position = grid.locate(axis, np.asarray(value))
        if position.ndim or position < 0:
            raise ArgumentError(f"{name}={value} is not on the grid")
        index[axis] = int(position)
        equations.append(f"{name} = {format_value(axes[name][position])}")
    return _cut_subgrid(tessellation, grid.with_axes(free_axes), tuple(index), ", ".join(equations))


def sections(tessellation: Tessellation, axis: str) -> tuple[Tessellation, ...]:
    """Every slice across ``axis``, in the order of its values."""
    require_type("sections", tessellation, Tessellation)
    values = tessellation.grid.values[tessellation.grid.axis(axis)]
    return tuple(section(tessellation, **{axis: value}) for value in values)


def _cut_subgrid(whole: Tessellation, grid: StateGrid, index: tuple, name: str) -> Tessellation:
    margin = None if whole.margin is None else whole.margin[index]
    table = np.ascontiguousarray(whole.table[index])
    return build_tessellation(grid, whole.actions, whole.action_name, table, margin, name)


def _read_layers(axis: str, layers: Any) -> tuple[int, int]:
    """How many are left out at the low end of an axis, and at the high end."""
    pair = layers if isinstance(layers, tuple) else (layers, layers)
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) for n in pair):
        requirement = "layers of a rim are a whole number, or a pair of them (low end, high end)"
        raise ArgumentError(requirement, location=axis, value=f"has {layers!r}")
    return int(pair[0]), int(pair[1])
