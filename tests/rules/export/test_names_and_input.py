"""What may be exported, under which names; what a file does with input that makes no sense."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.exports import CASES

import tessella as ts
from tessella.mdp.rule_tree import Leaf, RuleTree, Split
from tessella.rules.export.export_context import derive_identifier

GRID = {"stock": range(6)}


@pytest.fixture(scope="module")
def mdp():
    rows = np.full((2, 6, 6), 1 / 6)
    return ts.MDP.from_arrays(
        rows, np.eye(2)[np.arange(6) % 2], 0.5, grid=GRID, actions=(3, 8), name="shop"
    )


@pytest.fixture(scope="module")
def function(mdp, tmp_path_factory):
    """What the exported function does, as ``decide`` of Python."""
    path = tmp_path_factory.mktemp("py") / "rule.py"
    ts.export(lambda stock: np.where(stock > 3, 8, 3), path, mdp)
    names: dict = {}
    exec(path.read_text(), names)
    return names["decide"], path.read_text()


def test_a_function_of_axes_is_exported_for_a_model_which_the_head_names(mdp, function):
    decide, text = function
    assert [decide(stock) for stock in range(6)] == [3, 3, 3, 3, 8, 8]
    assert "# model: shop" in text
    assert f"# fingerprint: {mdp.fingerprint}" in text
    assert "certified" not in text


def test_a_policy_of_a_solution_is_exported_under_the_name_of_its_model(mdp, tmp_path):
    ts.export(ts.solve(mdp), tmp_path / "best.sql")
    assert "-- model: shop" in (tmp_path / "best.sql").read_text()


def test_a_function_without_a_model_is_refused(tmp_path):
    with pytest.raises(ts.ArgumentError, match="got function and no model"):
        ts.export(lambda stock: stock, tmp_path / "a.py")


@pytest.mark.parametrize(
    "value", ["3", b"3", "", None, [3], {3}, 3j, float("nan"), object, (3, 4), ts]
)
def test_python_refuses_what_is_no_number_by_name(function, value):
    with pytest.raises(ValueError, match="stock cannot be "):
        function[0](value)


@pytest.mark.parametrize(
    "value", [4, 4.0, True + 3, np.int64(4), np.float32(4), Fraction(4), 10**400]
)
def test_python_takes_numbers_of_every_kind(function, value):
    assert function[0](value) == 8


def test_c_functions_of_two_files_have_two_names(tmp_path):
    rule, found = CASES["text_axis"], []
    for name in ("rule-a", "rule-b", "rule.a2", "größe", "2nd"):
        rule.export(tmp_path / f"{name}.c")
        text = (tmp_path / f"{name}.c").read_text()
        assert f"int {derive_identifier(name)}(" in text
        found.append(derive_identifier(name))
    assert found == ["rule_a", "rule_b", "rule_a2", "gru" + "f6udfe", "rule_2nd"]


@pytest.mark.parametrize("suffix", [".json", ".csv", ".dtcontrol.csv"])
def test_a_file_of_data_takes_no_word_about_input_off_the_grid(tmp_path, suffix):
    for off_grid in ("clamp", "refuse"):
        with pytest.raises(ts.ArgumentError, match="is a file of data"):
            CASES["text_axis"].export(tmp_path / f"a{suffix}", off_grid=off_grid)
    assert not list(tmp_path.iterdir())


def deep(levels: int) -> RuleTree:
    """A tree that asks about one axis and the other in turn, ever deeper."""
    grid = ts.StateGrid(x=range(3), y=range(3))
    node = Leaf(0)
    for level in range(levels):
        axis = "xy"[level % 2]
        node = Split(((axis, 1.0),), (1.5,), (node, Leaf(1)))
    return RuleTree(grid, node, levels)


def test_a_rule_tree_of_any_depth_is_evaluated_and_explained():
    tree = deep(5_000)
    said = tree(tree.grid.points).reshape(3, 3)
    assert np.array_equal(said, [[0, 0, 1], [0, 0, 1], [1, 1, 1]])
    assert tree.depth == 5_001
    rule = ts.Rule(tree.grid, (0, 1), tree, kind="own")
    assert rule.explain().splitlines()[0] == "action=0 where y is at most 1 and x is at most 1"


@pytest.mark.parametrize("suffix", [".py", ".c", ".rs", ".sql", ".json"])
def test_a_rule_tree_too_deep_for_a_file_is_refused_in_a_sentence(tmp_path, suffix):
    tree = deep(5_000)
    rule = ts.Rule(tree.grid, (0, 1), tree, kind="own")
    with pytest.raises(ts.FileError, match=r"deeply.*5,001 levels"):
        rule.export(tmp_path / f"a{suffix}")
    assert not list(tmp_path.iterdir())


def test_a_saved_rule_is_a_policy_of_its_model(mdp, tmp_path):
    solution = ts.solve(mdp)
    rule = ts.compress(solution, 0.0, classes=[ts.RunLength()])
    rule.save(tmp_path / "rule.json")
    for back in (mdp.policy(tmp_path / "rule.json"), ts.Policy.load(tmp_path / "rule.json")):
        assert np.array_equal(back.table, rule.table)
        assert (back.size, back.name) == (rule.size, rule.name)
    assert ts.certify(solution, str(tmp_path / "rule.json")).mean_loss.upper == 0.0


def test_bounds_on_one_axis_are_said_once():
    grid = ts.StateGrid(stock=range(10), mode=["a", "b", "c"])
    inner = Split((("stock", 1.0),), (3.5,), (Leaf(0), Leaf(1)))
    root = Split((("stock", 1.0),), (7.5,), (inner, Leaf(0)))
    rule = ts.Rule(grid, (0, 1), RuleTree(grid, root, 5), kind="own")
    assert rule.explain().splitlines()[:3] == [
        "action=0 where stock is at most 3",
        "action=1 where stock is 4 to 7",
        "action=0 where stock is at least 8",
    ]
    inner = Split((("stock", 1.0),), (7.5,), (Leaf(1), Leaf(0)))
    root = Split((("stock", 1.0),), (3.5,), (Leaf(0), inner))
    other = ts.Rule(grid, (0, 1), RuleTree(grid, root, 5), kind="own")
    assert other.explain() == rule.explain()
