"""Structure tests find what was planted, and name it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tessella.errors import ArgumentError
from tessella.tessellation import (
    LinearIndex,
    base_stock,
    connected,
    convex,
    examine,
    independent,
    linear_index,
    linear_scores,
    monotone,
    reorder_point,
    switching_curves,
    threshold,
    through_sum,
)

ORDERS = (0, 4, 8, 12, 16)


def order_up_to(level, stock, actions, reorder=np.inf):
    """Index of the smallest quantity that reaches ``level``, state by state; 0 from ``reorder``."""
    table = np.zeros((len(stock), len(level)), int)
    for i, x in enumerate(stock):
        for j, target in enumerate(level):
            reaching = [k for k, a in enumerate(actions) if x + a >= target]
            table[i, j] = 0 if x >= reorder else min(reaching, default=len(actions) - 1)
    return table


@pytest.fixture(scope="session")
def inventory(tile):
    def build(table, actions=ORDERS):
        axes = {"stock": range(len(table)), "regime": range(table.shape[1])}
        return tile(table, actions, axes, "order")

    return build


@pytest.fixture(scope="session")
def rule(inventory):
    """Order up to 3, 10 or 17, in batches of four."""
    return inventory(order_up_to([3, 10, 17], range(20), ORDERS))


def test_a_monotone_policy_is_recognised_with_its_direction(rule):
    assert monotone(rule, "stock").direction == "falls"
    assert monotone(rule, "stock")
    assert monotone(rule, "regime").direction == "rises"
    assert monotone(rule, "regime")
    assert not monotone(rule, "regime", "falls")


def test_the_monotone_test_finds_a_planted_violation_and_names_it(inventory, rule):
    table = rule.table.copy()
    assert table[12, 2] == 2  # order 8 between order 8 and order 4
    assert table[14, 2] == 1
    table[14, 2] = 3  # order 12
    found = monotone(inventory(table), "stock")
    assert not found.holds
    assert found.direction == "falls"
    states = [inventory(table).grid.state(stock=s, regime=2) for s in (13, 14)]
    np.testing.assert_array_equal(found.violations, [states])
    assert found.describe() == (
        "order falls in stock: fails in 1 place; "
        "order=4 at stock=13, regime=2 but order=12 at stock=14, regime=2"
    )


def test_a_direction_that_does_not_exist_is_refused(rule):
    with pytest.raises(ArgumentError, match="rises or falls; direction is 'up'"):
        monotone(rule, "stock", "up")  # type: ignore[arg-type]


def test_actions_are_compared_by_size_not_by_their_place_in_the_list(tile):
    # Along x the action indices read 0, 1, 2, as numbers 5, 1, 9.
    found = monotone(tile([0, 1, 2], (5, 1, 9)), "x")
    assert found.direction == "rises"
    np.testing.assert_array_equal(found.violations, [[0, 1]])


def test_threshold_form_finds_an_order_of_the_actions_that_need_not_be_their_own(tile):
    table = [[0, 2, 1], [0, 0, 1], [2, 2, 1]]
    assert threshold(tile(table, ("idle", "fast", "slow")), "y").order == (0, 2, 1)
    assert threshold(tile(table), "y").order == (0, 2, 1)
    assert not monotone(tile(table), "y")


def test_threshold_form_fails_where_two_lines_disagree_and_shows_both(tile):
    t = tile([[0, 1, 1], [1, 0, 0]], ("idle", "work"))
    found = threshold(t, "y")
    assert not found
    assert convex(t)  # each line alone is fine
    assert sorted(map(tuple, found.violations.reshape(-1, 2))) == [(0, 1), (3, 4)]
    assert "idle to work after x=0, y=0; work to idle after x=1, y=0" in found.describe()


def test_base_stock_levels_are_recovered_up_to_the_batch(rule):
    found = base_stock(rule, "stock")
    assert found
    # Level 3: at stock 0 order 4, since 0 + 0 < 3 <= 0 + 4; at 3 nothing, so S <= 3; S > 2.
    np.testing.assert_array_equal(found.level.above, [2, 9, 16])
    np.testing.assert_array_equal(found.level.at_most, [3, 10, 17])


def test_an_order_up_to_policy_with_a_reorder_point_is_s_S_and_not_base_stock(inventory):
    t = inventory(order_up_to([15, 15], range(20), ORDERS, reorder=6))
    assert not base_stock(t, "stock")
    found = reorder_point(t, "stock")
    assert found
    np.testing.assert_array_equal(found.point.above, [5, 5])
    np.testing.assert_array_equal(found.point.at_most, [6, 6])
    # Orders below 6 reach 15 from 0 (16), 1, 2 (16), 3 (12): 3 + 12 = 15 and 2 + 12 = 14.
    np.testing.assert_array_equal(found.level.above, [14, 14])
    np.testing.assert_array_equal(found.level.at_most, [15, 15])


def test_ordering_above_the_reorder_point_breaks_s_S_and_is_named(inventory):
    table = order_up_to([15], range(20), ORDERS, reorder=6)
    table[9, 0] = 2
    found = reorder_point(inventory(table), "stock")
    assert not found
    assert "order=8 at stock=9, regime=0 but order=0 at stock=6, regime=0" in found.describe()


def test_two_levels_on_one_line_break_base_stock(inventory):
    table = order_up_to([10], range(20), ORDERS)
    assert table[1, 0] == 3
    table[0, 0] = 1  # order 4 at stock 0 wants S <= 0 + 4, order 12 at stock 1 wants S > 1 + 8
    found = base_stock(inventory(table), "stock")
    assert not found
    np.testing.assert_array_equal(found.violations, [[1, 0]])


@given(st.lists(st.integers(-3, 25), min_size=1, max_size=4), st.integers(0, 20))
def test_every_order_up_to_policy_is_recognised_and_its_levels_bracketed(
    inventory, levels, reorder
):
    plain = base_stock(inventory(order_up_to(levels, range(20), ORDERS)), "stock")
    assert plain
    assert ((plain.level.above < levels) & (levels <= plain.level.at_most)).all()
    table = order_up_to(levels, range(20), ORDERS, reorder)
    assert reorder_point(inventory(table), "stock")


@given(hnp.arrays(np.int64, (5, 3), elements=st.integers(0, 2)))
def test_base_stock_holds_exactly_when_some_level_reproduces_each_line(inventory, table):
    actions = (0, 1, 2)
    found = base_stock(inventory(table, actions), "stock")
    for line, empty in zip(table.T, found.level.is_empty, strict=True):
        levels = np.arange(-1, 9)
        fits = (order_up_to(levels, range(5), actions) == line[:, None]).all(axis=0).any()
        assert fits == (not empty)
    assert bool(found) == (not found.level.is_empty.any())


def test_on_one_axis_the_whole_grid_is_the_only_line(tile):
    table = order_up_to([10], range(20), ORDERS)[:, 0]
    found = base_stock(tile(table, ORDERS), "x")
    assert found
    assert found.level.above.shape == found.level.at_most.shape == ()
    assert (found.level.above, found.level.at_most) == (9, 10)
    assert reorder_point(tile(table, ORDERS), "x").point.above == 9
    assert "(s, S) in x" in examine(tile(table, ORDERS)).holds
    table[0] = 1  # as above: order 4 at 0 wants S <= 4, order 12 at 1 wants S > 9
    np.testing.assert_array_equal(base_stock(tile(table, ORDERS), "x").violations, [[1, 0]])
    np.testing.assert_array_equal(reorder_point(tile(table, ORDERS), "x").violations, [[1, 0]])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_on_three_axes_each_line_along_the_stock_axis_has_its_own_level(tile, axis):
    levels = np.array([[3, 10], [17, 5], [8, 12]])
    lines = order_up_to(levels.ravel(), range(20), ORDERS).reshape(20, 3, 2)
    found = base_stock(tile(np.moveaxis(lines, 0, axis), ORDERS), "xyz"[axis])
    assert found
    np.testing.assert_array_equal(found.level.at_most, levels)
    lines[0, 2, 1] = 1  # level 12: order 12 at stock 0, where 4 clashes with order 12 at stock 3
    t = tile(np.moveaxis(lines, 0, axis), ORDERS)
    broken = base_stock(t, "xyz"[axis])
    np.testing.assert_array_equal(np.argwhere(broken.level.is_empty), [[2, 1]])
    spots = [np.insert([2, 1], axis, stock) for stock in (3, 0)]
    states = [[np.ravel_multi_index(tuple(spot), t.grid.shape) for spot in spots]]
    np.testing.assert_array_equal(broken.violations, states)


def test_ordering_questions_need_numbers(tile):
    with pytest.raises(ArgumentError, match="needs numbers"):
        base_stock(tile([0, 1], ("no", "yes")), "x")
    with pytest.raises(ArgumentError, match="needs numbers"):
        reorder_point(tile([0, 1], (0, 1), {"level": ["low", "high"]}), "level")


def test_islands_are_named(tile):
    table = np.zeros((5, 5), int)
    table[0, 0] = table[3, 3] = table[3, 4] = 1
    found = connected(tile(table))
    np.testing.assert_array_equal(found.violations, [[18, 0]])  # that at the origin is smaller
    assert "act=1 at x=3, y=3 and x=0, y=0 in separate cells" in found.describe()


def test_a_u_is_connected_and_not_convex_and_two_apart_are_the_reverse(tile):
    u = tile([[1, 0, 1], [1, 1, 1]])
    assert connected(u)
    np.testing.assert_array_equal(convex(u).violations, [[0, 2]])
    assert "act=1 at x=0, y=0 and again at x=0, y=2, not between" in convex(u).describe()
    apart = tile([[1, 0], [0, 2]])
    assert convex(apart)
    assert not connected(apart)


def test_linear_scores_reproduce_the_policy_they_claim_to_separate(tile):
    x, y = np.indices((12, 9))
    scores = np.stack([0 * x, x - 2 * y + 1.5, 3 * x - y - 20.2])
    t = tile(scores.argmax(axis=0), axes={"x": np.arange(12) * 5.0, "y": 100 - np.arange(9)})
    found = linear_scores(t)
    assert found
    values = t.grid.points @ found.weights.T + found.offsets
    np.testing.assert_array_equal(values.argmax(axis=1), t.table.ravel())
    top = np.sort(values, axis=1)
    assert (top[:, -1] - top[:, -2]).min() > 1 - 1e-6


def test_a_linear_index_reproduces_the_policy_it_claims_to_order(tile):
    x, y = np.indices((15, 11))
    t = tile(
        np.digitize(x - 0.7 * y, [-2.03, 3.01, 8.02]), axes={"x": range(15), "y": range(10, 21)}
    )
    found = linear_index(t)
    assert found
    steps = np.digitize(t.grid.points @ found.index, found.levels)
    np.testing.assert_array_equal(found.order[steps], t.table.ravel())
    assert found.formula.startswith("1 x - 0.")
    assert found.describe().endswith(f"holds; index {found.formula}")


@pytest.mark.parametrize(
    ("index", "formula"),
    [
        ([1e-12, -1.0], "- 1 y + 1e-12 x"),
        ([-3e-9, 2.0], "1 y - 1.5e-09 x"),
        ([4.0, -0.0], "1 x + 0 y"),
        ([0.0, 0.0], "0 x + 0 y"),
    ],
)
def test_an_index_in_words_keeps_its_exponents(tile, index, formula):
    t = tile([[0, 1], [0, 1]])
    none = np.empty((0, 2), int)
    found = LinearIndex(t, none, "rises", np.arange(2), np.array(index), np.zeros(1))
    assert found.formula == formula


def test_scores_can_separate_what_one_index_cannot(tile):
    # Three sectors around a point have no common direction.
    x, y = np.indices((9, 9)) - 4
    t = tile(np.stack([x + 0.1, y - x / 2 + 0.3, -y - x / 2]).argmax(axis=0))
    assert linear_scores(t)
    assert not linear_index(t)


def test_an_island_cannot_be_separated_and_the_witnesses_show_why(tile):
    table = np.zeros((5, 5), int)
    table[2, 2] = 1
    found = linear_scores(tile(table))
    assert not found
    (states,) = found.violations
    # The hulls of the witnesses of both actions meet: the island and states around it.
    assert 12 in states
    around = np.array(np.unravel_index(states[states != 12], (5, 5)))
    assert (around.min(axis=1) <= 2).all()
    assert (around.max(axis=1) >= 2).all()
    assert "fails" in found.describe()


@settings(deadline=None)
@given(hnp.arrays(np.int64, (4, 4), elements=st.integers(0, 1)))
def test_two_actions_are_separable_exactly_when_their_hulls_are_apart(tile, table):
    t = tile(table, (0, 1))
    apart = not _hulls_meet(*(np.argwhere(table == a) for a in (0, 1)))
    for found in (linear_scores(t), linear_index(t)):
        assert bool(found) == apart
        for states in found.violations:
            spots = np.array(np.unravel_index(states, table.shape)).T
            act = table.ravel()[states]
            assert _hulls_meet(spots[act == 0], spots[act == 1])


def _hulls_meet(a, b):
    """Two finite sets in the plane: try every line through two of the points, turned a little.

    If the hulls are apart, a line through two points (of one set or of both) separates them when
    turned or shifted by an arbitrarily small amount; integers up to 4 allow 1e-3.
    """
    if len(a) == 0 or len(b) == 0:
        return False
    points = np.concatenate([a, b])
    directions = [p - q for p in points for q in points if (p != q).any()]
    for dx, dy in directions or [np.array([1, 0])]:
        for turn in (-1e-3, 0.0, 1e-3):
            normal = np.array([-dy + turn * dx, dx + turn * dy])
            if (a @ normal).max() < (b @ normal).min() - 1e-9:
                return False
    return True


def test_an_unsorted_axis_is_read_by_its_values(tile):
    t = tile([0, 1, 0], axes={"x": [1, 3, 2]})
    assert linear_index(t)
    assert not convex(t)  # neighbours are neighbours in the axis' own order


def test_one_action_alone_is_trivially_separable(tile):
    t = tile(np.ones((3, 3), int), (3, 5))
    found = linear_scores(t)
    assert found
    assert (found.weights @ np.zeros(2) + found.offsets).argmax() == 1
    assert linear_index(t)
    assert len(linear_index(t).levels) == 0


def test_switching_curves_are_in_the_axis_own_values(rule):
    curves = switching_curves(rule, "stock")
    assert curves.exact
    # Level 17: order 16 at 0; 12 from 1 to 4 ... order 4 from 13 to 16; nothing from 17.
    np.testing.assert_array_equal(curves.begins[:, 2], [17, 13, 9, 5, 0])
    np.testing.assert_array_equal(curves.ends[:, 2], [19, 16, 12, 8, 4])
    # Level 3: order 4 up to 2, nothing from 3, and nothing larger ever.
    np.testing.assert_array_equal(curves.begins[:, 0], [3, 0, np.nan, np.nan, np.nan])


def test_examine_runs_every_test_that_makes_sense(rule):
    found = examine(rule)
    assert "base stock in stock" in found.holds
    assert "monotone in regime" in found.holds
    assert "linear index" in found.holds
    assert "connected" not in found.holds  # the levels jump by more than a batch
    # Two tests on each axis, two more where the order falls, four on the whole.
    assert len(found.describe().splitlines()) == 2 + 2 + 2 + 4


def test_what_the_action_does_not_depend_on_is_said_first_and_dropped_from_all_else(tile):
    flat = order_up_to([10], range(20), ORDERS)[:, 0]
    table = np.broadcast_to(flat[:, None, None], (20, 3, 2))
    axes = {"stock": range(20), "y": range(3), "z": range(2)}
    found = examine(tile(table, ORDERS, axes, "order"))
    assert found.describe().splitlines()[:2] == [
        "order does not depend on y: holds",
        "order does not depend on z: holds",
    ]
    rest = list(found.evidence.items())[2:]
    assert not any(" y" in name or " z" in name for name, _ in rest)
    assert {e.tessellation.grid.axes for _, e in rest} == {("stock",)}
    assert found.evidence["linear index"].formula == "- 1 stock"  # type: ignore[union-attr]
    alone = examine(tile(flat, ORDERS, {"stock": range(20)}, "order"))
    assert [e.describe() for _, e in rest] == [e.describe() for e in alone.evidence.values()]


def test_a_policy_of_one_action_depends_on_nothing_and_has_no_other_structure(tile):
    found = examine(tile(np.ones((3, 2), int)), sums=[("x", "y")])
    assert str(found) == "act does not depend on x: holds\nact does not depend on y: holds"


def test_an_action_that_never_changes_along_an_axis_neither_rises_nor_falls(tile):
    t = tile([[0, 0], [1, 1], [2, 2]])
    for direction in (None, "rises", "falls"):
        found = monotone(t, "y", direction)
        assert found.holds
        assert found.direction == "stays"
        assert found.describe() == "act does not depend on y: holds"
    assert independent(t, "y")
    np.testing.assert_array_equal(independent(t, "x").violations, [[0, 2], [1, 3], [2, 4], [3, 5]])


def test_a_direction_goes_by_the_values_of_the_axis_not_by_their_listing(tile):
    assert monotone(tile([0, 1, 2], axes={"x": [3, 2, 1]}), "x").direction == "falls"
    assert monotone(tile([0, 2, 1], axes={"x": [1, 3, 2]}), "x", "rises")


@pytest.fixture(scope="session")
def pipeline(tile):
    """Order up to 3 or 6 in stock and transit together, by regime; in units."""
    stock, transit, level = np.ix_(range(-4, 6), range(4), [3, 6])
    table = np.clip(level - stock - transit, 0, 5)
    axes = {"stock": range(-4, 6), "transit": range(4), "regime": range(2)}
    return tile(table, range(6), axes, "order")


def test_order_up_to_and_monotonicity_are_tested_on_sums_of_chosen_axes(pipeline):
    found = examine(pipeline, sums=[("stock", "transit")])
    summed = [name for name in found.evidence if "stock + transit" in name]
    assert summed == [
        "only by stock + transit",
        "monotone in stock + transit",
        "base stock in stock + transit",
        "(s, S) in stock + transit",
    ]
    assert set(summed) <= set(found.holds)
    assert "order depends on stock and transit only by stock + transit: holds" in str(found)
    assert "order falls in stock + transit: holds" in str(found)
    assert "stock + transit" not in str(examine(pipeline))
    # One level for each regime, where along one axis there is one for each pair of the others.
    level = base_stock(pipeline, ("stock", "transit")).level
    np.testing.assert_array_equal(level.at_most, [3, 6])
    np.testing.assert_array_equal(level.above, [2, 5])
    point = reorder_point(pipeline, ("transit", "stock")).point
    np.testing.assert_array_equal(point.at_most, [3, 6])


def test_a_policy_that_looks_at_one_of_two_axes_harder_is_no_function_of_their_sum(tile):
    stock, transit = np.indices((8, 4))
    t = tile(np.clip(9 - 2 * stock - transit, 0, 5), axes={"stock": range(8), "transit": range(4)})
    found = through_sum(t, ("stock", "transit"))
    assert not found
    for s, u in found.violations:
        assert stock.flat[s] + transit.flat[s] == stock.flat[u] + transit.flat[u]
        assert t.table.flat[s] != t.table.flat[u]
    assert not base_stock(t, ("stock", "transit"))
    assert monotone(t, "stock", "falls")
    assert monotone(t, "transit", "falls")


@settings(deadline=None)
@given(
    hnp.arrays(np.int64, (4, 3, 2), elements=st.integers(0, 2)),
    st.sampled_from([("x", "y"), ("z", "x"), ("x", "y", "z")]),
)
def test_on_sums_every_test_agrees_with_comparing_all_pairs(tile, table, names):
    values = {"x": [0, 1, 2, 5], "y": [3, 2, 0], "z": [0, 1]}
    t = tile(table, (0, 1, 2), values)
    points = t.grid.points
    inside = [t.grid.axis(name) for name in names]
    z, rest = points[:, inside].sum(axis=1), np.delete(points, inside, axis=1)
    action = table.ravel()
    line = (rest[:, None] == rest).all(axis=-1)
    before = line & (z[:, None] < z)
    ups, downs = before & (action[:, None] < action), before & (action[:, None] > action)
    assert bool(monotone(t, names, "rises")) == (not downs.any())
    assert bool(monotone(t, names, "falls")) == (not ups.any())
    for s, u in monotone(t, names, "rises").violations:
        assert downs[s, u]
    for s, u in monotone(t, names, "falls").violations:
        assert ups[s, u]
    unequal = line & (z[:, None] == z) & (action[:, None] != action)
    assert bool(through_sum(t, names)) == (not unequal.any())
    reached = [
        any(
            (np.clip(np.ceil(level - z[one]), 0, 2) == action[one]).all() for level in range(-3, 13)
        )
        for one in line
    ]
    assert bool(base_stock(t, names)) == all(reached)


def test_sums_that_differ_by_rounding_are_one(tile):
    tenths = [0.0, 0.1, 0.2, 0.3]  # 0.1 + 0.2 and 0.3 + 0 are different floats
    i, j = np.indices((4, 4))
    t = tile(6 - i - j, axes={"x": tenths, "y": tenths})
    assert through_sum(t, ("x", "y"))
    assert monotone(t, ("x", "y"), "falls")
    table = 6 - i - j
    table[1, 2] = table[2, 1] = 4  # where 0.3 + 0 and 0 + 0.3 have 3
    assert not through_sum(tile(table, axes={"x": tenths, "y": tenths}), ("x", "y"))


def test_a_sum_with_an_axis_that_does_not_matter_is_a_sum_of_the_others(tile, pipeline):
    table = np.repeat(pipeline.table[:, :, :1], 3, axis=2)
    axes = {"stock": range(-4, 6), "transit": range(4), "shelf": range(3)}
    found = examine(
        tile(table, range(6), axes), sums=[("stock", "shelf", "transit"), ("stock", "shelf")]
    )
    assert next(n for n in found.evidence if "+" in n) == "only by stock + transit"
    assert not any("shelf" in name for name in list(found.evidence)[1:])


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        (["stock"], "got 'stock'"),
        ([("stock",)], r"got \('stock',\)"),
        ([("stock", "stock")], "two or more axes"),
        ([("stock", "site")], "site holds text"),
        ([("stock", "lorry")], "no axis is called 'lorry'"),
    ],
)
def test_a_sum_of_other_things_than_axes_of_numbers_is_refused(tile, sums, said):
    t = tile([[0, 1], [1, 1]], axes={"stock": [0, 1], "site": ["north", "south"]})
    with pytest.raises(ArgumentError, match=said):
        examine(t, sums)


def test_what_holds_comes_before_what_fails(rule):
    outcomes = [": holds" in line for line in str(examine(rule)).splitlines()]
    assert outcomes == sorted(outcomes, reverse=True)
    assert {*outcomes} == {True, False}


def test_a_counterexample_takes_one_line_however_many_axes_and_states_there_are(tile):
    rng = np.random.default_rng(0)
    axes = {f"a_rather_long_name_{k}": [0.125, 1e6] for k in range(6)}
    t = tile(rng.integers(0, 4, (2,) * 6), ("walk\nslowly", "run", "sit\ndown", "stand\nup"), axes)
    for names in ((), (0, 1, 2, 3)):
        u = tile(t.table, names or t.actions, axes)
        lines = examine(u).describe().splitlines()
        assert len(lines) == len(examine(u).evidence)
        assert all(len(line) <= 130 for line in lines)
    x, y = np.indices((6, 6))
    lines = examine(tile((x * y + x) % 4)).describe().splitlines()
    assert all(len(line) <= 130 for line in lines)
    assert not any(line.endswith("...") for line in lines)  # two axes fit without being cut


def test_no_order_is_read_into_action_names(tile):
    t = tile([[0, 1, 2], [0, 1, 2]], ("walk", "run", "drive"))
    found = examine(t, sums=[("x", "y")])
    assert list(found.evidence) == [
        "independent of x",
        "threshold in y",  # it finds an order of the actions and supposes none
        "connected",
        "orthogonally convex",  # along lines of axes, not of every direction
        "linear scores",
    ]
    for test in (
        lambda: monotone(t, "y"),
        lambda: monotone(t, ("x", "y")),
        lambda: linear_index(t),
    ):
        with pytest.raises(ArgumentError, match="names have no order; act has 'walk'"):
            test()


def test_the_evidence_about_names_does_not_hang_on_the_order_in_which_they_are_listed(tile):
    table = np.array([[0, 1, 1], [2, 1, 0], [2, 2, 0]])
    names = np.array(["walk", "run", "drive"])
    turn = np.array([2, 0, 1])  # the same policy, with its actions listed in another order
    outcomes = [
        {n: bool(e) for n, e in examine(t, sums=[("x", "y")]).evidence.items()}
        for t in (tile(table, tuple(names)), tile(turn[table], tuple(names[np.argsort(turn)])))
    ]
    assert outcomes[0] == outcomes[1]
