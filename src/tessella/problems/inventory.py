"""Inventory control: under a demand regime, with a lead time, and from two suppliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Noise, Shift, truncated_poisson
from tessella.problems.problem import (
    MEAN,
    PRICE,
    SIZE,
    SLOPE,
    Problem,
    Theory,
    choice,
    integer,
    integers,
    number,
)
from tessella.problems.shared import LAZY_WALK, NONLINEARITIES, regime_mean


def _inventory_model(
    max_stock: int = integer(32, "x_max: the stock is 0..x_max", **SIZE),
    max_regime: int = integer(24, "z_max: the regime is 0..z_max", **SIZE),
    orders: Sequence[int] = integers((0, 4, 8, 12, 16), "the actions", **SIZE),
    demand_base: float = number(1.8, "b: mean demand in regime 0", **MEAN),
    demand_slope: float = number(0.36, "beta_z: what a regime adds to it", **SLOPE),
    nonlinearity: str = choice("mixed", "g: how demand bends", tuple(NONLINEARITIES)),
    strength: float = number(1.0, "the factor of g", **SLOPE),
    max_demand: int = integer(55, "d_max: the tail of the demand is put on it", **SIZE),
    unit_cost: float = number(0.25, "c_o: cost of a unit ordered", **PRICE),
    fixed_cost: float = number(0.20, "K: cost of an order", **PRICE),
    holding_cost: float = number(0.08, "h: cost of a unit left over", **PRICE),
    shortage_cost: float = number(1.55, "p: cost of a sale lost", **PRICE),
    discount: float = number(0.95, "worth of the next period", low=0.0, below=1.0),
) -> MDP:
    """Inventory control with lost sales under a demand regime.

    State (x, z): stock and regime. Order a; stock y = min(x + a, x_max); demand D ~ Poisson(m(z)),
    truncated at d_max; x' = max(y - D, 0); the regime takes a lazy reflecting walk. One period
    costs

      c_o a + K 1{a > 0} + h E(y - D)^+ + p E(D - y)^+,   m(z) = max(b + beta z + strength g, 0.05).
    """

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
                counts={
                    "demand": lambda demand: demand,
                    "lost": lambda stock, demand: np.maximum(demand - stock, 0),
                },
            ),
            Shift("regime", LAZY_WALK),
        ],
        action_name="order",
    ).with_measures(fill_rate="1 - lost / demand")


inventory = Problem(
    "inventory",
    "Inventory control with lost sales under a demand regime; the defaults are INV-Mix",
    _inventory_model,
    axes={"stock": "units on hand", "regime": "state of the market, on which demand depends"},
    observation_noise=0.45,
    theory=(
        Theory("monotone in stock", "the more there is, the less is ordered"),
        Theory("(s, S) in stock", "order from s down, up to S as far as lots allow (Scarf 1960)"),
    ),
)


def _lost_sales_model(
    lead_time: int = integer(2, "L: periods from an order to its arrival", low=1, high=8),
    demand: str = choice("Poisson", "the law of the demand", ("Poisson", "geometric")),
    demand_mean: float = number(5.0, "its mean", above=0.0, high=20.0),
    holding_cost: float = number(1.0, "h: cost of a unit left over", above=0.0, high=1e6),
    penalty: float = number(4.0, "p: cost of a sale lost", **PRICE),
    slack: int = integer(0, "how far axes and orders go beyond Morton's bounds", low=0, high=100),
) -> MDP:
    """Lost sales with a lead time, at average cost (Zipkin 2008).

    State: stock on hand, and the L - 1 orders under way, the next to arrive first. Order z; demand
    D;

    stock' = (stock - D)^+ + due1,  due' = (due2, ..., z),  cost h (stock - D)^+ + p (D - stock)^+.

    The axes end where no optimal policy goes: an optimal order is at most s_1 units, and never
    lifts stock and orders under way above s_(L + 1), with s_k the p / (p + h) quantile of k
    periods' demand (Morton 1969). With E(D - x)^+ = E D - x + E(x - D)^+, no tail of the demand is
    cut off.
    """
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
                counts={
                    "demand": demand_mean,
                    "lost": lambda stock, wanted: demand_mean - np.minimum(stock, wanted),
                },
            ),
            Jump(Noise("end", (0,), (1.0,)), to=arrive),
        ],
        feasible=feasible,
        action_name="order",
    ).with_measures(fill_rate="1 - lost / demand")


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
    _lost_sales_model,
    axes={"stock": "units on hand", "due#": "units under way, place in the line of arrivals: #"},
    theory=(
        Theory(
            "monotone in stock", "the more is on hand, the less is ordered (Karlin, Scarf 1958)"
        ),
        Theory(
            "monotone in due1", "and the more is under way, most so of late orders (Zipkin 2008)"
        ),
    ),
)


def _dual_sourcing_model(
    lead_time: int = integer(2, "l: periods until a regular order arrives", low=1, high=5),
    max_demand: int = integer(4, "demand is uniform on 0..this", low=0, high=50),
    min_stock: int = integer(-5, "where the backlog is cut off", low=-200, high=0),
    max_stock: int = integer(12, "where the stock is cut off", low=0, high=200),
    max_order: int = integer(5, "largest order from each supplier", low=0, high=50),
    regular_cost: float = number(100.0, "c_r: cost of a regular unit", **PRICE),
    express_cost: float = number(105.0, "c_e: cost of an express unit", **PRICE),
    holding_cost: float = number(5.0, "h: cost of a unit left over", **PRICE),
    backlog_cost: float = number(495.0, "b: cost of a unit of demand that waits", **PRICE),
) -> MDP:
    """Dual sourcing: a cheap supplier who is slow, and an express one (Gijsbrechts et al. 2022).

    State: net stock, what is due now included, and the l - 1 regular orders under way, the next
    first. Express units arrive at once, regular ones after l periods; unmet demand waits. One
    period costs

        c_r regular + c_e express + h (stock + express - D)^+ + b (D - stock - express)^+.
    """
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
                counts={
                    "demand": lambda demand: demand,
                    "late": lambda stock, demand: demand - np.clip(stock, 0, demand),
                },
            ),
            Jump(Noise("end", (0,), (1.0,)), to=arrive),
        ],
        action_name="orders",
    ).with_measures(fill_rate="1 - late / demand")


dual_sourcing = Problem(
    "dual_sourcing",
    "A slow supplier and an express one (Gijsbrechts et al. 2022)",
    _dual_sourcing_model,
    axes={
        "stock": "units on hand, or owed where it is negative",
        "due#": "units under way from the slow supplier, place in the line of arrivals: #",
    },
)
