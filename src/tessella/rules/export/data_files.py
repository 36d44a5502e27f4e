"""Files of data: JSON for ``Rule.load`` and ``Policy.load``, CSV tables, and dtControl's CSV.

The schema of the JSON is docs/rule.schema.json. A CSV has a row for each state, its coordinates and
what to do; it has no head, so it states no facts. dtControl's CSV is written and read:

    #NON-PERMISSIVE           or #PERMISSIVE, where a state may have several rows
    #BEGIN 2 1                columns of the state, columns of the action
    0,3,8

dtControl knows numbers alone: a text axis is written as the places of its labels, a text action as
its index. Names are in another file, ``NAME_config.json``, which dtControl reads as well.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.files import TEXT_MAX_BYTES, read_file_bytes, wrap_read_errors
from tessella.grid import StateGrid
from tessella.mdp.actions import component_names
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import is_text_axis
from tessella.rules.export.export_context import (
    REFUSED_INDEX,
    UNKNOWN_ACTION_INDEX,
    ExportContext,
    ExportFormat,
    InputRows,
    list_action_columns,
)


class JsonFile(ExportFormat):
    """The rule itself, with what was proven."""

    name: ClassVar[str] = "JSON"
    suffix: ClassVar[str] = ".json"
    is_data: ClassVar[bool] = True

    def write(self, context: ExportContext) -> bytes:
        return _capture_file(context.policy.save)

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rule.json")
            path.write_bytes(content)
            loaded = type(context.policy).load(path)
        columns = [np.asarray(rows[name]) for name in loaded.grid.axes]
        for axis in range(loaded.grid.ndim):
            if is_text_axis(loaded.grid, axis):
                columns[axis] = loaded.grid.locate(axis, columns[axis])
        return loaded.act(np.stack(columns, axis=-1)).astype(np.int64)


class CsvTable(ExportFormat):
    """A table of all states."""

    name: ClassVar[str] = "CSV"
    suffix: ClassVar[str] = ".csv"
    is_data: ClassVar[bool] = True

    def write(self, context: ExportContext) -> bytes:
        return _capture_file(context.policy.to_csv)

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """Look the rows up."""
        axes = context.grid.axes
        numeric = [not is_text_axis(context.grid, axis) for axis in axes]
        numeric += [not isinstance(v[0], str) for v in context.action_columns.values()]
        answers = {}
        _, *lines = csv.reader(io.StringIO(content.decode(), newline=""))
        for line in filter(None, lines):
            cells = [float(c) if n else c for c, n in zip(line, numeric, strict=True)]
            answers[tuple(cells[: len(axes)])] = tuple(cells[len(axes) :])
        states = zip(*(rows[axis] for axis in axes), strict=True)
        return context.find_actions([answers.get(state, (None,)) for state in states])


def _capture_file(write: Callable[[Path], None]) -> bytes:
    """What a function writes to a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rule")
        write(path)
        return path.read_bytes()


class DtControl(ExportFormat):
    """A table for dtControl."""

    name: ClassVar[str] = "dtControl's CSV"
    suffix: ClassVar[str] = ".dtcontrol.csv"
    is_data: ClassVar[bool] = True

    def write(self, context: ExportContext) -> bytes:
        text = io.StringIO(newline="")
        header = f"#NON-PERMISSIVE\n#BEGIN {context.grid.ndim} {len(context.action_columns)}\n"
        actions = [_encode_values(values) for values in context.action_columns.values()]
        lines = csv.writer(text, lineterminator="\n")
        for states, actions_taken in context.policy.iter_chunks():
            points = context.grid.points_of(states).T.tolist()
            chosen = [[values[a] for a in actions_taken] for values in actions]
            whole = ([int(x) if x == int(x) else x for x in column] for column in points)
            columns = [*whole, *chosen]
            lines.writerows(zip(*columns, strict=True))
        return (header + text.getvalue()).encode("ascii")

    def extra_files(self, context: ExportContext) -> dict[str, bytes]:
        grid = context.grid
        texts = [i for i, name in enumerate(grid.axes) if is_text_axis(grid, name)]
        config: dict[str, Any] = {"x_column_names": list(grid.axes)}
        config["x_column_types"] = {
            "numeric": [i for i in range(grid.ndim) if i not in texts],
            "categorical": texts,
        }
        if texts:
            config["x_category_names"] = {
                grid.axes[i]: list(context.axis_labels(grid.axes[i])) for i in texts
            }
        config["about"] = list(context.header_lines)
        return {".dtcontrol_config.json": (json.dumps(config, indent=1) + "\n").encode()}

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        text = content.decode("ascii")
        table = _parse_controller(text, context.grid, context.policy.actions, "the file")
        indices = [
            context.grid.locate(axis, np.asarray(rows[name]))
            for axis, name in enumerate(context.grid.axes)
        ]
        inside = np.all([index >= 0 for index in indices], axis=0)
        states = context.grid.find_states([np.maximum(index, 0) for index in indices])
        return np.where(inside & (states >= 0), table[states], REFUSED_INDEX)


