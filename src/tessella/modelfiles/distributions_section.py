"""The distributions and tables of a document: their values first, then their probabilities.

Tables may be looked up by the values of a distribution, and the chances of a distribution may look
into tables; so values are read before tables, and chances after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import TessellaError
from tessella.mdp.stages import Noise
from tessella.modelfiles import distributions
from tessella.modelfiles.csv_columns import CsvColumns, CsvFiles, to_integers
from tessella.modelfiles.distributions import (
    DISTRIBUTION_MAX_VALUES,
    ProbabilityFunction,
    make_noise,
)
from tessella.modelfiles.expressions import NUMBER
from tessella.modelfiles.mistakes import format_brief, suggest_name
from tessella.modelfiles.quantities import QuantityReader, infer_kind
from tessella.modelfiles.symbols import SymbolTable
from tessella.modelfiles.tables import LookupTable, make_csv_table, make_inline_table
from tessella.modelfiles.toml_document import TomlDocument
from tessella.modelfiles.toml_lines import KeyPath

DISTRIBUTION_MAX_MAGNITUDE = 10_000_000  # a whole number that a distribution may reach


@dataclass(eq=False)
class RandomSections:
    """Distributions and tables, as they are read."""

    document: TomlDocument
    quantities: QuantityReader
    symbols: SymbolTable
    values: dict[str, list] = field(default_factory=dict)  # of each distribution
    probability_functions: dict[str, ProbabilityFunction] = field(
        default_factory=dict
    )  # its chances, given its formulas

    def __post_init__(self) -> None:
        self.files = CsvFiles(self.document.path.parent)

    def _section(self, key: str) -> dict[str, Any]:
        section = self.document.data.get(key)
        return section if isinstance(section, dict) else {}

    def read_values(self) -> None:
        """The values that each distribution may take."""
        for name, entry in self._section("distributions").items():
            key_path = ("distributions", name)
            if not self.symbols.define(name, "a distribution", key_path):
                continue
            given_values = entry.get("values") if isinstance(entry, dict) else None
            self.symbols.noises[name] = infer_kind(given_values, None) if given_values else NUMBER
            kind = entry.get("kind") if isinstance(entry, dict) else None
            read = READERS.get(kind) if isinstance(kind, str) else None
            result = read(self, key_path, entry) if read else None
            if result is not None:
                self.values[name], self.probability_functions[name] = result

    def make_noises(self) -> dict[str, Noise]:
        """The distributions as noises; what their chances name is known by now."""
        noises = {}
        for name, probability_function in self.probability_functions.items():
            entry = self._section("distributions")[name]
            key_path = ("distributions", name)
            formulas = {
                key: self.quantities.read_formula(formula_path, text, self.symbols.state_names)
                for key, formula_path, text in _probability_formulas(key_path, entry)
            }
            if None in formulas.values():
                continue
            valid = {key: formula for key, formula in formulas.items() if formula is not None}
            try:
                noises[name] = make_noise(name, self.values[name], probability_function, valid)
            except TessellaError as error:
                self.document.note_mistake(key_path, str(error))
        return noises

    def read_tables(self, values_by_name: Mapping[str, list | None]) -> None:
        """Read the tables, over the values (``values_by_name``) of what they are looked up by."""
        for name, entry in self._section("tables").items():
            key_path = ("tables", name)
            if self.symbols.define(name, "a table", key_path) and isinstance(entry, dict):
                table = self._read_table(key_path, entry, values_by_name)
                # A mistake in a table is reported once, not wherever it is looked up.
                self.symbols.tables[name] = table or InvalidTable(len(entry.get("by") or ()))

    def _read_table(
        self, key_path: KeyPath, entry: dict, values_by_name: Mapping[str, list | None]
    ) -> LookupTable | None:
        by = entry.get("by")
        if not isinstance(by, list) or not by or not all(isinstance(name, str) for name in by):
            return None
        if len(set(by)) < len(by):
            self.document.note_mistake((*key_path, "by"), "a table is looked up by different names")
            return None
        if ("values" in entry) == ("csv" in entry) or ("csv" in entry) != ("column" in entry):
            requirement = "a table has 'values', or 'csv' and 'column'"
            self.document.note_mistake(key_path, requirement)
            return None
        try:
            if "csv" in entry:
                columns = self._read_columns(key_path, entry, by)
                kinds = self.symbols.kinds
                return columns and make_csv_table(by, columns, entry["column"], kinds)
            return self._read_inline_table(key_path, by, entry["values"], values_by_name)
        except TessellaError as error:
            self.document.note_mistake(key_path, str(error))
            return None

    def _read_columns(
        self, key_path: KeyPath, entry: dict, by: Sequence[str] = ()
    ) -> CsvColumns | None:
        """The columns of the file that a part names, which has the one it asks for."""
        file = entry.get("csv")
        column = entry.get("column")
        if not isinstance(file, str) or not isinstance(column, str):
            return None
        columns = self.files.read_columns(file)
        required = [
            ((*key_path, "column"), column),
            *(((*key_path, "by", i), n) for i, n in enumerate(by)),
        ]
        missing = [
            (column_path, name) for column_path, name in required if name not in columns.cells
        ]
        for column_path, name in missing:
            message = (
                f"{file} has no column {format_brief(name)}{suggest_name(name, columns.cells)}"
            )
            self.document.note_mistake(column_path, message)
        return None if missing else columns

    def _read_inline_table(
        self,
        key_path: KeyPath,
        by: list[str],
        values: Any,
        values_by_name: Mapping[str, list | None],
    ) -> LookupTable | None:
        are_known = True
        for i, name in enumerate(by):
            subject = "axis, action or distribution"
            self.symbols.refuse_unknown(subject, name, values_by_name, (*key_path, "by", i))
            are_known = are_known and values_by_name.get(name) is not None
        if not are_known:
            return None
        return make_inline_table(by, values, {name: values_by_name[name] or [] for name in by})

    def _read_integer(self, key_path: KeyPath, entry: dict, key: str, low: int = 0) -> int | None:
        return self.quantities.read_integer(
            (*key_path, key), entry.get(key), low, DISTRIBUTION_MAX_MAGNITUDE
        )

    def read_count(
        self,
        key_path: KeyPath,
        entry: dict,
        key: str,
        make_probabilities: Callable[[int], ProbabilityFunction],
    ):
        """Values 0 .. the number under ``key``."""
        limit_path = (*key_path, key)
        limit = DISTRIBUTION_MAX_VALUES - 1
        largest = self.quantities.read_integer(limit_path, entry.get(key), 0, limit)
        return None if largest is None else ([*range(largest + 1)], make_probabilities(largest))

    def read_range(
        self,
        key_path: KeyPath,
        entry: dict,
        make_probabilities: Callable[[int, int], ProbabilityFunction],
    ):
        """Values from the smallest to the largest."""
        low = self._read_integer(key_path, entry, "smallest", -DISTRIBUTION_MAX_MAGNITUDE)
        high = self._read_integer(key_path, entry, "largest", -DISTRIBUTION_MAX_MAGNITUDE)
        if low is None or high is None:
            return None
        if not 0 <= high - low < DISTRIBUTION_MAX_VALUES:
            limit = f"{DISTRIBUTION_MAX_VALUES:,}"
            requirement = f"a distribution goes up from its smallest value, to {limit} at most"
            self.document.note_mistake(key_path, f"{requirement}; got {low} to {high}")
            return None
        return [*range(low, high + 1)], make_probabilities(low, high)

    def read_empirical(self, key_path: KeyPath, entry: dict):
        """The values of a column, each as likely as it is frequent."""
        try:
            columns = self._read_columns(key_path, entry)
            if columns is None:
                return None
            numbers = columns.read_numbers(entry["column"])
        except TessellaError as error:
            self.document.note_mistake(key_path, str(error))
            return None
        values, counts = np.unique(np.asarray(numbers), return_counts=True)
        if len(values) > DISTRIBUTION_MAX_VALUES:
            self.document.note_mistake(
                key_path, f"a distribution has at most {DISTRIBUTION_MAX_VALUES:,} values"
            )
            return None
        shares = counts / counts.sum()
        return to_integers(values.tolist()), lambda: shares

    def read_explicit(self, key_path: KeyPath, entry: dict):
        """Values listed one by one."""
        values = self.quantities.read_values((*key_path, "values"), entry.get("values"))
        probabilities = entry.get("probabilities")
        if values is None or not isinstance(probabilities, list):
            return None
        if len(values) != len(probabilities) or len(values) > DISTRIBUTION_MAX_VALUES:
            requirement = "a distribution has a probability for each value"
            counts_text = f"{len(values)} values and {len(probabilities)} probabilities"
            self.document.note_mistake(key_path, f"{requirement}; got {counts_text}")
            return None
        return values, distributions.explicit(len(probabilities))


@dataclass(frozen=True)
class InvalidTable:
    """A table with mistakes, so that what is looked up in it can be checked all the same."""

    arity: int

    def look_up(self, *coordinates: NDArray) -> NDArray[np.float64]:
        return np.asarray(np.nan)


def _probability_formulas(key_path: KeyPath, entry: dict) -> list[tuple[str, KeyPath, Any]]:
    """Name, key path and text of the expressions that decide a distribution's probabilities."""
    if entry["kind"] == "values":
        numbered = enumerate(entry["probabilities"])
        return [(str(i), (*key_path, "probabilities", i), text) for i, text in numbered]
    keys = FORMULA_KEYS.get(entry["kind"], ())
    return [(key, (*key_path, key), entry.get(key)) for key in keys]


FORMULA_KEYS = {
    "poisson": ("mean",),
    "binomial": ("chance",),
    "negative_binomial": ("successes", "chance"),
    "geometric": ("chance",),
    "normal": ("mean", "deviation"),
    "gamma": ("mean", "variation"),
}
READERS: dict[str, Callable[[RandomSections, KeyPath, dict], Any]] = {
    "poisson": lambda r, p, s: r.read_count(p, s, "largest", distributions.poisson),
    "binomial": lambda r, p, s: r.read_count(p, s, "trials", distributions.binomial),
    "negative_binomial": lambda r, p, s: r.read_count(
        p, s, "largest", distributions.negative_binomial
    ),
    "geometric": lambda r, p, s: r.read_count(p, s, "largest", distributions.geometric),
    "gamma": lambda r, p, s: r.read_count(p, s, "largest", distributions.gamma),
    "normal": lambda r, p, s: r.read_range(p, s, distributions.normal),
    "uniform": lambda r, p, s: r.read_range(
        p, s, lambda low, high: distributions.uniform(high - low + 1)
    ),
    "empirical": lambda r, p, s: r.read_empirical(p, s),
    "values": lambda r, p, s: r.read_explicit(p, s),
}
