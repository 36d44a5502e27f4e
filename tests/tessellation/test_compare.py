"""Differences between two policies that can be counted on the page."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tessella.errors import ArgumentError
from tessella.mdp.model import MDP
from tessella.solvers.policy_evaluation import occupancy
from tessella.tessellation import compare, tessellate

PAIRS = hnp.array_shapes(min_dims=1, max_dims=3, max_side=5).flatmap(
    lambda shape: st.tuples(*[hnp.arrays(np.int64, shape, elements=st.integers(0, 2))] * 2)
)


def columns(cut, shape=(4, 10)):
    return np.broadcast_to((np.arange(shape[1]) >= cut).astype(int), shape)


@pytest.mark.parametrize("shift", [0, 1, 2, 5])
def test_a_straight_boundary_moved_by_k_steps_is_displaced_by_k(tile, shift):
    found = compare(tile(columns(3)), tile(columns(3 + shift)))
    assert found.displacement == found.worst_displacement == shift
    assert found.disagreement == pytest.approx(4 * shift / 40)
    assert found.where.sum() == 4 * shift


def test_confusion_is_rows_of_the_reference_by_columns_of_the_other(tile):
    found = compare(tile([0, 0, 0, 1, 2], (0, 1, 2)), tile([0, 1, 1, 1, 0], (0, 1, 2)))
    np.testing.assert_allclose(found.confusion * 5, [[1, 2, 0], [0, 1, 0], [1, 0, 0]])
    assert found.disagreement == pytest.approx(3 / 5)


def test_an_occupancy_weighs_states_and_faces(tile):
    a, b = tile([0, 0, 0, 1, 1, 1]), tile([0, 0, 1, 1, 1, 0])
    # States 2 and 5 differ. Faces of a: 2|3. Faces of b: 1|2, moved by 1, and 4|5, by 2.
    found = compare(a, b, occupancy=[0, 2, 3, 4, 1, 0])
    assert found.disagreement == pytest.approx(3 / 10)
    weights = np.array([3 + 4, 2 + 3, 1 + 0])
    assert found.displacement == pytest.approx(weights @ [1, 1, 2] / weights.sum())
    assert found.worst_displacement == 2
    assert compare(a, b, np.array([1, 1, 0, 1, 1, 0.0])).disagreement == 0


def test_an_occupancy_may_be_the_one_that_was_computed():
    # From x the action leads to state x + act, at most 2: every path ends in state 2 or stays.
    transition = np.zeros((2, 3, 3))
    for act in (0, 1):
        transition[act, range(3), np.minimum(np.arange(3) + act, 2)] = 1
    mdp = MDP.from_arrays(transition, np.zeros((3, 2)), 0.5)
    visits = occupancy(mdp, np.array([1, 0, 0]))
    a, b = tessellate(mdp, np.array([0, 0, 1])), tessellate(mdp, np.array([1, 0, 1]))
    # Uniform start; state 0 is left at once, so only its first half counts.
    assert compare(a, b, visits).disagreement == pytest.approx(0.5 / 3)
    assert compare(a, b, visits).disagreement == compare(a, b, visits.share).disagreement


def test_a_boundary_that_vanished_is_infinitely_far(tile):
    found = compare(tile([0, 0, 1]), tile([0, 0, 0], (0, 1)))
    assert found.displacement == np.inf
    same = compare(tile([0, 0], (0, 1)), tile([1, 1], (0, 1)))
    assert same.displacement == 0
    assert same.disagreement == 1


@given(PAIRS)
def test_comparing_is_symmetric_up_to_transposing_the_confusion(tile, pair):
    a, b = (tile(table, (0, 1, 2)) for table in pair)
    there, back = compare(a, b), compare(b, a)
    assert there.disagreement == pytest.approx((pair[0] != pair[1]).mean())
    assert there.disagreement == pytest.approx(back.disagreement)
    np.testing.assert_allclose(there.confusion, back.confusion.T)
    assert there.confusion.sum() == pytest.approx(1)
    assert there.displacement == pytest.approx(back.displacement)
    assert there.worst_displacement == back.worst_displacement
    assert compare(a, a).displacement == compare(a, a).disagreement == 0


@given(PAIRS)
def test_displacements_agree_with_trying_all_pairs_of_faces(tile, pair):
    a, b = (tile(table, (0, 1, 2)) for table in pair)
    found = compare(a, b)
    middles = []
    for t in (a, b):
        ends = [
            np.array(np.unravel_index(t.face_states(k), t.grid.shape)) for k in range(t.grid.ndim)
        ]
        middles.append(np.concatenate(ends, axis=1).mean(axis=2).T)
    gaps = np.linalg.norm(middles[0][:, None] - middles[1][None], axis=-1)
    distances = [*gaps.min(axis=1, initial=np.inf), *gaps.min(axis=0, initial=np.inf)]
    np.testing.assert_allclose(found.displacement, np.mean(distances) if distances else 0)
    np.testing.assert_allclose(found.worst_displacement, max(distances, default=0))


@pytest.mark.parametrize(
    ("occupancy", "message"),
    [
        ([1, 2], "has shape"),
        ([1, -2, 3], r"not negative; x=1 has -2.0 \(1 of 3 states\)"),
        ([1, np.nan, 3], "x=1 has nan"),
        ([0, 0, 0], "positive somewhere"),
    ],
)
def test_a_wrong_occupancy_is_refused(tile, occupancy, message):
    with pytest.raises(ArgumentError, match=message):
        compare(tile([0, 1, 1]), tile([0, 0, 1]), occupancy)


def test_policies_on_different_grids_or_actions_are_refused(tile):
    with pytest.raises(ArgumentError, match="one grid"):
        compare(tile([0, 1]), tile([0, 1, 1]))
    with pytest.raises(ArgumentError, match="same actions"):
        compare(tile([0, 1]), tile([0, 1], ("a", "b")))


def test_what_is_not_a_tessellation_is_refused_with_the_way_to_make_one(tile):
    solution = SimpleNamespace(policy=None)
    with pytest.raises(ArgumentError, match=r"two tessellations, or a solution .*; a is a Simple"):
        compare(solution, solution)
    with pytest.raises(ArgumentError, match=r"tessellate\(\.\.\.\) returns; b is a ndarray"):
        compare(tile([0, 1]), np.array([0, 1]))
