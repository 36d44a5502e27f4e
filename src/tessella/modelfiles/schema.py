"""The shape of a model file, as JSON Schema, and messages for a document that does not fit it.

The same schema is published (docs/model.schema.json), so that editors complete and check a file as
it is written. ``check_schema`` finds the mistakes with ``jsonschema`` and writes the messages, in
which it uses titles of the schema. Limits on the number of entries precede the schema of an entry:
keywords are checked in their order.

Of several tables ``kind`` selects one, of several types the type of the value does; an unknown name
gets the most similar known one. All numbers must be finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from tessella.errors import find_closest, format_brief
from tessella.mdp.measures import CONSTRAINT_KEYS
from tessella.modelfiles.toml_document import (
    TEXT_MAX_CHARACTERS,
    KeyPath,
    TomlDocument,
    find_text_fault,
    suggest_name,
)
from tessella.problems.problem import Choice, Integer, Integers, Number, Numbers, Parameter
from tessella.problems.registry import PACKAGE_PROBLEMS

Schema = dict[str, Any]
AXES_MAX_COUNT = 10  # of each kind: states, scratch, components, what a table is looked up by
STAGES_MAX_COUNT = 100  # or events
UNKNOWN_MAX_KEYS = 100  # keys of one table
KIND = "kind"  # a key of tables, and the validator of errors about it


def _describe(about: str) -> Schema:
    return {"description": about} if about else {}


def _reference(name: str, about: str = "") -> Schema:
    return {"$ref": f"#/$defs/{name}"} | _describe(about)


def _text_schema(about: str, title: str = "text") -> Schema:
    return {"type": "string", "title": title, "description": about}


def _choice_schema(title: str, *options: str) -> Schema:
    return {"enum": list(options), "title": title}


def _table_schema(
    title: str, properties: Schema, required: Iterable[str] = (), about: str = ""
) -> Schema:
    schema = {"type": "object", "title": title} | _describe(about)
    return schema | {
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _mapping_schema(
    title: str, item_schema: Schema, about: str, min_count: int = 0, max_count: int = 100
) -> Schema:
    """A table whose keys are names that the user chooses."""
    schema = {"type": "object", "title": title, "description": about, "maxProperties": max_count}
    minimum = {"minProperties": min_count} if min_count else {}
    return schema | minimum | {"additionalProperties": item_schema}


def _axes_schema(item_schema: Schema, about: str) -> Schema:
    return _mapping_schema("a table of axes", item_schema, about, 1, AXES_MAX_COUNT)


def _list_schema(
    title: str, item_schema: Schema | None, max_count: int | None = None, about: str = ""
) -> Schema:
    limits = {"minItems": 1} | ({} if max_count is None else {"maxItems": max_count})
    items = {} if item_schema is None else {"items": item_schema}
    return {"type": "array", "title": title} | limits | items | _describe(about)


def _kinds_schema(
    title: str,
    keys: Schema,
    rows: Iterable[tuple[str, str, str, str]],
    shared: Schema | None = None,
) -> Schema:
    """A table of one of several kinds, each with the names of its keys and of those it needs.

    ``keys`` has their schemas, as "name" or for one kind as "kind.name"; others are expressions.
    """
    branches = []
    for kind, names, required, about in rows:
        properties: Schema = {"kind": {"const": kind, "title": repr(kind)}}
        for name in names.split():
            properties[name] = keys.get(f"{kind}.{name}") or keys.get(name, EXPRESSION_REF)
        properties |= shared or {}
        needed = ("kind", *required.split())
        branches.append(_table_schema(f"{title} of kind {kind!r}", properties, needed, about))
    return {"title": title, "oneOf": branches}


def _expressions(*keys: str) -> Schema:
    return dict.fromkeys(keys, EXPRESSION_REF)


EXPRESSION_SCHEMA = {"type": ["string", "number"], "title": "a number, or an expression in quotes"}
EXPRESSION_REF = _reference("expression")
PRINTABLE_TEXT = {  # `_check_printable` rejects more than this pattern does
    "maxLength": TEXT_MAX_CHARACTERS,
    "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$",
}
SCALAR_SCHEMA = {"type": ["number", "string"], "title": "a number or text", **PRINTABLE_TEXT}
RANGE_SCHEMA = _table_schema(
    "a range",
    _expressions("from", "to", "step", "points"),
    ("from", "to"),
    "from and to, both included, in steps of 1 or of step, or that many points evenly spaced",
)
VALUES_SCHEMA = {
    "title": "a list of values, a range { from = .., to = .. }, or the name of a list parameter",
    "oneOf": [_list_schema("a list of values", SCALAR_SCHEMA), RANGE_SCHEMA, {"type": "string"}],
}
TARGETS_SCHEMA = _axes_schema(EXPRESSION_REF, "axis to the value that it takes")
MATRIX_SCHEMA = {
    "title": "rows of numbers, or an expression of the axis and next",
    "oneOf": [
        _list_schema("rows of numbers", _list_schema("a row of numbers", EXPRESSION_REF)),
        {"type": "string"},
    ],
}
COUNTS_SCHEMA = _mapping_schema("a table of counts", EXPRESSION_REF, "what measures count, by name")
PAYMENT_KEYS = {
    "pays": _reference("expression", "what is paid"),
    "costs": _reference("expression", "what it costs"),
    "counts": _reference("counts"),
}
STAGE_KEYS = {
    "axis": _text_schema("the axis along which it moves"),
    "noise": _text_schema("a distribution; expressions of the stage call its value by its name"),
    "by": _reference("expression", "how far, by the noise and the action"),
    "jump.to": TARGETS_SCHEMA,
    "matrix": MATRIX_SCHEMA,
    "between": _choice_schema("'error' or 'interpolate'", "error", "interpolate"),
    "edge": _choice_schema("'error' or 'clip'", "error", "clip"),
    "shift.edge": _choice_schema(
        "clip, reflect, wrap or error", "clip", "reflect", "wrap", "error"
    ),
}
STAGE_KINDS = [
    ("pay", "", "", "nothing moves"),
    (
        "decide",
        "axis to between edge",
        "axis to",
        "a coordinate takes a value that action and state decide",
    ),
    ("shift", "axis noise by edge between", "axis noise", "a coordinate moves by a random amount"),
    ("move", "axis matrix", "axis matrix", "a coordinate follows a Markov chain"),
    ("jump", "noise to between edge", "to", "several coordinates move at once"),
]
STAGE_SCHEMA = _kinds_schema("a stage", STAGE_KEYS, STAGE_KINDS, PAYMENT_KEYS)
CRITERION_KEYS = {"interest": _reference("expression", "per unit of time, of events")}
CRITERION_KINDS = [
    ("discounted", "discount interest", "", "the expected sum of rewards, later ones worth less"),
    ("average", "", "", "the reward per period in the long run"),
    ("total", "", "", "the expected sum of rewards until the end"),
    ("horizon", "periods discount final", "periods", "that many periods, with time as an axis"),
]
CRITERION_SCHEMA = _kinds_schema("the criterion", CRITERION_KEYS, CRITERION_KINDS)
CSV_KEY = {"csv": _text_schema("a CSV file in the folder of the model file, or below it")}
DISTRIBUTION_KEYS = {
    "largest": _reference("expression", "the largest value: the tail is put on it"),
    "uniform.largest": EXPRESSION_REF,
    **CSV_KEY,
    "column": _text_schema("the column with one observation in each row"),
    "values": _reference("values"),
    "probabilities": _list_schema("a list of probabilities", EXPRESSION_REF),
}
DISTRIBUTION_KINDS = {  # each needs all of its keys
    "poisson": ("mean largest", "counts"),
    "binomial": ("trials chance", "successes"),
    "negative_binomial": ("successes chance largest", "failures before that many successes"),
    "geometric": ("chance largest", "failures before the first success: 0, 1, 2, ..."),
    "normal": (
        "mean deviation smallest largest",
        "rounded to whole numbers, the tails put on the smallest and the largest",
    ),
    "gamma": (
        "mean variation largest",
        "with a coefficient of variation, rounded to whole numbers",
    ),
    "uniform": ("smallest largest", "whole numbers, each as likely"),
    "empirical": ("csv column", "what was observed, each value as often as it was"),
    "values": ("values probabilities", "values and the probability of each"),
}
DISTRIBUTION_SCHEMA = _kinds_schema(
    "a distribution",
    DISTRIBUTION_KEYS,
    [(kind, keys, keys, about) for kind, (keys, about) in DISTRIBUTION_KINDS.items()],
)
TABLE_KEYS = {
    "by": _list_schema("a list of names", {"type": "string", "title": "a name"}, AXES_MAX_COUNT),
    "values": _list_schema("a list of numbers", None),
    **CSV_KEY,
    "column": _text_schema("the column with the numbers; the columns of by say where"),
}
TABLE_SCHEMA = _table_schema(
    "a table", TABLE_KEYS, ("by",), "numbers looked up by coordinates: cost[region]"
)
EVENT_SCHEMA = _table_schema(
    "an event",
    {
        "name": {**_text_schema("what it is called"), **PRINTABLE_TEXT},
        "rate": EXPRESSION_REF,
        "to": TARGETS_SCHEMA,
        **PAYMENT_KEYS,
    },
    ("name", "rate"),
    "something that happens at a rate per unit of time",
)
ACTIONS_SCHEMA = _table_schema(
    "actions",
    {
        "name": _text_schema("what the action is called: order"),
        "values": _reference("values"),
        "components": _mapping_schema(
            "a table of components", _reference("values"), "name to values", 1, AXES_MAX_COUNT
        ),
    },
)
PARAMETER_SCHEMA = {
    "title": "a number, text, or a list of them",
    "oneOf": [SCALAR_SCHEMA, _list_schema("a list of values", SCALAR_SCHEMA)],
}
MEASURE_SCHEMA = _text_schema("of counts, such as 1 - lost / demand", "an expression in quotes")
CONSTRAINT_SCHEMA = _table_schema(
    "a constraint such as { at_least = 0.98 }", _expressions(*CONSTRAINT_KEYS), (), "one of both"
)
MEASURE_KEYS = {
    "measures": _mapping_schema(
        "a table of measures", MEASURE_SCHEMA, "sums of counts, and ratios of two sums"
    ),
    "constraints": _mapping_schema(
        "a table of constraints", CONSTRAINT_SCHEMA, "measure to what a policy must reach"
    ),
}
NAME_SCHEMA = {**_text_schema("what the model is called"), **PRINTABLE_TEXT}
MODEL_KEYS = {
    "name": NAME_SCHEMA,
    "feasible": _text_schema("where an action may be taken", "an expression"),
    "start": _axes_schema(SCALAR_SCHEMA, "coordinates of the first state"),
    "parameters": _mapping_schema(
        "a table of parameters", PARAMETER_SCHEMA, "numbers that expressions may name"
    ),
    "terms": _mapping_schema(
        "a table of expressions", EXPRESSION_REF, "expressions that later ones may name"
    ),
    "axes": _axes_schema(_reference("values"), "the coordinates of a state"),
    "scratch": _axes_schema(_reference("values"), "that exist within a period only"),
    "actions": _reference("actions"),
    "criterion": _reference("criterion"),
    "distributions": _mapping_schema(
        "a table of distributions", _reference("distribution"), "random quantities"
    ),
    "tables": _mapping_schema("a table of tables", _reference("table"), "numbers by coordinate"),
    **MEASURE_KEYS,
}
STAGES_KEY = {
    "stages": _list_schema(
        "a list of stages", _reference("stage"), STAGES_MAX_COUNT, "the events of a period"
    )
}
EVENTS_KEYS = {
    "events": _list_schema(
        "a list of events",
        _reference("event"),
        STAGES_MAX_COUNT,
        "what happens, in continuous time",
    ),
    "pays_rate": _reference("expression", "what is paid per unit of time"),
    "costs_rate": _reference("expression", "what it costs per unit of time"),
    "counts_rate": _reference("counts", "what measures count per unit of time"),
    "clock": _reference("expression", "periods per unit of time"),
}
REQUIRED_KEYS = ("axes", "actions", "criterion")
PROBLEM_KEYS = {
    "problem": _text_schema("a problem that `tessella list` prints"),
    "name": NAME_SCHEMA,
    "parameters": _mapping_schema("a table of parameters", {}, "its settings"),
    **MEASURE_KEYS,
}
NAMED_PROBLEM_SCHEMA = _table_schema(
    "a model file that names a problem", PROBLEM_KEYS, ("problem",)
)
STAGED_MODEL_SCHEMA = _table_schema(
    "a model file", MODEL_KEYS | STAGES_KEY, (*REQUIRED_KEYS, "stages")
)
EVENT_MODEL_SCHEMA = _table_schema(
    "a model file with events", MODEL_KEYS | EVENTS_KEYS, (*REQUIRED_KEYS, "events")
)
STAGES_AND_EVENTS_SCHEMA = _table_schema(
    "a model file", MODEL_KEYS | STAGES_KEY | EVENTS_KEYS, REQUIRED_KEYS
)  # with both: a mistake that ``read_model`` notes
DEFINITIONS = {
    "expression": EXPRESSION_SCHEMA,
    "counts": COUNTS_SCHEMA,
    "values": VALUES_SCHEMA,
    "actions": ACTIONS_SCHEMA,
    "criterion": CRITERION_SCHEMA,
    "distribution": DISTRIBUTION_SCHEMA,
    "table": TABLE_SCHEMA,
    "stage": STAGE_SCHEMA,
    "event": EVENT_SCHEMA,
}


def published_schema() -> Schema:
    """The whole schema, with the parameters of every problem of the package."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A model file of tessella",
        "oneOf": [
            {
                **NAMED_PROBLEM_SCHEMA,
                "allOf": [_problem_schema(known) for known in PACKAGE_PROBLEMS],
            },
            STAGED_MODEL_SCHEMA,
            EVENT_MODEL_SCHEMA,
        ],
        "$defs": DEFINITIONS,
    }


