"""Problems, learners, baselines, methods and measures written outside the package take part."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import tessella as ts
from tessella.errors import ModelError, StudyError
from tessella.problems import registry
from tessella.runner import methods
from tessella.runner import study as studies
from tessella.runner.methods import find_method
from tessella.runner.record import InformationBudget
from tessella.runner.run import run
from tessella.runner.study import pack_objects, register_packed


def machine(wear: float, price: float) -> ts.MDP:
    """Ages 0..14; keep or replace."""
    age = np.arange(15)
    keep = (1 - wear) * np.eye(15) + wear * np.eye(15, k=1)
    keep[-1, -1] = 1.0
    new = np.zeros_like(keep)
    new[:, 0] = 1.0
    reward = np.column_stack([-age, np.full(15, -price)])
    return ts.MDP.from_arrays([keep, new], reward, 0.95, grid={"age": age}, actions=(0, 1))


MACHINE = ts.Problem(
    "machine",
    "When to replace a machine",
    machine,
    parameters=(
        ts.Number("wear", 0.3, "chance to age", low=0, high=1),
        ts.Number("price", 12.0, "of a new one", low=0),
    ),
    observation_noise=0.4,
)


def first_visit(mdp: ts.MDP, updates: int, rng: np.random.Generator) -> np.ndarray:
    """The action of the higher reward met so far, from single simulated periods."""
    best = np.full((mdp.n_states, 2), -np.inf)
    states, actions = rng.integers(0, mdp.n_states, updates), rng.integers(0, 2, updates)
    np.maximum.at(best, (states, actions), mdp.reward[states, actions])
    return best.argmax(axis=1)


def always_keep(instance, n: int, rng: np.random.Generator) -> np.ndarray:
    return np.zeros(instance.mdp.n_states, dtype=int)


def oldest_kept(solution: ts.Solution, policy: ts.Policy) -> float:
    return float(np.flatnonzero(policy.table.ravel() == 0).max(initial=-1))


TREE = ts.LearnerMethod("tree", DecisionTreeClassifier(max_depth=2, random_state=7))
VISITS = ts.BaselineMethod("first visit", first_visit)
NEVER = ts.FunctionMethod("never", always_keep, once=True)
OLDEST = ts.Measure("oldest kept", oldest_kept)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What a test makes known is forgotten after it."""
    for module in (registry, methods, studies):
        monkeypatch.setattr(module, "_registered", {})


def study(**changes) -> ts.Study:
    given = {"sizes": (20, 80), "seeds": 2, "measures": [OLDEST]}
    return ts.Study([MACHINE, "QUE-Lin"], ["linear", TREE, VISITS, NEVER], **given | changes)


def test_all_of_them_run_beside_ours_and_are_stored_with_what_was_measured(tmp_path):
    results = ts.run_study(study(), tmp_path)
    assert results.failed == []
    frame = results.frame
    assert set(frame["problem"]) == {"machine", "QUE-Lin"}
    assert set(frame["method"]) == {"linear", "tree", "first visit", "never"}
    assert len(frame) == 2 * (3 * 2 * 2 + 1)
    machines = frame[frame["problem"] == "machine"].set_index("method")
    assert set(machines.loc[["never"], "oldest kept"]) == {14.0}
    for method, told in (("tree", "labels"), ("first visit", "simulator_calls")):
        assert (machines.loc[method, told] == machines.loc[method, "n"]).all()
    again = ts.run_study(study(), tmp_path)
    assert [r.row() for r in again.records] == [r.row() for r in results.records]
    assert len(again.sessions) == 1, "a finished study starts no work"
    assert "oldest kept" in str(results)
    assert results.table("oldest kept").loc[("machine", "never", 0), "oldest kept"] == 14


def test_a_policy_is_scored_as_a_certificate_scores_it():
    results = ts.run_study(study(sizes=(30,), seeds=1))
    (record,) = [r for r in results.done if (r.spec.problem, r.spec.method) == ("machine", "tree")]
    solution = results.solutions["machine"]
    proof = ts.certify(solution, record.actions.astype(int))
    assert record.mean_loss == pytest.approx(float(proof.mean_loss), abs=1e-9)
    kept = np.flatnonzero(record.actions == 0).max()
    assert record.measures == {"oldest kept": kept}


