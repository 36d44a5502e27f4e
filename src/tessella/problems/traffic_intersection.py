"""Traffic lights at a crossing of two one-way streets.

State (green, left, right, wait): which side has green, cars on each, and how long red has lasted.
One car passes on green (+1), also in the period of a switch; then cars arrive, Poisson given that
they fit. A period pays passed - 0.1 (cars on red) 2^wait - 2 (switched); wait' is 1 after a switch.
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Pay, Shift
from tessella.problems.problem import DISCOUNT, MEAN, PRICE, Integer, Number, Problem


def _model(
    max_cars: int,
    max_wait: int,
    arrivals_left: float,
    arrivals_right: float,
    wait_cost: float,
    switch_cost: float,
    discount: float,
) -> MDP:
    def pays(green, left, right, wait, lights):
        on_green = np.where(green == "left", left, right)
        waiting = wait_cost * (left + right - on_green) * 2.0**wait
        return (on_green > 0) - waiting - switch_cost * (lights == "switch")

    cars = range(max_cars + 1)
    mdp = MDP.staged(
        {"green": ("left", "right"), "left": cars, "right": cars, "wait": range(max_wait + 1)},
        ("keep", "switch"),
        discount,
        [
            Pay(pays),
            Decide("left", to=lambda left, green: np.maximum(left - (green == "left"), 0)),
            Decide("right", to=lambda right, green: np.maximum(right - (green == "right"), 0)),
            Decide(
                "green",
                to=lambda green, lights: np.where(
                    (green == "left") == (lights == "keep"), "left", "right"
                ),
            ),
            Decide(
                "wait",
                to=lambda wait, lights: np.where(
                    lights == "switch", min(1, max_wait), np.minimum(wait + 1, max_wait)
                ),
            ),
            Shift(
                "left",
                Noise("come", cars, lambda left: _arrival_probabilities(arrivals_left, left, cars)),
            ),
            Shift(
                "right",
                Noise(
                    "come", cars, lambda right: _arrival_probabilities(arrivals_right, right, cars)
                ),
            ),
        ],
        action_name="lights",
    )
    return mdp.with_start(0)


def _arrival_probabilities(mean: float, there: np.ndarray, cars: range) -> np.ndarray:
    """(..., cars) Poisson probabilities of k more cars, given that there is space for them."""
    k = np.array(cars)
    weights = np.cumprod(np.where(k > 0, mean / np.maximum(k, 1), 1.0))
    weights = np.where(there + k <= k[-1], weights, 0.0)  # there: (..., 1)
    return weights / weights.sum(axis=-1, keepdims=True)


traffic_intersection = Problem(
    "traffic_intersection",
    "When to switch the lights at a crossing",
    _model,
    parameters=(
        Integer("max_cars", 5, "cars that fit on each side", low=0, high=100),
        Integer("max_wait", 5, "where the count of red periods ends", low=0, high=30),
        Number("arrivals_left", 0.1, "mean arrivals from the left", **MEAN),
        Number("arrivals_right", 0.5, "mean arrivals from the right", **MEAN),
        Number("wait_cost", 0.1, "of a car on red, times 2^wait", **PRICE),
        Number("switch_cost", 2.0, "cost of a switch", **PRICE),
        Number("discount", 0.99, "worth of the next period", **DISCOUNT),
    ),
    axes={
        "green": "the side that has green",
        "left": "cars on the left side",
        "right": "cars on the right side",
        "wait": "periods that red has lasted",
    },
)
