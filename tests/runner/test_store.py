"""The store keeps whole batches, one result for each spec, and one writer."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessella.errors import StudyError
from tessella.runner.record import (
    RECORD_COLUMNS,
    InformationBudget,
    Record,
    Spec,
    verify,
    with_checksum,
)
from tessella.runner.store import Store

HERE = {"python": "3", "versions": {"jax": "1"}}


def spec(seed: int = 0) -> Spec:
    return Spec("INV-Mix", "inventory", {"a": 1}, "linear", {}, 1, 100, seed)


def done(seed: int = 0, error: float = 0.25) -> Record:
    told = InformationBudget(labels=100, backups=368_000)
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
        assert store.failure_reasons() == {spec().key: "its worker died"}
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
        pytest.raises(StudyError, match=r"another study is writing to .* since"),
        Store.writer(tmp_path),
    ):
        pass
    with Store.writer(tmp_path) as store:
        assert store.failure_reasons() == {}


def test_a_reader_sees_what_a_writer_has_stored(tmp_path):
    with Store.writer(tmp_path) as store, Store.reader(tmp_path) as reader:
        store.add([done()], HERE)
        assert len(reader.failure_reasons()) == 1


def test_places_and_sessions_are_kept(tmp_path):
    with Store.writer(tmp_path) as store:
        session = store.begin_session("2 runs")
        store.add([done(0)], HERE)
        store.add([done(1), done(2)], {"python": "4"})
        store.end_session(session, 12.5, 3, "finished")
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
        pytest.raises(StudyError, match="has too little free space for this study"),
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


@pytest.mark.parametrize(
    ("highest", "dtype", "width"),
    [
        (0, "uint8", 1),
        (255, "uint8", 1),
        (256, "uint16", 2),
        (65_535, "uint16", 2),
        (65_536, "uint32", 4),
    ],
)
def test_actions_take_the_narrowest_type_that_holds_them(tmp_path, highest, dtype, width):
    actions = np.array([0, highest, highest // 2])
    record = replace(done(), actions=actions)
    assert (record.row()["dtype"], len(record.row()["actions"])) == (dtype, 3 * width)
    with Store.writer(tmp_path) as store:
        store.add([record], HERE)
        (back,) = store.records()
    np.testing.assert_array_equal(back.actions, actions)
    assert back.row() == record.row()


@pytest.mark.parametrize("actions", [np.array([0, -1]), np.array([0.5, 1.0])])
def test_a_record_holds_indices_only(actions):
    with pytest.raises(StudyError, match="actions must be indices"):
        replace(done(), actions=actions)


def test_minus_zero_and_whole_numbers_come_back_as_the_figures_they_were(tmp_path):
    record = replace(
        done(), policy_error=0, mean_loss=-0.0, worst_loss=np.float64(3), size=np.int8(7)
    )
    with Store.writer(tmp_path) as store:
        store.add([record], HERE)
        (back,) = store.records()
    assert back.row() == record.row()


def alter(folder: Path, column: str, value: Any) -> None:
    """Change one thing in a stored record, as an accident might."""
    with closing(sqlite3.connect(folder / "study.sqlite")) as connection, connection:
        connection.execute(f"UPDATE record SET {column} = ?", (value,))


ALTERED = {
    "problem": "INV-Lin",
    "family": "queue",
    "method": "local",
    "n": 200,
    "seed": 7,
    "policy_error": 0.0,
    "value_gap": None,
    "mean_loss": 2.5000000000000004,
    "worst_loss": "much",
    "size": 16,
    "labels": 101,
    "margins": 1,
    "backups": 0,
    "simulator_calls": 1,
    "seconds": 0.02,
    "dtype": "uint16",
    "actions": zlib.compress(b"\0\4\2"),
    "reason": "it failed",
    "spec": spec(1).json,
    "measures": '{"x":1.0}',
    "checksum": "0" * 64,
}


def test_every_column_of_a_record_is_under_its_checksum():
    assert {*ALTERED, "key"} == {*RECORD_COLUMNS, "checksum"}


@pytest.mark.parametrize("column", ALTERED)
def test_an_altered_record_is_named_and_refused(tmp_path, column):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    alter(tmp_path, column, ALTERED[column])
    message = rf"study.sqlite: the record {spec().key[:12]} \(.*\) was altered .* run it again"
    for opened in (Store.reader, Store.writer):
        with opened(tmp_path) as store, pytest.raises(StudyError, match=message):
            store.records()


def test_a_record_under_the_key_of_another_is_refused(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    alter(tmp_path, "key", spec(1).key)
    with Store.reader(tmp_path) as store, pytest.raises(StudyError, match="was altered"):
        store.records([spec(1).key])


@pytest.mark.parametrize("policy", [b"", b"not compressed", zlib.compress(b"\0\4\1")[:-3], "text"])
def test_a_policy_that_cannot_be_decoded_is_named_and_refused(tmp_path, policy):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    alter(tmp_path, "actions", policy)
    message = r"the policy of the record .* \(INV-Mix, linear, n=100, seed=0\) cannot be read"
    with Store.reader(tmp_path) as store, pytest.raises(StudyError, match=message):
        store.records()


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"problem": "x"}', "{}", "null", "\ud800"])
def test_a_spec_that_makes_no_sense_is_refused_even_under_its_own_checksum(text):
    key = hashlib.sha256(text.encode(errors="replace")).hexdigest()
    with pytest.raises(StudyError, match=f"the record {key[:12]} .* cannot be read"):
        verify(with_checksum({**done().row(), "spec": text, "key": key}))


@pytest.mark.parametrize("table", ["record", "context", "session"])
def test_a_store_that_lacks_a_column_is_refused(tmp_path, table):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    column = {"record": "mean_loss", "context": "content", "session": "description"}[table]
    with closing(sqlite3.connect(tmp_path / "study.sqlite")) as connection, connection:
        connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
    message = f"study.sqlite is not a complete store: its table {table} has no {column}"
    for opened in (Store.reader, Store.writer):
        with pytest.raises(StudyError, match=message), opened(tmp_path):
            pass


def test_a_context_that_makes_no_sense_is_refused(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    with closing(sqlite3.connect(tmp_path / "study.sqlite")) as connection, connection:
        connection.execute("UPDATE context SET content = '{'")
    with Store.reader(tmp_path) as store, pytest.raises(StudyError, match="cannot be read"):
        store.contexts()


def test_text_that_is_none_is_refused_by_reader_and_writer(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    with closing(sqlite3.connect(tmp_path / "study.sqlite")) as connection, connection:
        connection.execute("UPDATE record SET method = CAST(x'ff' AS TEXT)")
    for opened in (Store.reader, Store.writer):
        with opened(tmp_path) as store, pytest.raises(StudyError, match="cannot be read as"):
            store.records()


@contextmanager
def nothing_can_be_written(folder: Path) -> Iterator[None]:
    """In ``folder`` nothing can be created or changed, by this process either."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:  # to whom permissions mean nothing
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            (folder / "probe").touch()
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may look into; those of pytest are the owner's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_store_can_be_read_where_nothing_can_be_written(shared):
    with Store.writer(shared) as store:
        store.add([done()], HERE)
    (shared / "study.lock").unlink()
    before = {path.name: path.read_bytes() for path in shared.iterdir()}
    assert set(before) == {"study.sqlite"}
    with nothing_can_be_written(shared), Store.reader(shared) as store:
        (record,) = store.records()
        assert store.contexts() == [{**HERE, "records": 1}]
    assert record.row() == done().row()
    assert {path.name: path.read_bytes() for path in shared.iterdir()} == before


def test_a_store_with_an_unread_log_is_read_with_it_or_not_at_all(shared, tmp_path):
    """Without its log a store is older than it looks."""
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
        for name in ("study.sqlite", "study.sqlite-wal"):
            shutil.copy(tmp_path / name, shared)
    assert (shared / "study.sqlite-wal").stat().st_size
    with (
        nothing_can_be_written(shared),
        pytest.raises(StudyError, match="cannot be read as a study's store"),
        Store.reader(shared) as store,
    ):
        store.records()
    with Store.reader(shared) as store:
        assert len(store.records()) == 1


def test_reading_changes_no_store(tmp_path):
    with Store.writer(tmp_path) as store:
        store.add([done()], HERE)
    before = (tmp_path / "study.sqlite").read_bytes()
    with Store.reader(tmp_path) as store, pytest.raises(StudyError, match="readonly"):
        store.add([done(1)], HERE)
    assert (tmp_path / "study.sqlite").read_bytes() == before


def test_a_spec_under_the_key_of_another_is_refused_even_under_its_own_checksum():
    with pytest.raises(StudyError, match="cannot be read: its key is that of another spec"):
        verify(with_checksum({**done().row(), "key": spec(1).key}))
