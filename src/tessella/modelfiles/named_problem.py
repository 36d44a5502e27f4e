"""A model file that names a problem of the registry, and its settings.

    problem = "perishable"

    [parameters]
    life = 3

A name with a colon would import a module, and a file runs no code: it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tessella.errors import ArgumentError, TessellaError
from tessella.mdp.model import MDP
from tessella.modelfiles.document import Document
from tessella.modelfiles.mistakes import nearest
from tessella.problems.parameter import Parameter
from tessella.problems.problem import Problem
from tessella.problems.registry import all_problems


def build_named(document: Document, settings: Mapping[str, Any]) -> MDP:
    """The model that the document means; ``settings`` take the place of its parameters."""
    known = _problem(document, document.data.get("problem"))
    given = {} if known is None else _given(document, known)
    document.refuse()
    assert known is not None
    chosen = given | {name: typed(known, name, value) for name, value in settings.items()}
    known.settings(**chosen)
    try:
        return known.build(name=document.data.get("name", ""), **chosen)
    except TessellaError as error:
        document.mistake(("parameters",), str(error))
        document.refuse()
        raise


def _problem(document: Document, name: object) -> Problem | None:
    if not isinstance(name, str):  # that was noted with the shape
        return None
    by_name = {n: known for known in all_problems() for n in (known.name, *known.aliases)}
    if name in by_name:
        return by_name[name]
    why = "; a model file imports nothing" if ":" in name else nearest(name, by_name)
    document.mistake(("problem",), f"no problem is called {name!r}{why}")
    return None


def _given(document: Document, known: Problem) -> dict[str, Any]:
    given = document.data.get("parameters", {})
    if not isinstance(given, dict):
        return {}
    names = [parameter.name for parameter in known.settable]
    for name, value in given.items():
        place = ("parameters", name)
        if name not in names:
            what = f"{known.name} has no parameter {name!r}{nearest(name, names)}"
            document.mistake(place, what)
            continue
        try:
            known.parameter(name).check(value, known.name)
        except ArgumentError as error:
            document.mistake(place, str(error))
    return given


def typed(known: Problem, name: str, value: Any) -> Any:
    """A setting from outside the file: text as a person types it, or the value itself."""
    names = [parameter.name for parameter in known.settable]
    if name not in names:
        raise ArgumentError(f"{known.name} has no parameter {name!r}{nearest(name, names)}")
    parameter = known.parameter(name)
    return _parsed(parameter, value, known.name) if isinstance(value, str) else value


def _parsed(parameter: Parameter, text: str, owner: str) -> Any:
    try:
        return parameter.parse(text)
    except ValueError:
        rule = f"{parameter.name} must be {parameter.range}"
        raise ArgumentError(rule, place=owner, value=f"got {text!r}") from None
