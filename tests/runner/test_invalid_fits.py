"""Whatever a method of one's own gives back or raises is a failed run, and harms no other."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tessella.errors import StudyError
from tessella.mdp.policy import Policy
from tessella.runner.methods.method import Fit, get_instance
from tessella.runner.record import InformationBudget
from tessella.runner.run import run_batch, run_batch_on_worker, run_batch_safely, score
from tessella.runner.run_study import run_study
from tessella.runner.store import Store
from tessella.runner.study import Study, make_batches
from tessella.support.progress import PlainProgress


@pytest.fixture(scope="module", autouse=True)
def toys_can_be_found() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(Path(__file__).parent)
    yield
    patch.undo()


def study(method: str, seeds: int = 1) -> Study:
    return Study(("QUE-Lin",), (method,), (100,), seeds)


def kinds() -> list[str]:
    """Every kind of garbage, by name."""
    import toy

    instance = get_instance(study("exact_table").specs[0])
    fit = Fit(instance.solution.policy, InformationBudget(), 0.0)
    return list(toy.garbage(fit, instance.mdp))


def test_every_kind_of_garbage_is_a_failed_record_beside_a_good_one(tmp_path):
    """In one batch, on the worker; and all of it can be stored and read."""
    (batch,) = make_batches(study("toy:careless", 1 + len(kinds())).specs)
    outcome = run_batch_safely(batch)
    good, *bad = outcome.records
    assert not good.failed
    assert {
        kind: record.failed for kind, record in zip(kinds(), bad, strict=True)
    } == dict.fromkeys(kinds(), True)
    with Store.writer(tmp_path) as store:
        store.add(outcome.records, outcome.context)
        stored = {r.spec.seed: r.reason for r in store.records()}
    assert stored == {r.spec.seed: r.reason for r in outcome.records}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"information": None}, "a fit needs an InformationBudget; got a NoneType"),
        (
            {"information": InformationBudget(margins=None)},
            "the margins of a fit must be a whole number .*; got None",
        ),  # type: ignore[arg-type]
        (
            {"information": InformationBudget(simulator_calls=-1)},
            "the simulator calls of a fit must be .*; got -1",
        ),
        (
            {"policy": 2**70},
            r"the size of a fit must be .* to 2\^63 - 1; got 1180591620717411303424",
        ),
        ({"policy": 1.0}, "the size of a fit must be a whole number"),
        ({"seconds": float("nan")}, "the seconds of a fit must be a number, finite .*; got nan"),
        ({"policy": np.zeros(7, int)}, r"has shape \(31, 21\); got \(7,\)"),
        ({"policy": np.full(651, 0.5)}, r"action indices \(whole numbers\); got float64"),
        ({"policy": np.full(651, 2)}, r"must lie in 0\.\.1; queue=0, regime=0 gets 2 \(651 of"),
    ],
)
def test_a_failed_record_says_what_was_wrong_in_a_sentence(change, reason):
    import toy

    (spec,) = study("exact_table").specs
    solution = get_instance(spec).solution
    fit = Fit(solution.policy, InformationBudget(), 0.0)
    if isinstance(change.get("policy"), int | float):
        change = {"policy": toy.sized(fit, change["policy"])}
    (record,) = score(solution, [spec], [replace(fit, **change)])
    assert re.search(reason, record.reason), record.reason
    assert record.actions.size == 0


def test_infeasible_actions_are_a_failed_record():
    import tessella as ts

    feasible = np.array([[True, False], [True, True]])
    mdp = ts.MDP.from_arrays(np.stack([np.eye(2)] * 2), np.zeros((2, 2)), 0.9, feasible=feasible)
    (spec,) = study("exact_table").specs
    solution = ts.solve(mdp)
    good, bad = (Fit(np.array(table), InformationBudget(), 0.0) for table in ([0, 1], [1, 1]))
    first, second = score(solution, [spec, spec], [good, bad])
    assert first.reason == ""
    assert "must take feasible actions; state=0, action=1" in second.reason


def test_counts_of_numpy_are_counts(tmp_path):
    (spec,) = study("exact_table").specs
    solution = get_instance(spec).solution
    told = InformationBudget(np.int64(5), np.uint8(4), 3, np.int32(2))  # type: ignore[arg-type]
    table = solution.policy.table.astype(float)
    policy = Policy.from_table(solution.mdp.grid, solution.mdp.actions, table, size=np.int16(9))  # type: ignore[arg-type]
    fit = Fit(policy, told, np.float32(0.5))  # type: ignore[arg-type]
    (record,) = score(solution, [spec], [fit])
    assert (record.size, record.information, record.seconds) == (
        9,
        InformationBudget(5, 4, 3, 2),
        0.5,
    )
    with Store.writer(tmp_path) as store:
        store.add([record], {})
        assert store.records()[0].row() == record.row()


def test_no_method_can_change_what_it_is_measured_against():
    solution = get_instance(study("exact_table").specs[0]).solution
    for array in (solution.value, solution.q, solution.margin, solution.policy.table):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0


def test_a_batch_without_one_fit_for_each_run_fails_as_a_whole_and_one_by_one():
    said = {
        "toy:fewer": "one Fit for each run, in a list; got 2 for 3 runs",
        "toy:more": "got more than 3 for 3 runs",
        "toy:nothing": "got NoneType",
    }
    for method, reason in said.items():
        specs = study(method, 3).specs
        with pytest.raises(StudyError, match=reason):
            run_batch(specs)
        records = run_batch_safely(specs).records
        assert tuple(record.spec for record in records) == specs
        for record in records:
            assert "StudyError: a method must return one Fit for each run" in record.reason


def test_an_exit_or_an_interrupt_ends_this_process_but_no_worker():
    exits, interrupts = study("toy:wild", 4).specs[2:]
    with pytest.raises(SystemExit):
        run_batch_safely([exits])
    with pytest.raises(KeyboardInterrupt):
        run_batch_safely([interrupts])
    reasons = [record.reason for record in run_batch_on_worker([exits, interrupts]).records]
    assert reasons == ["SystemExit: 3", "KeyboardInterrupt: "]


def test_a_study_of_careless_and_wild_methods_comes_to_its_end(tmp_path, compiled):
    """On a cluster: what cannot be put in words or sent, exits, and imports that fail included."""
    import toy

    asked = Study(("QUE-Lin",), ("toy:careless", "toy:wild", "toy:fewer"), (100,), len(toy.WILD))
    said = io.StringIO()
    done = run_study(asked, tmp_path, workers=2, progress=PlainProgress(said))
    failed = {(r.spec.method, r.spec.seed): r.reason for r in done.failed}
    for method in ("toy:careless", "toy:wild"):
        assert [seed for m, seed in failed if m == method] == list(range(1, len(toy.WILD)))
    assert sum(m == "toy:fewer" for m, _ in failed) == len(toy.WILD)
    wild = {seed: reason for (m, seed), reason in failed.items() if m == "toy:wild"}
    assert wild[1] == "Unspeakable: (it cannot be put in words)"
    assert wild[2] == "SystemExit: 3"
    assert wild[4] == r"ValueError: half a pair \ud800, and [/b] no markup"
    assert len(wild[5]) < 2100
    assert wild[7].startswith("ImportError: cannot import name 'nothing_of_that_name'")
    assert len(done.failed) == said.getvalue().count("failed: QUE-Lin, toy:")


@pytest.mark.parametrize(
    ("part", "answer", "message"),
    [
        ("seconds", None, "a method says how many seconds a run takes; 'toy:odd' gives None"),
        ("seconds", float("nan"), "gives nan"),
        ("batch_key", [1], "a method needs a hashable batch key"),
        ("runs", None, "a method names its runs; 'toy:odd' gives None"),
        ("runs", [(100, 0.5)], r"a method names its runs as pairs of n and seed; .* \(100, 0.5\)"),
        ("runs", [(100, 2**70)], "a method names its runs as pairs"),
        ("runs", [100], "a method names its runs as pairs"),
        ("settings", {"x": object()}, "a spec holds finite numbers, text, lists and objects"),
    ],
)
def test_a_method_that_cannot_be_planned_is_refused_before_any_work(
    part, answer, message, monkeypatch
):
    import toy

    class Odd(toy.Toy):
        pass

    setattr(Odd, part, lambda self, *given: answer)
    monkeypatch.setattr(toy, "odd", Odd(), raising=False)
    with pytest.raises(StudyError, match=message):
        [spec.key for batch in make_batches(study("toy:odd").specs) for spec in batch]
