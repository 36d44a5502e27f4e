"""What a MODEL may be, and that each command takes it as it is."""

from __future__ import annotations

import json
import queue
import subprocess
import sys

import cloudpickle
import pytest
from click.testing import CliRunner

import tessella as ts
from tessella.cli import main
from tessella.cli.arguments import _load_from_file

STORY = """
name = "till"

[parameters]
code = "1.50"
cost = 2.0

[axes]
zone = ["1", "2"]
period = { from = 0, to = 2 }

[actions]
name = "go"
values = [0, 1]

[criterion]
kind = "discounted"
discount = 0.5

[[stages]]
kind = "pay"
costs = "cost * period + where(code == '1.50', 1, 0) * go"
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "till.toml").write_text(STORY)

    def typed(*words: str):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        return done

    return typed


def data(done):
    return json.loads(done.stdout)


def test_settings_of_a_model_file_are_read_as_the_file_means_them(run):
    as_it_is = data(run("check", "till.toml", "--json"))["model"]["fingerprint"]
    same = data(run("check", "till.toml", "--set", "code=1.50", "--json"))
    other = data(run("check", "till.toml", "--set", "code=1.5", "--json"))
    assert same["model"]["fingerprint"] == as_it_is != other["model"]["fingerprint"]


def test_text_on_an_axis_is_typed_as_text(run):
    run("map", "till.toml", "--at", "zone=1")
    run("simulate", "till.toml", "--periods", "2", "--paths", "1", "--start", "zone=1,period=0")


def test_paths_have_columns_of_their_own_and_speak_of_costs(run, tmp_path):
    words = ("--periods", "2", "--paths", "1", "--start", "zone=1,period=2", "-o", "paths.csv")
    run("simulate", "till.toml", *words)
    head, first, *_ = (tmp_path / "paths.csv").read_text().splitlines()
    assert head == "path,period_,zone,period,go,cost"
    assert first == "0,0,1,2,0,4.0"


def test_a_saved_solution_is_solved_anew_where_it_is_not_good_enough(run):
    loose = ts.solve(ts.read_model("till.toml"), ts.ValueIteration(tol=0.5))
    loose.save("s.nc", with_model=True)
    assert loose.error_bound > 1e-9
    assert data(run("solve", "s.nc", "--json"))["error_bound"] == loose.error_bound
    found = data(run("solve", "s.nc", "--tol", "1e-9", "--json"))
    assert found["error_bound"] <= 1e-9
    assert not found["remembered"]


def test_a_solve_of_any_tolerance_serves_a_map_and_only_a_good_one_a_solve(run):
    run("solve", "till.toml", "--tol", "0.5")
    assert not data(run("solve", "till.toml", "--json"))["remembered"]
    assert data(run("solve", "till.toml", "--tol", "1e-3", "--json"))["remembered"]


def test_a_model_that_changed_is_studied_anew(run, tmp_path):
    words = ("--methods", "exact_table", "--sizes", "5", "--seeds", "1", "--out", "study")
    run("study", "--models", "till.toml", *words)
    store = len(list((tmp_path / "study").iterdir()))
    assert store
    (tmp_path / "till.toml").write_text(STORY.replace("cost = 2.0", "cost = 3.0"))
    again = run("study", "--models", "till.toml", *words)
    assert "all 1 runs are stored" not in again.stderr
    once_more = run("study", "--models", "till.toml", *words)
    assert "all 1 runs are stored" in once_more.stderr


def test_a_problem_with_other_settings_is_written_as_a_file(run, tmp_path):
    run("new", "machine_replacement", "--set", "worst=7", "-o", "machine.toml")
    same = ts.problem("machine_replacement").build(worst=7).fingerprint
    assert data(run("check", "machine.toml", "--json"))["model"]["fingerprint"] == same


def test_a_function_may_return_a_problem(run, tmp_path):
    (tmp_path / "own.py").write_text(
        "import tessella as ts\n\ndef build():\n    return ts.problem('machine_replacement')\n"
    )
    assert data(run("check", "own.py:build", "--json"))["model"]["states"] == 31


QUEUE = """
import tessella as ts

TOP = 4

def pays(x):
    return x + TOP

def build():
    return ts.MDP.staged({"x": range(TOP + 1)}, (0, 1), 0.9, [ts.Pay(lambda x: pays(x))])
"""


def test_a_file_may_have_the_name_of_another_module_and_its_functions_travel(run, tmp_path):
    (tmp_path / "queue.py").write_text(QUEUE)
    assert data(run("check", "queue.py:build", "--json"))["model"]["states"] == 5
    assert sys.modules["queue"] is queue
    build = cloudpickle.dumps(_load_from_file("queue.py:build"))
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)().n_states)"
    elsewhere = subprocess.run([sys.executable, "-Pc", code], input=build, capture_output=True)
    assert elsewhere.stdout == b"5\n", elsewhere.stderr


def test_tables_are_exported_too(run, tmp_path):
    run("export", "till.toml", "table.csv", "rule.dtcontrol.csv")
    assert (tmp_path / "table.csv").read_text().splitlines()[0] == "zone,period,go"


def test_the_value_from_the_start_is_said_where_there_is_one(run, tmp_path):
    assert data(run("solve", "till.toml", "--json"))["from_start"] is None
    text = STORY.replace("[axes]", 'start = { zone = "1", period = 2 }\n[axes]')
    text = text.replace('start = { zone = "1", period = 2 }\n', "")
    (tmp_path / "from.toml").write_text('start = { zone = "1", period = 2 }\n' + text)
    found = data(run("solve", "from.toml", "--json"))
    assert found["from_start"] == pytest.approx(8.0)  # 4 a period, for ever, by halves
