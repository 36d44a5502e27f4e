"""The shape of a model file, as JSON Schema: what may stand where, and what each key means.

The same schema is published (docs/model.schema.json), so that editors complete and check a file as
it is written, and read by ``shape``, which words the mistakes. Titles are the words of messages.
"""

from __future__ import annotations

from typing import Any

from tessella.modelfiles.mistakes import LONGEST_TEXT
from tessella.problems.parameter import Choice, Integer, Integers, Number, Numbers, Parameter
from tessella.problems.registry import OURS

Schema = dict[str, Any]

MOST_AXES = 10  # of each kind: states, scratch, components, what a table is looked up by
MOST_STAGES = 100  # or events


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _text(description: str) -> Schema:
    return {"type": "string", "title": "text", "description": description}


def _table(
    title: str, properties: Schema, required: tuple[str, ...] = (), about: str = ""
) -> Schema:
    said = {"description": about} if about else {}
    return {
        "type": "object",
        "title": title,
        **said,
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _named(title: str, of: Schema, about: str, least: int = 0, most: int = 100) -> Schema:
    """A table whose keys are names that the user chooses."""
    some = {"minProperties": least} if least else {}
    return {
        "type": "object",
        "title": title,
        "description": about,
        "additionalProperties": of,
        "maxProperties": most,
        **some,
    }


def _list(title: str, of: Schema, most: int | None = None) -> Schema:
    some = {} if most is None else {"maxItems": most}
    return {"type": "array", "title": title, "items": of, "minItems": 1, **some}


def _by_kind(title: str, kinds: dict[str, tuple[Schema, tuple[str, ...], str]]) -> Schema:
    """One of several tables, told apart by their ``kind``."""
    branches = []
    for kind, (properties, required, about) in kinds.items():
        own = {"kind": {"const": kind, "title": repr(kind)}, **properties}
        branches.append(_table(f"{title} of kind {kind!r}", own, ("kind", *required), about))
    return {"title": title, "oneOf": branches}


EXPRESSION = {
    "type": ["string", "number"],
    "title": "a number, or an expression in quotes",
}
SHOWN = {  # of text that a model shows; `shape` refuses whatever else cannot be printed
    "maxLength": LONGEST_TEXT,
    "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$",
}
PLAIN = {"type": ["number", "string"], "title": "a number or text", **SHOWN}
WORDS = _ref("expression")

RANGE = _table(
    "a range",
    {"from": WORDS, "to": WORDS, "step": WORDS, "points": WORDS},
    ("from", "to"),
    "from and to, both taken, in steps of 1 or of step, or with so many points evenly spaced",
)
VALUES = {
    "title": "a list of values, a range { from = .., to = .. }, or the name of a list parameter",
    "oneOf": [_list("a list of values", PLAIN), RANGE, {"type": "string"}],
}
MOVES = _named("a table of axes", WORDS, "axis to the value that it takes", 1, MOST_AXES)

PAYS = {
    "pays": {**WORDS, "description": "what is paid"},
    "costs": {**WORDS, "description": "what it costs"},
}
BETWEEN = {"enum": ["error", "interpolate"], "title": "'error' or 'interpolate'"}
END = {"enum": ["error", "clip"], "title": "'error' or 'clip'"}
EDGE = {"enum": ["clip", "reflect", "wrap", "error"], "title": "clip, reflect, wrap or error"}
AXIS = _text("the axis along which it moves")
NOISE = _text("a distribution; expressions of the stage call its value by its name")

STAGE = _by_kind(
    "a stage",
    {
        "pay": (PAYS, (), "nothing moves"),
        "decide": (
            {"axis": AXIS, "to": WORDS, "between": BETWEEN, "edge": END, **PAYS},
            ("axis", "to"),
            "a coordinate takes a value that action and state decide",
        ),
        "shift": (
            {
                "axis": AXIS,
                "noise": NOISE,
                "by": {**WORDS, "description": "how far, by the noise and the action"},
                "edge": EDGE,
                "between": BETWEEN,
                **PAYS,
            },
            ("axis", "noise"),
            "a coordinate moves by a random amount",
        ),
        "move": (
            {
                "axis": AXIS,
                "matrix": {
                    "title": "rows of numbers, or an expression of the axis and next",
                    "oneOf": [
                        _list("rows of numbers", _list("a row of numbers", WORDS)),
                        {"type": "string"},
                    ],
                },
                **PAYS,
            },
            ("axis", "matrix"),
            "a coordinate follows a Markov chain",
        ),
        "jump": (
            {"noise": NOISE, "to": MOVES, "between": BETWEEN, "edge": END, **PAYS},
            ("to",),
            "several coordinates move at once",
        ),
    },
)

CRITERION = _by_kind(
    "the criterion",
    {
        "discounted": (
            {
                "discount": WORDS,
                "interest": {**WORDS, "description": "per unit of time, of events"},
            },
            (),
            "the expected sum of rewards, later ones worth less",
        ),
        "average": ({}, (), "the reward per period in the long run"),
        "total": ({}, (), "the expected sum of rewards until the end"),
        "horizon": (
            {"periods": WORDS, "discount": WORDS, "final": WORDS},
            ("periods",),
            "so many periods, with time as an axis",
        ),
    },
)

LARGEST = {**WORDS, "description": "the largest value: the tail is put on it"}
CSV = _text("a CSV file beside the model file, or in a folder below it")
DISTRIBUTION = _by_kind(
    "a distribution",
    {
        "poisson": ({"mean": WORDS, "largest": LARGEST}, ("mean", "largest"), "counts"),
        "binomial": ({"trials": WORDS, "chance": WORDS}, ("trials", "chance"), "successes"),
        "negative_binomial": (
            {"successes": WORDS, "chance": WORDS, "largest": LARGEST},
            ("successes", "chance", "largest"),
            "failures before so many successes",
        ),
        "geometric": (
            {"chance": WORDS, "largest": LARGEST},
            ("chance", "largest"),
            "failures before the first success: 0, 1, 2, ...",
        ),
        "normal": (
            {"mean": WORDS, "deviation": WORDS, "smallest": WORDS, "largest": LARGEST},
            ("mean", "deviation", "smallest", "largest"),
            "rounded to whole numbers, the tails put on the smallest and the largest",
        ),
        "gamma": (
            {"mean": WORDS, "variation": WORDS, "largest": LARGEST},
            ("mean", "variation", "largest"),
            "with a coefficient of variation, rounded to whole numbers",
        ),
        "uniform": (
            {"smallest": WORDS, "largest": WORDS},
            ("smallest", "largest"),
            "whole numbers, each as likely",
        ),
        "empirical": (
            {"csv": CSV, "column": _text("the column with one observation in each row")},
            ("csv", "column"),
            "what was observed, each value as often as it was",
        ),
        "values": (
            {"values": _ref("values"), "probabilities": _list("a list of probabilities", WORDS)},
            ("values", "probabilities"),
            "values and the probability of each",
        ),
    },
)

TABLE = _table(
    "a table",
    {
        "by": _list("a list of names", {"type": "string", "title": "a name"}, MOST_AXES),
        "values": _list("a list of numbers", {}),
        "csv": CSV,
        "column": _text("the column with the numbers; the columns of by say where"),
    },
    ("by",),
    "numbers looked up by coordinates: cost[region]",
)

EVENT = _table(
    "an event",
    {"name": {**_text("what it is called"), **SHOWN}, "rate": WORDS, "to": MOVES, **PAYS},
    ("name", "rate"),
    "something that happens at a rate per unit of time",
)

ACTIONS = _table(
    "actions",
    {
        "name": _text("what the action is called: order"),
        "values": _ref("values"),
        "components": _named(
            "a table of components", _ref("values"), "name to values", 1, MOST_AXES
        ),
    },
)

PARAMETER = {
    "title": "a number, text, or a list of them",
    "oneOf": [PLAIN, _list("a list of values", PLAIN)],
}

NAME = {**_text("what the model is called"), **SHOWN}
OWN = {
    "name": NAME,
    "feasible": {
        "type": "string",
        "title": "an expression",
        "description": "where an action may be taken",
    },
    "start": _named("a table of axes", PLAIN, "coordinates of the first state", 1, MOST_AXES),
    "parameters": _named("a table of parameters", PARAMETER, "numbers that expressions may name"),
    "terms": _named("a table of expressions", WORDS, "expressions that later ones may name"),
    "axes": _named("a table of axes", _ref("values"), "the coordinates of a state", 1, MOST_AXES),
    "scratch": _named(
        "a table of axes", _ref("values"), "that exist within a period only", 1, MOST_AXES
    ),
    "actions": _ref("actions"),
    "criterion": _ref("criterion"),
    "distributions": _named("a table of distributions", _ref("distribution"), "random quantities"),
    "tables": _named("a table of tables", _ref("table"), "numbers by coordinate"),
}
STAGES = {
    "stages": {
        **_list("a list of stages", _ref("stage"), MOST_STAGES),
        "description": "the events of a period",
    }
}
EVENTS = {
    "events": {
        **_list("a list of events", _ref("event"), MOST_STAGES),
        "description": "what happens, in continuous time",
    },
    "pays_rate": {**WORDS, "description": "what is paid per unit of time"},
    "costs_rate": {**WORDS, "description": "what it costs per unit of time"},
    "clock": {**WORDS, "description": "periods per unit of time"},
}
NEEDED = ("axes", "actions", "criterion")
PROBLEM = {
    "problem": _text("a problem that `tessella list` prints"),
    "name": NAME,
    "parameters": _named("a table of parameters", {}, "its settings"),
}

NAMES_A_PROBLEM = _table("a model file that names a problem", PROBLEM, ("problem",))
TELLS_STAGES = _table("a model file", OWN | STAGES, (*NEEDED, "stages"))
TELLS_EVENTS = _table("a model file with events", OWN | EVENTS, (*NEEDED, "events"))
TELLS_BOTH = _table("a model file", OWN | STAGES | EVENTS, NEEDED)  # which is a mistake
DEFINITIONS = {
    "expression": EXPRESSION,
    "values": VALUES,
    "actions": ACTIONS,
    "criterion": CRITERION,
    "distribution": DISTRIBUTION,
    "table": TABLE,
    "stage": STAGE,
    "event": EVENT,
}


def published() -> Schema:
    """The whole schema, with the parameters of every problem of the package."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A model file of tessella",
        "oneOf": [
            {**NAMES_A_PROBLEM, "allOf": [_settings(known) for known in OURS]},
            TELLS_STAGES,
            TELLS_EVENTS,
        ],
        "$defs": DEFINITIONS,
    }


def _settings(name: str) -> Schema:
    known = OURS[name]
    table = _table(
        f"parameters of {name}", {p.name: _parameter(p) for p in known.settable}, (), known.title
    )
    return {
        "if": {"properties": {"problem": {"enum": [name, *known.aliases]}}},
        "then": {"properties": {"parameters": table}},
    }


def _parameter(parameter: Parameter) -> Schema:
    about = {"description": f"{parameter.about}; {parameter.range}", "default": parameter.default}
    if isinstance(parameter, Choice):
        return {"enum": list(parameter.options), **about}
    assert isinstance(parameter, Integer | Number | Integers | Numbers)
    words = {"minimum": parameter.low, "maximum": parameter.high}
    words |= {"exclusiveMinimum": parameter.above, "exclusiveMaximum": parameter.below}
    bounds = {word: end for word, end in words.items() if end is not None}
    kind = "integer" if isinstance(parameter, Integer | Integers) else "number"
    one = {"type": kind, **bounds}
    if isinstance(parameter, Integers | Numbers):
        return {"type": "array", "items": one, "minItems": 1, **about}
    return {**one, **about}


if __name__ == "__main__":
    import json

    print(json.dumps(published(), indent=1))