def test_measures_of_models_are_columns_of_the_results():
    study = ts.Study(["inventory", MACHINE], ["linear", NEVER], (30,), 2, measures=[OLDEST])
    results = ts.run_study(study)
    assert results.measures == ("oldest kept", "demand", "lost", "fill_rate")
    assert results.table().columns[-4:].tolist() == list(results.measures)
    frame = results.frame.set_index("problem")
    assert frame.loc["machine", ["demand", "lost", "fill_rate"]].isna().all(axis=None)
    mdp = results.solutions["inventory"].mdp
    records = [record for record in results.done if record.spec.problem == "inventory"]
    assert len(records) == len(frame.loc["inventory"]) == 3
    for record, shown in zip(records, frame.loc["inventory", "fill_rate"], strict=True):
        exact = ts.evaluate(mdp, record.actions.astype(int).reshape(mdp.grid.shape))
        assert shown == pytest.approx(exact.measures["fill_rate"].value, abs=1e-12)
    assert "fill_rate" in str(results)


def test_the_mean_loss_of_a_record_is_over_the_start_of_its_model():
    def make(wear, price):
        return MACHINE.build(wear=wear, price=price).with_start(3)

    started = ts.Problem("started machine", "begins at age 3", make, MACHINE.parameters)
    results = ts.run_study(ts.Study([started], [NEVER], (20,), 1))
    (record,) = results.done
    proof = ts.certify(results.solutions["started machine"], record.actions.astype(int))
    assert record.mean_loss == pytest.approx(float(proof.mean_loss), abs=1e-9)
    assert record.mean_loss != pytest.approx(float(proof.losses.value.mean()), rel=1e-3)


def test_workers_get_what_a_study_was_given_as_objects(tmp_path):
    """The objects stand in the main script, which no worker can import."""
    text = Path(__file__).read_text().split("@pytest.fixture")[0]
    script = tmp_path / "mine.py"
    script.write_text(
        text
        + "if __name__ == '__main__':\n"
        + "    asked = ts.Study(MACHINE, [TREE, VISITS, NEVER], (20,), 2, [OLDEST])\n"
        + "    got = ts.run_study(asked, 'out', workers=1)\n"
        + "    print(got.table('oldest kept').to_json(orient='values'), len(got.failed))\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values, failed = done.stdout.split()
    asked = ts.Study(MACHINE, [TREE, VISITS, NEVER], (20,), 2, [OLDEST])
    here = ts.run_study(asked).table("oldest kept")
    assert json.loads(values) == here.to_numpy().tolist()
    assert failed == "0"


def test_what_a_study_brings_is_known_where_it_is_unpacked():
    packed = pack_objects(study().objects)
    for module in (registry, methods, studies):
        module._registered.clear()
    register_packed(packed)
    assert ts.problem("machine").build().fingerprint == MACHINE.build().fingerprint
    assert find_method("tree").title == "tree"
    assert studies.find_measure("oldest kept").name == "oldest kept"


def test_a_problem_that_was_changed_under_its_name_is_built_anew():
    (spec,) = ts.Study(MACHINE, [NEVER]).specs
    cheap = run(spec).mean_loss
    (same,) = ts.Study(
        replace(MACHINE, make=lambda wear, price: machine(wear, 60.0)), [NEVER]
    ).specs
    assert same == spec, "its author did not raise the edition"
    assert run(same).mean_loss != cheap


def test_another_edition_of_a_problem_is_another_run(tmp_path):
    (first,) = ts.Study(MACHINE, [NEVER]).specs
    later = replace(MACHINE, edition=2)
    (second,) = ts.Study(later, [NEVER]).specs
    assert first.key != second.key
    with pytest.raises(StudyError, match=r"'machine' has edition 2 here; .* requires edition 1"):
        run(first)


def test_measures_are_part_of_a_spec_and_leave_the_keys_of_others_alone():
    (plain,) = ts.Study(MACHINE, [NEVER]).specs
    (measured,) = ts.Study(MACHINE, [NEVER], measures=[OLDEST]).specs
    assert plain.key != measured.key
    assert "measures" not in json.loads(plain.json)
    assert type(plain).from_json(measured.json) == measured
    assert type(plain).from_json(measured.json).measures == ("oldest kept",)


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (lambda solution, policy: float("nan"), "a measure gives a finite number; odd is nan"),
        (lambda solution, policy: "7", "a measure gives a finite number; odd is 7"),
        (lambda solution, policy: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda solution: 1.0, "TypeError: "),
    ],
)
def test_a_measure_that_gives_no_number_is_a_failed_run_with_the_reason(of, reason):
    results = ts.run_study(ts.Study(MACHINE, [NEVER], measures=[ts.Measure("odd", of)]))
    assert [r.reason.startswith(reason) for r in results.failed] == [True]
    assert f"failed: {results.failed[0].spec}: {reason}" in str(results)


