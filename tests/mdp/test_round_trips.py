"""Models are written as arrays, tables and files, and read back without loss."""

from __future__ import annotations

import warnings
from fractions import Fraction

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp
from gymnasium.envs.toy_text import CliffWalkingEnv, FrozenLakeEnv, TaxiEnv
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from quantecon.markov import DiscreteDP

from tessella.errors import ArgumentError
from tessella.mdp.model import MDP
from tessella.mdp.simulate import simulate
from tessella.mdp.start import start_distribution


@st.composite
def arrays(draw):
    """P (A, S, S), r (S, A) and feasible (S, A), with repeated rows now and then."""
    n, n_actions = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = rng.dirichlet(np.ones(n) * 0.3, draw(st.integers(1, n * n_actions)))
    P = kinds[rng.integers(len(kinds), size=(n_actions, n))]
    mask = draw(hnp.arrays(bool, (n, n_actions)))
    mask[np.arange(n), rng.integers(n_actions, size=n)] = True
    return P, rng.normal(size=(n, n_actions)), mask


def expected_rows(P, mask):
    return np.where(mask.T[:, :, None], P, 0.0)


@settings(deadline=None)
@given(arrays())
def test_arrays_come_back_as_they_went_in(model):
    P, r, mask = model
    built = [
        MDP.from_arrays(P, r, 0.9, feasible=mask),
        MDP.from_arrays(np.moveaxis(P, 0, 1), r, 0.9, layout="SAS", feasible=mask),
        MDP.from_arrays([sp.csr_array(p) for p in P], r, 0.9, feasible=mask),
        MDP.from_arrays(P.tolist(), np.where(mask, r, -np.inf).tolist(), 0.9, feasible=mask),
    ]
    for mdp in built:
        for layout, back in (("ASS", 0), ("SAS", 1)):
            dense = mdp.to_arrays(layout)
            np.testing.assert_array_equal(
                np.moveaxis(dense.transition, back, 0), expected_rows(P, mask)
            )
            np.testing.assert_array_equal(dense.reward, np.where(mask, r, -np.inf))
            np.testing.assert_array_equal(dense.feasible, mask)
        for matrix, rows in zip(mdp.to_sparse().transition, expected_rows(P, mask), strict=True):
            np.testing.assert_array_equal(matrix.toarray(), rows)
    assert len({mdp.fingerprint for mdp in built}) == 1


@settings(deadline=None)
@given(arrays(), st.randoms(use_true_random=False))
def test_pairs_come_back_in_any_order(model, random):
    P, r, mask = model
    states, choices = np.nonzero(mask)
    order = list(range(len(states)))
    random.shuffle(order)
    s, a = states[order], choices[order]
    actions = range(len(P))
    dense = MDP.from_pairs(s, a, P[a, s], r[s, a], 0.9, actions=actions)
    sparse = MDP.from_pairs(s, a, sp.csr_matrix(P[a, s]), r[s, a], 0.9, actions=actions)
    whole = MDP.from_arrays(P, r, 0.9, feasible=mask)
    assert dense.fingerprint == sparse.fingerprint == whole.fingerprint
    pairs = dense.to_pairs()
    np.testing.assert_array_equal(pairs.states, states)
    np.testing.assert_array_equal(pairs.choices, choices)
    np.testing.assert_array_equal(pairs.transition.toarray(), P[choices, states])
    np.testing.assert_array_equal(pairs.reward, r[states, choices])


