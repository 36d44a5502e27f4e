"""Perishable stock with a lead time (De Moor, Gijsbrechts and Boute 2022).

State: stock by remaining life m..1, and orders of the last L - 1 periods, latest first. An order is
placed; demand D (gamma, rounded to whole units) takes the oldest units first, or the newest; what
has one day of life left and is not taken is wasted; lives shorten, and the order placed L - 1
periods before, or now if L is 1, arrives with m days of life. One period costs

    c order + h kept + w wasted + b (D - stock)^+.
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Jump, Noise, Pay
from tessella.problems.problem import DISCOUNT, PRICE, Choice, Integer, Number, Problem, Theory
from tessella.problems.shared import issue_stock


def _model(
    life: int,
    lead_time: int,
    issuing: str,
    max_order: int,
    demand_mean: float,
    demand_variation: float,
    max_demand: int,
    unit_cost: float,
    shortage_cost: float,
    waste_cost: float,
    holding_cost: float,
    discount: float,
) -> MDP:
    stocks = [f"life{left}" for left in range(life, 0, -1)]
    transit = [f"transit{ago}" for ago in range(1, lead_time)]
    issue_order = stocks if issuing == "LIFO" else stocks[::-1]

    def costs(demand, **names):
        left, _ = issue_stock(issue_order, names, demand)
        kept = sum((left[name] for name in stocks[:-1]), 0)
        short = np.maximum(demand - sum(names[name] for name in stocks), 0)
        return holding_cost * kept + waste_cost * left["life1"] + shortage_cost * short

    def arrive(order, end, **names):
        """Everything moves on by one place: from the order through transit to the shelf."""
        line = [*transit, *stocks]
        before = [order, *(names[name] for name in line[:-1])]
        return dict(zip(line, before, strict=True))

    amounts = range(max_order + 1)
    law = rounded_gamma_probabilities(demand_mean, demand_variation, max_demand)
    return MDP.staged(
        dict.fromkeys((*stocks, *transit), amounts),
        amounts,
        discount,
        [
            Pay(costs=lambda order: unit_cost * order),
            Jump(
                Noise("demand", range(max_demand + 1), law),
                to=lambda demand, **names: issue_stock(issue_order, names, demand)[0],
                costs=costs,
            ),
            Jump(Noise("end", (0,), (1.0,)), to=arrive),
        ],
        action_name="order",
    )


def rounded_gamma_probabilities(mean: float, variation: float, largest: int) -> np.ndarray:
    """(largest + 1,) probabilities of a gamma quantity rounded to the nearest whole number."""
    from scipy.stats import gamma

    shape = 1 / variation**2
    below = gamma.cdf(np.arange(largest) + 0.5, shape, scale=mean / shape)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


perishable = Problem(
    "perishable",
    "Perishable stock with a lead time (De Moor et al. 2022)",
    _model,
    parameters=(
        Integer("life", 2, "m: days that a unit lasts from its arrival", low=1, high=6),
        Integer("lead_time", 1, "L: periods from an order to its arrival", low=1, high=6),
        Choice("issuing", "FIFO", "oldest units first, or newest", ("FIFO", "LIFO")),
        Integer("max_order", 10, "the largest order", low=0, high=100),
        Number("demand_mean", 4.0, "mean demand before rounding", above=0.0, high=1000.0),
        Number("demand_variation", 0.5, "its coefficient of variation", above=0.0, high=10.0),
        Integer("max_demand", 40, "the tail of the demand is put on it", low=0, high=10_000),
        Number("unit_cost", 3.0, "c: cost of a unit ordered", **PRICE),
        Number("shortage_cost", 5.0, "b: cost of a sale lost", **PRICE),
        Number("waste_cost", 7.0, "w: cost of a unit wasted", **PRICE),
        Number("holding_cost", 1.0, "h: cost of a unit kept", **PRICE),
        Number("discount", 0.99, "worth of the next period", **DISCOUNT),
    ),
    axes={
        "life#": "units in stock, days of life left: #",
        "transit#": "units under way, periods since they were ordered: #",
    },
    theory=(
        Theory(
            "monotone in life2", "the more there is of an age, the less is ordered (Fries 1975)"
        ),
        Theory("monotone in life1", "and most so of the freshest (Nahmias 1975)"),
    ),
)
