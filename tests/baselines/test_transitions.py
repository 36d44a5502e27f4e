"""Transitions drawn from a simulator."""

import numpy as np
import pytest

from tessella.baselines.training import TRANSITIONS_PER_BLOCK, draw_uniform_transitions


def test_the_first_transitions_do_not_depend_on_how_many_follow(small):
    long = draw_uniform_transitions(small, 3 * TRANSITIONS_PER_BLOCK, 7)
    for n in (1, 100, TRANSITIONS_PER_BLOCK, TRANSITIONS_PER_BLOCK + 1):
        short, prefix = draw_uniform_transitions(small, n, 7), long.take_first(n)
        assert len(short.states) == n
        for name in ("states", "actions", "rewards", "nexts", "ended", "coins"):
            assert (getattr(short, name) == getattr(prefix, name)).all()


@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_uniform_over_the_feasible_ones(small, seed):
    n = 30_000
    seen = draw_uniform_transitions(small, n, seed)
    counts = np.bincount(seen.states * 3 + seen.actions, minlength=18)
    feasible = small.feasible_mask.ravel()
    assert (counts[~feasible] == 0).all()
    expected = n / feasible.sum()
    chi = ((counts[feasible] - expected) ** 2 / expected).sum()
    assert chi < 14 + 6 * np.sqrt(28)


@pytest.mark.parametrize("seed", range(3))
def test_next_states_follow_the_model(small, seed):
    n = 60_000
    seen = draw_uniform_transitions(small, n, seed)
    here = (seen.states == 2) & (seen.actions == 1)
    found = np.bincount(seen.nexts[here], minlength=6) / here.sum()
    law = small.to_sparse().transition[1].toarray()[2]
    assert np.abs(found - law).max() < 5 * 0.5 / np.sqrt(here.sum())


def test_seeds_differ(small):
    one, other = draw_uniform_transitions(small, 50, 1), draw_uniform_transitions(small, 50, 2)
    assert (one.states != other.states).any()
