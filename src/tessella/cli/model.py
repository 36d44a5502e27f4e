"""The MODEL argument, the same in every command, and what is made of it.

A MODEL is, in this order: a file that ends in ``.toml`` (a model file) or ``.nc`` (a saved model or
solution); ``module.py:name`` or ``package.module:name`` (a problem, a model, or a function that
returns one); the name of a problem. ``--set name=value`` gives a problem, a model file or a
function other settings.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tessella.grid import StateGrid
    from tessella.mdp.model import MDP
    from tessella.problems.problem import Problem
    from tessella.solvers.solution import Solution

SAVED, TOLD, CODE = ".nc", ".toml", ".py"


class ModelWord(click.ParamType):
    """What names a model; completed by the problems' names and by files."""

    name = "model"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from tessella.problems.registry import all_problems

        named = [p for p in all_problems() if p.name.startswith(incomplete)]
        found = [CompletionItem(known.name, help=known.title) for known in named]
        return [*found, CompletionItem(incomplete, type="file")]


def takes_model(function: Callable) -> Callable:
    """Adds the argument MODEL and the option ``--set``."""
    settings = click.option(
        "--set", "given", multiple=True, metavar="NAME=VALUE", help="Another setting; may repeat."
    )
    return click.argument("model", type=ModelWord())(settings(function))


def model_of(word: str, given: tuple[str, ...] = ()) -> MDP:
    """The model that ``word`` names, with the settings that were typed."""
    from tessella.mdp.model import MDP

    found = opened(word, given)
    return found if isinstance(found, MDP) else found.mdp


def solution_of(word: str, given: tuple[str, ...]) -> Solution:
    """The solution of the model that ``word`` names: read, remembered, or found."""
    from tessella.cli.remembered import solved
    from tessella.mdp.model import MDP

    found = opened(word, given)
    return solved(found, any_tol=True).solution if isinstance(found, MDP) else found


def opened(word: str, given: tuple[str, ...] = ()) -> MDP | Solution:
    """What ``word`` names: a model, or a solution with its model."""
    sys.path.append(os.getcwd())  # a problem of one's own may lie in the current folder
    path = Path(word)
    if path.suffix == TOLD:
        from tessella.modelfiles.read_model import read_model

        return read_model(path, dict(_pairs(given)))
    if path.suffix == SAVED:
        return _saved(path, given)
    if ":" in word:
        return _from_code(word, given)
    return built(_problem(word), given)


def _problem(name: str) -> Problem:
    from tessella.problems.registry import problem

    return problem(name)


def built(known: Problem, given: tuple[str, ...]) -> MDP:
    """A problem's model, with the settings that were typed."""
    from tessella.errors import ArgumentError

    settings = {}
    for word in given:
        key, equals, text = word.partition("=")
        parameter = known.parameter(key.strip())
        try:
            settings[parameter.name] = parameter.parse(text) if equals else None
        except ValueError:
            rule = f"{parameter.name} must be {parameter.range}"
            raise ArgumentError(rule, place=known.name, value=f"got {text!r}") from None
    return known.build(**settings)


def _saved(path: Path, given: tuple[str, ...]) -> MDP | Solution:
    from tessella.mdp.files.netcdf import FORMAT, kind_of
    from tessella.mdp.model import MDP
    from tessella.solvers.solution import Solution

    _refuse_settings(given, f"{path.name} holds numbers")
    return MDP.load(path) if kind_of(path) == FORMAT else Solution.load(path)


def _from_code(word: str, given: tuple[str, ...]) -> MDP:
    from tessella.errors import ArgumentError, ModelError, TessellaError
    from tessella.mdp.model import MDP
    from tessella.problems.problem import Problem

    found = _in_file(word) if _file_of(word) else _imported(word)
    if isinstance(found, Problem):
        return built(found, given)
    if isinstance(found, MDP):
        _refuse_settings(given, f"{word} is a model")
        return found
    if not callable(found):
        rule = "a model is a Problem, an MDP, or a function that returns one"
        raise ArgumentError(rule, place=repr(word), value=f"is {type(found).__name__}")
    try:
        mdp = found(**{name: literal(text) for name, text in _pairs(given)})
    except TessellaError:
        raise
    except Exception as error:
        rule = f"{word} could not be called"
        raise ModelError(rule, value=f"{type(error).__name__}: {error}") from error
    if isinstance(mdp, Problem):
        return mdp.build()
    if isinstance(mdp, MDP):
        return mdp
    raise ArgumentError(f"{word} must return an MDP", value=f"got {type(mdp).__name__}")


