"""Staged dynamics, tabular dynamics and a slow scalar loop over the same period agree."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tessella.mdp.compilation import in_float64
from tessella.mdp.dynamics import fold_actions

EXACT = 1e-12


def heads(program, arrays, w_S, pay):
    tail = program.shared_backup(arrays, w_S, pay)
    each = [program.action_backup(arrays, tail, action, pay) for action in range(program.n_actions)]
    return jnp.stack([jnp.broadcast_to(q, w_S.shape) for q in each])


@partial(jax.jit, static_argnums=(0, 3))
def run_backup(program, arrays, w_S, pay):
    return heads(program, arrays, w_S, pay)


@partial(jax.jit, static_argnums=0)
def run_forward(program, arrays, weights):
    example = jax.ShapeDtypeStruct(weights.shape[1:], weights.dtype)
    return jax.linear_transpose(lambda w: heads(program, arrays, w, False), example)(weights)[0]


@partial(jax.jit, static_argnums=0)
def run_best(program, arrays, w_S):
    tail = program.shared_backup(arrays, w_S, True)

    def higher(action, top):
        return jnp.maximum(top, program.action_backup(arrays, tail, action, True))

    return fold_actions(program, higher, jnp.full(w_S.shape, -jnp.inf))


@in_float64
def backup(mdp, w, pay=True):
    """(A, S) by the compiled tail and head."""
    lowered = mdp.dynamics.compile()
    result = run_backup(
        lowered.backend, lowered.arrays, jnp.asarray(w.reshape(mdp.grid.shape)), pay
    )
    return np.asarray(result).reshape(mdp.n_actions, -1)


@in_float64
def forward(mdp, weights):
    """(S,) the adjoint of the backups of all actions: sum_a P_a^T weights[a]."""
    lowered = mdp.dynamics.compile()
    shaped = jnp.asarray(weights.reshape(mdp.n_actions, *mdp.grid.shape))
    return np.asarray(run_forward(lowered.backend, lowered.arrays, shaped)).ravel()


@in_float64
def best(mdp, w):
    """(S,) the maximum over actions by the fold that solvers use: a scan when they are many."""
    lowered = mdp.dynamics.compile()
    result = run_best(lowered.backend, lowered.arrays, jnp.asarray(w.reshape(mdp.grid.shape)))
    return np.asarray(result).ravel()


def test_the_slow_reading_lists_probability_distributions(world):
    P, _, mask = world.arrays
    sums = P.sum(axis=2).T
    np.testing.assert_allclose(sums[mask], 1, rtol=0, atol=EXACT)
    assert (sums[~mask] == 0).all()


def test_sparse_matrices_and_rewards_agree_with_the_slow_reading(world):
    P, r, mask = world.arrays
    for mdp in (world.staged, world.tabular):
        sparse = mdp.to_sparse()
        dense = np.stack([matrix.toarray() for matrix in sparse.transition])
        np.testing.assert_allclose(dense, P, rtol=0, atol=EXACT)
        np.testing.assert_array_equal(sparse.feasible, mask)
        np.testing.assert_allclose(sparse.reward[mask], r[mask], rtol=0, atol=EXACT)
        assert (sparse.reward[~mask] == -np.inf).all()


def test_compiled_backups_agree_with_a_triple_loop(world):
    P, r, mask = world.arrays
    n_actions, n, _ = P.shape
    w = np.random.default_rng(5).normal(size=n)
    staged, tabular = world.staged, world.tabular
    q = np.zeros((n_actions, n))
    for a in range(n_actions):
        for s in range(n):
            q[a, s] = sum(P[a, s, to] * w[to] for to in range(n))
    for pay, paid in ((False, np.zeros((n_actions, n))), (True, r.T)):
        for mdp in (staged, tabular):
            got = backup(mdp, w, pay)
            np.testing.assert_allclose(got[mask.T], (q + paid)[mask.T], rtol=0, atol=EXACT)


def test_staged_and_tabular_backups_agree_to_rounding(world):
    mask = world.arrays[2].T
    w = np.random.default_rng(6).normal(size=mask.shape[1])
    staged, tabular = world.staged, world.staged_as_table
    assert type(staged.dynamics) is not type(tabular.dynamics)
    difference = backup(staged, w) - backup(tabular, w)
    assert np.abs(difference[mask]).max() <= EXACT
    assert np.abs((staged.reward - tabular.reward)[mask.T]).max() <= EXACT


def test_the_adjoint_moves_distributions_forward(world):
    P, _, mask = world.arrays
    weights = np.random.default_rng(7).random(mask.T.shape) * mask.T
    expected = sum(P[a].T @ weights[a] for a in range(len(P)))
    for mdp in (world.staged, world.tabular):
        np.testing.assert_allclose(forward(mdp, weights), expected, rtol=0, atol=EXACT)
    assert math.isclose(expected.sum(), weights.sum(), rel_tol=1e-12)


def test_the_fold_over_actions_takes_their_maximum(world):
    w = np.random.default_rng(8).normal(size=len(world.points))
    for mdp in (world.staged, world.tabular):
        np.testing.assert_array_equal(best(mdp, w), backup(mdp, w).max(axis=0))


def test_the_row_masses_and_reward_scale_bound_what_they_say(world):
    P, r, mask = world.arrays
    sums = P.sum(axis=2).T[mask]
    for mdp in (world.staged, world.tabular):
        mass = mdp.dynamics.row_sums
        assert mass.low <= sums.min()
        assert sums.max() <= mass.high
        assert mass.high - mass.low <= 1e-12
        assert mdp.dynamics.reward_scale >= np.abs(r[mask]).max() - EXACT


def frequencies(mdp, world, repeats, rng):
    """For every feasible pair, how often each (next state, reward) was drawn."""
    pairs = list(world.outcomes)
    states = np.repeat([s for s, _ in pairs], repeats)
    actions = np.repeat([a for _, a in pairs], repeats)
    steps = mdp.dynamics.step(states, actions, np.random.default_rng(rng))
    assert not steps.ended.any()
    drawn = zip(steps.next_states.tolist(), np.round(steps.rewards, 6).tolist(), strict=True)
    counts = {pair: {} for pair in pairs}
    for i, outcome in enumerate(drawn):
        of = counts[pairs[i // repeats]]
        of[outcome] = of.get(outcome, 0) + 1
    return counts


def surprise(counts, laws, repeats):
    """The smallest two-sided binomial tail among all outcomes, times their number (Bonferroni)."""
    k, p = [], []
    for pair, law in laws.items():
        for outcome in law.keys() | counts[pair].keys():
            k.append(counts[pair].get(outcome, 0))
            p.append(min(law.get(outcome, 0.0), 1.0))
    tails = np.minimum(stats.binom.cdf(k, repeats, p), stats.binom.sf(np.array(k) - 1, repeats, p))
    return min(2 * tails.min() * len(k), 1.0)


def rounded(world, paid):
    """The laws as the simulation can see them: rewards to six digits, or expected rewards."""
    laws = {}
    for pair, law in world.outcomes.items():
        laws[pair] = {}
        for (to, reward), p in law.items():
            key = to, paid(pair, reward)
            laws[pair][key] = laws[pair].get(key, 0.0) + p
    return laws


@pytest.mark.parametrize("seed", [0, 1])
def test_simulated_frequencies_lie_in_their_confidence_intervals(world, seed):
    """Fails with probability below 1e-6 for a right simulator, whatever the seed."""
    repeats = 2000
    laws = rounded(world, lambda pair, reward: round(reward, 6))
    for mdp in (world.staged, world.by_outcome):
        assert surprise(frequencies(mdp, world, repeats, seed), laws, repeats) > 1e-6


def test_a_table_of_expected_rewards_simulates_the_same_transitions(world):
    repeats, mdp = 2000, world.tabular
    expected = np.round(mdp.reward, 6)
    laws = rounded(world, lambda pair, reward: float(expected[pair]))
    assert surprise(frequencies(mdp, world, repeats, 3), laws, repeats) > 1e-6


def test_the_confidence_intervals_are_narrow_enough_to_see_a_wrong_action(world):
    repeats = 2000
    laws = rounded(world, lambda pair, reward: round(reward, 6))
    counts = frequencies(world.staged, world, repeats, 4)
    swapped = {(s, a): counts[s, 1 - a if a < 2 and (s, 1 - a) in counts else a] for s, a in counts}
    assert surprise(swapped, laws, repeats) < 1e-9


def test_a_table_by_numpy_agrees_with_the_compiled_one(world):
    mdp, w = world.tabular, np.random.default_rng(9).normal(size=world.tabular.grid.shape)
    program, arrays = mdp.dynamics.backend_model.backend, mdp.dynamics.backend_model.arrays
    assert not program.is_compiled
    for pay in (True, False):
        tail = program.shared_backup(arrays, w, pay)
        each = [program.action_backup(arrays, tail, a, pay) for a in range(mdp.n_actions)]
        got = np.stack(each).reshape(mdp.n_actions, -1)
        np.testing.assert_allclose(got, backup(mdp, w, pay), rtol=0, atol=EXACT)
        policy = np.random.default_rng(10).integers(0, mdp.n_actions, mdp.grid.shape)
        own = np.take_along_axis(got, policy.reshape(1, -1), 0).reshape(w.shape)
        under = program.policy_backup(arrays, w, policy, pay)
        np.testing.assert_allclose(under, own, rtol=0, atol=EXACT)


def test_what_numpy_moves_forward_is_the_adjoint_of_its_expectation(world):
    """<P_pi w, x> = <w, P_pi' x>, for two policies one after the other."""
    mdp, rng = world.tabular, np.random.default_rng(11)
    program, arrays = mdp.dynamics.backend_model.backend, mdp.dynamics.backend_model.arrays
    w, x = rng.normal(size=mdp.grid.shape), rng.random(mdp.grid.shape)
    for _ in range(2):
        policy = rng.integers(0, mdp.n_actions, mdp.grid.shape)
        after = program.policy_backup(arrays, w, policy, False)
        moved = program.policy_adjoint(arrays, policy, x)(x)
        assert math.isclose((after * x).sum(), (w * moved).sum(), rel_tol=1e-10, abs_tol=1e-10)
