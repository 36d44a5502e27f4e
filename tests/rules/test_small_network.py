"""Small networks: a tree of splits is the index with kinks, and finds what no line can."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella.rules.export.export_context import ExportContext
from tessella.rules.export.python_code import BarePython
from tessella.rules.export.sql import Sql
from tessella.rules.small_network import KinkedIndex, build_network_node

GRID = ts.StateGrid(stock=range(12), regime=range(9))


def bent(weak: float = 0.0) -> np.ndarray:
    """(S,) actions along a boundary with a kink, which no weighted sum has."""
    stock, regime = GRID.points.T
    index = stock + np.maximum(0, 1.5 * regime - 6) + weak
    return np.searchsorted([3.7, 7.7], index, side="left")


def wrong(table: np.ndarray) -> ts.Costs:
    return ts.Costs(GRID, (0, 4, 8), 1.0 - np.eye(3)[table], action_name="order")


def test_a_network_does_what_no_weighted_sum_does():
    costs = wrong(bent())
    line = min(f.cost for f in ts.LinearCuts().fit(costs, 40, 0.5))
    network = ts.SmallNetwork().fit(costs, 40, 0.5)[-1]
    assert line >= 3
    assert network.cost < 0.5
    assert network.size in (1 + 1 * 3 + 2, 1 + 2 * 3 + 2)  # a weight, units of three, two cuts
    assert np.array_equal(network.build_tree(GRID)(GRID.points), bent())
    assert network.sentence.startswith("index = ")
    assert network.sentence.count("max(0, ") == (network.size - 3) // 3


def test_the_tree_of_a_network_is_its_index_with_cuts_on_the_grid_and_off_it():
    rng = np.random.default_rng(3)
    points = rng.uniform(-2, 14, (500, 2))
    for units in (1, 2, 3):
        kinks, at = np.round(rng.normal(0, 1, (units, 2)), 2), np.round(rng.normal(0, 4, units), 2)
        sign = rng.choice((-1.0, 1.0), units)
        index = KinkedIndex(np.array([1.0, -0.3]), kinks, at, sign)
        limits = [-1.23456, 2.34567]
        root = build_network_node(("stock", "regime"), index, limits, (2, 0, 1))
        said = ts.Candidate(root, 1, 0.0).build_tree(GRID)(points)
        value = points[:, 0] - 0.3 * points[:, 1]
        for a, b, v in zip(kinks, at, sign, strict=True):
            value = value + v * np.where(points @ a > b, points @ a - b, 0.0)
        assert np.array_equal(said, np.array([2, 0, 1])[np.searchsorted(limits, value)])


def test_a_fit_says_what_it_costs_and_nothing_is_proven():
    rng = np.random.default_rng(5)
    costs = ts.Costs(GRID, (0, 4, 8), rng.random((GRID.size, 3)))
    fits = ts.SmallNetwork().fit(costs, 9, 0.0)
    assert fits
    for fitted in fits:
        assert costs.of(fitted.build_tree(GRID)) == pytest.approx(fitted.cost)
        assert fitted.size <= 9
    assert "trained" in ts.SmallNetwork().why_not_exact(costs)
    assert ts.SmallNetwork().fit(costs, 4, 0.0) == []  # too few for a unit and a cut


@pytest.mark.parametrize("target", [BarePython(), Sql()], ids=lambda target: target.suffix)
def test_a_network_is_exported_like_any_rule(target):
    fitted = ts.SmallNetwork().fit(wrong(bent()), 40, 0.5)[-1]
    rule = ts.Rule(GRID, (0, 4, 8), fitted.build_tree(GRID), "network", "order")
    draft = ExportContext(rule)
    rows = {
        name: values.tolist() for name, values in GRID.coordinates(np.arange(GRID.size)).items()
    }
    assert np.array_equal(target.run(target.write(draft), draft, rows), rule.table.ravel())