def read_dtcontrol(path: str | Path, model: Any) -> Policy:
    """The policy in a file of dtControl's format.

    Args:
        path: the file, which must have every state of the grid once, with one action.
        model: a model, or a policy, whose grid and actions are used.

    Returns:
        The policy.

    Raises:
        FileError: the file cannot be read, or has other states or actions.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> _ = ts.export(solution, "admit.dtcontrol.csv")
        >>> policy = ts.read_dtcontrol("admit.dtcontrol.csv", solution.mdp)
        >>> bool((policy.table == solution.policy.table).all())
        True
    """
    with wrap_read_errors(path, "a controller"):
        text = read_file_bytes(path, "a controller", TEXT_MAX_BYTES).decode("utf-8")
        table = _parse_controller(text, model.grid, tuple(model.actions), Path(path).name)
    metadata = {"action_name": model.action_name, "name": Path(path).name}
    return Policy.from_table(model.grid, model.actions, table, **metadata)


def _encode_values(values: Sequence) -> list:
    """The values of a column as numbers: texts by their position among the distinct ones."""
    if not isinstance(values[0], str):
        return [*values]
    codes = {text: i for i, text in enumerate(dict.fromkeys(values))}
    return [codes[text] for text in values]


def _parse_controller(text: str, grid: StateGrid, actions: tuple, name: str) -> NDArray[np.int64]:
    """(states,) action indices."""
    parts = len(component_names(actions)) or 1
    lines = [line for line in text.splitlines() if line.strip()]
    dimensions = next((line.split()[1:] for line in lines if line.startswith("#BEGIN")), None)
    if dimensions != [str(grid.ndim), str(parts)]:
        header = f"#BEGIN {grid.ndim} {parts}"
        requirement = f"{name} must have a line '{header}', as its states and actions do"
        raise FileError(requirement, value=f"got {dimensions and ' '.join(dimensions)!r}")
    try:
        cells = csv.reader(line for line in lines if not line.startswith("#"))
        rows = np.array([[float(cell) for cell in row] for row in cells], dtype=float)
    except ValueError as error:
        requirement = f"{name} must hold rows of numbers, all of one length"
        raise FileError(requirement, value=str(error)) from error
    if rows.shape[1:] != (grid.ndim + parts,):
        raise FileError(f"{name} must have {grid.ndim + parts} numbers in each row")
    states = _find_states(rows[:, : grid.ndim], grid, name)
    labels = rows[:, grid.ndim :]
    indices = _find_actions(labels, actions, name)
    table = np.full(grid.size, REFUSED_INDEX)
    table[states] = indices
    _require_one_action(states, indices, table, grid, name)
    return table


def _find_states(points: NDArray, grid: StateGrid, name: str) -> NDArray[np.int64]:
    states = grid.nearest(points)
    error = np.abs(grid.points_of(states) - points).max(axis=1, initial=0.0)
    bad = np.flatnonzero(error > 1e-9 * np.maximum(1.0, np.abs(points).max(axis=1, initial=0.0)))
    if bad.size:
        raise FileError(
            f"{name} must hold states of the grid",
            location=f"row {bad[0] + 1}",
            value=f"has {points[bad[0]].tolist()}",
            count=bad.size,
            total=len(points),
            noun="rows",
        )
    return states


def _find_actions(labels: NDArray, actions: tuple, name: str) -> NDArray[np.int64]:
    columns = map(_encode_values, list_action_columns(actions, "").values())
    index_of = {key: i for i, key in enumerate(zip(*columns, strict=True))}
    indices = np.array([index_of.get(tuple(row), UNKNOWN_ACTION_INDEX) for row in labels.tolist()])
    bad = np.flatnonzero(indices == UNKNOWN_ACTION_INDEX)
    if bad.size:
        value = f"has {labels[bad[0]].tolist()}"
        raise FileError(f"{name} must name actions", location=f"row {bad[0] + 1}", value=value)
    return indices


def _require_one_action(
    states: NDArray, indices: NDArray, table: NDArray, grid: StateGrid, name: str
) -> None:
    """Reject a state without an action, or with more than one."""
    conflicting = states[table[states] != indices]
    for bad, subject in ((conflicting, "has several"), (np.flatnonzero(table < 0), "has none")):
        if bad.size:
            raise FileError(
                f"{name} must name one action for each state",
                location=grid.describe(int(bad[0])),
                value=subject,
                count=len(np.unique(bad)),
                total=grid.size,
                noun="states",
            )
