"""A model file that describes a model in full: its parts, and the model that they make.

Parts are read in the order in which they build on one another: parameters, axes, actions, the
values of distributions, tables, terms, and then the expressions of a period, which are stages in
their order or events at rates. Mistakes are noted and reading goes on; only a document without any
becomes a model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria import Average, Discounted, FiniteHorizon, Total
from tessella.criteria.criterion import Criterion
from tessella.errors import ArgumentError, ModelError, format_brief
from tessella.grid import StateGrid
from tessella.mdp.measures import (
    CONSTRAINT_KEYS,
    MeasureFormula,
    check_measure_name,
    read_level,
    read_measure,
)
from tessella.mdp.stages import Decide, Event, Jump, Move, Noise, Pay, Shift
from tessella.mdp.stages.stage import Stage
from tessella.mdp.state_action_space import TIME, call_by_name
from tessella.modelfiles.distributions import DistributionReader
from tessella.modelfiles.expressions import CONDITION, EXACT_INTEGER_MAX, NUMBER
from tessella.modelfiles.formula import (
    FORMULA_MAX_COMBINATIONS,
    Formula,
    VisibleNames,
    make_signature,
)
from tessella.modelfiles.symbols import NEXT_NAME, SymbolTable, infer_kind
from tessella.modelfiles.toml_document import KeyPath, TomlDocument, find_text_fault, suggest_name

MODEL_FILE_MAX_PERIODS = 10_000  # periods of a horizon
CERTAIN_NOISE = "end"  # of a jump without a distribution, as in the problems of the package
STAGES = {"pay": Pay, "decide": Decide, "shift": Shift, "move": Move, "jump": Jump}


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
    values_by_name: dict[str, list | None] = field(default_factory=dict)  # axes, actions, noises

    def __post_init__(self) -> None:
        self.symbols = SymbolTable(self.document, read_parameters(self.document, self.settings))

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
        distributions = DistributionReader(self.document, self.symbols)
        distributions.read_values()
        actions = self.actions if isinstance(self.actions, dict) else {}
        if isinstance(self.actions, list):
            actions = {self.action_name: self.actions}
        values = distributions.values
        self.values_by_name = {**self.axes, **self.scratch, **actions, **values}
        distributions.read_tables(self.values_by_name)
        self._read_terms()
        self.noises = distributions.make_noises()
        self._read_feasible_and_start()

    def _read_axes(
        self, key: str, values_by_axis: dict, kinds: dict[str, str], subject: str
    ) -> None:
        for name, given in self.document.section(key).items():
            key_path = (key, name)
            values = self.symbols.read_values(key_path, given)
            if self.symbols.define(name, subject, key_path):
                kinds[name] = infer_kind(given, values)
                values_by_axis[name] = None
                with self.document.noting_errors(key_path):
                    if values is not None:
                        values_by_axis[name] = StateGrid({name: values}).values[0].tolist()

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
            self.actions = self.symbols.read_values(("actions", "values"), section.get("values"))
            kind = infer_kind(section.get("values"), self.actions)
            self.symbols.action = {self.action_name: kind} if is_defined else {}
            if section and "values" not in section and not self.document.has_mistake(("actions",)):
                self.document.note_mistake(("actions",), "actions need 'values' or 'components'")

    def _read_components(self, components: dict[str, Any]) -> None:
        values_by_component: dict[str, list] = {}
        for name, given in components.items():
            key_path = ("actions", "components", name)
            values = self.symbols.read_values(key_path, given)
            if self.symbols.define(name, "a component", key_path):
                self.symbols.action[name] = infer_kind(given, values)
                values_by_component |= {} if values is None else {name: values}
        self.actions = values_by_component if len(values_by_component) == len(components) else None

    def _read_criterion(self) -> None:
        section = self.document.section("criterion")
        kind = section.get("kind")
        numbers = {
            key: self.symbols.read_number(("criterion", key), section[key])
            for key in ("discount", "interest")
            if key in section
        }
        if kind == "horizon" and self.symbols.define(TIME, "the time", ("criterion", "kind")):
            self.symbols.time = {TIME: NUMBER}
        if "interest" in section and "events" not in self.data:
            message = "an interest rate is for events; stages have a discount"
            self.document.note_mistake(("criterion", "interest"), message)
        is_valid = bool(section) and not self.document.has_mistake(("criterion",))
        if is_valid and None not in numbers.values():
            with self.document.noting_errors(("criterion",)):
                self.criterion = CRITERIA[str(kind)](self, **numbers)

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
        periods = self.symbols.read_integer(
            ("criterion", "periods"), given, 1, MODEL_FILE_MAX_PERIODS
        )
        names = self.symbols.visible_names(self.symbols.axes)
        final = section.get("final", 0.0)
        final_value = self.symbols.read_formula(("criterion", "final"), final, names)
        if periods is None or final_value is None:
            return None
        return FiniteHorizon(periods, discount, final_value)

    def _read_terms(self) -> None:
        symbols = self.symbols
        for name, given in self.document.section("terms").items():
            key_path = ("terms", name)
            if not symbols.define(name, "a term", key_path):
                continue
            names = symbols.visible_names(*symbols.state_groups, symbols.noises)
            formula = symbols.read_formula(key_path, given, names, None)
            if formula is None:
                symbols.invalid_names.add(name)
            else:
                symbols.terms[name] = formula

    def _read_feasible_and_start(self) -> None:
        symbols = self.symbols
        if isinstance(self.data.get("feasible"), str):
            names = symbols.visible_names(symbols.axes, symbols.action, symbols.time)
            given = self.data["feasible"]
            self.feasible = self.symbols.read_formula(("feasible",), given, names, CONDITION)
        for name in self.document.section("start"):
            if name not in symbols.time:
                symbols.check_known("axis", name, symbols.axes, ("start", name))


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
    """A parameter, or a valid one in its place where ``check_schema`` rejected it."""
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
    if isinstance(default, str):
        fault = find_text_fault(str(value))
        if fault:
            raise ArgumentError(f"{name} {fault}")
        return str(value)
    try:
        if not isinstance(default, list):
            return _parse_number(value)
        is_text = isinstance(value, str)
        parts = [part.strip() for part in value.split(",")] if is_text else list(value)
    except (TypeError, ValueError, OverflowError):
        kind = "a list" if isinstance(default, list) else "a number"
        requirement = f"{name} must be {kind}, as in the file"
        raise ArgumentError(requirement, value=f"got {value!r}") from None
    return [_convert_setting(name, default[0] if default else 0, part) for part in parts]


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


@dataclass(eq=False)
class PeriodReader:
    """Reads stages and events of a model whose other parts are known."""

    model: ModelDocument
    stages: list[tuple[KeyPath, Stage]] = field(default_factory=list)
    events: list[tuple[KeyPath, Event]] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)  # names of counts

    def __post_init__(self) -> None:
        self.document = self.model.document
        self.symbols = self.model.symbols

    def read_stages(self) -> None:
        """All stages that have no mistakes."""
        is_taken = CERTAIN_NOISE in self.symbols.definitions
        name = f"the {CERTAIN_NOISE}" if is_taken else CERTAIN_NOISE  # which no file can write
        for key_path, entry in self.document.entries("stages"):
            kind = entry.get("kind")
            if kind == "pay" and entry.keys().isdisjoint(("pays", "costs", "counts")):
                message = "a stage of kind 'pay' needs 'pays', 'costs' or 'counts'"
                self.document.note_mistake(key_path, message)
            arguments = self._read_arguments(key_path, entry)
            if kind == "jump" and "noise" not in entry:
                arguments["noise"] = Noise(name, (0,), (1.0,))
            if self._is_complete(key_path, arguments):
                self.stages.append((key_path, STAGES[str(kind)](**arguments)))

    def read_events(self) -> None:
        """All events that have no mistakes."""
        names: set[str] = set()
        for key_path, entry in self.document.entries("events"):
            name = entry.get("name")
            if isinstance(name, str) and name in names:
                requirement = (
                    f"events must have different names; {format_brief(name)} is used above"
                )
                self.document.note_mistake((*key_path, "name"), requirement)
            names |= {name} if isinstance(name, str) else set()
            arguments = self._read_arguments(key_path, entry)
            if self._is_complete(key_path, arguments):
                numbers = {key: simplify_formula(given) for key, given in arguments.items()}
                self.events.append((key_path, Event(**numbers)))

    def read_rate(self, key: str) -> Formula | float | None:
        """What is paid, or costs, per unit of time."""
        given = self.model.data.get(key)
        return simplify_formula(self.symbols.read_formula((key,), given, self.symbols.state_names))

    def read_counts(self, path: KeyPath, given: dict, names: VisibleNames) -> dict | None:
        """What measures count, by name."""
        self.counted |= set(given)
        formulas = {n: self.symbols.read_formula((*path, n), x, names) for n, x in given.items()}
        for name in given:
            with self.document.noting_errors((*path, name)):
                check_measure_name(name)
        counts = {name: simplify_formula(formula) for name, formula in formulas.items()}
        return None if None in counts.values() else counts

    def _is_complete(self, key_path: KeyPath, arguments: Mapping[str, Any]) -> bool:
        has_all = all(argument is not None for argument in arguments.values())
        return has_all and not self.document.has_mistake(key_path)

    def _read_arguments(self, key_path: KeyPath, entry: dict) -> dict[str, Any]:
        """The arguments of a stage or an event, which are the keys of its table.

        None where one has mistakes; what ``check_schema`` rejected is not read.
        """
        noises = self.symbols.stage_noises(entry["noise"]) if "noise" in entry else {}
        names = self.symbols.visible_names(*self.symbols.state_groups, noises)
        arguments = {}
        for key, given in entry.items():
            path = (*key_path, key)
            if key != "kind" and path not in self.document.mistake_paths:
                arguments[key] = self._read_argument(path, entry, given, names, noises)
        return arguments

    def _read_argument(
        self, path: KeyPath, entry: dict, given: Any, names: VisibleNames, noises: dict[str, str]
    ) -> Any:
        symbols = self.symbols
        match path[-1]:
            case "name" | "between" | "edge":
                return given
            case "axis":
                symbols.check_known("axis", given, symbols.all_axes, path)
                return given if given in symbols.all_axes else None
            case "noise":  # one with mistakes of its own is known by name alone
                symbols.check_known("distribution", given, symbols.noises, path)
                return self.model.noises.get(given)
            case "matrix":
                return self._read_matrix(path, str(entry.get("axis", "")), given)
            case "to":
                return self._read_move(path, str(entry.get("axis", "")), given, names)
            case "counts":
                return self.read_counts(path, given, names)
            case "by":
                names = symbols.visible_names(noises, symbols.action)
        return symbols.read_formula(path, given, names)

    def _read_move(self, path: KeyPath, axis: str, given: Any, names: VisibleNames) -> Any:
        """The value that an axis takes, text on an axis of text; or a table of several."""
        if not isinstance(given, dict):
            kind = self.symbols.all_axes.get(axis, NUMBER)
            return self.symbols.read_formula(path, given, names, kind)
        formulas = {}
        for name, text in given.items():
            self.symbols.check_known("axis", name, self.symbols.all_axes, (*path, name))
            formulas[name] = self._read_move((*path, name), name, text, names)
        return None if None in formulas.values() else JumpTargets(formulas)

    def _read_matrix(self, path: KeyPath, axis: str, given: Any) -> Any:
        if isinstance(given, list):
            rows = [
                [self.symbols.read_number((*path, i, j), x) for j, x in enumerate(row)]
                for i, row in enumerate(given)
                if isinstance(row, list)
            ]
            return None if any(None in row for row in rows) else rows
        values = self.model.values_by_name.get(axis)
        if axis not in self.symbols.all_axes or values is None:
            return None
        next_kind = {NEXT_NAME: self.symbols.all_axes[axis]}
        names = self.symbols.visible_names(*self.symbols.state_groups, next_kind)
        formula = self.symbols.read_formula(path, given, names)
        return None if formula is None else ChainMatrix(axis, np.asarray(values), formula)


def read_measures(
    symbols: SymbolTable, counts: Collection[str], known: dict[str, MeasureFormula]
) -> dict[str, Any]:
    """Measures and constraints of a model that has these counts, and measures already.

    Their names are apart from those of expressions: a noise ``demand`` may be a count ``demand``.
    """
    document = symbols.document
    measures: dict[str, Any] = known | dict.fromkeys(document.section("measures"))
    for name, text in document.section("measures").items():
        with document.noting_errors(("measures", name)):
            measures[name] = read_measure(name, text, counts) if isinstance(text, str) else None
    constraints = {}
    for name, entry in document.section("constraints").items():
        path = ("constraints", name)
        symbols.check_known("measure", name, [*measures, *sorted(counts)], path)
        if isinstance(entry, dict) and len(entry) != 1:
            message = "a constraint has 'at_least' or 'at_most'"
            document.note_mistake(path, f"{message}; {name} has {len(entry)} of them")
        elif not document.has_mistake(path):
            ((key, given),) = entry.items()
            level = read_level(given) if isinstance(given, str) else None  # such as 98%
            if level is None:
                level = symbols.read_number((*path, key), given)
            constraints[name] = None if level is None else CONSTRAINT_KEYS[key](level)
    return {"measures": measures, "constraints": constraints}


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


def simplify_formula(formula: Any) -> Any:
    """A formula that names nothing as the number that it is; anything else as it is."""
    return float(formula()) if isinstance(formula, Formula) and not formula.free_names else formula
