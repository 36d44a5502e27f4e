"""Holding a document against the schema, and wording what does not fit.

All mistakes are noted, each at its key path. What is unknown gets the nearest name; of several
kinds of table the one that ``kind`` says is meant.
"""

from __future__ import annotations

import math
from typing import Any

from tessella.modelfiles.document import Document
from tessella.modelfiles.lines import Path
from tessella.modelfiles.mistakes import brief, closest, nearest, text_fault
from tessella.modelfiles.schema import DEFINITIONS, Schema

KINDS = {"string": str, "number": (int, float), "array": list, "object": dict}
MOST_UNKNOWN = 100  # keys of one table
WORDS = {"string": "text", "number": "a number", "array": "a list", "object": "a table"}


def check_shape(document: Document, value: Any, schema: Schema, place: Path = ()) -> None:
    """Note all that is wrong with ``value``, which stands at ``place``."""
    schema = _followed(schema)
    if "oneOf" in schema:
        branch = _branch(document, value, schema, place)
        if branch is not None:
            check_shape(document, value, branch, place)
        return
    if not _fits(value, schema):
        document.mistake(place, f"{_called(place)} must be {_needed(schema)}; got {brief(value)}")
    elif isinstance(value, float) and not math.isfinite(value):
        document.mistake(place, f"{_called(place)} must be finite; got {value}")
    elif isinstance(value, str) and "maxLength" in schema and text_fault(value):
        document.mistake(place, f"{_called(place)} {text_fault(value)}")
    elif isinstance(value, dict):
        _check_table(document, value, schema, place)
    elif isinstance(value, list):
        _check_length(document, value, schema, "Items", place)
        for i, item in enumerate(value):
            check_shape(document, item, schema.get("items", {}), (*place, i))


def _followed(schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    return DEFINITIONS[schema["$ref"].rpartition("/")[2]]


def _fits(value: Any, schema: Schema) -> bool:
    if "const" in schema or "enum" in schema:
        return isinstance(value, str) and value in schema.get("enum", [schema.get("const")])
    kinds = schema.get("type")
    if kinds is None:
        return True
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return any(isinstance(value, KINDS[k]) and not isinstance(value, bool) for k in kinds)


def _needed(schema: Schema) -> str:
    return schema.get("title") or WORDS[schema["type"]]


def _check_table(document: Document, value: dict, schema: Schema, place: Path) -> None:
    known = schema.get("properties", {})
    rest = schema.get("additionalProperties", {})
    title = schema.get("title", "this table")
    unknown = [name for name in value if name not in known] if rest is False else []
    if len(unknown) > MOST_UNKNOWN:
        document.mistake((*place, unknown[0]), f"{title} has {len(unknown):,} unknown keys")
        document.refuse()
    meant = {closest(name, known) for name in unknown}  # a key that is misspelt is not missing too
    for name in schema.get("required", ()):
        if name not in value and name not in meant:
            document.mistake(place, f"{title} needs {name!r}")
    _check_length(document, value, schema, "Properties", place)
    for name, item in value.items():
        here = (*place, name)
        if name in known:
            check_shape(document, item, known[name], here)
        elif rest is False:
            document.mistake(here, f"unknown key {brief(name)} in {title}{nearest(name, known)}")
        else:
            check_shape(document, item, rest, here)


def _check_length(
    document: Document, value: dict | list, schema: Schema, of: str, place: Path
) -> None:
    """Note that entries are missing; where there are too many, nothing else is looked at."""
    if len(value) < schema.get(f"min{of}", 0):
        document.mistake(place, f"{_called(place)} needs at least one entry")
    most = schema.get(f"max{of}", len(value))
    if len(value) > most:
        document.mistake(place, f"{_called(place)} has at most {most} entries; got {len(value):,}")
        document.refuse()


def _branch(document: Document, value: Any, schema: Schema, place: Path) -> Schema | None:
    """The one of several schemas that is meant, None where a mistake was noted."""
    branches = [_followed(branch) for branch in schema["oneOf"]]
    kinds = [branch.get("properties", {}).get("kind") for branch in branches]
    if not all(kinds):
        meant = [branch for branch in branches if _fits(value, branch)]
        if not meant:
            needed = f"{_called(place)} must be {_needed(schema)}"
            document.mistake(place, f"{needed}; got {brief(value)}")
        return meant[0] if meant else None
    title, names = schema["title"], [kind["const"] for kind in kinds]
    if not isinstance(value, dict):
        document.mistake(place, f"{title} must be a table; got {brief(value)}")
    elif "kind" not in value:
        document.mistake(place, f"{title} needs a 'kind': {', '.join(names)}")
    elif value["kind"] not in names:
        said = value["kind"]
        near = nearest(said, names) if isinstance(said, str) else f"; there are {', '.join(names)}"
        document.mistake((*place, "kind"), f"unknown kind {brief(said)} of {title}{near}")
    else:
        return branches[names.index(value["kind"])]
    return None


def _called(place: Path) -> str:
    """``stages 2, pays``: a place in words, counted from 1."""
    parts: list[str] = []
    for part in place:
        if isinstance(part, int):
            parts[-1] = f"{parts[-1]} {part + 1}"
        else:
            parts.append(part)
    return ", ".join(parts) or "the file"
