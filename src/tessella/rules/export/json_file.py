"""JSON: what ``Rule.load`` and ``Policy.load`` read; the schema is docs/rule.schema.json."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.rules.export.draft import Draft, Rows
from tessella.rules.export.lowered import is_text
from tessella.rules.export.target import Target


class JsonFile(Target):
    """The rule itself, with what was proven."""

    name: ClassVar[str] = "JSON"
    suffix: ClassVar[str] = ".json"
    data: ClassVar[bool] = True

    def write(self, draft: Draft) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rule.json")
            draft.policy.save(path)
            return path.read_bytes()

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rule.json")
            path.write_bytes(content)
            read = type(draft.policy).load(path)
        columns = []
        for axis, name in enumerate(read.grid.axes):
            values = np.asarray(rows[name])
            columns.append(read.grid.locate(axis, values) if is_text(read.grid, name) else values)
        return read.act(np.stack(columns, axis=-1)).astype(np.int64)
