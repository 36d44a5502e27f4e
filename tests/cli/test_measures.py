"""Measures and constraints on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from modelfiles.test_measures import SHOP, build_shop
from support.schemas import faults

import tessella as ts
from tessella.cli import main

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
    assert faults(document, "commands.schema.json", f"commands/{name}") == []
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
    assert "  fill_rate at least 0.9: binding; raising it by 0.01 costs 0.2942\n" in text
    assert "\nMeasures:\n  days       10, off by at most " in text
    assert "\n  fill_rate  0.923047861339, off by at most " in text


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


WRITTEN = "--subject-to is written fill_rate>=0.98 or lost<=2; got "
REFUSED = {
    "no comparison": (("--subject-to", "fill_rate=0.9"), f"{WRITTEN}'fill_rate=0.9'"),
    "no number": (("--subject-to", "fill_rate>=high"), f"{WRITTEN}'fill_rate>=high'"),
    "not finite": (("--subject-to", "fill_rate>=NaN"), f"{WRITTEN}'fill_rate>=NaN'"),
    "no measure": (
        ("--subject-to", "fil>=0.9"),
        "the model's measures are days, demand, lost, orders, fill_rate; got 'fil'",
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
