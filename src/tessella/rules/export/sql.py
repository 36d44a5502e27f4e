"""SQL: a CASE expression over columns that are called as the axes are.

    SELECT t.*, <content of the file> FROM t

One expression for each component of the action; NULL for what is refused. All conditions stand
side by side, since databases limit how deeply expressions nest. Nothing in it is of one database.

A number is what equals itself plus 0: text and blobs do not, in a database that lets a column of
numbers hold them (SQLite). The sign before a column frees it of the type that it was declared with.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.rules.export.c99 import number
from tessella.rules.export.draft import Draft, Rows
from tessella.rules.export.lowered import Condition, Range, alone, is_text, span, ways
from tessella.rules.export.names import plain, refuse_nul
from tessella.rules.export.target import Target


class Sql(Target):
    """A CASE expression."""

    name: ClassVar[str] = "SQL"
    suffix: ClassVar[str] = ".sql"

    def write(self, draft: Draft) -> bytes:
        lines = [f"-- {plain(line)}" for line in draft.about]
        columns = list(_columns(draft).items())
        lines += [f"-- column {plain(c)} is the axis {plain(a)}" for a, c in columns if a != c]
        cases = [_case(draft, name) for name in draft.columns]
        return ("\n".join([*lines, ",\n".join(cases)]) + "\n").encode()

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        """Ask SQLite about a table of the rows."""
        columns = [quoted(name) for name in _columns(draft).values()]
        database = sqlite3.connect(":memory:")
        try:
            database.execute(f"CREATE TABLE states ({', '.join(columns)})")
            listed = zip(*(rows[axis] for axis in draft.grid.axes), strict=True)
            marks = ", ".join("?" * len(columns))
            database.executemany(f"INSERT INTO states VALUES ({marks})", listed)
            found = database.execute(f"SELECT\n{content.decode()} FROM states").fetchall()
        finally:
            database.close()
        return draft.indices(found)


def _columns(draft: Draft) -> dict[str, str]:
    """Axis to column: the same name, unless two differ in nothing but case."""
    used: set[str] = set()
    found = {}
    for axis in draft.grid.axes:
        column = axis
        while column.casefold() in used:
            column += "_"
        used.add(column.casefold())
        found[axis] = column
    return found


def _case(draft: Draft, name: str) -> str:
    columns, values = {a: quoted(c) for a, c in _columns(draft).items()}, draft.columns[name]
    lines = ["CASE", f"  WHEN {' OR '.join(_refusals(draft, columns))} THEN NULL"]
    for way in ways(draft.grid, draft.root):
        met = " AND ".join(_condition(draft, c, columns) for c in way.conditions)
        lines.append(f"  {f'WHEN {met} THEN' if met else 'ELSE'} {value(values[way.action])}")
        if not met:
            break
    return "\n".join([*lines, f"END AS {quoted(name)}"])


def _refusals(draft: Draft, columns: dict[str, str]) -> Iterator[str]:
    for axis, column in columns.items():
        yield f"{column} IS NULL"
        if is_text(draft.grid, axis):
            yield f"{column} NOT IN ({', '.join(map(value, draft.labels(axis)))})"
            continue
        yield f"+{column} <> {column} + 0"
        if draft.off_grid == "refuse":
            yield f"{column} NOT IN ({', '.join(map(number, draft.values(axis)))})"


def _condition(draft: Draft, condition: Condition, columns: dict[str, str]) -> str:
    if not isinstance(condition, Range):
        return f"{columns[condition.axis]} IN ({', '.join(map(value, condition.labels))})"
    of = _sum(draft, condition, columns)
    ends = [] if math.isinf(condition.low) else [f"{of} > {number(condition.low)}"]
    ends += [] if math.isinf(condition.high) else [f"{of} <= {number(condition.high)}"]
    return " AND ".join(ends)


def _sum(draft: Draft, condition: Range, columns: dict[str, str]) -> str:
    """A column alone needs no clamping, since its cuts lie within the axis; a sum does."""
    single = alone(condition.weights)
    if single is not None:
        return columns[single]
    parts = []
    for axis, weight in condition.weights:
        column, (low, high) = columns[axis], map(number, span(draft.grid, axis))
        if draft.off_grid == "clamp":
            inside = f"WHEN {column} < {low} THEN {low} WHEN {column} > {high} THEN {high}"
            column = f"CASE {inside} ELSE {column} END"
        parts.append(f"({number(weight)}) * {column}" if weight != 1.0 else column)
    return f"({' + '.join(parts)})"


def quoted(name: str) -> str:
    """A name as SQL quotes it."""
    return '"' + refuse_nul(name, "SQL").replace('"', '""') + '"'


def value(x: Any) -> str:
    """A text or a number as SQL reads it."""
    if isinstance(x, str):
        return "'" + refuse_nul(x, "SQL").replace("'", "''") + "'"
    return str(x) if isinstance(x, int) and not isinstance(x, bool) else number(x)
