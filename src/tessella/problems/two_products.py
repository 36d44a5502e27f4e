"""Two perishable products, one of which may take the other's place (Hendrix et al. 2019).

State: units of a and of b by days of life left, m..1. Demands for both are Poisson and take the
oldest units first. Each of the D_b - b customers who find no b takes an a instead with chance s,

    U ~ binomial((D_b - b)^+, s),        a sold = min(D_a + U, a),        b sold = min(D_b, b).

What has one day left and is not sold is lost, lives shorten, and what was ordered at the beginning
of the period arrives with m days. A period earns

    p_a a sold + p_b b sold - c_a order a - c_b order b.

Each demand moves the stock of its own product alone, and how many still want an a is an axis
of the period (``unmet``); so a stage is a matrix on the ages of one product (``mdp.stages.joint``),
and no array holds pairs of states, or states by orders, or states by demand.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Noise, Pay, truncated_poisson
from tessella.problems.problem import PRICE, Integer, Number, Problem
from tessella.problems.shared import issue_stock


def _model(
    life: int,
    max_order_a: int,
    max_order_b: int,
    demand_a: float,
    demand_b: float,
    max_demand: int,
    substitution: float,
    price_a: float,
    price_b: float,
    unit_cost_a: float,
    unit_cost_b: float,
) -> MDP:
    ages = range(life, 0, -1)
    of_a = [f"a{left}" for left in ages]
    of_b = [f"b{left}" for left in ages]
    wanted = range(max_demand + 1)

    def sell_b(wanted_b, **names):
        left, unmet = _sell_oldest_first(of_b, names, wanted_b)
        return left | {"unmet": unmet}

    def willing(unmet):
        from scipy.stats import binom

        return binom.pmf(np.arange(max_demand + 1), unmet, substitution)

    def sell_a(wanted_a, unmet, **names):
        return _sell_oldest_first(of_a, names, wanted_a + unmet)[0]

    def earned_b(wanted_b, **names):
        return price_b * np.minimum(wanted_b, _total_stock(of_b, names))

    def earned_a(wanted_a, unmet, **names):
        return price_a * np.minimum(wanted_a + unmet, _total_stock(of_a, names))

    lines = zip([*reversed(of_a), "order_a"], [*reversed(of_b), "order_b"], strict=True)
    return MDP.staged(
        dict.fromkeys(of_a, range(max_order_a + 1)) | dict.fromkeys(of_b, range(max_order_b + 1)),
        {"order_a": range(max_order_a + 1), "order_b": range(max_order_b + 1)},
        Average(),
        [
            Pay(costs=lambda order_a, order_b: unit_cost_a * order_a + unit_cost_b * order_b),
            Jump(
                Noise("wanted_b", wanted, truncated_poisson(demand_b, max_demand)),
                to=sell_b,
                pays=earned_b,
            ),
            Jump(Noise("willing", wanted, willing), to=lambda willing: {"unmet": willing}),
            Jump(
                Noise("wanted_a", wanted, truncated_poisson(demand_a, max_demand)),
                to=sell_a,
                pays=earned_a,
            ),
            *(_shift_life(*pair) for line in pairwise(lines) for pair in zip(*line, strict=True)),
        ],
        scratch={"unmet": wanted},
        action_name="orders",
    )


def _shift_life(axis: str, source: str) -> Decide:
    """Everything moves on by one place: from the order to the shelf, and along it."""
    return Decide(axis, to=lambda **names: names[source])


def _total_stock(stocks: list[str], names: dict[str, np.ndarray]) -> np.ndarray:
    return sum((names[name] for name in stocks[1:]), names[stocks[0]])


def _sell_oldest_first(
    stocks: list[str], names: dict[str, np.ndarray], wanted: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What demand leaves of the stocks that last, and the demand that is not met."""
    remaining, unmet = issue_stock(reversed(stocks), names, wanted)
    return {name: remaining[name] for name in stocks[:-1]}, unmet


two_products = Problem(
    "two_products",
    "Two perishable products, one in place of the other (Hendrix et al. 2019)",
    _model,
    parameters=(
        Integer("life", 2, "m: days that a unit lasts from its arrival", low=1, high=4),
        Integer("max_order_a", 5, "the largest order of a", low=0, high=30),
        Integer("max_order_b", 5, "the largest order of b", low=0, high=30),
        Number("demand_a", 2.5, "mean demand for a", low=0.0, high=100.0),
        Number("demand_b", 2.5, "mean demand for b", low=0.0, high=100.0),
        Integer("max_demand", 15, "the tail of each demand is put on it", low=0, high=1000),
        Number("substitution", 0.5, "s: chance that who finds no b takes an a", low=0.0, high=1.0),
        Number("price_a", 1.0, "p_a: paid for a unit of a", **PRICE),
        Number("price_b", 1.0, "p_b: paid for a unit of b", **PRICE),
        Number("unit_cost_a", 0.5, "c_a: cost of a unit of a ordered", **PRICE),
        Number("unit_cost_b", 0.5, "c_b: cost of a unit of b ordered", **PRICE),
    ),
    axes={
        "a#": "units of product a in stock, days of life left: #",
        "b#": "units of product b in stock, days of life left: #",
    },
)
