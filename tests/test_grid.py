"""The grid: names, values and the two ways between indices and points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.errors import ArgumentError, ModelError
from tessella.grid import RESERVED_NAMES, StateGrid
from tessella.tessellation import section

numbers = st.lists(
    st.one_of(st.integers(-50, 50), st.floats(-50, 50, allow_nan=False).map(lambda x: round(x, 3))),
    min_size=1,
    max_size=4,
    unique=True,
)
texts = st.lists(st.sampled_from(["calm", "tense", "wild", "grim"]), min_size=1, unique=True)
grids = st.lists(st.one_of(numbers, texts), min_size=1, max_size=4).map(
    lambda axes: StateGrid({f"x{i}": values for i, values in enumerate(axes)})
)


@given(grids)
def test_states_are_numbered_in_the_order_of_nested_loops(grid):
    points = list(itertools.product(*(values.tolist() for values in grid.values)))
    assert grid.size == len(points) == np.prod(grid.shape)
    for state, point in enumerate(points):
        named = dict(zip(grid.axes, point, strict=True))
        assert grid.state(**named) == state
        assert {n: v.item() for n, v in grid.coordinates(state).items()} == named


@given(grids)
def test_each_point_of_the_grid_is_its_own_nearest_state(grid):
    assert grid.points.shape == (grid.size, grid.ndim)
    np.testing.assert_array_equal(grid.nearest(grid.points), np.arange(grid.size))


@given(numbers, st.lists(st.floats(-80, 80), min_size=1, max_size=5))
def test_the_nearest_state_is_no_farther_than_any_other(values, wanted):
    grid = StateGrid(x=values)
    axis = grid.numbers[0]
    chosen = axis[grid.nearest(np.array(wanted)[:, None])]
    distances = np.abs(axis[None] - np.array(wanted)[:, None])
    np.testing.assert_array_equal(np.abs(chosen - wanted), distances.min(axis=1))


def test_of_two_states_as_near_the_lower_value_is_taken_in_either_direction():
    for values in ([0, 1, 2], [2, 1, 0]):
        grid = StateGrid(x=values)
        assert grid.numbers[0][grid.nearest([[0.5], [1.5]])].tolist() == [0, 1]


@given(grids)
def test_a_mesh_broadcasts_to_the_points(grid):
    mesh = np.broadcast_arrays(*grid.mesh().values())
    for name, values in zip(grid.axes, mesh, strict=True):
        np.testing.assert_array_equal(values.ravel(), grid.coordinates(np.arange(grid.size))[name])


def test_values_that_miss_by_rounding_are_found_and_others_are_not():
    grid = StateGrid(x=np.linspace(0, 1, 11), far=[1e9, 1e9 + 1, 1e9 + 2])
    assert grid.locate(0, [0.1 + 0.2, 0.7, 1 / 3]).tolist() == [3, 7, -1]
    assert grid.locate(1, [1e9 + 1, 1e9 + 1.5]).tolist() == [1, -1]
    assert grid.state(x=0.3, far=1e9) == 9
    with pytest.raises(ArgumentError, match=r"a state must lie on the grid; x=0\.35 does not"):
        grid.state(x=0.35, far=1e9)


longs = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.builds(
        lambda base, off: max(-(2**63), min(base + off, 2**63 - 1)),
        st.sampled_from([0, 2**53, -(2**53), 2**60, 2**63]),
        st.integers(-3, 3),
    ),
)


@given(st.lists(longs, min_size=1, max_size=5, unique=True), st.lists(longs, max_size=5))
def test_integers_of_any_length_are_located_exactly(values, others):
    grid = StateGrid(x=values)
    wanted = values + others
    expected = [values.index(x) if x in values else -1 for x in wanted]
    assert grid.locate(0, np.array(wanted, dtype=np.int64)).tolist() == expected
    floats = [float(x) for x in wanted]
    expected = [values.index(int(x)) if int(x) in values else -1 for x in floats]
    assert grid.locate(0, floats).tolist() == expected
    positive = [x for x in wanted if x >= 0] + [2**63, 2**64 - 1]
    expected = [values.index(x) if x in values else -1 for x in positive]
    assert grid.locate(0, np.array(positive, dtype=np.uint64)).tolist() == expected


magnitudes = st.builds(
    lambda digits, power: round(digits, 6) * 10.0**power, st.floats(-9, 9), st.integers(-6, 17)
)


@given(st.lists(magnitudes, min_size=2, max_size=5, unique=True), magnitudes)
def test_a_value_is_found_only_where_it_is_near_beside_the_distance_to_the_neighbours(
    values, other
):
    grid = StateGrid(x=values)
    axis = np.array(values)
    ulp = np.spacing(np.abs(axis))
    gap = np.array([np.abs(np.delete(axis, i) - v).min() for i, v in enumerate(axis)])
    far = gap > 64 * ulp
    for miss in (0, 4 * ulp, -4 * ulp):  # a few roundings
        assert (grid.locate(0, axis + miss) == np.arange(len(axis)))[far].all()
    for miss in (1e-5, -1e-5, 1e-6 * gap, -1e-6 * gap, 0.4 * gap):
        x = axis + miss
        other_number = np.abs(x - axis) > np.maximum(64 * ulp, 1e-5 * np.minimum(gap, 1) / 2)
        assert (grid.locate(0, x) != np.arange(len(axis)))[other_number & far].all()
    at = int(grid.locate(0, other))
    if at >= 0:
        assert abs(other - axis[at]) <= 1e-8 * gap[at] + min(16 * ulp[at], gap[at] / 4)
        assert abs(other - axis[at]) <= 1e-5 + 16 * ulp[at]


def test_a_value_is_not_taken_for_another_because_the_axis_reaches_far():
    """The slack of one value knows nothing of the size of the others."""
    for values in ([1e17, 1, 2], [1e17, 0.5, 2], [0, 1e17], [0.5, 1e17], [-1e150, 1, 2]):
        grid = StateGrid(x=values)
        for x in (3.0, 50.0, 1.5, 2.001, 1e9, 1e17 + 1e6):
            assert grid.locate(0, x) == -1
        assert grid.locate(0, values).tolist() == list(range(len(values)))
    close = StateGrid(x=[1e17, 1e17 + 64])  # four roundings apart
    assert close.locate(0, [1e17, 1e17 + 32, 1e17 + 64]).tolist() == [0, -1, 1]


def test_text_and_numbers_are_never_mistaken_for_one_another():
    grid = StateGrid(x=[1, 2], mood=["1", "2"])
    assert grid.locate(0, ["1", "2"]).tolist() == [-1, -1]
    assert grid.locate(1, [1, 2]).tolist() == [-1, -1]
    assert grid.locate(1, ["2", "3"]).tolist() == [1, -1]


def test_descending_and_unordered_axes_keep_their_order():
    grid = StateGrid(x=[3, 1, 2])
    assert grid.points.ravel().tolist() == [3, 1, 2]
    assert grid.locate(0, [1, 2, 3]).tolist() == [1, 2, 0]


def test_short_and_unsigned_integers_are_widened():
    """``stock - demand`` of unsigned integers would wrap around."""
    grid = StateGrid(x=np.arange(3, dtype=np.uint8), y=np.array([True, False]))
    assert [values.dtype for values in grid.values] == [np.int64, np.int64]
    assert (grid.values[0] - 5).tolist() == [-5, -4, -3]


def test_a_grid_of_one_state():
    grid = StateGrid(only=["here"])
    assert (grid.size, grid.shape, grid.describe(0)) == (1, (1,), "only=here")
    assert grid.nearest([[17.0]]).tolist() == [0]


def test_equal_grids_are_equal_and_differ_by_name_value_or_order():
    grid = StateGrid(x=[0, 1], y=[5.0])
    assert grid == StateGrid({"x": [0, 1], "y": [5.0]})
    assert hash(grid) == hash(StateGrid({"x": [0, 1], "y": [5.0]}))
    for other in (StateGrid(x=[0, 1], z=[5.0]), StateGrid(x=[1, 0], y=[5.0]), StateGrid(x=[0, 1])):
        assert grid != other
    assert grid != "grid"


def test_a_grid_cannot_be_changed():
    values = np.array([0, 1])
    grid = StateGrid(x=values)
    values[0] = 9
    assert grid.values[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        grid.values[0][0] = 9


def test_points_and_names_are_checked():
    grid = StateGrid(x=[0, 1], y=[0, 1])
    with pytest.raises(ArgumentError, match=r"points must have shape \(n, 2\); got \(1, 3\)"):
        grid.nearest([1, 2, 3])
    with pytest.raises(ArgumentError, match=r"points must be finite; row 1 is \(nan, 0\) \(1 of 2"):
        grid.nearest([[0, 0], [np.nan, 0]])
    with pytest.raises(ArgumentError, match="no axis is called 'z'; the axes are x, y"):
        grid.axis("z")
    with pytest.raises(ArgumentError, match="a state needs a value for each of x, y"):
        grid.state(x=0)


def test_a_grid_is_shown_with_its_spans():
    grid = StateGrid(stock=range(33), regime=["low"])
    assert repr(grid) == "StateGrid(stock: 0..32, regime: low; 33 states)"


def test_the_number_of_states_is_exact_beyond_64_bits():
    grid = StateGrid({f"x{i}": range(10) for i in range(20)})
    assert grid.size == 10**20
    assert "100,000,000,000,000,000,000 states" in repr(grid)


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_an_axis_cannot_have_the_name_of_what_a_solution_holds(name):
    with pytest.raises(ModelError, match=f"an axis cannot be called '{name}': a solution holds"):
        StateGrid({name: [0, 1]})


def test_the_downward_axis_is_kept_by_sections_horizons_and_files_and_is_no_part_of_a_state(
    tmp_path,
):
    lake = ts.problem("frozen_lake").build()
    assert lake.grid.downward_axis == "row"
    lake.save(tmp_path / "lake.nc")
    assert ts.MDP.load(tmp_path / "lake.nc").grid.downward_axis == "row"
    grid = ts.StateGrid(depth=range(3), x=range(2), y=range(2)).with_downward_axis("depth")
    rows = np.eye(grid.size)[None]
    mdp = ts.MDP.from_arrays(rows, np.zeros((grid.size, 1)), ts.FiniteHorizon(2), grid=grid)
    assert mdp.grid.downward_axis == "depth"
    tessellation = ts.tessellate(ts.solve(mdp))
    assert section(tessellation, time=0, x=0).grid.downward_axis == "depth"
    assert section(tessellation, depth=0).grid.downward_axis == ""
    plain = ts.StateGrid(depth=range(3), x=range(2), y=range(2))
    assert plain == grid
    models = [
        ts.MDP.from_arrays(rows, np.zeros((grid.size, 1)), 0.9, grid=g) for g in (grid, plain)
    ]
    assert models[0].fingerprint == models[1].fingerprint
    with pytest.raises(ts.ModelError, match="no axis is called 'z'"):
        grid.with_downward_axis("z")