def _file_of(word: str) -> bool:
    return word.rpartition(":")[0].endswith(CODE)


def _in_file(word: str) -> Any:
    """``name`` in the file of ``path/module.py:name``."""
    from tessella.errors import ArgumentError, FileError

    where, _, name = word.rpartition(":")
    path = Path(where)
    if not path.is_file():
        raise FileError(f"{path} cannot be read as Python", value="it is missing")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise FileError(f"{path} cannot be run as Python", value=told) from error
    if not hasattr(module, name):
        raise ArgumentError(f"{path} has no {name!r}")
    return getattr(module, name)


def _imported(word: str) -> Any:
    from tessella.problems.imported import imported

    return imported(word, "problem")


def _refuse_settings(given: tuple[str, ...], why: str) -> None:
    from tessella.errors import ArgumentError

    if given:
        raise ArgumentError(f"--set is for problems, model files and functions; {why}")


def _pairs(given: tuple[str, ...]) -> list[tuple[str, str]]:
    from tessella.errors import ArgumentError

    pairs = [word.partition("=") for word in given]
    for (key, equals, _), word in zip(pairs, given, strict=True):
        if not (key.strip() and equals):
            raise ArgumentError("--set is written name=value", value=f"got {word!r}")
    return [(key.strip(), text.strip()) for key, _, text in pairs]


def literal(text: str) -> Any:
    """What was typed: a number, true or false, a list with commas, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        parts = text.split(",")
        return [literal(part.strip()) for part in parts if part.strip()] if parts[1:] else text


def coordinates(grid: StateGrid, words: tuple[str, ...], what: str) -> dict[str, Any]:
    """Coordinates by name, typed as ``stock=3,regime=0``; text where an axis holds text."""
    from tessella.errors import ArgumentError

    found: dict[str, Any] = {}
    for word in (part for whole in words for part in whole.split(",") if part.strip()):
        key, equals, text = word.partition("=")
        if not (key.strip() and equals and text.strip()):
            raise ArgumentError(f"{what} is written name=value", value=f"got {word!r}")
        named = grid.values[grid.axis(key.strip())].dtype.kind == "U"
        found[key.strip()] = text.strip() if named else literal(text.strip())
    return found


def takes_start(function: Callable) -> Callable:
    """Adds the option ``--start``."""
    about = "stationary, a state's number, or stock=3,regime=0; by default the model's own."
    return click.option("--start", help=about)(function)


def start_of(mdp: MDP, text: str | None) -> Any:
    """A start as it is typed: ``stationary``, a state's number, or ``stock=3,regime=0``."""
    if text is None or text == "stationary":
        return text
    number = literal(text)
    return number if isinstance(number, int) else coordinates(mdp.grid, (text,), "--start")


def about(mdp: MDP) -> dict[str, Any]:
    """A model for programs."""
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
        "criterion": criterion_of(mdp),
        "told_in": "costs" if mdp.minimise else "rewards",
    }


def criterion_of(mdp: MDP) -> str:
    """The criterion in words, of costs where the model is told in costs."""
    return str(mdp.criterion).replace("reward", "cost" if mdp.minimise else "reward")


def titled(mdp: MDP) -> str:
    """``INV-Mix: 825 states (stock 33 x regime 25), 5 order actions, discount 0.95``."""
    axes = " x ".join(f"{n} {s}" for n, s in zip(mdp.grid.axes, mdp.grid.shape, strict=True))
    named = "" if mdp.action_name == "action" else f"{mdp.action_name} "
    many = f"{mdp.n_actions} {named}action{'' if mdp.n_actions == 1 else 's'}"
    head = f"{mdp.name or 'model'}: {mdp.n_states:,} states ({axes}), {many}, {criterion_of(mdp)}"
    return head + (", told in costs" if mdp.minimise else "")