@settings(deadline=None)
@given(arrays(), st.integers(0, 2**32 - 1))
def test_rewards_by_transition_are_averaged_in_every_layout(model, seed):
    P, _, mask = model
    rng = np.random.default_rng(seed)
    paid = rng.normal(size=P.shape) * rng.integers(2, size=P.shape)
    expected = np.where(mask, np.einsum("ast,ast->sa", P, paid), 0.0)
    dense = MDP.from_arrays(P, paid, 0.9, feasible=mask)
    swapped = (np.moveaxis(P, 0, 1), np.moveaxis(paid, 0, 1))
    by_state = MDP.from_arrays(*swapped, 0.9, layout="SAS", feasible=mask)
    lists = ([sp.csr_array(p) for p in P], [sp.csr_array(m) for m in paid])
    sparse = MDP.from_arrays(*lists, 0.9, feasible=mask)
    for mdp in (dense, by_state, sparse):
        np.testing.assert_allclose(mdp.reward, expected, rtol=0, atol=1e-14)
    assert dense.fingerprint == by_state.fingerprint == sparse.fingerprint


def test_a_reward_by_state_is_paid_for_every_action():
    P = np.tile(np.eye(3), (2, 1, 1))
    mdp = MDP.from_arrays(P, [1, 2, 3], 0.5)
    assert mdp.reward.tolist() == [[1, 1], [2, 2], [3, 3]]


def test_exact_fractions_are_read():
    half = Fraction(1, 2)
    mdp = MDP.from_arrays([[[half, half], [0, 1]]], [[Fraction(1, 3)], [0]], 0.5)
    assert mdp.to_arrays().transition.tolist() == [[[0.5, 0.5], [0, 1]]]
    assert mdp.reward[0, 0] == 1 / 3


def test_an_object_array_of_sparse_matrices_is_read():
    listed = np.empty(2, dtype=object)
    listed[:] = [sp.csr_matrix(np.eye(3)), sp.csr_matrix(np.eye(3)[::-1])]
    mdp = MDP.from_arrays(listed, np.zeros((3, 2)), 0.5)
    np.testing.assert_array_equal(mdp.to_arrays().transition[1], np.eye(3)[::-1])


def test_arrays_that_were_given_are_neither_changed_nor_shared():
    P, r = np.tile([[0.5, 0.5], [0.0, 1.0]], (2, 1, 1)), np.ones((2, 2))
    matrices, mask = [sp.coo_array(p) for p in P], np.array([[True, False], [True, True]])
    mdp = MDP.from_arrays(matrices, r, 0.5, feasible=mask)
    before = mdp.fingerprint
    matrices[0].data[:] = 9
    r[:] = 9
    mask[:] = True
    again = MDP(mdp.grid, mdp.actions, mdp.discount, mdp.dynamics, mdp.feasible)
    assert again.fingerprint == before
    assert P.max() == 1


def test_identical_rows_are_stored_once():
    rng = np.random.default_rng(0)
    kinds = rng.dirichlet(np.ones(50), 3)
    kinds = np.concatenate([kinds, kinds[:, ::-1], np.roll(kinds, 1, axis=1)])  # same numbers
    P = kinds[np.arange(200).reshape(4, 50) % 9]
    mdp = MDP.from_arrays(P, np.zeros((50, 4)), 0.9)
    assert len(mdp.dynamics.rows.indptr) - 1 == 9
    np.testing.assert_array_equal(mdp.to_arrays().transition, P)


def test_staged_models_survive_as_arrays_pairs_and_tables(world):
    staged = world.staged
    dense = staged.to_arrays("SAS")
    named = {"grid": staged.grid, "actions": staged.actions, "action_name": staged.action_name}
    mdp = MDP.from_arrays(
        dense.transition,
        dense.reward,
        dense.discount,
        layout="SAS",
        feasible=dense.feasible,
        **named,
    )
    np.testing.assert_array_equal(mdp.to_arrays("SAS").transition, dense.transition)
    np.testing.assert_array_equal(mdp.to_arrays("SAS").reward, dense.reward)
    table = MDP.from_gymnasium(staged.to_gymnasium(), staged.discount)
    np.testing.assert_array_equal(table.to_arrays("SAS").transition, dense.transition)
    np.testing.assert_allclose(table.to_arrays("SAS").reward, dense.reward, rtol=1e-14)


