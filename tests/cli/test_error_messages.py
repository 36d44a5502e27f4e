"""The command line: what it prints, and how it refuses."""

from __future__ import annotations

import sys

import dask
import distributed  # noqa: F401 (loads its defaults, before a test changes one)
import pytest
from click.testing import CliRunner
from support import warm

import tessella as ts
from tessella.certificates.certify import certify
from tessella.cli import main
from tessella.problems.registry import BENCHMARKS, benchmark
from tessella.solvers.solve import solve


def run(*words: str):
    return CliRunner().invoke(main, words)


def test_list_names_every_problem():
    result = run("list")
    assert result.exit_code == 0
    named = [line.split()[0] for line in result.output.splitlines()]
    assert named[:2] == ["inventory", "queue_admission"]
    assert set(named) >= set(BENCHMARKS)


def test_show_says_what_may_be_set_and_what_theory_knows():
    result = run("show", "QUE-Lin")
    assert result.exit_code == 0
    assert "service_rate       4.0     a number above 0" in result.output
    assert "threshold in queue: admit up to a length" in result.output


def test_a_problem_is_solved_with_the_settings_that_are_typed():
    result = run("solve", "inventory", "--set", "max_stock=6", "--set", "orders=0,3")
    assert result.exit_code == 0
    assert f"{7 * 25} states" in result.output


