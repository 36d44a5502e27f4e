"""dtControl's CSV, both ways.

    #NON-PERMISSIVE           or #PERMISSIVE, where a state may stand in several rows
    #BEGIN 2 1                columns of the state, columns of the action
    0,3,8

dtControl knows numbers alone: a text axis is written as the places of its labels, a text action as
its index. Names stand in the file beside it, ``NAME_config.json``, which dtControl reads as well.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.files import LARGEST_TEXT_BYTES, read_whole, reading
from tessella.grid import StateGrid
from tessella.mdp.actions import components
from tessella.mdp.policy import Policy
from tessella.rules.export.draft import OTHER, REFUSED, Draft, Rows
from tessella.rules.export.lowered import is_text
from tessella.rules.export.target import Target


class DtControl(Target):
    """A table for dtControl."""

    name: ClassVar[str] = "dtControl's CSV"
    suffix: ClassVar[str] = ".dtcontrol.csv"
    data: ClassVar[bool] = True

    def write(self, draft: Draft) -> bytes:
        text = io.StringIO(newline="")
        head = f"#NON-PERMISSIVE\n#BEGIN {draft.grid.ndim} {len(draft.columns)}\n"
        actions = [_numbers(values) for values in draft.columns.values()]
        lines = csv.writer(text, lineterminator="\n")
        for states, taken in draft.policy.by_slabs():
            points = draft.grid.points_of(states).T.tolist()
            chosen = [[values[a] for a in taken] for values in actions]
            columns = [*([_short(x) for x in column] for column in points), *chosen]
            lines.writerows(zip(*columns, strict=True))
        return (head + text.getvalue()).encode("ascii")

    def beside(self, draft: Draft) -> dict[str, bytes]:
        grid = draft.grid
        texts = [i for i, name in enumerate(grid.axes) if is_text(grid, name)]
        config: dict[str, Any] = {"x_column_names": list(grid.axes)}
        config["x_column_types"] = {
            "numeric": [i for i in range(grid.ndim) if i not in texts],
            "categorical": texts,
        }
        if texts:
            config["x_category_names"] = {
                grid.axes[i]: list(draft.labels(grid.axes[i])) for i in texts
            }
        config["about"] = list(draft.about)
        return {".dtcontrol_config.json": (json.dumps(config, indent=1) + "\n").encode()}

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        table = _read(content.decode("ascii"), draft.grid, draft.policy.actions, "the file")
        where = []
        for axis, name in enumerate(draft.grid.axes):
            where.append(draft.grid.locate(axis, np.asarray(rows[name])))
        inside = np.all([at >= 0 for at in where], axis=0)
        flat = np.ravel_multi_index([np.maximum(at, 0) for at in where], draft.grid.shape)
        return np.where(inside, table[flat], REFUSED)


def read_dtcontrol(path: str | Path, model: Any) -> Policy:
    """The policy in a file of dtControl's format, for a model, or for a policy's grid and actions.

    Every state of the grid must stand in it, with one action.
    """
    with reading(path, "a controller"):
        text = read_whole(path, "a controller", LARGEST_TEXT_BYTES).decode("utf-8")
        table = _read(text, model.grid, tuple(model.actions), Path(path).name)
    about = {"action_name": model.action_name, "name": Path(path).name}
    return Policy.of(model.grid, model.actions, table, **about)


def _numbers(values: Sequence) -> list:
    """What stands for the values of a column: texts by their place among the distinct ones."""
    if not isinstance(values[0], str):
        return [*values]
    places = {text: i for i, text in enumerate(dict.fromkeys(values))}
    return [places[text] for text in values]


def _short(x: float) -> float | int:
    return int(x) if x == int(x) else x


def _read(text: str, grid: StateGrid, actions: tuple, name: str) -> NDArray[np.int64]:
    """(states,) action indices."""
    lines = text.splitlines()
    heads = [line for line in lines if line.startswith("#")]
    begin = next((line.split()[1:] for line in heads if line.startswith("#BEGIN")), None)
    parts = len(components(actions)) or 1
    if begin is None or begin != [str(grid.ndim), str(parts)]:
        rule = f"{name} must have a line '#BEGIN {grid.ndim} {parts}', as its states and actions do"
        raise FileError(rule, value=f"got {begin and ' '.join(begin)!r}")
    rows = _rows([line for line in lines if line.strip() and not line.startswith("#")], name)
    if rows.shape[1:] != (grid.ndim + parts,):
        raise FileError(f"{name} must have {grid.ndim + parts} numbers in each row")
    states, chosen = _states(rows[:, : grid.ndim], grid, name), rows[:, grid.ndim :]
    known = {key: i for i, key in enumerate(zip(*_columns(actions), strict=True))}
    said = np.array([known.get(tuple(row), OTHER) for row in chosen.tolist()])
    _refuse_unknown(said, chosen, name)
    table = np.full(grid.size, REFUSED)
    table[states] = said
    _refuse_several(states, said, table, grid, name)
    return table


def _rows(lines: list[str], name: str) -> NDArray[np.float64]:
    try:
        cells = [[float(cell) for cell in row] for row in csv.reader(lines)]
        return np.array(cells, dtype=float).reshape(len(cells), -1)
    except ValueError as error:
        rule = f"{name} must hold rows of numbers, all as long"
        raise FileError(rule, value=str(error)) from error


def _columns(actions: tuple) -> list[list]:
    names = components(actions)
    columns = [[a[n] for a in actions] for n in names] if names else [list(actions)]
    return [_numbers(column) for column in columns]


def _states(points: NDArray, grid: StateGrid, name: str) -> NDArray[np.int64]:
    states = grid.nearest(points)
    off = np.abs(grid.points_of(states) - points).max(axis=1, initial=0.0)
    bad = np.flatnonzero(off > 1e-9 * np.maximum(1.0, np.abs(points).max(axis=1, initial=0.0)))
    if bad.size:
        raise FileError(
            f"{name} must hold states of the grid",
            place=f"row {bad[0] + 1}",
            value=f"has {points[bad[0]].tolist()}",
            count=bad.size,
            total=len(points),
            noun="rows",
        )
    return states


def _refuse_unknown(said: NDArray, chosen: NDArray, name: str) -> None:
    bad = np.flatnonzero(said == OTHER)
    if bad.size:
        value = f"has {chosen[bad[0]].tolist()}"
        raise FileError(f"{name} must name actions", place=f"row {bad[0] + 1}", value=value)


def _refuse_several(
    states: NDArray, said: NDArray, table: NDArray, grid: StateGrid, name: str
) -> None:
    """Refuse a state without an action, or with more than one."""
    several = states[table[states] != said]
    for bad, what in ((several, "has several"), (np.flatnonzero(table < 0), "has none")):
        if bad.size:
            raise FileError(
                f"{name} must name one action for each state",
                place=grid.describe(int(bad[0])),
                value=what,
                count=len(np.unique(bad)),
                total=grid.size,
                noun="states",
            )
