"""Holding a document against the schema, and wording what does not fit.

``jsonschema`` finds the mistakes and their key paths; the words are ours. Of several tables the one
that ``kind`` names is meant, of several types the one that the value has; what is unknown gets the
nearest name. Numbers must be finite wherever they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from tessella.modelfiles.mistakes import find_closest, find_text_fault, format_brief, suggest_name
from tessella.modelfiles.schema import Schema, expand_references
from tessella.modelfiles.toml_document import KeyPath, TomlDocument

UNKNOWN_MAX_KEYS = 100  # keys of one table
KIND = "kind"  # the keyword that errors about a kind name, as no keyword of JSON Schema does


def check_schema(document: TomlDocument, schema: Schema) -> None:
    """Note all that is wrong with the shape of a document."""
    refused: set[KeyPath] = set()
    for error in ModelFileValidator(expand_references(schema)).iter_errors(document.data):
        if document.is_full:
            return
        _note_error(document, error)
        if error.validator in ("type", "enum", "oneOf", KIND):
            refused.add(tuple(error.absolute_path))
    _note_non_finite(document, document.data, (), refused)


def _note_non_finite(
    document: TomlDocument, value: Any, key_path: KeyPath, refused: set[KeyPath]
) -> None:
    """Note the numbers that are not finite, outside the values that are ``refused`` already."""
    if key_path in refused:
        return
    if isinstance(value, float) and not math.isfinite(value):
        document.note_mistake(key_path, f"{_format_key_path(key_path)} must be finite; got {value}")
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        _note_non_finite(document, item, (*key_path, key), refused)


def _check_branch(validator: Any, branches: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Check a value by the one of several schemas that is meant."""
    by_kind = {
        branch["properties"][KIND]["const"]: branch
        for branch in branches
        if KIND in branch.get("properties", {})
    }
    if by_kind:
        yield from _check_kind(validator, by_kind, value, schema["title"])
        return
    by_type = [validator.evolve(schema={"type": branch["type"]}) for branch in branches]
    fits = [branch.is_valid(value) for branch in by_type]
    if any(fits):
        yield from validator.descend(value, branches[fits.index(True)])
    else:
        yield ValidationError("no type fits")


def _check_kind(
    validator: Any, by_kind: dict[str, Schema], value: Any, title: str
) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        message = f"{title} must be a table; got {format_brief(value)}"
        yield ValidationError(message, validator=KIND)
    elif KIND not in value:
        yield ValidationError(f"{title} needs a 'kind': {', '.join(by_kind)}", validator=KIND)
    elif value[KIND] not in [*by_kind]:
        kind = value[KIND]
        suggestion = suggest_name(kind if isinstance(kind, str) else "", by_kind)
        message = f"unknown kind {format_brief(kind)} of {title}{suggestion}"
        yield ValidationError(message, validator=KIND, path=[KIND])
    else:
        yield from validator.descend(value, by_kind[value[KIND]])


def _check_items(validator: Any, items: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Check the entries of a list; plain numbers are not visited where numbers are allowed."""
    allows_numbers = isinstance(value, list) and "number" in items.get("type", ())
    if not allows_numbers or not all(type(item) in (int, float) for item in value):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, value, schema)


def _check_printable(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Refuse what cannot be printed: of that, the published pattern names the worst."""
    if isinstance(value, str) and not value.isprintable():
        yield ValidationError("not printable")


ModelFileValidator = extend(
    Draft202012Validator,
    {"oneOf": _check_branch, "items": _check_items, "pattern": _check_printable},
)


def _describe_type(error: Any) -> str:
    return f"must be {error.schema['title']}; got {format_brief(error.instance)}"


def _describe_text_fault(error: Any) -> str:
    return find_text_fault(error.instance) or ""


PHRASES: dict[str, Callable[[Any], str]] = {
    "type": _describe_type,
    "enum": _describe_type,
    "oneOf": _describe_type,
    "maxLength": _describe_text_fault,
    "pattern": _describe_text_fault,
    "minItems": lambda error: "needs at least one entry",
    "minProperties": lambda error: "needs at least one entry",
}


def _note_error(document: TomlDocument, error: Any) -> None:
    """Note a mistake in words; where entries are too many, nothing else is looked at."""
    key_path = tuple(error.absolute_path)
    place = _format_key_path(key_path)
    if error.validator == KIND:
        document.note_mistake(key_path, error.message)
    elif error.validator in ("required", "additionalProperties"):
        _note_keys(document, key_path, error)
    elif error.validator in ("maxItems", "maxProperties"):
        counts = f"at most {error.validator_value} entries; got {len(error.instance):,}"
        document.note_mistake(key_path, f"{place} has {counts}")
        document.raise_mistakes()
    else:
        document.note_mistake(key_path, f"{place} {PHRASES[error.validator](error)}")


def _note_keys(document: TomlDocument, key_path: KeyPath, error: Any) -> None:
    """Note the unknown keys of a table, or those that are missing."""
    known = error.schema["properties"]
    title = error.schema["title"]
    unknown = [name for name in error.instance if name not in known]
    if len(unknown) > UNKNOWN_MAX_KEYS:
        document.note_mistake((*key_path, unknown[0]), f"{title} has {len(unknown):,} unknown keys")
        document.raise_mistakes()
    if error.validator == "additionalProperties":
        for name in unknown:
            message = f"unknown key {format_brief(name)} in {title}{suggest_name(name, known)}"
            document.note_mistake((*key_path, name), message)
        return
    misspelt = {find_closest(name, known) for name in unknown}  # is not missing too
    for name in error.validator_value:
        if name not in error.instance and name not in misspelt:
            document.note_mistake(key_path, f"{title} needs {name!r}")


def _format_key_path(key_path: KeyPath) -> str:
    """``stages 2, pays``: a place in words, counted from 1."""
    parts: list[str] = []
    for part in key_path:
        if isinstance(part, int):
            parts[-1] = f"{parts[-1]} {part + 1}"
        else:
            parts.append(part)
    return ", ".join(parts) or "the file"
