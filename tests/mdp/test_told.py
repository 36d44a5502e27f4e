"""A model told back: each event of a period in words that are true of its numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella.mdp.stages.reward import ExpectedReward
from tessella.mdp.told import events

AXES = {"stock": range(4), "due": range(4)}
COIN = ts.Noise("demand", (0, 1), (0.5, 0.5))
ALWAYS = ts.Noise("end", (0,), (1.0,))


def told_of(*stages, axes=AXES, **rest) -> list[str]:
    given = {"discount": 0.9, "actions": (0, 1), "action_name": "order"} | rest
    return events(ts.MDP.staged(axes, stages=list(stages), **given))


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
        "an amount that depends on stock is charged; the state stays"
    ]


def test_rewards_kept_as_factors_are_told_by_their_own_sign(monkeypatch):
    mdp = ts.MDP.staged(
        AXES,
        (0, 1),
        0.9,
        [ts.Shift("stock", COIN, by=lambda demand: -demand, costs=lambda stock: stock)],
    )
    before = events(mdp)
    stage = mdp.dynamics.stages[0]
    factors = ExpectedReward(np.full((1, 1, 1, 2), 0.5), np.full((1, 4, 1, 2), -1.0))
    monkeypatch.setitem(stage.__dict__, "reward", factors)
    assert events(mdp) == before == ["demand (2 outcomes) changes stock; it costs"]
