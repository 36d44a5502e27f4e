"""What happens in a period of a document's model: stages in their order, or events at rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.context import call_by_name
from tessella.mdp.stages import Decide, Event, Jump, Move, Noise, Pay, Shift
from tessella.mdp.stages.stage import Stage
from tessella.modelfiles.expressions import NUMBER
from tessella.modelfiles.formula import (
    FORMULA_MAX_COMBINATIONS,
    Formula,
    VisibleNames,
    make_signature,
)
from tessella.modelfiles.mistakes import format_brief
from tessella.modelfiles.model_document import ModelDocument
from tessella.modelfiles.symbols import NEXT_NAME
from tessella.modelfiles.toml_document import KeyPath

# The noise of a jump without a distribution, as in the problems of the package.
CERTAIN_NOISE = "end"


@dataclass(eq=False)
class PeriodReader:
    """Reads stages and events of a model whose other parts are known."""

    model: ModelDocument
    stages: list[tuple[KeyPath, Stage]] = field(default_factory=list)
    events: list[tuple[KeyPath, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.document = self.model.document
        self.symbols = self.model.symbols
        self.quantities = self.model.quantities

    def read_stages(self) -> None:
        """All stages that have no mistakes."""
        readers = {
            "pay": self._read_pay,
            "decide": self._read_decide,
            "shift": self._read_shift,
            "move": self._read_move,
            "jump": self._read_jump,
        }
        for key_path, entry in self.document.entries("stages"):
            kind = entry.get("kind")
            if isinstance(kind, str) and kind in readers:
                before = len(self.document.mistakes)
                stage = readers[kind](key_path, entry)
                if stage is not None and len(self.document.mistakes) == before:
                    self.stages.append((key_path, stage))

    def read_events(self) -> None:
        """All events that have no mistakes."""
        names: set[str] = set()
        for key_path, entry in self.document.entries("events"):
            state = self.symbols.state_names
            name = entry.get("name")
            if isinstance(name, str) and name in names:
                requirement = f"events must have different names; {format_brief(name)} stands above"
                self.document.note_mistake((*key_path, "name"), requirement)
            rate = self._read_formula(key_path, entry, "rate", state)
            to = self._read_targets(key_path, entry, state)
            payments = self._read_payments(key_path, entry, state)
            if isinstance(name, str):
                names.add(name)
            if rate is not None and isinstance(name, str) and (to is not None) == ("to" in entry):
                constants = {key: simplify_formula(formula) for key, formula in payments.items()}
                event = Event(name, simplify_formula(rate), to, **constants)
                self.events.append((key_path, event))

    def read_rate(self, key: str) -> Formula | float | None:
        """What is paid, or costs, per unit of time."""
        names = self.symbols.state_names
        return simplify_formula(self._read_formula((), self.model.data, key, names))

    def _read_formula(
        self, key_path: KeyPath, entry: Mapping, key: str, names: VisibleNames
    ) -> Formula | None:
        if key not in entry:
            return None
        return self.quantities.read_formula((*key_path, key), entry[key], names)

    def _read_payments(
        self, key_path: KeyPath, entry: Mapping, names: VisibleNames
    ) -> dict[str, Any]:
        return {key: self._read_formula(key_path, entry, key, names) for key in ("pays", "costs")}

    def _read_options(
        self, key_path: KeyPath, entry: Mapping, names: VisibleNames
    ) -> dict[str, Any]:
        """What is paid at a stage that moves to computed values, and what happens off the grid."""
        options = {key: entry[key] for key in ("between", "edge") if key in entry}
        return self._read_payments(key_path, entry, names) | options

    def _read_axis(self, key_path: KeyPath, entry: dict) -> str | None:
        name = entry.get("axis")
        if not isinstance(name, str):
            return None
        axes = self.symbols.all_axes
        self.symbols.refuse_unknown("axis", name, axes, (*key_path, "axis"))
        return name if name in axes else None

    def _read_noise(self, key_path: KeyPath, entry: dict) -> Noise | None:
        """The noise of a stage; one with mistakes of its own is known by name alone."""
        name = entry.get("noise")
        if not isinstance(name, str):
            return None
        known = self.symbols.noises
        self.symbols.refuse_unknown("distribution", name, known, (*key_path, "noise"))
        return self.model.noises.get(name)

    def _certain_noise(self) -> Noise:
        """A noise of one value, whose name no file can write where something else has it."""
        is_taken = CERTAIN_NOISE in self.symbols.definitions
        return Noise(f"the {CERTAIN_NOISE}" if is_taken else CERTAIN_NOISE, (0,), (1.0,))

    def _read_target(
        self, key_path: KeyPath, axis: str | None, given: Any, names: VisibleNames
    ) -> Formula | None:
        """The value that an axis takes: text on an axis of text."""
        kind = self.symbols.all_axes.get(axis or "", NUMBER)
        return self.quantities.read_formula(key_path, given, names, kind)

    def _read_targets(
        self, key_path: KeyPath, entry: dict, names: VisibleNames
    ) -> JumpTargets | None:
        targets = entry.get("to")
        if not isinstance(targets, dict):
            return None
        formulas = {}
        for name, given in targets.items():
            target_path = (*key_path, "to", name)
            self.symbols.refuse_unknown("axis", name, self.symbols.all_axes, target_path)
            formulas[name] = self._read_target(target_path, name, given, names)
        valid = {name: formula for name, formula in formulas.items() if formula is not None}
        return JumpTargets(valid) if len(valid) == len(targets) else None

    def _read_pay(self, key_path: KeyPath, entry: dict) -> Stage | None:
        payments = self._read_payments(key_path, entry, self.symbols.state_names)
        if "pays" not in entry and "costs" not in entry:
            self.document.note_mistake(key_path, "a stage of kind 'pay' needs 'pays' or 'costs'")
        return Pay(**payments) if any(payments.values()) else None

    def _read_decide(self, key_path: KeyPath, entry: dict) -> Stage | None:
        names = self.symbols.state_names
        axis = self._read_axis(key_path, entry)
        to = self._read_target((*key_path, "to"), axis, entry.get("to"), names)
        options = self._read_options(key_path, entry, names)
        return None if axis is None or to is None else Decide(axis, to, **options)

    def _read_shift(self, key_path: KeyPath, entry: dict) -> Stage | None:
        symbols = self.symbols
        noise_kinds = symbols.stage_noises(entry.get("noise"))
        axis = self._read_axis(key_path, entry)
        noise = self._read_noise(key_path, entry)
        names = symbols.visible_names(noise_kinds, symbols.action)
        by = self._read_formula(key_path, entry, "by", names)
        names = symbols.visible_names(*symbols.state_groups, noise_kinds)
        options = self._read_options(key_path, entry, names)
        return None if axis is None or noise is None else Shift(axis, noise, by, **options)

    def _read_jump(self, key_path: KeyPath, entry: dict) -> Stage | None:
        symbols = self.symbols
        if "noise" in entry:
            noise = self._read_noise(key_path, entry)
            noise_kinds = symbols.stage_noises(entry["noise"])
            names = symbols.visible_names(*symbols.state_groups, noise_kinds)
        else:
            noise = self._certain_noise()
            names = symbols.state_names
        to = self._read_targets(key_path, entry, names)
        options = self._read_options(key_path, entry, names)
        return None if noise is None or to is None else Jump(noise, to, **options)

    def _read_move(self, key_path: KeyPath, entry: dict) -> Stage | None:
        axis = self._read_axis(key_path, entry)
        payments = self._read_payments(key_path, entry, self.symbols.state_names)
        matrix = self._read_matrix((*key_path, "matrix"), axis, entry.get("matrix"))
        return None if axis is None or matrix is None else Move(axis, matrix, **payments)

    def _read_matrix(self, key_path: KeyPath, axis: str | None, given: Any) -> Any:
        if isinstance(given, list):
            return self._read_rows(key_path, given)
        values = {**self.model.axes, **self.model.scratch}.get(axis or "")
        if not isinstance(given, str) or axis is None or values is None:
            return None
        next_kind = {NEXT_NAME: self.symbols.all_axes[axis]}
        names = self.symbols.visible_names(*self.symbols.state_groups, next_kind)
        formula = self.quantities.read_formula(key_path, given, names)
        return None if formula is None else ChainMatrix(axis, np.asarray(values), formula)

    def _read_rows(self, key_path: KeyPath, given: list) -> list | None:
        rows = [
            [self.quantities.read_number((*key_path, i, j), x) for j, x in enumerate(row)]
            for i, row in enumerate(given)
            if isinstance(row, list)
        ]
        are_complete = len(rows) == len(given) and all(x is not None for row in rows for x in row)
        return rows if are_complete else None


class JumpTargets:
    """Several formulas as one function, from names to a value for each axis that moves."""

    def __init__(self, formulas: Mapping[str, Formula]) -> None:
        self.formulas = dict(formulas)
        self.__signature__ = make_signature(n for f in formulas.values() for n in f.free_names)

    def __call__(self, /, **arrays: Any) -> dict[str, Any]:
        return {
            axis: call_by_name(f, arrays, f"the move of {axis}")
            for axis, f in self.formulas.items()
        }


class ChainMatrix:
    """The (..., n, n) matrix of a chain, from a formula of its axis and of ``next``."""

    def __init__(self, axis: str, values: NDArray, formula: Formula) -> None:
        self.axis = axis
        self.values = values
        self.formula = formula
        self.__signature__ = make_signature(
            n for n in formula.free_names if n not in (axis, NEXT_NAME)
        )

    def __call__(self, /, **arrays: Any) -> NDArray[np.float64]:
        n = len(self.values)
        if n * n > FORMULA_MAX_COMBINATIONS:
            requirement = f"a matrix has at most {FORMULA_MAX_COMBINATIONS:,} entries"
            raise ModelError(requirement, value=f"{self.axis} has {n:,} values")
        names = arrays | {self.axis: self.values[:, None], NEXT_NAME: self.values[None, :]}
        matrix = np.asarray(
            call_by_name(self.formula, names, f"the matrix of {self.axis}"), dtype=float
        )
        shape = np.broadcast_shapes(matrix.shape, (n, n))
        return np.broadcast_to(matrix, shape)


def simplify_formula(formula: Formula | None) -> Any:
    """A formula that names nothing as the number that it is."""
    return formula if formula is None or formula.free_names else float(formula())