def test_quantecon_reads_what_goes_out_and_finds_the_same_value(world):
    pairs = world.staged.to_pairs()
    ddp = DiscreteDP(
        pairs.reward, pairs.transition.toarray(), pairs.discount, pairs.states, pairs.choices
    )
    value = ddp.solve(method="policy_iteration").v
    q = pairs.reward + pairs.discount * (pairs.transition @ value)
    best = np.full(world.staged.n_states, -np.inf)
    np.maximum.at(best, pairs.states, q)
    np.testing.assert_allclose(best, value, rtol=0, atol=1e-9)


TOYS = (FrozenLakeEnv, CliffWalkingEnv, TaxiEnv)


def test_a_registered_environment_gives_its_name():
    assert MDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), 0.99).name == "FrozenLake-v1"


@pytest.mark.parametrize("toy", TOYS)
def test_toy_text_environments_come_back_as_they_went_in(toy):
    original = toy()
    mdp = MDP.from_gymnasium(original, 0.99)
    back = mdp.to_gymnasium()
    assert back.observation_space.n == original.observation_space.n
    assert back.action_space.n == original.action_space.n
    np.testing.assert_array_equal(back.initial_state_distrib, original.initial_state_distrib)
    for s, of_state in original.P.items():
        for a, outcomes in of_state.items():
            assert back.P[s][a] == [(p, int(to), float(r), bool(end)) for p, to, r, end in outcomes]
    assert MDP.from_gymnasium(back, 0.99).fingerprint == mdp.fingerprint


@pytest.mark.parametrize("toy", TOYS)
def test_toy_text_expectations_are_those_of_a_loop_over_the_table(toy):
    original = toy()
    mdp = MDP.from_gymnasium(original, 0.99)
    P = np.zeros((mdp.n_actions, mdp.n_states, mdp.n_states))
    r = np.zeros((mdp.n_states, mdp.n_actions))
    for s, of_state in original.P.items():
        for a, outcomes in of_state.items():
            for p, to, reward, end in outcomes:
                r[s, a] += p * reward
                P[a, s, to] += 0 if end else p
    np.testing.assert_allclose(mdp.to_arrays().transition, P, rtol=0, atol=1e-15)
    np.testing.assert_allclose(mdp.reward, r, rtol=0, atol=1e-14)


@pytest.mark.parametrize("toy", TOYS)
def test_toy_text_environments_pass_gymnasiums_own_check(toy):
    passes_check(MDP.from_gymnasium(toy(), 0.99))


def test_staged_environments_pass_gymnasiums_own_check(world):
    if world.feasible is None:
        passes_check(world.staged)


def passes_check(mdp):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(mdp.to_gymnasium(), skip_render_check=True)


def test_an_infeasible_action_is_masked_and_refused():
    mdp = MDP.from_arrays(
        np.tile(np.eye(2), (2, 1, 1)), np.zeros((2, 2)), 0.9, feasible=[[True, False], [True, True]]
    )
    env = mdp.to_gymnasium(start=0)
    state, info = env.reset(seed=1)
    assert (state, info["action_mask"].tolist()) == (0, [1, 0])
    assert env.P[0][1] == []
    with pytest.raises(ArgumentError, match="must be feasible; state=0, action=1 is not"):
        env.step(1)
    again = MDP.from_gymnasium(env, 0.9)
    np.testing.assert_array_equal(again.feasible_mask, mdp.feasible_mask)


def test_an_ended_path_pays_nothing_more():
    mdp = MDP.from_gymnasium(FrozenLakeEnv(is_slippery=False), 0.9)
    right, down = 2, 1
    policy = np.full(16, down)
    policy[[8, 13, 14]] = right
    paths = simulate(mdp, policy, 20, 0, paths=3)
    assert paths.states[:, -1].tolist() == [15] * 3
    assert (paths.actions >= 0).sum(axis=1).tolist() == [6] * 3
    np.testing.assert_allclose(paths.returns, 0.9**5)
    assert start_distribution(mdp, None).argmax() == 0
