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
from tessella.modelfiles.mistakes import suggest_name
from tessella.modelfiles.toml_document import TomlDocument
from tessella.problems.parameter import Parameter
from tessella.problems.problem import Problem
from tessella.problems.registry import all_problems


def build_named_problem(document: TomlDocument, settings: Mapping[str, Any]) -> MDP:
    """The model that the document means; ``settings`` take the place of its parameters."""
    named_problem = _find_problem(document, document.data.get("problem"))
    parameters = {} if named_problem is None else _read_settings(document, named_problem)
    document.raise_mistakes()
    assert named_problem is not None
    chosen = parameters | {
        name: parse_setting(named_problem, name, value) for name, value in settings.items()
    }
    named_problem.settings(**chosen)
    try:
        return named_problem.build(name=document.data.get("name", ""), **chosen)
    except TessellaError as error:
        document.note_mistake(("parameters",), str(error))
        document.raise_mistakes()
        raise


def _find_problem(document: TomlDocument, name: object) -> Problem | None:
    if not isinstance(name, str):  # that was noted with the shape
        return None
    by_name = {n: entry for entry in all_problems() for n in (entry.name, *entry.aliases)}
    if name in by_name:
        return by_name[name]
    hint = "; a model file imports nothing" if ":" in name else suggest_name(name, by_name)
    document.note_mistake(("problem",), f"no problem is called {name!r}{hint}")
    return None


def _read_settings(document: TomlDocument, named_problem: Problem) -> dict[str, Any]:
    given = document.data.get("parameters", {})
    if not isinstance(given, dict):
        return {}
    names = [parameter.name for parameter in named_problem.settable]
    for name, value in given.items():
        key_path = ("parameters", name)
        if name not in names:
            subject = f"{named_problem.name} has no parameter {name!r}{suggest_name(name, names)}"
            document.note_mistake(key_path, subject)
            continue
        try:
            named_problem.parameter(name).check(value, named_problem.name)
        except ArgumentError as error:
            document.note_mistake(key_path, str(error))
    return given


def parse_setting(named_problem: Problem, name: str, value: Any) -> Any:
    """A setting from outside the file: text as a person types it, or the value itself."""
    names = [parameter.name for parameter in named_problem.settable]
    if name not in names:
        raise ArgumentError(
            f"{named_problem.name} has no parameter {name!r}{suggest_name(name, names)}"
        )
    parameter = named_problem.parameter(name)
    return _parse_text(parameter, value, named_problem.name) if isinstance(value, str) else value


def _parse_text(parameter: Parameter, text: str, owner: str) -> Any:
    try:
        return parameter.parse(text)
    except ValueError:
        requirement = f"{parameter.name} must be {parameter.range}"
        raise ArgumentError(requirement, location=owner, value=f"got {text!r}") from None
