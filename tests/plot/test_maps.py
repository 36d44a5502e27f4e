"""What is on the axes is what is in the result."""

import io
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.legend import Legend

import tessella as ts
from tessella.errors import ArgumentError
from tessella.grid import StateGrid
from tessella.plot import (
    boundary_lines,
    error_map,
    margin_error,
    margin_map,
    policy_map,
    small_multiples,
    value_map,
)
from tessella.tessellation import compare, sections

STEPS = [[0, 0, 1], [0, 1, 1], [2, 2, 2], [2, 2, 2]]


def lines(axes):
    return [c for c in axes.collections if type(c) is LineCollection]


def legends(axes):
    return [a for a in axes.get_children() if isinstance(a, Legend)]


def labels(legend):
    return [text.get_text() for text in legend.get_texts()]


def rendered(figure):
    """Drawn in full, with warnings as errors."""
    figure.savefig(io.BytesIO(), format="png")
    return figure


def test_a_policy_map_shows_the_table_the_boundary_and_a_legend(figure, tile):
    axes = figure.subplots()
    t = tile(STEPS, (0, 4, 8), {"stock": range(10, 18, 2), "regime": range(3)})
    assert policy_map(axes, t) is axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), np.transpose(STEPS))
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("stock", "regime", "a map")
    assert axes.get_xlim() == (9, 17)  # boxes of width 2 around 10, 12, 14, 16
    assert axes.get_ylim() == (-0.5, 2.5)
    (legend,) = legends(axes)
    assert labels(legend) == ["8", "4", "0"]
    assert legend.get_title().get_text() == "act"
    rendered(figure)


def test_the_boundary_is_one_collection_of_joined_lines(figure, tile):
    axes = figure.subplots()
    t = tile(STEPS, axes={"x": range(10, 18, 2), "y": range(3)})
    policy_map(axes, t)
    (collection,) = lines(axes)
    segments = {tuple(map(tuple, s)) for s in collection.get_segments()}
    # Between rows 1 and 2 one straight line at x = 13; above it a staircase.
    assert segments == {
        ((13, -0.5), (13, 2.5)),
        ((11, 0.5), (11, 1.5)),
        ((9, 1.5), (11, 1.5)),
        ((11, 0.5), (13, 0.5)),
    }


def test_the_legend_lies_beside_the_map_and_inside_the_figure(figure, tile):
    axes = policy_map(figure.subplots(), tile(STEPS, ("reject", "admit", "send on")))
    rendered(figure)
    box = legends(axes)[0].get_window_extent()
    assert box.x0 >= axes.get_window_extent().x1
    assert box.x1 <= figure.bbox.x1


def test_many_actions_get_a_bar_instead_of_a_legend(figure, tile):
    axes = policy_map(figure.subplots(), tile([range(50)], tuple(range(0, 100, 2))))
    assert legends(axes) == []
    bar = next(a for a in figure.axes if a is not axes)
    assert bar.get_ylabel() == "act"
    assert [t.get_text() for t in bar.get_yticklabels()] == ["0", "20", "40", "58", "78", "98"]
    rendered(figure)


def test_text_and_uneven_axes_are_labelled_with_their_values(figure, tile):
    t = tile([[0, 1], [1, 2], [2, 2]], axes={"site": ["north", "south", "east"], "size": [1, 100]})
    axes = policy_map(figure.subplots(), t)
    rendered(figure)
    assert [x.get_text() for x in axes.get_xticklabels()] == ["north", "south", "east"]
    assert [y.get_text() for y in axes.get_yticklabels()] == ["1", "100"]


def test_one_axis_is_a_strip(figure, tile):
    axes = policy_map(figure.subplots(), tile([0, 0, 1, 2]))
    assert len(lines(axes)[0].get_segments()) == 2
    assert list(axes.get_yticks()) == []
    rendered(figure)


