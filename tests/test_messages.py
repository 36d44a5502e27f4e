"""Mistakes of a new user: the message names what is needed, and what was given."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from click.testing import CliRunner

import tessella as ts
from tessella import tessellation
from tessella.checker import check
from tessella.cli import main
from tessella.learn import Features, fit_batch

MODEL = ts.benchmark("QUE-Lin")
SOLUTION = ts.solve(MODEL)
SAMPLE = ts.draw(SOLUTION, 20, rng=0)
AXES = {"stock": range(4)}
PAY = ts.Pay(lambda stock: stock)


@pytest.mark.parametrize(
    "function", [lambda units: units > 3, lambda units: 1 if units > 3 else 0, np.positive]
)
def test_a_function_whose_argument_names_no_axis_is_told_which_names_exist(function):
    with pytest.raises(
        ts.PolicyError, match=r"names no axis, .* \(n, 2\); the axes are queue, regime"
    ):
        ts.as_policy(MODEL, function)


def test_a_table_without_an_action_is_told_every_name_that_its_column_may_have(tmp_path):
    path = tmp_path / "policy.csv"
    path.write_text("queue,regime,what\n")
    with pytest.raises(
        ts.FileError, match=f"must have a column '{MODEL.action_name}' or 'action'; its columns"
    ):
        ts.as_policy(MODEL, path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 1), AXES, 0.9, [PAY]), r"a grid needs axis names and their values, .*; got \(0, 1\)"),
        ((AXES, (0, 1), [PAY], 0.9), "a staged model needs a list of stages; got 0.9"),
        ((AXES, (0, 1), 0.9, PAY), "a staged model needs a list of stages; got Pay"),
        ((AXES, 0.9, (0, 1), [PAY]), "actions must be a list of values; got 0.9"),
    ],
)
def test_swapped_arguments_of_a_staged_model_are_named(arguments, message):
    with pytest.raises(ts.ModelError, match=message):
        ts.MDP.staged(*arguments)


LINEAR, TABLE = ts.LinearBoundary(), ts.TabularQ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ts.fit(SAMPLE, LINEAR), "fit needs a Sample; got a LinearBoundary"),
        (lambda: ts.fit(LINEAR, SOLUTION), "fit needs a Sample; got a Solution"),
        (lambda: fit_batch(LINEAR, SAMPLE), "fit_batch needs a list of samples; got Sample"),
        (
            lambda: fit_batch(LINEAR, [SAMPLE], 3),
            "seeds must be a list, one for each sample; got 3",
        ),
        (
            lambda: ts.compress(SOLUTION, 0.1, classes=[ts.AxisTree]),
            "compress needs a RuleClass; got the class AxisTree, not an instance of it",
        ),
        (lambda: ts.train(MODEL, TABLE, 9), "train needs an MDP; got a TabularQ"),
        (
            lambda: ts.train("TabularQ", MODEL, 9),
            r"train needs a baseline such as TabularQ\(\); got 'TabularQ'",
        ),
        (lambda: ts.train(ts.TabularQ, MODEL, 9), r"such as TabularQ\(\); got <class"),
        (lambda: ts.train(TABLE, MODEL, "9"), "at least 1 update; got 9"),
        (lambda: ts.train_batch(TABLE, MODEL, 9, [0]), "budgets must be a list of .*; got 9"),
        (lambda: ts.train_batch(TABLE, MODEL, [9], 0), "seeds must be a list of .*; got 0"),
        (lambda: ts.train_batch(TABLE, MODEL, [9], ["a"]), "a seed must be a whole .*; got 'a'"),
        (lambda: ts.draw(SOLUTION, 9, scheme="uniform"), r"such as Uniform\(\); got 'uniform'"),
        (lambda: ts.draw(SOLUTION, 9, scheme=ts.Uniform), r"such as Uniform\(\); got <class"),
    ],
)
def test_swapped_and_foreign_arguments_of_a_verb_are_named(call, message):
    with pytest.raises(ts.ArgumentError, match=message):
        call()


@pytest.mark.parametrize("rng", ["a", None, -1, 0.5])
@pytest.mark.parametrize(
    "verb",
    [
        lambda rng: ts.draw(SOLUTION, 9, rng=rng),
        lambda rng: ts.train(TABLE, MODEL, 9, rng=rng),
        lambda rng: ts.simulate(MODEL, SOLUTION, 3, rng),
        lambda rng: ts.estimate(MODEL, SOLUTION, rng=rng),
    ],
    ids=["draw", "train", "simulate", "estimate"],
)
def test_what_is_neither_generator_nor_seed_is_refused(verb, rng):
    with pytest.raises(ts.ArgumentError, match=rf"(rng|seed) must be a .*; got {rng!r}"):
        verb(rng)


@pytest.mark.parametrize("wrong", ["a", [1], True, -1])
@pytest.mark.parametrize(
    ("what", "use"),
    [
        ("C", lambda x: ts.fit(ts.LinearBoundary(C=x), SAMPLE)),
        ("tol", lambda x: ts.fit(ts.LinearBoundary(tol=x), SAMPLE)),
        ("k", lambda x: ts.fit(ts.LocalBoundary(k=x), SAMPLE)),
        ("degree", lambda x: ts.fit(ts.LinearBoundary(features=Features(degree=x)), SAMPLE)),
        ("eta", lambda x: ts.fit(ts.MarginBoundary(eta=x), SAMPLE)),
        ("training plan", lambda x: ts.fit(ts.NeuralBoundary(epochs=x), SAMPLE)),
        ("trees", lambda x: ts.FittedQ(trees=x)),
    ],
)
def test_a_setting_that_is_no_number_of_its_kind_is_refused_by_its_name(what, use, wrong):
    with pytest.raises(ts.ArgumentError, match=f"{what}.* must be .*; got"):
        use(wrong)


SAVES = {
    "solution": SOLUTION.save,
    "model": MODEL.save,
    "policy": SOLUTION.policy.save,
    "table": SOLUTION.policy.to_csv,
    "certificate": ts.certify(SOLUTION, SOLUTION).save,
}


@pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
def test_a_save_into_a_missing_folder_says_that_the_folder_is_missing(save, tmp_path):
    with pytest.raises(ts.FileError) as found:
        save(tmp_path / "no" / "file.x")
    assert str(found.value) == (
        f"{tmp_path}/no/file.x cannot be written; the folder {tmp_path}/no is missing"
    )
    (tmp_path / "taken").mkdir()
    with pytest.raises(ts.FileError, match="cannot be written; a folder has that name"):
        save(tmp_path / "taken")


def test_the_checker_tells_a_missing_file_from_a_certificate_that_does_not_hold(tmp_path, capsys):
    there, missing = tmp_path / "certificate.json", tmp_path / "no" / "model.nc"
    ts.certify(SOLUTION, SOLUTION).save(there)
    for files in ([str(missing), str(there)], [str(there), str(missing)]):
        assert check.main(files) == 2
        assert capsys.readouterr().out == f"NOT CHECKED: there is no file {missing}\n"


def test_workers_have_an_upper_bound():
    # Without seeds there is nothing to run, should the bound ever fail.
    result = CliRunner().invoke(main, ["paper", "--workers", "100000", "--seeds", "0"])
    assert result.exit_code == 2
    assert "100000 is not in the range 1<=x<=256" in result.output


VERBS = [
    verb
    for verb in vars(tessellation).values()
    if inspect.isfunction(verb) and next(iter(inspect.signature(verb).parameters)) == "tessellation"
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_every_verb_of_tessellations_names_what_it_needs(verb):
    needed = [p for p in inspect.signature(verb).parameters.values() if p.default is p.empty]
    others = ["queue" for p in needed[1:] if p.kind is not p.VAR_KEYWORD]
    with pytest.raises(ts.ArgumentError, match=f"{verb.__name__} needs a Tessellation; got a Sol"):
        verb(SOLUTION, *others)


def test_all_verbs_of_tessellations_were_found():
    assert {tessellation.measure, tessellation.switching_curves, tessellation.trim} < set(VERBS)
    assert len(VERBS) == 17


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ts.tessellate(3, 4), "tessellate needs an MDP; got an int"),
        (lambda: ts.estimate(SOLUTION, SOLUTION, rng=0), "estimate needs an MDP; got a Solution"),
        (lambda: ts.estimate(MODEL, SOLUTION, rng=0, paths="a"), "2 paths .*; got 'a', None and"),
        (lambda: ts.estimate(MODEL, SOLUTION, rng=0, paths=2.5), "2 paths .*; got 2.5, None and"),
        (lambda: ts.estimate(MODEL, SOLUTION, rng=0, periods="a"), "1 period .*; got 10000, 'a'"),
        (lambda: ts.estimate(MODEL, SOLUTION, rng=0, confidence="a"), "between 0 and 1; .* 'a'"),
        (lambda: ts.run_study(3), "run_study needs a Study; got an int"),  # type: ignore[arg-type]
        (lambda: ts.problem(3), "problem needs a name; got an int"),  # type: ignore[arg-type]
        (lambda: ts.certify(SOLUTION, SOLUTION, eps="a"), "eps must be a number, .*; got 'a'"),  # type: ignore[arg-type]
        (lambda: ts.certify(SOLUTION, SOLUTION, tol=True), "tol must be a number, .*; got True"),
        (lambda: ts.draw(SOLUTION, 9, noise=-1, rng=0), "noise must be .* 2 axes, .*; got -1"),
        (lambda: ts.draw(SOLUTION, 9, noise="a", rng=0), "noise must be .* 2 axes, .*; got 'a'"),
    ],
)
def test_what_a_verb_cannot_take_is_refused_in_words(call, message):
    with pytest.raises(ts.ArgumentError, match=message):
        call()


@pytest.mark.parametrize("noise", [-1, float("nan"), [0.1, 0.2, 0.3], "a", None])
def test_a_model_is_never_seen_with_noise_that_makes_no_sense(noise):
    with pytest.raises(ts.ModelError, match="noise must be"):
        MODEL.with_observation_noise(noise)


LOADS = {
    "policy": ts.Policy.load,
    "policy through the door": MODEL.policy,
    "model": ts.MDP.load,
    "solution": lambda path: ts.Solution.load(path, MODEL),
}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_file_that_is_missing_is_a_file_error(load, tmp_path):
    with pytest.raises(ts.FileError, match=r"nowhere\.json cannot be read as a saved"):
        load(tmp_path / "nowhere.json")
