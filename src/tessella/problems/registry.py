"""The problems that can be found by name: those of the package, and those that were registered.

A name with a colon, ``package.module:attribute``, is imported, so that a problem of one's own can
be named wherever a name is taken: on the command line, and by the workers of a study.
"""

from __future__ import annotations

from tessella.errors import ArgumentError, expect
from tessella.problems.benchmarks import BENCHMARKS
from tessella.problems.frozen_lake import frozen_lake
from tessella.problems.imported import imported
from tessella.problems.inventory import inventory
from tessella.problems.navigation import navigation
from tessella.problems.perishable import perishable
from tessella.problems.problem import Problem
from tessella.problems.queue_admission import queue_admission
from tessella.problems.system_administrator import system_administrator
from tessella.problems.traffic_intersection import traffic_intersection

ZOO = (perishable, frozen_lake, navigation, system_administrator, traffic_intersection)
OURS = {known.name: known for known in (inventory, queue_admission, *BENCHMARKS.values(), *ZOO)}

_registered: dict[str, Problem] = {}


def all_problems() -> tuple[Problem, ...]:
    """Every problem that has a name here, the package's own first."""
    return (*OURS.values(), *_registered.values())


def register(problem: Problem) -> Problem:
    """Make ``problem`` known by its name; registered again, the later one counts.

    The names of the package's own problems stay theirs.
    """
    expect("register", problem, Problem)
    taken = {name for known in OURS.values() for name in (known.name, *known.aliases)}
    mine = {problem.name, *problem.aliases}
    if problem is not OURS.get(problem.name) and mine & taken:
        rule = "a problem of the package keeps its name"
        raise ArgumentError(rule, place=repr(min(mine & taken)), value="is taken")
    if problem.name not in OURS:
        _registered[problem.name] = problem
    return problem


def problem(name: str) -> Problem:
    """The problem called ``name``, or what ``package.module:attribute`` leads to."""
    expect("problem", name, str, "name")
    if ":" in name:
        return _problem_at(name)
    for known in all_problems():
        if name in (known.name, *known.aliases):
            return known
    there = ", ".join(known.name for known in all_problems())
    raise ArgumentError(f"no problem is called {name!r}; there are {there}")


def _problem_at(path: str) -> Problem:
    found = imported(path, "problem")
    if not isinstance(found, Problem):
        raise ArgumentError(
            "a problem is a tessella.Problem", place=repr(path), value=f"is {type(found).__name__}"
        )
    return found
