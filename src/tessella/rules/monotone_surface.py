"""Monotone surfaces: the action never falls along some axes, and never rises along the others.

    rule(s) = the highest action of all corners c <= s, along all axes at once; the lowest elsewhere

or the other way round, the lowest of all corners and else the highest. A surface stores an action
for each of its levels, the lowest included, and the coordinates of each corner along the axes that
it looks at. The cheapest surface for additive costs, on any number of axes, is **one minimum cut**:
with x[s, j] = [rule(s) >= j] there is an arc of capacity c(s, j) from x[s, j] to x[s, j + 1], and
arcs without a limit along which x may not fall. So it is known for certain what being monotone
costs at least, and whether a surface exists at all. How few corners do is searched for: by cuts on
grids of fewer places, and by taking corners away as long as it costs least.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tessella.errors import format_value
from tessella.grid import StateGrid
from tessella.mdp.actions import describe_action
from tessella.mdp.rule_tree import Leaf, build_lookup, is_text_axis
from tessella.rules.rule_class import (
    Candidate,
    Costs,
    RuleClass,
    compute_cost_margins,
    find_pareto_front,
)
from tessella.rules.trees import choose_positions, compute_boundary_losses, sum_blocks

RESCALING_MAX_COST_RATIO = 0.1  # of the cost known: a cut that costs less is computed again
SURFACE_MIN_SIZE = 3  # numbers of a surface with a corner
FLOW_UNITS = 2**29  # what the least cost known becomes in whole numbers
UNLIMITED_CAPACITY = 2**30  # more than flows, and no overflow with one of them on top
GRID_PARTS_PER_AXIS = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # places along each axis
ALL_DIRECTIONS_MAX_AXES = 4  # axes, up to which all directions are tried
REFINED_DIRECTIONS = 2  # directions whose surfaces are fitted on all grids
COMPARISON_GRID_INDEX = 4  # index in GRID_PARTS_PER_AXIS: where directions are compared
CORNERS_PER_REMOVAL = 16  # of the corners one is taken away in a turn
PRUNING_MAX_STATE_CORNERS = 400_000  # up to which corners are taken away one by one


@dataclass(frozen=True)
class MonotoneSurface(RuleClass):
    """Actions in their order, which rise or fall along every axis.

    Attributes:
        nodes: the most nodes of a cut, states x actions; beyond, only some places are looked at.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> rule = ts.compress(solution, "2%", classes=[ts.MonotoneSurface()])
        >>> print(rule.explain().splitlines()[0])
        admit=1 where queue is at most 25.
    """

    nodes: int = 400_000
    name: ClassVar[str] = "monotone surface"
    reading_rank: ClassVar[int] = 4
    closed_under_slicing: ClassVar[bool] = True

    def why_not_applicable(self, costs: Costs) -> str:
        return "there is one action only" if len(costs.actions) < 2 else ""

    def why_not_exact(self, costs: Costs) -> str:
        return "the cheapest surface is found for certain, the one of fewest corners is not"

    def max_size(self, costs: Costs) -> float:
        return len(costs.actions) + costs.grid.size * costs.grid.ndim

    def is_infeasible(self, costs: Costs, cost_limit: float) -> bool:
        """Whether every surface costs more than the limit, by the flow, which is rounded down."""
        table = costs.by_rank
        is_complete = table.size <= self.nodes and costs.grid.ndim <= ALL_DIRECTIONS_MAX_AXES
        if not is_complete or self.why_not_applicable(costs):
            return False
        likely = _guess_directions(table)
        for signs in (*likely, *(s for s in _list_directions(table.ndim - 1) if s not in likely)):
            if time.perf_counter() > costs.deadline:
                return False
            if find_cheapest_table(_flip_axes(table, signs)).lower_bound <= cost_limit:
                return False
        return True

    def fit(self, costs: Costs, max_size: int, cost_limit: float) -> list[Candidate]:
        results: list[Candidate] = []
        if max_size < SURFACE_MIN_SIZE:
            return results
        grids = self._list_grids(costs)
        comparison_grid = grids[min(COMPARISON_GRID_INDEX, len(grids) - 1)]
        directions = _choose_directions(sum_blocks(costs.by_rank, comparison_grid))
        for positions in grids:
            table = sum_blocks(costs.by_rank, positions)
            for signs in directions:
                if results and time.perf_counter() > costs.deadline:
                    return find_pareto_front(results)
                cheapest = find_cheapest_table(_flip_axes(table, signs)).table
                is_pruned = positions is grids[-1] and signs is directions[0]
                # With corners from which actions are higher, and from which they are lower.
                opposite = tuple(-sign for sign in signs)
                for view in (
                    SurfaceView(costs, positions, signs, is_reversed=False),
                    SurfaceView(costs, positions, opposite, is_reversed=True),
                ):
                    fitted = _fit_corners(view, table, cheapest, is_pruned)
                    results += [_make_candidate(view, c) for c in fitted if c.size <= max_size]
        return find_pareto_front(results)

    def _list_grids(self, costs: Costs) -> list[list[NDArray[np.int64]]]:
        """Where parts of the grid begin along each axis: few places first, all of them last."""
        shape = costs.grid.shape
        weights = [compute_boundary_losses(costs.by_rank, axis) for axis in range(len(shape))]
        grids = [
            [choose_positions(w, min(p, len(w) + 1)) for w in weights] for p in GRID_PARTS_PER_AXIS
        ]
        if max(shape) > GRID_PARTS_PER_AXIS[-1]:
            grids.append([np.arange(n) for n in shape])
        chosen = grids[:1]
        for coarser, finer in itertools.pairwise(grids):
            n_cells = math.prod(map(len, finer))
            is_affordable = n_cells * len(costs.actions) <= self.nodes
            if is_affordable and n_cells > math.prod(map(len, coarser)):
                chosen.append(finer)
        return chosen


@dataclass(frozen=True, eq=False)
class CheapestTable:
    """A monotone table, rising along all axes, and a lower bound on the cost of any such table."""

    table: NDArray[np.int64]
    lower_bound: float


def find_cheapest_table(costs: NDArray[np.float64]) -> CheapestTable:
    """The cheapest table over (shape, A) costs that falls along no axis, by a minimum cut.

    Costs become whole numbers, rounded down: what the flow amounts to is a bound for certain. They
    are measured by the least cost that is known, again when that of a cut is much less.
    """
    scale = float(costs.sum(axis=tuple(range(costs.ndim - 1))).min())
    if not np.isfinite(scale):  # every action is infeasible somewhere
        scale = float(np.where(np.isfinite(costs), costs, 0.0).max(axis=-1).sum())
    lower_bound = 0.0
    while True:
        unit = scale / FLOW_UNITS if scale > 0 else 1.0
        # A visit that is 0 up to rounding may be below 0.
        capacity = np.clip(np.floor(costs / unit), 0.0, UNLIMITED_CAPACITY)
        table, flow = _solve_minimum_cut(capacity.astype(np.int32))
        lower_bound = max(lower_bound, flow * unit * (1 - 1e-12))
        cost = _compute_table_cost(costs, table)
        if not 0 < cost < RESCALING_MAX_COST_RATIO * scale:
            return CheapestTable(table, lower_bound)
        scale = cost


def _solve_minimum_cut(capacity: NDArray[np.int32]) -> tuple[NDArray[np.int64], int]:
    """The cheapest rising table for whole costs, and what it costs."""
    *shape, actions = capacity.shape
    node = 1 + np.arange(math.prod(shape) * (actions - 1)).reshape(*shape, actions - 1)
    end = node.size + 1
    arcs = [(np.zeros(node[..., 0].size, int), node[..., 0], capacity[..., 0])]
    arcs += [(node[..., -1], np.full(node[..., -1].size, end), capacity[..., -1])]
    arcs += [(node[..., :-1], node[..., 1:], capacity[..., 1:-1])]
    arcs += [(node[..., 1:], node[..., :-1], np.full(node[..., 1:].size, UNLIMITED_CAPACITY))]
    for axis, n in enumerate(shape):
        before = np.take(node, range(n - 1), axis)
        after = np.take(node, range(1, n), axis)
        arcs.append((before, after, np.full(before.size, UNLIMITED_CAPACITY)))
    rows, columns, capacities = (np.concatenate([np.ravel(a[k]) for a in arcs]) for k in range(3))
    graph = csr_array((capacities.astype(np.int32), (rows, columns)), shape=(end + 1, end + 1))
    flow = maximum_flow(graph, 0, end)
    residual = graph - flow.flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = np.zeros(end + 1, dtype=bool)
    reached[breadth_first_order(residual, 0, return_predecessors=False)] = True
    return reached[node].sum(axis=-1), int(flow.flow_value)


@dataclass(frozen=True, eq=False)
class SurfaceView:
    """Parts of a grid, turned so that the actions of a surface rise along all axes."""

    costs: Costs  # of the whole grid
    positions: list[NDArray[np.int64]]  # where the parts begin along each axis
    signs: tuple[int, ...]  # 1 for an axis in its own order, -1 for one that is reversed
    is_reversed: bool  # whether actions are counted from the last one: corners hold lower actions

    def reverse_actions(self, table: NDArray) -> NDArray:
        """Actions counted from the other end where they are reversed; and back."""
        return len(self.costs.actions) - 1 - table if self.is_reversed else table

    def list_action_names(self) -> list[str]:
        costs = self.costs
        names = [describe_action(costs.action_name, action) for action in costs.actions]
        return names[::-1] if self.is_reversed else names


@dataclass(frozen=True, eq=False)
class SurfaceCorners:
    """Corners of a rising table."""

    positions: NDArray[np.int64]  # (n, axes) of the corners
    actions: NDArray[np.int64]  # (n,) what holds from there on
    base_action: int  # what holds elsewhere
    shape: tuple[int, ...]  # of the grid

    @property
    def used_axes(self) -> NDArray[np.int64]:
        """The axes that the corners depend on."""
        return np.flatnonzero(self.positions.any(axis=0))

    @property
    def size(self) -> int:
        return 1 + len(np.unique(self.actions)) + len(self.positions) * len(self.used_axes)

    def build_table(self) -> NDArray[np.int64]:
        table = np.full(self.shape, self.base_action)
        table[tuple(self.positions.T)] = np.maximum(table[tuple(self.positions.T)], self.actions)
        for axis in range(len(self.shape)):
            table = np.maximum.accumulate(table, axis)
        return table

    def list_changes(self) -> list[CornerChange]:
        """Each corner taken away, or joined with the next: one that holds wherever either did."""
        order = np.lexsort(self.positions.T[::-1]).tolist()
        changes = [CornerChange((i,)) for i in order]
        for i, j in itertools.pairwise(order):
            meet = tuple(np.minimum(self.positions[i], self.positions[j]).tolist())
            actions = {*self.actions[[i, j]].tolist()}
            changes += [CornerChange((i, j), meet, action) for action in actions]
        return changes

    def apply_changes(self, changes: Sequence[CornerChange]) -> SurfaceCorners:
        removed = [i for change in changes for i in change.removed]
        is_kept = ~np.isin(np.arange(len(self.positions)), removed)
        new = [change for change in changes if change.position is not None]
        added = np.array([change.position for change in new], dtype=int)
        added = added.reshape(-1, self.positions.shape[1])
        actions = np.append(self.actions[is_kept], [change.action for change in new]).astype(int)
        positions = np.vstack([self.positions[is_kept], added])
        return replace(self, positions=positions, actions=actions)


@dataclass(frozen=True)
class CornerChange:
    """Corners that are removed, and the one that replaces them."""

    removed: tuple[int, ...]
    position: tuple[int, ...] | None = None
    action: int = 0


def find_corners(table: NDArray[np.int64]) -> SurfaceCorners:
    """Where a rising table is higher than at all places before."""
    previous = np.full(table.shape, table.flat[0])
    for axis in range(table.ndim):
        ahead = [slice(None)] * table.ndim
        behind = [slice(None)] * table.ndim
        ahead[axis] = slice(1, None)
        behind[axis] = slice(None, -1)
        part = previous[tuple(ahead)]
        np.maximum(part, table[tuple(behind)], out=part)
    positions = np.argwhere(table > previous)
    return SurfaceCorners(positions, table[tuple(positions.T)], int(table.flat[0]), table.shape)


def _fit_corners(
    view: SurfaceView, table: NDArray, cheapest: NDArray, is_pruned: bool
) -> Iterable[SurfaceCorners]:
    """The corners of the cheapest surface, and perhaps fewer and fewer of them."""
    if view.is_reversed:
        table = table[..., ::-1]
        cheapest = _flip_axes(cheapest, (-1,) * cheapest.ndim)
    corners = find_corners(view.reverse_actions(cheapest))
    if not is_pruned:
        return [corners]
    return _prune_corners(_flip_axes(table, view.signs), corners, view.costs.deadline)


def _prune_corners(
    table: NDArray, corners: SurfaceCorners, deadline: float
) -> Iterator[SurfaceCorners]:
    """Corners, and what is left when the cheapest are taken away or joined, some in a turn."""
    yield corners
    if len(corners.positions) * table[..., 0].size > PRUNING_MAX_STATE_CORNERS:
        return
    while len(corners.positions) and time.perf_counter() < deadline:
        changes = corners.list_changes()
        change_costs = [
            _compute_table_cost(table, corners.apply_changes([change]).build_table())
            for change in changes
        ]
        count = max(len(corners.positions) // CORNERS_PER_REMOVAL, 1)
        corners = corners.apply_changes(_choose_changes(changes, change_costs, count))
        yield corners


def _choose_changes(
    changes: list[CornerChange], change_costs: list[float], count: int
) -> list[CornerChange]:
    """That many changes that lose least, of which no two touch the same corner."""
    chosen: list[CornerChange] = []
    for i in np.argsort(change_costs, kind="stable"):
        if not any(set(changes[i].removed) & set(other.removed) for other in chosen):
            chosen.append(changes[i])
        if len(chosen) == count:
            break
    return chosen


def _compute_table_cost(costs: NDArray, table: NDArray) -> float:
    return float(np.take_along_axis(costs, table[..., None], -1).sum())


def _make_candidate(view: SurfaceView, corners: SurfaceCorners) -> Candidate:
    costs = view.costs
    table = view.reverse_actions(_flip_axes(corners.build_table(), view.signs))
    for axis, (starts, order) in enumerate(zip(view.positions, costs.rank_order, strict=True)):
        part = np.searchsorted(starts, np.arange(len(order)), side="right") - 1
        part_of_value = np.empty_like(part)
        part_of_value[order] = part  # from rising order to the order in which values are listed
        table = np.take(table, part_of_value, axis)
    root = build_lookup(costs.grid.axes, table.ravel())
    return Candidate(
        Leaf(root.actions[0]) if len(root.starts) == 1 else root,
        corners.size,
        costs.of_table(table),
        _describe_corners(view, corners),
    )


def _describe_corners(view: SurfaceView, corners: SurfaceCorners) -> str:
    """Corners in words, a line for each action; empty where there are none."""
    names = view.list_action_names()
    lines = []
    for action in sorted(np.unique(corners.actions).tolist(), reverse=True):
        places = corners.positions[corners.actions == action].tolist()
        clauses = "; or ".join(_describe_corner(view, place) for place in places)
        lines.append(f"{names[action]} where {clauses}.")
    if not lines:
        return ""
    if len(lines) > 1:
        first = "lowest" if view.is_reversed else "highest"
        heading = f"Take the first line that applies ({first} {view.costs.action_name} first)."
        lines.insert(0, heading)
    return "\n".join([*lines, f"{names[corners.base_action]} elsewhere."])


def _describe_corner(view: SurfaceView, place: list[int]) -> str:
    """``stock is at least 3 and due is at most 5``, from part positions along each axis."""
    bounds = [_format_bound(view, axis, part) for axis, part in enumerate(place) if part]
    return " and ".join(bounds)


def _format_bound(view: SurfaceView, axis: int, part: int) -> str:
    """``stock is at least 3``: the end of the part that is ``part`` parts from the start."""
    grid = view.costs.grid
    starts = view.positions[axis]
    is_rising = view.signs[axis] > 0
    ends = [*starts, grid.shape[axis]]
    rank = int(starts[part]) if is_rising else int(ends[len(starts) - part]) - 1
    value = grid.values[axis][view.costs.rank_order[axis][rank]]
    if is_text_axis(grid, axis):
        return _format_labels(grid, axis, rank, is_rising)
    text = format_value(float(value))
    if rank == (grid.shape[axis] - 1 if is_rising else 0):
        return f"{grid.axes[axis]} is {text}"
    return f"{grid.axes[axis]} is {'at least' if is_rising else 'at most'} {text}"


def _format_labels(grid: StateGrid, axis: int, rank: int, is_rising: bool) -> str:
    """``month is Jan to Apr``: the labels from one of them on, or up to it."""
    labels = grid.values[axis].tolist()
    kept = labels[rank:] if is_rising else labels[: rank + 1]
    return f"{grid.axes[axis]} is {kept[0]}" + (f" to {kept[-1]}" if len(kept) > 1 else "")


def _flip_axes(array: NDArray, signs: tuple[int, ...]) -> NDArray:
    """An array whose first axes are reversed where a sign is negative."""
    return array[tuple(slice(None, None, sign) for sign in signs)]


def _choose_directions(table: NDArray) -> list[tuple[int, ...]]:
    """The directions whose surfaces cost least."""
    axes = table.ndim - 1
    directions = _guess_directions(table)
    if axes <= ALL_DIRECTIONS_MAX_AXES:
        directions = [*_list_directions(axes)]

    def compute_cost(signs: tuple[int, ...]) -> float:
        flipped = _flip_axes(table, signs)
        return _compute_table_cost(flipped, find_cheapest_table(flipped).table)

    return sorted(directions, key=compute_cost)[:REFINED_DIRECTIONS]


def _list_directions(axes: int) -> Iterator[tuple[int, ...]]:
    return itertools.product((1, -1), repeat=axes)


def _guess_directions(table: NDArray) -> list[tuple[int, ...]]:
    """The direction in which the cheapest actions rise, by cost margins; and its opposite."""
    margin = compute_cost_margins(table)
    best = table.argmin(axis=-1)
    total = max(float(margin.sum()), 1e-300)
    deviation = margin * (best - (margin * best).sum() / total)
    coordinates = np.indices(best.shape)
    signs = tuple(1 if (deviation * coordinate).sum() >= 0 else -1 for coordinate in coordinates)
    return [signs, tuple(-s for s in signs)]
