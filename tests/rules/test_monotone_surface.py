"""Monotone surfaces: the cheapest is found for certain; none is called impossible that is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.small_rules import find_surface_size

import tessella as ts
from tessella.rules.monotone_surface import SurfaceCorners, find_cheapest_table, find_corners


def rises(table: np.ndarray) -> bool:
    return all((np.diff(table, axis=k) >= 0).all() for k in range(table.ndim))


def rising_tables(shape: tuple[int, ...], actions: int) -> list[np.ndarray]:
    every = itertools.product(range(actions), repeat=int(np.prod(shape)))
    return [t for t in (np.reshape(one, shape) for one in every) if rises(t)]


def paid(costs: np.ndarray, table: np.ndarray) -> float:
    return float(np.take_along_axis(costs, table[..., None], -1).sum())


@pytest.mark.parametrize(("shape", "actions"), [((5,), 4), ((3, 2), 3), ((2, 2, 2), 3)])
def test_a_minimum_cut_is_the_cheapest_of_all_rising_tables(shape, actions):
    tables, rng = rising_tables(shape, actions), np.random.default_rng(1)
    for turn in range(12):
        costs = rng.random((*shape, actions)) ** 3
        if turn % 2:
            costs[rng.random(costs.shape) < 0.3] = 1e6  # as good as forbidden
        true = min(paid(costs, table) for table in tables)
        found = find_cheapest_table(costs)
        assert rises(found.table)
        assert paid(costs, found.table) == pytest.approx(true, rel=1e-6)
        assert found.lower_bound <= true
        assert found.lower_bound >= true * (1 - 1e-6) - 1e-6


def test_a_surface_that_costs_nothing_is_found_beside_large_costs():
    table = np.add.outer(np.arange(5), np.arange(4)) // 2
    costs = (
        np.abs(np.arange(4) - table[..., None])
        * np.array([0.3, 1e-4, 40.0, 1e3, 0.2])[:, None, None]
    )
    assert np.array_equal(find_cheapest_table(costs).table, np.minimum(table, 3))


def test_every_action_may_be_infeasible_somewhere():
    costs = np.array([[0.0, np.inf], [1.0, 2.0], [np.inf, 3.0]])
    found = find_cheapest_table(costs)
    assert found.table.tolist() == [0, 0, 1]
    assert 3.99 < found.lower_bound <= 4.0


def test_corners_are_where_a_table_rises_along_every_axis_and_make_it_again():
    table = np.array([[0, 0, 1, 1], [0, 2, 2, 2], [1, 2, 2, 3]])
    corners = find_corners(table)
    assert corners.positions.tolist() == [[0, 2], [1, 1], [2, 0], [2, 3]]
    assert corners.actions.tolist() == [1, 2, 1, 3]
    assert corners.size == 1 + 3 + 2 * 4  # the lowest action, three levels, four places
    assert np.array_equal(corners.build_table(), table)
    alone = SurfaceCorners(np.array([[0, 2]]), np.array([2]), 0, (3, 4))
    assert alone.size == 3  # one axis is looked at


def test_every_surface_is_the_corners_it_tells():
    rng = np.random.default_rng(0)
    for shape in ((4, 3), (3, 2, 2), (6,)):
        for _ in range(20):
            table = rng.integers(0, 4, shape)
            for axis in range(len(shape)):
                table = np.maximum.accumulate(table, axis)
            assert np.array_equal(find_corners(table).build_table(), table)


def directions(shape: tuple[int, ...]):
    for signs in itertools.product((1, -1), repeat=len(shape)):
        yield tuple(slice(None, None, sign) for sign in signs)


@pytest.mark.parametrize(("shape", "actions"), [((4,), 3), ((3, 2), 2), ((2, 2, 2), 2)])
def test_no_surface_is_called_impossible_that_is_not(shape, actions):
    tables, rng, seen = rising_tables(shape, actions), np.random.default_rng(2), set()
    names = "xyz"[: len(shape)]
    grid = ts.StateGrid({k: range(n) for k, n in zip(names, shape, strict=True)})
    for _ in range(25):
        costs = (rng.random((*shape, actions)) < 0.4).astype(float)
        true = min(paid(costs[way], table) for way in directions(shape) for table in tables)
        asked = ts.Costs(grid, tuple(range(actions)), costs.reshape(grid.size, -1))
        said = ts.MonotoneSurface().is_infeasible(asked, 0.5)
        assert said == (true > 0.5)
        seen.add(said)
        fits = ts.MonotoneSurface().fit(asked, 99, 0.5)
        assert min(f.cost for f in fits) == pytest.approx(true)
        for fitted in fits:
            said = fitted.build_tree(grid)(grid.points).reshape(shape)
            assert fitted.size >= find_surface_size(said)
    assert seen == {True, False}


def test_a_surface_in_words_says_first_what_holds_first():
    grid = ts.StateGrid(stock=range(5), regime=[1.5, 0.5, 2.5])
    order = np.where(grid.points[:, 0] <= 1, np.where(grid.points[:, 1] >= 1, 2, 1), 0)
    costs = ts.Costs(grid, (0, 4, 8), 1.0 - np.eye(3)[order], action_name="order")
    (fitted,) = (f for f in ts.MonotoneSurface().fit(costs, 40, 0.5) if not f.cost)
    assert np.array_equal(fitted.build_tree(grid)(grid.points), order)
    assert fitted.sentence.splitlines() == [
        "Take the first line that applies (highest order first).",
        "order=8 where stock is at most 1 and regime is at least 1.5.",
        "order=4 where stock is at most 1.",
        "order=0 elsewhere.",
    ]
    assert fitted.size == 1 + 2 + 2 * 2


def test_a_model_that_no_surface_serves_is_told_so():
    n = 6
    rows = np.full((2, n, n), 1 / n)
    reward = np.eye(2)[[0, 1, 0, 1, 0, 1]]
    solution = ts.solve(ts.MDP.from_arrays(rows, reward, 0.5, grid={"x": range(n)}))
    rule = ts.compress(solution, 0.0, classes=[ts.RunLength(), ts.MonotoneSurface()])
    assert rule.kind == "run-length table"
    assert "no rule of this class meets the loss target" in rule.outcomes[-1].explanation


@pytest.mark.filterwarnings("error")
def test_costs_below_zero_by_rounding_are_costs_of_zero():
    costs = np.ones((6, 3))
    costs[:, 1] = 1e-27  # the cheapest table, so small that costs are measured again
    costs[2, 0] = -2.6e-17
    found = find_cheapest_table(costs)
    np.testing.assert_array_equal(found.table, np.ones(6))
    assert 0 < found.lower_bound <= 6e-27
