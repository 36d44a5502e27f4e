"""export(policy, path): a rule as something that a system runs, checked in every state.

The text is run on every state of the grid first, if the tool for that is installed, and must take
the policy's action in each. Only then is the file written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, FileError, require_type
from tessella.files import atomic_write
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import RuleTree
from tessella.rules.export.c99 import C99
from tessella.rules.export.data_files import CsvTable, DtControl, JsonFile
from tessella.rules.export.export_context import (
    REFUSED_INDEX,
    UNKNOWN_ACTION_INDEX,
    ExportContext,
    ExportFormat,
    OffGrid,
    ToolMissing,
)
from tessella.rules.export.onnx_graph import OnnxGraph
from tessella.rules.export.python_code import BarePython
from tessella.rules.export.rust import Rust
from tessella.rules.export.spreadsheet import SpreadsheetFormula, Workbook
from tessella.rules.export.sql import Sql

FORMATS: tuple[ExportFormat, ...] = (
    C99(),
    BarePython(),
    Rust(),
    Sql(),
    JsonFile(),
    OnnxGraph(),
    SpreadsheetFormula(),
    Workbook(),
    DtControl(),  # before the suffix that its own ends with
    CsvTable(),
)
CHUNK_STATES = 1 << 20  # states that a file is run on at once


@dataclass(frozen=True)
class ExportedFile:
    """A file that was written.

    Attributes:
        states: how many states it was run over before; 0 if it could not be run here.
        remark: why it was not run, or nothing.
    """

    path: Path
    format_name: str
    states: int
    remark: str = ""

    def __str__(self) -> str:
        if self.remark:
            return f"{self.path.name}: {self.format_name}, not run: {self.remark}"
        return f"{self.path.name}: {self.format_name}, agrees in all {self.states:,} states"


def export(
    policy: Any, path: str | Path, mdp: MDP | None = None, *, off_grid: OffGrid | None = None
) -> ExportedFile:
    """Write a rule, or any policy, in the language that the ending of ``path`` names.

    ``.c`` C99; ``.py`` Python without imports; ``.rs`` Rust; ``.sql`` a CASE expression; ``.json``
    what ``Rule.load`` reads; ``.onnx``; ``.txt`` a spreadsheet formula; ``.xlsx`` a workbook;
    ``.csv`` a table of all states; ``.dtcontrol.csv`` the same for dtControl.

    Args:
        policy: a `Rule`, a policy, or what has one, such as a solution: its table is written. With
            a model, also a function or a table: see ``tessella.as_policy``.
        path: the file to write; its ending selects the language.
        mdp: the model that the policy decides for, which the head of the file names.
        off_grid: "clamp" moves numbers beyond an axis to its ends (the default), "refuse" rejects
            numbers that are not on the grid. NaN and unknown labels are always rejected. Files of
            data (.json, .csv) leave this to their readers, and take neither.

    Returns:
        The file, and in how many states it was run and agrees with the policy.

    Raises:
        ArgumentError: no language has this ending, or ``off_grid`` does not apply to it.
        FileError: the file cannot be written, or answers differently in some state.
        MissingExtra: a package that this language needs is not installed.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> print(ts.export(solution, "admit.py"))
        admit.py: Python, agrees in all 651 states
    """
    path = Path(path)
    model = mdp if mdp is not None else getattr(policy, "mdp", None)
    if mdp is not None:
        require_type("export", mdp, MDP)
        policy = mdp.policy(policy)
    policy = getattr(policy, "policy", policy)
    if not isinstance(policy, Policy):
        requirement = "export needs a policy, or the model that something else decides for"
        raise ArgumentError(requirement, value=f"got {type(policy).__name__} and no model")
    file_format = find_format(path)
    _check_off_grid(off_grid, file_format)
    stem = path.name[: -len(file_format.suffix)] or "rule"
    context = ExportContext(policy, stem, off_grid or "clamp", model)
    content = _write_content(file_format, context, path)
    states, remark = _check_all_states(file_format, content, context, path)
    files = {
        context.stem + suffix: extra for suffix, extra in file_format.extra_files(context).items()
    }
    for name, file_content in (files | {path.name: content}).items():
        with atomic_write(path.with_name(name)) as part:
            part.write_bytes(file_content)
    return ExportedFile(path, file_format.name, states, remark)


def _write_content(file_format: ExportFormat, context: ExportContext, path: Path) -> bytes:
    try:
        return file_format.write(context)
    except RecursionError:
        rule = context.policy.rule
        depth = rule.depth if isinstance(rule, RuleTree) else 1
        requirement = f"{file_format.name} cannot hold rules nested so deeply; a .csv can"
        raise FileError(requirement, value=f"{path.name} would have {depth:,} levels") from None
    except OSError as error:  # where parts of it are put together
        raise FileError(f"{path} cannot be written", value=error.strerror or str(error)) from error


def _check_off_grid(off_grid: object, file_format: ExportFormat) -> None:
    if off_grid is not None and off_grid not in get_args(OffGrid):
        requirement = f"off_grid is one of {', '.join(map(repr, get_args(OffGrid)))}"
        raise ArgumentError(requirement, value=f"got {off_grid!r}")
    if off_grid is not None and file_format.is_data:
        suffix = file_format.suffix
        requirement = f"{suffix} is a file of data, whose reader decides about other input"
        raise ArgumentError(requirement, value=f"got off_grid={off_grid!r}")


def find_format(path: Path) -> ExportFormat:
    """The language that the ending of a file names."""
    for file_format in FORMATS:
        if path.name.lower().endswith(file_format.suffix):
            return file_format
    suffixes = ", ".join(file_format.suffix for file_format in FORMATS)
    raise ArgumentError(f"a rule is exported to {suffixes}", value=f"got {path.name!r}")


def _check_all_states(
    file_format: ExportFormat, content: bytes, context: ExportContext, path: Path
) -> tuple[int, str]:
    """How many states the file was run on, and why it was not run."""
    grid = context.grid
    answers = []
    try:
        for first in range(0, grid.size, CHUNK_STATES):
            states = np.arange(first, min(first + CHUNK_STATES, grid.size))
            rows = {name: v.tolist() for name, v in grid.coordinates(states).items()}
            answers.append(file_format.run(content, context, rows))
    except ToolMissing as missing:
        return 0, str(missing)
    require_agreement(np.concatenate(answers), context, path.name)
    return grid.size, ""


def require_agreement(answers: NDArray[np.int64], context: ExportContext, name: str) -> None:
    """Reject answers for all states that differ from the policy's anywhere."""
    expected = context.policy.table.ravel()
    bad = np.flatnonzero(answers != expected)
    if bad.size:
        state = int(bad[0])
        texts = {REFUSED_INDEX: "is rejected", UNKNOWN_ACTION_INDEX: "gets something else"}
        answer = int(answers[state])
        text = texts.get(answer) or f"gets {context.describe_action(answer)}"
        raise FileError(
            f"{name} must do what the policy does, and was not written",
            location=context.grid.describe(state),
            value=f"{text}, not {context.describe_action(int(expected[state]))}",
            count=bad.size,
            total=len(expected),
            noun="states",
        )
