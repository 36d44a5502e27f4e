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
        order: what lines are sorted by; None for the order in which they came.
        head: what stands above the table.
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
        """Write one line, told on the screen too."""
        rows = self._kept()
        rows[tuple(row[: self.keys])] = row
        told = list(rows.values())
        if self.order is not None:
            told.sort(key=self.order)
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.columns, rule, *told)]
        above = [self.head] if self.head else []
        self.path.write_text("\n".join(above + lines) + "\n", encoding="utf-8")
        print(*row, sep="  ", flush=True)

    def _kept(self) -> dict[tuple[str, ...], list[str]]:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = [line for line in text.splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        known = bool(rows) and rows[0] == list(self.columns)
        return {tuple(row[: self.keys]): row for row in rows[2:]} if known else {}
