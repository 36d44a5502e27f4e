"""check_problem(problem): whether a problem of one's own meets the requirements of a record.

Every setting within its range builds a model, the same settings always the same one, also after a
way through JSON (a stored spec) and through a pickle (a worker). Every line of explanation is
there, and each about an axis has one. The optimal policy has the structure that theory states.
"""

from __future__ import annotations

import json
from typing import Any

import cloudpickle

from tessella.errors import ArgumentError
from tessella.mdp.model import MDP
from tessella.problems.parameter import Integer
from tessella.problems.problem import Problem
from tessella.solvers.solve import solve
from tessella.tessellation import examine, tessellate


def check_problem(problem: Problem, *, theory: bool = True) -> None:
    """Raise an AssertionError that names the first requirement ``problem`` does not meet.

    Args:
        theory: also solve the default model and check what theory says; False where that
            takes too long.
    """
    assert isinstance(problem, Problem), f"a problem is a tessella.Problem, not {problem!r}"
    _check_descriptions(problem)
    mdp = _build(problem)
    _check_same(problem, mdp, "built again", problem)
    settings = json.loads(json.dumps(problem.settings()))
    _check_same(problem, mdp, "built from its settings as JSON", problem, **settings)
    again = cloudpickle.loads(cloudpickle.dumps(problem))
    _check_same(problem, mdp, "sent to another process", again)
    axes = set(mdp.grid.axes)
    for parameter in problem.settable:
        for value in parameter.extremes():
            axes |= set(_build(problem, **{parameter.name: value}).grid.axes)
    _check_axes(problem, axes)
    if theory and problem.theory:
        _check_theory(problem, mdp)


def _check_descriptions(problem: Problem) -> None:
    missing = [p.name for p in problem.parameters if not p.about]
    missing += [f"the axis {axis}" for axis, about in problem.axes.items() if not about.strip()]
    assert problem.title, f"{problem.name} has no title"
    assert not missing, f"{problem.name}: {missing[0]} has no line of explanation"


def _build(problem: Problem, **settings: Any) -> MDP:
    settings_text = (
        ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "its defaults"
    )
    try:
        return problem.build(**settings)
    except Exception as error:
        raise AssertionError(
            f"{problem.name} with {settings_text}, within range, is not built: {error}"
        ) from error


def _check_axes(problem: Problem, axes: set[str]) -> None:
    """What the record explains is an axis of some model: at the defaults, or at an end of a range.

    Of a family (``due#``), also of a model a little larger than the defaults.
    """
    if any(axis.endswith("#") for axis in _find_unknown_axes(problem, axes)):
        axes = axes | _find_larger_axes(problem)
    unknown = _find_unknown_axes(problem, axes)
    assert not unknown, (
        f"{problem.name}: axes explains {unknown[0]!r}, which no model that was built has; "
        f"there are {', '.join(sorted(axes))}"
    )


def _find_unknown_axes(problem: Problem, axes: set[str]) -> list[str]:
    explained = {problem.axis_entry(axis) for axis in axes}
    return [axis for axis in problem.axes if axis not in explained]


def _find_larger_axes(problem: Problem) -> set[str]:
    """Axes of models with one more of something that is counted: a family may begin there."""
    axes: set[str] = set()
    for parameter in problem.parameters:
        if isinstance(parameter, Integer) and _accepts(parameter, parameter.default + 1):
            axes |= set(_build(problem, **{parameter.name: parameter.default + 1}).grid.axes)
    return axes


def _accepts(parameter: Integer, value: int) -> bool:
    try:
        parameter.check(value, "")
    except ArgumentError:
        return False
    return True


def _check_same(
    problem: Problem, mdp: MDP, circumstance: str, other: Problem, **settings: Any
) -> None:
    rebuilt = _build(other, **settings)
    same = rebuilt.fingerprint == mdp.fingerprint
    assert same, (
        f"{problem.name} {circumstance} is another model: the same settings must give the same one"
    )


def _check_theory(problem: Problem, mdp: MDP) -> None:
    evidence_by_test = examine(tessellate(solve(mdp))).evidence
    for theory in problem.theory:
        assert theory.structure in evidence_by_test, (
            f"{problem.name}: examine has no test {theory.structure!r} for it; "
            f"there are {', '.join(evidence_by_test)}"
        )
        evidence = evidence_by_test[theory.structure]
        assert evidence, f"{problem.name}: theory is not borne out: {evidence.describe()}"