def test_three_axes_are_refused_and_shown_as_sections(figure, tile):
    t = tile(np.indices((3, 4, 2)).sum(axis=0) // 3)
    with pytest.raises(ArgumentError, match="take a section"):
        policy_map(figure.subplots(), t)
    figure.clear()
    used = small_multiples(figure.subplots(1, 3).flat, sections(t, "z"))
    assert [axes.get_title() for axes in used] == ["z = 0", "z = 1"]
    rendered(figure)


def test_small_multiples_share_a_legend_for_each_set_of_actions(figure, tile):
    maps = [tile(STEPS), tile(STEPS), tile(STEPS, ("a", "b", "c"))]
    places = figure.subplots(1, 4)
    used = small_multiples(places, maps)
    assert len(used) == 3
    assert [len(legends(axes)) for axes in places] == [0, 0, 0, 2]
    assert not places[3].axison
    rendered(figure)


def test_without_a_spare_place_the_last_map_carries_the_legend(figure, tile):
    places = figure.subplots(1, 2)
    small_multiples(places, [tile(STEPS), tile(STEPS)])
    assert [len(legends(axes)) for axes in places] == [0, 1]


def test_a_grid_of_axes_is_filled_row_by_row(figure, tile):
    places = figure.subplots(2, 2)
    used = small_multiples(places, [tile(STEPS, name=name) for name in "abc"])
    assert used == [places[0, 0], places[0, 1], places[1, 0]]
    assert [axes.get_title() for axes in places.flat] == ["a", "b", "c", ""]
    assert not places[1, 1].axison
    assert len(legends(places[1, 1])) == 1
    rendered(figure)


def test_one_axes_and_one_map_need_no_list(figure, tile):
    axes = figure.subplots()
    assert small_multiples(axes, tile(STEPS)) == [axes]


def test_small_multiples_on_other_things_than_axes_are_refused_in_words(figure, tile):
    mosaic = figure.subplot_mosaic("ab")
    with pytest.raises(ArgumentError, match=r"draws on axes, .*; got 'a'"):
        small_multiples(mosaic, [tile(STEPS)])
    with pytest.raises(ArgumentError, match=r"draws on axes, .*; got Tessellation"):
        small_multiples([tile(STEPS)], [mosaic["a"]])
    with pytest.raises(ArgumentError, match="a policy map needs a Tessellation; got an MDP"):
        small_multiples([mosaic["a"]], [type("MDP", (), {})()])


def test_more_maps_than_axes_are_refused(figure, tile):
    with pytest.raises(ArgumentError, match="2 maps"):
        small_multiples([figure.subplots()], [tile(STEPS), tile(STEPS)])


def test_an_error_map_marks_exactly_the_states_that_differ(figure, tile):
    other = np.array(STEPS)
    other[0, 0] = other[3, 1] = 1
    axes = error_map(figure.subplots(), compare(tile(STEPS), tile(other)))
    _, marks = axes.images
    np.testing.assert_array_equal(~marks.get_array().mask.T, other != STEPS)
    assert labels(legends(axes)[0])[-1] == "differs (16.67%)"
    rendered(figure)


def test_an_error_map_beside_a_solution_marks_no_ties(figure):
    stay = np.broadcast_to(np.eye(4), (3, 4, 4))
    solution = ts.solve(ts.MDP.from_arrays(stay, np.array([[1.0, 1.0, 0.0]] * 4), 0.9))
    found = compare(solution, np.array([0, 1, 1, 2]))
    assert found.where.tolist() == [False, True, True, True]
    axes = error_map(figure.subplots(), found)
    _, marks = axes.images
    assert marks.get_array().mask.ravel().tolist() == [True, True, True, False]
    assert labels(legends(axes)[0])[-1] == "differs (25.00%)"


def test_rows_of_a_map_run_down_and_columns_to_the_right(figure, tile):
    axes = figure.subplots()
    t = tile(STEPS, (0, 4, 8), {"row": range(4), "column": range(3)})
    policy_map(axes, replace(t, grid=t.grid.with_downward_axis("row")))
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), STEPS)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("column", "row")
    assert axes.get_ylim() == (3.5, -0.5)
    (drawn,) = lines(axes)
    ends = {tuple(map(tuple, np.sort(s, axis=0).tolist())) for s in drawn.get_segments()}
    assert ((-0.5, 1.5), (2.5, 1.5)) in ends  # between the second and the third row
    rendered(figure)


