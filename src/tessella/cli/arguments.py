"""The arguments and options that commands share, and how a MODEL is opened and described.

A MODEL is, in this order: a file that ends in ``.toml`` (a model file) or ``.nc`` (a saved model or
solution); one that ends in ``.drn``, ``.drn.gz`` or ``.umb`` (of a model checker, with the options
of ``MDP.from_drn`` as settings); ``module.py:name`` or ``package.module:name`` (a problem, a model,
or a function that returns one); the name of a problem. ``--set name=value`` gives a problem, a
model file or a function other settings.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

import tessella as ts
from tessella.cli.cache import solve_cached
from tessella.cli.command import Answer, format_table
from tessella.errors import ArgumentError, FileError, ModelError, TessellaError, counted

SAVED_SUFFIX = ".nc"
MODEL_FILE_SUFFIX = ".toml"
MODEL_CHECKER_SUFFIXES = (".drn", ".drn.gz", ".umb")
PYTHON_SUFFIX = ".py"
USER_MODULE = "model_of_the_user"  # a file's name in Python, which no other module has

PATH = click.Path(path_type=Path)
EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
policy_option = click.option(
    "--policy",
    type=EXISTING_FILE,
    help="A saved rule or policy (.json) or a table (.csv); by default the optimal policy.",
)
settings_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A setting; may repeat."
)
start_option = click.option(
    "--start", help="stationary, a state's number, or stock=3,regime=0; by default the model's own."
)
constraints_option = click.option(
    "--subject-to",
    multiple=True,
    metavar="MEASURE>=LEVEL",
    help="Bound a measure from below, or with <= from above; may repeat. "
    "It replaces the bound in a model file.",
)


class ModelParam(click.ParamType):
    """The name of a problem, a file or a function; completed by names of problems and files."""

    name = "model"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        matches = [p for p in ts.all_problems() if p.name.startswith(incomplete)]
        completions = [CompletionItem(known.name, help=known.title) for known in matches]
        return [*completions, CompletionItem(incomplete, type="file")]


@dataclass(frozen=True)
class NamedModel:
    """The MODEL of a command, with the settings that were typed; opened when it is first used."""

    word: str
    assignments: tuple[str, ...] = ()

    @cached_property
    def opened(self) -> ts.MDP | ts.Solution:
        """A model, or a solution with its model."""
        sys.path.append(os.getcwd())  # a custom problem may lie in the current folder
        path = Path(self.word)
        if path.suffix == MODEL_FILE_SUFFIX:
            return ts.read_model(path, dict(_parse_settings(self.assignments)))
        if path.suffix == SAVED_SUFFIX:
            _require_no_settings(self.assignments, f"{path.name} holds numbers")
            return ts.MDP.load(path) if is_saved_model(path) else ts.Solution.load(path)
        if self.word.endswith(MODEL_CHECKER_SUFFIXES):
            return _open_model_checker_file(path, self.assignments)
        if ":" in self.word:
            return _open_from_code(self.word, self.assignments)
        return build_problem(ts.problem(self.word), self.assignments)

    @property
    def mdp(self) -> ts.MDP:
        return self.opened if isinstance(self.opened, ts.MDP) else self.opened.mdp

    @property
    def solution(self) -> ts.Solution:
        """From a file, the cache, or a solve; constraints of the model do not count."""
        if isinstance(self.opened, ts.MDP):
            return solve_cached(self.opened, any_tol=True).solution
        return self.opened

    def ignore_constraints(self) -> ts.MDP:
        """The model; a message names its constraints, without which it will be solved."""
        from tessella.mdp.measures import describe_constraints

        if self.mdp.constraints:
            terms = describe_constraints(self.mdp.constraints)
            click.echo(
                f"Note: the constraints of the model are not applied here: {terms}", err=True
            )
        return self.mdp

    def solve_unconstrained(self) -> ts.Solution:
        """The solution without the constraints of the model, and a message that names them."""
        self.ignore_constraints()
        return self.solution


def model_argument(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """Adds the argument MODEL and the option ``--set``, which make a ``NamedModel``."""

    @click.argument("model", type=ModelParam())
    @settings_option
    @wraps(function)
    def command(model: str, assignments: tuple[str, ...], **options: Any) -> Answer:
        return function(NamedModel(model, assignments), **options)

    return command


def names_other_model(word: str) -> bool:
    """Whether ``word`` names a file or code, not a problem of the registry."""
    suffixes = (MODEL_FILE_SUFFIX, SAVED_SUFFIX, *MODEL_CHECKER_SUFFIXES)
    return word.endswith(suffixes) or ":" in word


def build_problem(named_problem: ts.Problem, assignments: tuple[str, ...]) -> ts.MDP:
    """A problem's model, with the settings that were typed."""
    return named_problem.build(**parse_settings(named_problem, assignments))


