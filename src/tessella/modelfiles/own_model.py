"""A model file that tells a model of its own: what it holds, part by part, and the model it is.

Parts are read in the order in which they build on one another: parameters, axes, actions, the
values of distributions, tables, terms, and then the expressions of a period. Every part notes its
own mistakes and goes on; only a document without any becomes a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tessella.criteria import Average, Discounted, FiniteHorizon, Total
from tessella.criteria.criterion import Criterion
from tessella.errors import ArgumentError, ModelError, TessellaError
from tessella.grid import StateGrid
from tessella.mdp.scope import TIME
from tessella.mdp.stages import Noise
from tessella.modelfiles.document import Document
from tessella.modelfiles.expressions.tokens import WHOLE
from tessella.modelfiles.expressions.tree import NUMBER, TRUTH
from tessella.modelfiles.lines import Path
from tessella.modelfiles.mistakes import nearest, text_fault
from tessella.modelfiles.quantities import Quantities, kind_of_values
from tessella.modelfiles.random_parts import RandomParts
from tessella.modelfiles.vocabulary import Vocabulary

MOST_PERIODS = 10_000


@dataclass(eq=False)
class OwnModel:
    """What a document tells, as far as it could be read."""

    document: Document
    settings: Mapping[str, Any]
    axes: dict[str, list | None] = field(default_factory=dict)
    scratch: dict[str, list | None] = field(default_factory=dict)
    actions: list | dict[str, list] | None = None
    action_name: str = "action"
    criterion: Criterion | float | None = None  # a number is an interest rate
    feasible: Any = None
    noises: dict[str, Noise] = field(default_factory=dict)
    known: dict[str, list | None] = field(default_factory=dict)  # values of all that has some

    def __post_init__(self) -> None:
        parameters = read_parameters(self.document, self.settings)
        self.vocabulary = Vocabulary(self.document, parameters)
        self.quantities = Quantities(self.document, parameters, self.vocabulary.owners)

    @property
    def data(self) -> dict[str, Any]:
        return self.document.data

    def part(self, name: str) -> dict[str, Any]:
        """A table of the document, empty where there is none."""
        found = self.data.get(name)
        return found if isinstance(found, dict) else {}

    def read(self) -> None:
        """Read all parts but the events of a period."""
        for name in self.vocabulary.parameters:
            self.vocabulary.claim(name, "a parameter", ("parameters", name))
        self._read_axes("axes", self.axes, self.vocabulary.axes, "an axis")
        self._read_axes("scratch", self.scratch, self.vocabulary.scratch, "a scratch axis")
        self._read_actions()
        self._read_criterion()
        parts = RandomParts(self.document, self.quantities, self.vocabulary)
        parts.read_values()
        self.known = {**self.axes, **self.scratch, **self._action_values(), **parts.values}
        parts.read_tables(self.known)
        self._read_terms()
        self.noises = parts.noises()
        self._read_last()

    def _read_axes(self, key: str, found: dict, kinds: dict[str, str], what: str) -> None:
        for name, said in self.part(key).items():
            place = (key, name)
            values = self.quantities.values(place, said)
            if self.vocabulary.claim(name, what, place):
                kinds[name] = kind_of_values(said, values)
                found[name] = self._checked(place, name, values)

    def _checked(self, place: Path, name: str, values: list | None) -> list | None:
        try:
            return None if values is None else [*StateGrid({name: values}).values[0].tolist()]
        except ModelError as error:
            self.document.mistake(place, str(error))
            return None

    def _read_actions(self) -> None:
        said = self.part("actions")
        name = said.get("name", "action")
        self.action_name = name if isinstance(name, str) else "action"
        fine = self.vocabulary.claim(self.action_name, "the action", ("actions", "name"))
        if "components" in said and "values" in said:
            self.document.mistake(("actions",), "actions have 'values' or 'components', not both")
        elif isinstance(said.get("components"), dict):
            self._read_components(said["components"])
        else:
            self.actions = self.quantities.values(("actions", "values"), said.get("values"))
            kind = kind_of_values(said.get("values"), self.actions)
            self.vocabulary.action = {self.action_name: kind} if fine else {}
            if said and "values" not in said and not self.document.faulty(("actions",)):
                self.document.mistake(("actions",), "actions need 'values' or 'components'")

    def _read_components(self, said: dict[str, Any]) -> None:
        found: dict[str, list] = {}
        for name, listed in said.items():
            place = ("actions", "components", name)
            values = self.quantities.values(place, listed)
            if self.vocabulary.claim(name, "a component", place):
                self.vocabulary.action[name] = kind_of_values(listed, values)
                found |= {} if values is None else {name: values}
        self.actions = found if len(found) == len(said) else None

    def _action_values(self) -> dict[str, list]:
        if isinstance(self.actions, dict):
            return self.actions
        return {} if self.actions is None else {self.action_name: self.actions}

    def _read_criterion(self) -> None:
        said = self.part("criterion")
        kind, numbers = said.get("kind"), {}
        for key in ("discount", "interest"):
            if key in said:
                numbers[key] = self.quantities.number(("criterion", key), said[key])
        if kind == "horizon" and self.vocabulary.claim(TIME, "the time", ("criterion", "kind")):
            self.vocabulary.time = {TIME: NUMBER}
        if "interest" in said and "events" not in self.data:
            self.document.mistake(
                ("criterion", "interest"), "an interest rate is for events; stages have a discount"
            )
        elif (
            isinstance(kind, str)
            and kind in CRITERIA
            and not self.document.faulty(("criterion",))
            and None not in numbers.values()
        ):
            try:
                self.criterion = CRITERIA[kind](self, **numbers)
            except TessellaError as error:
                self.document.mistake(("criterion",), str(error))

    def discounted(self, discount: float | None = None, interest: float | None = None) -> Any:
        """A discount for each period, or for events an interest rate."""
        if "events" not in self.data:
            if discount is None:
                raise ModelError("a discounted criterion needs 'discount'")
            return Discounted(discount)
        if interest is None or discount is not None:
            raise ModelError("with events a discounted criterion has 'interest', and no 'discount'")
        return interest

    def horizon(self, discount: float = 1.0) -> Criterion | None:
        said = self.part("criterion")
        place = ("criterion", "periods")
        periods = self.quantities.whole(place, said.get("periods"), 1, MOST_PERIODS)
        names, final = self.vocabulary.names(self.vocabulary.axes), said.get("final", 0.0)
        ends = self.quantities.formula(("criterion", "final"), final, names)
        if periods is None or ends is None:
            return None
        return FiniteHorizon(periods, discount, ends)

    def _read_terms(self) -> None:
        for name, said in self.part("terms").items():
            place = ("terms", name)
            if not self.vocabulary.claim(name, "a term", place):
                continue
            found = self.quantities.formula(place, said, self.vocabulary.all, None)
            if found is not None:
                self.vocabulary.terms[name] = found
            else:
                self.vocabulary.spoiled.add(name)

    def _read_last(self) -> None:
        v = self.vocabulary
        if isinstance(self.data.get("feasible"), str):
            names = v.names(v.axes, v.action, v.time)
            place = ("feasible",)
            self.feasible = self.quantities.formula(place, self.data["feasible"], names, TRUTH)
        for name in self.part("start"):
            if name not in v.time:
                v.refuse_unknown("axis", name, v.axes, ("start", name))


CRITERIA = {
    "discounted": OwnModel.discounted,
    "average": lambda told: Average(),
    "total": lambda told: Total(),
    "horizon": OwnModel.horizon,
}


def read_parameters(document: Document, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a document, with ``settings`` in the place of some."""
    told = document.data.get("parameters")
    told = told if isinstance(told, dict) else {}
    for name in settings:
        if name not in told:
            where = f"{document.path} has no parameter {name!r}"
            raise ArgumentError(f"{where}{nearest(name, told)}")
    given = {name: _set(name, told[name], value) for name, value in settings.items()}
    return {name: given.get(name, _sound(document, name, told[name])) for name in told}


