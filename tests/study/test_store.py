"""The store keeps whole batches, one result for each spec, and one writer."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from tessella.study.folder import StudyError
from tessella.study.record import Record, Told
from tessella.study.spec import Spec
from tessella.study.store import Store

HERE = {"python": "3", "versions": {"jax": "1"}}


def spec(seed: int = 0) -> Spec:
    return Spec("INV-Mix", "inventory", {"a": 1}, "linear", {}, 1, 100, seed)


def done(seed: int = 0, error: float = 0.25) -> Record:
    told = Told(labels=100, backups=368_000)
    return Record(spec(seed), error, 1.5, 2.5, 9.0, 15, told, 0.01, np.array([0, 4, 1], np.uint8))


def test_a_record_comes_back_as_it_was(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    with Store.reader(tmp_path) as store:
        (record,) = store.records()
    assert record.row() == done().row()
    assert record.spec == spec()
    np.testing.assert_array_equal(record.actions, [0, 4, 1])


def test_a_failed_record_comes_back_with_its_reason_and_without_numbers(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([Record(spec(), reason="its worker died")], HERE)
        (record,) = store.records()
        assert store.states() == {spec().key: "its worker died"}
    assert record.failed
    assert np.isnan([record.policy_error, record.mean_loss, record.seconds]).all()
    assert record.actions.size == 0


def test_a_result_is_never_replaced_and_a_failure_is(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([Record(spec(), reason="bad luck")], HERE)
        store.add([done(error=0.5)], HERE)
        store.add([done(error=0.75)], HERE)
        store.add([Record(spec(), reason="too late")], HERE)
        (record,) = store.records()
    assert (record.policy_error, record.reason) == (0.5, "")


def test_a_batch_is_stored_whole_or_not_at_all(tmp_path):
    broken = replace(done(1), reason=None)  # the schema refuses it
    with Store.writer(tmp_path) as store:
        with pytest.raises(StudyError, match="cannot be written: NOT NULL"):
            store.add([done(0), broken], HERE)
        assert store.records() == []
        store.add([done(2)], HERE)
        assert len(store.records()) == 1


def test_only_asked_records_are_read(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done(0), done(1)], HERE)
        assert [r.spec.seed for r in store.records([spec(1).key])] == [1]


def test_there_is_one_writer_and_the_next_may_follow(tmp_path):
    with (
        Store.writer(tmp_path),
        pytest.raises(StudyError, match=r"another study is at work on .* since"),
        Store.writer(tmp_path),
    ):
        pass
    with Store.writer(tmp_path) as store:
        assert store.states() == {}


def test_a_reader_sees_what_a_writer_has_stored(tmp_path):
    with Store.writer(tmp_path) as store, Store.reader(tmp_path) as reader:
        store.add([done()], HERE)
        assert len(reader.states()) == 1


def test_places_and_sessions_are_kept(tmp_path):
    with Store.writer(tmp_path) as store:
        session = store.begin("2 runs")
        store.add([done(0)], HERE)
        store.add([done(1), done(2)], {"python": "4"})
        store.end(session, 12.5, 3, "finished")
        assert [c["records"] for c in store.contexts()] == [2, 1]
        (kept,) = store.sessions()
    assert (kept["seconds"], kept["stored"], kept["outcome"]) == (12.5, 3, "finished")


def test_a_full_disk_is_said_and_loses_nothing(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done(0)], HERE)
        store._db.execute("PRAGMA max_page_count = 1")
        many = [done(seed) for seed in range(1, 2000)]
        with pytest.raises(StudyError, match=r"study.sqlite cannot be written: .*full"):
            store.add(many, HERE)
        assert len(store.records()) == 1


@pytest.mark.parametrize("content", ["not a database, and long enough to be looked at" * 50, "7"])
def test_a_file_that_is_no_store_is_refused(tmp_path, content):
    if content == "7":
        connection = sqlite3.connect(tmp_path / "study.sqlite")
        connection.execute("PRAGMA user_version = 7")
        connection.execute("CREATE TABLE t (x)")
        connection.close()
    else:
        (tmp_path / "study.sqlite").write_text(content)
    message = "has format 7" if content == "7" else "cannot be opened as a study's store"
    with pytest.raises(StudyError, match=message), Store.writer(tmp_path):
        pass


def test_a_folder_without_a_study_cannot_be_read(tmp_path):
    with pytest.raises(StudyError, match="holds no study"), Store.reader(tmp_path):
        pass


def test_room_is_asked_for_before_work_and_given_back(tmp_path):
    with Store.writer(tmp_path, space=1_000_000):
        assert {p.name for p in tmp_path.iterdir()} >= {"study.sqlite", "study.lock"}
        assert not (tmp_path / "space.probe").exists()
    with (
        pytest.raises(StudyError, match="has no room for this study"),
        Store.writer(tmp_path, space=2**62),
    ):
        pass


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "study.sqlite").write_text("not a database, but long enough to look like one" * 9)
    with (
        pytest.raises(StudyError, match="cannot be read as a study's store"),
        Store.reader(tmp_path),
    ):
        pass


def test_contexts_count_the_records_that_are_asked_for(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done(0), done(1)], HERE)
        store.add([done(2)], {**HERE, "python": "4"})
        assert [c["records"] for c in store.contexts()] == [2, 1]
        assert store.contexts({spec(2).key}) == [{**HERE, "python": "4", "records": 1}]
