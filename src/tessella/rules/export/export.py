"""export(policy, path): a rule as something that a system runs, checked in every state.

What is written is run over the whole grid first, where the means is there, and must say what the
policy says: not one state may differ. Only then does the file appear.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, FileError, expect
from tessella.files import writing
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.program import Program
from tessella.rules.export.bare_python import BarePython
from tessella.rules.export.c99 import C99
from tessella.rules.export.csv_table import CsvTable
from tessella.rules.export.draft import OTHER, REFUSED, Draft, OffGrid
from tessella.rules.export.dtcontrol import DtControl
from tessella.rules.export.formula import Formula
from tessella.rules.export.json_file import JsonFile
from tessella.rules.export.onnx_graph import OnnxGraph
from tessella.rules.export.sql import Sql
from tessella.rules.export.target import Absent, Target
from tessella.rules.export.workbook import Workbook

TARGETS: tuple[Target, ...] = (
    C99(),
    BarePython(),
    Sql(),
    JsonFile(),
    OnnxGraph(),
    Formula(),
    Workbook(),
    DtControl(),  # before the suffix that its own ends with
    CsvTable(),
)
SLAB = 1 << 20  # states that a file is asked about at once


@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        states: how many states it was run over before; 0 if it could not be run here.
        remark: why it was not run, or nothing.
    """

    path: Path
    target: str
    states: int
    remark: str = ""

    def __str__(self) -> str:
        if self.remark:
            return f"{self.path.name}: {self.target}, not run: {self.remark}"
        return f"{self.path.name}: {self.target}, agrees in all {self.states:,} states"


def export(
    policy: Any, path: str | Path, mdp: MDP | None = None, *, off_grid: OffGrid | None = None
) -> Exported:
    """Write a rule, or any policy, in the language that the ending of ``path`` names.

    ``.c`` C99; ``.py`` Python without imports; ``.sql`` a CASE expression; ``.json`` what
    ``Rule.load`` reads; ``.onnx``; ``.txt`` a spreadsheet formula; ``.xlsx`` a workbook; ``.csv`` a
    table of all states; ``.dtcontrol.csv`` the same for dtControl.

    Args:
        policy: a `Rule`; or a policy, or what has one, such as a solution: its table is written.
            With a model, whatever decides: see ``tessella.as_policy``.
        mdp: the model that it decides for, which the head of the file names.
        off_grid: "clamp" to move numbers beyond an axis to its ends (unless told otherwise),
            "refuse" to refuse whatever is not on the grid. NaN and unknown labels are refused in
            any case. Files of data (.json, .csv) leave it to their readers, and take neither.
    """
    path, model = Path(path), mdp if mdp is not None else getattr(policy, "mdp", None)
    if mdp is not None:
        expect("export", mdp, MDP)
        policy = mdp.policy(policy)
    policy = getattr(policy, "policy", policy)
    if not isinstance(policy, Policy):
        rule = "export needs a policy, or the model that something else decides for"
        raise ArgumentError(rule, value=f"got {type(policy).__name__} and no model")
    target = target_of(path)
    _refuse_off_grid(off_grid, target)
    stem = path.name[: -len(target.suffix)] or "rule"
    draft = Draft(policy, stem, off_grid or "clamp", model)
    try:
        content = target.write(draft)
    except RecursionError:
        rule = f"{target.name} has no room for rules nested so deeply; a .csv has"
        raise FileError(rule, value=f"{path.name} would have {_depth(policy):,} levels") from None
    except OSError as error:  # where parts of it are put together
        raise FileError(f"{path} cannot be written", value=error.strerror or str(error)) from error
    states, remark = _checked(target, content, draft, path)
    files = {draft.stem + ending: more for ending, more in target.beside(draft).items()}
    for name, held in (files | {path.name: content}).items():
        with writing(path.with_name(name)) as part:
            part.write_bytes(held)
    return Exported(path, target.name, states, remark)


def _depth(policy: Policy) -> int:
    return policy.rule.depth if isinstance(policy.rule, Program) else 1


def _refuse_off_grid(off_grid: object, target: Target) -> None:
    if off_grid is not None and off_grid not in get_args(OffGrid):
        rule = f"off_grid is one of {', '.join(map(repr, get_args(OffGrid)))}"
        raise ArgumentError(rule, value=f"got {off_grid!r}")
    if off_grid is not None and target.data:
        rule = f"{target.suffix} is a file of data, whose reader says what becomes of other input"
        raise ArgumentError(rule, value=f"got off_grid={off_grid!r}")


def target_of(path: Path) -> Target:
    """The language that the ending of a file names."""
    for target in TARGETS:
        if path.name.lower().endswith(target.suffix):
            return target
    rule = f"a rule is exported to {', '.join(target.suffix for target in TARGETS)}"
    raise ArgumentError(rule, value=f"got {path.name!r}")


def _checked(target: Target, content: bytes, draft: Draft, path: Path) -> tuple[int, str]:
    """How many states the file was asked about, and why not."""
    grid, said = draft.grid, []
    try:
        for first in range(0, grid.size, SLAB):
            states = np.arange(first, min(first + SLAB, grid.size))
            rows = {name: v.tolist() for name, v in grid.coordinates(states).items()}
            said.append(target.run(content, draft, rows))
    except Absent as absent:
        return 0, str(absent)
    refuse_difference(np.concatenate(said), draft, path.name)
    return grid.size, ""


def refuse_difference(said: NDArray[np.int64], draft: Draft, name: str) -> None:
    """Refuse answers for all states that differ from the policy's anywhere."""
    meant = draft.policy.table.ravel()
    bad = np.flatnonzero(said != meant)
    if bad.size:
        state = int(bad[0])
        other = {REFUSED: "is refused", OTHER: "gets something else"}
        found = other.get(int(said[state])) or f"gets {draft.described(int(said[state]))}"
        raise FileError(
            f"{name} must do what the policy does, and was not written",
            place=draft.grid.describe(state),
            value=f"{found}, not {draft.described(int(meant[state]))}",
            count=bad.size,
            total=len(meant),
            noun="states",
        )
