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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tessella.errors import shown
from tessella.mdp.actions import described
from tessella.mdp.program import Choose, Lookup, Node
from tessella.rules.axis_tree import chosen_places, merged, slab_weights
from tessella.rules.rule_class import Costs, Fitted, RuleClass, falling

FINER = 0.1  # of the cost known: a cut that costs less is made once more
LEAST = 3  # numbers of a surface with a corner
FLOW = 2**29  # what the least cost known becomes in whole numbers
UNLIMITED = 2**30  # more than flows, and no overflow with one of them on top
PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # places along each axis
SIGNED = 4  # axes, up to which all directions are tried
BEST = 2  # directions that are looked at closely
FIRST = 4  # of PARTS: where directions are compared
TURN = 16  # of the corners one is taken away in a turn
STATES_TIMES_CORNERS = 400_000  # up to which corners are taken away one by one


@dataclass(frozen=True)
class MonotoneSurface(RuleClass):
    """Actions in their order, which rise or fall along every axis.

    Attributes:
        nodes: the most nodes of a cut, states x actions; beyond, only some places are looked at.
    """

    nodes: int = 400_000
    name: ClassVar[str] = "monotone surface"
    slices: ClassVar[bool] = True

    def refusal(self, costs: Costs) -> str:
        return "there is one action only" if len(costs.actions) < 2 else ""

    def heuristic(self, costs: Costs) -> str:
        return "the cheapest surface is found for certain, the one of fewest corners is not"

    def largest(self, costs: Costs) -> float:
        return len(costs.actions) + costs.grid.size * costs.grid.ndim

    def impossible(self, costs: Costs, target: float) -> bool:
        """Whether every surface costs more than the target: the flow, rounded down, says so."""
        if not self._whole(costs) or self.refusal(costs):
            return False
        table = costs.sorted
        likely = _likely(table)
        for signs in (*likely, *(s for s in _directions(table.ndim - 1) if s not in likely)):
            if time.perf_counter() > costs.deadline:
                return False
            if cheapest(_turned(table, signs)).floor <= target:
                return False
        return True

    def _whole(self, costs: Costs) -> bool:
        """Whether cuts look at all states, and in all directions."""
        return self._fits(costs.sorted) and costs.grid.ndim <= SIGNED

    def _fits(self, table: NDArray) -> bool:
        return table.size <= self.nodes

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        found: list[Fitted] = []
        if most < LEAST:
            return found
        grids = self._grids(costs)
        directions = _promising(merged(costs.sorted, grids[min(FIRST, len(grids) - 1)]))
        for places, last in zip(grids, (*[False] * (len(grids) - 1), True), strict=True):
            table = merged(costs.sorted, places)
            for i, signs in enumerate(directions):
                if found and time.perf_counter() > costs.deadline:
                    return falling(found)
                surface = Surface(places, signs, cheapest(_turned(table, signs)).table)
                found += _fewer(costs, table, surface, most, last and not i)
        return falling(found)

    def _grids(self, costs: Costs) -> list[list[NDArray[np.int64]]]:
        """Where parts of the grid begin along each axis: few places first, all of them last."""
        shape = costs.grid.shape
        weight = [slab_weights(costs.sorted, axis) for axis in range(len(shape))]
        tried = [[chosen_places(w, min(p, len(w) + 1)) for w in weight] for p in PARTS]
        if max(shape) > PARTS[-1]:
            tried.append([np.arange(n) for n in shape])
        sizes = [math.prod(len(part) for part in places) for places in tried]
        fits = [n * len(costs.actions) <= self.nodes for n in sizes]
        new = [i == 0 or sizes[i] > sizes[i - 1] for i in range(len(sizes))]
        return [tried[i] for i in range(len(tried)) if i == 0 or (fits[i] and new[i])]


@dataclass(frozen=True, eq=False)
class Cheapest:
    """A monotone table, rising along all axes, and what none can cost less than."""

    table: NDArray[np.int64]
    floor: float


def cheapest(costs: NDArray[np.float64]) -> Cheapest:
    """The cheapest table over (shape, A) costs that falls along no axis, by a minimum cut.

    Costs become whole numbers, rounded down: what the flow amounts to is a bound for certain. They
    are measured by the least cost that is known, again when that of a cut is much less.
    """
    limit, floor = float(costs.sum(axis=tuple(range(costs.ndim - 1))).min()), 0.0
    while True:
        unit = limit / FLOW if limit > 0 else 1.0
        found, flow = _cut(np.minimum(np.floor(costs / unit), UNLIMITED).astype(np.int32))
        floor, spent = max(floor, flow * unit * (1 - 1e-12)), _spent(costs, found)
        if not 0 < spent < FINER * limit:
            return Cheapest(found, floor)
        limit = spent


