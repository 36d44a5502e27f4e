"""A jump on few axes gives the same as a matrix on them and as a scatter over whole states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tessella as ts
from tessella.grid import StateGrid
from tessella.mdp.compilation import in_float64
from tessella.mdp.stages import maps
from tessella.mdp.stages.maps import AxisMap
from tessella.mdp.stages.scatter import JointMatrix, Scatter
from tessella.mdp.state_action_space import make_state_action_space

AXES = {"x": range(4), "y": range(5), "z": range(6), "last": range(12)}


def told(**how) -> ts.MDP:
    """Jumps along z alone, along x and z by what y is, and to an x whatever it was."""
    few = ts.Noise("few", range(3), lambda y: _law(y, 3))
    by_action = ts.Noise("some", range(4), lambda a, z: _law(a + z, 4))
    return ts.MDP.staged(
        AXES,
        {"a": range(3)},
        0.9,
        [
            ts.Jump(by_action, to=lambda some, z: {"z": (z + some) % 6}, pays=lambda some, z: some),
            ts.Jump(
                few,
                to=lambda few, x, z, y: {
                    "z": np.maximum(z - few, 0),
                    "x": np.minimum(np.maximum(few - z, 0) + y % 2, 3) + 0 * x,
                },
                pays=lambda few, z, y: np.minimum(few, z) - 0.1 * y,
            ),
            ts.Jump(
                ts.Noise("drawn", range(4), _law(np.ones(1), 4)), to=lambda drawn: {"x": drawn}
            ),
            ts.Decide("last", to=lambda x: x % 3),
        ],
        **how,
    )


def _law(weight, count: int) -> np.ndarray:
    """(..., count) probabilities that depend on ``weight``, (..., 1); some of them are 0."""
    weights = np.maximum(1.0 + np.cos(weight + 2.0 * np.arange(count)), 0.2) - 0.2
    weights[..., 0] += 0.3
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def pair():
    """The same model, once with jumps over whole states."""
    before = maps.build_joint_matrix
    maps.build_joint_matrix = lambda *_: None
    try:
        whole = told()
    finally:
        maps.build_joint_matrix = before
    return told(), whole


def test_small_jumps_become_matrices_and_what_is_set_anew_is_not_kept(pair):
    kinds = [[type(stage.operation) for stage in mdp.dynamics.stages] for mdp in pair]
    assert kinds == [
        [JointMatrix, JointMatrix, JointMatrix, AxisMap],
        [Scatter, Scatter, Scatter, AxisMap],
    ]


def test_a_fingerprint_does_not_depend_on_how_a_jump_is_kept(pair):
    joint, whole = pair
    assert joint.fingerprint == whole.fingerprint


def test_rows_and_rewards_are_the_same(pair):
    joint, whole = (mdp.dynamics for mdp in pair)
    for one, other in zip(joint.to_sparse(), whole.to_sparse(), strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-15)
    np.testing.assert_allclose(joint.expected_reward(), whole.expected_reward(), atol=1e-14)


@in_float64
def test_compiled_passes_are_the_same_for_actions_policies_and_the_way_forward(pair):
    rng, (joint, whole) = np.random.default_rng(0), pair
    w = rng.normal(size=joint.grid.shape)
    policy = jnp.asarray(rng.integers(0, 3, joint.grid.shape), dtype=jnp.int32)

    def passes(mdp: ts.MDP) -> list:
        model = mdp.dynamics.compile()
        program, arrays = model.backend, model.arrays

        @jax.jit
        def work(w):
            tail = program.shared_backup(arrays, w, True)
            each = [program.action_backup(arrays, tail, a, True) for a in range(3)]
            under = program.policy_backup(arrays, w, policy, True)
            return jnp.stack([*each, under, program.policy_adjoint(arrays, policy, w)(w)])

        return list(work(w))

    for one, other in zip(passes(joint), passes(whole), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)


def test_a_narrower_grid_and_windows_have_the_same_matrix(pair):
    second = pair[0].dynamics.stages[1].operation
    assert second.restrict_to_leading_axes(2) is None
    assert second.restrict_to_leading_axes(3).shape == (4, 5, 6)
    assert [second.max_displacement(axis) for axis in range(4)] == [(3, 3), (0, 0), (2, 0), (0, 0)]
    part = second.block(1, 2, 2)
    np.testing.assert_array_equal(part.matrix, second.matrix[:, :, 2:4])
    assert second.block(3, 0, 2).shape == (4, 5, 6, 2)


def test_targets_may_be_more_than_32_bits_count():
    """50,000 x 50,000 states, all of which lead to the last; nothing is made over the grid."""
    space = make_state_action_space(
        StateGrid({"x": range(50_000), "y": range(50_000)}), (0,), "action"
    )
    to_the_last = ts.Jump(
        ts.Noise("k", (0,), (1.0,)), to=lambda k: {"x": k + 49_999, "y": k + 49_999}
    )
    operation = to_the_last.build(space).operation
    assert isinstance(operation, JointMatrix)
    assert operation.target.ravel().tolist() == [50_000**2 - 1]


def test_walkers_go_where_rows_say(pair):
    """20,000 of them from one state, by a chi-square test at one in a million."""
    mdp, n = pair[0], 20_000
    start, row = 101, pair[1].dynamics.to_sparse()[2][[101]].toarray().ravel()
    states, actions = np.full(n, start), np.full(n, 2)
    reached = mdp.dynamics.step(states, actions, np.random.default_rng(5)).next_states
    seen = np.bincount(reached, minlength=mdp.n_states)
    assert not seen[row == 0].any()
    assert stats.chisquare(seen[row > 0], n * row[row > 0]).pvalue > 1e-6


def test_over_a_horizon_a_stage_may_depend_on_other_axes_at_other_times():
    def later(time, x, y):
        return x if time < 2 else 0 * y

    horizon = ts.FiniteHorizon(3, 1.0)
    mdp = ts.MDP.staged(
        {"x": range(3), "y": range(2)},
        (0, 1),
        horizon,
        [ts.Decide("x", to=later, pays=lambda x, y, action: x + y * action)],
    )
    assert ts.solve(mdp).value[0].tolist() == [[0.0, 3.0], [3.0, 6.0], [6.0, 9.0]]