def parse_settings(named_problem: ts.Problem, assignments: tuple[str, ...]) -> dict[str, Any]:
    """Every setting of a problem, checked: as typed, else its default."""
    settings = {}
    for word in assignments:
        key, equals, text = word.partition("=")
        parameter = named_problem.parameter(key.strip())
        if not equals:
            requirement = f"{parameter.name} must be {parameter.range}"
            reason = f"got no value; write --set {parameter.name}=VALUE"
            raise ArgumentError(requirement, location=named_problem.name, value=reason)
        settings[parameter.name] = named_problem.parse_setting(parameter.name, text)
    return named_problem.settings(**settings)


def _open_model_checker_file(path: Path, assignments: tuple[str, ...]) -> ts.MDP:
    from tessella.criteria import parse_criterion

    typed = dict(_parse_settings(assignments))
    unknown = typed.keys() - (set(inspect.signature(ts.MDP.from_drn).parameters) - {"path"})
    if unknown:
        raise ArgumentError(f"{path.name} has no setting {min(unknown)!r}")
    parsers: dict[str, Callable[[str], Any]] = {"criterion": parse_criterion}
    options = {name: parsers.get(name, parse_literal)(text) for name, text in typed.items()}
    return ts.MDP.from_drn(path, **options)


def is_saved_model(path: Path) -> bool:
    """Whether a file holds a model as ``MDP.save`` writes it."""
    if path.suffix.lower() != SAVED_SUFFIX:
        return False
    from tessella.mdp.netcdf import FORMAT, read_format

    return read_format(path) == FORMAT


def _open_from_code(word: str, assignments: tuple[str, ...]) -> ts.MDP:
    from tessella.problems.registry import import_object

    is_file = word.rpartition(":")[0].endswith(PYTHON_SUFFIX)
    imported = _load_from_file(word) if is_file else import_object(word, "problem")
    if isinstance(imported, ts.Problem):
        return build_problem(imported, assignments)
    if isinstance(imported, ts.MDP):
        _require_no_settings(assignments, f"{word} is a model")
        return imported
    if not callable(imported):
        requirement = "a model is a Problem, an MDP, or a function that returns one"
        raise ArgumentError(requirement, location=repr(word), value=f"is {type(imported).__name__}")
    try:
        mdp = imported(**{name: parse_literal(text) for name, text in _parse_settings(assignments)})
    except TessellaError:
        raise
    except Exception as error:
        requirement = f"{word} could not be called"
        raise ModelError(requirement, value=f"{type(error).__name__}: {error}") from error
    if isinstance(mdp, ts.Problem):
        return mdp.build()
    if isinstance(mdp, ts.MDP):
        return mdp
    raise ArgumentError(f"{word} must return an MDP", value=f"got {type(mdp).__name__}")


def _load_from_file(word: str) -> Any:
    """``name`` in the file of ``path/module.py:name``."""
    file, _, name = word.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise FileError(f"{path} cannot be read as Python", value="it is missing")
    try:
        names = runpy.run_path(file, run_name=USER_MODULE)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise FileError(f"{path} cannot be run as Python", value=reason) from error
    if name not in names:
        raise ArgumentError(f"{path} has no {name!r}")
    return names[name]


def _require_no_settings(assignments: tuple[str, ...], reason: str) -> None:
    if assignments:
        raise ArgumentError(f"--set is for problems, model files and functions; {reason}")


def _parse_settings(assignments: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in assignments]
    for (key, equals, _), word in zip(pairs, assignments, strict=True):
        if not (key.strip() and equals):
            raise ArgumentError("--set is written name=value", value=f"got {word!r}")
    return [(key.strip(), text.strip()) for key, _, text in pairs]


def parse_literal(text: str) -> Any:
    """A number, true or false, a list with commas, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        if "," not in text:
            return text
        return [parse_literal(part.strip()) for part in text.split(",") if part.strip()]


def parse_coordinates(grid: ts.StateGrid, words: tuple[str, ...], subject: str) -> dict[str, Any]:
    """Coordinates by name, typed as ``stock=3,regime=0``; text where an axis holds text."""
    result: dict[str, Any] = {}
    for word in (part for whole in words for part in whole.split(",") if part.strip()):
        key, equals, text = word.partition("=")
        if not (key.strip() and equals and text.strip()):
            raise ArgumentError(f"{subject} is written name=value", value=f"got {word!r}")
        is_text = grid.values[grid.axis(key.strip())].dtype.kind == "U"
        result[key.strip()] = text.strip() if is_text else parse_literal(text.strip())
    return result


def parse_start(mdp: ts.MDP, text: str | None) -> Any:
    """A start as it is typed: ``stationary``, a state's number, or ``stock=3,regime=0``."""
    if text is None or text == "stationary":
        return text
    number = parse_literal(text)
    if isinstance(number, int):
        return number
    return parse_coordinates(mdp.grid, (text,), "--start, unless stationary or a number,")


