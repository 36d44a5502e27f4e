"""Measures and constraints on the command line."""

from __future__ import annotations

import contextlib
import json
import runpy

import numpy as np
import pytest
from click.testing import CliRunner
from modelfiles.test_measures import SHOP, build_shop
from support.schemas import find_faults

import tessella as ts
from tessella.cli import COMMAND_NAMES, main

ASKED = {"fill_rate": ts.AtLeast(0.9), "orders": ts.AtMost(9.5)}
FREE = SHOP.replace('fill_rate = { at_least = "level" }\norders = { at_most = 9.5 }\n', "")


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "shop.toml").write_text(SHOP)
    (tmp_path / "free.toml").write_text(FREE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(main, words)


def read(done, name: str):
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert find_faults(document, "commands.schema.json", f"commands/{name}") == []
    return document


@pytest.mark.parametrize(
    "words",
    [
        ("shop.toml",),
        ("free.toml", "--subject-to", "fill_rate>=0.9", "--subject-to", " orders <= 9.5 "),
        ("shop.toml", "--set", "level=0.5", "--subject-to", "fill_rate>=0.9"),
    ],
    ids=["of the file", "typed", "typed in place of the file's"],
)
def test_a_file_is_solved_as_in_python(words, run, tmp_path):
    done = read(run("solve", *words, "--policy", "best.csv", "--json"), "solve")
    found = ts.solve(build_shop(), subject_to=ASKED)
    assert done["optimum"] == {"lower": -found.high, "upper": -found.low}
    assert done["files"] == ["best.csv"]
    assert done["measures"]["fill_rate"]["lower"] == found.measures["fill_rate"].low
    rows = [(one["measure"], one["price"], one["value"]) for one in done["constraints"]]
    assert rows == [(one.name, one.price, one.value) for one in found.constraints]
    assert done["constraints"][0]["at_least"] == 0.9
    assert done["constraints"][1]["at_most"] == 9.5
    written = build_shop().policy(tmp_path / "best.csv")
    np.testing.assert_array_equal(written.table, found.policy.table)


def test_the_text_says_what_constraints_cost_and_what_the_policy_measures(run):
    text = run("solve", "shop.toml").output
    assert "Least cost of the model with fill_rate at least 0.9 and orders at most 9.5: " in text
    assert "  fill_rate at least 0.9: binding; one percentage point more costs 0.2942\n" in text
    assert "\nMeasures:\n  days       10, off by at most " in text
    assert "\n  fill_rate  0.908848306378, off by at most " in text


def test_commands_print_the_measures_of_a_policy(run):
    mdp = build_shop()
    optimum = ts.solve(mdp)
    best = ts.solve(mdp, subject_to=ASKED).policy
    run("solve", "shop.toml", "--policy", "best.csv")
    exact = ts.evaluate(mdp, best, 0).measures["fill_rate"]
    free = ts.evaluate(mdp, optimum).measures["fill_rate"]

    shown = read(run("show", "shop.toml", "--json"), "show")
    assert shown["model"]["measures"]["fill_rate"] == "1 - lost / demand, at least 0.9"
    assert "\nMeasures:\n  days       days\n" in run("show", "shop.toml").output

    solved = read(run("solve", "free.toml", "--json"), "solve")
    assert solved["measures"]["fill_rate"]["value"] == pytest.approx(free.value, abs=1e-12)
    assert "\nMeasures:\n  days  " in run("solve", "free.toml").output

    words = ("certify", "shop.toml", "best.csv", "--start", "0")
    certified = read(run(*words, "--json"), "certify")["measures"]["fill_rate"]
    assert (certified["lower"], certified["upper"]) == (exact.low, exact.high)
    assert f"\n  fill_rate  {exact.value:.12g}, off by at most " in run(*words).output

    words = ("diff", "shop.toml", "optimal", "best.csv", "--start", "0")
    before, after = read(run(*words, "--json"), "diff")["measures"]["fill_rate"]
    assert after == pytest.approx(exact.value, abs=1e-12)
    assert f"\nfill_rate: {before:.6g} before, {after:.6g} after\n" in run(*words).output

    words = ("simulate", "shop.toml", "--policy", "best.csv", "--start", "0", "--periods", "150")
    drawn = read(run(*words, "--json"), "simulate")["measures"]["fill_rate"]
    assert abs(drawn["value"] - exact.value) <= 4 * drawn["standard_error"]
    told = f"{drawn['value']:.6g}, standard error {drawn['standard_error']:.2g}"
    assert f"\n  fill_rate  {told}\n" in run(*words).output
    single = read(run(*words, "--paths", "1", "--json"), "simulate")
    assert single["measures"]["fill_rate"]["standard_error"] is None


def test_a_ratio_by_nothing_is_said_to_be_one(run, tmp_path):
    text = FREE.replace('"1 - lost / demand"', '"lost / orders"')
    (tmp_path / "free.toml").write_text(text)
    assert "  fill_rate  its denominator is 0\n" in run("solve", "free.toml").output
    assert read(run("solve", "free.toml", "--json"), "solve")["measures"]["fill_rate"] is None
    simulated = read(run("simulate", "free.toml", "--json"), "simulate")
    assert simulated["measures"]["fill_rate"] is None


def test_a_model_that_counts_nothing_prints_no_measures(run):
    for name in ("show", "solve", "simulate"):
        assert "Measures" not in run(name, "frozen_lake").output
        document = read(run(name, "frozen_lake", "--json"), name)
        assert document.get("measures", document["model"].get("measures")) == {}


TYPED = ("--subject-to", "fill_rate >= 90%", "--subject-to", "orders<=9.5")


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """The rule of the file's constraints and of the same ones typed, with what was printed."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "shop.toml").write_text(SHOP)
    (folder / "free.toml").write_text(FREE)
    found = {}
    for name, words in (("shop", ()), ("free", TYPED)):
        files = ("-o", f"{name}.json", "-o", f"{name}.py", "--certificate", f"{name}.c.json")
        with contextlib.chdir(folder):
            words = ("compress", f"{name}.toml", *words, "--loss", "10%", *files, "--json")
            found[name] = read(
                CliRunner(env={"TESSELLA_CACHE": str(folder)}).invoke(main, words), "compress"
            )
    return folder, found


def test_compress_honours_constraints_of_the_file_and_of_the_command(rules):
    folder, found = rules
    for name, told in found.items():
        rule = ts.Rule.load(folder / f"{name}.json")
        exact = ts.evaluate(build_shop(), rule)
        assert exact.measures["fill_rate"].low >= 0.9
        assert exact.measures["orders"].high <= 9.5
        part = told["certificate"]["constrained"]
        best = ts.solve(build_shop(), subject_to=ASKED)
        assert part["loss"] == pytest.approx(best.high - exact.mean, abs=1e-6)
        assert part["loss"] <= 0.1 * abs(best.high)
        assert [one["measure"] for one in part["constraints"]] == ["fill_rate", "orders"]
        assert part["constraints"][0]["at_least"] == 0.9
        decide = runpy.run_path(str(folder / f"{name}.py"))["decide"]
        answers = [decide(stock=float(stock)) for stock in range(7)]
        assert answers == [rule.actions[a] for a in rule.table]


def test_certify_states_the_constraints_that_a_policy_satisfies(run, rules, tmp_path):
    folder, found = rules
    best = folder / "shop.json"
    for words in (("shop.toml",), ("free.toml", *TYPED)):
        model, *typed = words
        told = read(run("certify", model, str(best), *typed, "--json"), "certify")
        assert told["missed"] == []
        assert told["certificate"]["constrained"] == found["shop"]["certificate"]["constrained"]
        text = run("certify", model, str(best), *typed).output
        assert "Constraints: fill_rate is at least 0.9" in text.split("\n\n")[1]
    checked = run("check", "shop.toml", "--certificate", str(folder / "shop.c.json"))
    assert checked.exit_code == 0, checked.output


def test_certify_names_the_constraints_that_a_policy_misses(run, tmp_path):
    mdp = build_shop()
    never = mdp.policy(lambda stock: 0 * stock)
    never.to_csv(tmp_path / "never.csv")
    exact = ts.evaluate(mdp, never).measures["fill_rate"]
    told = read(run("certify", "shop.toml", "never.csv", "--json"), "certify")
    assert told["missed"] == ["fill_rate"]
    assert told["certificate"]["constrained"] is None
    text = run("certify", "shop.toml", "never.csv").output
    assert text.startswith(f"Not satisfied: fill_rate at least 0.9; it is {exact.value:.6g}.\n")
    free = read(run("certify", "free.toml", "never.csv", "--json"), "certify")
    assert free["missed"] == []
    assert free["certificate"] == told["certificate"]
    other_start = read(
        run("certify", "shop.toml", "never.csv", "--start", "0", "--json"), "certify"
    )
    assert other_start["missed"] == []


def test_what_rules_and_certificates_cannot_be_asked_is_refused(run, tmp_path):
    build_shop().policy(lambda stock: 0 * stock).to_csv(tmp_path / "never.csv")
    cases = {
        ("compress", "shop.toml", "--frontier"): "without constraints; got fill_rate at least 0.9",
        (
            "compress",
            "shop.toml",
            "--frontier",
            "--subject-to",
            "fill_rate>=90%",
        ): "--frontier lists rules without constraints; got fill_rate>=90%\n",
        (
            "compress",
            "shop.toml",
            "--class",
            "order",
        ): "the classes of rules are one action, order up",
        (
            "compress",
            "shop.toml",
            "--worst",
        ): "subject_to is about means over the model's own start",
        ("compress", "free.toml", "--subject-to", "fil>=1"): "the model's measures are days",
        ("compress", "free.toml", "--subject-to", "days>=12"): "days is at most 10 in this model",
        ("certify", "shop.toml", "never.csv", "--start", "0", "--subject-to", "lost<=2"): (
            "constraints are about the model's own start; got --start"
        ),
    }
    for words, said in cases.items():
        done = run(*words)
        assert (done.exit_code, said in done.output) == (1, True), done.output


def test_a_search_without_a_result_says_so_in_short_lines(run):
    done = run("compress", "shop.toml", "--loss", "0%", "--time-limit", "2")
    assert done.exit_code == 1
    said, best, searched, remedy = done.output[done.output.index("Error:") :].splitlines()
    assert "no rule with fill_rate at least 0.9 and orders at most 9.5, and " in said
    assert best.startswith("  the best deterministic policy known has a loss of ")
    assert searched.startswith("  searched: one action, order up to, ")
    assert remedy.endswith("a larger loss may allow one")


WRITTEN = "--subject-to is written fill_rate>=0.98, fill_rate>=98% or lost<=2; got "
REFUSED = {
    "no comparison": (("--subject-to", "fill_rate=0.9"), f"{WRITTEN}'fill_rate=0.9'"),
    "no number": (("--subject-to", "fill_rate>=high"), f"{WRITTEN}'fill_rate>=high'"),
    "not finite": (("--subject-to", "fill_rate>=NaN"), f"{WRITTEN}'fill_rate>=NaN'"),
    "no measure": (
        ("--subject-to", "fil>=0.9"),
        "the model's measures are days, demand, lost, orders, fill_rate; got 'fil'; "
        "did you mean 'fill_rate'?",
    ),
    "out of reach": (
        ("--subject-to", "days>=12"),
        "days is at most 10 in this model, up to rounding; got at least 12",
    ),
    "a solution to save": (
        ("--save", "solution.nc"),
        "with constraints, --policy writes the result; got --save",
    ),
    "a proof": (("--until", "policy"), "subject_to goes with tol, callback and devices; got until"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_asked_is_refused(name, run):
    words, told = REFUSED[name]
    done = run("solve", "shop.toml", *words)
    assert (done.exit_code, done.output) == (1, f"Error: {told}\n")


def test_two_bounds_on_one_measure_are_an_error(run):
    words = ("--subject-to", "fill_rate>=0.9", "--subject-to", "fill_rate<=0.95")
    for command in (("solve", "free.toml"), ("compress", "free.toml")):
        done = run(*command, *words)
        assert done.exit_code == 1
        assert "--subject-to bounds a measure once" in done.output
        assert "fill_rate got two bounds; same = '1 - lost / demand' in [measures]" in done.output


def test_levels_are_repeated_in_full(run, tmp_path):
    done = run("solve", "free.toml", "--subject-to", "orders<=0.1234567891234")
    assert "with orders at most 0.1234567891234: " in done.output
    build_shop().policy(lambda stock: np.where(stock < 4, 3, 0)).to_csv("most.csv")
    done = run("certify", "free.toml", "most.csv", "--subject-to", "fill_rate>=0.9000000001")
    assert "(required: at least 0.9000000001)" in " ".join(done.output.split())


def test_levels_are_percentages_everywhere(run, tmp_path):
    (tmp_path / "shop.toml").write_text(SHOP.replace('"level" }', '"89.9 %" }'))
    typed = run("show", "shop.toml").output
    assert "1 - lost / demand, at least 0.899\n" in typed
    words = ("tradeoff", "free.toml", "fill_rate", "--level", "89.9%", "--json")
    assert [point["level"] for point in read(run(*words), "tradeoff")["points"]] == [0.899]
    done = run("tradeoff", "free.toml", "fill_rate", "--level", "200%")
    assert "the most that fill_rate can be is 0.9" in done.output
    done = run("tradeoff", "free.toml", "fill_rate", "--level", "98%%")
    assert (done.exit_code, "'98%%' is not a level, such as 0.98 or 98%" in done.output) == (
        2,
        True,
    )


def test_a_band_takes_two_names(run, tmp_path):
    named_twice = FREE.replace("[measures]", "[measures]\nsame = '1 - lost / demand'")
    (tmp_path / "free.toml").write_text(named_twice)
    words = ("--subject-to", "fill_rate>=0.9", "--subject-to", "same<=0.91", "--json")
    found = read(run("solve", "free.toml", *words), "solve")
    assert [one["measure"] for one in found["constraints"]] == ["fill_rate", "same"]
    assert 0.9 - 1e-9 <= found["constraints"][0]["value"] <= 0.91 + 1e-9


def test_levels_that_no_policy_reaches_are_named_with_their_lines(run, tmp_path):
    text = SHOP.replace('at_least = "level"', "at_least = 2")
    (tmp_path / "shop.toml").write_text(text)
    line = text[: text.index("at_least = 2")].count("\n") + 1
    (tmp_path / "never.csv").write_text("stock,order\n" + "".join(f"{i},0\n" for i in range(7)))
    for words in (
        ("solve", "shop.toml"),
        ("certify", "shop.toml", "never.csv"),
        ("compress", "shop.toml"),
    ):
        done = run(*words)
        assert done.exit_code == 1
        assert f"got at least 2 (shop.toml:{line})" in done.output
    typed = run("solve", "shop.toml", "--subject-to", "fill_rate>=2")
    assert typed.exit_code == 1
    assert "shop.toml:" not in typed.output
    together = SHOP.replace("orders = { at_most = 9.5 }", "orders = { at_most = 0.01 }")
    (tmp_path / "shop.toml").write_text(together)
    done = run("solve", "shop.toml")
    assert done.exit_code == 1
    assert f"shop.toml:{line}, shop.toml:{line + 1}" in done.output


def test_a_cost_of_nothing_has_no_sign(run):
    never = build_shop().policy(lambda stock: 0 * stock)
    never.to_csv("never.csv")
    words = ("simulate", "shop.toml", "--policy", "never.csv", "--start", "0", "--periods", "5")
    assert "from 0 to 0" in run(*words).output
    assert "-0" not in run(*words).output


STUDY = ("--methods", "exact_table", "--sizes", "5", "--seeds", "1")
# Each command that takes a model: what follows the word MODEL, and whether its optimum is without
# the constraints.
COMMANDS = {
    "export": (("best.sql",), True),
    "show": ((), False),
    "check": ((), False),
    "solve": ((), False),
    "map": ((), True),
    "measure": ((), True),
    "tradeoff": (("fill_rate", "--points", "2"), True),
    "simulate": (("--periods", "5"), True),
    "explore": (("--no-browser",), True),
    "fit": (("--learner", "linear", "--samples", "30"), True),
    "certify": (("best.csv", "--start", "0"), True),
    "compress": (("--loss", "5%"), False),
    "diff": (("optimal", "best.csv"), True),
    "study": (STUDY, True),
    "bench": (("--repeat", "1"), True),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_that_its_optimum_is_without_the_constraints(command, run, monkeypatch):
    monkeypatch.setattr("tessella.explore.server.serve", lambda *given: given[2].close())
    ts.solve(build_shop()).policy.to_csv("best.csv")
    assert {*COMMAND_NAMES} - {*COMMANDS} == {"list", "new", "paper"}  # which take no model file
    rest, is_without = COMMANDS[command]
    option = ("--models",) if command == "study" else ()
    note = "Note: the constraints of the model are not applied here: fill_rate at least 0.9 and"
    done = run(command, *option, "shop.toml", *rest)
    assert done.exit_code == 0, done.output
    assert (note in done.stderr) is is_without
    if is_without:
        assert note not in run(command, *option, "free.toml", *rest).stderr
