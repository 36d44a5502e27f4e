"""Lost sales with a lead time, at average cost (Zipkin 2008).

State: stock on hand, and the L - 1 orders under way, the next to arrive first. Order z; demand D;

    stock' = (stock - D)^+ + due1,  due' = (due2, ..., z),  cost h (stock - D)^+ + p (D - stock)^+.

The axes end where no optimal policy goes: an optimal order is at most s_1 units, and never lifts
stock and orders under way above s_(L + 1), with s_k the p / (p + h) quantile of k periods' demand
(Morton 1969). With E(D - x)^+ = E D - x + E(x - D)^+, no tail of the demand is cut off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Jump, Noise, Shift
from tessella.problems.problem import PRICE, Choice, Integer, Number, Problem, Theory


def _model(
    lead_time: int,
    demand: str,
    demand_mean: float,
    holding_cost: float,
    penalty: float,
    slack: int,
) -> MDP:
    ratio = penalty / (penalty + holding_cost)
    largest = _quantile(_demand_distribution(demand, demand_mean, 1), ratio) + slack
    position = _quantile(_demand_distribution(demand, demand_mean, lead_time + 1), ratio) + slack
    due = [f"due{k}" for k in range(1, lead_time)]
    probabilities = _demand_distribution(demand, demand_mean, 1).pmf(np.arange(position + 1))
    probabilities[-1] += 1 - probabilities.sum()  # whatever empties a full stock

    def arrive(stock, order, end, **names):
        line = [*(names[name] for name in due), order]
        return {"stock": np.minimum(stock + line[0], position)} | dict(
            zip(due, line[1:], strict=True)
        )

    def costs(stock, wanted):
        left = np.maximum(stock - wanted, 0)
        return (holding_cost + penalty) * left + penalty * (demand_mean - stock)

    def feasible(stock, order, **names):
        return (order == 0) | (stock + sum(names[name] for name in due) + order <= position)

    return MDP.staged(
        {"stock": range(position + 1)} | {name: range(largest + 1) for name in due},
        range(largest + 1),
        Average(),
        [
            Shift(
                "stock",
                Noise("wanted", range(position + 1), probabilities),
                by=lambda wanted: -wanted,
                costs=costs,
            ),
            Jump(Noise("end", (0,), (1.0,)), to=arrive),
        ],
        feasible=feasible,
        action_name="order",
    )


def _demand_distribution(kind: str, mean: float, periods: int) -> Any:
    """The law of the demand of several periods."""
    from scipy.stats import nbinom, poisson

    if kind == "Poisson":
        return poisson(mean * periods)
    return nbinom(periods, 1 / (1 + mean))  # geometric from 0 on, summed


def _quantile(distribution: Any, ratio: float) -> int:
    return max(int(distribution.ppf(ratio)), 0)


lost_sales = Problem(
    "lost_sales",
    "Lost sales with a lead time, at average cost (Zipkin 2008)",
    _model,
    parameters=(
        Integer("lead_time", 2, "L: periods from an order to its arrival", low=1, high=8),
        Choice("demand", "Poisson", "the law of the demand", ("Poisson", "geometric")),
        Number("demand_mean", 5.0, "its mean", above=0.0, high=20.0),
        Number("holding_cost", 1.0, "h: cost of a unit left over", above=0.0, high=1e6),
        Number("penalty", 4.0, "p: cost of a sale lost", **PRICE),
        Integer("slack", 0, "how far axes and orders go beyond Morton's bounds", low=0, high=100),
    ),
    axes={
        "stock": "units on hand",
        "due#": "units under way, place in the line of arrivals: #",
    },
    theory=(
        Theory(
            "monotone in stock", "the more is on hand, the less is ordered (Karlin, Scarf 1958)"
        ),
        Theory(
            "monotone in due1", "and the more is under way, most so of late orders (Zipkin 2008)"
        ),
    ),
)
