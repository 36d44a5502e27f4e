"""A policy as a CSV table: one row for each state, a column for each axis, one for the action.

Actions of several components have a column for each of them. A cell of text is the label or name
that it equals, or else the one that it equals without the spaces around it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import FileError, raise_for_first
from tessella.files import TEXT_MAX_BYTES, atomic_write, read_file_bytes, wrap_read_errors
from tessella.mdp.actions import actions_to_array, combine_columns, component_names

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.mdp.policy import Policy


@dataclass(frozen=True)
class PolicyTable:
    """The content of a file: names of columns, and rows of cells, each with its line."""

    file: str
    header: list[str]
    rows: list[tuple[int, list[str]]]

    def read_column(self, name: str, known: NDArray) -> NDArray:
        """(rows,) numbers, or text where the ``known`` values are."""
        column = self.header.index(name)
        cells = [cells[column] for _, cells in self.rows]
        if known.dtype.kind == "U":
            labels = set(known.tolist())
            return np.array([_match_label(cell, labels) for cell in cells], dtype=str)
        text = [cell.strip() for cell in cells]
        self.raise_for_rows(
            f"column {name!r} of {self.file} must hold numbers",
            [not _is_number(cell) for cell in text],
            lambda row: f"has {name}={text[row]!r}",
        )
        return np.array(text, dtype=float)

    def read_states(self, mdp: MDP) -> NDArray[np.int64]:
        """(rows,) flat state index of each row; every state has one row."""
        positions_by_axis = []
        for axis, (name, values) in enumerate(zip(mdp.grid.axes, mdp.grid.values, strict=True)):
            given = self.read_column(name, values)
            positions = mdp.grid.locate(axis, given)
            self.raise_for_rows(
                f"{self.file} must hold states of the grid",
                positions < 0,
                lambda row, name=name, given=given: f"has {name}={given[row]}",
            )
            positions_by_axis.append(positions)
        states = mdp.grid.find_states(positions_by_axis)
        self.raise_for_rows(
            f"{self.file} must hold states of the grid",
            states < 0,
            lambda row: f"has {', '.join(self.rows[row][1])}",
        )
        counts = np.bincount(states, minlength=mdp.n_states)
        for bad, fault in ((counts > 1, "occurs more than once"), (counts == 0, "is missing")):
            raise_for_first(
                f"{self.file} must hold each state once",
                bad,
                mdp.grid.describe,
                lambda _, fault=fault: fault,
                "states",
                error=FileError,
            )
        return states

    def raise_for_rows(self, requirement: str, bad: ArrayLike, value: Callable[[int], str]) -> None:
        """Raise for the first of the rows marked ``bad``, and count them."""
        raise_for_first(
            requirement,
            np.asarray(bad, dtype=bool),
            lambda row: f"line {self.rows[row][0]}",
            value,
            "rows",
            error=FileError,
        )


def read_table(mdp: MDP, path: Path) -> NDArray:
    """(grid) the action of each state according to the table, rows in any order.

    The action is in the column named as the model names it ("order"), or "action"; components
    in columns of their own names. Other columns are ignored; a name that occurs twice, or a row
    with cells that have no column, is rejected.
    """
    subject = "a policy table"
    with wrap_read_errors(path, subject):
        text = read_file_bytes(path, subject, TEXT_MAX_BYTES).decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""))
        names = {*mdp.grid.axes, *component_names(mdp.actions), mdp.action_name}
        header = [_match_label(name, names) for name in next(reader, [])]
        rows = [(reader.line_num, cells) for cells in reader if cells]
    action_columns = _find_columns(mdp, path.name, header)
    table = PolicyTable(path.name, header, rows)
    table.raise_for_rows(
        f"{path.name} must have {len(header)} cells in each row, as its header has",
        [len(cells) != len(header) for _, cells in rows],
        lambda row: f"has {len(rows[row][1])}",
    )
    states = table.read_states(mdp)
    known = actions_to_array(mdp.actions)
    if known.dtype.names:
        columns = {name: table.read_column(name, known[name]) for name in action_columns}
        answers = combine_columns(columns)
    else:
        answers = table.read_column(action_columns[0], known)
    by_state = np.empty(mdp.n_states, dtype=answers.dtype)
    by_state[states] = answers
    return by_state.reshape(mdp.grid.shape)


def _find_columns(mdp: MDP, file: str, header: list[str]) -> tuple[str, ...]:
    """The columns of the action; every axis has a column as well, and no name occurs twice."""
    for name in filter(None, header):
        if header.count(name) > 1:
            value = f"it has {name!r} {header.count(name)} times"
            raise FileError(f"{file} must have each column once", value=value)
    components = component_names(mdp.actions)
    for name in (*mdp.grid.axes, *components):
        _require_column(file, header, (name,))
    if components:
        return components
    allowed = [n for n in dict.fromkeys((mdp.action_name, "action")) if n not in mdp.grid.axes]
    actions = [name for name in allowed if name in header]
    if len(actions) > 1:
        value = f"it has {' and '.join(map(repr, actions))}"
        raise FileError(f"{file} must have one column for the action", value=value)
    _require_column(file, header, allowed)
    return (actions[0],)


def _require_column(file: str, header: list[str], names: Sequence[str]) -> None:
    """Reject a table that has none of these columns."""
    if not any(name in header for name in names):
        requirement = f"{file} must have a column {' or '.join(map(repr, names))}"
        raise FileError(requirement, value=f"its columns are {', '.join(header)}")


def _match_label(cell: str, known: Collection[str]) -> str:
    return cell if cell in known else cell.strip()


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def write_table(policy: Policy, path: Path) -> None:
    """A header with the axes and the action, and a row for each state in flat order."""
    grid = policy.grid
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        components = component_names(policy.actions)
        writer.writerow([*grid.axes, *(components or [policy.action_name])])
        names = actions_to_array(policy.actions)
        for states, actions in policy.iter_chunks():
            columns = [values.tolist() for values in grid.coordinates(states).values()]
            chosen_actions = names[actions]
            columns += [chosen_actions[name].tolist() for name in components] or [
                chosen_actions.tolist()
            ]
            writer.writerows(zip(*columns, strict=True))
