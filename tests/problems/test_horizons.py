"""Problems with a horizon: seats of a flight, and aircraft that keep apart."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella.problems.seat_revenue import seat_revenue
from tessella.problems.vertical_cas import (
    ACCELERATIONS,
    ALTITUDE_BLOCKS,
    CLIMB_RATE_MAX,
    CLIMB_RATE_MIN,
    MIRRORED_ADVISORY,
    RATE_BLOCKS,
    _costs,
    _cut_points,
    _limit_acceleration,
    vertical_cas,
)


@pytest.fixture(scope="module")
def seats() -> ts.Solution:
    return ts.solve(seat_revenue.build(seats=12, periods=30))


def test_seats_are_sold_as_theory_says(seats):
    structure = str(ts.examine(ts.tessellate(seats)))
    assert "open rises in seats: holds" in structure
    assert "open rises in time: holds" in structure
    assert seat_revenue.theory[0].structure == "monotone in seats"


def test_a_seat_is_worth_what_the_recursion_of_the_page_says(seats):
    """V_t(x) = V(x) + sum_k p_k max(f_k - (V(x) - V(x - 1)), 0), by hand."""
    fares = np.array([400.0, 250.0, 160.0, 90.0])
    value = np.zeros(13)
    for t in reversed(range(30)):
        lean = 1 + 0.8 * np.linspace(-1, 1, 4) * (2 * (1 - (t + 0.5) / 30) - 1)
        chance = 0.9 * lean / 4
        worth = np.concatenate([[np.inf], np.diff(value)])
        value = value + np.maximum(fares - worth[:, None], 0) @ chance
        assert np.abs(seats.value[t] - value).max() <= seats.error_bound + 1e-10


@pytest.fixture(scope="module")
def aircraft() -> ts.Solution:
    return ts.solve(vertical_cas.build(seconds=8, every=9))


def test_up_and_down_are_exchanged_in_every_state(aircraft):
    value, table = aircraft.value, aircraft.policy.table
    mirrored = value[:, ::-1, ::-1, ::-1][..., MIRRORED_ADVISORY, :]
    assert np.abs(value - mirrored).max() <= 2 * aircraft.error_bound
    advised = np.array(MIRRORED_ADVISORY)[table[:, ::-1, ::-1, ::-1][..., MIRRORED_ADVISORY, :]]
    assert (table == advised)[aircraft.decided].all()
    assert aircraft.decided.mean() > 0.99


def test_the_published_grid_has_the_published_size():
    h = _cut_points(ALTITUDE_BLOCKS, (-100, 100, 9), every=1)
    v = _cut_points(RATE_BLOCKS, (-30, 30, 21), every=1)
    assert (len(h), len(v)) == (65, 39)
    assert 65 * 39 * 39 * 9 * 2 == 1_779_570
    assert (h == -h[::-1]).all()
    assert h[[0, 4, 5, 12, 13, 15, 16, 27, 28, 32]].tolist() == [
        -8000, -4000, -3000, -1250, -1000, -800, -700, -150, -100, 0,
    ]  # fmt: skip
    assert v[[0, 4, 5, 8, 9, 19]].tolist() == [-100, -60, -50, -35, -30, 0]


def test_an_acceleration_stops_where_the_rate_complies():
    assert _limit_acceleration(-8.33, 0.0, -25, 100) == -8.33
    assert _limit_acceleration(-8.33, -20.0, -25, 100) == -5.0
    assert _limit_acceleration(-8.33, -30.0, -25, 100) == 0.0
    assert _limit_acceleration(3.0, 99.0, -100, 100) == 1.0
    assert ACCELERATIONS[3].tolist() == [-8.33, -9.33, -7.33]
    assert ACCELERATIONS[8].tolist() == [10.7, 11.7, 9.7]
    assert (CLIMB_RATE_MIN[7], CLIMB_RATE_MAX[8]) == (-41.67, 41.67)


@pytest.mark.parametrize(
    ("state", "advisory", "cost"),
    [
        # h, own, intruder, previous: what the published terms add up to, by hand
        ((0.0, 0.0, 60.0, 0), 0, -1e-9),
        ((0.0, 0.0, 0.0, 0), 0, 2.3e-3 - 1e-9),
        ((300.0, 0.0, 0.0, 0), 3, 1e-5 + 5e-3 + 2.3e-3 + 3e-5 * 25),  # corrective, not crossing
        ((-300.0, 0.0, 0.0, 0), 3, 1e-5 + 5e-3 + 2.3e-3 + 3e-5 * 25),  # crossing within 500 ft
        ((-600.0, 0.0, 0.0, 0), 3, 0.01 + 1e-5 + 5e-3 + 2.3e-3 + 3e-5 * 25),
        ((700.0, 0.0, 0.0, 0), 3, 1e-5 + 0.1 + 5e-3 + 2.3e-3 + 3e-5 * 25),
        ((1100.0, 0.0, 0.0, 0), 3, 1e-5 + 0.1 + 0.03 + 5e-3 + 2.3e-3 + 3e-5 * 25),
        ((100.0, -40.0, 20.0, 0), 3, 5e-3 + 1.5e-3 + 1.5e-3),  # preventive, closing fast
        ((100.0, 0.0, 0.0, 4), 3, 1e-5 + 8e-3 + 2.3e-3 + 3e-5 * 25),  # reversal
        ((100.0, 0.0, 0.0, 3), 1, 5e-3 * 0 + 1e-3 + 1e-4 + 2.3e-3),  # weaker, and it complies
        ((100.0, 0.0, 0.0, 0), 5, 1.0 + 1e-5 + 5e-3 + 2.3e-3 + 3e-5 * 25),  # not allowed yet
    ],
)
def test_an_advisory_costs_what_was_published(state, advisory, cost):
    found = _costs(*(np.array(x) for x in state), np.array(advisory))
    assert found == pytest.approx(cost, abs=1e-12)
