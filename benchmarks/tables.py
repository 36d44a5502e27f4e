"""Tables under docs/generated: a run replaces the lines that it measures, and keeps the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "generated"


@dataclass(frozen=True)
class Table:
    """A file of one table.

    Attributes:
        name: of the file, without ending.
        columns: titles.
        keys: how many cells name a line.
        order: the key that sorts lines; None keeps their order.
        head: the text above the table.
    """

    name: str
    columns: Sequence[str]
    keys: int = 1
    order: Callable[[list[str]], Any] | None = None
    head: str = ""

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.md"

    def put(self, row: list[str]) -> None:
        """Write one line, and print it."""
        rows = self._read_rows()
        rows[tuple(row[: self.keys])] = row
        sorted_rows = list(rows.values())
        if self.order is not None:
            sorted_rows.sort(key=self.order)
        alignment = ["---", *["---:"] * (len(self.columns) - 1)]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.columns, alignment, *sorted_rows)]
        introduction = [self.head] if self.head else []
        self.path.write_text("\n".join(introduction + lines) + "\n", encoding="utf-8")
        print(*row, sep="  ", flush=True)

    def _read_rows(self) -> dict[tuple[str, ...], list[str]]:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = [line for line in text.splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        has_same_columns = bool(rows) and rows[0] == list(self.columns)
        return {tuple(row[: self.keys]): row for row in rows[2:]} if has_same_columns else {}
