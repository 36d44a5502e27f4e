"""Dual sourcing: a cheap supplier who is slow, and an express one (Gijsbrechts et al. 2022).

State: net stock, what is due now included, and the l - 1 regular orders under way, the next first.
Express units arrive at once, regular ones after l periods; unmet demand waits. One period costs

    c_r regular + c_e express + h (stock + express - D)^+ + b (D - stock - express)^+.
"""

from __future__ import annotations

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Noise, Shift
from tessella.problems.problem import PRICE, Integer, Number, Problem


def _model(
    lead_time: int,
    max_demand: int,
    min_stock: int,
    max_stock: int,
    max_order: int,
    regular_cost: float,
    express_cost: float,
    holding_cost: float,
    backlog_cost: float,
) -> MDP:
    due = [f"due{k}" for k in range(1, lead_time)]

    def costs(stock, demand):
        left = stock - demand
        return holding_cost * np.maximum(left, 0) + backlog_cost * np.maximum(-left, 0)

    def arrive(stock, regular, end, **names):
        line = [*(names[name] for name in due), regular]
        there = np.minimum(stock + line[0], max_stock)
        return {"stock": there} | dict(zip(due, line[1:], strict=True))

    orders = range(max_order + 1)
    return MDP.staged(
        {"stock": range(min_stock, max_stock + 1)} | dict.fromkeys(due, orders),
        {"express": orders, "regular": orders},
        Average(),
        [
            Decide(
                "stock",
                to=lambda stock, express: np.minimum(stock + express, max_stock),
                costs=lambda express, regular: express_cost * express + regular_cost * regular,
            ),
            Shift(
                "stock",
                Noise(
                    "demand", range(max_demand + 1), np.full(max_demand + 1, 1 / (max_demand + 1))
                ),
                by=lambda demand: -demand,
                costs=costs,
            ),
            Jump(Noise("end", (0,), (1.0,)), to=arrive),
        ],
        action_name="orders",
    )


dual_sourcing = Problem(
    "dual_sourcing",
    "A slow supplier and an express one (Gijsbrechts et al. 2022)",
    _model,
    parameters=(
        Integer("lead_time", 2, "l: periods until a regular order arrives", low=1, high=5),
        Integer("max_demand", 4, "demand is uniform on 0..this", low=0, high=50),
        Integer("min_stock", -5, "where the backlog is cut off", low=-200, high=0),
        Integer("max_stock", 12, "where the stock is cut off", low=0, high=200),
        Integer("max_order", 5, "largest order from each supplier", low=0, high=50),
        Number("regular_cost", 100.0, "c_r: cost of a regular unit", **PRICE),
        Number("express_cost", 105.0, "c_e: cost of an express unit", **PRICE),
        Number("holding_cost", 5.0, "h: cost of a unit left over", **PRICE),
        Number("backlog_cost", 495.0, "b: cost of a unit of demand that waits", **PRICE),
    ),
    axes={
        "stock": "units on hand, or owed where it is negative",
        "due#": "units under way from the slow supplier, place in the line of arrivals: #",
    },
)
