"""A policy as a partition of its grid.

    region of a     R_a = {s : pi(s) = a}
    cell            a connected component of a region (neighbours differ by one step on one axis)
    grid edge       E = {{s, s'} : s and s' are neighbours}
    face            B = {{s, s'} in E : pi(s) != pi(s')}, the paper's boundary edges
    boundary state  a state that touches a face

On two axes these are the paper's definitions; nothing in them needs the number two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from tessella.errors import ArgumentError, require_type
from tessella.grid import StateGrid
from tessella.mdp.actions import components, describe_action
from tessella.mdp.model import MDP
from tessella.tessellation.cells import find_cells, neighbour_slices

if TYPE_CHECKING:
    from tessella.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class Tessellation:
    """Cells, faces and boundary states of one policy. ``A`` actions, ``n`` cells, ``d`` axes.

    Attributes:
        grid: the states.
        actions: (A,) what the action indices stand for.
        action_name: what the actions are called, for legends ("order").
        table: (grid shape) action index of each state.
        cells: (grid shape) cell of each state; cells are numbered by their first state.
        cell_actions: (n,) action index of each cell.
        cell_sizes: (n,) states in each cell.
        faces: d bool arrays; entry ``i`` of array ``k`` says that state ``i`` and the next one
            along axis ``k`` act differently, so its length along axis ``k`` is one less.
        exposure: (grid shape) along how many axes a state touches a face, 0 to d.
        margin: (grid shape) best minus second-best action value, if a solution was given.
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
    exposure: NDArray[np.uint8] = field(repr=False)
    margin: NDArray[np.float64] | None = field(default=None, repr=False)
    name: str = ""

    @cached_property
    def boundary(self) -> NDArray[np.bool_]:
        """(grid shape) whether a state touches a face."""
        return _freeze(self.exposure > 0)

    @cached_property
    def adjacency(self) -> csr_array:
        """(n, n) symmetric: how many faces two cells share."""
        pairs = [self._cell_pairs(axis) for axis in range(self.grid.ndim)]
        left, right = (np.concatenate(side) for side in zip(*pairs, strict=True))
        ends = np.concatenate([left, right]), np.concatenate([right, left])
        n = len(self.cell_actions)
        return coo_array((np.ones(2 * len(left), dtype=np.int64), ends), shape=(n, n)).tocsr()

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
        spots = np.nonzero(self.faces[axis])
        below = np.ravel_multi_index(spots, self.grid.shape)
        step = int(np.prod(self.grid.shape[axis + 1 :], dtype=np.int64))
        return np.stack([below, below + step], axis=-1)

    def _cell_pairs(self, axis: int) -> tuple[NDArray, NDArray]:
        below, above = neighbour_slices(self.grid.ndim, axis)
        return self.cells[below][self.faces[axis]], self.cells[above][self.faces[axis]]

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        count = f"{self.grid.size:,} states, {len(self.cell_actions):,} cells"
        return f"Tessellation({name}{count}, {len(self.actions)} actions)"


@overload
def tessellate(source: Solution, *, component: str | None = None) -> Tessellation: ...


@overload
def tessellate(
    source: MDP | Solution, policy: Any, *, component: str | None = None
) -> Tessellation: ...


def tessellate(source: Any, policy: Any = None, *, component: str | None = None) -> Tessellation:
    """The tessellation of a solution's policy, or of any policy of a model.

    Args:
        source: a solution; or, with a ``policy``, a model (a solution stands for its own).
        policy: whatever decides: see ``tessella.as_policy``.
        component: of actions that have several, the one that the tessellation is to be of; its
            values are the actions then. Margins are between whole actions, so none are kept.
    """
    mdp = getattr(source, "mdp", source)
    if policy is None and mdp is source:
        raise ArgumentError("tessellate needs a solution, or a model and a policy")
    require_type("tessellate", mdp, MDP)
    table = mdp.policy(source if policy is None else policy).table
    if component is not None:
        values = _values_of_component(mdp.actions, component)
        actions = tuple(dict.fromkeys(values))
        which = np.array([actions.index(value) for value in values], dtype=np.int32)
        return build_tessellation(mdp.grid, actions, component, which[table], None, mdp.name)
    margin = source.margin if policy is None else None
    return build_tessellation(
        mdp.grid, tuple(mdp.actions), mdp.action_name, table, margin, mdp.name
    )


def _values_of_component(actions: tuple, component: str) -> list:
    """(A,) the value of this component in each action."""
    names = components(actions)
    if component not in names:
        known = f"the components are {', '.join(names)}" if names else "actions have no components"
        raise ArgumentError(f"no component is called {component!r}", value=known)
    return [action[component] for action in actions]


def build_tessellation(
    grid: StateGrid,
    actions: tuple,
    action_name: str,
    table: NDArray[np.int32],
    margin: NDArray | None = None,
    name: str = "",
) -> Tessellation:
    """The tessellation of a grid-shaped ``table`` of valid action indices."""
    cells = find_cells(table)
    faces = tuple(_find_faces(table, axis) for axis in range(table.ndim))
    return Tessellation(
        grid=grid,
        actions=actions,
        action_name=action_name,
        table=_freeze(table),
        cells=_freeze(cells.labels),
        cell_actions=_freeze(cells.values),
        cell_sizes=_freeze(cells.sizes),
        faces=tuple(_freeze(face) for face in faces),
        exposure=_freeze(count_touched_axes(faces, table.shape)),
        margin=None if margin is None else _freeze(margin),
        name=name,
    )


def count_touched_axes(marks: tuple[NDArray, ...], shape: tuple[int, ...]) -> NDArray[np.uint8]:
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


def _find_faces(table: NDArray, axis: int) -> NDArray[np.bool_]:
    below, above = neighbour_slices(table.ndim, axis)
    return table[below] != table[above]


def _freeze(array: NDArray) -> NDArray:
    view = array.view()
    view.setflags(write=False)
    return view
