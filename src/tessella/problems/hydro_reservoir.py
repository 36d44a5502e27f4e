"""A hydro reservoir through the seasons: how much to release for power.

State: level, on cut points, and month. Water released earns price(month) x water x head, the head
rising with the level; then water flows in, by month wet or dry, and what does not fit is spilled.
Below a reserve a shortfall costs. Levels between cut points are interpolated.
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Shift
from tessella.problems.problem import DISCOUNT, PRICE, Integer, Number, Problem, Theory
from tessella.problems.shared import label_index

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
INFLOW_BY_MONTH = (0.4, 0.4, 0.7, 1.5, 2.6, 2.4, 1.5, 0.9, 0.7, 0.7, 0.6, 0.5)  # snow melts in May
PRICE_BY_MONTH = (1.5, 1.4, 1.2, 1.0, 0.8, 0.7, 0.8, 0.8, 0.9, 1.0, 1.2, 1.4)  # winter is dear
INFLOW_FACTORS = (0.3, 0.7, 1.0, 1.4, 1.9)  # of the month's mean inflow
INFLOW_FACTOR_PROBABILITIES = (0.15, 0.25, 0.25, 0.2, 0.15)


def _model(
    cuts: int,
    capacity: float,
    releases: int,
    largest_release: float,
    head: float,
    reserve: float,
    shortfall_cost: float,
    discount: float,
) -> MDP:
    inflow = np.array(INFLOW_BY_MONTH)
    price = np.array(PRICE_BY_MONTH)
    amounts = np.unique(np.outer(inflow, INFLOW_FACTORS).round(6))
    inflow_probabilities = _inflow_probabilities(inflow, amounts)

    def pays(level, month, release):
        power = release * (1 + head * level / capacity)
        short = np.maximum(reserve - (level - release), 0)
        return price[label_index(MONTHS, month)] * power - shortfall_cost * short

    return MDP.staged(
        {"level": np.linspace(0.0, capacity, cuts).tolist(), "month": MONTHS},
        tuple(np.linspace(0.0, largest_release, releases).tolist()),
        discount,
        [
            Decide(
                "level",
                to=lambda level, release: np.maximum(level - release, 0.0),
                pays=pays,
                between="interpolate",
            ),
            Shift(
                "level",
                Noise(
                    "inflow",
                    amounts,
                    lambda month: inflow_probabilities[label_index(MONTHS, month)[..., 0]],
                ),
                between="interpolate",
            ),
            Shift("month", Noise("turn", (1,), (1.0,)), edge="wrap"),
        ],
        feasible=lambda level, release: (release == 0) | (release <= level),
        action_name="release",
    )


def _inflow_probabilities(inflow: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """(months, amounts) probabilities of what flows in."""
    probabilities = np.zeros((len(inflow), len(amounts)))
    for month, mean in enumerate(inflow):
        indices = np.searchsorted(amounts, np.multiply(INFLOW_FACTORS, mean).round(6))
        np.add.at(probabilities[month], indices, INFLOW_FACTOR_PROBABILITIES)
    return probabilities


hydro_reservoir = Problem(
    "hydro_reservoir",
    "How much water to release, through the seasons",
    _model,
    parameters=(
        Integer("cuts", 81, "cut points of the level", low=2, high=100_000),
        Number("capacity", 10.0, "the level at which the reservoir is full", above=0.0, high=1e6),
        Integer("releases", 9, "releases that can be chosen", low=1, high=1000),
        Number("largest_release", 2.4, "in a month", above=0.0, high=1e6),
        Number("head", 0.5, "what a full reservoir adds to the worth of water", **PRICE),
        Number("reserve", 1.5, "the level below which there is a shortfall", low=0.0, high=1e6),
        Number("shortfall_cost", 4.0, "for each unit below the reserve", **PRICE),
        Number("discount", 0.99, "worth of the next month", **DISCOUNT),
    ),
    axes={"level": "water in the reservoir", "month": "the month of the decision"},
    theory=(Theory("monotone in level", "the fuller it is, the more is released (Little 1955)"),),
)
