"""What happens in a period, as a document tells it: stages in their order, or events at rates."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.scope import call
from tessella.mdp.stages import Decide, Event, Jump, Move, Noise, Pay, Shift
from tessella.mdp.stages.stage import Stage
from tessella.modelfiles.expressions.formula import LARGEST, Formula, Names
from tessella.modelfiles.expressions.tree import NUMBER
from tessella.modelfiles.lines import Path
from tessella.modelfiles.mistakes import brief
from tessella.modelfiles.own_model import OwnModel
from tessella.modelfiles.vocabulary import NEXT

END = "end"  # the noise of a jump without a distribution, as in the problems of the package


@dataclass(eq=False)
class PeriodReader:
    """Reads stages and events of a model whose other parts are known."""

    told: OwnModel
    stages: list[tuple[Path, Stage]] = field(default_factory=list)
    events: list[tuple[Path, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.document, self.vocabulary = self.told.document, self.told.vocabulary
        self.quantities = self.told.quantities

    def _listed(self, key: str) -> list[tuple[Path, dict]]:
        found = self.told.data.get(key)
        some = enumerate(found if isinstance(found, list) else [])
        return [((key, i), said) for i, said in some if isinstance(said, dict)]

    def read_stages(self) -> None:
        """All stages that have no mistakes."""
        readers = {
            "pay": self._pay,
            "decide": self._decide,
            "shift": self._shift,
            "move": self._move,
            "jump": self._jump,
        }
        for place, said in self._listed("stages"):
            kind = said.get("kind")
            if isinstance(kind, str) and kind in readers:
                before = len(self.document.mistakes)
                stage = readers[kind](place, said)
                if stage is not None and len(self.document.mistakes) == before:
                    self.stages.append((place, stage))

    def read_events(self) -> None:
        """All events that have no mistakes."""
        names: set[str] = set()
        for place, said in self._listed("events"):
            state, name = self.vocabulary.state, said.get("name")
            if isinstance(name, str) and name in names:
                rule = f"events must have different names; {brief(name)} stands above"
                self.document.mistake((*place, "name"), rule)
            names |= {name} if isinstance(name, str) else set()
            rate = self._formula(place, said, "rate", state)
            to, fine = self._moves(place, said, state), isinstance(name, str)
            pays, costs = self._paid(place, said, state)
            if rate is not None and fine and (to is not None or "to" not in said):
                said_of = (plain(rate), to, plain(pays), plain(costs))
                self.events.append((place, Event(str(name), *said_of)))

    def rate(self, key: str) -> Formula | float | None:
        """What is paid, or costs, per unit of time."""
        return plain(self._formula((), self.told.data, key, self.vocabulary.state))

    def _formula(self, place: Path, said: Mapping, key: str, names: Names) -> Formula | None:
        if key not in said:
            return None
        return self.quantities.formula((*place, key), said[key], names)

    def _paid(
        self, place: Path, said: Mapping, names: Names
    ) -> tuple[Formula | None, Formula | None]:
        pays, costs = (self._formula(place, said, key, names) for key in ("pays", "costs"))
        return pays, costs

    def _axis(self, place: Path, said: dict) -> str | None:
        name, axes = said.get("axis"), {**self.vocabulary.axes, **self.vocabulary.scratch}
        if not isinstance(name, str):
            return None
        self.vocabulary.refuse_unknown("axis", name, axes, (*place, "axis"))
        return name if name in axes else None

    def _noise(self, place: Path, said: dict) -> Noise | None:
        """The noise of a stage; one with mistakes of its own is known by name alone."""
        name, known = said.get("noise"), self.vocabulary.noises
        if not isinstance(name, str):
            return None
        self.vocabulary.refuse_unknown("distribution", name, known, (*place, "noise"))
        return self.told.noises.get(name)

    def _certain(self) -> Noise:
        """A noise of one value; nobody can write its name where something else is called END."""
        taken = END in self.vocabulary.owners
        return Noise(f"the {END}" if taken else END, (0,), (1.0,))

    def _moved(self, place: Path, axis: str | None, said: Any, names: Names) -> Formula | None:
        """The value that an axis takes: text on an axis of text."""
        kinds = {**self.vocabulary.axes, **self.vocabulary.scratch}
        return self.quantities.formula(place, said, names, kinds.get(axis or "", NUMBER))

    def _moves(self, place: Path, said: dict, names: Names) -> Moves | None:
        told = said.get("to")
        if not isinstance(told, dict):
            return None
        axes, found = {**self.vocabulary.axes, **self.vocabulary.scratch}, {}
        for name, text in told.items():
            here = (*place, "to", name)
            self.vocabulary.refuse_unknown("axis", name, axes, here)
            found[name] = self._moved(here, name, text, names)
        fine = {name: formula for name, formula in found.items() if formula is not None}
        return Moves(fine) if len(fine) == len(told) else None

    def _pay(self, place: Path, said: dict) -> Stage | None:
        pays, costs = self._paid(place, said, self.vocabulary.state)
        if "pays" not in said and "costs" not in said:
            self.document.mistake(place, "a stage of kind 'pay' needs 'pays' or 'costs'")
        return Pay(pays, costs) if pays or costs else None

    def _decide(self, place: Path, said: dict) -> Stage | None:
        names, axis = self.vocabulary.state, self._axis(place, said)
        to = self._moved((*place, "to"), axis, said.get("to"), names)
        pays, costs = self._paid(place, said, names)
        if axis is None or to is None:
            return None
        return Decide(axis, to, pays=pays, costs=costs, **_options(said, "between", "edge"))

    def _shift(self, place: Path, said: dict) -> Stage | None:
        axis, noise = self._axis(place, said), self._noise(place, said)
        v, name = self.vocabulary, said.get("noise")
        by = self._formula(place, said, "by", v.names(v.called(name), v.action))
        pays, costs = self._paid(place, said, v.with_noise(name))
        if axis is None or noise is None:
            return None
        options = _options(said, "between", "edge")
        return Shift(axis, noise, by, pays=pays, costs=costs, **options)

    def _jump(self, place: Path, said: dict) -> Stage | None:
        noise = self._noise(place, said) if "noise" in said else self._certain()
        v = self.vocabulary
        names = v.with_noise(said["noise"]) if "noise" in said else v.state
        to, (pays, costs) = self._moves(place, said, names), self._paid(place, said, names)
        if noise is None or to is None:
            return None
        return Jump(noise, to, pays=pays, costs=costs, **_options(said, "between", "edge"))

    def _move(self, place: Path, said: dict) -> Stage | None:
        names, axis = self.vocabulary.state, self._axis(place, said)
        pays, costs = self._paid(place, said, names)
        matrix = self._matrix((*place, "matrix"), axis, said.get("matrix"))
        if axis is None or matrix is None:
            return None
        return Move(axis, matrix, pays=pays, costs=costs)

    def _matrix(self, place: Path, axis: str | None, said: Any) -> Any:
        if isinstance(said, list):
            return self._rows(place, said)
        values = {**self.told.axes, **self.told.scratch}.get(axis or "")
        if not isinstance(said, str) or axis is None or values is None:
            return None
        v = self.vocabulary
        kind = {**v.axes, **v.scratch}[axis]
        names = v.names(v.axes, v.scratch, v.action, v.time, {NEXT: kind})
        formula = self.quantities.formula(place, said, names)
        return None if formula is None else Chain(axis, np.asarray(values), formula)

    def _rows(self, place: Path, said: list) -> list | None:
        rows = [
            [self.quantities.number((*place, i, j), x) for j, x in enumerate(row)]
            for i, row in enumerate(said)
            if isinstance(row, list)
        ]
        fine = len(rows) == len(said) and all(x is not None for row in rows for x in row)
        return rows if fine else None


class Moves:
    """Several formulas as one function, from names to a value for each axis that moves."""

    def __init__(self, formulas: Mapping[str, Formula]) -> None:
        self.formulas = dict(formulas)
        names = dict.fromkeys(name for formula in formulas.values() for name in formula.asks)
        self.__signature__ = _signature(names)

    def __call__(self, /, **arrays: Any) -> dict[str, Any]:
        return {axis: call(f, arrays, f"the move of {axis}") for axis, f in self.formulas.items()}


class Chain:
    """The (..., n, n) matrix of a chain, from a formula of its axis and of ``next``."""

    def __init__(self, axis: str, values: NDArray, formula: Formula) -> None:
        self.axis, self.values, self.formula = axis, values, formula
        self.__signature__ = _signature(n for n in formula.asks if n not in (axis, NEXT))

    def __call__(self, /, **arrays: Any) -> NDArray[np.float64]:
        n = len(self.values)
        if n * n > LARGEST:
            rule = f"a matrix has at most {LARGEST:,} entries"
            raise ModelError(rule, value=f"{self.axis} has {n:,} values")
        names = arrays | {self.axis: self.values[:, None], NEXT: self.values[None, :]}
        found = np.asarray(call(self.formula, names, f"the matrix of {self.axis}"), dtype=float)
        ahead = np.broadcast_shapes(found.shape, (n, n))
        return np.broadcast_to(found, ahead)


def plain(formula: Formula | None) -> Any:
    """A formula that names nothing as the number that it is."""
    return formula if formula is None or formula.asks else float(formula())


def _signature(names: Any) -> inspect.Signature:
    kw = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([inspect.Parameter(name, kw) for name in names])


def _options(said: dict, *keys: str) -> dict[str, Any]:
    return {key: said[key] for key in keys if key in said}
