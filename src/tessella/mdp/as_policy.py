"""Conversion to policies: anything that decides, as a policy of a model.

Whatever is asked stays a rule: its table is made when somebody needs it. What it answers is read
as action *indices* or as action *values* (the numbers or names in ``mdp.actions``): as whichever of
the two all answers can be, and if they can be both with different meanings, the caller must say. A
source whose answers need no explanation is asked here about one chunk of states and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, PolicyError
from tessella.grid import require_unmasked
from tessella.mdp.actions import Combination, components
from tessella.mdp.external_policy import (
    Agent,
    Estimator,
    ExternalModel,
    Function,
    combine_components,
    function_parameters,
)
from tessella.mdp.policy import DecisionFunction, Policy, iter_point_chunks, require_same_model
from tessella.mdp.policy_table import read_table

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

Labels = Literal["index", "value"]


@dataclass(frozen=True, eq=False)
class ExternalRule:
    """What others wrote as a rule: its answers, read as action indices."""

    answers: ExternalModel
    actions: tuple
    action_name: str
    labels: Labels

    @property
    def size(self) -> int:
        return self.answers.size

    def __call__(self, points: NDArray[np.float64]) -> NDArray:
        answers = self.answers(points)
        if self.labels == "index":
            return answers

        def describe(row: int) -> str:
            return self.answers.grid.describe_point(points[row])

        return _action_indices(answers, self.actions, self.action_name, describe)


def as_policy(mdp: MDP, source: Any, labels: Labels | None = None) -> Policy:
    """``source`` as a feasible policy of ``mdp``.

    Args:
        source: a Policy, or a result that carries one, such as a solution; a rule, which is a
            function of points (n, d) with a ``size``; a table of action indices or names; the path
            of a saved policy or rule (``.json``), or of a CSV table with a column for each axis and
            one for the action; an estimator with scikit-learn's ``predict(points)``; an agent with
            Stable-Baselines3's
            ``predict(observation, deterministic=True)``; a function of points (n, d), or of
            coordinates by name, that returns an action for each.
        labels: how to read its answers: ``"index"`` or ``"value"``. Tables and agents give indices
            and CSV files values, unless said otherwise.
    """
    if labels not in (None, "index", "value"):
        raise ArgumentError("labels must be 'index' or 'value'", value=f"got {labels!r}")
    own = source if isinstance(source, Policy) else getattr(source, "policy", None)
    policy = own if isinstance(own, Policy) else _convert(mdp, source, labels)
    require_same_model(policy, mdp.grid, mdp.actions)
    if policy is not own:
        next(policy.iter_chunks())  # refuses what is no action, before anybody relies on it
    mdp.check_feasible(policy)
    return policy


def _convert(mdp: MDP, source: Any, labels: Labels | None) -> Policy:
    if isinstance(source, DecisionFunction) and isinstance(source.size, int):
        name = getattr(source, "name", type(source).__name__)
        return Policy(mdp.grid, mdp.actions, source, str(name), mdp.action_name)
    if isinstance(source, str | Path) and Path(source).suffix == ".json":
        return Policy.load(source)
    if isinstance(source, str | Path):
        answers = read_table(mdp, Path(source))
        name = Path(source).stem
        return _from_table(mdp, answers, labels or "value", name)
    predict = getattr(source, "predict", None)
    if predict is not None:
        if "deterministic" in function_parameters(predict):
            return _from_external(mdp, Agent(source, mdp.grid), labels or "index")
        return _from_external(mdp, Estimator(source, mdp.grid), labels)
    if callable(source):
        return _from_external(mdp, Function(source, mdp.grid, components(mdp.actions)), labels)
    if isinstance(source, Mapping) and components(mdp.actions):
        return _from_table(
            mdp,
            _broadcast_to_grid(mdp, combine_components(components(mdp.actions), source)),
            "value",
        )
    answers = (
        np.asarray(require_unmasked(source, "a policy", error=PolicyError))
        if _is_rectangular(source)
        else None
    )
    if answers is None or answers.dtype.kind not in "biufUV":
        requirement = (
            "a policy must be a Policy, a rule, a table, a file's path, an estimator, an agent "
            "or a function"
        )
        raise PolicyError(requirement, value=f"got {type(source).__name__}")
    return _from_table(mdp, answers, labels or ("value" if answers.dtype.kind in "UV" else "index"))


def _broadcast_to_grid(mdp: MDP, answers: NDArray) -> NDArray:
    """(grid) the answers, from an array that broadcasts to it or is flat."""
    try:
        return np.broadcast_to(answers, mdp.grid.shape)
    except ValueError:
        if answers.shape == (mdp.n_states,):
            return answers.reshape(mdp.grid.shape)
    requirement = f"a table must return an action for each state, shape {mdp.grid.shape}"
    raise PolicyError(requirement, value=f"got shape {answers.shape}")


def _is_rectangular(values: Any) -> bool:
    try:
        np.shape(values)
    except ValueError:
        return False
    return True


def _from_table(mdp: MDP, answers: NDArray, labels: Labels, name: str = "") -> Policy:
    if answers.dtype.names and components(mdp.actions):  # records, perhaps in another order
        fields = {field: answers[field] for field in answers.dtype.names}
        answers = combine_components(components(mdp.actions), fields)
    if labels == "value":

        def describe(state: int) -> str:
            return mdp.grid.describe(state) if answers.size == mdp.n_states else ""

        indices = _action_indices(answers.ravel(), mdp.actions, mdp.action_name, describe, "states")
        answers = indices.reshape(answers.shape)
    return Policy.from_table(mdp.grid, mdp.actions, answers, name=name, action_name=mdp.action_name)


def _from_external(mdp: MDP, answers: ExternalModel, labels: Labels | None) -> Policy:
    kind = labels or _resolve_labels(mdp, answers)
    rule = ExternalRule(answers, mdp.actions, mdp.action_name, kind)
    return Policy(mdp.grid, mdp.actions, rule, answers.name, mdp.action_name)


def _resolve_labels(mdp: MDP, answers: ExternalModel) -> Labels:
    """How to read answers that nobody has explained."""
    if mdp.actions == tuple(range(mdp.n_actions)):
        return "value"  # which are the indices, too
    # The labels it was trained on say more than those it happens to predict.
    known = getattr(answers.source, "classes_", None)
    if isinstance(answers, Estimator) and isinstance(known, np.ndarray):
        return _label_kind(mdp, np.unique(known))
    answered = [np.unique(answers(points)) for points in iter_point_chunks(mdp.grid)]
    return _label_kind(mdp, np.unique(np.concatenate(answered)))


def _label_kind(mdp: MDP, answers: NDArray) -> Labels:
    """Indices or values: what all ``answers`` can be."""
    whole = answers.dtype.kind in "biuf" and bool((answers == np.rint(answers)).all())
    index = whole and bool(((answers >= 0) & (answers < mdp.n_actions)).all())
    indices = [_find_action(mdp.actions, answer) for answer in answers]
    value = all(at >= 0 for at in indices)
    if index and value and indices != [int(a) for a in answers]:
        raise PolicyError(
            "answers that could be action indices or action values must be explained",
            location=f"{[a.item() for a in answers]}",
            value=f"could be either among {mdp.actions}; say labels='index' or labels='value'",
        )
    return "index" if index else "value"


def _find_action(actions: tuple, answer: Any) -> int:
    """Index of the action with this value or name, or -1."""
    answer = answer.item() if isinstance(answer, np.void) else answer  # a record
    for index, action in enumerate(actions):
        if isinstance(action, str) == isinstance(answer, str) and action == answer:
            return index
    return -1


def _action_indices(
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
    bad = np.flatnonzero(indices < 0)
    if bad.size:
        parts = components(actions)
        answer = answers[bad[0]]
        names = [f"({action})" if parts else str(action) for action in actions]
        if isinstance(answer, np.void):
            answer = Combination(parts, answer.item())
        raise PolicyError(
            f"{action_name} must be one of {', '.join(names)}",
            location=describe(int(bad[0])),
            value=f"gets {answer}",
            count=bad.size,
            total=answers.size,
            noun=noun,
        )
    return indices