def _problem_schema(name: str) -> Schema:
    named_problem = PACKAGE_PROBLEMS[name]
    table = _table_schema(
        f"parameters of {name}",
        {p.name: _parameter_schema(p) for p in named_problem.settable},
        (),
        named_problem.title,
    )
    return {
        "if": {"properties": {"problem": {"enum": [name, *named_problem.aliases]}}},
        "then": {"properties": {"parameters": table}},
    }


def _parameter_schema(parameter: Parameter) -> Schema:
    about = {"description": f"{parameter.about}; {parameter.range}", "default": parameter.default}
    if isinstance(parameter, Choice):
        return {"enum": list(parameter.options), **about}
    assert isinstance(parameter, Integer | Number | Integers | Numbers)
    limits = {"minimum": parameter.low, "maximum": parameter.high}
    limits |= {"exclusiveMinimum": parameter.above, "exclusiveMaximum": parameter.below}
    bounds = {keyword: limit for keyword, limit in limits.items() if limit is not None}
    kind = "integer" if isinstance(parameter, Integer | Integers) else "number"
    item_schema = {"type": kind, **bounds}
    if isinstance(parameter, Integers | Numbers):
        return {"type": "array", "items": item_schema, "minItems": 1, **about}
    return {**item_schema, **about}


def check_schema(document: TomlDocument, schema: Schema) -> None:
    """Note all mistakes in the shape of a document."""
    rejected: set[KeyPath] = set()
    for error in ModelFileValidator(schema | {"$defs": DEFINITIONS}).iter_errors(document.data):
        if document.is_full:
            return
        _note_error(document, error)
        if error.validator in ("type", "enum", "oneOf", KIND):
            rejected.add(tuple(error.absolute_path))
    _note_non_finite(document, document.data, (), rejected)


