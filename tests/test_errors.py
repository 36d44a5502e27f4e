"""Every verb says what it needs when it is given something else."""

from __future__ import annotations

import pytest

import tessella as ts
from tessella.baselines import TabularQ, train, train_batch
from tessella.errors import ModelError
from tessella.learn import draw
from tessella.mdp.simulate import simulate
from tessella.solvers import evaluate, occupancy

MODEL = ts.benchmark("QUE-Lin")
SOLUTION = ts.solve(MODEL)


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
    with pytest.raises(ModelError) as found:
        call()
    assert str(found.value) == message
