"""JSON: what ``Rule.load`` and ``Policy.load`` read; the schema is docs/rule.schema.json."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.rules.export.comparisons import is_text_axis
from tessella.rules.export.export_context import ExportContext, InputRows
from tessella.rules.export.target import ExportTarget


class JsonFile(ExportTarget):
    """The rule itself, with what was proven."""

    name: ClassVar[str] = "JSON"
    suffix: ClassVar[str] = ".json"
    is_data: ClassVar[bool] = True

    def write(self, context: ExportContext) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rule.json")
            context.policy.save(path)
            return path.read_bytes()

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rule.json")
            path.write_bytes(content)
            loaded = type(context.policy).load(path)
        columns = []
        for axis, name in enumerate(loaded.grid.axes):
            values = np.asarray(rows[name])
            columns.append(
                loaded.grid.locate(axis, values) if is_text_axis(loaded.grid, name) else values
            )
        return loaded.act(np.stack(columns, axis=-1)).astype(np.int64)
