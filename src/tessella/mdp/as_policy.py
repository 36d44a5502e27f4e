"""The one door for policies: anything that decides, as a policy of a model.

A source is asked once for every state of the grid. What it answers is read as action *indices* or
as action *values* (the numbers or names in ``mdp.actions``): as whichever of the two all answers
can be, and if they can be both with different meanings, the caller must say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, PolicyError, TessellaError
from tessella.grid import unmasked
from tessella.mdp.actions import Combination, components, records
from tessella.mdp.policy import Policy, Rule, refuse_other
from tessella.mdp.policy_table import read_table
from tessella.mdp.scope import call

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

Labels = Literal["index", "value"]


def as_policy(mdp: MDP, source: Any, labels: Labels | None = None) -> Policy:
    """``source`` as a feasible policy of ``mdp``.

    Args:
        source: a Policy, or a result that carries one, such as a solution; a rule, which is a
            function of points (n, d) with a ``size``; a table of action indices or names; the path
            of a saved policy (``.json``), or of a CSV table with a column for each axis and one for
            the action; an estimator
            with scikit-learn's ``predict(points)``; an agent with Stable-Baselines3's
            ``predict(observation, deterministic=True)``; a function of points (n, d), or of
            coordinates by name, that returns an action for each. Where actions have several
            components, a table or an answer may also be a mapping of their names to arrays.
        labels: how to read its answers: ``"index"`` or ``"value"``. Tables and agents give indices
            and CSV files values, unless said otherwise.
    """
    if labels not in (None, "index", "value"):
        raise ArgumentError("labels must be 'index' or 'value'", value=f"got {labels!r}")
    own = source if isinstance(source, Policy) else getattr(source, "policy", None)
    if isinstance(own, Policy):
        refuse_other(own, mdp.grid, mdp.actions)
        mdp.check_feasible(own.table)
        return own
    if isinstance(source, Rule) and isinstance(source.size, int):
        name = getattr(source, "name", type(source).__name__)
        made = Policy(mdp.grid, mdp.actions, source, str(name), mdp.action_name)
        mdp.check_feasible(made.table)
        return made
    if isinstance(source, str | Path) and Path(source).suffix == ".json":
        return as_policy(mdp, Policy.load(source))
    if isinstance(source, str | Path):
        answers, name = read_table(mdp, Path(source)), Path(source).stem
        return _read(mdp, answers, labels or "value", name)
    if hasattr(source, "predict"):
        return _predicted(mdp, source, labels)
    if callable(source):
        name = getattr(source, "__name__", type(source).__name__)
        name = "" if name == "<lambda>" else name.replace("_", " ")
        return _read(mdp, _from_function(mdp, source), labels, name)
    if isinstance(source, Mapping) and components(mdp.actions):
        answers = _spread(mdp, _combined(mdp, source), "a table")
        return _read(mdp, answers, "value", "")
    answers = (
        np.asarray(unmasked(source, "a policy", error=PolicyError))
        if _rectangular(source)
        else None
    )
    known = "biufUV" if components(mdp.actions) else "biufU"
    if answers is None or answers.dtype.kind not in known:
        rule = (
            "a policy must be a Policy, a rule, a table, a file's path, an estimator, an agent "
            "or a function"
        )
        raise PolicyError(rule, value=f"got {type(source).__name__}")
    return _read(mdp, answers, labels or ("value" if answers.dtype.kind in "UV" else "index"), "")


def _rectangular(values: Any) -> bool:
    try:
        np.shape(values)
    except ValueError:
        return False
    return True


def _read(mdp: MDP, answers: NDArray, labels: Labels | None, name: str) -> Policy:
    if answers.dtype.names and components(mdp.actions):  # records, perhaps in another order
        answers = _combined(mdp, {name: answers[name] for name in answers.dtype.names})
    meant = labels or _meaning(mdp, np.unique(answers))
    table = answers if meant == "index" else _indices(mdp, answers)
    made = Policy.of(mdp.grid, mdp.actions, table, name=name, action_name=mdp.action_name)
    mdp.check_feasible(made.table)
    return made


def _meaning(mdp: MDP, answers: NDArray) -> Labels:
    """Indices or values: what all ``answers`` can be."""
    whole = answers.dtype.kind in "biuf" and bool((answers == np.rint(answers)).all())
    index = whole and bool(((answers >= 0) & (answers < mdp.n_actions)).all())
    found = [_find(mdp, answer) for answer in answers]
    value = all(at >= 0 for at in found)
    if index and value and found != [int(a) for a in answers]:
        raise PolicyError(
            "answers that could be action indices or action values must be explained",
            place=f"{[a.item() for a in answers]}",
            value=f"could be either among {mdp.actions}; say labels='index' or labels='value'",
        )
    return "index" if index else "value"


def _find(mdp: MDP, answer: Any) -> int:
    """Index of the action with this value or name, or -1."""
    answer = answer.item() if isinstance(answer, np.void) else answer  # a record
    for index, action in enumerate(mdp.actions):
        if isinstance(action, str) == isinstance(answer, str) and action == answer:
            return index
    return -1


def _indices(mdp: MDP, answers: NDArray) -> NDArray[np.int32]:
    distinct, which = np.unique(answers, return_inverse=True)
    found = np.array([_find(mdp, answer) for answer in distinct], dtype=np.int32)
    table = found[which.ravel()].reshape(answers.shape)
    bad = np.flatnonzero(table < 0)
    if bad.size:
        place = mdp.grid.describe(int(bad[0])) if table.size == mdp.n_states else ""
        parts, answer = components(mdp.actions), answers.ravel()[bad[0]]
        told = [f"({a})" if parts else str(a) for a in mdp.actions]
        rule = f"{mdp.action_name} must be one of {', '.join(told)}"
        if isinstance(answer, np.void):
            answer = Combination(parts, answer.item())
        got = f"gets {answer}"
        raise PolicyError(
            rule, place=place, value=got, count=bad.size, total=answers.size, noun="states"
        )
    return table


def _predicted(mdp: MDP, source: Any, labels: Labels | None) -> Policy:
    name = type(source).__name__
    if "deterministic" in _parameters(source.predict):
        return _read(mdp, _from_agent(mdp, source), labels or "index", name)
    answers = np.asarray(_asked(source.predict, mdp.grid.points, name))
    if answers.shape != (mdp.n_states,):
        rule = f"an estimator must predict one action for each of {mdp.n_states} points"
        raise PolicyError(rule, place=name, value=f"gives shape {answers.shape}")
    # The labels it was trained on say more than those it happens to predict.
    known = getattr(source, "classes_", None)
    if labels is None and isinstance(known, np.ndarray):
        labels = _meaning(mdp, np.unique(known))
    return _read(mdp, answers, labels, name)


def _from_agent(mdp: MDP, agent: Any) -> NDArray:
    """Ask an agent about every state, in the observations that its space asks for."""
    shape = getattr(getattr(agent, "observation_space", None), "shape", (mdp.grid.ndim,))
    if shape == ():
        observations = np.arange(mdp.n_states)
    elif shape == (mdp.grid.ndim,):
        observations = mdp.grid.points.astype(np.float32)
    else:
        rule = f"an agent must observe flat state indices or {mdp.grid.ndim} coordinates"
        raise PolicyError(rule, place=type(agent).__name__, value=f"observes shape {shape}")
    answer = agent.predict(observations, deterministic=True)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        rule = "an agent's predict must return actions and a state"
        raise PolicyError(
            rule, place=type(agent).__name__, value=f"returns {type(answer).__name__}"
        )
    actions = np.asarray(answer[0])
    if actions.size != mdp.n_states:
        rule = f"an agent must answer for each of {mdp.n_states} observations"
        raise PolicyError(rule, place=type(agent).__name__, value=f"gives shape {actions.shape}")
    return actions.reshape(mdp.n_states)


def _from_function(mdp: MDP, function: Callable) -> NDArray:
    """Call ``function`` of coordinates by name if it names axes, else of (n, d) points."""
    parameters = _parameters(function)
    needed = [
        p.name for p in parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    hint = ""
    if len(needed) == 1 and needed[0] not in mdp.grid.axes:
        hint = (
            f"; its argument {needed[0]!r} names no axis, so it was given points of shape "
            f"(n, {mdp.grid.ndim}); the axes are {', '.join(mdp.grid.axes)}"
        )
        said = _asked(function, mdp.grid.points, "the policy function", hint)
    else:
        said = _asked_by_name(function, mdp)
    if isinstance(said, Mapping) and components(mdp.actions):
        said = _combined(mdp, said)
    return _spread(mdp, np.asarray(said), "a policy function", hint)


def _combined(mdp: MDP, parts: Mapping) -> NDArray:
    """Arrays by component as records, in the order that the model has them."""
    names = components(mdp.actions)
    if set(parts) != set(names):
        rule = f"a policy must give each of {', '.join(names)}"
        raise PolicyError(rule, value=f"got {', '.join(map(str, parts)) or 'none'}")
    given = {name: np.asarray(unmasked(parts[name], name, error=PolicyError)) for name in names}
    try:
        return records(given)
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
        rule = "the components of a policy must broadcast to one another"
        raise PolicyError(rule, value=f"got shapes {shapes}") from None


def _spread(mdp: MDP, answers: NDArray, what: str, hint: str = "") -> NDArray:
    """(grid) the answers, from an array that broadcasts to it or is flat."""
    try:
        return np.broadcast_to(answers, mdp.grid.shape)
    except ValueError:
        if answers.shape == (mdp.n_states,):
            return answers.reshape(mdp.grid.shape)
    rule = f"{what} must return an action for each state, shape {mdp.grid.shape}"
    raise PolicyError(rule, value=f"got shape {answers.shape}{hint}")


def _asked_by_name(function: Callable, mdp: MDP) -> Any:
    return call(function, mdp.grid.mesh(), "the policy function", error=PolicyError)


def _asked(function: Callable, argument: Any, what: str, hint: str = "") -> Any:
    try:
        return function(argument)
    except TessellaError:
        raise
    except Exception as error:
        raise PolicyError(
            f"{what} must answer for arrays of coordinates, all states at once",
            value=f"it failed with {type(error).__name__}: {error}{hint}",
        ) from error


def _parameters(function: Callable) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {"points": inspect.Parameter("points", inspect.Parameter.POSITIONAL_ONLY)}
