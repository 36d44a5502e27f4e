"""A file appears only when it says what the policy says, and it says what it is about."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from support.exports import CASES, FACTS, list_states, make_rule, require_compiler

import tessella as ts
from tessella.cli import main
from tessella.mdp.rule_tree import Leaf, Lookup, RuleTree, Split
from tessella.rules.comparisons import list_branch_tests, to_comparisons, to_rule_tree
from tessella.rules.export import export as verb
from tessella.rules.export.c99 import C99
from tessella.rules.export.export import FORMATS, find_format
from tessella.rules.export.export_context import ExportContext
from tessella.rules.export.python_code import BarePython
from tessella.rules.export.rust import RUST_RESERVED_WORDS, Rust
from tessella.rules.export.sql import Sql

RULE = CASES["text_axis"]
WRITTEN = (".c", ".rs", ".py", ".sql", ".txt")


@pytest.mark.parametrize("suffix", [t.suffix for t in FORMATS])
def test_the_suffix_names_the_format_and_every_state_is_asked(tmp_path, suffix):
    path = tmp_path / f"reorder{suffix}"
    require_compiler(find_format(path))
    done = RULE.export(path)
    assert path.stat().st_size > 0
    assert (done.path, done.states, done.remark) == (path, 15, "")
    assert str(done).endswith("agrees in all 15 states")


@pytest.mark.parametrize("suffix", WRITTEN)
def test_the_head_of_a_file_names_model_fingerprint_loss_limit_and_certified_loss(tmp_path, suffix):
    ts.export(RULE, tmp_path / f"a{suffix}")
    text = (tmp_path / f"a{suffix}").read_text()
    assert f"fingerprint: {FACTS['fingerprint']}" in text
    assert "loss limit: 1 % of the mean" in text
    assert "certified mean loss: at most 0.125 (0.0025 of the optimal value)" in text
    assert "from the worst state: at most 0.5" in text
    assert "axis stock: 5 values from 0 to 4" in text
    assert "axis season: one of 'dry', 'wet', 'cold'" in text
    assert "action 1: order=4.5" in text
    assert "counts as the end" in text


def test_an_onnx_file_and_its_metadata_hold_the_same_facts(tmp_path):
    RULE.export(tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    props = {prop.key: json.loads(prop.value) for prop in model.metadata_props}
    assert props["facts"] == FACTS
    assert props["actions"] == ["order=0", "order=4.5", "order=-8"]
    assert "fingerprint: 0123abcd" in model.doc_string


@pytest.mark.parametrize("suffix", [".py", ".sql", ".c", ".rs"])
def test_a_file_that_says_something_else_is_not_written(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"a{suffix}"
    require_compiler(find_format(path))
    monkeypatch.setattr(ExportContext, "root", Leaf(2))
    with pytest.raises(
        ts.FileError, match=r"stock=0, season=dry gets order=-8, not order=0 \(10 of"
    ):
        RULE.export(path)
    assert not path.exists()


def test_answers_that_are_no_action_or_refused_are_told_apart():
    said = RULE.table.ravel().astype(np.int64)
    for answer, told in ((-1, "is rejected, not"), (-2, "gets something else, not")):
        with pytest.raises(ts.FileError, match=f"season=wet {told} order=4.5"):
            verb.require_agreement(
                np.where(np.arange(15) == 1, answer, said), ExportContext(RULE), "a.c"
            )


@pytest.mark.parametrize(
    ("file_format", "old", "new"),
    [
        (C99(), b"4.5, -8", b"4.5, -9"),
        (Rust(), b"4.5, -8", b"4.5, -9"),
        (BarePython(), b"-8,", b"-9,"),
    ],
)
def test_a_wrong_table_of_actions_is_noticed(file_format, old, new):
    require_compiler(file_format)
    draft = ExportContext(RULE)
    content = file_format.write(draft)
    assert old in content
    said = file_format.run(content.replace(old, new), draft, list_states(RULE))
    assert (said == -2).all()


def test_a_wrong_action_in_sql_is_noticed():
    draft = ExportContext(RULE)
    content = Sql().write(draft).replace(b"THEN -8", b"THEN -9")
    assert set(Sql().run(content, draft, list_states(RULE))) == {0, 1, -2}


@pytest.mark.parametrize("stem", ["text", "values", "rows", "x0", "number", "word", "harness"])
def test_a_c_function_may_be_called_like_anything_in_the_program_that_asks_it(stem):
    draft = ExportContext(RULE, stem)
    content = C99().write(draft)
    assert f"int {stem}(".encode() in content
    assert np.array_equal(C99().run(content, draft, list_states(RULE)), RULE.table.ravel())


@pytest.mark.parametrize("stem", ["free", "abs", "log", "y0", "read", "malloc", "strlen", "fminf"])
def test_a_c_function_never_takes_the_place_of_one_of_the_library(stem):
    draft = ExportContext(RULE, stem)
    content = C99().write(draft)
    assert f"int {stem}_(".encode() in content
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror")
    assert np.array_equal(C99().run(content, draft, list_states(RULE), flags), RULE.table.ravel())


def test_axes_may_be_called_like_anything_in_rust():
    require_compiler(Rust())
    words = (
        *sorted(RUST_RESERVED_WORDS),
        "decide",
        "ORDER",
        "Self",
        "f64",
        "matches",
        "rule",
        "input",
    )
    policy = make_rule(dict.fromkeys(words, range(1)) | {"z": range(3)}, (1, 2), Leaf(1), 1)
    draft = ExportContext(policy)
    said = Rust().run(Rust().write(draft), draft, list_states(policy), ("-D", "warnings"))
    assert np.array_equal(said, policy.table.ravel())


@pytest.mark.parametrize("declared", ["", "TEXT", "REAL", "BLOB", "INTEGER"])
@pytest.mark.parametrize("off_grid", ["clamp", "refuse"])
def test_sql_refuses_text_and_blobs_where_a_number_is_due(declared, off_grid):
    grid = ts.StateGrid(stock=range(12))
    policy = ts.Policy.from_table(grid, (5, 7), np.arange(12) > 8)
    case = Sql().write(ExportContext(policy, "a", off_grid)).decode()
    given = [3, 3.0, 10, "abc", "", "10x", b"10", b"\0", None]
    database = sqlite3.connect(":memory:")
    try:
        database.execute(f"CREATE TABLE t (stock {declared}, n)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(x, i) for i, x in enumerate(given)])
        said = [a for (a,) in database.execute(f"SELECT\n{case} FROM t ORDER BY n")]
    finally:
        database.close()
    # What a column of text holds is text, also where it reads like a number.
    assert said == ([None] * 9 if declared == "TEXT" else [5, 5, 7, *[None] * 6])


@pytest.mark.parametrize(("name", "language"), [("a.c", "C99"), ("a.rs", "Rust")])
def test_without_a_compiler_the_file_is_written_and_that_is_said(
    tmp_path, monkeypatch, name, language
):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    done = RULE.export(tmp_path / name)
    assert (done.states, done.remark) == (0, f"no {language} compiler was found")
    assert str(done) == f"{name}: {language}, not run: no {language} compiler was found"
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("package", "extra", "name"),
    [
        ("onnxruntime", "onnx", "a.onnx"),
        ("formulas", "xlsx", "a.xlsx"),
        ("formulas", "xlsx", "a.txt"),
    ],
)
def test_without_what_runs_a_file_it_is_written_and_the_extra_is_named(
    tmp_path, monkeypatch, package, extra, name
):
    monkeypatch.setitem(sys.modules, package, None)
    done = RULE.export(tmp_path / name)
    assert done.states == 0
    assert f"{package}" in str(done)
    assert str(done).endswith(f"is missing, which comes with the extra '{extra}'")


@pytest.mark.parametrize(
    ("package", "extra", "name"), [("onnx", "onnx", "a.onnx"), ("openpyxl", "xlsx", "a.xlsx")]
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, package, extra, name):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ts.MissingExtra, match=rf"needs the extra '{extra}'"):
        RULE.export(tmp_path / name)


def test_where_one_of_several_files_cannot_be_written_none_is(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    files = [str(tmp_path / name) for name in ("a.c", "a.xlsx")]
    told = CliRunner().invoke(main, ["export", "machine_replacement", *files])
    assert told.exit_code == 1
    assert "needs the extra 'xlsx'" in told.output
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(ts.ArgumentError, match=r"exported to \.c, \.py.*got 'a.exe'"):
        RULE.export(tmp_path / "a.exe")
    with pytest.raises(ts.ArgumentError, match="off_grid is one of 'clamp', 'refuse'; got 'wrap'"):
        RULE.export(tmp_path / "a.c", off_grid="wrap")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ts.ArgumentError, match=r"export needs a policy.*got list and no model"):
        ts.export([0, 1], tmp_path / "a.c")
    with pytest.raises(ts.FileError, match="missing"):
        RULE.export(tmp_path / "none" / "a.c")


def test_a_text_with_a_nul_is_refused_where_the_language_has_none(tmp_path):
    grid = ts.StateGrid(label=["a\0b", "c"])
    policy = ts.Policy.from_table(grid, (0, 1), [0, 1])
    for name in ("a.c", "a.sql", "a.txt"):
        with pytest.raises(ts.FileError, match="cannot hold a NUL"):
            ts.export(policy, tmp_path / name)
    assert ts.export(policy, tmp_path / "a.py").states == 2


def test_python_runs_in_a_bare_interpreter_and_says_what_it_refuses(tmp_path):
    CASES["linear"].export(tmp_path / "linear.py")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from linear import decide\n"
        "print(decide(0.5, 0, 7), decide(stock=-9e9, regime=1, fixed=0))\n"
        "decide(float('nan'), 0, 7)"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout == "{'fast': 0, 'slow': 'no'} {'fast': 0.5, 'slow': 'no'}\n"
    assert ran.stderr.endswith("ValueError: stock cannot be nan\n")


def test_a_plain_policy_or_what_has_one_is_exported_as_the_runs_of_its_table(tmp_path):
    policy = CASES["four_axes"]
    assert ts.export(SimpleNamespace(policy=policy), tmp_path / "a.sql").states == policy.grid.size
    tree = to_rule_tree(policy)
    assert isinstance(tree.root, Lookup)
    assert np.array_equal(tree(policy.grid.points), policy.table.ravel())


def test_a_tree_of_comparisons_says_the_same_and_has_no_branch_that_is_never_taken():
    for policy in CASES.values():
        tree = to_rule_tree(policy)
        grid = policy.grid
        low = RuleTree(grid, to_comparisons(grid, tree.root), tree.size)
        assert np.array_equal(low(grid.points), tree(grid.points))
        assert not any(isinstance(node, Lookup) for node in low.iterate_nodes())
    narrow = to_comparisons(CASES["linear"].grid, to_rule_tree(CASES["linear"]).root)
    assert isinstance(narrow, Split)
    assert narrow.cuts == (-0.63, 0.721)  # not -5, -0.63 again, or 9


def test_the_largest_branch_of_a_split_comes_last_so_that_little_nests():
    node = Leaf(0)
    for depth in range(300):
        both = (node, Leaf(depth % 2 + 1)) if depth % 2 else (Leaf(depth % 2 + 1), node)
        node = Split((("x", 1.0),), (200.0 + (depth if depth % 2 else -depth) / 2,), both)
    grid = ts.StateGrid(x=range(400))
    policy = ts.Rule(grid, (0, 1, 2), RuleTree(grid, node, 900))
    assert list_branch_tests(node)[-1].node is max(
        node.branches, key=lambda b: isinstance(b, Split)
    )
    draft = ExportContext(policy)
    for file_format in (C99(), BarePython(), Sql()):
        said = file_format.run(file_format.write(draft), draft, list_states(policy))
        assert np.array_equal(said, policy.table.ravel())
    indents = [len(s) - len(s.lstrip()) for s in BarePython().write(draft).decode().splitlines()]
    assert max(indents) <= 8