def test_a_problem_of_the_current_folder_is_found_by_its_path(tmp_path, monkeypatch):
    text = (
        "import tessella as ts; small = ts.inventory.variant('small', max_stock=4, orders=[0, 2])"
    )
    (tmp_path / "mine_of_cli.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = run("solve", "mine_of_cli:small")
    assert (result.exit_code, f"{5 * 25} states" in result.output) == (0, True)


def test_solve_says_how_good_the_answer_is():
    result = run("solve", "QUE-Lin")
    assert result.exit_code == 0
    assert "651 states" in result.output
    assert "converged" in result.output


def test_certify_prints_the_summary_of_the_certificate(tmp_path):
    mdp = benchmark("QUE-Lin")
    rows = [f"{int(q)},{int(z)},{int(q < 20)}" for q, z in mdp.grid.points]
    (tmp_path / "rule.csv").write_text("\n".join(["queue,regime,admit", *rows]))
    saved = tmp_path / "rule.json"
    result = run("certify", "QUE-Lin", str(tmp_path / "rule.csv"), "--save", str(saved))
    table = [[int(q < 20) for _ in range(21)] for q in range(31)]
    expected = certify(solve(mdp), mdp.policy(table, name="rule")).summary()
    assert result.exit_code == 0
    assert result.output.startswith(expected.strip())
    assert "rejection" in result.output  # the problem's measures come after the summary
    assert saved.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("solve", "QUE"), "no problem is called 'QUE'; did you mean 'QUE-N0'?"),
        (("show", "QUE"), "no problem is called 'QUE'"),
        (("show", "nosuch:thing"), "no problem is called 'nosuch:thing': ModuleNotFoundError"),
        (
            ("show", "math:pi"),
            "a model is a Problem, an MDP, or a function that returns one; 'math:pi' is float",
        ),
        (("solve", "QUE-Mix", "--set", "rate=4"), "QUE-Mix has no parameter 'rate'; there are"),
        (("solve", "QUE-Mix", "--set", "service_rate=x"), "service_rate must be a number above 0"),
        (
            ("solve", "QUE-Mix", "--set", "service_rate"),
            "above 0 and at most 1000; QUE-Mix got no value; write --set service_rate=VALUE",
        ),
        (("show", "perishable", "--set", "lief=3"), "no parameter 'lief'; did you mean 'life'?"),
        (("solve", "QUE-Mix", "--set", "discount=1"), "at least 0 and below 1; QUE-Mix got 1.0"),
        (("paper", "--problems", "QUE"), "no benchmark is called 'QUE'"),
        (("paper", "--methods", "lineal"), "no method is called 'lineal'; there are linear"),
        (("paper", "--sizes", "100,x"), "'100,x' is not a list of int with commas"),
        (("paper", "--seeds", "0"), "at least one seed"),
        (("paper", "--seeds", "99999999999999999999"), "a study has at most 1,000,000 runs"),
        (("paper", "--sizes", "99999999999999999999"), "sample sizes end at 1,000,000,000"),
        (("paper", "--workers", "0"), "not in the range"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(words, message, tmp_path):
    out = ("--out", str(tmp_path)) if words[0] == "paper" else ()
    result = run(*words, *out)
    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


CODE = """
import tessella as ts

def small(size=3):
    return ts.problem("machine_replacement").build(worst=size)

def broken():
    raise RuntimeError("no data today")

def other():
    return 3

number = 7
lake = ts.problem("frozen_lake").build()
walk = ts.MDP.from_arrays([[[0, 1], [0, 1]]], [[-1.0], [0.0]], ts.Total())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files of every kind, sound and not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "torn.py").write_text("def build(:")
    (tmp_path / "torn.toml").write_text("problem = ")
    (tmp_path / "wrong.toml").write_text('problem = "machine_replacment"\n[parameters]\nworst = 3')
    (tmp_path / "policy.csv").write_text("wear,replace\n0,0\n")
    (tmp_path / "policy.json").write_text("{}")
    (tmp_path / "torn.nc").write_bytes(b"CDF")
    ts.problem("machine_replacement").build(worst=3).save(tmp_path / "model.nc")
    return tmp_path


MACHINE = ("machine_replacement", "--set", "worst=3")
REFUSED = [
    # what is typed, exit status, what the line says
    (("solve", "mine.py:broken"), 1, "could not be called; RuntimeError: no data today"),
    (("solve", "mine.py:other"), 1, "mine.py:other must return an MDP; got int"),
    (("solve", "mine.py:number"), 1, "or a function that returns one; 'mine.py:number' is int"),
    (("solve", "mine.py:nothing"), 1, "mine.py has no 'nothing'"),
    (("solve", "mine.py:small", "--set", "depth=3"), 1, "unexpected keyword argument 'depth'"),
    (("solve", "mine.py:small", "--set", "size"), 1, "--set is written name=value; got 'size'"),
    (("solve", "mine.py:lake", "--set", "slip=0"), 1, "mine.py:lake is a model"),
    (("solve", "none.py:f"), 1, "none.py cannot be read as Python; it is missing"),
    (("solve", "torn.py:build"), 1, "torn.py cannot be run as Python; SyntaxError"),
    (("solve", "none.toml"), 1, "none.toml"),
    (("solve", "torn.toml"), 1, "torn.toml:1: "),
    (("check", "wrong.toml"), 1, "did you mean 'machine_replacement'?"),
    (("solve", "none.nc"), 1, "none.nc cannot be read as a saved model; it is missing"),
    (("solve", "torn.nc"), 1, "torn.nc cannot be read as a saved model"),
    (("solve", "model.nc", "--set", "worst=4"), 1, "model.nc holds numbers"),
    (("solve", *MACHINE, "--tol", "x"), 2, "'x' is not a valid float"),
    (("solve", *MACHINE, "--tol", "-1"), 1, "-1"),
    (("solve", *MACHINE, "--save", "no/where.nc"), 1, "the folder no is missing"),
    (("solve", *MACHINE, "--save", "solution.h5"), 1, "the file of --save must end in .nc"),
    (("solve",), 2, "Missing argument 'MODEL'"),
    (("slove",), 2, "No such command 'slove'"),
    (("solve", "QUE-Lin", "--colour", "value"), 2, "No such option '--colour'"),
    (("list", "--family", "cars"), 1, "no family is called 'cars'; there are"),
    (("new", "cars"), 1, "no problem is called 'cars'; `tessella list` names them all"),
    (("new", "lost_sale"), 1, "no problem is called 'lost_sale'; did you mean 'lost_sales'?"),
    (("new", "inventory", "-o", "policy.csv"), 1, "policy.csv exists already"),
    (("show", "cars"), 1, "no problem is called 'cars'"),
    (("map", *MACHINE, "--at", "depth=1"), 1, "no axis is called 'depth'"),
    (("map", *MACHINE, "--at", "wear"), 1, "--at is written name=value; got 'wear'"),
    (("map", *MACHINE, "--colour", "red"), 2, "'red' is not one of"),
    (("map", *MACHINE, "-o", "map.doc"), 1, "a picture ends in"),
    (("map", *MACHINE, "--policy", "none.csv"), 2, "File 'none.csv' does not exist"),
    (("measure", *MACHINE, "--sum", "wear+depth"), 1, "depth"),
    (("measure", *MACHINE, "--rim", "9"), 1, "a rim must leave a part of each axis"),
    (("simulate", *MACHINE, "--start", "wear=77"), 1, "a start must lie on the grid"),
    (("simulate", *MACHINE, "--periods", "0"), 2, "0 is not in the range"),
    (("simulate", *MACHINE, "--seed", "-1"), 2, "-1 is not in the range"),
    (("fit", *MACHINE, "--learner", "deep"), 2, "'deep' is not one of"),
    (("certify", *MACHINE, "policy.csv"), 1, "policy.csv"),
    (("certify", *MACHINE, "policy.json"), 1, "policy.json"),
    (("compress", *MACHINE, "--loss", "much"), 2, "'much' is not a loss, such as 1%"),
    (
        ("compress", *MACHINE, "--loss", "5"),
        2,
        "'5' is above 1, the whole value: write 5% or '5 units'",
    ),
    (("compress", *MACHINE, "-o", "rule.exe"), 1, "a rule is exported to .c"),
    (("compress", *MACHINE, "-o", "no/rule.c"), 1, "the folder no is missing"),
    (("compress", *MACHINE, "--loss", "-1%"), 1, "-0.01"),
    (("compress", *MACHINE, "--time-limit", "0"), 1, "a time limit is a number of seconds above 0"),
    (("export", "policy.csv", "a.c"), 1, "a table needs its model; add --model MODEL"),
    (("export", "policy.json", "a.c"), 1, "policy.json"),
    (("export", "none.json", "a.c"), 1, "none.json cannot be read as a saved rule or policy"),
    (("export", "model.nc", "a.exe"), 1, "a rule is exported to .c"),
    (("export", "model.nc"), 2, "Missing argument 'FILES...'"),
    (("diff", *MACHINE, "optimal", "none.json"), 1, "none.json"),
    (("study", "--models", "QUE-Lin", "--methods", "deep"), 1, "no method is called 'deep'"),
    (("study", "--models", "cars", "--methods", "linear"), 1, "no problem is called 'cars'"),
    (("study", "--methods", "linear"), 2, "Missing option '--models'"),
    (("bench", "cars"), 1, "no problem is called 'cars'"),
    (("bench", *MACHINE[:1], "--repeat", "0"), 2, "0 is not in the range"),
]


@pytest.mark.parametrize(("words", "status", "message"), REFUSED, ids=lambda w: str(w)[:60])
def test_every_wrong_word_gets_one_clear_line_and_its_status(folder, words, status, message):
    result = run(*words)
    assert (result.exit_code, message in result.output) == (status, True), result.output
    told = [line for line in result.stderr.splitlines() if not line.startswith("solving")]
    assert (len(told), told[0].startswith("Error: ")) == (1, True), told
    assert "fault of the program" not in result.output
    assert "Traceback" not in result.output


def test_a_fault_of_the_program_is_one_line_and_a_traceback_when_asked_for(monkeypatch):
    def broken():
        raise KeyError("lost")

    monkeypatch.setattr("tessella.all_problems", broken)
    result = run("list")
    assert result.exit_code == 1
    line = "Error: KeyError: 'lost'; this is a fault of the program, --debug shows where"
    assert result.stderr.splitlines() == [line]
    assert isinstance(run("list", "--debug").exception, KeyError)


def test_an_interrupt_ends_with_130(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("tessella.all_problems", interrupted)
    result = run("list")
    assert (result.exit_code, result.stderr.strip()) == (130, "stopped")


def test_a_scheduler_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tessella", "paper"])
    address = "tcp://127.0.0.1:1"
    words = ("paper", "--methods", "exact_table", "--problems", "INV-Mix")
    with dask.config.set({"distributed.comm.timeouts.connect": "0.5s"}):
        result = run(*words, "--scheduler", address, "--out", str(tmp_path))
    assert result.exit_code == 1
    assert f"no scheduler answers at {address}" in result.output
    assert "to continue: tessella" in result.output


@pytest.mark.parametrize("address", ["nonsense", "foo://host:1", "tls://host:1"])
def test_a_scheduler_that_cannot_be_is_named_and_nothing_is_left_of_it(address, tmp_path):
    """What is left of a client at the end of a process waits two minutes for its loop."""
    code = "from tessella.cli import main; main()"
    words = ("paper", "--methods", "exact_table", "--problems", "INV-Mix")
    rest = ("--scheduler", address, "--out", str(tmp_path))
    process = warm.start_process(code, *words, *rest)
    _, told = process.communicate(timeout=110)
    assert process.wait() == 1
    assert told.startswith(f"Error: no scheduler answers at {address}: ")
    assert "Traceback" not in told


def test_help_lists_the_commands():
    result = run("--help")
    for command in ("list", "paper", "solve"):
        assert command in result.output


def test_workers_of_a_scheduler_are_its_own():
    result = run("paper", "--scheduler", "tcp://127.0.0.1:1", "--workers", "2")
    assert result.exit_code == 2
    assert "--workers is for this machine" in result.output
    result = run("paper", "--scheduler", "")
    assert result.exit_code == 2
    assert "--scheduler needs an address" in result.output


def test_a_certificate_that_cannot_be_saved_is_an_error(tmp_path):
    mdp = benchmark("QUE-Lin")
    rows = [f"{q},{r},0" for q in mdp.grid.values[0] for r in mdp.grid.values[1]]
    head = ",".join([*mdp.grid.axes, mdp.action_name])
    (tmp_path / "never.csv").write_text("\n".join([head, *rows]))
    words = ("certify", "QUE-Lin", str(tmp_path / "never.csv"))
    result = run(*words, "--save", str(tmp_path / "nowhere" / "c.json"))
    assert result.exit_code == 1
    assert "c.json cannot be written; the folder" in result.output
