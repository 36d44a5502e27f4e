"""A model file that describes a model of its own: what it holds, part by part, and the model it is.

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
from tessella.errors import ArgumentError, ModelError
from tessella.grid import StateGrid
from tessella.mdp.context import TIME
from tessella.mdp.stages import Noise
from tessella.modelfiles.distributions import RandomSections
from tessella.modelfiles.expressions import CONDITION, EXACT_INTEGER_MAX, NUMBER
from tessella.modelfiles.mistakes import find_text_fault, suggest_name
from tessella.modelfiles.symbols import QuantityReader, SymbolTable, infer_kind
from tessella.modelfiles.toml_document import KeyPath, TomlDocument

HORIZON_MAX_PERIODS = 10_000


@dataclass(eq=False)
class ModelDocument:
    """What a document describes, as far as it could be read."""

    document: TomlDocument
    settings: Mapping[str, Any]
    axes: dict[str, list | None] = field(default_factory=dict)
    scratch: dict[str, list | None] = field(default_factory=dict)
    actions: list | dict[str, list] | None = None
    action_name: str = "action"
    criterion: Criterion | float | None = None  # a number is an interest rate
    feasible: Any = None
    noises: dict[str, Noise] = field(default_factory=dict)
    values_by_name: dict[str, list | None] = field(default_factory=dict)  # of all that has some

    def __post_init__(self) -> None:
        parameters = read_parameters(self.document, self.settings)
        self.symbols = SymbolTable(self.document, parameters)
        self.quantities = QuantityReader(self.document, parameters, self.symbols.definitions)

    @property
    def data(self) -> dict[str, Any]:
        return self.document.data

    def read(self) -> None:
        """Read all parts but the events of a period."""
        for name in self.symbols.parameters:
            self.symbols.define(name, "a parameter", ("parameters", name))
        self._read_axes("axes", self.axes, self.symbols.axes, "an axis")
        self._read_axes("scratch", self.scratch, self.symbols.scratch, "a scratch axis")
        self._read_actions()
        self._read_criterion()
        random_sections = RandomSections(self.document, self.quantities, self.symbols)
        random_sections.read_values()
        self.values_by_name = {
            **self.axes,
            **self.scratch,
            **self._action_values(),
            **random_sections.values,
        }
        random_sections.read_tables(self.values_by_name)
        self._read_terms()
        self.noises = random_sections.make_noises()
        self._read_feasible_and_start()

    def _read_axes(
        self, key: str, values_by_axis: dict, kinds: dict[str, str], subject: str
    ) -> None:
        for name, given in self.document.section(key).items():
            key_path = (key, name)
            values = self.quantities.read_values(key_path, given)
            if self.symbols.define(name, subject, key_path):
                kinds[name] = infer_kind(given, values)
                values_by_axis[name] = self._check_axis(key_path, name, values)

    def _check_axis(self, key_path: KeyPath, name: str, values: list | None) -> list | None:
        with self.document.noting_errors(key_path):
            return None if values is None else [*StateGrid({name: values}).values[0].tolist()]
        return None

    def _read_actions(self) -> None:
        section = self.document.section("actions")
        name = section.get("name", "action")
        self.action_name = name if isinstance(name, str) else "action"
        is_defined = self.symbols.define(self.action_name, "the action", ("actions", "name"))
        if "components" in section and "values" in section:
            message = "actions have 'values' or 'components', not both"
            self.document.note_mistake(("actions",), message)
        elif isinstance(section.get("components"), dict):
            self._read_components(section["components"])
        else:
            self.actions = self.quantities.read_values(("actions", "values"), section.get("values"))
            kind = infer_kind(section.get("values"), self.actions)
            self.symbols.action = {self.action_name: kind} if is_defined else {}
            if section and "values" not in section and not self.document.has_mistake(("actions",)):
                self.document.note_mistake(("actions",), "actions need 'values' or 'components'")

    def _read_components(self, components: dict[str, Any]) -> None:
        values_by_component: dict[str, list] = {}
        for name, given in components.items():
            key_path = ("actions", "components", name)
            values = self.quantities.read_values(key_path, given)
            if self.symbols.define(name, "a component", key_path):
                self.symbols.action[name] = infer_kind(given, values)
                values_by_component |= {} if values is None else {name: values}
        self.actions = values_by_component if len(values_by_component) == len(components) else None

    def _action_values(self) -> dict[str, list]:
        if isinstance(self.actions, dict):
            return self.actions
        return {} if self.actions is None else {self.action_name: self.actions}

    def _read_criterion(self) -> None:
        section = self.document.section("criterion")
        kind = section.get("kind")
        numbers = {
            key: self.quantities.read_number(("criterion", key), section[key])
            for key in ("discount", "interest")
            if key in section
        }
        if kind == "horizon" and self.symbols.define(TIME, "the time", ("criterion", "kind")):
            self.symbols.time = {TIME: NUMBER}
        if "interest" in section and "events" not in self.data:
            message = "an interest rate is for events; stages have a discount"
            self.document.note_mistake(("criterion", "interest"), message)
        elif None not in numbers.values():
            self._make_criterion(kind, numbers)

    def _make_criterion(self, kind: Any, numbers: dict[str, Any]) -> None:
        is_known = isinstance(kind, str) and kind in CRITERIA
        if is_known and not self.document.has_mistake(("criterion",)):
            with self.document.noting_errors(("criterion",)):
                self.criterion = CRITERIA[kind](self, **numbers)

    def make_discounted(self, discount: float | None = None, interest: float | None = None) -> Any:
        """A discount for each period, or for events an interest rate."""
        if "events" not in self.data:
            if discount is None:
                raise ModelError("a discounted criterion needs 'discount'")
            return Discounted(discount)
        if interest is None or discount is not None:
            raise ModelError("with events a discounted criterion has 'interest', and no 'discount'")
        return interest

    def make_finite_horizon(self, discount: float = 1.0) -> Criterion | None:
        section = self.document.section("criterion")
        given = section.get("periods")
        periods = self.quantities.read_integer(
            ("criterion", "periods"), given, 1, HORIZON_MAX_PERIODS
        )
        names = self.symbols.visible_names(self.symbols.axes)
        final = section.get("final", 0.0)
        final_value = self.quantities.read_formula(("criterion", "final"), final, names)
        if periods is None or final_value is None:
            return None
        return FiniteHorizon(periods, discount, final_value)

    def _read_terms(self) -> None:
        for name, given in self.document.section("terms").items():
            key_path = ("terms", name)
            if not self.symbols.define(name, "a term", key_path):
                continue
            formula = self.quantities.read_formula(key_path, given, self.symbols.all_names, None)
            if formula is not None:
                self.symbols.terms[name] = formula
            else:
                self.symbols.invalid_names.add(name)

    def _read_feasible_and_start(self) -> None:
        symbols = self.symbols
        if isinstance(self.data.get("feasible"), str):
            names = symbols.visible_names(symbols.axes, symbols.action, symbols.time)
            given = self.data["feasible"]
            self.feasible = self.quantities.read_formula(("feasible",), given, names, CONDITION)
        for name in self.document.section("start"):
            if name not in symbols.time:
                symbols.refuse_unknown("axis", name, symbols.axes, ("start", name))


CRITERIA = {
    "discounted": ModelDocument.make_discounted,
    "average": lambda model: Average(),
    "total": lambda model: Total(),
    "horizon": ModelDocument.make_finite_horizon,
}


def read_parameters(document: TomlDocument, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a document, with ``settings`` in the place of some."""
    defaults = document.section("parameters")
    for name in settings:
        if name not in defaults:
            where = f"{document.path} has no parameter {name!r}"
            raise ArgumentError(f"{where}{suggest_name(name, defaults)}")
    given = {
        name: _convert_setting(name, defaults[name], value) for name, value in settings.items()
    }
    return {
        name: given.get(name, _valid_parameter(document, name, defaults[name])) for name in defaults
    }


