"""SQL: a CASE expression over columns that are called as the axes are.

    SELECT t.*, <content of the file> FROM t

One expression for each component of the action; NULL for what is rejected. Conditions are not
nested, since databases limit how deeply expressions nest. It uses standard SQL only.

A number is what equals itself plus 0: text and blobs do not, in a database that lets a column of
numbers hold them (SQLite). The sign before a column frees it of the type that it was declared with.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.rule_tree import is_text_axis
from tessella.rules.comparisons import (
    Condition,
    SumRange,
    get_axis_ends,
    get_single_axis,
    iterate_clauses,
    list_finite_ends,
)
from tessella.rules.export.export_context import (
    ExportContext,
    ExportFormat,
    InputRows,
    format_number,
    make_unique,
    require_no_nul,
    to_comment_text,
)


class Sql(ExportFormat):
    """A CASE expression."""

    name: ClassVar[str] = "SQL"
    suffix: ClassVar[str] = ".sql"

    def write(self, context: ExportContext) -> bytes:
        lines = [f"-- {to_comment_text(line)}" for line in context.header_lines]
        columns = list(_name_columns(context).items())
        lines += [
            f"-- column {to_comment_text(c)} is the axis {to_comment_text(a)}"
            for a, c in columns
            if a != c
        ]
        cases = [_format_case(context, name) for name in context.action_columns]
        return ("\n".join([*lines, ",\n".join(cases)]) + "\n").encode()

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """Ask SQLite about a table of the rows."""
        columns = [quote_name(name) for name in _name_columns(context).values()]
        database = sqlite3.connect(":memory:")
        try:
            database.execute(f"CREATE TABLE states ({', '.join(columns)})")
            states = zip(*(rows[axis] for axis in context.grid.axes), strict=True)
            placeholders = ", ".join("?" * len(columns))
            database.executemany(f"INSERT INTO states VALUES ({placeholders})", states)
            results = database.execute(f"SELECT\n{content.decode()} FROM states").fetchall()
        finally:
            database.close()
        return context.find_actions(results)


def _name_columns(context: ExportContext) -> dict[str, str]:
    """Axis to column: the same name, unless two differ in nothing but case."""
    used: set[str] = set()
    return {axis: make_unique(axis, used) for axis in context.grid.axes}


def _format_case(context: ExportContext, name: str) -> str:
    columns = {a: quote_name(c) for a, c in _name_columns(context).items()}
    values = context.action_columns[name]
    lines = ["CASE", f"  WHEN {' OR '.join(_iterate_refusal_tests(context, columns))} THEN NULL"]
    for clause in iterate_clauses(context.grid, context.root):
        test = " AND ".join(_format_condition(context, c, columns) for c in clause.conditions)
        head = f"WHEN {test} THEN" if test else "ELSE"
        lines.append(f"  {head} {format_sql_value(values[clause.action])}")
        if not test:
            break
    return "\n".join([*lines, f"END AS {quote_name(name)}"])


def _iterate_refusal_tests(context: ExportContext, columns: dict[str, str]) -> Iterator[str]:
    for axis, column in columns.items():
        yield f"{column} IS NULL"
        if is_text_axis(context.grid, axis):
            yield f"{column} NOT IN ({', '.join(map(format_sql_value, context.axis_labels(axis)))})"
            continue
        yield f"+{column} <> {column} + 0"
        if context.off_grid == "refuse":
            yield f"{column} NOT IN ({', '.join(map(format_number, context.axis_values(axis)))})"


def _format_condition(context: ExportContext, condition: Condition, columns: dict[str, str]) -> str:
    if not isinstance(condition, SumRange):
        labels = ", ".join(map(format_sql_value, condition.labels))
        return f"{columns[condition.axis]} IN ({labels})"
    operand = _format_sum(context, condition, columns)
    ends = list_finite_ends(condition)
    return " AND ".join(f"{operand} {comparison} {format_number(end)}" for comparison, end in ends)


def _format_sum(context: ExportContext, condition: SumRange, columns: dict[str, str]) -> str:
    """A column alone needs no clamping, since its cuts lie within the axis; a sum does."""
    single = get_single_axis(condition.weights)
    if single is not None:
        return columns[single]
    parts = []
    for axis, weight in condition.weights:
        column = columns[axis]
        low, high = map(format_number, get_axis_ends(context.grid, axis))
        if context.off_grid == "clamp":
            cases = f"WHEN {column} < {low} THEN {low} WHEN {column} > {high} THEN {high}"
            column = f"CASE {cases} ELSE {column} END"
        parts.append(f"({format_number(weight)}) * {column}" if weight != 1.0 else column)
    return f"({' + '.join(parts)})"


def quote_name(name: str) -> str:
    """A name as SQL quotes it."""
    return '"' + require_no_nul(name, "SQL").replace('"', '""') + '"'


def format_sql_value(x: Any) -> str:
    """A text or a number as SQL reads it."""
    if isinstance(x, str):
        return "'" + require_no_nul(x, "SQL").replace("'", "''") + "'"
    return str(x) if isinstance(x, int) and not isinstance(x, bool) else format_number(x)
