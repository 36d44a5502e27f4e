"""Every export says what the policy says: in every state, and off the grid as it was told to."""

from __future__ import annotations

import math
import shutil
import subprocess

import numpy as np
import pytest
from support.exports import (
    CASES,
    GRID,
    draw_program,
    find_expected_actions,
    list_off_grid_rows,
    list_states,
    require_compiler,
)

import tessella as ts
from tessella.mdp.rule_tree import RuleTree
from tessella.rules.export.c99 import C99
from tessella.rules.export.export import FORMATS
from tessella.rules.export.export_context import ExportContext
from tessella.rules.export.onnx_graph import OnnxGraph
from tessella.rules.export.python_code import BarePython
from tessella.rules.export.rust import Rust
from tessella.rules.export.spreadsheet import SpreadsheetFormula, Workbook
from tessella.rules.export.sql import Sql

SAFE = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsanitize=address,undefined")
SAFE = (*SAFE, "-fno-sanitize-recover=all")
TRICKY = (math.nan, math.inf, -math.inf)
ODD = {
    BarePython: (*TRICKY, "3"),
    C99: TRICKY,
    OnnxGraph: TRICKY,
    Rust: TRICKY,
    Sql: (*TRICKY, "3"),
    SpreadsheetFormula: ("three",),
}


@pytest.fixture(scope="module", params=FORMATS, ids=lambda file_format: file_format.suffix)
def file_format(request):
    require_compiler(request.param)
    return request.param


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_says_what_the_policy_says_in_every_state(file_format, name):
    policy = CASES[name]
    draft = ExportContext(policy, "while")
    if isinstance(file_format, Workbook) and name == "named":  # a cell cannot hold "\r"
        with pytest.raises(ts.FileError, match="cannot hold control characters"):
            file_format.write(draft)
        return
    said = file_format.run(file_format.write(draft), draft, list_states(policy))
    assert np.array_equal(said, policy.table.ravel())


@pytest.fixture(scope="module", params=ODD, ids=lambda kind: kind.name)
def kind(request):
    require_compiler(request.param())
    return request.param


@pytest.mark.parametrize("off_grid", ["clamp", "refuse"])
@pytest.mark.parametrize("name", ["text_axis", "linear", "four_axes"])
def test_input_off_the_grid_is_clamped_or_refused_as_chosen(kind, off_grid, name):
    file_format, policy = kind(), CASES[name]
    draft = ExportContext(policy, "rule", off_grid)
    rows = list_off_grid_rows(policy, ODD[kind])
    inside = list_states(policy)
    both = {axis: [*rows[axis], *inside[axis]] for axis in rows}
    said = file_format.run(file_format.write(draft), draft, both)
    expected = find_expected_actions(policy, both, off_grid)
    assert said.tolist() == expected.tolist()
    assert -1 in expected  # something is refused in any case: a label, or what is no number
    stray = expected[: len(rows[policy.grid.axes[0]])]
    assert (stray >= 0).sum() == (off_grid == "refuse") or len(set(stray)) > 2


def test_random_rule_trees_agree_on_the_grid_and_off_it(kind):
    file_format, rng = kind(), np.random.default_rng(14)
    for _ in range(60 if kind is Sql else 15):
        policy = ts.Rule(GRID, (0, 1, 2, 3), RuleTree(GRID, draw_program(rng), 9))
        draft = ExportContext(policy)
        rows = list_off_grid_rows(policy, ())
        rows = {axis: [*values, *list_states(policy)[axis]] for axis, values in rows.items()}
        expected = find_expected_actions(policy, rows, "clamp")
        assert np.array_equal(file_format.run(file_format.write(draft), draft, rows), expected), (
            policy.tree
        )
        low = ts.Rule(GRID, (0, 1, 2, 3), RuleTree(GRID, draft.root, 9))
        assert np.array_equal(find_expected_actions(low, rows, "clamp"), expected), policy.tree


@pytest.mark.parametrize("off_grid", ["clamp", "refuse"])
@pytest.mark.parametrize("name", CASES)
def test_c_compiles_without_a_warning_and_runs_without_a_fault(name, off_grid):
    policy = CASES[name]
    draft = ExportContext(policy, "reorder", off_grid)
    rows, beyond = list_states(policy), list_off_grid_rows(policy, TRICKY)
    both = {axis: [*rows[axis], *beyond[axis]] for axis in rows}
    said = C99().run(C99().write(draft), draft, both, SAFE)
    assert np.array_equal(said, find_expected_actions(policy, both, off_grid))


@pytest.mark.parametrize("off_grid", ["clamp", "refuse"])
@pytest.mark.parametrize("name", CASES)
def test_rust_compiles_without_a_warning_as_a_module_and_as_a_library(tmp_path, name, off_grid):
    require_compiler(Rust())
    policy = CASES[name]
    draft = ExportContext(policy, "reorder", off_grid)
    rows, beyond = list_states(policy), list_off_grid_rows(policy, TRICKY)
    both = {axis: [*rows[axis], *beyond[axis]] for axis in rows}
    content = Rust().write(draft)
    said = Rust().run(content, draft, both, ("-D", "warnings", "--edition=2021"))
    assert np.array_equal(said, find_expected_actions(policy, both, off_grid))
    (tmp_path / "reorder.rs").write_bytes(content)
    command = [str(shutil.which("rustc")), "-D", "warnings", "--crate-type", "lib", "reorder.rs"]
    library = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (library.returncode, library.stderr) == (0, "")


@pytest.fixture(scope="module", params=["QUE-Lin", "INV-Mix"])
def policy(request):
    return ts.solve(ts.benchmark(request.param)).policy


@pytest.fixture(scope="module")
def tree(policy):
    """The smallest exact tree."""
    wrong = 1.0 - np.eye(len(policy.actions))[policy.table.ravel()]
    fitted = ts.AxisTree().fit(ts.Costs(policy.grid, policy.actions, wrong), 200, 0.0)[-1]
    return ts.Rule(policy.grid, policy.actions, fitted.build_tree(policy.grid), "tree")


def test_a_tree_and_a_table_of_a_benchmark_agree_in_every_state(file_format, policy, tree):
    for made in (tree, policy):
        draft = ExportContext(made)
        said = file_format.run(file_format.write(draft), draft, list_states(policy))
        assert np.array_equal(said, policy.table.ravel())
