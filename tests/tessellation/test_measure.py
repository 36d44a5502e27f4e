"""Hand-made maps whose numbers can be counted on the page, and laws that hold for every map."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tessella.errors import ArgumentError
from tessella.grid import StateGrid
from tessella.tessellation import measure, section, trim
from tessella.tessellation.tessellate import build_tessellation

MAPS = hnp.arrays(
    np.int64,
    hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5),
    elements=st.integers(0, 3),
)


def numbers(geometry):
    """L, F, C_B, C_R, kappa, and kappa in the second reading."""
    return (*geometry.diagnostics.values(), geometry.corner_index_by_states)


def test_a_constant_map_has_one_cell_and_no_boundary(tile):
    geometry = measure(tile(np.zeros((4, 5), int)))
    assert geometry.edges_per_axis == {"x": 3 * 5, "y": 4 * 4}
    assert numbers(geometry) == (0 / 31, 0 / 20, 0, 1, 0 / 1, 0 / 1)
    assert geometry.largest_cell_share == 1


def test_on_a_checkerboard_every_edge_is_a_face_and_every_state_a_cell_and_a_corner(tile):
    geometry = measure(tile(np.indices((4, 5)).sum(axis=0) % 2))
    assert geometry.faces_per_axis == {"x": 3 * 5, "y": 4 * 4}
    assert numbers(geometry) == (31 / 31, 20 / 20, 1, 20, 20 / 31, 20 / 31)
    np.testing.assert_array_equal(geometry.cell_sizes, np.ones(20))
    np.testing.assert_array_equal(geometry.volumes, [10, 10])


def test_stripes_have_straight_boundaries_without_corners(tile):
    # Rows 0 0 1 1 0 0 of length 4: 2 cuts of 4 faces; rows 1 to 4 are boundary states.
    geometry = measure(tile(np.repeat([0, 1, 0], 2)[:, None] * np.ones((1, 4), int)))
    edges = 5 * 4 + 6 * 3
    assert geometry.faces_per_axis == {"x": 2 * 4, "y": 0}
    # In the second reading all 4 * 4 boundary states count, on a boundary without a bend.
    assert numbers(geometry) == (8 / edges, 16 / 24, 1, 3, 0 / 8, 16 / 8)
    np.testing.assert_array_equal(geometry.volumes, [16, 8])
    np.testing.assert_array_equal(geometry.components, [2, 1])


def test_stripes_wide_enough_have_separate_boundaries(tile):
    # Columns 0 0 | 1 1 1 | 0 0, 2 rows: boundary columns 1, 2 and 4, 5; column 3 lies between.
    geometry = measure(tile(np.tile([0, 0, 1, 1, 1, 0, 0], (2, 1))))
    edges = 1 * 7 + 2 * 6
    assert numbers(geometry) == (4 / edges, 8 / 14, 2, 3, 0 / 4, 8 / 4)


def test_nested_squares(tile):
    table = np.zeros((7, 7), int)
    table[1:6, 1:6], table[2:5, 2:5] = 1, 2
    geometry = measure(tile(table))
    faces = 4 * 5 + 4 * 3  # the two perimeters
    edges = 2 * 6 * 7
    boundary = 20 + 16 + 8  # outside the larger square, the ring between, the inner square's rim
    corners = 4 + 4  # of each square, inside
    assert geometry.faces_per_axis == {"x": 16, "y": 16}
    assert numbers(geometry)[:5] == (faces / edges, boundary / 49, 1, 3, corners / faces)
    np.testing.assert_array_equal(geometry.volumes, [49 - 25, 25 - 9, 9])
    assert geometry.largest_cell_share == 24 / 49


def test_one_cell_islands(tile):
    table = np.zeros((5, 5), int)
    table[1, 1] = table[3, 3] = 1
    geometry = measure(tile(table))
    # Each island has 4 faces, is 1 corner, and makes 1 + 4 boundary states in one plus sign.
    # Its centre alone has boundary states beside it along both axes.
    assert numbers(geometry) == (8 / 40, 10 / 25, 2, 3, 2 / 8, 2 / 8)
    np.testing.assert_array_equal(geometry.cell_sizes, [23, 1, 1])


def test_a_diagonal_staircase_is_nearly_all_corners(tile):
    i, j = np.indices((4, 4))
    geometry = measure(tile((i > j).astype(int)))
    # Faces: (i,i)-(i+1,i), 3 of them, and (i+1,i)-(i+1,i+1), 3. Boundary states: the diagonal, 4,
    # and the subdiagonal, 3. Corners: (1,1), (2,2) and the subdiagonal.
    assert geometry.faces_per_axis == {"x": 3, "y": 3}
    assert numbers(geometry) == (6 / 24, 7 / 16, 1, 2, 5 / 6, 5 / 6)


def test_one_axis(tile):
    geometry = measure(tile([0, 0, 1, 1, 1, 0]))
    # Boundary states 1, 2 | 4, 5; a corner needs two axes.
    assert numbers(geometry) == (2 / 5, 4 / 6, 2, 3, 0 / 2, 0 / 2)


def test_three_axes_constant(tile):
    geometry = measure(tile(np.zeros((2, 3, 4), int)))
    assert geometry.edges_per_axis == {"x": 1 * 3 * 4, "y": 2 * 2 * 4, "z": 2 * 3 * 3}
    assert numbers(geometry) == (0 / 46, 0 / 24, 0, 1, 0, 0)


def test_three_axes_one_cell_island(tile):
    table = np.zeros((3, 3, 3), int)
    table[1, 1, 1] = 1
    geometry = measure(tile(table))
    # 6 faces of 3 * 2 * 9 edges; the island and its 6 neighbours; the island is the one corner.
    assert numbers(geometry) == (6 / 54, 7 / 27, 1, 2, 1 / 6, 1 / 6)


def test_three_axes_half_space(tile):
    geometry = measure(tile(np.indices((4, 3, 2))[0] // 2))
    edges = 3 * 3 * 2 + 4 * 2 * 2 + 4 * 3 * 1
    # One cut of 3 * 2 faces, two layers of 6 boundary states, no corner; by states all 12 count.
    assert numbers(geometry) == (6 / edges, 12 / 24, 1, 2, 0 / 6, 12 / 6)


def test_three_axes_checkerboard(tile):
    geometry = measure(tile(np.indices((2, 3, 4)).sum(axis=0) % 2))
    assert numbers(geometry) == (46 / 46, 24 / 24, 1, 24, 24 / 46, 24 / 46)


def test_a_single_state_has_no_edges(tile):
    assert numbers(measure(tile([[0]]))) == (0, 0, 0, 1, 0, 0)


def test_cells_that_touch_only_diagonally_are_separate(tile):
    geometry = measure(tile([[0, 1], [1, 0]]))
    assert geometry.region_components == 4
    np.testing.assert_array_equal(geometry.components, [2, 2])


def test_a_rim_leaves_out_the_layer_made_by_truncation(tile):
    table = np.zeros((5, 4), int)
    table[4, :] = 1  # what a full buffer does
    whole, inner = tile(table), measure(tile(table), rim={"x": (0, 1)})
    assert measure(whole).boundary_length == 4 / 31
    assert inner.boundary_length == 0
    assert inner.tessellation.grid.shape == (4, 4)
    assert measure(whole, rim=1).tessellation.grid.shape == (3, 2)
    assert measure(whole, rim={"y": 1}).faces_per_axis == {"x": 2, "y": 0}


@pytest.mark.parametrize("rim", [2, -1, {"y": (3, 1)}])
def test_a_rim_that_leaves_nothing_is_refused(tile, rim):
    with pytest.raises(ArgumentError, match="leave a part of each axis"):
        measure(tile(np.zeros((5, 4), int)), rim=rim)


@pytest.mark.parametrize("rim", [1.0, "1", {"x": [1, 2]}, {"x": (1,)}, {"x": (1, 0.5)}])
def test_a_rim_that_is_not_made_of_whole_numbers_is_refused(tile, rim):
    with pytest.raises(ArgumentError, match="whole number, or a pair of them"):
        measure(tile(np.zeros((5, 4), int)), rim=rim)


def test_a_rim_may_count_in_integers_of_any_width(tile):
    whole = tile(np.zeros((5, 4), int))
    assert trim(whole, {"x": (np.int8(0), np.uint8(1))}).grid.shape == (4, 4)


def test_a_section_finds_a_value_that_misses_the_axis_by_rounding(tile):
    t = tile([[0, 1], [1, 1], [0, 0]], axes={"load": [0.1, 0.2, 0.3], "y": [0, 1]})
    part = section(t, load=0.1 + 0.2)
    np.testing.assert_array_equal(part.table, [0, 0])
    assert part.name == "load = 0.3"


@pytest.mark.parametrize("value", [0.25, "0.3", None, np.nan, [0.1, 0.2]])
def test_a_section_off_the_grid_is_refused(tile, value):
    t = tile([[0, 1], [1, 1], [0, 0]], axes={"load": [0.1, 0.2, 0.3], "y": [0, 1]})
    with pytest.raises(ArgumentError, match="is not on the grid"):
        section(t, load=value)


def test_a_margin_profile_counts_equal_margins_and_no_state_without_an_alternative():
    margin = np.array([0.0, 1.0, np.inf, 1.0])
    t = build_tessellation(
        StateGrid(x=range(4)), (0, 1), "act", np.array([0, 0, 1, 1], np.int32), margin
    )
    np.testing.assert_array_equal(
        measure(t).margin_profile([0, 0.5, 1, 9]), [1 / 4, 1 / 4, 3 / 4, 3 / 4]
    )


def test_a_margin_profile_needs_margins(tile):
    with pytest.raises(ArgumentError, match="margins"):
        measure(tile([0, 1])).margin_profile(0.1)


@given(MAPS, st.permutations(range(4)))
def test_names_of_actions_do_not_matter(tile, table, names):
    renamed = np.asarray(names)[table]
    four = tuple("abcd")
    a, b = measure(tile(table, four)), measure(tile(renamed, four))
    assert numbers(a) == numbers(b)
    np.testing.assert_array_equal(a.cell_sizes, b.cell_sizes)
    np.testing.assert_array_equal(a.volumes, b.volumes[list(names)])


@given(MAPS, st.data())
def test_flipping_an_axis_changes_nothing(tile, table, data):
    axis = data.draw(st.integers(0, table.ndim - 1))
    a, b = measure(tile(table)), measure(tile(np.flip(table, axis)))
    assert numbers(a) == numbers(b)
    assert a.faces_per_axis == b.faces_per_axis
    np.testing.assert_array_equal(np.sort(a.cell_sizes), np.sort(b.cell_sizes))


@given(MAPS, st.data())
def test_exchanging_axes_exchanges_their_faces_and_nothing_else(tile, table, data):
    order = data.draw(st.permutations(range(table.ndim)))
    a, b = measure(tile(table)), measure(tile(table.transpose(order)))
    assert numbers(a) == numbers(b)
    names = a.tessellation.grid.axes
    assert {names[i]: b.faces_per_axis[names[k]] for k, i in enumerate(order)} == a.faces_per_axis


@given(MAPS)
def test_shares_are_shares_and_parts_sum_to_the_whole(tile, table):
    geometry = measure(tile(table))
    assert 0 <= geometry.boundary_length <= 1
    assert 0 <= geometry.boundary_fraction <= 1
    assert 0 <= geometry.corner_index <= 1
    assert geometry.corner_index <= geometry.corner_index_by_states
    assert geometry.cell_sizes.sum() == geometry.volumes.sum() == table.size
    assert geometry.components.sum() == geometry.region_components
    edges = sum(geometry.edges_per_axis.values())
    assert geometry.boundary_length == geometry.faces / max(edges, 1)


@given(MAPS)
def test_cells_are_numbered_by_their_first_state_and_hold_one_action(tile, table):
    t = tile(table)
    labels, first = np.unique(t.cells, return_index=True)
    np.testing.assert_array_equal(labels, np.arange(len(t.cell_actions)))
    assert (np.diff(first) > 0).all()
    np.testing.assert_array_equal(t.cell_actions[t.cells], table)


@given(MAPS)
def test_measuring_without_the_rim_is_measuring_the_trimmed_map(tile, table):
    rim = {"x": (0, len(table) // 2)}
    kept = table[: len(table) - len(table) // 2]
    assert numbers(measure(tile(table), rim)) == numbers(measure(tile(kept)))
    assert trim(tile(table), 0).table.shape == table.shape
