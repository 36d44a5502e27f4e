"""Stock that perishes: one product, platelets at a hospital, and two products."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Noise, Pay, truncated_poisson
from tessella.problems.problem import (
    DISCOUNT,
    PRICE,
    Problem,
    Theory,
    choice,
    integer,
    number,
    numbers,
)
from tessella.problems.shared import label_index
from tessella.rounding import portable_exp


def issue_stock(
    stocks: Iterable[str], amounts: Mapping[str, NDArray], demand: NDArray
) -> tuple[dict[str, NDArray], NDArray]:
    """What demand leaves of each stock when it takes them in this order, and the demand not met."""
    remaining = {}
    for name in stocks:
        used = np.minimum(amounts[name], demand)
        remaining[name] = amounts[name] - used
        demand = demand - used
    return remaining, demand


def _perishable_model(
    life: int = integer(2, "m: days that a unit lasts from its arrival", low=1, high=6),
    lead_time: int = integer(1, "L: periods from an order to its arrival", low=1, high=6),
    issuing: str = choice("FIFO", "oldest units first, or newest", ("FIFO", "LIFO")),
    max_order: int = integer(10, "the largest order", low=0, high=100),
    demand_mean: float = number(4.0, "mean demand before rounding", above=0.0, high=1000.0),
    demand_variation: float = number(0.5, "its coefficient of variation", above=0.0, high=10.0),
    max_demand: int = integer(40, "the tail of the demand is put on it", low=0, high=10_000),
    unit_cost: float = number(3.0, "c: cost of a unit ordered", **PRICE),
    shortage_cost: float = number(5.0, "b: cost of a sale lost", **PRICE),
    waste_cost: float = number(7.0, "w: cost of a unit wasted", **PRICE),
    holding_cost: float = number(1.0, "h: cost of a unit kept", **PRICE),
    discount: float = number(0.99, "worth of the next period", **DISCOUNT),
) -> MDP:
    """Perishable stock with a lead time (De Moor, Gijsbrechts and Boute 2022).

    State: stock by remaining life m..1, and orders of the last L - 1 periods, latest first. An
    order is placed; demand D (gamma, rounded to whole units) takes the oldest units first, or the
    newest; what has one day of life left and is not taken is wasted; lives shorten, and the order
    placed L - 1 periods before, or now if L is 1, arrives with m days of life. One period costs

        c order + h kept + w wasted + b (D - stock)^+.
    """
    stocks = [f"life{left}" for left in range(life, 0, -1)]
    transit = [f"transit{ago}" for ago in range(1, lead_time)]
    issue_order = stocks if issuing == "LIFO" else stocks[::-1]

    def costs(demand, **names):
        left, _ = issue_stock(issue_order, names, demand)
        kept = sum((left[name] for name in stocks[:-1]), 0)
        short = np.maximum(demand - sum(names[name] for name in stocks), 0)
        return holding_cost * kept + waste_cost * left["life1"] + shortage_cost * short

    def wasted(demand, **names):
        return issue_stock(issue_order, names, demand)[0]["life1"]

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
                counts={
                    "demand": lambda demand: demand,
                    "lost": lambda demand, **names: issue_stock(stocks, names, demand)[1],
                    "wasted": wasted,
                },
            ),
            Jump(Noise("end", (0,), (1.0,)), to=arrive),
        ],
        action_name="order",
    ).with_measures(fill_rate="1 - lost / demand", waste="wasted / (wasted + demand - lost)")


def rounded_gamma_probabilities(mean: float, variation: float, largest: int) -> np.ndarray:
    """(largest + 1,) probabilities of a gamma quantity rounded to the nearest whole number."""
    from scipy.stats import gamma

    shape = 1 / variation**2
    below = gamma.cdf(np.arange(largest) + 0.5, shape, scale=mean / shape)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


perishable = Problem(
    "perishable",
    "Perishable stock with a lead time (De Moor et al. 2022)",
    _perishable_model,
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


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DEMAND_SHAPES = (3.5, 11.0, 7.2, 11.1, 5.9, 5.5, 2.2)
DEMAND_MEANS = (5.7, 6.9, 6.5, 6.2, 5.8, 3.3, 3.4)


def _platelets_model(
    life_logits: Sequence[float] = numbers(
        (1.0, 0.5), "c0: logits of 2..m days of life", low=-20, high=20
    ),
    order_logits: Sequence[float] = numbers(
        (0.4, 0.8), "c1: what an ordered unit adds", low=-5, high=5
    ),
    most: int = integer(20, "largest order, demand and stock of an age", low=0, high=20),
    fixed_cost: float = number(10.0, "K: cost of an order", **PRICE),
    shortage_cost: float = number(20.0, "b: cost of a unit of demand not met", **PRICE),
    waste_cost: float = number(5.0, "w: cost of a unit wasted", **PRICE),
    holding_cost: float = number(1.0, "h: cost of a unit that demand left", **PRICE),
    discount: float = number(0.95, "worth of the next day", **DISCOUNT),
) -> MDP:
    """Platelets at a hospital, by weekday (Mirjalili 2022, Canadian data).

    State: weekday, and stock by remaining life 1..m - 1 days. Units ordered arrive at once, with
    lives that are multinomial with logits 0 for one day and c0 + c1 order for 2..m; demand by
    weekday is negative binomial and takes the oldest first; a period costs

        K 1{order > 0} + b short + w wasted + h left,

    left being what demand did not take, with what had one day and is then wasted; every stock is
    capped. Lives are drawn one after the other: of the units whose life is not known yet, a
    binomial part has k days.
    """
    days = len(life_logits) + 1
    lives = [f"life{k}" for k in range(1, days)]
    amounts = range(most + 1)
    demand_probabilities = _platelet_demand(most)

    def split_by_life(k: int):
        """Of the units whose life is not known yet, those with k days."""

        def law(fresh, order):
            later = zip(life_logits, order_logits, strict=True)
            logits = [0 * order, *(c0 + c1 * order for c0, c1 in later)]
            weights = portable_exp(logits[k - 1 :] - np.max(logits[k - 1 :], axis=0))
            from scipy.stats import binom

            return binom.pmf(np.arange(most + 1), fresh, weights[0] / weights.sum(axis=0))

        def to(part, fresh, **names):
            name = lives[k - 1]
            return {
                "fresh": np.maximum(fresh - part, 0),
                name: np.minimum(names[name] + part, most),
            }

        return Jump(Noise("part", amounts, law), to=to)

    def remaining_stocks(demand, fresh, **names):
        """Stocks after demand, the oldest first, the freshest last."""
        remaining, _ = issue_stock((*lives, "fresh"), names | {"fresh": fresh}, demand)
        return list(remaining.values())

    def wasted(demand, fresh, **names):
        return remaining_stocks(demand, fresh, **names)[0]

    def lost(demand, fresh, **names):
        return np.maximum(demand - fresh - sum(names[name] for name in lives), 0)

    def costs(demand, fresh, **names):
        stocks = remaining_stocks(demand, fresh, **names)
        short = lost(demand, fresh, **names)
        return shortage_cost * short + waste_cost * stocks[0] + holding_cost * sum(stocks)

    def end(demand, weekday, fresh, **names):
        _, *kept = remaining_stocks(demand, fresh, **names)
        following = np.roll(WEEKDAYS, -1)[label_index(WEEKDAYS, weekday)]
        return {"weekday": following} | dict(zip(lives, kept, strict=True))

    return MDP.staged(
        {"weekday": WEEKDAYS} | dict.fromkeys(lives, amounts),
        amounts,
        discount,
        [
            Decide("fresh", to=lambda order: order, costs=lambda order: fixed_cost * (order > 0)),
            *(split_by_life(k) for k in range(1, days)),
            Jump(
                Noise(
                    "demand",
                    amounts,
                    lambda weekday: demand_probabilities[label_index(WEEKDAYS, weekday)[..., 0]],
                ),
                to=end,
                costs=costs,
                counts={"demand": lambda demand: demand, "lost": lost, "wasted": wasted},
            ),
        ],
        scratch={"fresh": amounts},
        action_name="order",
    ).with_measures(fill_rate="1 - lost / demand", waste="wasted / (wasted + demand - lost)")


def _platelet_demand(max_demand: int) -> np.ndarray:
    """(weekdays, most + 1), the tail put on the largest."""
    from scipy.stats import nbinom

    n = np.array(DEMAND_SHAPES)[:, None]
    mean = np.array(DEMAND_MEANS)[:, None]
    probabilities = nbinom.pmf(np.arange(max_demand + 1), n, n / (n + mean))
    probabilities[:, -1] += 1 - probabilities.sum(axis=1)
    return probabilities


platelets = Problem(
    "platelets",
    "Platelets by remaining life and weekday (Mirjalili 2022)",
    _platelets_model,
    axes={"weekday": "the day of the decision", "life#": "units in stock, days of life left: #"},
)


def _two_products_model(
    life: int = integer(2, "m: days that a unit lasts from its arrival", low=1, high=4),
    max_order_a: int = integer(5, "the largest order of a", low=0, high=30),
    max_order_b: int = integer(5, "the largest order of b", low=0, high=30),
    demand_a: float = number(2.5, "mean demand for a", low=0.0, high=100.0),
    demand_b: float = number(2.5, "mean demand for b", low=0.0, high=100.0),
    max_demand: int = integer(15, "the tail of each demand is put on it", low=0, high=1000),
    substitution: float = number(
        0.5, "s: chance that who finds no b takes an a", low=0.0, high=1.0
    ),
    price_a: float = number(1.0, "p_a: paid for a unit of a", **PRICE),
    price_b: float = number(1.0, "p_b: paid for a unit of b", **PRICE),
    unit_cost_a: float = number(0.5, "c_a: cost of a unit of a ordered", **PRICE),
    unit_cost_b: float = number(0.5, "c_b: cost of a unit of b ordered", **PRICE),
) -> MDP:
    """Two perishable products, one of which may take the other's place (Hendrix et al. 2019).

    State: units of a and of b by days of life left, m..1. Demands for both are Poisson and take the
    oldest units first. Each of the D_b - b customers who find no b takes an a instead with chance
    s,

        U ~ binomial((D_b - b)^+, s),        a sold = min(D_a + U, a),        b sold = min(D_b, b).

    What has one day left and is not sold is lost, lives shorten, and what was ordered at the
    beginning of the period arrives with m days. A period earns

        p_a a sold + p_b b sold - c_a order a - c_b order b.

    Each demand moves the stock of its own product alone, and how many still want an a is an axis of
    the period (``unmet``); so a stage is a matrix on the ages of one product
    (``mdp.stages.joint``), and no array holds pairs of states, or states by orders, or states by
    demand.
    """
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

    def sold_b(wanted_b, **names):
        return np.minimum(wanted_b, sum(names[name] for name in of_b))

    def sold_a(wanted_a, unmet, **names):
        return np.minimum(wanted_a + unmet, sum(names[name] for name in of_a))

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
                pays=lambda **names: price_b * sold_b(**names),
                counts={"demand": lambda wanted_b: wanted_b, "sold": sold_b},
            ),
            Jump(Noise("willing", wanted, willing), to=lambda willing: {"unmet": willing}),
            Jump(
                Noise("wanted_a", wanted, truncated_poisson(demand_a, max_demand)),
                to=sell_a,
                pays=lambda **names: price_a * sold_a(**names),
                counts={"demand": lambda wanted_a: wanted_a, "sold": sold_a},
            ),
            *(_shift_life(*pair) for line in pairwise(lines) for pair in zip(*line, strict=True)),
        ],
        scratch={"unmet": wanted},
        action_name="orders",
    ).with_measures(fill_rate="sold / demand")


def _shift_life(axis: str, source: str) -> Decide:
    """Everything moves on by one place: from the order to the shelf, and along it."""
    return Decide(axis, to=lambda **names: names[source])


def _sell_oldest_first(
    stocks: list[str], names: dict[str, np.ndarray], wanted: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What demand leaves of the stocks that last, and the demand that is not met."""
    remaining, unmet = issue_stock(reversed(stocks), names, wanted)
    return {name: remaining[name] for name in stocks[:-1]}, unmet


two_products = Problem(
    "two_products",
    "Two perishable products, one in place of the other (Hendrix et al. 2019)",
    _two_products_model,
    axes={
        "a#": "units of product a in stock, days of life left: #",
        "b#": "units of product b in stock, days of life left: #",
    },
)
