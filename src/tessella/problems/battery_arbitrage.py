"""A battery in a market whose prices come in regimes: when to buy and when to sell.

State: charge 0..n and price. Buy (+) or sell (-) so many units at that price; what is sold loses a
part on the way, and each unit moved wears the battery. The price takes a lazy walk that is drawn to
the middle.
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Move
from tessella.problems.problem import CHANCE, DISCOUNT, PRICE, Integer, Number, Problem, Theory


def _model(
    capacity: int,
    regimes: int,
    largest_trade: int,
    middle_price: float,
    price_step: float,
    efficiency: float,
    wear_cost: float,
    reversion: float,
    discount: float,
) -> MDP:
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
    _model,
    parameters=(
        Integer("capacity", 20, "n: what the battery holds", low=0, high=100_000),
        Integer("regimes", 15, "prices", low=1, high=10_000),
        Integer("largest_trade", 4, "units bought or sold in a period", low=0, high=1000),
        Number("middle_price", 10.0, "price in the middle regime", **PRICE),
        Number("price_step", 1.0, "from one regime to the next", low=0.001, high=1e6),
        Number("efficiency", 0.85, "what is left of a unit sold", **CHANCE),
        Number("wear_cost", 0.1, "of a unit bought or sold", **PRICE),
        Number("reversion", 0.6, "how strongly prices are drawn to the middle", **CHANCE),
        Number("discount", 0.99, "worth of the next period", **DISCOUNT),
    ),
    axes={"charge": "units of power in the battery", "price": "the price of a unit of power"},
    theory=(
        Theory("monotone in charge", "the fuller it is, the less is bought and the more sold"),
        Theory("monotone in price", "the dearer it is, the more is sold (Secomandi 2010)"),
    ),
)
