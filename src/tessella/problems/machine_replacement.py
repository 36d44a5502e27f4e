"""When to replace a machine that wears, at average cost (Derman 1963).

State: wear 0..n. A machine that runs costs c wear and wears by one with probability p; a new one
costs K, and the period. Replacing from wear N on costs, by renewal,

    (K + c / p sum_{i < N} i) / (1 + N / p)    per period.
"""

from __future__ import annotations

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Shift
from tessella.problems.problem import PRICE, SIZE, Integer, Number, Problem, Theory


def _model(worst: int, wear_chance: float, running_cost: float, price: float) -> MDP:
    wear_probabilities = np.stack([1 - wear_chance, wear_chance]), (1.0, 0.0)
    return MDP.staged(
        {"wear": range(worst + 1)},
        (0, 1),
        Average(),
        [
            Shift(
                "wear",
                Noise(
                    "wears",
                    (0, 1),
                    lambda replace: np.where(
                        replace == 1, wear_probabilities[1], wear_probabilities[0]
                    ),
                ),
                costs=lambda wear, replace: np.where(replace == 1, price, running_cost * wear),
            ),
            Decide("wear", to=lambda wear, replace: np.where(replace == 1, 0, wear)),
        ],
        action_name="replace",
    )


machine_replacement = Problem(
    "machine_replacement",
    "When to replace a machine that wears",
    _model,
    parameters=(
        Integer("worst", 30, "n: the wear at which it stops wearing", **SIZE),
        Number("wear_chance", 0.4, "p: chance to wear in a period", above=0.0, high=1.0),
        Number("running_cost", 1.0, "c: cost of a period, for each step of wear", **PRICE),
        Number("price", 40.0, "K: of a new machine", **PRICE),
    ),
    axes={"wear": "how worn the machine is"},
    theory=(Theory("threshold in wear", "replace from a wear on (Derman 1963)"),),
)
