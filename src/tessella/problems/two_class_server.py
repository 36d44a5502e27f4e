"""One server, two classes of customers: whom to serve (the c-mu rule; Cox and Smith 1961).

State: the two queues. Class k arrives at rate lambda_k, costs c_k per customer and unit of time,
and is served at rate mu_k. Serving the class with the larger c_k mu_k that is present is best,
whatever the arrivals. A customer who finds the queue full is lost, at a cost.
"""

from __future__ import annotations

from tessella.mdp.model import MDP
from tessella.mdp.stages import Event
from tessella.problems.problem import PRICE, RATE, Integer, Number, Problem, Theory


def _model(
    longest: int,
    first_arrivals: float,
    second_arrivals: float,
    first_service: float,
    second_service: float,
    first_cost: float,
    second_cost: float,
    loss_cost: float,
    interest: float,
) -> MDP:
    def arrives(name: str, rate: float) -> Event:
        def full(**names):
            return names[name] == longest

        def to(**names):
            return {name: names[name] + ~full(**names)}

        def costs(**names):
            return loss_cost * full(**names)

        return Event(f"{name} arrives", rate, to=to, costs=costs)

    return MDP.from_rates(
        {"first": range(longest + 1), "second": range(longest + 1)},
        ("first", "second"),
        [
            arrives("first", first_arrivals),
            arrives("second", second_arrivals),
            Event(
                "first served",
                lambda first, serve: first_service * ((serve == "first") & (first > 0)),
                to=lambda first: {"first": first - 1},
            ),
            Event(
                "second served",
                lambda second, serve: second_service * ((serve == "second") & (second > 0)),
                to=lambda second: {"second": second - 1},
            ),
        ],
        interest,
        costs_rate=lambda first, second: first_cost * first + second_cost * second,
        action_name="serve",
    )


two_class_server = Problem(
    "two_class_server",
    "Which of two classes to serve: the c-mu rule",
    _model,
    parameters=(
        Integer("longest", 15, "where each queue is full", low=1, high=2000),
        Number("first_arrivals", 0.3, "lambda_1: arrivals of the first class", **RATE),
        Number("second_arrivals", 0.3, "lambda_2: of the second", **RATE),
        Number("first_service", 1.0, "mu_1: rate at which the first class is served", **RATE),
        Number("second_service", 1.5, "mu_2: the second", **RATE),
        Number("first_cost", 1.0, "c_1: of one waiting, per unit of time", **PRICE),
        Number("second_cost", 1.0, "c_2: of the second class", **PRICE),
        Number("loss_cost", 10.0, "of a customer lost", **PRICE),
        Number("interest", 0.05, "per unit of time", above=0.0, high=100.0),
    ),
    axes={
        "first": "customers of the first class present",
        "second": "customers of the second class present",
    },
    theory=(
        Theory(
            "threshold in second", "the class with the larger c mu first, wherever it is present"
        ),
    ),
)
