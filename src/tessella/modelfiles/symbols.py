"""The names of a model that a file describes: axes, action, noises, parameters, tables and terms.

Each means one thing, so that an expression can be read without knowing where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tessella.errors import ModelError
from tessella.grid import refuse_reserved
from tessella.modelfiles.expressions import RESERVED_WORDS
from tessella.modelfiles.formula import Formula, LookupSource, VisibleNames
from tessella.modelfiles.mistakes import TEXT_MAX_CHARACTERS, format_brief, suggest_name
from tessella.modelfiles.toml_document import TomlDocument
from tessella.modelfiles.toml_lines import KeyPath

NEXT_NAME = "next"  # the value that a chain goes to
RESERVED_NAMES = RESERVED_WORDS | {NEXT_NAME}


@dataclass(eq=False)
class SymbolTable:
    """What expressions may name, as far as the document was read."""

    document: TomlDocument
    parameters: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)  # names to kinds of values
    scratch: dict[str, str] = field(default_factory=dict)
    action: dict[str, str] = field(default_factory=dict)  # the action, or its components
    noises: dict[str, str] = field(default_factory=dict)
    time: dict[str, str] = field(default_factory=dict)
    tables: dict[str, LookupSource] = field(default_factory=dict)
    terms: dict[str, Formula] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    invalid_names: set[str] = field(default_factory=set)  # names of what has mistakes of its own

    def define(self, name: str, subject: str, key_path: KeyPath) -> bool:
        """Give a name to something; a mistake where it cannot be that."""
        if self._try_define(name, subject, key_path):
            return True
        self.invalid_names |= {name} - set(self.definitions)
        return False

    def _try_define(self, name: str, subject: str, key_path: KeyPath) -> bool:
        if not name.isidentifier() or not name.isascii() or name.startswith("_"):
            requirement = "a name is letters, digits and underscores, and begins with a letter"
            self.document.note_mistake(key_path, f"{requirement}; got {format_brief(name)}")
        elif len(name) > TEXT_MAX_CHARACTERS:
            self.document.note_mistake(
                key_path, f"a name has at most {TEXT_MAX_CHARACTERS} characters"
            )
        elif name in RESERVED_NAMES:
            self.document.note_mistake(
                key_path, f"{subject} cannot be called {name!r}: expressions use it"
            )
        elif name in self.definitions:
            message = f"{subject} cannot be called {name!r}: {self.definitions[name]} is"
            self.document.note_mistake(key_path, message)
        elif self._is_allowed_by_grid(name, subject, key_path):
            self.definitions[name] = subject
            return True
        return False

    def _is_allowed_by_grid(self, name: str, subject: str, key_path: KeyPath) -> bool:
        if subject not in ("an axis", "the action", "a component"):
            return True
        try:
            refuse_reserved(name, subject)
        except ModelError as error:
            self.document.note_mistake(key_path, str(error))
            return False
        return True

    def refuse_unknown(
        self, subject: str, name: str, known: Iterable[str], key_path: KeyPath
    ) -> None:
        """Note that a name is none of the ``known``, unless it is of something with mistakes."""
        if name not in known and name not in self.invalid_names:
            self.document.note_mistake(
                key_path, f"unknown {subject} {format_brief(name)}{suggest_name(name, known)}"
            )

    def visible_names(self, *groups: dict[str, str]) -> VisibleNames:
        """The names of a place that may speak of these groups of arrays."""
        kinds = {name: kind for group in groups for name, kind in group.items()}
        hidden = self._hidden_names(kinds)
        invalid = frozenset(self.invalid_names)
        return VisibleNames(kinds, self.parameters, self.tables, self.terms, hidden, invalid)

    @property
    def state_names(self) -> VisibleNames:
        """The names of a place within a period: axes, action, time."""
        return self.visible_names(self.axes, self.scratch, self.action, self.time)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of the values of whatever has some."""
        return {**self.axes, **self.scratch, **self.action, **self.noises}

    def stage_noises(self, noise: object) -> dict[str, str]:
        """The noise of a stage; all of them where that is misspelt, which is a mistake already."""
        is_known = isinstance(noise, str) and noise in self.noises
        return {noise: self.noises[noise]} if is_known else self.noises  # type: ignore[dict-item]

    def noise_stage_names(self, noise: object) -> VisibleNames:
        """The names of a stage with a noise."""
        return self.visible_names(
            self.axes, self.scratch, self.action, self.time, self.stage_noises(noise)
        )

    @property
    def all_names(self) -> VisibleNames:
        """Whatever an expression may name somewhere."""
        return self.visible_names(self.axes, self.scratch, self.action, self.time, self.noises)

    def _hidden_names(self, kinds: Iterable[str]) -> frozenset[str]:
        groups = (self.axes, self.scratch, self.action, self.noises)
        return frozenset(name for group in groups for name in group) - set(kinds)
