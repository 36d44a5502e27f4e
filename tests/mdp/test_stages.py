"""What each stage means, in cases small enough to be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tessella.errors import ModelError, format_value
from tessella.mdp.model import MDP
from tessella.mdp.simulate import simulate
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift, truncated_poisson
from tessella.solvers.policy_evaluation import occupancy
from tessella.solvers.solve import solve


def rows(grid, stages, actions=(0,), **options):
    """(A, S, S) transition of a staged model."""
    return MDP.staged(grid, actions, 0.9, stages, **options).to_arrays().transition


def test_shifts_clip_or_turn_back_at_the_edge():
    step = Noise("w", [-2, 3], [0.25, 0.75])
    clipped = rows({"x": range(4)}, [Shift("x", step)])[0]
    assert clipped.tolist() == [
        [0.25, 0, 0, 0.75],
        [0.25, 0, 0, 0.75],
        [0.25, 0, 0, 0.75],
        [0, 0.25, 0, 0.75],
    ]
    mirrored = rows({"x": range(4)}, [Shift("x", step, edge="reflect")])[0]
    assert mirrored.tolist() == [
        [0, 0, 0.25, 0.75],
        [0, 0.25, 0.75, 0],
        [0.25, 0.75, 0, 0],
        [0.75, 0.25, 0, 0],
    ]


@given(n=st.integers(1, 6), by=st.integers(-40, 40), at=st.integers(0, 5))
def test_a_mirrored_shift_is_a_walk_that_turns_round_at_the_ends(n, by, at):
    at = min(at, n - 1)
    x, way = at, 1 if by > 0 else -1
    for _ in range(abs(by) if n > 1 else 0):
        way = -way if not 0 <= x + way < n else way
        x += way
    P = rows({"x": range(n)}, [Shift("x", Noise("w", [by], [1.0]), edge="reflect")])[0]
    assert P[at].argmax() == x


@given(n=st.integers(1, 6), by=st.integers(-40, 40))
def test_a_clipped_shift_stops_at_the_ends(n, by):
    P = rows({"x": range(n)}, [Shift("x", Noise("w", [by], [1.0]))])[0]
    np.testing.assert_array_equal(P.argmax(axis=1), np.clip(np.arange(n) + by, 0, n - 1))


@given(n=st.integers(1, 6), by=st.integers(-40, 40), at=st.integers(0, 5))
def test_a_shift_that_wraps_is_a_walk_round_a_circle(n, by, at):
    at = x = min(at, n - 1)
    for _ in range(abs(by)):
        x += 1 if by > 0 else -1
        x = 0 if x == n else n - 1 if x < 0 else x
    P = rows({"x": range(n)}, [Shift("x", Noise("w", [by], [1.0]), edge="wrap")])[0]
    assert P[at].tolist() == np.eye(n)[x].tolist()


def test_weekdays_and_angles_go_round():
    days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    tomorrow = [Shift("day", Noise("night", [1], [1.0]), edge="wrap")]
    assert rows({"day": days}, tomorrow)[0].argmax(axis=1).tolist() == [1, 2, 3, 4, 5, 6, 0]
    turn = Shift("angle", Noise("w", [-90, 0, 450], [0.25, 0.5, 0.25]), edge="wrap")
    P = rows({"angle": range(0, 360, 90)}, [turn])[0]
    assert P[0].tolist() == [0.5, 0.25, 0, 0.25]  # 450 degrees are 90
    assert P[3].tolist() == [0.25, 0, 0.25, 0.5]


def test_a_circle_is_solved_simulated_and_weighed_like_its_table():
    """The same model as a table: each way to it is one of its own."""

    def pays(x, turn, w):
        return np.cos(x) * (1 + w) - 0.1 * turn

    noise = Noise("w", [-1, 0, 2], [0.3, 0.3, 0.4])
    told = MDP.staged(
        {"x": range(5)},
        (0, 7, -3),
        0.9,
        [Shift("x", noise, by=lambda w, turn: w + turn, edge="wrap", pays=pays)],
        action_name="turn",
    )
    table = MDP.from_step(
        lambda x, turn, w: ({"x": (x + w + turn) % 5}, pays(x, turn, w)),
        {"x": range(5)},
        (0, 7, -3),
        0.9,
        noise,
        action_name="turn",
    )
    np.testing.assert_allclose(told.to_arrays().transition, table.to_arrays().transition)
    one, two = solve(told), solve(table)
    assert np.abs(one.value - two.value).max() <= one.error_bound + two.error_bound
    np.testing.assert_array_equal(one.policy.table, two.policy.table)
    weights = [occupancy(m, s.policy).share for m, s in ((told, one), (table, two))]
    np.testing.assert_allclose(*weights, rtol=1e-9)
    walk = simulate(told, one.policy, 4, rng=0, paths=300)
    ways = told.to_arrays().transition[walk.actions, walk.states[:, :-1]]
    assert (np.take_along_axis(ways, walk.states[:, 1:, None], axis=-1) > 0).all()


def test_a_shift_goes_by_values_and_not_by_positions():
    up = [Shift("x", Noise("w", [1.0], [1.0]))]
    assert rows({"x": [0, 0.5, 1, 1.5]}, up)[0].argmax(axis=1).tolist() == [2, 3, 3, 3]
    assert rows({"x": [3, 2, 1, 0]}, up)[0].argmax(axis=1).tolist() == [0, 0, 1, 2]
    text = [Shift("x", Noise("w", [1], [1.0]))]
    assert rows({"x": ["a", "b", "c"]}, text)[0].argmax(axis=1).tolist() == [1, 2, 2]


def test_float_axes_forgive_rounding():
    grid = {"x": np.linspace(0, 1, 11)}
    decide = Decide("x", to=lambda x, action: np.minimum(x + 0.1 * action, 1.0))
    shift = Shift("x", Noise("w", [-0.1, 0.3], [0.5, 0.5]))
    P = rows(grid, [decide, shift], actions=(0, 1, 2, 3))
    for a in range(4):
        for x in range(11):
            post = min(x + a, 10)
            expected = np.zeros(11)
            expected[max(post - 1, 0)] += 0.5
            expected[min(post + 3, 10)] += 0.5
            np.testing.assert_array_equal(P[a, x], expected)


def test_given_means_the_value_at_that_moment():
    """The move of y sees x as it stands then: after the flip, or before it when it comes first."""
    grid = {"x": [0, 1], "y": [0, 1]}
    flip = Decide("x", to=lambda x: 1 - x)
    follow = Move("y", lambda x: np.where(x == 1, [[0, 1], [0, 1]], [[1, 0], [1, 0]]))
    first, later = rows(grid, [follow, flip])[0], rows(grid, [flip, follow])[0]
    for s, (x, _) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        assert first[s].argmax() == (1 - x) * 2 + x
        assert later[s].argmax() == (1 - x) * 2 + (1 - x)


def test_rewards_are_paid_on_the_state_before_the_move_and_on_the_noise_drawn():
    mdp = MDP.staged(
        {"x": range(3)},
        (0, 1),
        0.9,
        [
            Decide("x", to=lambda x, action: np.minimum(x + action, 2), pays=lambda x: 100 * x),
            Shift("x", Noise("w", [0, 1], [0.5, 0.5]), pays=lambda x, w: 10 * x + w),
            Pay(lambda x: 1000 * x),
        ],
    )
    for x in range(3):
        for a in range(2):
            post = min(x + a, 2)
            after = 0.5 * post + 0.5 * min(post + 1, 2)
            assert mdp.reward[x, a] == pytest.approx(100 * x + 10 * post + 0.5 + 1000 * after)


def test_a_banded_and_a_dense_chain_are_both_their_matrix():
    rng = np.random.default_rng(0)
    dense = rng.dirichlet(np.ones(20), 20)
    banded = np.diag(np.full(20, 0.5)) + np.diag(np.full(19, 0.5), 1)
    banded[-1, -1] = 1.0
    far = np.zeros((20, 20))
    far[np.arange(20), (np.arange(20) + 7) % 20] = 1.0
    for matrix in (dense, banded, far, np.eye(20)):
        np.testing.assert_array_equal(rows({"x": range(20)}, [Move("x", matrix)])[0], matrix)


def test_a_chain_may_be_given_the_action_and_two_other_axes():
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.ones(3), (2, 2, 2, 3))  # action, a, c, b -> b'
    grid = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}
    chain = Move("b", lambda action, a, c: law[action[..., 0, 0], a[..., 0, 0], c[..., 0, 0]])
    P = rows(grid, [chain], actions=(0, 1)).reshape(2, 2, 3, 2, 2, 3, 2)
    for action, a, b, c in np.ndindex(2, 2, 3, 2):
        np.testing.assert_array_equal(P[action, a, b, c, a, :, c], law[action, a, c, b])


def test_a_model_of_one_state_and_one_action():
    mdp = MDP.staged(
        {"x": [4]}, ("wait",), 0.5, [Pay(lambda x: x), Shift("x", Noise("w", [1], [1.0]))]
    )
    assert mdp.reward.tolist() == [[4.0]]
    assert mdp.to_arrays().transition.tolist() == [[[1.0]]]
    paths = simulate(mdp, [0], 30, 0)
    assert paths.returns[0] == pytest.approx(8 * (1 - 0.5**30))


def test_a_function_with_defaults_or_free_keywords_is_called_by_name():
    grid = {"x": range(3)}
    with_default = Pay(lambda x, scale=2.0: scale * x)
    free = Pay(lambda **names: names["x"] + names["action"])
    mdp = MDP.staged(grid, (0, 10), 0.9, [with_default, free])
    assert mdp.reward.tolist() == [[0, 10], [3, 13], [6, 16]]


def test_a_decision_may_be_a_constant():
    assert rows({"x": range(3)}, [Decide("x", to=lambda: 1)])[0].argmax(axis=1).tolist() == [1] * 3
    texts = rows({"x": ["a", "b"]}, [Decide("x", to=lambda action: action)], actions=("b", "a"))
    assert texts.argmax(axis=2).tolist() == [[1, 1], [0, 0]]


def test_what_was_given_can_change_later_without_changing_the_model():
    matrix, p = np.eye(2), np.array([0.5, 0.5])
    mdp = MDP.staged(
        {"x": [0, 1]}, (0,), 0.9, [Move("x", matrix), Shift("x", Noise("w", [0, 1], p))]
    )
    before = mdp.to_arrays().transition.copy()
    matrix[:] = 7
    p[:] = 7
    np.testing.assert_array_equal(mdp.to_arrays().transition, before)


def test_infeasible_decisions_may_leave_the_grid():
    mdp = MDP.staged(
        {"x": range(4)},
        (0, 1, 2),
        0.9,
        [
            Pay(lambda x, action: np.where(x + action < 4, x + action, np.nan)),
            Decide("x", to=lambda x, action: x + action, pays=lambda action: -action),
            Shift("x", Noise("w", [0, 1], [0.5, 0.5]), by=lambda w: -w),
        ],
        feasible=lambda x, action: x + action < 4,
    )
    mask = mdp.feasible_mask
    np.testing.assert_array_equal(mdp.reward[mask], np.nonzero(mask)[0])
    assert np.isfinite(mdp.reward).all()
    assert mdp.dynamics.row_sums.high == pytest.approx(1)


def test_a_mask_says_nothing_about_stages_after_the_first_move():
    """An infeasible pair may pass through any later state, so what happens there must be right."""
    stages = [
        Decide("x", to=lambda x: 3 - x),
        Decide("x", to=lambda x, action: x + action),
    ]
    with pytest.raises(ModelError, match="deciding x leaves the grid"):
        MDP.staged({"x": range(4)}, (0, 1), 0.9, stages, feasible=lambda x, action: x + action < 4)


@given(mean=st.floats(0.01, 60), largest=st.integers(0, 80))
def test_truncated_poisson_puts_the_tail_on_the_largest_value(mean, largest):
    p = truncated_poisson(mean, largest)
    expected = stats.poisson.pmf(np.arange(largest + 1), mean)
    expected[-1] = stats.poisson.sf(largest - 1, mean)
    np.testing.assert_allclose(p, expected, rtol=1e-10, atol=1e-300)
    assert abs(math.fsum(p) - 1) < 1e-13


def test_truncated_poisson_takes_an_array_of_means():
    means = np.array([[1.0], [3.0]])
    both = truncated_poisson(means, 5)
    assert both.shape == (2, 6)
    for mean, row in zip((1.0, 3.0), both, strict=True):
        np.testing.assert_array_equal(row, truncated_poisson(mean, 5))
    assert truncated_poisson([1.0, 3.0], 5).shape == (2, 6)


def test_step_functions_and_stages_tell_the_same_story():
    """Two noises, a mask, a reward on both: as one step function and as a jump after a decision."""

    def step(x, y, order, demand, drift):
        post = np.minimum(x + order, 4)
        sold = np.minimum(post, demand)
        return {"x": post - sold, "y": np.clip(y + drift, 0, 2)}, sold * (1 + y) - order

    demand = Noise("demand", range(4), lambda y: truncated_poisson(1.0 + y, 3))
    drift = Noise("drift", [-1, 1], lambda x: np.where(x > 2, [0.3, 0.7], [0.5, 0.5]))
    grid, orders = {"x": range(5), "y": range(3)}, (0, 2)
    feasible = {"feasible": lambda x, order: x + order < 6, "action_name": "order"}
    stepped = MDP.from_step(step, grid, orders, 0.9, [demand, drift], **feasible)
    # The drift is given x at the start of the period, so it comes first and y moves last.
    told = MDP.staged(
        {**grid, "push": [-1, 0, 1]},
        orders,
        0.9,
        [
            Jump(drift, to=lambda drift: {"push": drift}),
            Decide("x", to=lambda x, order: np.minimum(x + order, 4), pays=lambda order: -order),
            Shift(
                "x",
                demand,
                by=lambda demand: -demand,
                pays=lambda x, y, demand: np.minimum(x, demand) * (1 + y),
            ),
            Decide("y", to=lambda y, push: np.clip(y + push, 0, 2)),
            Decide("push", to=lambda: 0),
        ],
        **feasible,
    )
    kept = told.grid.points[:, 2] == 0
    dense, wide = stepped.to_arrays(), told.to_arrays()
    np.testing.assert_allclose(wide.transition[:, kept][:, :, kept], dense.transition, atol=1e-15)
    np.testing.assert_allclose(wide.reward[kept], dense.reward, rtol=1e-14)


@pytest.mark.parametrize("far", [1e18, 1e19, 1e300])
def test_a_shift_by_far_more_than_the_axis_stops_at_its_end(far):
    noise = Noise("w", [-far, far], [0.25, 0.75])
    P = rows({"x": range(4)}, [Shift("x", noise)])[0]
    assert P.tolist() == [[0.25, 0, 0, 0.75]] * 4
    mirrored = rows({"x": range(4)}, [Shift("x", Noise("w", [far], [1.0]), edge="reflect")])[0]
    where = [abs((x + int(far) + 3) % 6 - 3) for x in range(4)]
    assert mirrored.argmax(axis=1).tolist() == where
    wrapped = rows({"x": range(7)}, [Shift("x", Noise("w", [-far], [1.0]), edge="wrap")])[0]
    assert wrapped.argmax(axis=1).tolist() == [(x - int(far)) % 7 for x in range(7)]
    with pytest.raises(ModelError) as caught:
        rows({"x": range(4)}, [Shift("x", noise, edge="error")])
    assert caught.value.value == f"moves by {format_value(-far)}"


@pytest.mark.parametrize("penalty", [1e12, 1e300])
@pytest.mark.parametrize("stage", ["pay", "decide", "shift"])
def test_what_an_infeasible_action_would_pay_does_not_matter(penalty, stage):
    def model(paid):
        def pays(stock, order):
            return np.where(stock + order <= 4, 1.0 * stock - order, paid)

        def noisy(stock, order, demand):
            return pays(stock, order) * (1 + demand)

        own = {stage: noisy if stage == "shift" else pays}
        demand = Shift(
            "stock",
            Noise("demand", [0, 1], [0.5, 0.5]),
            by=lambda demand: -demand,
            pays=own.get("shift"),
        )
        order = Decide(
            "stock",
            to=lambda stock, order: np.minimum(stock + order, 4),
            pays=own.get("decide"),
        )
        pay = [Pay(own["pay"])] if stage == "pay" else []
        stages = [demand, order] if stage == "shift" else [*pay, order, demand]
        return MDP.staged(
            {"stock": range(5)},
            (0, 1, 2),
            0.9,
            stages,
            feasible=lambda stock, order: stock + order <= 4,
            action_name="order",
        )

    fined, forbidden = model(-penalty), model(-np.inf)
    assert fined.fingerprint == forbidden.fingerprint
    assert fined.dynamics.reward_scale <= 8
    mine, theirs = solve(fined), solve(forbidden)
    assert mine.error_bound == theirs.error_bound < 1e-6
    np.testing.assert_array_equal(mine.value, theirs.value)
    np.testing.assert_array_equal(mine.policy.table, theirs.policy.table)


def test_a_reward_that_a_feasible_pair_shares_is_kept():
    """The reward is by stock alone, and every stock has a feasible action."""
    mdp = MDP.staged(
        {"stock": range(3)},
        (0, 1),
        0.9,
        [Pay(lambda stock: 10.0 * stock)],
        feasible=lambda stock, action: (action == 0) | (stock == 0),
    )
    assert mdp.reward[:, 0].tolist() == [0, 10, 20]
