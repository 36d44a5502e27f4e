"""The names of a model that a file describes, and the numbers, values and formulas at its places.

Each name (an axis, the action, a noise, a parameter, a table or a term) means one thing, so that an
expression can be read without knowing its place. A number may be written as an expression of
parameters. A reader returns None where it noted a mistake, or where ``check_schema`` did before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tessella.errors import ModelError, format_brief, format_value
from tessella.grid import require_unreserved
from tessella.modelfiles.expressions import (
    EXACT_INTEGER_MAX,
    NUMBER,
    RESERVED_WORDS,
    TEXT,
    ExpressionError,
)
from tessella.modelfiles.formula import Formula, VisibleNames, make_formula
from tessella.modelfiles.tables import LookupTable
from tessella.modelfiles.toml_document import (
    TEXT_MAX_CHARACTERS,
    KeyPath,
    TomlDocument,
    suggest_name,
)

AXIS_MAX_VALUES = 1_000_000  # values of an axis
RANGE_KEYS = ("from", "to", "step", "points")
NEXT_NAME = "next"  # the value that a chain goes to
RESERVED_NAMES = RESERVED_WORDS | {NEXT_NAME}


@dataclass(eq=False)
class SymbolTable:
    """The names that are defined so far, and readers of numbers, values and formulas."""

    document: TomlDocument
    parameters: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)  # names to kinds of values
    scratch: dict[str, str] = field(default_factory=dict)
    action: dict[str, str] = field(default_factory=dict)  # the action, or its components
    noises: dict[str, str] = field(default_factory=dict)
    time: dict[str, str] = field(default_factory=dict)
    tables: dict[str, LookupTable] = field(default_factory=dict)
    terms: dict[str, Formula] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)  # every name: ``an axis``, ...
    invalid_names: set[str] = field(default_factory=set)  # whose definitions have mistakes
    formulas: list[tuple[KeyPath, Formula]] = field(default_factory=list)  # all that were read

    def define(self, name: str, subject: str, key_path: KeyPath) -> bool:
        """Give ``name`` to ``subject``, such as ``an axis``; False if it cannot have that name."""
        with self.document.noting_errors(key_path):
            self._check_name(name, subject)
            self.definitions[name] = subject
            return True
        self.invalid_names |= {name} - set(self.definitions)
        return False

    def _check_name(self, name: str, subject: str) -> None:
        if not name.isidentifier() or not name.isascii() or name.startswith("_"):
            requirement = "a name is letters, digits and underscores, and begins with a letter"
            raise ModelError(requirement, value=f"got {format_brief(name)}")
        if len(name) > TEXT_MAX_CHARACTERS:
            raise ModelError(f"a name has at most {TEXT_MAX_CHARACTERS} characters")
        if name in RESERVED_NAMES:
            raise ModelError(f"{subject} cannot be called {name!r}: expressions use it")
        if name in self.definitions:
            owner = self.definitions[name]
            raise ModelError(f"{subject} cannot be called {name!r}: {owner} has this name")
        if subject in ("an axis", "the action", "a component"):
            require_unreserved(name, subject)

    def check_known(self, subject: str, name: str, known: Iterable[str], key_path: KeyPath) -> None:
        """Note a name that is not ``known``, unless its definition has mistakes."""
        if name not in known and name not in self.invalid_names:
            message = f"unknown {subject} {format_brief(name)}{suggest_name(name, known)}"
            self.document.note_mistake(key_path, message)

    def visible_names(self, *groups: dict[str, str]) -> VisibleNames:
        """The names of a place where the arrays of these groups are known."""
        kinds = {name: kind for group in groups for name, kind in group.items()}
        hidden = frozenset(self.kinds) - set(kinds)
        invalid = frozenset(self.invalid_names)
        return VisibleNames(kinds, self.parameters, self.tables, self.terms, hidden, invalid)

    @property
    def all_axes(self) -> dict[str, str]:
        """The axes of states, and those that exist within a period."""
        return {**self.axes, **self.scratch}

    @property
    def state_groups(self) -> tuple[dict[str, str], ...]:
        """Arrays that a place within a period may name, without its noise."""
        return (self.axes, self.scratch, self.action, self.time)

    @property
    def state_names(self) -> VisibleNames:
        return self.visible_names(*self.state_groups)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of the values of each axis, action and noise."""
        return {**self.axes, **self.scratch, **self.action, **self.noises}

    def stage_noises(self, noise: object) -> dict[str, str]:
        """The noise of a stage; all noises where its name is unknown, which is noted elsewhere."""
        is_known = isinstance(noise, str) and noise in self.noises
        return {noise: self.noises[noise]} if is_known else self.noises  # type: ignore[dict-item]

    def read_formula(
        self, key_path: KeyPath, given: Any, names: VisibleNames, wanted: str | None = NUMBER
    ) -> Formula | None:
        """The formula of an expression or a number; ``wanted`` is its kind, None for any."""
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            return None

        def note(error: ExpressionError) -> None:
            has_position = isinstance(given, str) and len(given) > 1
            position_text = f" (character {error.position + 1})" if has_position else ""
            message = f"{_format_key(key_path)}: {error.text}{position_text}"
            self.document.note_mistake(key_path, message)

        formula = make_formula(given, names, wanted, note)
        self.formulas.extend([] if formula is None else [(key_path, formula)])
        return formula

    def read_number(self, key_path: KeyPath, given: Any) -> float | None:
        """A finite number, or an expression of parameters."""
        hidden = frozenset(self.definitions) - set(self.parameters)
        formula = self.read_formula(
            key_path, given, VisibleNames(constants=self.parameters, hidden=hidden)
        )
        if formula is None:
            return None
        value = float(formula())
        if not np.isfinite(value):
            message = f"{_format_key(key_path)} must be finite; it is {value}"
            self.document.note_mistake(key_path, message)
            return None
        return value

    def read_integer(self, key_path: KeyPath, given: Any, low: int, high: int) -> int | None:
        """A whole number within bounds, or an expression of parameters."""
        value = self.read_number(key_path, given)
        if value is None:
            return None
        if value != round(value) or not low <= value <= high:
            requirement = f"{_format_key(key_path)} must be a whole number from {low:,} to {high:,}"
            self.document.note_mistake(key_path, f"{requirement}; it is {format_value(value)}")
            return None
        return int(value)

    def read_values(self, key_path: KeyPath, given: Any) -> list | None:
        """The values of an axis: a list, a range, or a list parameter by its name."""
        if isinstance(given, list):
            are_scalars = all(
                isinstance(x, str | int | float) and not isinstance(x, bool) for x in given
            )
            return given if are_scalars and given else None
        if isinstance(given, dict):
            return self._read_range(key_path, given)
        if isinstance(given, str):
            lists = {key: x for key, x in self.parameters.items() if isinstance(x, list)}
            if given in lists:
                return lists[given]
            message = f"no parameter {given!r} is a list{suggest_name(given, lists)}"
            self.document.note_mistake(key_path, message)
        return None

    def _read_range(self, key_path: KeyPath, entry: dict) -> list | None:
        numbers = {
            key: self.read_number((*key_path, key), entry[key])
            for key in entry
            if key in RANGE_KEYS
        }
        parts = {key: number for key, number in numbers.items() if number is not None}
        if len(parts) < len(numbers) or not {"from", "to"} <= set(parts):
            return None
        if "points" not in parts:
            return self._expand_steps(key_path, parts["from"], parts["to"], parts.get("step", 1.0))
        if "step" in parts:
            self.document.note_mistake(key_path, "a range has 'step' or 'points', not both")
            return None
        count = self.read_integer((*key_path, "points"), entry["points"], 2, AXIS_MAX_VALUES)
        return None if count is None else np.linspace(parts["from"], parts["to"], count).tolist()

    def _expand_steps(self, key_path: KeyPath, low: float, high: float, step: float) -> list | None:
        with np.errstate(all="ignore"):
            count = np.float64(high - low) / np.float64(step) if step else np.float64(np.nan)
        if not (0 <= count < AXIS_MAX_VALUES) or abs(count - round(count)) > 1e-9 * max(count, 1.0):
            limit = f"at most {AXIS_MAX_VALUES:,}"
            requirement = f"a range goes from its first value in steps to its last, {limit}"
            range_text = (
                f"from {format_value(low)} to {format_value(high)} in steps of {format_value(step)}"
            )
            self.document.note_mistake(key_path, f"{requirement}; got {range_text}")
            return None
        n_values = round(count) + 1
        if all(end == round(end) and abs(end) <= EXACT_INTEGER_MAX for end in (low, high, step)):
            return [*range(int(low), int(low) + n_values * int(step), int(step))]
        return (low + step * np.arange(n_values)).tolist()


def infer_kind(given: Any, values: list | None) -> str:
    """Text or number, by the first of the values; of ``given`` where they could not be read."""
    candidates = values if values is not None else given
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return TEXT if isinstance(first, str) else NUMBER


def _format_key(key_path: KeyPath) -> str:
    """The last key of a path with the positions after it, from 1: ``matrix 2 1``."""
    last = max((i for i, part in enumerate(key_path) if isinstance(part, str)), default=0)
    return " ".join(str(part + 1 if isinstance(part, int) else part) for part in key_path[last:])
