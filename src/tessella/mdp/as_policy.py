"""Conversion to policies: tables, rules, functions, estimators, agents and files.

    a rule, a function, an estimator, an agent      stays a rule, evaluated at points (n, d)
    a table, by state or by component; a CSV file   becomes a table of action indices
    a saved policy or rule                          is loaded

Answers are action *indices*, or action *values* (the numbers or names in ``mdp.actions``). If the
caller does not say which, they are read as the one that fits all answers; if both fit, with
different meanings, the caller must say. Otherwise a rule is evaluated here at one chunk of states
only. The size of an estimator or a function is that of its file, in numbers of eight bytes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, PolicyError, TessellaError, raise_for_first
from tessella.grid import StateGrid, require_unmasked
from tessella.mdp.actions import VectorAction, combine_columns, component_names
from tessella.mdp.policy import (
    CHUNK_STATES,
    DecisionFunction,
    Policy,
    measure_storage,
    require_same_model,
)
from tessella.mdp.policy_table import read_table
from tessella.mdp.state_action_space import call_by_name

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

Labels = Literal["index", "value"]


def as_policy(
    mdp: MDP, source: Any, labels: Labels | None = None, *, chunk_states: int = CHUNK_STATES
) -> Policy:
    """``source`` as a feasible policy of ``mdp``.

    Args:
        mdp: the model.
        source: a Policy, or a result that carries one, such as a solution; a rule, which is a
            function of points (n, d) with a ``size``; a table of action indices or names; the path
            of a saved policy or rule (``.json``), or of a CSV table with a column for each axis and
            one for the action; an estimator with scikit-learn's ``predict(points)``; an agent with
            Stable-Baselines3's
            ``predict(observation, deterministic=True)``; a function of points (n, d), or of
            coordinates by name, that returns an action for each.
        labels: how to read its answers: ``"index"`` or ``"value"``. Tables and agents give indices
            and CSV files values by default.
        chunk_states: states at which a rule is evaluated at once.

    Returns:
        The policy, checked in every state.

    Raises:
        PolicyError: an action is infeasible, unknown or missing; the message says where.

    Example:
        >>> mdp = ts.problem("machine_replacement").build()
        >>> ts.as_policy(mdp, lambda wear: 1 * (wear >= 12)).decide([[11], [12]])
        array([0, 1])
    """
    if labels not in (None, "index", "value"):
        raise ArgumentError("labels must be 'index' or 'value'", value=f"got {labels!r}")
    carried = source if isinstance(source, Policy) else getattr(source, "policy", None)
    is_policy = isinstance(carried, Policy)
    policy = carried if is_policy else _convert(mdp, source, labels, chunk_states)
    require_same_model(policy, mdp.grid, mdp.actions)
    if not is_policy:
        next(policy.iter_chunks())  # raises an error for invalid actions early
    mdp.check_feasible(policy)
    return policy


def _convert(mdp: MDP, source: Any, labels: Labels | None, chunk_states: int) -> Policy:
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix == ".json":
            return Policy.load(path)
        return _from_answers(mdp, read_table(mdp, path), labels or "value", path.stem)
    if isinstance(source, DecisionFunction) and isinstance(source.size, int):
        rule: Any = source
        name = str(getattr(source, "name", type(source).__name__))
    else:
        external = _wrap_external(mdp, source)
        if external is None:
            return _from_table(mdp, source, labels)
        labels = labels or external.labels or _resolve_labels(external, chunk_states)
        rule = replace(external, labels=labels)
        name = external.name
    return Policy(mdp.grid, mdp.actions, rule, name, mdp.action_name, chunk_states=chunk_states)


def _from_table(mdp: MDP, source: Any, labels: Labels | None) -> Policy:
    """From actions of all states, or from an array of each of their components."""
    components = component_names(mdp.actions)
    if isinstance(source, Mapping) and components:
        answers = _broadcast_to_grid(mdp, combine_components(components, source))
        return _from_answers(mdp, answers, "value")
    require_unmasked(source, "a policy", error=PolicyError)
    try:
        answers = np.asarray(source)
    except ValueError:  # lists of different lengths
        answers = np.asarray(None)
    if answers.dtype.kind not in "biufUV":
        accepted = "a Policy, a rule, a table, a file's path, an estimator, an agent or a function"
        raise PolicyError(f"a policy must be {accepted}", value=f"got {type(source).__name__}")
    default = "value" if answers.dtype.kind in "UV" else "index"
    return _from_answers(mdp, _order_components(answers, components), labels or default)


def _from_answers(mdp: MDP, answers: NDArray, labels: Labels, name: str = "") -> Policy:
    if labels == "value":
        describe = mdp.grid.describe if answers.size == mdp.n_states else lambda _: ""
        flat = answers.ravel()
        indices = _find_action_indices(flat, mdp.actions, mdp.action_name, describe, "states")
        answers = indices.reshape(answers.shape)
    return Policy.from_table(mdp.grid, mdp.actions, answers, name=name, action_name=mdp.action_name)


def _broadcast_to_grid(mdp: MDP, answers: NDArray) -> NDArray:
    """(grid) the answers, from an array that broadcasts to it or is flat."""
    try:
        return np.broadcast_to(answers, mdp.grid.shape)
    except ValueError:
        if answers.shape == (mdp.n_states,):
            return answers.reshape(mdp.grid.shape)
    requirement = f"a table must return an action for each state, shape {mdp.grid.shape}"
    raise PolicyError(requirement, value=f"got shape {answers.shape}")


def combine_components(names: tuple[str, ...], parts: Mapping) -> NDArray:
    """Arrays by component as records, in the order of ``names``."""
    if set(parts) != set(names):
        requirement = f"a policy must give each of {', '.join(names)}"
        raise PolicyError(requirement, value=f"got {', '.join(map(str, parts)) or 'none'}")
    given = {
        name: np.asarray(require_unmasked(parts[name], name, error=PolicyError)) for name in names
    }
    try:
        return combine_columns(given)
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
        requirement = "the components of a policy must broadcast to one another"
        raise PolicyError(requirement, value=f"got shapes {shapes}") from None


def _order_components(answers: NDArray, names: tuple[str, ...]) -> NDArray:
    """Records with their fields in the order of ``names``; other answers as they are."""
    if not (answers.dtype.names and names):
        return answers
    return combine_components(names, {field: answers[field] for field in answers.dtype.names})


@dataclass(frozen=True, eq=False)
class ExternalRule:
    """A rule of another library or of the user; its answers are read as action indices.

    Attributes:
        predict: what it returns for (n, d) points.
        deciding_part: the object whose size counts.
        kind, name: what messages call it.
        hint: an explanation for messages about answers of the wrong shape.
        labels: how to read its answers; None before that is known.
    """

    grid: StateGrid
    actions: tuple
    action_name: str
    predict: Callable[[NDArray[np.float64]], Any]
    deciding_part: Any
    kind: str
    name: str
    hint: str = ""
    labels: Labels | None = None

    @cached_property
    def size(self) -> int:
        """In numbers of eight bytes; the entries of its table, where it cannot be pickled."""
        try:
            return measure_storage(self.deciding_part)
        except Exception:  # pickling an object may raise anything
            return self.grid.size

    def __call__(self, points: NDArray[np.float64]) -> NDArray:
        answers = self.answers(points)
        if self.labels == "index":
            return answers
        return _find_action_indices(
            answers,
            self.actions,
            self.action_name,
            lambda row: self.grid.describe_point(points[row]),
        )

    def answers(self, points: NDArray[np.float64]) -> NDArray:
        """(n,) action indices, values, names or records."""
        components = component_names(self.actions)
        answer = self.predict(points)
        if isinstance(answer, Mapping) and components:
            answer = np.broadcast_to(combine_components(components, answer), (len(points),))
        answers = np.asarray(require_unmasked(answer, "a policy's answers", error=PolicyError))
        answers = _order_components(answers, components)
        if answers.shape != (len(points),):
            requirement = f"{self.kind} must name one action for each of {len(points):,} points"
            value = f"gives shape {answers.shape}{self.hint}"
            raise PolicyError(requirement, location=self.name, value=value)
        if answers.dtype.kind not in "biufUV":
            requirement = f"{self.kind} must answer with numbers or text"
            raise PolicyError(requirement, location=self.name, value=f"gives {answers.dtype}")
        return answers


def _wrap_external(mdp: MDP, source: Any) -> ExternalRule | None:
    """An estimator, an agent or a function as a rule; None for anything else."""
    predict = getattr(source, "predict", None)
    if predict is None:
        return wrap_function(mdp, source) if callable(source) else None
    name = type(source).__name__
    space = mdp.grid, mdp.actions, mdp.action_name
    if "deterministic" not in _read_parameters(predict):
        predict = partial(_call_with_points, predict, subject=name)
        return ExternalRule(*space, predict, source, "an estimator", name)
    predict = partial(_ask_agent, source, mdp.grid)
    policy = getattr(source, "policy", source)
    return ExternalRule(*space, predict, policy, "an agent", name, labels="index")


def wrap_function(mdp: MDP, function: Callable) -> ExternalRule:
    """A function of coordinates by name if it names axes, else of (n, d) points."""
    name = getattr(function, "__name__", type(function).__name__)
    name = "" if name == "<lambda>" else name.replace("_", " ")
    hint = _explain_points(function, mdp.grid)
    predict = partial(_ask_function, function, mdp.grid, hint)
    space = mdp.grid, mdp.actions, mdp.action_name
    return ExternalRule(*space, predict, function, "a policy function", name, hint)


def _explain_points(function: Callable, grid: StateGrid) -> str:
    """Why a function is given points; empty for a function of names."""
    parameters = _read_parameters(function).values()
    required_parameters = [p for p in parameters if p.default is p.empty]
    required_names = [p.name for p in required_parameters if p.kind is not p.VAR_KEYWORD]
    if len(required_names) != 1 or required_names[0] in grid.axes:
        return ""
    return (
        f"; its argument {required_names[0]!r} names no axis, so it was given points of shape "
        f"(n, {grid.ndim}); the axes are {', '.join(grid.axes)}"
    )


def _ask_function(function: Callable, grid: StateGrid, hint: str, points: NDArray) -> Any:
    """Its answers, one for each point or one for all; ``hint`` says why it is given points."""
    if hint:
        answer = _call_with_points(function, points, "the policy function", hint)
    else:
        values = grid.values_at(points)
        answer = call_by_name(function, values, "the policy function", error=PolicyError)
    if isinstance(answer, Mapping) or np.size(answer) != 1:
        return answer
    return np.broadcast_to(answer, (len(points),))


def _ask_agent(agent: Any, grid: StateGrid, points: NDArray) -> Any:
    """The actions of Stable-Baselines3's ``predict(observations, deterministic=True)``."""
    name = type(agent).__name__
    shape = getattr(getattr(agent, "observation_space", None), "shape", (grid.ndim,))
    if shape not in ((), (grid.ndim,)):
        requirement = f"an agent must observe flat state indices or {grid.ndim} coordinates"
        raise PolicyError(requirement, location=name, value=f"observes shape {shape}")
    observations = points.astype(np.float32) if shape else grid.nearest(points)
    answer = agent.predict(observations, deterministic=True)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        requirement = "an agent's predict must return actions and a state"
        raise PolicyError(requirement, location=name, value=f"returns {type(answer).__name__}")
    actions = np.asarray(answer[0])
    return actions.reshape(len(points)) if actions.size == len(points) else actions


