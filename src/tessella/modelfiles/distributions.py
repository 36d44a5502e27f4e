"""Distributions of a model file, as noises of finitely many values, and the sections with tables.

Counts end at a largest value, which takes the tail: P(X >= largest). What is continuous is rounded
to the nearest whole number, P(k) = F(k + 1/2) - F(k - 1/2), with both tails put on the ends. A mean
or a chance may be an expression of axes and action: its array has a last axis of length one, along
which the values lie.

Tables may be looked up by the values of a distribution, and the chances of a distribution may look
into tables; so values are read before tables, and chances after them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, format_brief, format_value
from tessella.mdp.stages import Noise, truncated_poisson
from tessella.mdp.state_action_space import call_by_name
from tessella.modelfiles.expressions import NUMBER
from tessella.modelfiles.formula import FORMULA_MAX_COMBINATIONS, Formula, make_signature
from tessella.modelfiles.symbols import SymbolTable, infer_kind
from tessella.modelfiles.tables import (
    CsvColumns,
    CsvFiles,
    LookupTable,
    make_csv_table,
    make_inline_table,
    to_integers,
)
from tessella.modelfiles.toml_document import KeyPath, TomlDocument, suggest_name

DISTRIBUTION_MAX_VALUES = 100_000  # values of a distribution
DISTRIBUTION_MAX_MAGNITUDE = 10_000_000  # a whole number that a distribution may reach

Law = Callable[..., NDArray[np.float64]]  # probabilities of values, given its parameters


@dataclass(frozen=True, eq=False)
class ConditionalProbabilities:
    """The probabilities of values by a law, as a function of what the formulas name."""

    law: Law
    values: Sequence
    formulas: Mapping[str, Formula]  # of the parameters of the law

    def __post_init__(self) -> None:
        signature = make_signature(n for f in self.formulas.values() for n in f.free_names)
        object.__setattr__(self, "__signature__", signature)

    def __call__(self, /, **arrays: Any) -> NDArray[np.float64]:
        shape = np.broadcast_shapes(*(np.shape(array) for array in arrays.values()))
        count = np.prod(shape, dtype=float) * len(self.values)
        if count > FORMULA_MAX_COMBINATIONS:
            limit = f"{FORMULA_MAX_COMBINATIONS:,} probabilities over all states and actions"
            raise ModelError(f"a distribution has at most {limit}", value=f"there are {count:,.0f}")
        parameters = {name: call_by_name(f, arrays, name) for name, f in self.formulas.items()}
        return self.law(np.asarray(self.values), **parameters)


def poisson(values: NDArray, mean: Any) -> NDArray[np.float64]:
    return truncated_poisson(mean, int(values[-1]))


def binomial(values: NDArray, chance: Any) -> NDArray[np.float64]:
    from scipy.stats import binom

    return binom.pmf(values, values[-1], _require_probability(chance))


def negative_binomial(values: NDArray, successes: Any, chance: Any) -> NDArray[np.float64]:
    from scipy.stats import nbinom

    n = _require_positive(successes, "the number of successes")
    p = _require_probability(chance, allow_zero=False)
    probabilities = nbinom.pmf(values, n, p)
    probabilities[..., -1] = nbinom.sf(values[-1] - 1, n, p)[..., 0]
    return probabilities


def geometric(values: NDArray, chance: Any) -> NDArray[np.float64]:
    return negative_binomial(values, 1.0, chance)


def normal(values: NDArray, mean: Any, deviation: Any) -> NDArray[np.float64]:
    from scipy.stats import norm

    scale = _require_positive(deviation, "the deviation of a normal quantity")
    return _interval_probabilities(norm.cdf(values[:-1] + 0.5, _with_value_axis(mean), scale))


def gamma(values: NDArray, mean: Any, variation: Any) -> NDArray[np.float64]:
    from scipy.stats import gamma as law

    shape = 1 / _require_positive(variation, "the variation of a gamma quantity") ** 2
    scale = _require_positive(mean, "the mean of a gamma quantity") / shape
    return _interval_probabilities(law.cdf(values[:-1] + 0.5, shape, scale=scale))


def uniform(values: NDArray) -> NDArray[np.float64]:
    return np.full(len(values), 1 / len(values))


def explicit(values: NDArray, **probabilities: Any) -> NDArray[np.float64]:
    """Probabilities one by one, under the names 0, 1, ..."""
    columns = [_with_value_axis(probabilities[str(i)]) for i in range(len(values))]
    return np.concatenate(np.broadcast_arrays(*columns), axis=-1)


LAWS: dict[str, Law] = {
    "poisson": poisson,
    "binomial": binomial,
    "negative_binomial": negative_binomial,
    "geometric": geometric,
    "normal": normal,
    "gamma": gamma,
    "uniform": uniform,
}


def _with_value_axis(array: Any) -> NDArray[np.float64]:
    """An array whose last axis, of length one, is for the values of the noise."""
    result = np.asarray(array, dtype=float)
    return result.reshape(1) if result.ndim == 0 else result


def _interval_probabilities(cumulative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities below the first edge, between edges and above the last."""
    shape = (*cumulative.shape[:-1], 1)
    return np.diff(np.concatenate([np.zeros(shape), cumulative, np.ones(shape)], axis=-1), axis=-1)


