"""Admission to an M/M/c queue, stated in rates (Naor 1969; Stidham 1985).

State: customers present. They arrive at rate lambda, c servers work at rate mu each; one who is let
in pays R, everyone present costs C per unit of time. Reward per unit of time. The best is to let in
up to n customers; with rho = lambda / mu and c = 1, n is the largest whole number with

    (n (1 - rho) - rho (1 - rho^n)) / (1 - rho)^2 <= R mu / C,

while customers who decide for themselves join up to R mu / C.
"""

from __future__ import annotations

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Event
from tessella.problems.problem import PRICE, RATE, Integer, Number, Problem, Theory


def _model(
    longest: int,
    servers: int,
    arrivals: float,
    service: float,
    admission_reward: float,
    waiting_cost: float,
) -> MDP:
    return MDP.from_rates(
        {"present": range(longest + 1)},
        (0, 1),
        [
            Event(
                "arrival",
                lambda present, admit: arrivals * admit * (present < longest),
                to=lambda present: {"present": present + 1},
                pays=admission_reward,
            ),
            Event(
                "service",
                lambda present: service * np.minimum(present, servers),
                to=lambda present: {"present": present - 1},
            ),
        ],
        Average(),
        pays_rate=lambda present: -waiting_cost * present,
        action_name="admit",
    )


naor_admission = Problem(
    "naor_admission",
    "Admission to an M/M/c queue, in rates (Naor 1969)",
    _model,
    parameters=(
        Integer("longest", 40, "where nobody is let in any more", low=1, high=100_000),
        Integer("servers", 1, "c: servers", low=1, high=1000),
        Number("arrivals", 0.9, "lambda: customers per unit of time", **RATE),
        Number("service", 1.0, "mu: rate of a server", above=0.0, high=1000.0),
        Number("admission_reward", 10.0, "R: what a customer pays", **PRICE),
        Number("waiting_cost", 1.0, "C: of a customer present, per unit of time", **PRICE),
    ),
    axes={"present": "customers in the system, those in service included"},
    theory=(Theory("threshold in present", "let in up to a number present (Naor 1969)"),),
)
