"""What flows into one state from many, by many actions, is added up with its rounding counted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts

N = 40


def by_stages() -> ts.MDP:
    """Every state of a square may go to its corner: x by choice, y by itself."""
    return ts.MDP.staged(
        {"x": range(N), "y": range(N)},
        range(N),
        0.95,
        [
            ts.Decide("x", lambda x, action: (x + action) % N, pays=lambda x: 1.0 * x),
            ts.Decide("y", lambda y: 0 * y),
        ],
    )


def by_arrays() -> ts.MDP:
    parts = by_stages()
    return ts.MDP.from_arrays(parts.to_arrays("SAS").transition, parts.reward, 0.95, layout="SAS")


@pytest.mark.parametrize("route", ["rows", "stages", "arrays"])
def test_the_share_of_time_where_all_states_meet_is_within_its_bound(route):
    """Each goes to the corner in one period; shares so small that adding one by one loses them."""
    mdp = by_arrays() if route == "arrays" else by_stages()
    plan = plan_by(mdp, "stages" if route == "stages" else "rows")
    back = (-np.arange(N) % N)[:, None] + np.zeros(N, dtype=int)
    start = np.full(N * N, 2.0**-54)
    start[0] = 1 - start[1:].sum()
    shape = mdp.grid.shape
    found = ts.occupancy(mdp, back.reshape(shape), start=start.reshape(shape), plan=plan)
    given = [Fraction(float(p)) for p in start]
    total, discount = sum(given), Fraction(0.95)
    exact = [(1 - discount) * p / total for p in given]
    exact[0] += discount * sum(exact) / (1 - discount)
    off = sum(abs(Fraction(float(x)) - y) for x, y in zip(found.share.ravel(), exact, strict=True))
    assert off <= Fraction(found.error_bound)
