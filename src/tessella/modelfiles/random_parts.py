"""The distributions and tables of a document: their values first, then what is said of them.

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
from tessella.modelfiles.data import Columns, DataFiles, as_whole
from tessella.modelfiles.distributions import MOST_VALUES, Made, make_noise
from tessella.modelfiles.document import Document
from tessella.modelfiles.expressions.tree import NUMBER
from tessella.modelfiles.lines import Path
from tessella.modelfiles.mistakes import brief, nearest
from tessella.modelfiles.quantities import Quantities, kind_of_values
from tessella.modelfiles.tables import LookUpTable, read_table, told_table
from tessella.modelfiles.vocabulary import Vocabulary

FURTHEST = 10_000_000  # a whole number that a distribution may reach


@dataclass(eq=False)
class RandomParts:
    """Distributions and tables, as they are read."""

    document: Document
    quantities: Quantities
    vocabulary: Vocabulary
    values: dict[str, list] = field(default_factory=dict)  # of each distribution
    made: dict[str, Made] = field(default_factory=dict)  # its chances, given its formulas

    def __post_init__(self) -> None:
        self.files = DataFiles(self.document.path.parent)

    def _part(self, key: str) -> dict[str, Any]:
        found = self.document.data.get(key)
        return found if isinstance(found, dict) else {}

    def read_values(self) -> None:
        """The values that each distribution may take."""
        for name, said in self._part("distributions").items():
            place = ("distributions", name)
            if not self.vocabulary.claim(name, "a distribution", place):
                continue
            listed = said.get("values") if isinstance(said, dict) else None
            self.vocabulary.noises[name] = kind_of_values(listed, None) if listed else NUMBER
            kind = said.get("kind") if isinstance(said, dict) else None
            read = READERS.get(kind) if isinstance(kind, str) else None
            found = read(self, place, said) if read else None
            if found is not None:
                self.values[name], self.made[name] = found

    def noises(self) -> dict[str, Noise]:
        """The distributions as noises; what their chances name is known by now."""
        found = {}
        for name, made in self.made.items():
            said, place = self._part("distributions")[name], ("distributions", name)
            formulas = {
                key: self.quantities.formula(at, text, self.vocabulary.state)
                for key, at, text in _chances(place, said)
            }
            if None in formulas.values():
                continue
            fine = {key: formula for key, formula in formulas.items() if formula is not None}
            try:
                found[name] = make_noise(name, self.values[name], made, fine)
            except TessellaError as error:
                self.document.mistake(place, str(error))
        return found

    def read_tables(self, known: Mapping[str, list | None]) -> None:
        """The tables, over the ``known`` values of what they are looked up by."""
        for name, said in self._part("tables").items():
            place = ("tables", name)
            if self.vocabulary.claim(name, "a table", place) and isinstance(said, dict):
                found = self._table(place, said, known)
                # What is wrong with a table is said once, not wherever it is looked up.
                self.vocabulary.tables[name] = found or Unread(len(said.get("by") or ()))

    def _table(
        self, place: Path, said: dict, known: Mapping[str, list | None]
    ) -> LookUpTable | None:
        by = said.get("by")
        if not isinstance(by, list) or not by or not all(isinstance(name, str) for name in by):
            return None
        if len(set(by)) < len(by):
            self.document.mistake((*place, "by"), "a table is looked up by different names")
            return None
        if ("values" in said) == ("csv" in said) or ("csv" in said) != ("column" in said):
            rule = "a table has 'values', or 'csv' and 'column'"
            self.document.mistake(place, rule)
            return None
        try:
            if "csv" in said:
                columns = self._columns(place, said, by)
                kinds = self.vocabulary.kinds
                return columns and read_table(by, columns, said["column"], kinds)
            return self._told(place, by, said["values"], known)
        except TessellaError as error:
            self.document.mistake(place, str(error))
            return None

    def _columns(self, place: Path, said: dict, by: Sequence[str] = ()) -> Columns | None:
        """The columns of the file that a part names, which has the one it asks for."""
        file, column = said.get("csv"), said.get("column")
        if not isinstance(file, str) or not isinstance(column, str):
            return None
        found = self.files.columns(file)
        asked = [((*place, "column"), column), *(((*place, "by", i), n) for i, n in enumerate(by))]
        missing = [(at, name) for at, name in asked if name not in found.cells]
        for at, name in missing:
            said_of = f"{file} has no column {brief(name)}{nearest(name, found.cells)}"
            self.document.mistake(at, said_of)
        return None if missing else found

    def _told(
        self, place: Path, by: list[str], values: Any, known: Mapping[str, list | None]
    ) -> LookUpTable | None:
        fine = True
        for i, name in enumerate(by):
            what = "axis, action or distribution"
            self.vocabulary.refuse_unknown(what, name, known, (*place, "by", i))
            fine = fine and known.get(name) is not None
        if not fine:
            return None
        return told_table(by, values, {name: known[name] or [] for name in by})

    def _whole(self, place: Path, said: dict, key: str, low: int = 0) -> int | None:
        return self.quantities.whole((*place, key), said.get(key), low, FURTHEST)

    def counted(self, place: Path, said: dict, key: str, made: Callable[[int], Made]):
        """Values 0 .. the number under ``key``."""
        place_of, most = (*place, key), MOST_VALUES - 1
        largest = self.quantities.whole(place_of, said.get(key), 0, most)
        return None if largest is None else ([*range(largest + 1)], made(largest))

    def spanned(self, place: Path, said: dict, made: Callable[[int, int], Made]):
        """Values from the smallest to the largest."""
        low = self._whole(place, said, "smallest", -FURTHEST)
        high = self._whole(place, said, "largest", -FURTHEST)
        if low is None or high is None:
            return None
        if not 0 <= high - low < MOST_VALUES:
            rule = f"a distribution goes up from its smallest value, to {MOST_VALUES:,} at most"
            self.document.mistake(place, f"{rule}; got {low} to {high}")
            return None
        return [*range(low, high + 1)], made(low, high)

    def observed(self, place: Path, said: dict):
        """The values of a column, each as likely as it is frequent."""
        try:
            columns = self._columns(place, said)
            if columns is None:
                return None
            numbers = columns.numbers(said["column"])
        except TessellaError as error:
            self.document.mistake(place, str(error))
            return None
        values, counts = np.unique(np.asarray(numbers), return_counts=True)
        if len(values) > MOST_VALUES:
            self.document.mistake(place, f"a distribution has at most {MOST_VALUES:,} values")
            return None
        shares = counts / counts.sum()
        return as_whole(values.tolist()), lambda: shares

    def listed(self, place: Path, said: dict):
        """Values told one by one."""
        values = self.quantities.values((*place, "values"), said.get("values"))
        chances = said.get("probabilities")
        if values is None or not isinstance(chances, list):
            return None
        if len(values) != len(chances) or len(values) > MOST_VALUES:
            rule = "a distribution has a probability for each value"
            found = f"{len(values)} values and {len(chances)} probabilities"
            self.document.mistake(place, f"{rule}; got {found}")
            return None
        return values, distributions.listed(len(chances))


@dataclass(frozen=True)
class Unread:
    """A table with mistakes, so that what is looked up in it can be checked all the same."""

    arity: int

    def look_up(self, *coordinates: NDArray) -> NDArray[np.float64]:
        return np.asarray(np.nan)


def _chances(place: Path, said: dict) -> list[tuple[str, Path, Any]]:
    """Name, place and text of the expressions that decide the chances of a distribution."""
    if said["kind"] == "values":
        listed = enumerate(said["probabilities"])
        return [(str(i), (*place, "probabilities", i), text) for i, text in listed]
    keys = FORMULAS.get(said["kind"], ())
    return [(key, (*place, key), said.get(key)) for key in keys]


FORMULAS = {
    "poisson": ("mean",),
    "binomial": ("chance",),
    "negative_binomial": ("successes", "chance"),
    "geometric": ("chance",),
    "normal": ("mean", "deviation"),
    "gamma": ("mean", "variation"),
}
READERS: dict[str, Callable[[RandomParts, Path, dict], Any]] = {
    "poisson": lambda r, p, s: r.counted(p, s, "largest", distributions.poisson),
    "binomial": lambda r, p, s: r.counted(p, s, "trials", distributions.binomial),
    "negative_binomial": lambda r, p, s: r.counted(
        p, s, "largest", distributions.negative_binomial
    ),
    "geometric": lambda r, p, s: r.counted(p, s, "largest", distributions.geometric),
    "gamma": lambda r, p, s: r.counted(p, s, "largest", distributions.gamma),
    "normal": lambda r, p, s: r.spanned(p, s, distributions.normal),
    "uniform": lambda r, p, s: r.spanned(
        p, s, lambda low, high: distributions.uniform(high - low + 1)
    ),
    "empirical": lambda r, p, s: r.observed(p, s),
    "values": lambda r, p, s: r.listed(p, s),
}
