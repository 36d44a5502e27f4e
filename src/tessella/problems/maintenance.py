"""Maintenance of a machine whose load changes.

State: wear 0..n and load 0..l. Let it run (0), service it (1: wear less by a few steps), or
overhaul it (2: as new). It earns by the load while it is let run, wears by a binomial number of
steps that rises with the load, and costs by its wear; at wear n it has failed, which costs more.
The load takes a lazy walk.
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Shift
from tessella.problems.problem import DISCOUNT, PRICE, Integer, Number, Problem, Theory
from tessella.problems.shared import LAZY_WALK

WEAR_MAX_STEPS = 4  # of wear in a period, at most


def _model(
    max_wear: int,
    max_load: int,
    relief: int,
    earns: float,
    wear_cost: float,
    service_cost: float,
    overhaul_cost: float,
    failure_cost: float,
    discount: float,
) -> MDP:
    def wear_probabilities(load):
        from scipy.stats import binom

        chance = 0.1 + 0.6 * load / max(max_load, 1)
        return binom.pmf(np.arange(WEAR_MAX_STEPS + 1), WEAR_MAX_STEPS, chance)

    def pays(wear):
        return -np.where(wear == max_wear, failure_cost, wear_cost * wear)

    def earned(wear, load, repair):
        runs = (repair == 0) & (wear < max_wear)
        spent = service_cost * (repair == 1) + overhaul_cost * (repair == 2)
        return earns * (1 + load) * runs - spent

    return MDP.staged(
        {"wear": range(max_wear + 1), "load": range(max_load + 1)},
        (0, 1, 2),
        discount,
        [
            Decide(
                "wear",
                to=lambda wear, repair: np.where(
                    repair == 2, 0, np.maximum(wear - relief * (repair == 1), 0)
                ),
                pays=earned,
            ),
            Shift("wear", Noise("wears", range(WEAR_MAX_STEPS + 1), wear_probabilities), pays=pays),
            Shift("load", Noise("drift", *LAZY_WALK)),
        ],
        action_name="repair",
    )


maintenance = Problem(
    "maintenance",
    "Run, service or overhaul a machine whose load changes",
    _model,
    parameters=(
        Integer("max_wear", 30, "n: failed", low=1, high=100_000),
        Integer("max_load", 10, "l: the load is 0..l", low=0, high=10_000),
        Integer("relief", 10, "steps of wear that a service takes off", low=0, high=100_000),
        Number("earns", 0.5, "in a period, for each step of load and one more", **PRICE),
        Number("wear_cost", 0.3, "in a period, for each step of wear", **PRICE),
        Number("service_cost", 2.0, "cost of a service", **PRICE),
        Number("overhaul_cost", 12.0, "cost of an overhaul", **PRICE),
        Number("failure_cost", 20.0, "cost of a period in failure", **PRICE),
        Number("discount", 0.95, "worth of the next period", **DISCOUNT),
    ),
    axes={
        "wear": "how worn the machine is; at the last value it has failed",
        "load": "how hard it has to work",
    },
    theory=(
        Theory("monotone in wear", "the more it is worn, the more is repaired (Derman 1963)"),
        Theory("threshold in wear", "run, service, overhaul; where wear costs little, not so"),
    ),
)
