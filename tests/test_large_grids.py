"""Grids of more than 2^31 states, and what is rejected or not built because it would not fit."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import tessella as ts
from tessella.baselines.training import TRANSITIONS_PER_BLOCK, draw_uniform_transitions
from tessella.grid import index_type
from tessella.mdp.tabular import outcomes as stepping
from tessella.mdp.tabular.rows import compile_rows

SIDE = 70_000
GRID = ts.StateGrid(x=range(SIDE), y=range(SIDE))
FAR = [SIDE**2 - 1, 2**31 + 5, 2**31 - 1, 0]


@pytest.fixture
def held():
    """Most bytes held at once since the fixture began, as a function."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_a_grid_beyond_2_to_the_31_finds_its_states_without_a_table_of_them(held):
    assert GRID.size > 2**32
    for state in FAR:
        x, y = divmod(state, SIDE)
        assert GRID.describe(state) == f"x={x}, y={y}"
        assert GRID.state(x=x, y=y) == state
    points = GRID.points_of(np.array(FAR))
    np.testing.assert_array_equal(points, [divmod(state, SIDE) for state in FAR])
    np.testing.assert_array_equal(GRID.nearest(points + 0.25), FAR)
    np.testing.assert_array_equal(GRID.coordinates(FAR)["y"], np.array(FAR) % SIDE)
    assert held() < 20e6


def test_a_walk_on_such_a_grid_stays_where_it_is(held):
    shift = ts.Shift("x", ts.Noise("d", [0, 1], [0.5, 0.5]), by=lambda d: -d)
    fall = ts.Decide("y", to=lambda y, a: np.maximum(y - a, 0))
    mdp = ts.MDP.staged(GRID, (0, 1), 0.9, [fall, shift], action_name="a")
    states, actions = np.repeat(FAR, 50), np.tile([0, 1], 100)
    reached = mdp.dynamics.step(states, actions, np.random.default_rng(0)).next_states
    x, y = np.divmod(states, SIDE)
    np.testing.assert_array_equal(reached % SIDE, np.maximum(y - actions, 0))
    fallen = x - reached // SIDE
    assert set(np.unique(fallen[x > 0])) == {0, 1}
    assert not fallen[x == 0].any()
    assert held() < 50e6


def test_a_sample_holds_states_beyond_2_to_the_31_and_makes_nothing_as_long_as_the_grid(held):
    points = GRID.points_of(np.array(FAR))
    sample = ts.Sample(points, [0, 1, 1, 0], np.ones(4), FAR, GRID, ("a", "b"))
    assert sample.states.tolist() == FAR
    for wrong in (GRID.size, -1, 0.5, "0"):
        with pytest.raises(ts.ArgumentError, match=f"states must lie in 0..{GRID.size - 1}"):
            ts.Sample(points, [0, 1, 1, 0], np.ones(4), [wrong] * 4, GRID, ("a", "b"))
    policy = ts.fit(ts.LinearBoundary(), sample)
    assert policy.act(points).shape == (4,)
    assert held() < 50e6


def test_indices_are_as_wide_as_they_must_be():
    assert index_type(2**31) is np.int32
    assert index_type(2**31 + 1) is np.int64


def test_rows_reach_states_beyond_2_to_the_31():
    rows = sp.csr_array(([0.5, 0.5, 1.0], [3, 2**31 + 7, 2**32], [0, 2, 3]), shape=(2, GRID.size))
    arrays = compile_rows(rows, GRID.size)
    assert set(arrays["columns"].ravel().tolist()) == {0, 3, 2**31 + 7, 2**32}


@pytest.mark.parametrize(
    ("side", "noise"),
    [
        (10_000, ()),
        (3, [ts.Noise(n, range(1000), np.full(1000, 0.001)) for n in "def"]),
    ],
)
def test_a_step_model_that_would_take_too_much_is_refused_before_it_is_made(side, noise, held):
    def never(**names):
        raise AssertionError("the step function was called")

    with pytest.raises(ts.ModelError) as found:
        ts.MDP.from_step(never, {"x": range(side), "y": range(side)}, (0, 1), 0.9, noise)
    assert "in at most 8,589,934,592 bytes; larger models are given as MDP.staged" in str(
        found.value
    )
    outcomes = 2 * side**2 * 1000 ** len(noise)
    assert found.value.value.endswith(f"need {stepping.OUTCOME_BYTES * outcomes:,}")
    assert held() < 5e6


def test_what_a_step_model_takes_is_what_it_is_said_to_take(held):
    def step(x, y, a, d):
        return {"x": np.clip(x + a - d, 0, 299)}, 1.0 * x - d + y

    noise = ts.Noise("d", range(10), np.full(10, 0.1))
    axes, actions = {"x": range(300), "y": range(40)}, (0, 1, 2)
    ts.MDP.from_step(step, axes, actions, 0.9, noise, action_name="a")
    assert 0.3 < held() / (300 * 40 * 3 * 10 * stepping.OUTCOME_BYTES) < 1.1


def test_transitions_of_a_model_where_all_is_feasible_need_no_list_of_pairs(monkeypatch):
    mdp = ts.benchmark("QUE-Lin")
    assert mdp.feasible is None
    pairs = np.random.default_rng([3, 0]).integers(
        0, mdp.n_states * mdp.n_actions, TRANSITIONS_PER_BLOCK
    )
    monkeypatch.setattr(ts.MDP, "feasible_mask", property(lambda self: pytest.fail("a full mask")))
    seen = draw_uniform_transitions(mdp, 100, 3)
    np.testing.assert_array_equal(seen.states * mdp.n_actions + seen.actions, pairs[:100])


def test_a_certificate_asks_for_the_rewards_of_one_action_at_a_time(monkeypatch):
    """The bound on rewards never holds states x actions."""
    import tessella as ts
    from tessella.certificates.certify_values import _bound_reward
    from tessella.mdp.dynamics import Dynamics

    def refuse(self):
        raise AssertionError("states x actions were asked for")

    mdp = ts.benchmark("INV-Mix")
    largest = abs(mdp.reward).max()
    monkeypatch.setattr(Dynamics, "expected_reward", refuse)
    assert largest <= _bound_reward(mdp) <= largest * (1 + 1e-9)
