"""The part of JSON Schema that the schemas in docs/ use, by its own words."""

from __future__ import annotations

from typing import Any

KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
NOTES = {"$schema", "$defs", "title", "description", "default", "then"}


def faults(value: Any, schema: dict, whole: dict, place: str = "") -> list[str]:
    """What is wrong with a value, each with its place."""
    found: list[str] = []
    for word, said in schema.items():
        if word not in NOTES:
            found += CHECKS[word](value, said, schema, whole, place)
    return found


def _ref(value, said, schema, whole, place):
    target = whole
    for part in said.removeprefix("#/").split("/"):
        target = target[part]
    return faults(value, target, whole, place)


def _one_of(value, said, schema, whole, place):
    fits = [not faults(value, one, whole, place) for one in said]
    return [] if sum(fits) == 1 else [f"{place}: fits {sum(fits)} of {len(said)}"]


def _type(value, said, schema, whole, place):
    kinds = said if isinstance(said, list) else [said]
    ok = any(isinstance(value, KINDS[k]) and not isinstance(value, bool) for k in kinds)
    return [] if ok else [f"{place}: {value!r} is no {said}"]


def _properties(value, said, schema, whole, place):
    if not isinstance(value, dict):
        return []
    named = [k for k in said if k in value]
    return [f for k in named for f in faults(value[k], said[k], whole, f"{place}/{k}")]


def _additional(value, said, schema, whole, place):
    if not isinstance(value, dict):
        return []
    more = [k for k in value if k not in schema.get("properties", {})]
    if said is False:
        return [f"{place}: {k} is unknown" for k in more]
    return [f for k in more for f in faults(value[k], said, whole, f"{place}/{k}")]


def _required(value, said, schema, whole, place):
    return [f"{place}: {k} is missing" for k in said if isinstance(value, dict) and k not in value]


def _items(value, said, schema, whole, place):
    if not isinstance(value, list):
        return []
    return [f for i, v in enumerate(value) for f in faults(v, said, whole, f"{place}/{i}")]


def _prefix(value, said, schema, whole, place):
    pairs = zip(value, said, strict=False) if isinstance(value, list) else ()
    return [f for i, (v, s) in enumerate(pairs) for f in faults(v, s, whole, f"{place}/{i}")]


def _all_of(value, said, schema, whole, place):
    return [fault for one in said for fault in faults(value, one, whole, place)]


def _if(value, said, schema, whole, place):
    return [] if faults(value, said, whole) else faults(value, schema["then"], whole, place)


def _number(test):
    return _holds(lambda value, said: not isinstance(value, int | float) or test(value, said))


def _holds(test):
    def check(value, said, schema, whole, place):
        return [] if test(value, said) else [f"{place}: {value!r} against {said!r}"]

    return check


CHECKS = {
    "$ref": _ref,
    "oneOf": _one_of,
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "prefixItems": _prefix,
    "const": _holds(lambda value, said: value == said),
    "allOf": _all_of,
    "if": _if,
    "enum": _holds(lambda value, said: value in said),
    "minimum": _number(lambda value, said: value >= said),
    "maximum": _number(lambda value, said: value <= said),
    "exclusiveMinimum": _number(lambda value, said: value > said),
    "exclusiveMaximum": _number(lambda value, said: value < said),
    "minItems": _holds(lambda value, said: not isinstance(value, list) or len(value) >= said),
    "maxItems": _holds(lambda value, said: not isinstance(value, list) or len(value) <= said),
    "maxProperties": _holds(lambda value, said: not isinstance(value, dict) or len(value) <= said),
    "minProperties": _holds(lambda value, said: not isinstance(value, dict) or len(value) >= said),
}