def _call_with_points(function: Callable, points: NDArray, subject: str, hint: str = "") -> Any:
    try:
        return function(points)
    except TessellaError:
        raise
    except Exception as error:
        raise PolicyError(
            f"{subject} must answer for arrays of coordinates, many states at once",
            value=f"it failed with {type(error).__name__}: {error}{hint}",
        ) from error


def _read_parameters(function: Callable) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {"points": inspect.Parameter("points", inspect.Parameter.POSITIONAL_ONLY)}


def _resolve_labels(rule: ExternalRule, chunk_states: int) -> Labels:
    """How to read answers that the caller has not explained."""
    if rule.actions == tuple(range(len(rule.actions))):
        return "value"  # values and indices are the same
    # The labels of its training data are known without any predictions.
    trained_labels = getattr(rule.deciding_part, "classes_", None)
    if isinstance(trained_labels, np.ndarray):
        return _infer_labels(rule.actions, np.unique(trained_labels))
    chunks = rule.grid.iterate_chunks(chunk_states)
    answered = [np.unique(rule.answers(points)) for points in chunks]
    return _infer_labels(rule.actions, np.unique(np.concatenate(answered)))


def _infer_labels(actions: tuple, answers: NDArray) -> Labels:
    """Whether ``answers`` are indices or values; an error if they can be both."""
    are_whole = answers.dtype.kind in "biuf" and bool((answers == np.rint(answers)).all())
    are_indices = are_whole and bool(((answers >= 0) & (answers < len(actions))).all())
    if not are_indices:
        return "value"
    indices_of_values = [_find_action(actions, answer) for answer in answers]
    are_values = all(index >= 0 for index in indices_of_values)
    if are_values and indices_of_values != [int(answer) for answer in answers]:
        raise PolicyError(
            "answers that could be action indices or action values must be explained",
            location=f"{[a.item() for a in answers]}",
            value=f"could be either among {actions}; say labels='index' or labels='value'",
        )
    return "index"


def _find_action(actions: tuple, answer: Any) -> int:
    """Index of the action with this value or name, or -1."""
    answer = answer.item() if isinstance(answer, np.void) else answer  # a record
    for index, action in enumerate(actions):
        if isinstance(action, str) == isinstance(answer, str) and action == answer:
            return index
    return -1


def _find_action_indices(
    answers: NDArray,
    actions: tuple,
    action_name: str,
    describe: Callable[[int], str],
    noun: str = "points",
) -> NDArray[np.int32]:
    """(n,) answers that are action values or names, as indices."""
    distinct, which = np.unique(answers, return_inverse=True)
    known = np.array([_find_action(actions, answer) for answer in distinct], dtype=np.int32)
    indices = known[which.ravel()]
    components = component_names(actions)
    names = [f"({action})" if components else str(action) for action in actions]

    def value(row: int) -> str:
        answer = answers[row]
        return f"gets {VectorAction(components, answer.item()) if answer.dtype.names else answer}"

    requirement = f"{action_name} must be one of {', '.join(names)}"
    raise_for_first(requirement, indices < 0, describe, value, noun, error=PolicyError)
    return indices
