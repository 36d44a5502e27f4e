"""The sections ``[measures]`` and ``[constraints]`` of a model file.

Counts and measures have names of their own, apart from those of expressions: a distribution
``demand`` may be counted as ``demand``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tessella.mdp.measures import CONSTRAINT_KEYS, Constraint, read_measure
from tessella.modelfiles.symbols import SymbolTable
from tessella.modelfiles.toml_document import KeyPath, TomlDocument


def list_counts(document: TomlDocument) -> set[str]:
    """Names of all that the stages or events of a document count."""
    entries = [entry for key in ("stages", "events") for _, entry in document.entries(key)]
    tables = [entry.get("counts") for entry in entries] + [document.section("counts_rate")]
    return {name for table in tables if isinstance(table, dict) for name in table}


def read_measures(
    symbols: SymbolTable, counts: Collection[str], known: Collection[str]
) -> dict[str, Any]:
    """The fields ``measures`` and ``constraints`` of a model.

    The model counts ``counts``, and has the measures ``known`` already.
    """
    document = symbols.document
    section = document.section("measures")
    measures = {}
    for name, text in section.items():
        with document.noting_errors(("measures", name)):
            if isinstance(text, str):
                measures[name] = read_measure(name, text, counts)
    constraints = {}
    for name, entry in document.section("constraints").items():
        path = ("constraints", name)
        symbols.refuse_unknown("measure", name, [*section, *sorted(known)], path)
        constraints[name] = _read_constraint(symbols, path, entry)
    return {"measures": measures, "constraints": constraints}


def _read_constraint(symbols: SymbolTable, path: KeyPath, entry: Any) -> Constraint | None:
    if symbols.document.has_mistake(path):
        return None
    if len(entry) != 1:
        message = f"a constraint has 'at_least' or 'at_most'; {path[-1]} has {len(entry)} of them"
        symbols.document.note_mistake(path, message)
        return None
    ((key, given),) = entry.items()
    level = symbols.read_number((*path, key), given)
    return None if level is None else CONSTRAINT_KEYS[key](level)
