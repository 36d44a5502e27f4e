"""Every command, run as a user would: in a pipe, in a terminal, and for a program."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from cli.commands import COLOUR, CONTROL, ESCAPE
from click.testing import CliRunner
from support.schemas import find_faults

import tessella as ts
from tessella.cli import COMMAND_NAMES, main
from tessella.cli.maps import format_blocks

AVERAGE = ("machine_replacement", "--set", "worst=3")
SMALL = ("frozen_lake",)  # 16 states: solved once, remembered by all that follow

# Command, what a person looks for in its text; files are made in the order of the list.
WORDS = {
    "list": ((), "machine_replacement   machine_replacement   When to replace a machine"),
    "show": (SMALL, "1. turn (3 outcomes) changes row and column, depending on move; it pays"),
    "new": (("naor_admission",), 'problem = "naor_admission"'),
    "check": (SMALL, "valid: frozen_lake: 16 states (row 4 x column 4), 4 move actions"),
    "solve": (SMALL, "bound    no value is off by more than"),
    "map": (SMALL, "column"),
    "measure": (SMALL, "boundary length"),
    "tradeoff": (("inventory", "fill_rate", "--points", "2"), "fill_rate at least"),
    "simulate": ((*SMALL, "--periods", "5", "--paths", "20"), "20 paths of 5 periods"),
    "fit": ((*SMALL, "--learner", "linear", "--samples", "60"), "Certificate of the policy"),
    "certify": ((*SMALL, "left.csv"), 'Certificate of the policy "left"'),
    "compress": ((*SMALL, "--loss", "99%", "--time-limit", "20"), "Guaranteed loss"),
    "export": (("frozen_lake", "rule.sql"), "rule.sql: SQL, agrees in all 16 states"),
    "diff": ((*SMALL, "optimal", "left.csv"), "of 16 states change from optimal to left"),
    "study": (
        ("--models", "QUE-Lin", "--methods", "exact_table", "--sizes", "20", "--seeds", "1"),
        "QUE-Lin  exact_table",
    ),
    "bench": ((*SMALL, "--repeat", "1"), "peak memory"),
}


def prepare(folder) -> None:
    rows = [f"{row},{column},left" for row in range(4) for column in range(4)]
    (folder / "left.csv").write_text("\n".join(["row,column,move", *rows]))


def test_the_rows_of_a_map_are_printed_from_the_top_down():
    levels = np.array([[0, 1, 2], [3, 4, 5]])
    grid = ts.StateGrid(y=range(2), column=range(7, 10))
    downward = grid.with_downward_axis("y")
    text = format_blocks(levels, downward, (), coloured=False, width=9)
    assert text.splitlines() == ["y", "0 abc", "1 def", "  7 column 9"]
    text = format_blocks(levels, grid, (), coloured=False, width=9)
    assert text.splitlines() == ["column", "9 cf", "8 be", "7 ad", "  0 y 1"]


def test_every_command_is_tried_here():
    # tests/runner runs the study in pipes and terminals, tests/explore the explorer
    assert {*WORDS, "paper", "explore"} == set(COMMAND_NAMES)


def test_the_study_of_the_paper_tells_a_program_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = ("--methods", "exact_table", "--problems", "QUE-Lin", "--seeds", "1", "--workers", "1")
    out = ("--out", str(tmp_path / "out"), "--no-report", "--json")
    done = CliRunner().invoke(main, ["paper", *words, *out])
    assert done.exit_code == 0, done.output
    assert find_faults(json.loads(done.stdout), "commands.schema.json", "commands/paper") == []


@pytest.mark.parametrize("name", WORDS)
def test_without_a_terminal_the_text_is_plain(name, tmp_path, kept, monkeypatch):
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSELLA_CACHE", str(kept))
    words, sought = WORDS[name]
    done = CliRunner().invoke(main, [name, *words])
    assert done.exit_code == 0, done.output
    assert sought in done.stdout
    assert not CONTROL.search(done.output)


def test_a_model_is_shown_with_what_its_axes_stand_for_and_with_short_numbers():
    shown = CliRunner().invoke(main, ["show", "hydro_reservoir"]).output
    assert "level  81 values  0, 0.125, 0.25, ..., 10" in shown
    assert "water in the reservoir" in shown
    assert "release: 0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4" in shown


@pytest.mark.parametrize("name", WORDS)
def test_in_a_pipe_a_program_reads_one_document_of_the_schema(name, run, tmp_path):
    prepare(tmp_path)
    done = run(name, *WORDS[name][0], "--json", afresh=True)
    assert done.status == 0, done.err
    assert done.json["command"] == name
    assert find_faults(done.json, "commands.schema.json", f"commands/{name}") == []


@pytest.mark.parametrize("name", WORDS)
def test_in_a_terminal_there_may_be_colours_and_progress_around_the_same_text(name, run, tmp_path):
    prepare(tmp_path)
    words, sought = WORDS[name]
    done = run(name, *words, terminal=True)
    assert done.status == 0, done.out
    told = ESCAPE.sub("", done.out)
    assert sought in told
    assert not CONTROL.search(told.replace("\r", ""))
    if name == "map":
        assert len(COLOUR.findall(done.out)) > 16  # a block for each state


def test_the_figures_of_the_documents_are_those_of_the_package(run, tmp_path):
    prepare(tmp_path)
    mdp = ts.problem("frozen_lake").build()
    solution = ts.solve(mdp)
    found = run("solve", *SMALL, "--json").json
    assert found["value"]["mean"] == pytest.approx(float(solution.value.mean()), abs=1e-8)
    assert found["model"]["fingerprint"] == mdp.fingerprint
    counts = {row["action"]: row["states"] for row in found["actions"]}
    assert counts["left"] == int((solution.policy.table == 0).sum())
    lost = ts.certify(solution, np.zeros((4, 4), dtype=int)).mean_loss
    told = run("certify", *SMALL, "left.csv", "--json").json["certificate"]["mean_loss"]
    assert told["value"] == pytest.approx(float(lost), rel=1e-9)
    drawn = run("map", *SMALL, "--json").json["map"]
    np.testing.assert_array_equal(drawn, solution.policy.table)


def test_a_rule_goes_from_command_to_command(run, tmp_path):
    """Compressed, saved, certified, checked by the stand-alone checker, written as SQL and run."""
    words = ("--loss", "99%", "--time-limit", "20", "-o", "rule.json", "--certificate", "c.json")
    assert run("compress", *SMALL, *words).status == 0
    assert "HOLDS" in run("check", *SMALL, "--certificate", "c.json").out
    assert run("certify", *SMALL, "rule.json", "--json").status == 0
    assert run("export", "rule.json", "rule.sql").status == 0
    said = run("map", *SMALL, "--policy", "rule.json", "--json").json
    text = (tmp_path / "rule.sql").read_text()
    base = sqlite3.connect(":memory:")
    base.execute('create table states ("row", "column")')
    states = [(row, column) for row in range(4) for column in range(4)]
    base.executemany("insert into states values (?, ?)", states)
    found = base.execute(f"select {text.rstrip().rstrip(';')} from states").fetchall()
    meant = [said["actions"][said["map"][row][column]] for row, column in states]
    assert [row[0] for row in found] == meant


@pytest.mark.parametrize("limit", [None, 40.0])
def test_a_rule_and_its_frontier_keep_to_one_time_limit(limit, monkeypatch):
    limits = []

    def record_limit(solution, **options):
        limits.append(options["time_limit"])
        return ts.Frontier((), (), ())

    monkeypatch.setattr(ts, "frontier", record_limit)
    words = ["compress", *SMALL, "--loss", "99%", "--frontier", "--json"]
    done = CliRunner().invoke(main, words + ([f"--time-limit={limit}"] if limit else []))
    assert limits == [limit and limit - json.loads(done.stdout)["seconds"]]


def test_classes_of_rules_are_selected_by_name(run):
    words = (
        "--class",
        "axis-tree",
        "--class",
        "run-length table",
        "--prefer",
        "smallest",
        "--json",
    )
    told = run("compress", *SMALL, "--loss", "1%", *words).json
    assert [found["class"] for found in told["classes"]] == ["axis tree", "run-length table"]
    done = run("compress", *SMALL, "--class", "forest")
    assert done.status == 1
    assert "the classes of rules are one action, order up to," in done.err


def test_an_average_is_compressed_certified_and_checked(run, tmp_path):
    words = ("--loss", "5%", "-o", "rule.json", "--certificate", "c.json")
    assert run("compress", *AVERAGE, *words).status == 0
    done = run("check", *AVERAGE, "--certificate", "c.json")
    assert (done.status, "loss per period " in done.out) == (0, True)
    told = run("certify", *AVERAGE, "rule.json", "--save", "d.json", "--json").json
    assert find_faults(told, "commands.schema.json", "commands/certify") == []
    saved = ts.Certificate.load(tmp_path / "c.json")
    assert told["certificate"]["mean_loss"]["upper"] == saved.mean_loss.upper
    content = json.loads((tmp_path / "d.json").read_text())
    content["mean_loss"][2] *= 0.5
    (tmp_path / "d.json").write_text(json.dumps(content))
    assert run("check", *AVERAGE, "--certificate", "d.json").status == 1


def test_a_saved_model_is_checked_as_the_file_that_it_is(run, tmp_path):
    """Stages are saved as a table that keeps their fingerprint."""
    solution = ts.solve(ts.inventory(max_stock=9, max_regime=2))
    solution.mdp.save(tmp_path / "m.nc")
    ts.certify(solution, np.zeros(solution.mdp.grid.shape, int)).save(tmp_path / "c.json")
    solution.save(tmp_path / "s.nc", with_model=True)
    for model in ("m.nc", "s.nc"):
        done = run("check", model, "--certificate", "c.json")
        assert (done.status, "HOLDS" in done.out) == (0, True)


def test_a_false_certificate_ends_with_1(run, tmp_path):
    prepare(tmp_path)
    run("certify", *SMALL, "left.csv", "--save", "c.json")
    path = tmp_path / "c.json"
    content = json.loads(path.read_text())
    content["mean_loss"] = [0.5 * figure for figure in content["mean_loss"]]
    path.write_text(json.dumps(content))
    done = run("check", *SMALL, "--certificate", "c.json")
    assert (done.status, "REJECTED" in done.out) == (1, True)


def test_a_certificate_that_cannot_be_checked_is_not_called_false(run, tmp_path):
    solution = ts.solve(ts.inventory(max_stock=199, max_regime=2, max_demand=5, orders=(0, 4)))
    solution.mdp.save(tmp_path / "m.nc")
    ts.certify(solution, solution.policy, blocks=True).save(tmp_path / "c.json")
    done = run("check", "m.nc", "--certificate", "c.json")
    assert (done.status, "NOT CHECKED: it was computed in blocks" in done.out) == (1, True)
    told = run("check", "m.nc", "--certificate", "c.json", "--json").json
    assert find_faults(told, "commands.schema.json", "commands/check") == []
    assert told["certificate"]["holds"] is None


def test_pictures_are_written_by_their_ending(run, tmp_path):
    assert run("map", *SMALL, "-o", "map.svg").status == 0
    assert (tmp_path / "map.svg").read_text().lstrip().startswith("<?xml")
    done = run("map", *SMALL, "-o", "map.doc")
    assert (done.status, "a picture ends in" in done.err) == (1, True)


def test_paths_are_written_as_a_table(run, tmp_path):
    words = ("--periods", "4", "--paths", "3", "--seed", "7", "-o", "paths.csv")
    assert run("simulate", *SMALL, *words, "--start", "row=0,column=0").status == 0
    head, *rows = (tmp_path / "paths.csv").read_text().splitlines()
    assert head == "path,period,row,column,move,reward"
    assert [row.split(",")[:4] for row in rows if row.split(",")[1] == "0"] == [
        [str(path), "0", "0", "0"] for path in range(3)
    ]


def test_paths_are_as_long_as_the_discount_asks_for(run):
    machine = ("simulate", "machine_replacement", "--paths", "2")
    assert "2 paths of 100 periods" in run(*machine).out  # an average
    perishable = ("simulate", "perishable", "--paths", "2")
    text = run(*perishable).out
    assert "2 paths of 459 periods" in text
    assert "of the discounted weight" not in text
    text = run(*perishable, "--periods", "100").out
    assert "100 periods hold 63% of the discounted weight" in text


def test_completion_offers_commands_and_problems(run, tmp_path, monkeypatch):
    monkeypatch.setenv("_TESSELLA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "tessella solve mach")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert "machine_replacement" in run().out


def test_the_first_commands_import_nothing_heavy():
    """``--help`` and ``list`` answer at once: they load neither JAX nor SciPy nor pandas."""
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from tessella.cli import main\n"
        "for words in (['--help'], ['list'], ['solve', '--help']):\n"
        "    assert CliRunner().invoke(main, words).exit_code == 0\n"
        "heavy = {'jax', 'scipy', 'pandas', 'matplotlib', 'xarray', 'distributed', 'sklearn'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
