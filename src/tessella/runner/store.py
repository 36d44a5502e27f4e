"""The store: one SQLite file of records, keyed by the hash of their specs.

A batch of records is one transaction of a write-ahead log, so a process may be killed at any moment
and the file holds whole batches. There is one writer, which holds a lock on a file next to
the store; the lock ends with the process, however it ends. A stored result is never replaced, only
a stored failure. A reader never changes the file and needs no place to write. Each record has a
checksum: one that was altered is named and rejected.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from tessella.errors import StudyError
from tessella.runner.record import EMPTY_ROW, Record, describe_row, verify, with_checksum

STORE_FORMAT = 5
STORE_FILE = "study.sqlite"
LOCK_FILE = "study.lock"
PROBE_FILE = "space.probe"

_SQL_TYPES = {str: "TEXT NOT NULL", int: "INTEGER NOT NULL", float: "REAL", bytes: "BLOB NOT NULL"}
_RECORD_COLUMNS = {
    **{name: _SQL_TYPES[type(value)] for name, value in EMPTY_ROW.items()},
    "key": "TEXT PRIMARY KEY",
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
        """The store for writing, if no other process writes and ``space`` bytes are free."""
        folder = Path(folder)
        with lock_folder(folder):
            require_space(folder, space)
            with closing(_open_for_writing(folder / STORE_FILE)) as connection:
                yield cls(connection, folder / STORE_FILE)

    @classmethod
    @contextmanager
    def reader(cls, folder: str | Path) -> Iterator[Store]:
        """The store of ``folder`` for reading, also while a study runs."""
        path = Path(folder) / STORE_FILE
        if not os.path.exists(path):
            raise StudyError(f"{folder} holds no study")
        with closing(_open_read_only(path)) as connection:
            try:
                _check_format(connection, path, STORE_FORMAT)
                _check_columns(connection, path)
                yield cls(connection, path)
            except sqlite3.Error as error:
                raise _unreadable_error(path, error) from error

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
        """Open a session: a process that writes to this store."""
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
        advice = "delete its row from the store to run it again"
        try:
            return verify({**dict(row), "actions": zlib.decompress(row["actions"])})
        except (TypeError, zlib.error) as error:
            message = f"the policy of {describe_row(dict(row))} cannot be read"
            raise StudyError(f"{self.path}: {message}; {advice}") from error
        except StudyError as error:
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
    # Transactions are explicit: a batch is one, and reading opens none.
    uri = f"{path.absolute().as_uri()}?{query}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)


def _open_read_only(path: Path) -> sqlite3.Connection:
    """The store for reading, also where nothing can be written.

    SQLite reads the log of a writer through a shared index, which is a file as well. Where that
    cannot be created, a store without a log is opened as one that does not change.
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
    """The connection, after reading something from it."""
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
        try:
            _create_tables(connection, path)
        except (sqlite3.Error, StudyError):
            connection.close()
            raise
    except sqlite3.Error as error:
        raise StudyError(f"{path} cannot be opened as a study's store: {error}") from error
    return connection


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    _check_format(connection, path, 0, STORE_FORMAT)
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
            raise StudyError(f"{path} is not a complete store: its table {table} has no {subject}")


def _check_format(connection: sqlite3.Connection, path: Path, *allowed: int) -> None:
    """Require one of the allowed formats; an empty file has format 0."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in allowed:
        raise StudyError(
            f"{path} has format {version}; this version reads {STORE_FORMAT}; choose another folder"
        )


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder for one writer; the lock ends with the process, however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE).open("a+")
    except OSError as error:
        raise StudyError(f"{folder} cannot be written: {error.strerror}") from error
    with file:
        _acquire_lock(file, folder)
        yield


def _acquire_lock(file: IO[str], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise StudyError(
            f"another study is writing to {folder} ({file.read().strip()}); wait for it, stop it, "
            "or choose another folder"
        ) from None
    except OSError as error:
        raise StudyError(f"{folder} cannot be locked: {error.strerror}") from error
    with suppress(OSError):  # the name of the holder is only for people
        file.truncate(0)
        file.write(f"process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M}\n")
        file.flush()


def require_space(folder: Path, space: int) -> None:
    """Reject a folder without ``space`` free bytes, by allocating them for a moment."""
    probe = folder / PROBE_FILE
    try:
        with probe.open("wb") as file:
            if space and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, space)
            elif shutil.disk_usage(folder).free < space:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        requirement = f"{folder} has too little free space for this study"
        raise StudyError(f"{requirement} (about {space / 1e6:.0f} MB): {error.strerror}") from error
    finally:
        with suppress(OSError):
            probe.unlink()
