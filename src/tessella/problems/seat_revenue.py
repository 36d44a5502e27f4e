"""Seats of a flight, sold over a booking horizon: which fares to offer now.

State: seats left; time runs to departure. In each period at most one request comes, for fare class
k with probability p_k(t); it is sold if its class is open. The action is how many classes are
open, the highest fare first:

    V_t(x) = V_{t+1}(x) + sum_k p_k(t) max(f_k - (V_{t+1}(x) - V_{t+1}(x - 1)), 0).

Requests for cheap fares come early: p_k(t) is the load of class k, with weights that fall for cheap
classes and rise for others. It is known (Lee and Hersh 1993; Lautenbacher and Stidham 1999) that
more classes are open the more seats are left, and the nearer the departure with as many seats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.mdp.model import MDP
from tessella.mdp.stages import Jump, Noise
from tessella.problems.problem import PRICE, SIZE, Problem, Theory, integer, number, numbers


def _seat_revenue_model(
    seats: int = integer(30, "on the flight", **SIZE),
    periods: int = integer(60, "with at most one request each", low=1, high=1000),
    fares: Sequence[float] = numbers((400.0, 250.0, 160.0, 90.0), "of the classes", **PRICE),
    load: float = number(0.9, "chance of a request in a period", low=0.0, high=1.0),
    early: float = number(0.8, "how far cheap requests come early", low=0.0, high=1.0),
) -> MDP:
    from_top = np.sort(np.asarray(fares, dtype=float))[::-1]
    classes = len(from_top)
    paid = np.concatenate([[0.0], from_top])

    def requests(time):
        """(..., K + 1) no request, then each class: cheap ones lean towards early periods."""
        left = 1 - (time + 0.5) / periods
        lean = 1 + early * np.linspace(-1, 1, classes) * (2 * left - 1)
        chance = load * lean / lean.sum(axis=-1, keepdims=True)
        none = np.maximum(1 - chance.sum(axis=-1, keepdims=True), 0.0)  # not below 0 by rounding
        return np.concatenate([none, chance], axis=-1)

    def sold(seats, request, open):
        return (request >= 1) & (request <= open) & (seats > 0)

    return MDP.staged(
        {"seats": range(seats + 1)},
        range(classes + 1),
        FiniteHorizon(periods),
        [
            Jump(
                Noise("request", range(classes + 1), requests),
                to=lambda seats, request, open: {"seats": seats - sold(seats, request, open)},
                pays=lambda seats, request, open: paid[request] * sold(seats, request, open),
            )
        ],
        action_name="open",
    )


seat_revenue = Problem(
    "seat_revenue",
    "Seats of a flight, sold over a booking horizon",
    _seat_revenue_model,
    family="revenue",
    axes={"time": "periods gone of the booking horizon", "seats": "seats left"},
    theory=(
        Theory("monotone in seats", "the more seats are left, the more classes are open"),
        Theory("monotone in time", "the nearer the departure, the more classes are open"),
    ),
)
