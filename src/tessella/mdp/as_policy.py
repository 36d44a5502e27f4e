"""The one door for policies: anything that decides, as a policy of a model.

Whatever is asked stays a rule: its table is made when somebody needs it. What it answers is read
as action *indices* or as action *values* (the numbers or names in ``mdp.actions``): as whichever of
the two all answers can be, and if they can be both with different meanings, the caller must say. A
source whose answers need no explanation is asked here about one slab of states and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, PolicyError
from tessella.grid import unmasked
from tessella.mdp.actions import Combination, components
from tessella.mdp.foreign import Agent, Estimator, Foreign, Function, combined, parameters
from tessella.mdp.policy import Decider, Policy, refuse_other, slabs
from tessella.mdp.policy_table import read_table

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

Labels = Literal["index", "value"]


@dataclass(frozen=True, eq=False)
class ForeignRule:
    """What others wrote as a rule: its answers, read as action indices."""

    answers: Foreign
    actions: tuple
    action_name: str
    labels: Labels

    @property
    def size(self) -> int:
        return self.answers.size

    def __call__(self, points: NDArray[np.float64]) -> NDArray:
        said = self.answers(points)
        if self.labels == "index":
            return said

        def describe(row: int) -> str:
            return self.answers.grid.describe_point(points[row])

        return _indices(said, self.actions, self.action_name, describe)


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
    made = own if isinstance(own, Policy) else _made(mdp, source, labels)
    refuse_other(made, mdp.grid, mdp.actions)
    if made is not own:
        next(made.by_slabs())  # refuses what is no action, before anybody relies on it
    mdp.check_feasible(made)
    return made


def _made(mdp: MDP, source: Any, labels: Labels | None) -> Policy:
    if isinstance(source, Decider) and isinstance(source.size, int):
        name = getattr(source, "name", type(source).__name__)
        return Policy(mdp.grid, mdp.actions, source, str(name), mdp.action_name)
    if isinstance(source, str | Path) and Path(source).suffix == ".json":
        return Policy.load(source)
    if isinstance(source, str | Path):
        answers, name = read_table(mdp, Path(source)), Path(source).stem
        return _tabled(mdp, answers, labels or "value", name)
    predict = getattr(source, "predict", None)
    if predict is not None:
        if "deterministic" in parameters(predict):
            return _foreign(mdp, Agent(source, mdp.grid), labels or "index")
        return _foreign(mdp, Estimator(source, mdp.grid), labels)
    if callable(source):
        return _foreign(mdp, Function(source, mdp.grid, components(mdp.actions)), labels)
    if isinstance(source, Mapping) and components(mdp.actions):
        return _tabled(mdp, _spread(mdp, combined(components(mdp.actions), source)), "value")
    answers = (
        np.asarray(unmasked(source, "a policy", error=PolicyError))
        if _rectangular(source)
        else None
    )
    if answers is None or answers.dtype.kind not in "biufUV":
        rule = (
            "a policy must be a Policy, a rule, a table, a file's path, an estimator, an agent "
            "or a function"
        )
        raise PolicyError(rule, value=f"got {type(source).__name__}")
    return _tabled(mdp, answers, labels or ("value" if answers.dtype.kind in "UV" else "index"))


def _spread(mdp: MDP, answers: NDArray) -> NDArray:
    """(grid) the answers, from an array that broadcasts to it or is flat."""
    try:
        return np.broadcast_to(answers, mdp.grid.shape)
    except ValueError:
        if answers.shape == (mdp.n_states,):
            return answers.reshape(mdp.grid.shape)
    rule = f"a table must return an action for each state, shape {mdp.grid.shape}"
    raise PolicyError(rule, value=f"got shape {answers.shape}")


def _rectangular(values: Any) -> bool:
    try:
        np.shape(values)
    except ValueError:
        return False
    return True


def _tabled(mdp: MDP, answers: NDArray, labels: Labels, name: str = "") -> Policy:
    if answers.dtype.names and components(mdp.actions):  # records, perhaps in another order
        fields = {field: answers[field] for field in answers.dtype.names}
        answers = combined(components(mdp.actions), fields)
    if labels == "value":

        def describe(state: int) -> str:
            return mdp.grid.describe(state) if answers.size == mdp.n_states else ""

        found = _indices(answers.ravel(), mdp.actions, mdp.action_name, describe, "states")
        answers = found.reshape(answers.shape)
    return Policy.of(mdp.grid, mdp.actions, answers, name=name, action_name=mdp.action_name)


def _foreign(mdp: MDP, answers: Foreign, labels: Labels | None) -> Policy:
    meant = labels or _explained(mdp, answers)
    rule = ForeignRule(answers, mdp.actions, mdp.action_name, meant)
    return Policy(mdp.grid, mdp.actions, rule, answers.name, mdp.action_name)


def _explained(mdp: MDP, answers: Foreign) -> Labels:
    """How to read answers that nobody has explained."""
    if mdp.actions == tuple(range(mdp.n_actions)):
        return "value"  # which are the indices, too
    # The labels it was trained on say more than those it happens to predict.
    known = getattr(answers.source, "classes_", None)
    if isinstance(answers, Estimator) and isinstance(known, np.ndarray):
        return _meaning(mdp, np.unique(known))
    said = [np.unique(answers(points)) for points in slabs(mdp.grid)]
    return _meaning(mdp, np.unique(np.concatenate(said)))


def _meaning(mdp: MDP, answers: NDArray) -> Labels:
    """Indices or values: what all ``answers`` can be."""
    whole = answers.dtype.kind in "biuf" and bool((answers == np.rint(answers)).all())
    index = whole and bool(((answers >= 0) & (answers < mdp.n_actions)).all())
    found = [_find(mdp.actions, answer) for answer in answers]
    value = all(at >= 0 for at in found)
    if index and value and found != [int(a) for a in answers]:
        raise PolicyError(
            "answers that could be action indices or action values must be explained",
            place=f"{[a.item() for a in answers]}",
            value=f"could be either among {mdp.actions}; say labels='index' or labels='value'",
        )
    return "index" if index else "value"


def _find(actions: tuple, answer: Any) -> int:
    """Index of the action with this value or name, or -1."""
    answer = answer.item() if isinstance(answer, np.void) else answer  # a record
    for index, action in enumerate(actions):
        if isinstance(action, str) == isinstance(answer, str) and action == answer:
            return index
    return -1


def _indices(
    answers: NDArray,
    actions: tuple,
    action_name: str,
    describe: Callable[[int], str],
    noun: str = "points",
) -> NDArray[np.int32]:
    """(n,) answers that are action values or names, as indices."""
    distinct, which = np.unique(answers, return_inverse=True)
    found = np.array([_find(actions, answer) for answer in distinct], dtype=np.int32)
    indices = found[which.ravel()]
    bad = np.flatnonzero(indices < 0)
    if bad.size:
        parts, answer = components(actions), answers[bad[0]]
        told = [f"({action})" if parts else str(action) for action in actions]
        if isinstance(answer, np.void):
            answer = Combination(parts, answer.item())
        raise PolicyError(
            f"{action_name} must be one of {', '.join(told)}",
            place=describe(int(bad[0])),
            value=f"gets {answer}",
            count=bad.size,
            total=answers.size,
            noun=noun,
        )
    return indices
