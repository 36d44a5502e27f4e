"""Descriptions of a model: each event of a period, in words that fit its numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella.mdp.describe import describe_events
from tessella.mdp.stages.stage import ExpectedReward

AXES = {"stock": range(4), "due": range(4)}
COIN = ts.Noise("demand", (0, 1), (0.5, 0.5))
ALWAYS = ts.Noise("end", (0,), (1.0,))


def coin(p):
    """(..., 2) the chances of 0 and 1, from that of 1."""
    return np.concatenate([1 - p, p], axis=-1)


def told_of(*stages, axes=AXES, **rest) -> list[str]:
    given = {"discount": 0.9, "actions": (0, 1), "action_name": "order"} | rest
    return describe_events(ts.MDP.staged(axes, stages=list(stages), **given))


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (ts.Pay(costs=lambda order: 2.0 * order), "an amount that depends on order is charged"),
        (ts.Pay(lambda stock, due: stock + due), "an amount that depends on stock and due is paid"),
        (ts.Pay(lambda stock: stock - 1), "an amount that depends on stock is paid or charged"),
        (ts.Pay(lambda: 3.0), "an amount is paid"),
        (ts.Pay(lambda stock: 0.0 * stock), "nothing is paid"),
    ],
)
def test_where_only_money_moves_it_says_what_it_depends_on_and_which_way(stage, said):
    assert told_of(stage) == [f"{said}; the state stays"]


def test_the_sign_of_what_is_paid_is_that_of_the_numbers_whatever_is_sought():
    sells = ts.Shift("stock", COIN, by=lambda demand: -demand, costs=lambda demand: demand)
    earns = ts.Pay(lambda order: order)
    said = "demand (2 outcomes) changes stock; it costs"
    assert told_of(sells) == [said]
    assert told_of(sells, earns)[0] == said


def test_what_is_said_of_actions_that_cannot_be_taken_does_not_count():
    earns = ts.Pay(lambda stock, order: np.where((order == 1) & (stock == 0), -np.inf, 1.0 + stock))
    (said,) = told_of(earns, feasible=lambda stock, order: (order == 0) | (stock > 0))
    assert said.endswith("is paid; the state stays")


def test_a_decision_between_cut_points_is_no_chance():
    lands = ts.Decide("stock", to=lambda stock, order: stock - order / 2, between="interpolate")
    assert told_of(
        lands,
        axes={"stock": (-1.0, 0.0, 1.0)},
        feasible=lambda stock, order: stock - order / 2 >= -1,
    ) == ["stock gets a new value, from stock and order"]


def test_a_new_value_names_all_that_decides_it_and_nothing_else():
    assert told_of(
        ts.Decide("stock", to=lambda due: due),
        ts.Decide("due", to=lambda order: order),
    ) == ["stock gets a new value, from due", "due gets a new value, from order"]


def test_a_jump_names_the_coordinates_that_it_changes():
    def arrive(stock, due, order, end):
        return {"stock": np.minimum(stock + due, 3), "due": order + 0 * stock}

    assert told_of(
        ts.Jump(COIN, to=lambda stock, demand: {"stock": np.maximum(stock - demand, 0)}),
        ts.Jump(ALWAYS, to=arrive),
    ) == [
        "demand (2 outcomes) changes stock",
        "stock and due get new values, from stock, due and order",
    ]


def test_chances_name_what_they_depend_on():
    by_due = ts.Noise("demand", (0, 1), lambda due: coin(due / 4))
    by_time = ts.Noise("demand", (0, 1), lambda time: coin(time / 4))
    sells = {"axis": "stock", "by": lambda demand: -demand}
    assert told_of(ts.Shift(noise=by_due, **sells)) == [
        "demand (2 outcomes, chances by due) changes stock"
    ]
    assert told_of(ts.Shift(noise=by_time, **sells), discount=ts.FiniteHorizon(3)) == [
        "demand (2 outcomes, chances by time) changes stock"
    ]


def test_the_action_is_named_with_the_chances_or_with_the_places_that_it_decides():
    by_order = ts.Noise("demand", (0, 1), lambda order: coin(order / 2))
    assert told_of(
        ts.Shift("stock", by_order, by=lambda demand: -demand),
        ts.Shift("stock", COIN, by=lambda demand, order: -demand * order),
    ) == [
        "demand (2 outcomes, chances by order) changes stock",
        "demand (2 outcomes) changes stock, depending on order",
    ]


@pytest.mark.parametrize("touched", ["few axes", "all axes", "cut points"])
def test_what_moves_whatever_is_drawn_is_told_apart(touched):
    between = {"between": "interpolate"} if touched == "cut points" else {}

    def sell(stock, due, day, demand):
        left = np.maximum(stock - demand, 0) + (0 * due if touched == "all axes" else 0)
        left = left / 2 if between else left
        return {"stock": left, "day": (day + 1) % 3}

    by_day = ts.Noise("demand", (0, 1), lambda day: coin((day + 1) / 4))
    axes = AXES | {"day": range(3), "far": range(4)}  # few axes are a matrix, all a lookup
    assert told_of(ts.Jump(by_day, sell, **between), axes=axes) == [
        "demand (2 outcomes, chances by day) changes stock, while day moves on"
    ]


def test_what_is_set_beside_a_draw_names_what_decides_it():
    def arrive(stock, order, demand):
        return {"stock": np.maximum(stock - demand, 0), "due": order}

    assert told_of(ts.Jump(COIN, arrive)) == [
        "demand (2 outcomes) changes stock, while due gets a new value, from order"
    ]


def test_what_cannot_happen_changes_nothing():
    never = ts.Noise("demand", (0, 1), (1.0, 0.0))
    assert told_of(
        ts.Shift("stock", never, by=lambda demand: -demand),
        ts.Shift("stock", COIN, by=lambda demand: -1 + 0 * demand),
    ) == [
        "demand (2 outcomes) is drawn, the state stays",
        "demand (2 outcomes) is drawn, while stock moves on",
    ]


def test_a_chain_names_what_its_rows_depend_on_and_chance_only_where_there_is_some():
    turn, mix = np.roll(np.eye(4), 1, axis=1), np.full((4, 4), 0.25)
    assert told_of(
        ts.Move("stock", mix),
        ts.Move("stock", turn),
        ts.Move("stock", lambda due, order: np.where((due > 1) & (order == 1), mix, turn)),
    ) == [
        "stock moves on by chance",
        "stock moves on",
        "stock moves on by chance, depending on due and order",
    ]


def test_coordinates_within_a_period_have_their_names():
    assert told_of(
        ts.Decide("fresh", to=lambda order: order),
        ts.Decide("stock", to=lambda fresh: fresh),
        scratch={"fresh": range(2)},
    ) == [
        "fresh begins at 0, known within the period only",
        "fresh gets a new value, from order",
        "stock gets a new value, from fresh",
        "fresh is forgotten",
    ]


def test_what_happens_at_one_time_only_is_told_too():
    last = ts.Pay(costs=lambda stock, time: stock * (time == 2))
    assert told_of(last, discount=ts.FiniteHorizon(3)) == [
        "an amount that depends on stock and time is charged; the state stays"
    ]


def test_rewards_kept_as_factors_are_told_by_their_own_sign(monkeypatch):
    mdp = ts.MDP.staged(
        AXES,
        (0, 1),
        0.9,
        [ts.Shift("stock", COIN, by=lambda demand: -demand, costs=lambda stock: stock)],
    )
    before = describe_events(mdp)
    stage = mdp.dynamics.stages[0]
    factors = ExpectedReward(np.full((1, 1, 1, 2), 0.5), np.full((1, 4, 1, 2), -1.0))
    monkeypatch.setitem(stage.__dict__, "reward", factors)
    assert describe_events(mdp) == before == ["demand (2 outcomes) changes stock; it costs"]
