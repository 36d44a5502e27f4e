"""Model files that name a problem of the registry and its settings: read, and written.

    problem = "perishable"

    [parameters]
    life = 3

A name with a colon would import a module, and a file runs no code: it is rejected. ``write_model``
writes every parameter with its value, its range and a line that explains it; read again, the file
gives the same model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tessella.errors import ArgumentError, TessellaError, require_type
from tessella.files import atomic_write
from tessella.mdp.model import MDP
from tessella.modelfiles.toml_document import TomlDocument, suggest_name, to_printable
from tessella.problems.problem import OBSERVATION_NOISE, Problem
from tessella.problems.registry import all_problems, find_registered, problem


def build_named_problem(document: TomlDocument, settings: Mapping[str, Any]) -> MDP:
    """The model that the document means; ``settings`` take the place of its parameters."""
    named_problem = _find_problem(document, document.data.get("problem"))
    parameters = document.section("parameters")
    if named_problem is not None:
        for name, value in parameters.items():
            with document.noting_errors(("parameters", name)):
                named_problem.parameter(name).check(value, named_problem.name)
    document.raise_mistakes()
    assert named_problem is not None
    chosen = parameters | {
        name: named_problem.parse_setting(name, value) if isinstance(value, str) else value
        for name, value in settings.items()
    }
    named_problem.settings(**chosen)
    try:
        return named_problem.build(name=document.data.get("name", ""), **chosen)
    except TessellaError as error:
        document.note_mistake(("parameters",), str(error))
        document.raise_mistakes()
        raise


def _find_problem(document: TomlDocument, name: object) -> Problem | None:
    if not isinstance(name, str):  # ``check_schema`` noted it
        return None
    known = find_registered(name)
    if known is None:
        names = [n for entry in all_problems() for n in (entry.name, *entry.aliases)]
        hint = "; a model file imports nothing" if ":" in name else suggest_name(name, names)
        document.note_mistake(("problem",), f"no problem is called {name!r}{hint}")
    return known


def write_model(source: Problem | MDP | str, path: str | Path | None = None) -> str:
    """The text of a model file, written to ``path`` too where one is given.

    ``source`` is a problem, its name, or a model that a problem of the registry built.

    Args:
        source: see above.
        path: where to write it.

    Returns:
        The text, with a comment for every parameter.

    Raises:
        ArgumentError: the model was not built by a problem of the registry.

    Example:
        >>> print(ts.write_model("machine_replacement").splitlines()[0])
        # When to replace a machine that wears.
    """
    if isinstance(source, MDP):
        source_problem, settings = _find_origin(source)
        name = source.name
    else:
        source_problem = problem(source) if isinstance(source, str) else source
        require_type("write_model", source_problem, Problem, "problem, its name, or a model of it")
        settings = source_problem.settings()
        name = source_problem.name
    text = _format_file(source_problem, settings, name)
    if path is not None:
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return text


def _find_origin(mdp: MDP) -> tuple[Problem, dict[str, Any]]:
    """The problem that built a model, and its settings; one of the same name first."""
    settings: dict[str, Any] = {**mdp.parameters, OBSERVATION_NOISE: mdp.observation_noise}
    for candidate in sorted(all_problems(), key=lambda candidate: candidate.name != mdp.name):
        if {p.name for p in candidate.parameters} != set(mdp.parameters):
            continue
        try:
            chosen = candidate.settings(**settings)
            if candidate.build(**chosen).fingerprint == mdp.fingerprint:
                return candidate, chosen
        except TessellaError:
            continue
    requirement = "a model is written to a model file as the problem that built it, unchanged"
    raise ArgumentError(
        requirement, location=f"the model {mdp.name!r}", value="is none that a problem builds"
    )


def _format_file(source_problem: Problem, settings: dict[str, Any], name: str) -> str:
    if all(source_problem is not other for other in all_problems()):
        requirement = "a model file names a problem of the registry: register it first"
        raise ArgumentError(requirement, value=f"got {source_problem.name!r}")
    name_line = "" if name in ("", source_problem.name) else f"\nname = {_format_toml(name)}"
    blocks = [
        _format_heading(source_problem),
        f"problem = {_format_toml(source_problem.name)}{name_line}",
        "[parameters]",
    ]
    for known in source_problem.settable:
        comment = "; ".join(part for part in (known.about, known.range) if part)
        setting = f"{known.name} = {_format_toml(settings[known.name])}"
        blocks.append(f"# {to_printable(comment)}\n{setting}")
    return "\n\n".join(blocks) + "\n"


def _format_heading(source_problem: Problem) -> str:
    lines = [f"{source_problem.title}.", ""]
    if source_problem.theory:
        lines += ["What theory says of the best policy:"]
        lines += [f"  {one.structure}: {one.says}" for one in source_problem.theory]
        lines += [""]
    lines += ["A parameter whose line is taken out has its default."]
    return "\n".join(f"# {line}".rstrip() for line in map(to_printable, lines))


def _format_toml(value: Any) -> str:
    """A setting as TOML, in which plain values are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