def test_an_error_map_of_equal_policies_marks_nothing(figure, tile):
    axes = error_map(figure.subplots(), compare(tile(STEPS), tile(STEPS)))
    assert axes.images[1].get_array().mask.all()
    rendered(figure)


def test_a_value_map_shows_the_value_with_a_bar(figure):
    value = np.add.outer(np.arange(5.0) ** 2, np.arange(4.0))
    grid = StateGrid(stock=range(5), regime=range(4))
    solution = SimpleNamespace(mdp=SimpleNamespace(grid=grid), value=value)
    axes = value_map(figure.subplots(), solution)
    np.testing.assert_array_equal(axes.images[0].get_array(), value.T)
    assert axes.get_title() == "optimal value"
    assert [a.get_ylabel() for a in figure.axes] == ["regime", ""], "the title names the bar"
    rendered(figure)


@pytest.mark.parametrize("shape", [(1, 4), (5, 1), (1, 1)])
def test_a_value_map_one_state_wide_has_no_contours(figure, shape):
    value = np.arange(float(np.prod(shape))).reshape(shape)
    grid = StateGrid(x=range(shape[0]), y=range(shape[1]))
    axes = value_map(
        figure.subplots(), SimpleNamespace(mdp=SimpleNamespace(grid=grid), value=value)
    )
    np.testing.assert_array_equal(axes.images[0].get_array(), value.T)
    assert len(axes.collections) == 0
    assert [a.get_ylabel() for a in figure.axes] == ["y", ""]
    rendered(figure)


def test_a_value_on_one_axis_is_a_curve(figure):
    solution = SimpleNamespace(mdp=SimpleNamespace(grid=StateGrid(x=[2, 4, 6])), value=np.ones(3))
    axes = value_map(figure.subplots(), solution)
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [2, 4, 6])


def test_a_margin_map_leaves_states_with_one_action_grey(figure, tile):
    margin = np.linspace(0.001, 2, 12).reshape(4, 3)
    margin[0, 0] = np.inf
    axes = margin_map(figure.subplots(), tile(STEPS, margin=margin))
    shown = axes.images[0].get_array()
    np.testing.assert_array_equal(shown.mask.T, np.isinf(margin))
    assert len(lines(axes)) == 1
    rendered(figure)


@pytest.mark.parametrize("margin", [np.zeros((4, 3)), np.full((4, 3), np.inf)])
def test_margins_that_are_all_ties_or_all_infinite_can_be_drawn(figure, tile, margin):
    margin_map(figure.subplots(), tile(STEPS, margin=margin))
    rendered(figure)


def test_a_margin_map_needs_margins(figure, tile):
    with pytest.raises(ArgumentError, match="margins"):
        margin_map(figure.subplots(), tile(STEPS))


def test_margin_error_is_a_curve_over_the_margins_that_occur(figure):
    curve = SimpleNamespace(
        states=np.array([3, 0, 5]),
        margins=np.array([0.1, 1.0, 10.0]),
        rate=np.array([0.5, np.nan, 0.25]),
        name="ours",
    )
    axes = margin_error(figure.subplots(), curve)
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[0.1, 0.5], [10.0, 0.25]])
    rendered(figure)


def test_the_boundary_can_be_drawn_alone_in_any_style(figure, tile):
    axes = boundary_lines(figure.subplots(), tile(STEPS), colors="red", linewidths=3)
    assert lines(axes)[0].get_linewidth()[0] == 3


def test_drawing_touches_no_global_state():
    code = "import tessella.plot, sys; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["row", "depth"])
def test_an_axis_runs_down_where_the_grid_states_it_whatever_its_name(figure, tile, name):
    plain = tile(STEPS, axes={name: range(4), "column": range(3)})
    downward = replace(plain, grid=plain.grid.with_downward_axis(name))
    left, right = figure.subplots(1, 2)
    policy_map(left, plain)
    assert (left.get_xlabel(), left.yaxis_inverted()) == (name, False)
    policy_map(right, downward)
    assert (right.get_ylabel(), right.yaxis_inverted()) == (name, True)
    np.testing.assert_array_equal(right.images[0].get_array(), STEPS)
    rendered(figure)
