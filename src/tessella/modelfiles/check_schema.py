"""Holding a document against the schema, and wording what does not fit.

All mistakes are noted, each at its key path. What is unknown gets the nearest name; of several
kinds of table the one that ``kind`` says is meant.
"""

from __future__ import annotations

import math
from typing import Any

from tessella.modelfiles.mistakes import find_closest, find_text_fault, format_brief, suggest_name
from tessella.modelfiles.schema import DEFINITIONS, Schema
from tessella.modelfiles.toml_document import TomlDocument
from tessella.modelfiles.toml_lines import KeyPath

JSON_TYPES = {"string": str, "number": (int, float), "array": list, "object": dict}
UNKNOWN_MAX_KEYS = 100  # keys of one table
TYPE_NAMES = {"string": "text", "number": "a number", "array": "a list", "object": "a table"}


def check_schema(
    document: TomlDocument, value: Any, schema: Schema, key_path: KeyPath = ()
) -> None:
    """Note all that is wrong with ``value``, which stands at ``key_path``."""
    schema = _resolve_reference(schema)
    if "oneOf" in schema:
        branch = _choose_branch(document, value, schema, key_path)
        if branch is not None:
            check_schema(document, value, branch, key_path)
        return
    if not _matches_type(value, schema):
        document.note_mistake(
            key_path,
            f"{_format_key_path(key_path)} must be {_describe_schema(schema)}; "
            f"got {format_brief(value)}",
        )
    elif isinstance(value, float) and not math.isfinite(value):
        document.note_mistake(key_path, f"{_format_key_path(key_path)} must be finite; got {value}")
    elif isinstance(value, str) and "maxLength" in schema and find_text_fault(value):
        document.note_mistake(key_path, f"{_format_key_path(key_path)} {find_text_fault(value)}")
    elif isinstance(value, dict):
        _check_table(document, value, schema, key_path)
    elif isinstance(value, list):
        _check_length(document, value, schema, "Items", key_path)
        for i, item in enumerate(value):
            check_schema(document, item, schema.get("items", {}), (*key_path, i))


def _resolve_reference(schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    return DEFINITIONS[schema["$ref"].rpartition("/")[2]]


def _matches_type(value: Any, schema: Schema) -> bool:
    if "const" in schema or "enum" in schema:
        return isinstance(value, str) and value in schema.get("enum", [schema.get("const")])
    kinds = schema.get("type")
    if kinds is None:
        return True
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return any(isinstance(value, JSON_TYPES[k]) and not isinstance(value, bool) for k in kinds)


def _describe_schema(schema: Schema) -> str:
    return schema.get("title") or TYPE_NAMES[schema["type"]]


def _check_table(document: TomlDocument, value: dict, schema: Schema, key_path: KeyPath) -> None:
    known = schema.get("properties", {})
    extra_schema = schema.get("additionalProperties", {})
    title = schema.get("title", "this table")
    unknown = [name for name in value if name not in known] if extra_schema is False else []
    if len(unknown) > UNKNOWN_MAX_KEYS:
        document.note_mistake((*key_path, unknown[0]), f"{title} has {len(unknown):,} unknown keys")
        document.raise_mistakes()
    misspelt = {
        find_closest(name, known) for name in unknown
    }  # a key that is misspelt is not missing too
    for name in schema.get("required", ()):
        if name not in value and name not in misspelt:
            document.note_mistake(key_path, f"{title} needs {name!r}")
    _check_length(document, value, schema, "Properties", key_path)
    for name, item in value.items():
        item_path = (*key_path, name)
        if name in known:
            check_schema(document, item, known[name], item_path)
        elif extra_schema is False:
            document.note_mistake(
                item_path, f"unknown key {format_brief(name)} in {title}{suggest_name(name, known)}"
            )
        else:
            check_schema(document, item, extra_schema, item_path)


def _check_length(
    document: TomlDocument, value: dict | list, schema: Schema, suffix: str, key_path: KeyPath
) -> None:
    """Note that entries are missing; where there are too many, nothing else is looked at."""
    if len(value) < schema.get(f"min{suffix}", 0):
        document.note_mistake(key_path, f"{_format_key_path(key_path)} needs at least one entry")
    max_count = schema.get(f"max{suffix}", len(value))
    if len(value) > max_count:
        document.note_mistake(
            key_path,
            f"{_format_key_path(key_path)} has at most {max_count} entries; got {len(value):,}",
        )
        document.raise_mistakes()


def _choose_branch(
    document: TomlDocument, value: Any, schema: Schema, key_path: KeyPath
) -> Schema | None:
    """The one of several schemas that is meant, None where a mistake was noted."""
    branches = [_resolve_reference(branch) for branch in schema["oneOf"]]
    kinds = [branch.get("properties", {}).get("kind") for branch in branches]
    if not all(kinds):
        matches = [branch for branch in branches if _matches_type(value, branch)]
        if not matches:
            requirement = f"{_format_key_path(key_path)} must be {_describe_schema(schema)}"
            document.note_mistake(key_path, f"{requirement}; got {format_brief(value)}")
        return matches[0] if matches else None
    title = schema["title"]
    names = [kind["const"] for kind in kinds]
    if not isinstance(value, dict):
        document.note_mistake(key_path, f"{title} must be a table; got {format_brief(value)}")
    elif "kind" not in value:
        document.note_mistake(key_path, f"{title} needs a 'kind': {', '.join(names)}")
    elif value["kind"] not in names:
        kind_given = value["kind"]
        suggestion = (
            suggest_name(kind_given, names)
            if isinstance(kind_given, str)
            else f"; there are {', '.join(names)}"
        )
        document.note_mistake(
            (*key_path, "kind"), f"unknown kind {format_brief(kind_given)} of {title}{suggestion}"
        )
    else:
        return branches[names.index(value["kind"])]
    return None


def _format_key_path(key_path: KeyPath) -> str:
    """``stages 2, pays``: a place in words, counted from 1."""
    parts: list[str] = []
    for part in key_path:
        if isinstance(part, int):
            parts[-1] = f"{parts[-1]} {part + 1}"
        else:
            parts.append(part)
    return ", ".join(parts) or "the file"
