"""Routing to the shorter, or the quicker, of two queues (Winston 1977, Hajek 1984).

State: the two queues. Customers arrive at rate lambda and are sent to one of them, each served at
its own rate; a customer waits at cost h per unit of time. One who finds both queues full is lost,
at a cost; a full queue takes nobody.
"""

from __future__ import annotations

from tessella.mdp.model import MDP
from tessella.mdp.stages import Event
from tessella.problems.problem import PRICE, RATE, Integer, Number, Problem, Theory


def _model(
    longest: int,
    arrivals: float,
    first_service: float,
    second_service: float,
    holding_cost: float,
    loss_cost: float,
    interest: float,
) -> MDP:
    def full(first, second):
        return (first == longest) & (second == longest)

    def routed(first, second, route):
        return {
            "first": first + ((route == "first") & ~full(first, second)),
            "second": second + ((route == "second") & ~full(first, second)),
        }

    def feasible(first, second, route):
        is_open = ((route == "first") & (first < longest)) | (
            (route == "second") & (second < longest)
        )
        return is_open | (full(first, second) & (route == "first"))

    return MDP.from_rates(
        {"first": range(longest + 1), "second": range(longest + 1)},
        ("first", "second"),
        [
            Event(
                "arrival",
                arrivals,
                to=routed,
                costs=lambda first, second: loss_cost * full(first, second),
            ),
            Event(
                "first served",
                lambda first: first_service * (first > 0),
                to=lambda first: {"first": first - 1},
            ),
            Event(
                "second served",
                lambda second: second_service * (second > 0),
                to=lambda second: {"second": second - 1},
            ),
        ],
        interest,
        costs_rate=lambda first, second: holding_cost * (first + second),
        feasible=feasible,
        action_name="route",
    )


parallel_queues = Problem(
    "parallel_queues",
    "Which of two queues to join (Winston 1977, Hajek 1984)",
    _model,
    parameters=(
        Integer("longest", 20, "where each queue is full", low=1, high=2000),
        Number("arrivals", 1.2, "lambda: customers per unit of time", **RATE),
        Number("first_service", 1.0, "mu_1: rate of the first server", above=0.0, high=1000.0),
        Number("second_service", 0.5, "mu_2: rate of the second", above=0.0, high=1000.0),
        Number("holding_cost", 1.0, "h: of a customer, per unit of time", **PRICE),
        Number("loss_cost", 100.0, "of a customer lost", **PRICE),
        Number("interest", 0.02, "per unit of time", above=0.0, high=100.0),
    ),
    axes={"first": "customers at the first server", "second": "customers at the second server"},
    theory=(
        Theory("threshold in first", "a switching curve that rises in both queues (Hajek 1984)"),
        Theory("threshold in second", "the longer the second queue, the more go to the first"),
    ),
)
