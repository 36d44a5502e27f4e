"""Records as a Parquet file, and back."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from tessella.errors import StudyError
from tessella.runner.record import Record, verify, with_checksum


def records_to_parquet(records: Iterable[Record]) -> bytes:
    """All records, failures too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    table = pa.Table.from_pylist([with_checksum(record.row()) for record in records])
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def read_parquet(path: Path) -> tuple[Record, ...]:
    """The records of a ``records.parquet``; one that was altered is named and refused."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return tuple(verify(row) for row in pq.read_table(path).to_pylist())
    except (OSError, StudyError, pa.ArrowException) as error:
        raise StudyError(f"{path} cannot be read as a study's records: {error}") from error
