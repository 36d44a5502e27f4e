"""The store: one SQLite file of records, keyed by the hash of their specs.

A batch of records is one transaction of a write-ahead log, so a process may be killed at any moment
and the file holds whole batches. There is one writer, which holds a lock on a file beside the
store; the lock goes with the process, however it ends. A stored result is never replaced, only a
stored failure. A reader never changes the file, and needs no place to write. Each record has a
checksum: one that was altered is named and refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tessella.errors import StudyError
from tessella.runner.folder import lock_folder, require_space
from tessella.runner.record import Record, describe_row, verify, with_checksum

STORE_FORMAT = 5
STORE_FILE = "study.sqlite"

_RECORD_COLUMNS = {
    "key": "TEXT PRIMARY KEY",
    "problem": "TEXT NOT NULL",
    "family": "TEXT NOT NULL",
    "method": "TEXT NOT NULL",
    "n": "INTEGER NOT NULL",
    "seed": "INTEGER NOT NULL",
    "policy_error": "REAL",
    "value_gap": "REAL",
    "mean_loss": "REAL",
    "worst_loss": "REAL",
    "size": "INTEGER NOT NULL",
    "labels": "INTEGER NOT NULL",
    "margins": "INTEGER NOT NULL",
    "backups": "INTEGER NOT NULL",
    "simulator_calls": "INTEGER NOT NULL",
    "seconds": "REAL",
    "dtype": "TEXT NOT NULL",
    "actions": "BLOB NOT NULL",
    "reason": "TEXT NOT NULL",
    "spec": "TEXT NOT NULL",
    "measures": "TEXT NOT NULL",
    "checksum": "TEXT NOT NULL",
    "context": "INTEGER NOT NULL REFERENCES context (id)",
    "stored": "TEXT NOT NULL",
}
_TABLES = {
    "context": {"id": "INTEGER PRIMARY KEY", "content": "TEXT NOT NULL UNIQUE"},
    "session": {
        "id": "INTEGER PRIMARY KEY",
        "started": "TEXT NOT NULL",
        "description": "TEXT NOT NULL",
        "seconds": "REAL",
        "stored": "INTEGER",
        "outcome": "TEXT",
    },
    "record": _RECORD_COLUMNS,
}
_SCHEMA = "".join(
    f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(f'{c} {kind}' for c, kind in of.items())});"
    for name, of in _TABLES.items()
)
_INSERT = f"""
INSERT INTO record ({", ".join(_RECORD_COLUMNS)})
VALUES ({", ".join(f":{c}" for c in _RECORD_COLUMNS)})
ON CONFLICT (key) DO UPDATE SET {", ".join(f"{c} = excluded.{c}" for c in _RECORD_COLUMNS)}
WHERE record.reason <> ''
"""


class Store:
    """The records of a study folder; open it with ``Store.writer`` or ``Store.reader``."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self.path = path
        self._db.row_factory = sqlite3.Row

    @classmethod
    @contextmanager
    def writer(cls, folder: str | Path, *, space: int = 0) -> Iterator[Store]:
        """The store of ``folder`` for writing, when nobody else writes and ``space`` bytes fit."""
        folder = Path(folder)
        with lock_folder(folder):
            require_space(folder, space)
            connection = _open_for_writing(folder / STORE_FILE)
            try:
                yield cls(connection, folder / STORE_FILE)
            finally:
                connection.close()

    @classmethod
    @contextmanager
    def reader(cls, folder: str | Path) -> Iterator[Store]:
        """The store of ``folder`` for reading, also while a study runs."""
        path = Path(folder) / STORE_FILE
        if not os.path.exists(path):
            raise StudyError(f"{folder} holds no study")
        connection = _open_read_only(path)
        try:
            if _read_format(connection) != STORE_FORMAT:
                raise StudyError(f"{path} is not a study's store of format {STORE_FORMAT}")
            _check_columns(connection, path)
            yield cls(connection, path)
        except sqlite3.Error as error:
            raise _unreadable_error(path, error) from error
        finally:
            connection.close()

    def add(self, records: Iterable[Record], context: dict[str, Any]) -> None:
        """Store a batch: all of it or nothing."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._write_transaction():
            context_id = self._context_id(context)
            for record in records:
                row = {**with_checksum(record.row()), "context": context_id, "stored": now}
                self._db.execute(_INSERT, {**row, "actions": zlib.compress(row["actions"])})

    def failure_reasons(self) -> dict[str, str]:
        """Key of every stored record, and the reason of its failure (empty: it is done)."""
        return {row["key"]: row["reason"] for row in self._rows("SELECT key, reason FROM record")}

    def records(self, keys: Iterable[str] | None = None) -> list[Record]:
        """Stored records, in the order of problem, method, n and seed."""
        rows = self._rows("SELECT * FROM record ORDER BY problem, method, n, seed, key")
        wanted = None if keys is None else set(keys)
        return [self._read_record(row) for row in rows if wanted is None or row["key"] in wanted]

    def contexts(self, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Where records were computed: versions and machine, most used first."""
        wanted = None if keys is None else set(keys)
        rows = self._rows(
            "SELECT key, content FROM record JOIN context ON record.context = context.id"
        )
        counts = Counter(row["content"] for row in rows if wanted is None or row["key"] in wanted)
        try:
            return [{**json.loads(content), "records": n} for content, n in counts.most_common()]
        except (TypeError, ValueError) as error:
            raise _unreadable_error(self.path, error) from error

    def begin_session(self, description: str) -> int:
        """Open a session: a process at work on this store."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._write_transaction():
            row = self._db.execute(
                "INSERT INTO session (started, description) VALUES (?, ?)", (now, description)
            )
        return int(row.lastrowid or 0)

    def end_session(self, session: int, seconds: float, stored: int, ending: str) -> None:
        with self._write_transaction():
            self._db.execute(
                "UPDATE session SET seconds = ?, stored = ?, outcome = ? WHERE id = ?",
                (seconds, stored, ending, session),
            )

    def sessions(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._rows("SELECT * FROM session ORDER BY id")]

    def _rows(self, query: str) -> list[sqlite3.Row]:
        try:
            return self._db.execute(query).fetchall()
        except sqlite3.Error as error:
            raise _unreadable_error(self.path, error) from error

    def _read_record(self, row: sqlite3.Row) -> Record:
        try:
            try:
                actions = zlib.decompress(row["actions"])
            except (TypeError, zlib.error) as error:
                raise StudyError(
                    f"the policy of {describe_row(dict(row))} cannot be read"
                ) from error
            return verify({**dict(row), "actions": actions})
        except StudyError as error:
            advice = "take its row out of the store to have it run again"
            raise StudyError(f"{self.path}: {error}; {advice}") from error

    def _context_id(self, context: dict[str, Any]) -> int:
        content = json.dumps(context, sort_keys=True)
        self._db.execute("INSERT OR IGNORE INTO context (content) VALUES (?)", (content,))
        cursor = self._db.execute("SELECT id FROM context WHERE content = ?", (content,))
        return int(cursor.fetchone()[0])

    @contextmanager
    def _write_transaction(self) -> Iterator[None]:
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            raise StudyError(f"{self.path} cannot be written: {error}") from error


def _open_connection(path: Path, query: str) -> sqlite3.Connection:
    # Transactions are opened by hand: a batch is one, and reading opens none.
    uri = f"{path.absolute().as_uri()}?{query}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)


def _open_read_only(path: Path) -> sqlite3.Connection:
    """The store for reading, also where nothing can be written.

    The log that a writer may keep beside the store is read through a shared index, a file as well.
    Where that cannot be made, a store without a log can be taken as one that nobody changes.
    """
    try:
        return _require_readable(_open_connection(path, "mode=ro"))
    except sqlite3.OperationalError as error:
        log = path.with_name(f"{path.name}-wal")
        if not os.path.exists(log) or not log.stat().st_size:
            with suppress(sqlite3.Error):
                return _require_readable(_open_connection(path, "immutable=1"))
        raise _unreadable_error(path, error) from error
    except sqlite3.Error as error:
        raise _unreadable_error(path, error) from error


def _require_readable(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, if something can be read over it."""
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _unreadable_error(path: Path, error: Exception) -> StudyError:
    return StudyError(f"{path} cannot be read as a study's store: {error}")


def _open_for_writing(path: Path) -> sqlite3.Connection:
    try:
        connection = _open_connection(path, "mode=rwc")
    except sqlite3.Error as error:
        raise StudyError(f"{path} cannot be opened: {error}") from error
    try:
        _create_tables(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise StudyError(f"{path} cannot be opened as a study's store: {error}") from error
    except StudyError:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    if (version := _read_format(connection)) not in (0, STORE_FORMAT):
        raise StudyError(
            f"{path} has format {version}; this version reads {STORE_FORMAT}; choose another folder"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {STORE_FORMAT}; COMMIT;")
    _check_columns(connection, path)


def _check_columns(connection: sqlite3.Connection, path: Path) -> None:
    for table, columns in _TABLES.items():
        cursor = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        missing = set(columns) - {row[0] for row in cursor}
        if missing:
            subject = ", ".join(sorted(missing))
            raise StudyError(f"{path} is no whole store: its table {table} has no {subject}")


def _read_format(connection: sqlite3.Connection) -> int:
    """0 for a file without content."""
    return connection.execute("PRAGMA user_version").fetchone()[0]
