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
from tessella.problems.nonlinearity import LAZY_WALK, regime_mean


def inventory(
    *,
    max_stock: int = 32,
    max_regime: int = 24,
    orders: Sequence[int] = (0, 4, 8, 12, 16),
    demand_base: float = 1.8,
    demand_slope: float = 0.36,
    nonlinearity: str = "mixed",
    strength: float = 1.0,
    max_demand: int = 55,
    unit_cost: float = 0.25,
    fixed_cost: float = 0.20,
    holding_cost: float = 0.08,
    shortage_cost: float = 1.55,
    discount: float = 0.95,
    observation_noise: float = 0.45,
    name: str = "inventory",
) -> MDP:
    """The paper's inventory model; the defaults are INV-Mix.

    Args:
        max_stock, max_regime: x_max and z_max; the grid is (0..x_max) x (0..z_max).
        orders: the actions.
        demand_base, demand_slope: b and beta_z of the mean demand.
        nonlinearity, strength: g and its factor.
        max_demand: d_max; the tail of the demand is put on it.
        unit_cost, fixed_cost, holding_cost, shortage_cost: c_o, K, h, p.
        observation_noise: sigma of the coordinates in a training sample; not part of the model.
    """
    parameters = {key: value for key, value in locals().items() if key != "name"}
    parameters["orders"] = list(orders)

    def demand_law(regime):
        mean = regime_mean(regime, max_regime, demand_base, demand_slope, nonlinearity, strength)
        return truncated_poisson(mean, max_demand)

    steps, probabilities = LAZY_WALK
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
                Noise("demand", range(max_demand + 1), demand_law),
                by=lambda demand: -demand,
                pays=lambda stock, demand: (
                    -(
                        holding_cost * np.maximum(stock - demand, 0)
                        + shortage_cost * np.maximum(demand - stock, 0)
                    )
                ),
            ),
            Shift("regime", Noise("drift", steps, probabilities)),
        ],
        action_name="order",
        name=name,
        parameters=parameters,
    )
