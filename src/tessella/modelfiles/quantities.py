"""Quantities of a document: numbers, whole numbers, lists of values and formulas, each at a place.

A number may be written as an expression of parameters. Each method gives None where it noted a
mistake, or where the shape of the document was wrong there already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tessella.errors import shown
from tessella.modelfiles.document import Document
from tessella.modelfiles.expressions.formula import Formula, Names, make_formula
from tessella.modelfiles.expressions.tokens import WHOLE, ExpressionError
from tessella.modelfiles.expressions.tree import NUMBER, TEXT
from tessella.modelfiles.lines import Path
from tessella.modelfiles.mistakes import nearest

LONGEST = 1_000_000  # values of an axis


@dataclass(frozen=True, eq=False)
class Quantities:
    """What reads them: the document, and its parameters."""

    document: Document
    parameters: Mapping[str, Any]
    known: Mapping[str, str] = field(default_factory=dict)  # every name of the model
    formulas: list[tuple[Path, Formula]] = field(default_factory=list)  # that were made

    def formula(
        self, place: Path, said: Any, names: Names, wanted: str | None = NUMBER
    ) -> Formula | None:
        """The formula of an expression or a number, of the kind that is wanted, if one is."""
        if isinstance(said, bool) or not isinstance(said, str | int | float):
            return None

        def note(error: ExpressionError) -> None:
            where = (
                f" (character {error.at + 1})" if isinstance(said, str) and len(said) > 1 else ""
            )
            self.document.mistake(place, f"{_key(place)}: {error.text}{where}")

        found = make_formula(said, names, wanted, note)
        self.formulas.extend([] if found is None else [(place, found)])
        return found

    def number(self, place: Path, said: Any) -> float | None:
        """A finite number, or an expression of parameters."""
        hidden = frozenset(self.known) - set(self.parameters)
        found = self.formula(place, said, Names(constants=self.parameters, hidden=hidden))
        if found is None:
            return None
        value = float(found())
        if not np.isfinite(value):
            self.document.mistake(place, f"{_key(place)} must be finite; it is {value}")
            return None
        return value

    def whole(self, place: Path, said: Any, low: int, high: int) -> int | None:
        """A whole number within bounds, or an expression of parameters."""
        value = self.number(place, said)
        if value is None:
            return None
        if value != round(value) or not low <= value <= high:
            rule = f"{_key(place)} must be a whole number from {low:,} to {high:,}"
            self.document.mistake(place, f"{rule}; it is {shown(value)}")
            return None
        return int(value)

    def values(self, place: Path, said: Any) -> list | None:
        """The values of an axis: a list, a range, or a list parameter by its name."""
        if isinstance(said, list):
            plain = all(isinstance(x, str | int | float) and not isinstance(x, bool) for x in said)
            return said if plain and said else None
        if isinstance(said, dict):
            return self._range(place, said)
        return self._parameter(place, said) if isinstance(said, str) else None

    def _parameter(self, place: Path, name: str) -> list | None:
        found = self.parameters.get(name)
        if isinstance(found, list):
            return found
        lists = [key for key, value in self.parameters.items() if isinstance(value, list)]
        self.document.mistake(place, f"no parameter {name!r} is a list{nearest(name, lists)}")
        return None

    def _range(self, place: Path, said: dict) -> list | None:
        found = {key: self.number((*place, key), said[key]) for key in said if key in ENDS}
        parts = {key: number for key, number in found.items() if number is not None}
        if len(parts) < len(found) or not {"from", "to"} <= set(parts):
            return None
        if "points" not in parts:
            return self._steps(place, parts["from"], parts["to"], parts.get("step", 1.0))
        if "step" in parts:
            self.document.mistake(place, "a range has 'step' or 'points', not both")
            return None
        count = self.whole((*place, "points"), said["points"], 2, LONGEST)
        return None if count is None else np.linspace(parts["from"], parts["to"], count).tolist()

    def _steps(self, place: Path, low: float, high: float, step: float) -> list | None:
        with np.errstate(all="ignore"):
            count = np.float64(high - low) / np.float64(step) if step else np.float64(np.nan)
        if not (0 <= count < LONGEST) or abs(count - round(count)) > 1e-9 * max(count, 1.0):
            rule = f"a range goes from its first value in steps to its last, at most {LONGEST:,}"
            found = f"from {shown(low)} to {shown(high)} in steps of {shown(step)}"
            self.document.mistake(place, f"{rule}; got {found}")
            return None
        many = round(count) + 1
        if all(end == round(end) and abs(end) <= WHOLE for end in (low, high, step)):
            return [*range(int(low), int(low) + many * int(step), int(step))]
        return (low + step * np.arange(many)).tolist()


ENDS = ("from", "to", "step", "points")


def kind_of_values(said: Any, values: list | None) -> str:
    """Whether values are text; where they could not be read, whether they look like it."""
    listed = values if values is not None else said
    return TEXT if isinstance(listed, list) and listed and isinstance(listed[0], str) else NUMBER


def _key(place: Path) -> str:
    """The key that a place ends in, and which of its entries: ``matrix 2 1``."""
    last = max((i for i, part in enumerate(place) if isinstance(part, str)), default=0)
    return " ".join(str(part + 1 if isinstance(part, int) else part) for part in place[last:])