def _require_probability(array: Any, *, allow_zero: bool = True) -> NDArray[np.float64]:
    range_text = "from 0 to 1" if allow_zero else "above 0 and at most 1"
    chances = np.asarray(array, dtype=float)
    is_valid = (chances <= 1) & ((chances >= 0) if allow_zero else (chances > 0))
    return _require(chances, is_valid, f"a chance must be a number {range_text}")


def _require_positive(array: Any, subject: str) -> NDArray[np.float64]:
    numbers = np.asarray(array, dtype=float)
    is_valid = np.isfinite(numbers) & (numbers > 0)
    return _require(numbers, is_valid, f"{subject} must be finite and above 0")


def _require(array: NDArray, is_valid: NDArray, requirement: str) -> NDArray[np.float64]:
    if not np.all(is_valid):
        first_bad = array.ravel()[np.argmin(np.ravel(is_valid))]
        raise ModelError(requirement, value=f"got {format_value(float(first_bad))}")
    return _with_value_axis(array)


@dataclass(eq=False)
class DistributionReader:
    """Reads distributions, and the tables that depend on their values."""

    document: TomlDocument
    symbols: SymbolTable
    values: dict[str, list] = field(default_factory=dict)  # of each distribution
    laws: dict[str, Law] = field(default_factory=dict)  # of each distribution

    def __post_init__(self) -> None:
        self.files = CsvFiles(self.document.path.parent, self.document.limits)

    def read_values(self) -> None:
        """The values that each distribution may take."""
        for name, entry in self.document.section("distributions").items():
            key_path = ("distributions", name)
            if not self.symbols.define(name, "a distribution", key_path):
                continue
            entry = entry if isinstance(entry, dict) else {}
            given_values = entry.get("values")
            self.symbols.noises[name] = infer_kind(given_values, None) if given_values else NUMBER
            result = self._read_distribution(key_path, entry)
            if result is not None:
                self.values[name], self.laws[name] = result

    def _read_distribution(self, key_path: KeyPath, entry: dict) -> tuple[list, Law] | None:
        kind = entry.get("kind")
        if kind == "empirical":
            return self._read_empirical(key_path, entry)
        if kind == "values":
            return self._read_explicit(key_path, entry)
        if not isinstance(kind, str) or kind not in LAWS:
            return None
        if kind in ("normal", "uniform"):
            values = self._read_range(key_path, entry)
        else:
            key = "trials" if kind == "binomial" else "largest"
            limit = DISTRIBUTION_MAX_VALUES - 1
            largest = self.symbols.read_integer((*key_path, key), entry.get(key), 0, limit)
            values = None if largest is None else [*range(largest + 1)]
        return None if values is None else (values, LAWS[kind])

    def make_noises(self) -> dict[str, Noise]:
        """The distributions as noises; call it after the tables and terms are read."""
        noises = {}
        for name, law in self.laws.items():
            entry = self.document.section("distributions")[name]
            key_path = ("distributions", name)
            formulas = {
                key: self.symbols.read_formula(formula_path, text, self.symbols.state_names)
                for key, formula_path, text in _probability_formulas(key_path, entry)
            }
            with self.document.noting_errors(key_path):
                if None not in formulas.values():
                    values = self.values[name]
                    probabilities = ConditionalProbabilities(law, values, formulas)  # type: ignore[arg-type]
                    is_constant = not inspect.signature(probabilities).parameters
                    noises[name] = Noise(
                        name, values, probabilities() if is_constant else probabilities
                    )
        return noises

    def read_tables(self, values_by_name: Mapping[str, list | None]) -> None:
        """Read the tables, over the values (``values_by_name``) of what they are looked up by."""
        for name, entry in self.document.section("tables").items():
            key_path = ("tables", name)
            if not self.symbols.define(name, "a table", key_path):
                continue
            entry = entry if isinstance(entry, dict) else {}
            table = self._read_table(key_path, entry, values_by_name)
            if table is None:
                self.symbols.invalid_names.add(name)
            else:
                self.symbols.tables[name] = table

    def _read_lookup_names(self, key_path: KeyPath, entry: dict) -> list[str] | None:
        """The names by which a table is looked up; None for one that has a mistake."""
        by = entry.get("by")
        if not isinstance(by, list) or not by or not all(isinstance(name, str) for name in by):
            return None
        if len(set(by)) < len(by):
            self.document.note_mistake((*key_path, "by"), "a table is looked up by different names")
            return None
        if set(entry) & {"values", "csv", "column"} not in ({"values"}, {"csv", "column"}):
            self.document.note_mistake(key_path, "a table has 'values', or 'csv' and 'column'")
            return None
        return by

    def _read_table(
        self, key_path: KeyPath, entry: dict, values_by_name: Mapping[str, list | None]
    ) -> LookupTable | None:
        by = self._read_lookup_names(key_path, entry)
        if by is None:
            return None
        with self.document.noting_errors(key_path):
            if "csv" in entry:
                columns = self._read_columns(key_path, entry, by)
                kinds = self.symbols.kinds
                return columns and make_csv_table(by, columns, entry["column"], kinds)
            for i, name in enumerate(by):
                subject = "axis, action or distribution"
                self.symbols.check_known(subject, name, values_by_name, (*key_path, "by", i))
            values = {name: values_by_name.get(name) for name in by}
            known = {name: listed for name, listed in values.items() if listed is not None}
            return make_inline_table(by, entry["values"], known) if len(known) == len(by) else None
        return None

    def _read_columns(
        self, key_path: KeyPath, entry: dict, by: Sequence[str] = ()
    ) -> CsvColumns | None:
        """The columns of the file that an entry names; None where one that it needs is missing."""
        file = entry.get("csv")
        column = entry.get("column")
        if not isinstance(file, str) or not isinstance(column, str):
            return None
        columns = self.files.read_columns(file)
        required = [
            ((*key_path, "column"), column),
            *(((*key_path, "by", i), n) for i, n in enumerate(by)),
        ]
        missing = [(path, name) for path, name in required if name not in columns.cells]
        for path, name in missing:
            suggestion = suggest_name(name, columns.cells)
            message = f"{file} has no column {format_brief(name)}{suggestion}"
            self.document.note_mistake(path, message)
        return None if missing else columns

    def _read_range(self, key_path: KeyPath, entry: dict) -> list[int] | None:
        """Values from the smallest to the largest."""
        limit = DISTRIBUTION_MAX_MAGNITUDE
        low, high = (
            self.symbols.read_integer((*key_path, key), entry.get(key), -limit, limit)
            for key in ("smallest", "largest")
        )
        if low is None or high is None:
            return None
        if not 0 <= high - low < DISTRIBUTION_MAX_VALUES:
            count = f"{DISTRIBUTION_MAX_VALUES:,}"
            requirement = f"a distribution goes up from its smallest value, to {count} at most"
            self.document.note_mistake(key_path, f"{requirement}; got {low} to {high}")
            return None
        return [*range(low, high + 1)]

    def _read_empirical(self, key_path: KeyPath, entry: dict) -> tuple[list, Law] | None:
        """The values of a column, each as likely as it is frequent."""
        with self.document.noting_errors(key_path):
            columns = self._read_columns(key_path, entry)
            if columns is None:
                return None
            numbers = columns.read_numbers(entry["column"])
            values, counts = np.unique(np.asarray(numbers), return_counts=True)
            if len(values) > DISTRIBUTION_MAX_VALUES:
                raise ModelError(f"a distribution has at most {DISTRIBUTION_MAX_VALUES:,} values")
            shares = counts / counts.sum()
            return to_integers(values.tolist()), lambda values: shares
        return None

    def _read_explicit(self, key_path: KeyPath, entry: dict) -> tuple[list, Law] | None:
        """Values listed one by one."""
        values = self.symbols.read_values((*key_path, "values"), entry.get("values"))
        probabilities = entry.get("probabilities")
        if values is None or not isinstance(probabilities, list):
            return None
        if len(values) != len(probabilities) or len(values) > DISTRIBUTION_MAX_VALUES:
            requirement = "a distribution has a probability for each value"
            counts_text = f"{len(values)} values and {len(probabilities)} probabilities"
            self.document.note_mistake(key_path, f"{requirement}; got {counts_text}")
            return None
        return values, explicit


def _probability_formulas(key_path: KeyPath, entry: dict) -> list[tuple[str, KeyPath, Any]]:
    """Name, key path and text of the expressions that decide a distribution's probabilities."""
    if entry["kind"] == "values":
        numbered = enumerate(entry["probabilities"])
        return [(str(i), (*key_path, "probabilities", i), text) for i, text in numbered]
    law = LAWS.get(entry["kind"], uniform)  # empirical: without parameters, like uniform
    keys = [*inspect.signature(law).parameters][1:]
    return [(key, (*key_path, key), entry.get(key)) for key in keys]
