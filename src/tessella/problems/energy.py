"""Power: a hydro reservoir through the seasons, and a battery in a market."""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Move, Noise, Shift
from tessella.problems.problem import CHANCE, DISCOUNT, PRICE, Problem, Theory, integer, number
from tessella.problems.shared import label_index

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
INFLOW_BY_MONTH = (0.4, 0.4, 0.7, 1.5, 2.6, 2.4, 1.5, 0.9, 0.7, 0.7, 0.6, 0.5)  # snow melts in May
PRICE_BY_MONTH = (1.5, 1.4, 1.2, 1.0, 0.8, 0.7, 0.8, 0.8, 0.9, 1.0, 1.2, 1.4)  # winter is dear
INFLOW_FACTORS = (0.3, 0.7, 1.0, 1.4, 1.9)  # of the month's mean inflow
INFLOW_FACTOR_PROBABILITIES = (0.15, 0.25, 0.25, 0.2, 0.15)


def _hydro_reservoir_model(
    cuts: int = integer(81, "cut points of the level", low=2, high=100_000),
    capacity: float = number(10.0, "the level at which the reservoir is full", above=0.0, high=1e6),
    releases: int = integer(9, "releases that can be chosen", low=1, high=1000),
    largest_release: float = number(2.4, "in a month", above=0.0, high=1e6),
    head: float = number(0.5, "what a full reservoir adds to the worth of water", **PRICE),
    reserve: float = number(1.5, "the level below which there is a shortfall", low=0.0, high=1e6),
    shortfall_cost: float = number(4.0, "for each unit below the reserve", **PRICE),
    discount: float = number(0.99, "worth of the next month", **DISCOUNT),
) -> MDP:
    """A hydro reservoir through the seasons: how much to release for power.

    State: level, on cut points, and month. Water released earns price(month) x water x head, the
    head rising with the level; then water flows in, by month wet or dry, and what does not fit is
    spilled. Below a reserve a shortfall costs. Levels between cut points are interpolated.
    """
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
    _hydro_reservoir_model,
    axes={"level": "water in the reservoir", "month": "the month of the decision"},
    theory=(Theory("monotone in level", "the fuller it is, the more is released (Little 1955)"),),
)


def _battery_arbitrage_model(
    capacity: int = integer(20, "n: what the battery holds", low=0, high=100_000),
    regimes: int = integer(15, "prices", low=1, high=10_000),
    largest_trade: int = integer(4, "units bought or sold in a period", low=0, high=1000),
    middle_price: float = number(10.0, "price in the middle regime", **PRICE),
    price_step: float = number(1.0, "from one regime to the next", low=0.001, high=1e6),
    efficiency: float = number(0.85, "what is left of a unit sold", **CHANCE),
    wear_cost: float = number(0.1, "of a unit bought or sold", **PRICE),
    reversion: float = number(0.6, "how strongly prices are drawn to the middle", **CHANCE),
    discount: float = number(0.99, "worth of the next period", **DISCOUNT),
) -> MDP:
    """A battery in a market whose prices come in regimes: when to buy and when to sell.

    State: charge 0..n and price. The action buys (+) or sells (-) units at that price; part of
    what is sold is lost on the way, and each unit wears the battery. The price takes a lazy walk
    that is drawn to the middle.
    """

    def pays(price, trade):
        bought = np.maximum(trade, 0)
        sold = np.maximum(-trade, 0)
        return price * (efficiency * sold - bought) - wear_cost * np.abs(trade)

    prices = middle_price + price_step * (np.arange(regimes) - (regimes - 1) / 2)
    return MDP.staged(
        {"charge": range(capacity + 1), "price": prices.round(6).tolist()},
        range(-largest_trade, largest_trade + 1),
        discount,
        [
            Decide("charge", to=lambda charge, trade: charge + trade, pays=pays),
            Move("price", _price_walk(regimes, reversion)),
        ],
        feasible=lambda charge, trade: (charge + trade >= 0) & (charge + trade <= capacity),
        action_name="trade",
    )


def _price_walk(n: int, reversion: float) -> np.ndarray:
    """A walk that steps up or down with half its time, more often towards the middle."""
    deviation = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
    up = 0.25 * (1 - reversion * deviation)
    down = 0.25 * (1 + reversion * deviation)
    rows = np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    return rows + np.diag(1 - rows.sum(axis=1))


battery_arbitrage = Problem(
    "battery_arbitrage",
    "When to charge and when to sell, at prices that come in regimes",
    _battery_arbitrage_model,
    axes={"charge": "units of power in the battery", "price": "the price of a unit of power"},
    theory=(
        Theory("monotone in charge", "the fuller it is, the less is bought and the more sold"),
        Theory("monotone in price", "the dearer it is, the more is sold (Secomandi 2010)"),
    ),
)
