"""``write_model``: a problem of the registry as a commented model file.

Every parameter stands there with its value, its range and a line that explains it, so the file is
a place to start from; read back as it is, it gives the same model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tessella.errors import ArgumentError, TessellaError, expect
from tessella.files import writing
from tessella.mdp.model import MDP
from tessella.problems.parameter import Parameter
from tessella.problems.problem import NOISE, Problem
from tessella.problems.registry import all_problems, problem


def write_model(source: Problem | MDP | str, path: str | Path | None = None) -> str:
    """The text of a model file, written to ``path`` too where one is given.

    ``source`` is a problem, its name, or a model that a problem of the registry built.
    """
    if isinstance(source, MDP):
        known, settings = _origin(source)
        name = source.name
    else:
        known = problem(source) if isinstance(source, str) else source
        expect("write_model", known, Problem, "problem, its name, or a model of it")
        settings, name = known.settings(), known.name
    text = _text(known, settings, name)
    if path is not None:
        with writing(path) as part:
            part.write_text(text, encoding="utf-8")
    return text


def _origin(mdp: MDP) -> tuple[Problem, dict[str, Any]]:
    """The problem that built a model, and its settings; that of the same name if there is one."""
    settings: dict[str, Any] = {**mdp.parameters, NOISE: mdp.observation_noise}
    for known in sorted(all_problems(), key=lambda known: known.name != mdp.name):
        if {p.name for p in known.parameters} != set(mdp.parameters):
            continue
        try:
            chosen = known.settings(**settings)
            if known.build(**chosen).fingerprint == mdp.fingerprint:
                return known, chosen
        except TessellaError:
            continue
    rule = "a model is written to a model file as the problem that built it, unchanged"
    raise ArgumentError(
        rule, place=f"the model {mdp.name!r}", value="is none that a problem builds"
    )


def _text(known: Problem, settings: dict[str, Any], name: str) -> str:
    if all(known is not other for other in all_problems()):
        rule = "a model file names a problem of the registry: register it first"
        raise ArgumentError(rule, value=f"got {known.name!r}")
    called = "" if name in ("", known.name) else f"\nname = {_toml(name)}"
    blocks = [_heading(known), f"problem = {_toml(known.name)}{called}", "[parameters]"]
    blocks += [_setting(parameter, settings[parameter.name]) for parameter in known.settable]
    return "\n\n".join(blocks) + "\n"


def _heading(known: Problem) -> str:
    said = [f"{known.title}.", ""]
    if known.theory:
        said += ["What theory says of the best policy:"]
        said += [f"  {one.structure}: {one.says}" for one in known.theory]
        said += [""]
    said += ["A parameter whose line is taken out has its default."]
    return "\n".join(f"# {line}".rstrip() for line in map(_one_line, said))


def _setting(parameter: Parameter, value: Any) -> str:
    comment = "; ".join(part for part in (parameter.about, parameter.range) if part)
    return f"# {_one_line(comment)}\n{parameter.name} = {_toml(value)}"


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _toml(value: Any) -> str:
    """A setting as TOML: what a parameter holds is as plain as JSON, which writes it alike."""
    return json.dumps(value, ensure_ascii=False)
