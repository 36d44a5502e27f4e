"""A file that names a problem is that problem, and every problem can be written as such a file."""

from __future__ import annotations

import pickle

import pytest

import tessella as ts
from tessella.problems import registry
from tessella.problems.registry import PACKAGE_PROBLEMS

SMALL = {"vertical_cas": {"seconds": 2, "every": 16}}  # to be quick


@pytest.mark.parametrize("name", PACKAGE_PROBLEMS)
def test_every_problem_reads_back_from_its_starting_file_to_the_same_model(name, tmp_path):
    settings = SMALL.get(name, {})
    known = ts.problem(name)
    there = tmp_path / "model.toml"
    text = ts.write_model(known, there)
    assert there.read_text() == text
    again, built = ts.read_model(there, settings), known.build(**settings)
    assert again.fingerprint == built.fingerprint
    assert again.name == name
    assert again.parameters == built.parameters
    assert again.observation_noise == built.observation_noise
    for parameter in known.settable:
        assert f"; {parameter.range}\n{parameter.name} = " in text


def test_a_starting_file_solves_as_it_is(tmp_path):
    """One of them; the models of all others are those that tests/problems solve."""
    ts.write_model("perishable", tmp_path / "model.toml")
    solution = ts.solve(ts.read_model(tmp_path / "model.toml"))
    assert solution.converged
    assert solution.error_bound < 1e-6


def test_a_model_with_other_settings_is_written_with_them(tmp_path):
    mdp = ts.problem("naor_admission").build(longest=7, arrivals=1e-5)
    there = tmp_path / "model.toml"
    assert "longest = 7\n" in ts.write_model(mdp, there)
    assert ts.read_model(there).fingerprint == mdp.fingerprint


def test_a_model_that_has_a_name_of_its_own_keeps_it(tmp_path):
    mdp = ts.problem("INV-Lin").build(name='the "shop"', max_stock=5)
    there = tmp_path / "model.toml"
    ts.write_model(mdp, there)
    again = ts.read_model(there)
    assert (again.name, again.fingerprint) == (mdp.name, mdp.fingerprint)


def test_a_model_that_no_problem_built_is_not_written():
    with pytest.raises(ts.ArgumentError, match="'lost_sales' is not one"):
        ts.write_model(ts.problem("lost_sales").build().with_criterion(0.9))
    mdp = ts.MDP.staged({"x": range(2)}, (0, 1), 0.5, [ts.Pay(lambda x: x)])
    with pytest.raises(ts.ArgumentError, match="'' is not one"):
        ts.write_model(mdp)
    with pytest.raises(ts.ArgumentError, match=r"write_model needs a problem, .*; got an int"):
        ts.write_model(3)  # type: ignore[arg-type]
    with pytest.raises(ts.ArgumentError, match="register it first; got 'busy'"):
        ts.write_model(ts.queue_admission.variant("busy"))


def test_texts_of_a_record_that_are_no_plain_lines_are_written_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    odd = ts.Choice("law", 'a"\\\n', "two\nlines\x00", ('a"\\\n', "b"))
    mine = ts.Problem("mine", 'A "title"\nof two lines', lambda law: tiny(law), parameters=(odd,))
    ts.register(mine)
    there = tmp_path / "model.toml"
    ts.write_model("mine", there)
    assert ts.read_model(there).parameters == {"law": 'a"\\\n'}


def tiny(law):
    return ts.MDP.staged({"x": range(2)}, (0, 1), 0.5, [ts.Pay(lambda x: x)])


def test_settings_take_the_place_of_parameters_typed_or_not(file):
    path = file('problem = "naor_admission"\nname = "door"\n[parameters]\nlongest = 7\n')
    assert ts.read_model(path).parameters["longest"] == 7
    mdp = ts.read_model(path, {"longest": "9", "arrivals": 0.25})
    assert (mdp.name, mdp.parameters["longest"], mdp.parameters["arrivals"]) == ("door", 9, 0.25)
    with pytest.raises(ts.ArgumentError, match=r"no parameter 'longst'; did you mean 'longest'\?"):
        ts.read_model(path, {"longst": "9"})
    for wrong in ("many", "0", 0, None):
        with pytest.raises(ts.ArgumentError, match=r"longest must be a whole number .*; .*got"):
            ts.read_model(path, {"longest": wrong})


def test_all_mistakes_are_told_at_once_with_lines_and_nearest_names(file, mistakes):
    path = file(
        'problem = "perishable"\nnam = "x"\n\n[parameters]\nlif = 3\nlead_time = 0\n'
        'unit_cost = "a"\n\n[parameter]\n'
    )
    assert mistakes(path) == [
        "2: unknown key 'nam' in a model file that names a problem; did you mean 'name'?",
        "5: perishable has no parameter 'lif'; did you mean 'life'?",
        "6: lead_time must be a whole number from 1 to 6; perishable got 0",
        "7: unit_cost must be a number from 0 to 1000000; perishable got 'a'",
        "9: unknown key 'parameter' in a model file that names a problem; "
        "did you mean 'parameters'?",
    ]


def test_a_problem_that_nobody_knows_gets_the_nearest_name(file, mistakes):
    assert mistakes(file('problem = "perishble"')) == [
        "1: no problem is called 'perishble'; did you mean 'perishable'?"
    ]


def test_a_file_imports_nothing(file, mistakes, tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('ran')")
    monkeypatch.syspath_prepend(tmp_path)
    said = "1: no problem is called 'trap:found'; a model file imports nothing"
    assert mistakes(file('problem = "trap:found"')) == [said]


def test_what_a_problem_refuses_to_build_is_said_with_a_line(file, mistakes):
    path = file('problem = "seat_revenue"\n\n[parameters]\nseats = 0\nperiods = 1\nload = 1.0\n')
    assert ts.read_model(path).n_states == 1
    over = file('problem = "inventory"\n\n[parameters]\norders = [1, 1]\n')
    assert mistakes(over) == ["3: actions must differ from one another; order=1 occurs 2 times"]


def test_an_error_travels_with_its_mistakes(file):
    with pytest.raises(ts.FileError) as found:
        ts.read_model(file('problem = "x"'))
    again = pickle.loads(pickle.dumps(found.value))
    assert type(again) is ts.ModelFileError
    assert again.mistakes == found.value.mistakes
    assert str(again) == str(found.value)