def _valid_parameter(document: TomlDocument, name: str, value: Any) -> Any:
    """A parameter as it is, or a number in its place where that is none of the kinds there are."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return value if all(isinstance(x, str | int | float) for x in value) else []
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1.0
    if isinstance(value, int) and abs(value) > EXACT_INTEGER_MAX:
        requirement = f"a whole number must lie within {EXACT_INTEGER_MAX:,}, to be exact"
        document.note_mistake(("parameters", name), f"{requirement}; got {value}")
    return value if math.isfinite(value) else 1.0


def _convert_setting(name: str, default: Any, value: Any) -> Any:
    """A parameter set from outside, of the kind that it has in the document."""
    try:
        if isinstance(default, list):
            is_text = isinstance(value, str)
            parts = [part.strip() for part in value.split(",")] if is_text else list(value)
            return [_convert_setting(name, default[0] if default else 0, part) for part in parts]
        if isinstance(default, str):
            return _require_text(name, str(value))
        return _parse_number(value)
    except ArgumentError:
        raise
    except (TypeError, ValueError, OverflowError):
        kind = "a list" if isinstance(default, list) else "a number"
        raise ArgumentError(
            f"{name} must be {kind}, as in the file", value=f"got {value!r}"
        ) from None


def _require_text(name: str, value: str) -> str:
    fault = find_text_fault(value)
    if fault:
        raise ArgumentError(f"{name} {fault}")
    return value


def _parse_number(value: Any) -> int | float:
    if isinstance(value, bool):
        raise TypeError(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    is_integer = isinstance(value, int) or (
        isinstance(value, str) and value.strip().lstrip("+-").isdigit()
    )
    return int(value) if is_integer and abs(number) < 2**53 else number
