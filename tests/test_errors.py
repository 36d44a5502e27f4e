"""Errors are a small family, and every verb says what it needs when it is given something else."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import tessella as ts
from tessella.baselines import TabularQ, train, train_batch
from tessella.errors import raise_for_first
from tessella.learn import draw
from tessella.mdp.simulate import simulate
from tessella.solvers.policy_evaluation import evaluate, occupancy

MODEL = ts.benchmark("QUE-Lin")
SOLUTION = ts.solve(MODEL)
FAMILY = (
    ts.TessellaError,
    ts.ModelError,
    ts.PolicyError,
    ts.ArgumentError,
    ts.FileError,
    ts.MissingExtra,
    ts.StudyError,
)
PARTS = {"location": "stock=3", "value": "is -1", "count": 2, "total": 4125, "noun": "states"}


@pytest.mark.parametrize("kind", FAMILY)
def test_every_error_reads_rule_place_value_and_count_and_is_a_value_error(kind):
    error = kind("stock must not be negative", **PARTS)
    assert str(error) == "stock must not be negative; stock=3 is -1 (2 of 4,125 states)"
    assert str(kind("a rule")) == "a rule"
    assert str(kind("a rule", value="got 3")) == "a rule; got 3"
    assert isinstance(error, ts.TessellaError)
    assert isinstance(error, ValueError)


def test_what_an_error_is_about_is_said_by_name():
    with pytest.raises(TypeError, match="positional"):
        ts.ModelError("a rule", "stock=3")  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("kind", FAMILY)
def test_an_error_keeps_its_parts_and_notes_when_it_travels(kind):
    error = kind("a rule", **PARTS)
    error.add_note("seen by worker 3")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert {name: getattr(again, name) for name in PARTS} == PARTS
    assert again.requirement == "a rule"
    assert again.__notes__ == ["seen by worker 3"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ts.solve(SOLUTION), "solve needs an MDP; got a Solution"),
        (lambda: ts.solve("QUE-Lin"), "solve needs an MDP; got a str"),
        (lambda: evaluate(SOLUTION, SOLUTION.policy), "evaluate needs an MDP; got a Solution"),
        (lambda: occupancy(SOLUTION, SOLUTION.policy), "occupancy needs an MDP; got a Solution"),
        (
            lambda: simulate(SOLUTION, SOLUTION.policy, 3, 0),
            "simulate needs an MDP; got a Solution",
        ),
        (lambda: train(TabularQ(), SOLUTION, 10), "train needs an MDP; got a Solution"),
        (
            lambda: train_batch(TabularQ(), None, [9], [0]),
            "train_batch needs an MDP; got a NoneType",
        ),
        (lambda: ts.certify(MODEL, SOLUTION.policy), "certify needs a Solution; got an MDP"),
        (lambda: draw(MODEL, 10), "draw needs a Solution; got an MDP"),
    ],
)
def test_a_verb_says_what_it_needs(call, message):
    with pytest.raises(ts.ArgumentError) as found:
        call()
    assert str(found.value) == message


def test_the_first_bad_place_is_named_by_its_position_and_all_are_counted():
    def fail(bad):
        raise_for_first("x must be 0", bad, lambda i: f"x[{i}]", lambda i: f"is {i}", "entries")

    fail(np.zeros((2, 0), dtype=bool))
    with pytest.raises(ts.ModelError, match=re.escape("x must be 0; x[1] is 1 (2 of 3 entries)")):
        fail(np.array([False, True, True]))
    table = np.zeros((2, 3, 4), dtype=bool)
    table[1, 0, 2] = table[1, 2, 3] = True
    place = tuple(np.argwhere(table)[0].tolist())
    with pytest.raises(ts.ModelError) as caught:
        fail(table)
    assert caught.value.location == f"x[{place}]" == "x[(1, 0, 2)]"
    assert (caught.value.count, caught.value.total) == (2, 24)
