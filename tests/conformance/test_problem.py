"""The check that authors of problems run: it passes ours, and names what is broken in others."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import tessella as ts
from tessella.conformance import check_problem
from tessella.problems.problem import Theory

calls = count()


def machine(wear: float, price: float, worst: int):
    """Keep a machine that wears, or replace it."""
    states = worst + 1
    keep = (1 - wear) * np.eye(states) + wear * np.eye(states, k=1)
    keep[-1, -1] = 1.0
    new = np.zeros((states, states))
    new[:, 0] = 1.0
    reward = np.stack([-np.arange(states, dtype=float), np.full(states, -price)], axis=1)
    return ts.MDP.from_arrays([keep, new], reward, 0.9, grid={"age": range(states)}, actions=(0, 1))


MACHINE = ts.Problem(
    "machine",
    "When to replace a machine",
    machine,
    parameters=(
        ts.Number("wear", 0.3, "chance to age", low=0, high=1),
        ts.Number("price", 5.0, "of a new one", low=0),
        ts.Integer("worst", 9, "oldest age", low=1),
    ),
    theory=(Theory("threshold in age", "replace from an age on"),),
)


@pytest.mark.parametrize("problem", [ts.inventory, ts.queue_admission, *ts.BENCHMARKS.values()])
def test_our_own_problems_keep_every_promise(problem):
    check_problem(problem)


def test_a_problem_written_outside_the_package_passes():
    check_problem(MACHINE)


def fleet(machines: int):
    """So many machines, each of which is as it is."""
    grid = {f"age{k}": range(2) for k in range(1, machines + 1)}
    stay = np.eye(2**machines)
    return ts.MDP.from_arrays([stay], np.zeros((len(stay), 1)), 0.9, grid=grid)


def test_an_axis_may_be_explained_that_only_some_settings_have():
    ages = {"age1": "of the first", "age#": "of number #"}
    for usual in (2, 1):
        size = ts.Integer("machines", usual, "in the fleet", low=1)
        check_problem(ts.Problem("fleet", "Several machines", fleet, (size,), ages))
    one = ts.Integer("machines", 1, "in the fleet", low=1, high=1)
    with pytest.raises(AssertionError, match="fleet: axes explains 'age#', which no model"):
        check_problem(ts.Problem("fleet", "Several machines", fleet, (one,), ages))


def drifting(wear: float, price: float, worst: int):
    return machine(wear, price + next(calls), worst)


def narrow(wear: float, price: float, worst: int):
    if wear == 1:
        raise ValueError("always worn")
    return machine(wear, price, worst)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"make": drifting}, "machine built again is another model"),
        ({"make": narrow}, r"machine with wear=1.0, within range, is not built: .* always worn"),
        ({"make": lambda **given: None}, "is not built: the problem machine needs an MDP"),
        ({"make": lambda wear: None}, "is not built: .* unexpected keyword argument"),
        ({"title": ""}, "machine has no title"),
        ({"parameters": (ts.Number("wear", 0.3), *MACHINE.parameters[1:])}, "wear has no line"),
        ({"axes": {"age": " "}}, "machine: the axis age has no line of explanation"),
        ({"axes": {"age": "in years", "rust": "of it"}}, "explains 'rust', which no .* are age"),
        ({"axes": {"age#": "in years"}}, "explains 'age#', which no model that was built has"),
        ({"theory": (Theory("convex hull", ""),)}, "examine has no test 'convex hull'"),
        (
            {"theory": (Theory("monotone in age", ""),), "make": lambda **given: hump(**given)},
            "machine: theory is not borne out: .* fails",
        ),
    ],
)
def test_a_broken_promise_is_named(change, message):
    with pytest.raises(AssertionError, match=message):
        check_problem(replace(MACHINE, **change))


def hump(wear: float, price: float, worst: int):
    """Replacing pays in the middle only."""
    states = worst + 1
    middle = np.abs(np.arange(states) - worst / 2) < 2
    reward = np.stack([np.zeros(states), np.where(middle, 1.0, -1.0)], axis=1)
    stay = np.eye(states)
    return ts.MDP.from_arrays(
        [stay, stay], reward, 0.9, grid={"age": range(states)}, actions=(0, 1)
    )
