"""The names of a model that a file tells: axes, action, noises, parameters, tables and terms.

Each means one thing, so that an expression can be read without knowing where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tessella.errors import ModelError
from tessella.grid import refuse_taken
from tessella.modelfiles.document import Document
from tessella.modelfiles.expressions.formula import Formula, Names
from tessella.modelfiles.expressions.tree import WORDS, Table
from tessella.modelfiles.lines import Path
from tessella.modelfiles.mistakes import LONGEST_TEXT, brief, nearest

NEXT = "next"  # the value that a chain goes to
RESERVED = WORDS | {NEXT}


@dataclass(eq=False)
class Vocabulary:
    """What expressions may name, as far as the document was read."""

    document: Document
    parameters: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)  # names to kinds of values
    scratch: dict[str, str] = field(default_factory=dict)
    action: dict[str, str] = field(default_factory=dict)  # the action, or its components
    noises: dict[str, str] = field(default_factory=dict)
    time: dict[str, str] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    terms: dict[str, Formula] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    spoiled: set[str] = field(default_factory=set)  # names of what has mistakes of its own

    def claim(self, name: str, what: str, place: Path) -> bool:
        """Give a name to something; a mistake where it cannot be that."""
        if self._claimed(name, what, place):
            return True
        self.spoiled |= {name} - set(self.owners)
        return False

    def _claimed(self, name: str, what: str, place: Path) -> bool:
        if not name.isidentifier() or not name.isascii() or name.startswith("_"):
            rule = "a name is letters, digits and underscores, and begins with a letter"
            self.document.mistake(place, f"{rule}; got {brief(name)}")
        elif len(name) > LONGEST_TEXT:
            self.document.mistake(place, f"a name has at most {LONGEST_TEXT} characters")
        elif name in RESERVED:
            self.document.mistake(place, f"{what} cannot be called {name!r}: expressions use it")
        elif name in self.owners:
            said = f"{what} cannot be called {name!r}: {self.owners[name]} is"
            self.document.mistake(place, said)
        elif self._free(name, what, place):
            self.owners[name] = what
            return True
        return False

    def _free(self, name: str, what: str, place: Path) -> bool:
        if what not in ("an axis", "the action", "a component"):
            return True
        try:
            refuse_taken(name, what)
        except ModelError as error:
            self.document.mistake(place, str(error))
            return False
        return True

    def refuse_unknown(self, what: str, name: str, known: Iterable[str], place: Path) -> None:
        """Note that a name is none of the ``known``, unless it is of something with mistakes."""
        if name not in known and name not in self.spoiled:
            self.document.mistake(place, f"unknown {what} {brief(name)}{nearest(name, known)}")

    def names(self, *groups: dict[str, str]) -> Names:
        """The names of a place that may speak of these groups of arrays."""
        kinds = {name: kind for group in groups for name, kind in group.items()}
        hidden, spoiled = self._hidden(kinds), frozenset(self.spoiled)
        return Names(kinds, self.parameters, self.tables, self.terms, hidden, spoiled)

    @property
    def state(self) -> Names:
        """The names of a place within a period: axes, action, time."""
        return self.names(self.axes, self.scratch, self.action, self.time)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of the values of whatever has some."""
        return {**self.axes, **self.scratch, **self.action, **self.noises}

    def called(self, noise: object) -> dict[str, str]:
        """The noise of a stage; all of them where that is misspelt, which is a mistake already."""
        known = isinstance(noise, str) and noise in self.noises
        return {noise: self.noises[noise]} if known else self.noises  # type: ignore[dict-item]

    def with_noise(self, noise: object) -> Names:
        """The names of a stage with a noise."""
        return self.names(self.axes, self.scratch, self.action, self.time, self.called(noise))

    @property
    def all(self) -> Names:
        """Whatever an expression may name somewhere."""
        return self.names(self.axes, self.scratch, self.action, self.time, self.noises)

    def _hidden(self, kinds: Iterable[str]) -> frozenset[str]:
        groups = (self.axes, self.scratch, self.action, self.noises)
        return frozenset(name for group in groups for name in group) - set(kinds)
