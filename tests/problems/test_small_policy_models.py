"""The eight models on which published tools for small policies are compared.

Values from the start, optimal and of uniformly random moves, as in the artifact of Andriushchenko
et al. (CAV 2025, ``randriu/dt-synthesis-cav-25``, final-merge.csv), discount 0.99.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.small import evaluate_rows, iterate_policies, to_dense

import tessella as ts

PRINTED = [  # problem, settings, states, optimal, random
    ("navigation", {}, 125, 0.351855, 0.0000),
    ("frozen_lake", {"map": "4x4"}, 16, 0.542026, 0.0124),
    ("frozen_lake", {"map": "8x8"}, 64, 0.414640, 0.0011),
    ("frozen_lake", {"map": "12x12"}, 144, 0.348724, 0.0002),
    ("system_administrator", {"network": "1"}, 256, 223.970097, 98.893),
    ("system_administrator", {"network": "2"}, 256, 241.153564, 111.612),
    ("system_administrator", {"network": "tree"}, 128, 557.724714, 332.262),
    ("traffic_intersection", {}, 432, 2.124552, -146.44),
]


@pytest.mark.parametrize(("name", "settings", "states", "best", "random"), PRINTED)
def test_optimum_and_random_moves_are_worth_what_is_printed(name, settings, states, best, random):
    mdp = ts.problem(name).build(**settings)
    assert mdp.n_states == states
    assert round(float(iterate_policies(mdp).value @ mdp.start), 6) == best
    P, r = to_dense(mdp)
    moved, _ = evaluate_rows(mdp, P.mean(axis=0), r.mean(axis=1))
    assert float(moved @ mdp.start) == pytest.approx(random, rel=1e-4, abs=6e-5)  # iterated there


def test_361_states_of_the_crossing_can_be_reached():
    mdp = ts.problem("traffic_intersection").build()
    ways = (to_dense(mdp)[0] > 0).any(axis=0)
    assert mdp.start is not None
    found = mdp.start > 0
    for _ in range(50):
        found = found | (found @ ways)
    assert found.sum() == 361


def test_the_lakes_are_those_of_gymnasium():
    toy_text = pytest.importorskip("gymnasium.envs.toy_text.frozen_lake")
    for name in ("4x4", "8x8"):
        env = toy_text.FrozenLakeEnv(map_name=name, is_slippery=True)
        theirs = ts.MDP.from_gymnasium(env, 0.99)
        ours = ts.problem("frozen_lake").build(map=name)
        value = iterate_policies(theirs).value[: ours.n_states]
        np.testing.assert_allclose(iterate_policies(ours).value, value, atol=1e-12)


def test_the_commonest_advice_to_an_administrator_is_to_mind_the_root():
    """In the tree, what is off highest up is rebooted first: everything hangs on it."""
    mdp = ts.problem("system_administrator").build()
    table = iterate_policies(mdp).policy.reshape(mdp.grid.shape)
    assert (table[0] == mdp.actions.index("reboot 0")).all()
