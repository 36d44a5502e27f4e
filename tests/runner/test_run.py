"""One spec gives one record: alone, in a batch, in any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tessella.certificates.certify import certify
from tessella.errors import StudyError
from tessella.problems.registry import benchmark
from tessella.runner.methods import package_methods
from tessella.runner.methods.method import get_instance
from tessella.runner.record import InformationBudget, read_parquet, records_to_parquet
from tessella.runner.run import run, run_batch
from tessella.runner.store import Store
from tessella.runner.study import Study, make_batches
from tessella.solvers.solve import solve


def numbers(record) -> dict:
    return {name: value for name, value in record.row().items() if name != "seconds"}


@pytest.mark.parametrize("method", list(package_methods()))
def test_a_record_is_the_same_alone_in_a_batch_and_in_reverse(method):
    specs = Study(("QUE-Lin",), (method,), (60, 90), 3).specs
    for batch in make_batches(specs):
        together = run_batch(batch).records
        reverse = run_batch(batch[::-1]).records[::-1]
        alone = [run(spec) for spec in (batch[0], batch[-1])]
        assert [numbers(r) for r in together] == [numbers(r) for r in reverse]
        assert [numbers(r) for r in alone] == [numbers(together[0]), numbers(together[-1])]
        assert [r.spec for r in together] == list(batch)


@pytest.mark.parametrize("label", ["INV-Mix", "QUE-Mix"])
def test_the_numbers_are_those_of_a_certificate(label):
    (spec,) = Study((label,), ("linear",), (100,), 1).specs
    record = run(spec)
    mdp = benchmark(label)
    proof = certify(solve(mdp), record.actions.reshape(mdp.grid.shape).astype(int))
    assert record.policy_error == pytest.approx(float(proof.policy_error), abs=1e-12)
    assert record.value_gap == pytest.approx(float(proof.value_gap), abs=1e-7)
    assert record.mean_loss == pytest.approx(float(proof.mean_loss), abs=1e-7)
    assert record.worst_loss == pytest.approx(float(proof.worst_loss), abs=1e-7)
    assert record.policy_error > 0


def test_sizes_are_counted_as_in_the_paper():
    from tessella.paper.published import MAIN_TABLE, PAPER_METHODS

    for label, family in (("INV-Mix", "inventory"), ("QUE-Mix", "queue")):
        for method in PAPER_METHODS:
            (spec,) = Study((label,), (method,), (800,), 1).specs
            expected = 800 if method == "local" else MAIN_TABLE[family, method].size
            assert run(spec).size == expected


def test_what_a_method_was_told_is_counted():
    def told(method: str) -> InformationBudget:
        return run(Study(("INV-Mix",), (method,), (100,), 1).specs[0]).information

    sweeps = get_instance(Study(("INV-Mix",), ("linear",)).specs[0]).solution.sweeps
    assert told("linear") == InformationBudget(labels=100, backups=sweeps * 825)
    assert told("margin") == InformationBudget(labels=100, margins=100, backups=sweeps * 825)
    assert told("exact_table") == InformationBudget(labels=825, backups=sweeps * 825)
    assert told("tabular_q") == told("fitted_q") == InformationBudget(simulator_calls=100)
    assert told("tabular_q_100") == InformationBudget(simulator_calls=10_000)
    assert told("value_iteration_4") == InformationBudget(backups=4 * 825)


def test_the_exact_table_loses_nothing():
    record = run(Study(("QUE-Burst",), ("exact_table",)).specs[0])
    assert (record.policy_error, record.value_gap, record.mean_loss, record.worst_loss) == (0,) * 4


@pytest.mark.parametrize("sweeps", [2, 4])
def test_truncated_value_iteration_is_greedy_after_that_many_sweeps(sweeps):
    mdp = benchmark("QUE-Mix")
    arrays = mdp.to_sparse()
    value = np.zeros(mdp.n_states)
    for _ in range(sweeps):
        q = np.stack(
            [
                r + mdp.discount * p @ value
                for r, p in zip(arrays.reward.T, arrays.transition, strict=True)
            ]
        )
        value = q.max(axis=0)
    record = run(Study(("QUE-Mix",), (f"value_iteration_{sweeps}",)).specs[0])
    np.testing.assert_array_equal(record.actions, q.argmax(axis=0))
    assert 0 < record.policy_error < 0.2


def test_a_run_of_another_edition_is_refused():
    spec = Study(("QUE-Lin",), ("linear",), (100,), 1).specs[0]
    with pytest.raises(
        StudyError, match=f"'linear' has edition {spec.edition} here; .* edition 99"
    ):
        run(replace(spec, edition=99))


def test_settings_decide_a_run():
    (spec,) = Study(("QUE-Lin",), ("value_iteration_2",)).specs
    four = replace(spec, settings={"sweeps": 4})
    (expected,) = Study(("QUE-Lin",), ("value_iteration_4",)).specs
    assert run(four).policy_error == run(expected).policy_error < run(spec).policy_error
    assert run(four).information == run(expected).information


def test_a_policy_of_many_actions_is_stored_as_it_was_judged(tmp_path):
    """Indices above 255 need more than a byte; here all orders worth giving are among them."""
    (plain,) = Study(("INV-Lin",), ("exact_table",)).specs
    model = {**plain.model, "max_stock": 12, "max_regime": 2, "orders": list(range(299, -1, -1))}
    spec = replace(plain, model=model)
    record = run(spec)
    assert (record.mean_loss, record.actions.min() > 255) == (0, True)
    with Store.writer(tmp_path) as store:
        store.add([record], {})
        (stored,) = store.records()
    path = tmp_path / "records.parquet"
    path.write_bytes(records_to_parquet([record]))
    (written,) = read_parquet(path)
    solution = get_instance(spec).solution
    for back in (stored, written):
        np.testing.assert_array_equal(back.actions, solution.policy.table.ravel())
        loss = certify(solution, back.actions.reshape(solution.value.shape)).mean_loss
        assert float(loss) == pytest.approx(0, abs=1e-9)
        assert back.row() == record.row()
