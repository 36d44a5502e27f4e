"""A rule tree does what its nodes say, comes back from JSON, and keeps clear of rounding."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella.mdp.rule_tree import (
    Exceptions,
    LabelSplit,
    Leaf,
    Lookup,
    RuleTree,
    Split,
    choose_short_number,
    node_from_json,
    node_to_json,
)

GRID = ts.StateGrid(stock=range(5), season=["dry", "wet", "cold"])
LADDER = Split((("stock", 1.0),), (1.5, 2.5), (Leaf(0), Leaf(1), Leaf(2)))
TABLE = Lookup(("season", "stock"), (0, 7), (0, 1))
ROOT = LabelSplit("season", ("dry", "cold"), LADDER, Exceptions(((3, "wet"),), (2,), TABLE))
PROGRAM = RuleTree(GRID, ROOT, 9)


def test_a_rule_tree_does_what_its_nodes_say():
    expected = np.array([[0, 0, 0], [0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 1, 2]])
    assert np.array_equal(PROGRAM(GRID.points).reshape(5, 3), expected)


def test_a_rule_tree_comes_back_from_json():
    assert node_from_json(node_to_json(ROOT)) == ROOT


def test_a_node_of_no_known_kind_is_refused():
    with pytest.raises(ts.PolicyError, match="got 'Guess'"):
        node_from_json({"Guess": {}})


def test_the_slack_is_the_distance_of_the_nearest_state_from_a_cut():
    assert PROGRAM.cut_clearance == pytest.approx(0.5 / 4)
    assert (
        RuleTree(GRID, Split((("stock", 1.0),), (2.0,), (Leaf(0), Leaf(1))), 1).cut_clearance == 0
    )


def test_a_rule_tree_names_the_axes_that_it_looks_at():
    assert PROGRAM.axes == ("stock", "season")
    assert RuleTree(GRID, LADDER, 2).axes == ("stock",)


@pytest.mark.parametrize(
    ("low", "high", "cut"),
    [(3, 4, 3.5), (0.12, 0.13, 0.125), (-7, 5, 0.0), (1e-9, 2e-9, 1.5e-9), (3, 9, 6.0)],
)
def test_a_cut_has_the_fewest_digits_that_keep_it_well_inside(low, high, cut):
    assert choose_short_number(low, high) == pytest.approx(cut, rel=1e-12)
    assert str(choose_short_number(-7, 5)) == "0.0"
