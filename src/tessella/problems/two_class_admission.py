"""Two classes of customers at c servers: whom to let in (Miller 1969).

State: customers of each class being served. Customers of class k arrive at rate lambda_k and pay
R_k when let in; each is served at rate mu_k; nobody waits. Let in none (0), the first class alone
(1), or both (2); nobody who finds all servers busy is let in. Reward per unit of time.
"""

from __future__ import annotations

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Event
from tessella.problems.problem import PRICE, RATE, Integer, Number, Problem, Theory


def _model(
    servers: int,
    first_arrivals: float,
    second_arrivals: float,
    first_pays: float,
    second_pays: float,
    first_service: float,
    second_service: float,
) -> MDP:
    def let_in(rate: float, least: int):
        def at(first, second, admit):
            return rate * ((first + second < servers) & (admit >= least))

        return at

    return MDP.from_rates(
        {"first": range(servers + 1), "second": range(servers + 1)},
        (0, 1, 2),
        [
            Event(
                "first arrives",
                let_in(first_arrivals, 1),
                to=lambda first: {"first": first + 1},
                pays=first_pays,
            ),
            Event(
                "second arrives",
                let_in(second_arrivals, 2),
                to=lambda second: {"second": second + 1},
                pays=second_pays,
            ),
            Event(
                "first leaves",
                lambda first: first_service * first,
                to=lambda first: {"first": first - 1},
            ),
            Event(
                "second leaves",
                lambda second: second_service * second,
                to=lambda second: {"second": second - 1},
            ),
        ],
        Average(),
        action_name="admit",
    )


two_class_admission = Problem(
    "two_class_admission",
    "Two classes of customers at c servers: whom to let in (Miller 1969)",
    _model,
    parameters=(
        Integer("servers", 12, "c: how many are served at once", low=1, high=1000),
        Number("first_arrivals", 5.0, "lambda_1: arrivals of the first class", **RATE),
        Number("second_arrivals", 8.0, "lambda_2: of the second", **RATE),
        Number("first_pays", 6.0, "R_1: what one of the first class pays", **PRICE),
        Number("second_pays", 1.0, "R_2: of the second", **PRICE),
        Number("first_service", 1.0, "mu_1: rate at which one is served", above=0.0, high=1000.0),
        Number("second_service", 1.0, "mu_2: of the second", above=0.0, high=1000.0),
    ),
    axes={
        "first": "customers of the first class in service",
        "second": "customers of the second class in service",
    },
    theory=(
        Theory(
            "monotone in first", "the fewer servers are free, the fewer are let in (Miller 1969)"
        ),
        Theory("monotone in second", "whichever class keeps them busy"),
    ),
)