def test_a_learner_that_sees_margins_is_said_to_see_them():
    margins = ts.LearnerMethod("by margin", ts.MarginBoundary(epochs=1, min_steps=1))
    (record,) = ts.run_study(ts.Study("QUE-Lin", margins, (20,), 1)).records
    assert (record.information.labels, record.information.margins) == (20, 20)


def test_in_this_process_only_the_culprit_of_a_batch_fails():
    def odd(instance, n, rng):
        if rng.random() < 2 and n == 20:
            raise ValueError("not this one")
        return np.zeros(15, dtype=int)

    method = ts.FunctionMethod("odd", odd, information=InformationBudget(labels=3))
    results = ts.run_study(ts.Study(MACHINE, method, (20, 80), 2))
    assert {(r.spec.n, r.reason) for r in results.records} == {
        (20, "ValueError: not this one"),
        (80, ""),
    }
    assert {r.information for r in results.done} == {InformationBudget(labels=3)}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_problem_that_is_not_built_is_failed_runs_and_no_other_problem_suffers(workers):
    def refuses(wear: float, price: float) -> ts.MDP:
        raise ModelError("nothing to build")

    broken = replace(MACHINE, name="broken", family="", make=refuses)
    simple = replace(MACHINE, make=machine_by_value())
    results = ts.run_study(ts.Study([simple, broken], never_by_value()), workers=workers)
    found = {r.spec.problem: r.reason for r in results.records}
    assert found["machine"] == ""
    assert "nothing to build" in found["broken"]


def machine_by_value():
    """The function as a script has it: workers cannot import this file."""
    names: dict = {"np": np, "ts": ts}
    exec("from __future__ import annotations\n" + inspect.getsource(machine), names)
    names["machine"].__module__ = "__main__"
    return names["machine"]


def never_by_value():
    function = eval("lambda instance, n, rng: [0] * instance.mdp.n_states", {})
    return ts.FunctionMethod("never", function, once=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"problems": ["nosuch"]}, "no problem is called 'nosuch'"),
        ({"problems": [machine]}, "register needs a Problem; got a function"),
        ({"methods": [object()]}, "a method needs a name"),
        ({"methods": [ts.LearnerMethod("linear", None)]}, "package keeps its name; got 'linear'"),
        ({"methods": [ts.Measure("x", print)]}, "'x' is no method: it has no title"),
        ({"measures": [ts.Measure("policy_error", print)]}, "no column .* got 'policy_error'"),
        ({"measures": ["nosuch"]}, "no measure is called 'nosuch'; there are none"),
        ({"measures": [print]}, "a measure is a tessella.Measure; got builtin_function"),
        ({"measures": ["math:pi"]}, "a measure is a tessella.Measure; 'math:pi' is float"),
    ],
)
def test_what_cannot_take_part_is_refused_by_name(given, message):
    with pytest.raises(ts.TessellaError, match=message):
        ts.Study(**{"problems": [MACHINE], "methods": [NEVER]} | given)


def test_the_settings_of_a_learner_are_in_its_specs_and_its_seed_is_not():
    deeper = ts.LearnerMethod("tree", DecisionTreeClassifier(max_depth=3, random_state=7))
    seeded = ts.LearnerMethod("tree", DecisionTreeClassifier(max_depth=2, random_state=8))
    assert TREE.settings()["max_depth"] == 2
    assert deeper.settings() != TREE.settings() == seeded.settings()


def test_records_of_a_passing_study_outlive_its_folder():
    results = ts.run_study(ts.Study(MACHINE, NEVER))
    assert results.records[0].actions.tolist() == [0] * 15
    with pytest.raises(StudyError, match="cannot be written"):
        ts.run_study(ts.Study(MACHINE, NEVER), "/proc/nowhere")


class Younger:
    """Replace from an age on: a rule of one number."""

    size = 1

    def __call__(self, points):
        return (points[:, 0] > 3.25).astype(int)


def test_a_measure_is_given_the_policy_itself_and_not_its_table():
    given = ts.FunctionMethod("younger", lambda instance, n, rng: Younger(), once=True)
    measures = [
        ts.Measure("numbers stored", lambda solution, policy: policy.size),
        ts.Measure("just before", lambda solution, policy: int(policy.decide([3.2])[0])),
        ts.Measure("just after", lambda solution, policy: int(policy.decide([3.3])[0])),
        ts.Measure("named", lambda solution, policy: policy.name == "younger"),
    ]
    (record,) = ts.run_study(ts.Study(MACHINE, [given], measures=measures), workers=0).records
    assert record.measures == {"numbers stored": 1, "just before": 0, "just after": 1, "named": 1}
    assert record.size == 1
    assert record.actions.tolist() == [0] * 4 + [1] * 11
