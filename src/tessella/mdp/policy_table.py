"""A policy as a CSV table: one row for each state, a column for each axis, one for the action.

Actions of several components have a column for each of them. A cell of text is the label or name
that it equals, else the one that it equals without spaces around it, as people type them.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.files import TEXT_MAX_BYTES, atomic_write, read_errors, read_whole
from tessella.mdp.actions import as_records, components, values_of

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.mdp.policy import Policy


@dataclass(frozen=True)
class PolicyTableRow:
    """One row of the file: its line, and its cells by the names of their columns."""

    line: int
    cells: dict[str, str]


PolicyTableRows = list[PolicyTableRow]


def read_table(mdp: MDP, path: Path) -> NDArray:
    """(grid) what the table says to do in each state, rows in any order.

    The action stands in the column named as the model names it ("order"), or "action"; components
    in columns of their own names. Other columns are passed over; a name that stands twice, or a row
    with cells that have no column, is refused.
    """
    subject = "a policy table"
    with read_errors(path, subject):
        text = read_whole(path, subject, TEXT_MAX_BYTES).decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""))
        names = {*mdp.grid.axes, *components(mdp.actions), mdp.action_name}
        header = [_meant(name, names) for name in next(reader, [])]
        lines = [(reader.line_num, cells) for cells in reader if cells]
    columns = _action_columns(mdp, path, header)
    rows = _rows(path, header, lines)
    where = _states(mdp, path, rows)
    _check_complete(mdp, path, where)
    if components(mdp.actions):
        known = values_of(mdp.actions)
        answers = as_records({c: _column(path, rows, c, known[c]) for c in columns})
    else:
        answers = _column(path, rows, columns[0], np.asarray(mdp.actions))
    table = np.empty(mdp.n_states, dtype=answers.dtype)
    table[where] = answers
    return table.reshape(mdp.grid.shape)


def _action_columns(mdp: MDP, path: Path, header: list[str]) -> tuple[str, ...]:
    """Their names; every axis has a column as well, and no name stands twice."""
    twice = [name for name, times in Counter(filter(None, header)).items() if times > 1]
    if twice:
        requirement = f"{path.name} must have each column once"
        raise FileError(requirement, value=f"it has {twice[0]!r} {header.count(twice[0])} times")
    columns = {name: repr(name) for name in mdp.grid.axes}
    parts = components(mdp.actions)
    if parts:
        _require_columns(path, header, columns | {name: repr(name) for name in parts})
        return parts
    named = [n for n in dict.fromkeys((mdp.action_name, "action")) if n not in mdp.grid.axes]
    actions = [name for name in named if name in header]
    if len(actions) > 1:
        requirement = f"{path.name} must have one column for the action"
        raise FileError(requirement, value=f"it has {' and '.join(map(repr, actions))}")
    columns[actions[0] if actions else ""] = " or ".join(map(repr, named))
    _require_columns(path, header, columns)
    return (actions[0],)


def _require_columns(path: Path, header: list[str], columns: dict[str, str]) -> None:
    """Refuse a table without one of these columns, which map to how they are called."""
    for name, called in columns.items():
        if not name or name not in header:
            requirement = f"{path.name} must have a column {called}"
            raise FileError(requirement, value=f"its columns are {', '.join(header)}")


def _rows(path: Path, header: list[str], lines: list[tuple[int, list[str]]]) -> PolicyTableRows:
    bad = [(line, cells) for line, cells in lines if len(cells) != len(header)]
    if bad:
        requirement = f"{path.name} must have {len(header)} cells in each row, as its header has"
        line, cells = bad[0]
        raise FileError(
            requirement,
            location=f"line {line}",
            value=f"has {len(cells)}",
            count=len(bad),
            total=len(lines),
            noun="rows",
        )
    return [PolicyTableRow(line, dict(zip(header, cells, strict=True))) for line, cells in lines]


def _states(mdp: MDP, path: Path, rows: PolicyTableRows) -> NDArray[np.int64]:
    """(rows,) flat state index of each row."""
    places = []
    for axis, (name, values) in enumerate(zip(mdp.grid.axes, mdp.grid.values, strict=True)):
        given = _column(path, rows, name, values)
        at = mdp.grid.locate(axis, given)
        bad = np.flatnonzero(at < 0)
        if bad.size:
            requirement = f"{path.name} must hold states of the grid"
            value = f"has {name}={given[bad[0]]}"
            raise FileError(
                requirement,
                location=f"line {rows[bad[0]].line}",
                value=value,
                count=bad.size,
                total=len(rows),
                noun="rows",
            )
        places.append(at)
    return np.asarray(np.ravel_multi_index(tuple(places), mdp.grid.shape))


def _meant(cell: str, known: Collection[str]) -> str:
    return cell if cell in known else cell.strip()


def _column(path: Path, rows: PolicyTableRows, name: str, known: NDArray) -> NDArray:
    """(rows,) numbers, or text where the ``known`` values are."""
    if known.dtype.kind == "U":
        labels = set(known.tolist())
        return np.array([_meant(row.cells[name], labels) for row in rows], dtype=str)
    text = [row.cells[name].strip() for row in rows]
    bad = [i for i, item in enumerate(text) if not _is_number(item)]
    if bad:
        value = f"has {name}={text[bad[0]]!r}"
        requirement = f"column {name!r} of {path.name} must hold numbers"
        raise FileError(
            requirement,
            location=f"line {rows[bad[0]].line}",
            value=value,
            count=len(bad),
            total=len(rows),
            noun="rows",
        )
    return np.array(text, dtype=float)


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _check_complete(mdp: MDP, path: Path, where: NDArray[np.int64]) -> None:
    seen = np.bincount(where, minlength=mdp.n_states)
    for bad, subject in (
        (np.flatnonzero(seen > 1), "stands more than once"),
        (np.flatnonzero(seen == 0), "is missing"),
    ):
        if bad.size:
            requirement = f"{path.name} must hold each state once"
            location = mdp.grid.describe(int(bad[0]))
            raise FileError(
                requirement,
                location=location,
                value=subject,
                count=bad.size,
                total=mdp.n_states,
                noun="states",
            )


def write_table(policy: Policy, path: Path) -> None:
    """A header with the axes and the action, and a row for each state in flat order."""
    grid = policy.grid
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        parts = components(policy.actions)
        writer.writerow([*grid.axes, *(parts or [policy.action_name])])
        names = values_of(policy.actions)
        for states, actions in policy.iter_chunks():
            columns = [values.tolist() for values in grid.coordinates(states).values()]
            taken = names[actions]
            columns += [taken[name].tolist() for name in parts] or [taken.tolist()]
            writer.writerows(zip(*columns, strict=True))
