"""Platelets at a hospital, by weekday (Mirjalili 2022, Canadian data).

State: weekday, and stock by remaining life 1..m - 1 days. Units ordered arrive at once, with lives
that are multinomial with logits 0 for one day and c0 + c1 order for 2..m; demand by weekday is
negative binomial and takes the oldest first; a period costs

    K 1{order > 0} + b short + w wasted + h left,

left being what demand did not take, with what had one day and is then wasted; every stock is
capped. Lives are drawn one after the other: of the units whose life is not known yet, a binomial
part has k days.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Noise
from tessella.problems.problem import DISCOUNT, PRICE, Integer, Number, Numbers, Problem
from tessella.problems.shared import issue_stock, label_index

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DEMAND_SHAPES = (3.5, 11.0, 7.2, 11.1, 5.9, 5.5, 2.2)
DEMAND_MEANS = (5.7, 6.9, 6.5, 6.2, 5.8, 3.3, 3.4)


def _model(
    life_logits: Sequence[float],
    order_logits: Sequence[float],
    most: int,
    fixed_cost: float,
    shortage_cost: float,
    waste_cost: float,
    holding_cost: float,
    discount: float,
) -> MDP:
    days = len(life_logits) + 1
    lives = [f"life{k}" for k in range(1, days)]
    amounts = range(most + 1)
    demand_probabilities = _demand_probabilities(most)

    def split_by_life(k: int):
        """Of the units whose life is not known yet, those with k days."""

        def law(fresh, order):
            later = zip(life_logits, order_logits, strict=True)
            logits = [0 * order, *(c0 + c1 * order for c0, c1 in later)]
            weights = np.exp(logits[k - 1 :] - np.max(logits[k - 1 :], axis=0))
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

    def costs(demand, fresh, **names):
        stocks = remaining_stocks(demand, fresh, **names)
        short = np.maximum(demand - fresh - sum(names[name] for name in lives), 0)
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
            ),
        ],
        scratch={"fresh": amounts},
        action_name="order",
    )


def _demand_probabilities(max_demand: int) -> np.ndarray:
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
    _model,
    parameters=(
        Numbers("life_logits", (1.0, 0.5), "c0: logits of 2..m days of life", low=-20, high=20),
        Numbers("order_logits", (0.4, 0.8), "c1: what an ordered unit adds", low=-5, high=5),
        Integer("most", 20, "largest order, demand and stock of an age", low=0, high=20),
        Number("fixed_cost", 10.0, "K: cost of an order", **PRICE),
        Number("shortage_cost", 20.0, "b: cost of a unit of demand not met", **PRICE),
        Number("waste_cost", 5.0, "w: cost of a unit wasted", **PRICE),
        Number("holding_cost", 1.0, "h: cost of a unit that demand left", **PRICE),
        Number("discount", 0.95, "worth of the next day", **DISCOUNT),
    ),
    axes={"weekday": "the day of the decision", "life#": "units in stock, days of life left: #"},
)