def _cut(capacity: NDArray[np.int32]) -> tuple[NDArray[np.int64], int]:
    """The cheapest rising table for whole costs, and what it costs."""
    *shape, actions = capacity.shape
    node = 1 + np.arange(math.prod(shape) * (actions - 1)).reshape(*shape, actions - 1)
    end = node.size + 1
    arcs = [(np.zeros(node[..., 0].size, int), node[..., 0], capacity[..., 0])]
    arcs += [(node[..., -1], np.full(node[..., -1].size, end), capacity[..., -1])]
    arcs += [(node[..., :-1], node[..., 1:], capacity[..., 1:-1])]
    arcs += [(node[..., 1:], node[..., :-1], np.full(node[..., 1:].size, UNLIMITED))]
    for axis, n in enumerate(shape):
        before, after = np.take(node, range(n - 1), axis), np.take(node, range(1, n), axis)
        arcs.append((before, after, np.full(before.size, UNLIMITED)))
    rows, columns, most = (np.concatenate([np.ravel(a[k]) for a in arcs]) for k in range(3))
    graph = csr_array((most.astype(np.int32), (rows, columns)), shape=(end + 1, end + 1))
    flow = maximum_flow(graph, 0, end)
    left = graph - flow.flow
    left.data = np.maximum(left.data, 0)
    left.eliminate_zeros()
    reached = np.zeros(end + 1, dtype=bool)
    reached[breadth_first_order(left, 0, return_predecessors=False)] = True
    return reached[node].sum(axis=-1), int(flow.flow_value)


@dataclass(frozen=True, eq=False)
class Surface:
    """A monotone table over parts of a grid, turned so that it rises along all axes.

    Attributes:
        places: where the parts begin along each axis.
        signs: 1 for an axis along which actions rise, -1 for one along which they fall.
        table: (parts) actions of the turned grid.
    """

    places: list[NDArray[np.int64]]
    signs: tuple[int, ...]
    table: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Corners:
    """Corners of a rising table.

    Attributes:
        at: (n, axes) positions.
        action: (n,) what holds from there on.
        base: what holds elsewhere.
        shape: of the grid.
    """

    at: NDArray[np.int64]
    action: NDArray[np.int64]
    base: int
    shape: tuple[int, ...]

    @property
    def axes(self) -> NDArray[np.int64]:
        """The axes that are looked at."""
        return np.flatnonzero(self.at.any(axis=0))

    @property
    def size(self) -> int:
        return 1 + len(np.unique(self.action)) + len(self.at) * len(self.axes)

    def table(self) -> NDArray[np.int64]:
        made = np.full(self.shape, self.base)
        made[tuple(self.at.T)] = np.maximum(made[tuple(self.at.T)], self.action)
        for axis in range(len(self.shape)):
            made = np.maximum.accumulate(made, axis)
        return made

    def changes(self) -> list[Change]:
        """Each corner taken away, or joined with the next: one that holds wherever either did."""
        order = np.lexsort(self.at.T[::-1]).tolist()
        made = [Change((i,)) for i in order]
        for i, j in itertools.pairwise(order):
            meet = tuple(np.minimum(self.at[i], self.at[j]).tolist())
            made += [Change((i, j), meet, action) for action in {*self.action[[i, j]].tolist()}]
        return made

    def after(self, changes: Sequence[Change]) -> Corners:
        gone = [i for change in changes for i in change.gone]
        keep = ~np.isin(np.arange(len(self.at)), gone)
        new = [change for change in changes if change.at is not None]
        at = np.array([change.at for change in new], dtype=int).reshape(-1, self.at.shape[1])
        action = np.append(self.action[keep], [change.action for change in new]).astype(int)
        return Corners(np.vstack([self.at[keep], at]), action, self.base, self.shape)


@dataclass(frozen=True)
class Change:
    """Corners that go, and the one that comes in their place."""

    gone: tuple[int, ...]
    at: tuple[int, ...] | None = None
    action: int = 0


def corners_of(table: NDArray[np.int64]) -> Corners:
    """Where a rising table is higher than at all places before."""
    before = np.full(table.shape, table.flat[0])
    for axis in range(table.ndim):
        ahead = [slice(None)] * table.ndim
        behind = [slice(None)] * table.ndim
        ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
        part = before[tuple(ahead)]
        np.maximum(part, table[tuple(behind)], out=part)
    at = np.argwhere(table > before)
    return Corners(at, table[tuple(at.T)], int(table.flat[0]), table.shape)


def _fewer(costs: Costs, table: NDArray, surface: Surface, most: int, prune: bool) -> list[Fitted]:
    """A surface told from below or from above, and perhaps with fewer and fewer corners."""
    made, last = [], len(costs.actions) - 1
    for above in (False, True):
        signs, rising = surface.signs, surface.table
        if above:
            signs = tuple(-s for s in signs)
            rising = last - _turned(rising, (-1,) * rising.ndim)
        corners = corners_of(rising)
        turned = _turned(table[..., ::-1] if above else table, signs)
        left = _pruned(turned, corners, costs.deadline) if prune else [corners]
        kept = (one for one in left if one.size <= most)
        made += [_fitted(costs, surface.places, signs, one, above) for one in kept]
    return made