def _sound(document: Document, name: str, value: Any) -> Any:
    """A parameter as it is, or a number in its place where that is none of the kinds there are."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return value if all(isinstance(x, str | int | float) for x in value) else []
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1.0
    if isinstance(value, int) and abs(value) > WHOLE:
        rule = f"a whole number must lie within {WHOLE:,}, to be exact"
        document.mistake(("parameters", name), f"{rule}; got {value}")
    return value if math.isfinite(value) else 1.0


def _set(name: str, told: Any, value: Any) -> Any:
    """A parameter set from outside, of the kind that it has in the document."""
    try:
        if isinstance(told, list):
            words = isinstance(value, str)
            parts = [part.strip() for part in value.split(",")] if words else list(value)
            return [_set(name, told[0] if told else 0, part) for part in parts]
        if isinstance(told, str):
            return _text(name, str(value))
        return _number(value)
    except ArgumentError:
        raise
    except (TypeError, ValueError, OverflowError):
        kind = "a list" if isinstance(told, list) else "a number"
        raise ArgumentError(
            f"{name} must be {kind}, as in the file", value=f"got {value!r}"
        ) from None


def _text(name: str, value: str) -> str:
    fault = text_fault(value)
    if fault:
        raise ArgumentError(f"{name} {fault}")
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool):
        raise TypeError(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    whole = isinstance(value, int) or (
        isinstance(value, str) and value.strip().lstrip("+-").isdigit()
    )
    return int(value) if whole and abs(number) < 2**53 else number
