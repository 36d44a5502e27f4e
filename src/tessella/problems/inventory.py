"""Inventory control with lost sales under a demand regime.

State (x, z): stock and regime. Order a; stock y = min(x + a, x_max); demand D ~ Poisson(m(z)),
truncated at d_max; x' = max(y - D, 0); the regime takes a lazy reflecting walk. One period costs

    c_o a + K 1{a > 0} + h E(y - D)^+ + p E(D - y)^+,   m(z) = max(b + beta z + strength g, 0.05).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Shift, truncated_poisson
from tessella.problems.problem import (
    MEAN,
    PRICE,
    SIZE,
    SLOPE,
    Choice,
    Integer,
    Integers,
    Number,
    Problem,
    Theory,
)
from tessella.problems.shared import LAZY_WALK, NONLINEARITIES, regime_mean


def _model(
    max_stock: int,
    max_regime: int,
    orders: Sequence[int],
    demand_base: float,
    demand_slope: float,
    nonlinearity: str,
    strength: float,
    max_demand: int,
    unit_cost: float,
    fixed_cost: float,
    holding_cost: float,
    shortage_cost: float,
    discount: float,
) -> MDP:
    def demand_probabilities(regime):
        mean = regime_mean(regime, max_regime, demand_base, demand_slope, nonlinearity, strength)
        return truncated_poisson(mean, max_demand)

    return MDP.staged(
        {"stock": range(max_stock + 1), "regime": range(max_regime + 1)},
        tuple(orders),
        discount,
        [
            Decide(
                "stock",
                to=lambda stock, order: np.minimum(stock + order, max_stock),
                pays=lambda order: -(unit_cost * order + fixed_cost * (order > 0)),
            ),
            Shift(
                "stock",
                Noise("demand", range(max_demand + 1), demand_probabilities),
                by=lambda demand: -demand,
                pays=lambda stock, demand: (
                    -(
                        holding_cost * np.maximum(stock - demand, 0)
                        + shortage_cost * np.maximum(demand - stock, 0)
                    )
                ),
            ),
            Shift("regime", Noise("drift", *LAZY_WALK)),
        ],
        action_name="order",
    )


inventory = Problem(
    "inventory",
    "Inventory control with lost sales under a demand regime; the defaults are INV-Mix",
    _model,
    parameters=(
        Integer("max_stock", 32, "x_max: the stock is 0..x_max", **SIZE),
        Integer("max_regime", 24, "z_max: the regime is 0..z_max", **SIZE),
        Integers("orders", (0, 4, 8, 12, 16), "the actions", **SIZE),
        Number("demand_base", 1.8, "b: mean demand in regime 0", **MEAN),
        Number("demand_slope", 0.36, "beta_z: what a regime adds to it", **SLOPE),
        Choice("nonlinearity", "mixed", "g: how demand bends", tuple(NONLINEARITIES)),
        Number("strength", 1.0, "the factor of g", **SLOPE),
        Integer("max_demand", 55, "d_max: the tail of the demand is put on it", **SIZE),
        Number("unit_cost", 0.25, "c_o: cost of a unit ordered", **PRICE),
        Number("fixed_cost", 0.20, "K: cost of an order", **PRICE),
        Number("holding_cost", 0.08, "h: cost of a unit left over", **PRICE),
        Number("shortage_cost", 1.55, "p: cost of a sale lost", **PRICE),
        Number("discount", 0.95, "worth of the next period", low=0.0, below=1.0),
    ),
    axes={"stock": "units on hand", "regime": "state of the market, on which demand depends"},
    observation_noise=0.45,
    theory=(
        Theory("monotone in stock", "the more there is, the less is ordered"),
        Theory("(s, S) in stock", "order from s down, up to S as far as lots allow (Scarf 1960)"),
    ),
)