def _pruned(table: NDArray, corners: Corners, deadline: float) -> Iterator[Corners]:
    """Corners, and what is left when the cheapest are taken away or joined, some in a turn."""
    yield corners
    if len(corners.at) * table[..., 0].size > STATES_TIMES_CORNERS:
        return
    while len(corners.at) and time.perf_counter() < deadline:
        changes = corners.changes()
        lost = [_spent(table, corners.after([change]).table()) for change in changes]
        corners = corners.after(_first(changes, lost, max(len(corners.at) // TURN, 1)))
        yield corners


def _first(changes: list[Change], lost: list[float], many: int) -> list[Change]:
    """So many changes that lose least, of which no two touch the same corner."""
    taken: list[Change] = []
    for i in np.argsort(lost, kind="stable"):
        if not any(set(changes[i].gone) & set(other.gone) for other in taken):
            taken.append(changes[i])
        if len(taken) == many:
            break
    return taken


def _spent(costs: NDArray, table: NDArray) -> float:
    return float(np.take_along_axis(costs, table[..., None], -1).sum())


def _fitted(
    costs: Costs, places: list[NDArray], signs: tuple[int, ...], corners: Corners, above: bool
) -> Fitted:
    table = _turned(corners.table(), signs)
    if above:
        table = len(costs.actions) - 1 - table
    for axis, (starts, order) in enumerate(zip(places, costs.order, strict=True)):
        part = np.searchsorted(starts, np.arange(len(order)), side="right") - 1
        listed = np.empty_like(part)
        listed[order] = part  # from rising order to the order in which values are listed
        table = np.take(table, listed, axis)
    told = _Told(costs, places, signs, above)
    return Fitted(_node(costs, table), corners.size, costs.of_table(table), told.words(corners))


def _node(costs: Costs, table: NDArray[np.int64]) -> Node:
    flat = table.ravel()
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
    if len(starts) == 1:
        return Choose(int(flat[0]))
    return Lookup(costs.grid.axes, tuple(starts.tolist()), tuple(flat[starts].tolist()))


@dataclass(frozen=True, eq=False)
class _Told:
    """Corners in words."""

    costs: Costs
    places: list[NDArray[np.int64]]
    signs: tuple[int, ...]
    above: bool

    def words(self, corners: Corners) -> str:
        most = len(self.costs.actions) - 1
        named = [described(self.costs.action_name, action) for action in self.costs.actions]
        if self.above:
            named = named[::-1]
        lines = []
        for action in sorted(np.unique(corners.action).tolist(), reverse=True):
            mine = corners.at[corners.action == action]
            ways = [self._where(at) for at in mine]
            lines.append(f"{named[action]} where {'; or '.join(ways)}.")
        name = "lowest" if self.above else "highest"
        head = f"Take the first line that applies ({name} {self.costs.action_name} first).\n"
        head = head if len(lines) > 1 and most > 1 else ""
        return head + "\n".join([*lines, f"{named[corners.base]} elsewhere."]) if lines else ""

    def _where(self, at: NDArray) -> str:
        said = []
        for axis, place in enumerate(at.tolist()):
            if place:
                said.append(self._bound(axis, place))
        return " and ".join(said)

    def _bound(self, axis: int, place: int) -> str:
        """``stock is at least 3``: the end of the part that is ``place`` parts from the start."""
        grid, starts = self.costs.grid, self.places[axis]
        n, order = grid.shape[axis], self.costs.order[axis]
        rising = self.signs[axis] > 0
        at = int(starts[place]) if rising else int([*starts, n][len(starts) - place]) - 1
        value = grid.values[axis][order[at]]
        text = str(value) if grid.values[axis].dtype.kind == "U" else shown(float(value))
        return f"{grid.axes[axis]} is {'at least' if rising else 'at most'} {text}"


def _turned(array: NDArray, signs: tuple[int, ...]) -> NDArray:
    """An array whose first axes are reversed where a sign is negative."""
    return array[tuple(slice(None, None, sign) for sign in signs)]


def _promising(table: NDArray) -> list[tuple[int, ...]]:
    """The directions whose surfaces cost least."""
    axes = table.ndim - 1
    tried = [*_directions(axes)] if axes <= SIGNED else _likely(table)
    return sorted(
        tried,
        key=lambda signs: _spent(_turned(table, signs), cheapest(_turned(table, signs)).table),
    )[:BEST]


def _directions(axes: int) -> Iterator[tuple[int, ...]]:
    return itertools.product((1, -1), repeat=axes)


def _likely(table: NDArray) -> list[tuple[int, ...]]:
    """The direction in which the cheapest actions rise, by what is at stake; and its opposite."""
    low = np.partition(table, 1, axis=-1)
    stake, best = low[..., 1] - low[..., 0], table.argmin(axis=-1)
    total = max(float(stake.sum()), 1e-300)
    off = stake * (best - (stake * best).sum() / total)
    places = np.indices(best.shape)
    signs = tuple(1 if (off * place).sum() >= 0 else -1 for place in places)
    return [signs, tuple(-s for s in signs)]