def describe_model(mdp: ts.MDP) -> dict[str, Any]:
    """The fields of a model in JSON answers."""
    axes = zip(mdp.grid.axes, mdp.grid.values, strict=True)
    return {
        "name": mdp.name,
        "fingerprint": mdp.fingerprint,
        "states": mdp.n_states,
        "axes": [
            {"name": name, "size": len(v), "first": v.tolist()[0], "last": v.tolist()[-1]}
            for name, v in axes
        ],
        "action_name": mdp.action_name,
        "actions": [str(action) for action in mdp.actions],
        "criterion": describe_criterion(mdp),
        "stated_in": mdp.sense.rewards_noun,
    }


def describe_measures(measures: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Measures as text to add to an answer, and as fields of a JSON answer."""
    from tessella.rounding import format_with_error_bound

    rows = []
    data: dict[str, Any] = {}
    for name, found in measures.items():
        enclosed = found and format_with_error_bound(found.value, found.error_bound)
        rows.append((name, ", off by at most ".join(enclosed or ["its denominator is 0"])))
        data[name] = found and {"value": found.value, "lower": found.low, "upper": found.high}
    return format_measures(rows), data


def format_measures(rows: Sequence[tuple[str, str]]) -> str:
    """Measures as text to add to an answer: none where there are none."""
    lines = ["\n\nMeasures:", *format_table(rows).splitlines()]
    return "\n  ".join(lines) if rows else ""


CONSTRAINT = re.compile(r"\s*(\w+)\s*([<>]=)(.*)")


class LevelParam(click.ParamType):
    """A level of a measure: ``0.98`` or ``98%``."""

    name = "level"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        from tessella.mdp.measures import read_level

        level = read_level(str(value))
        if level is None:
            self.fail(f"{value!r} is not a level, such as 0.98 or 98%", param, ctx)
        return level


def collect_constraints(mdp: ts.MDP, words: tuple[str, ...]) -> dict[str, Any]:
    """Constraints by measure: those of the model's file, and as typed, ``fill_rate>=98%``."""
    from tessella.mdp.measures import AtLeast, AtMost, read_constraints, read_level

    typed: dict[str, Any] = {}
    repeated = []
    for word in words:
        match = CONSTRAINT.fullmatch(word)
        level = None if match is None else read_level(match[3])
        if match is None or level is None:
            requirement = "--subject-to is written fill_rate>=0.98, fill_rate>=98% or lost<=2"
            raise ArgumentError(requirement, value=f"got {word!r}")
        repeated += [match[1]] if match[1] in typed else []
        typed[match[1]] = {">=": AtLeast, "<=": AtMost}[match[2]](level)
    constraints = {**mdp.constraints, **typed}
    found = read_constraints(mdp.measures, constraints) if constraints else {}
    for name in repeated:
        requirement = "--subject-to bounds a measure once: for a band, bound it under two names"
        hint = (
            f"same = {mdp.measures[name].text or name!r} in [measures] of a model file adds a name"
        )
        raise ArgumentError(requirement, location=name, value=f"got two bounds; {hint}")
    return found


@contextmanager
def citing_levels(model: NamedModel, constraints: dict[str, Any]) -> Iterator[None]:
    """Add to an error about levels that no policy reaches their lines in the model file."""
    from tessella.modelfiles.toml_document import ReadLimits, read_document

    try:
        yield
    except ArgumentError as error:
        cited = {
            (name, constraint.key)
            for name, constraint in constraints.items()
            if constraint is model.mdp.constraints.get(name)
            and error.requirement.startswith((f"{name} is at ", "no policy satisfies"))
        }
        if not (cited and model.word.endswith(MODEL_FILE_SUFFIX)):
            raise
        lines = read_document(Path(model.word), ReadLimits()).lines
        places = [f"{model.word}:{lines[('constraints', *key)]}" for key in sorted(cited)]
        value = f"{error.value} ({', '.join(places)})"
        raise ArgumentError(error.requirement, location=error.location, value=value) from error


def describe_criterion(mdp: ts.MDP) -> str:
    """The criterion in words, of costs where the model is stated in costs."""
    return str(mdp.criterion).replace("reward", mdp.sense.reward)


def format_title(mdp: ts.MDP) -> str:
    """``INV-Mix: 825 states (stock 33 x regime 25), 5 order actions, discount 0.95``."""
    axes = " x ".join(f"{n} {s}" for n, s in zip(mdp.grid.axes, mdp.grid.lengths, strict=True))
    action_name = "" if mdp.action_name == "action" else f"{mdp.action_name} "
    actions_text = counted(mdp.n_actions, f"{action_name}action")
    states_text = f"{counted(mdp.n_states, 'state')} ({axes})"
    parts = [states_text, actions_text, describe_criterion(mdp)]
    title = f"{mdp.name or 'model'}: {', '.join(parts)}"
    return title + (", in costs" if mdp.sense.is_cost else "")