def _note_non_finite(
    document: TomlDocument, value: Any, key_path: KeyPath, rejected: set[KeyPath]
) -> None:
    """Note the numbers that are not finite, outside the values that are ``rejected`` already."""
    if key_path in rejected:
        return
    if isinstance(value, float) and not math.isfinite(value):
        document.note_mistake(key_path, f"{_format_key_path(key_path)} must be finite; got {value}")
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        _note_non_finite(document, item, (*key_path, key), rejected)


def _check_branch(validator: Any, branches: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Check a value by one of several schemas, selected by its kind or type."""
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
    allows_numbers = items == EXPRESSION_REF or "number" in items.get("type", ())
    is_plain = isinstance(value, list) and all(type(item) in (int, float) for item in value)
    if not (allows_numbers and is_plain):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, value, schema)


def _check_printable(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Reject text that cannot be printed."""
    if isinstance(value, str) and not value.isprintable():
        yield ValidationError("not printable")


ModelFileValidator = extend(
    Draft202012Validator,
    {"oneOf": _check_branch, "items": _check_items, "pattern": _check_printable},
)


def _note_error(document: TomlDocument, error: Any) -> None:
    """Note a mistake in words; where entries are too many, nothing else is looked at."""
    key_path = tuple(error.absolute_path)
    place = _format_key_path(key_path)
    match error.validator:
        case "required" | "additionalProperties":
            _note_keys(document, key_path, error)
        case "kind":
            document.note_mistake(key_path, error.message)
        case "maxItems" | "maxProperties":
            counts = f"at most {error.validator_value} entries; got {len(error.instance):,}"
            document.note_mistake(key_path, f"{place} has {counts}")
            document.raise_mistakes()
        case "minItems" | "minProperties":
            document.note_mistake(key_path, f"{place} needs at least one entry")
        case "maxLength" | "pattern":
            document.note_mistake(key_path, f"{place} {find_text_fault(error.instance)}")
        case _:
            requirement = f"{place} must be {error.schema['title']}"
            document.note_mistake(key_path, f"{requirement}; got {format_brief(error.instance)}")


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
    misspelt = {find_closest(name, known) for name in unknown}  # reported as unknown already
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


if __name__ == "__main__":
    import json

    print(json.dumps(published_schema(), indent=1))
