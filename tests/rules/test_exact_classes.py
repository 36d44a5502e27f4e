"""A class that calls itself exact is: its sizes are the least over all tables of small grids."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from support.small_rules import find_index_size

import tessella as ts

SHAPE = (4, 3)


def all_tables(n_states: int, n_actions: int) -> np.ndarray:
    """(A^S, S) every table there is."""
    return np.array(list(itertools.product(range(n_actions), repeat=n_states)))


def ladder_cuts(row: tuple) -> float:
    """The fewest cuts with the first actions in order, along the row or against it."""
    ordered = [*row] == sorted(row) or [*row] == sorted(row, reverse=True)
    return max(max(row), 1) if ordered else np.inf


@cache
def leaves(table: tuple) -> int:
    """Leaves of the smallest tree that is a table, given as a tuple of rows."""
    if len({a for row in table for a in row}) == 1:
        return 1
    parts = [(table[:at], table[at:]) for at in range(1, len(table))]
    parts += [
        (tuple(row[:at] for row in table), tuple(row[at:] for row in table))
        for at in range(1, len(table[0]))
    ]
    return min(leaves(a) + leaves(b) for a, b in parts)


def bands(table: tuple) -> float:
    """Numbers of the smallest staircase that is a table, with bands of rows."""
    found = 1 + sum(a != b for a, b in itertools.pairwise(table))
    return found - 1 + found * max(map(ladder_cuts, table))


def runs(row: tuple) -> int:
    return 1 + sum(a != b for a, b in itertools.pairwise(row))


def tree_size(table: np.ndarray) -> float:
    return 3 * leaves(rows_of(table)) - 2


def stair_size(table: np.ndarray) -> float:
    return min(bands(rows_of(table)), bands(rows_of(table.T)))


def run_size(table: np.ndarray) -> float:
    return 2 * min(runs(tuple(table.ravel())), runs(tuple(table.T.ravel())))


def one_size(table: np.ndarray) -> float:
    return 1 if (table == table.flat[0]).all() else np.inf


def rows_of(table: np.ndarray) -> tuple:
    return tuple(map(tuple, table.tolist()))


# Class, numbers of a table, whether costs are 0 and 1 only, whether axes are even, and whether the
# class reads the axes as they are listed.
PLANE = [
    (ts.OneAction(), one_size, False, False, False),
    (ts.AxisTree(), tree_size, False, False, False),
    (ts.AxisTree(work=1.0), tree_size, False, False, False),
    (ts.Staircase(), stair_size, False, False, False),
    (ts.LinearCuts(), find_index_size, False, True, False),
    (ts.RunLength(), run_size, True, False, True),
]
IDS = [f"{rule_class.name}, {getattr(rule_class, 'work', 0):g}" for rule_class, *_ in PLANE]


def drawn_axis(rng: np.random.Generator, n: int, even: bool) -> np.ndarray:
    """Values of an axis in any order, near 0 or far from it, close or wide apart."""
    steps = np.ones(n) if even else rng.uniform(0.2, 3.0, n)
    values = np.cumsum(steps) * 2.0 ** rng.integers(-6, 7) + rng.choice([0.0, -5.0, 2.0**30])
    return rng.permutation(values)


def drawn_costs(
    rng: np.random.Generator, grid: ts.StateGrid, n_actions: int, whole: bool
) -> ts.Costs:
    """Costs of every action, some of which are all but forbidden."""
    costs = rng.random((grid.size, n_actions)) ** 3
    costs[rng.random(costs.shape) < 0.2] = 0.0
    costs[rng.random(costs.shape) < 0.2] = 50.0
    costs[np.arange(grid.size), rng.integers(0, n_actions, grid.size)] = 0.0
    return ts.Costs(grid, tuple(range(n_actions)), (costs > 0.3).astype(float) if whole else costs)


def check(
    rng, rule_class: ts.RuleClass, costs: ts.Costs, tables: np.ndarray, sizes: np.ndarray
) -> None:
    """What is needed for a target is the least size of all tables that cost no more."""
    assert rule_class.why_not_exact(costs) == ""
    paid = costs.by_state[np.arange(costs.grid.size), tables].sum(axis=1)
    some = np.isfinite(sizes) & (paid < 40)
    for target in [0.5, *(rng.choice(paid[some], 2) + 1e-9 if some.any() else [])]:
        true = sizes[paid <= target].min(initial=np.inf)
        fits = rule_class.fit(costs, 40, target)
        needed = rule_class.size_lower_bound(costs, target, 40, fits)
        assert needed <= min(true, 41)
        within = min(
            (f.size for f in fits if costs.of(f.build_tree(costs.grid)) <= target), default=99
        )
        assert within >= min(true, 99)
        if needed > 1 and getattr(rule_class, "work", 2) > 1:
            assert needed == min(true, 41)


@pytest.mark.parametrize(("rule_class", "size", "whole", "even", "listed"), PLANE, ids=IDS)
def test_what_a_class_proves_on_a_plane_is_the_least_over_all_tables(
    rule_class, size, whole, even, listed
):
    tables = all_tables(SHAPE[0] * SHAPE[1], 2)
    sizes = np.array([size(t.reshape(SHAPE)) for t in tables], dtype=float)
    rng = np.random.default_rng(8)
    for _ in range(12):
        x, y = (drawn_axis(rng, n, even) for n in SHAPE)
        rising = tables.reshape(-1, *SHAPE)  # along rising axes; the grid lists them in any order
        if not listed:
            rising = rising[:, np.argsort(np.argsort(x))][:, :, np.argsort(np.argsort(y))]
        if even:
            ratio = float(np.ptp(y) / (SHAPE[1] - 1) / (np.ptp(x) / (SHAPE[0] - 1)))
            sizes = np.array([find_index_size(t.reshape(SHAPE), ratio) for t in tables])
        costs = drawn_costs(rng, ts.StateGrid(x=x, y=y), 2, whole)
        check(rng, rule_class, costs, rising.reshape(len(tables), -1), sizes)


def line_sizes(values: np.ndarray, tables: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """(T,) numbers of the smallest order-up-to form that is a table, by trying very many."""
    found: dict[tuple, int] = {}
    ends = values[:, None] + actions
    levels = np.unique(np.concatenate([ends.ravel() - 1e-4, ends.ravel(), ends.ravel() + 1e-4]))
    for s, quantity in itertools.product(values, range(1, len(actions))):
        found[tuple(np.where(values <= s, quantity, 0))] = 2  # (r, Q)
    ways = ([0, *actions[actions > 0]], (False, True), levels, [None, *actions[1:-1]])
    for lot, up, level, cap in itertools.product(*ways):
        kept = actions if not lot else actions[(actions % lot == 0) | (actions == actions[0])]
        kept = kept if cap is None else kept[kept <= cap]
        short = level - values
        if up:
            at = np.minimum((kept < short[:, None] - 1e-9).sum(axis=1), len(kept) - 1)
        else:
            at = np.maximum((kept <= short[:, None] + 1e-9).sum(axis=1) - 1, 0)
        for s in [*values, None] if cap is None or not lot else [None]:
            chosen = kept[at] if s is None else np.where(values <= s, kept[at], kept[0])
            table = tuple(np.searchsorted(actions, chosen))
            size = 1 + (lot > 0) + (s is not None) + (cap is not None)
            found[table] = min(found.get(table, 9), size)
    return np.array([found.get(tuple(t), np.inf) for t in tables])


@pytest.mark.parametrize("offset", [0.0, -3.0, 2.0**30])
def test_what_an_order_rule_on_one_axis_proves_is_the_least_over_all_tables(offset):
    values, actions = np.array([0.0, 1.0, 2.5, 4.0, 7.0]) + offset, np.array([0, 1, 2, 4])
    tables = all_tables(5, 4)
    sizes = line_sizes(values, tables, actions)
    rng = np.random.default_rng(8)
    for _ in range(8):
        costs = drawn_costs(rng, ts.StateGrid(x=values), 4, whole=False)
        check(
            rng, ts.OrderUpTo(), ts.Costs(costs.grid, (0, 1, 2, 4), costs.by_state), tables, sizes
        )


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_what_an_index_on_one_axis_proves_is_the_least_over_all_tables(offset):
    tables = all_tables(6, 3)
    from_first = np.array([ladder_cuts(tuple(t)) for t in tables], dtype=float)
    from_last = np.array([ladder_cuts(tuple(2 - t)) for t in tables], dtype=float)
    sizes = np.minimum(from_first, from_last)
    rng = np.random.default_rng(8)
    for _ in range(8):
        costs = drawn_costs(rng, ts.StateGrid(x=np.arange(6) + offset), 3, whole=False)
        check(rng, ts.LinearCuts(), costs, tables, sizes)


def wrong(grid: ts.StateGrid, actions: tuple, table: np.ndarray) -> ts.Costs:
    """Costs of 1 for every state in which a rule differs from a table."""
    return ts.Costs(grid, actions, 1.0 - np.eye(len(actions))[np.asarray(table).ravel()])


def test_a_staircase_goes_on_where_one_band_more_saves_nothing():
    table = np.zeros((5, 6), int)
    table[:, 3:] = 1
    table[2, 1:] = 1  # rows A, A, B, A, A: two bands are no better than one
    costs = wrong(ts.StateGrid(x=range(5), y=range(6)), (0, 1), table)
    fits = ts.Staircase().fit(costs, 40, 0.5)
    assert (fits[-1].size, fits[-1].cost) == (5, 0.0)
    assert ts.Staircase().size_lower_bound(costs, 0.5, 40, fits) == 5


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
def test_states_far_from_zero_are_told_apart(offset):
    grid = ts.StateGrid(t=np.arange(10) + offset, u=range(3))
    table = np.repeat((np.arange(10) >= 4).astype(int), 3)
    for rule_class, wanted in ((ts.LinearCuts(), table), (ts.OrderUpTo(), 1 - table)):
        costs = wrong(grid, (0, 1), wanted)
        fits = rule_class.fit(costs, 20, 0.5)
        assert fits[0].cost == 0.0
        assert rule_class.size_lower_bound(costs, 0.5, 20, fits) == 1


def test_an_order_rule_tries_every_level_and_lot_or_says_that_it_does_not():
    rule_class, stock = ts.OrderUpTo(), np.arange(700)
    actions = tuple(range(40))
    for level in (351, 352, 353):
        costs = wrong(ts.StateGrid(stock=stock), actions, np.clip(level - stock, 0, 39))
        assert rule_class.fit(costs, 20, 0.5)[0].cost == 0.0
        assert "lots are tried" in rule_class.why_not_exact(costs)
    stock, actions = np.arange(31), tuple(range(21))
    costs = wrong(ts.StateGrid(stock=stock), actions, np.clip(25 - stock, 0, 20) // 10 * 10)
    assert rule_class.why_not_exact(costs) == ""
    assert (rule_class.fit(costs, 20, 0.5)[-1].size, rule_class.fit(costs, 20, 0.5)[-1].cost) == (
        2,
        0.0,
    )
    fine = ts.StateGrid(stock=np.sqrt(np.arange(150.0)))
    costs = wrong(fine, tuple(range(40)), np.zeros(150, int))
    assert "levels to order up to are tried" in rule_class.why_not_exact(costs)
