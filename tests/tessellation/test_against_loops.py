"""The fast route against a slow, obvious one: dictionaries of states, loops, flood fill."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tessella.tessellation import (
    connected,
    convex,
    measure,
    monotone,
    outline,
    switching_curves,
    threshold,
)

MAPS = hnp.arrays(
    np.int64,
    hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5),
    elements=st.integers(0, 2),
)


class Slow:
    """A map as a dictionary from coordinates to actions."""

    def __init__(self, table):
        self.shape = table.shape
        self.action = {s: int(table[s]) for s in product(*map(range, table.shape))}

    def step(self, s, axis, by):
        moved = tuple(x + by * (k == axis) for k, x in enumerate(s))
        return moved if moved in self.action else None

    def beside(self, s, axis):
        return [n for by in (-1, 1) if (n := self.step(s, axis, by)) is not None]

    def edges(self, axis):
        return [(s, n) for s in self.action if (n := self.step(s, axis, 1)) is not None]

    def faces(self, axis):
        return [(s, n) for s, n in self.edges(axis) if self.action[s] != self.action[n]]

    def boundary(self):
        return {s for axis in range(len(self.shape)) for face in self.faces(axis) for s in face}

    def corners(self, counts):
        """States with a neighbour for which ``counts(state, neighbour)``, along two axes."""
        axes = range(len(self.shape))
        along = {
            s: sum(any(counts(s, n) for n in self.beside(s, k)) for k in axes) for s in self.action
        }
        return sum(k >= 2 for k in along.values())

    def components(self, states, joined):
        left, found = set(states), []
        while left:
            seed = min(left)
            component, frontier = set(), {seed}
            while frontier:
                s = frontier.pop()
                component.add(s)
                for axis in range(len(self.shape)):
                    for n in self.beside(s, axis):
                        if n in left and n not in component and joined(s, n):
                            frontier.add(n)
            left -= component
            found.append(component)
        return found

    def cells(self):
        return self.components(self.action, lambda s, n: self.action[s] == self.action[n])

    def lines(self, axis):
        others = [range(n) for k, n in enumerate(self.shape) if k != axis]
        for rest in product(*others):
            yield (
                rest,
                [self.action[(*rest[:axis], i, *rest[axis:])] for i in range(self.shape[axis])],
            )


def runs(line):
    return [a for i, a in enumerate(line) if i == 0 or a != line[i - 1]]


@given(MAPS)
def test_the_diagnostics_agree_with_counting_by_hand(tile, table):
    slow, t = Slow(table), tile(table, (0, 1, 2))
    geometry = measure(t)
    axes = range(table.ndim)
    n_faces, n_edges = (sum(len(of(k)) for k in axes) for of in (slow.faces, slow.edges))
    edge_states = slow.boundary()
    assert geometry.boundary_length == n_faces / max(n_edges, 1)
    assert geometry.boundary_fraction == len(edge_states) / table.size
    assert geometry.boundary_components == len(slow.components(edge_states, lambda s, n: True))
    cells = slow.cells()
    assert geometry.region_components == len(cells)
    assert sorted(geometry.cell_sizes) == sorted(map(len, cells))
    acts = slow.action
    across = slow.corners(lambda s, n: acts[s] != acts[n])
    inside = slow.corners(lambda s, n: s in edge_states and n in edge_states)
    assert geometry.corner_index == across / max(n_faces, 1)
    assert geometry.corner_index_by_states == inside / max(n_faces, 1)


@given(MAPS)
def test_cells_and_faces_agree_state_by_state(tile, table):
    slow, t = Slow(table), tile(table, (0, 1, 2))
    cells = sorted(slow.cells(), key=min)
    for label, cell in enumerate(cells):
        assert {int(t.cells[s]) for s in cell} == {label}
    for axis in range(table.ndim):
        faces = slow.faces(axis)
        flat = [[np.ravel_multi_index(s, table.shape) for s in face] for face in faces]
        np.testing.assert_array_equal(t.face_states(axis), np.reshape(flat, (-1, 2)))


@given(MAPS)
def test_line_structures_agree_with_reading_every_line(tile, table):
    slow, t = Slow(table), tile(table, (0, 1, 2))
    convex_lines = []
    for k, axis in enumerate(t.grid.axes):
        lines = [line for _, line in slow.lines(k)]
        assert bool(monotone(t, axis, "rises")) == all(line == sorted(line) for line in lines)
        assert bool(monotone(t, axis, "falls")) == all(line == sorted(line)[::-1] for line in lines)
        orders = product([0, 1, 2], repeat=3)
        fits = any(
            all(line == sorted(line, key=order.index) for line in lines)
            for order in orders
            if len(set(order)) == 3
        )
        found = threshold(t, axis)
        assert bool(found) == fits
        if found:
            assert all(line == sorted(line, key=found.order.index) for line in lines)
        convex_lines += [len(runs(line)) == len(set(line)) for line in lines]
    assert bool(convex(t)) == all(convex_lines)
    assert bool(connected(t)) == (len(slow.cells()) == len(set(slow.action.values())))


@given(MAPS)
def test_switching_curves_agree_with_reading_every_line(tile, table):
    slow, t = Slow(table), tile(table, (0, 1, 2))
    for k, axis in enumerate(t.grid.axes):
        curves = switching_curves(t, axis)
        for rest, line in slow.lines(k):
            for a in range(3):
                spots = [i for i, act in enumerate(line) if act == a] or [-1]
                assert (curves.first[a][rest], curves.last[a][rest]) == (spots[0], spots[-1])
                solid = spots == [-1] or spots == list(range(spots[0], spots[-1] + 1))
                assert curves.solid[a][rest] == solid


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.integers(0, 1)))
def test_the_outline_covers_every_face_once(tile, table):
    slow = Slow(table)
    unit = set()
    for (x0, y0), (x1, y1) in outline(tile(table, (0, 1))):
        assert (x0 == x1) != (y0 == y1)
        along = int(abs(x1 - x0) + abs(y1 - y0))
        steps = {
            (x0 + (x1 - x0) * (i + 0.5) / along, y0 + (y1 - y0) * (i + 0.5) / along)
            for i in range(along)
        }
        assert not steps & unit
        unit |= steps
    middles = {
        ((s[0] + n[0]) / 2, (s[1] + n[1]) / 2) for axis in (0, 1) for s, n in slow.faces(axis)
    }
    assert unit == middles
