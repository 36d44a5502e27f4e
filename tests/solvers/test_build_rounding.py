"""What is rounded while a model is built is part of the stated bounds, against exact fractions.

Every way of building is judged on random models with awkward numbers: see ``support.awkward``.
``make soak`` runs many more of them, as its kinds ``building`` and ``certificates``.
"""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from support import exact_checks
from support.awkward import BUILDERS, STAGED_KINDS, Case, make_case
from support.exact import (
    Outcome,
    Period,
    World,
    build_period,
    read_stages,
    read_step,
    replace_rewards,
)

import tessella as ts
from tessella.mdp.stages import Jump, Noise, Shift

SEEDS = range(8)


def faults(kind: str, route: str = "rows") -> list[str]:
    """In the optimum, the value of a policy, and the losses of a certificate."""
    found = []
    for seed in SEEDS:
        for judge in (
            exact_checks.check_optimum,
            exact_checks.check_evaluation,
            exact_checks.check_certificate,
        ):
            found += [f"{kind} {seed}: {fault}" for fault in judge(make_case(kind, seed), route)]
    return found


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_bound_holds_the_rational_answer_and_is_narrow_however_a_model_is_built(kind):
    assert faults(kind) == []


@pytest.mark.parametrize("kind", STAGED_KINDS)
def test_so_does_every_bound_of_a_model_that_goes_through_compiled_stages(kind):
    assert faults(kind, "stages") == []


# The cases that were found first, as they were found.

THREE_SEVENTHS = [0.3, 0.7]  # 0.3 * 7 - 0.7 * 3 is not 0 in floats
WORLD = World({"x": [0]}, [0])


def paid(size: float):
    return lambda w: np.array([7.0, -3.0])[w] * size


def by_step(size: float) -> tuple[ts.MDP, Period]:
    pays = paid(size)

    def step(x, w):
        return {"x": x + 0 * w}, pays(w)

    noise = Noise("w", [0, 1], THREE_SEVENTHS)
    mdp = ts.MDP.from_step(step, {"x": [0]}, [0], 0.9, noise)
    return mdp, read_step(WORLD, step, [noise])


def by_stage(stage) -> tuple[ts.MDP, Period]:
    return ts.MDP.staged({"x": [0]}, [0], 0.9, [stage]), read_stages(WORLD, [stage])


def by_shift(size: float) -> tuple[ts.MDP, Period]:
    noise = Noise("w", [0, 1], THREE_SEVENTHS)
    return by_stage(Shift("x", noise, lambda w: 0 * w, pays=paid(size)))


def by_jump(size: float) -> tuple[ts.MDP, Period]:
    noise = Noise("w", [0, 1], THREE_SEVENTHS)
    return by_stage(Jump(noise, lambda x, w: {"x": x + 0 * w}, pays=paid(size)))


def by_table(size: float) -> tuple[ts.MDP, Period]:
    law = [(0.3, 0, 7.0 * size, False), (0.7, 0, -3.0 * size, False)]
    outcomes = [Outcome(Fraction(p), to, Fraction(r)) for p, to, r, _ in law]
    mdp = ts.MDP.from_gymnasium(SimpleNamespace(P={0: {0: law}}), 0.9)
    return mdp, build_period(1, 1, {(0, 0): outcomes})


@pytest.mark.parametrize("size", [1.0, 1e15])
@pytest.mark.parametrize("build", [by_step, by_shift, by_jump, by_table], ids=lambda b: b.__name__)
def test_payments_that_cancel_leave_their_rounding_in_the_bound(build, size):
    one = Case(build.__name__, 0, *build(size))
    assert exact_checks.check_optimum(one) == []


def test_a_loss_that_rounding_hides_is_inside_its_enclosure():
    """Two actions whose payments cancel: to the last bit of 1e16, one of them is better."""
    chances, pays = [0.3, 0.7], np.array([[7e15, -3e15], [3.5e15, -1.5e15]])

    def step(x, action, w):
        return {"x": x + 0 * w + 0 * action}, pays[action, w]

    noise = Noise("w", [0, 1], chances)
    mdp = ts.MDP.from_step(step, {"x": [0]}, [0, 1], 0.9, noise)
    exact = read_step(World({"x": [0]}, [0, 1]), step, [noise]).to_exact(0.9)
    solution = ts.solve(mdp)
    for action in (0, 1):
        loss = exact.solve()[0] - exact.evaluate([action])[0]
        stated = ts.certify(solution, [action]).mean_loss
        assert Fraction(stated.lower) <= loss <= Fraction(stated.upper)


def many(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.dirichlet(np.ones(count)), rng.normal(1.0, 1.0, count)


def merged_step(rng: np.random.Generator, count: int, discount: float) -> tuple[ts.MDP, Period]:
    chances, pays = many(rng, count)

    def step(x, w):
        return {"x": x + 0 * w}, pays[w]

    noise = Noise("w", range(count), chances)
    mdp = ts.MDP.from_step(step, {"x": [0]}, [0], discount, noise)
    return mdp, read_step(WORLD, step, [noise])


def merged_table(rng: np.random.Generator, count: int, discount: float) -> tuple[ts.MDP, Period]:
    law = [(float(p), 0, float(r), False) for p, r in zip(*many(rng, count), strict=True)]
    outcomes = [Outcome(Fraction(p), to, Fraction(r)) for p, to, r, _ in law]
    mdp = ts.MDP.from_gymnasium(SimpleNamespace(P={0: {0: law}}), discount)
    return mdp, build_period(1, 1, {(0, 0): outcomes})


def merged_pairs(rng: np.random.Generator, count: int, discount: float) -> tuple[ts.MDP, Period]:
    """Entries of one place, which add up; the reward is one number, so only the row is rounded."""
    chances = many(rng, count)[0]
    matrix = sp.coo_array((chances, np.zeros((2, count), dtype=int)), shape=(1, 1))
    mdp = ts.MDP.from_pairs([0], [0], matrix, [1.0], discount)
    outcomes = [Outcome(Fraction(p), 0, Fraction(1)) for p in chances]
    return mdp, replace_rewards(build_period(1, 1, {(0, 0): outcomes}), {(0, 0): 1.0})


# Near 1 the rounding of the row outweighs that of the reward, even as that is bounded.
@pytest.mark.parametrize("discount", [0.9, 0.9999])
@pytest.mark.parametrize(
    "build", [merged_step, merged_table, merged_pairs], ids=lambda b: b.__name__
)
def test_ten_thousand_outcomes_merged_into_one_state_leave_their_rounding_in_the_bound(
    build, discount
):
    found = []
    for seed in range(4):
        one = Case("merged", seed, *build(np.random.default_rng(seed), 10_000, discount))
        found += [f"{seed}: {fault}" for fault in exact_checks.check_optimum(one)]
    assert found == []


def test_the_exact_reading_is_exact():
    """The oracle on a model that can be worked out by hand."""
    _, read = by_step(1.0)
    gain = Fraction(0.3) * 7 - Fraction(0.7) * 3
    chance = Fraction(0.3) + Fraction(0.7)
    assert read.rows == {(0, 0): {0: chance}}
    assert read.reward == {(0, 0): gain}
    assert read.scale == Fraction(0.3) * 7 + Fraction(0.7) * 3
    assert read.to_exact(0.9).solve() == [gain / (1 - Fraction(0.9) * chance)]
