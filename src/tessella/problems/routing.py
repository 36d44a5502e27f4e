"""Whom to serve, which queue to join, and which street has green."""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Event, Noise, Pay, Shift
from tessella.problems.problem import DISCOUNT, MEAN, PRICE, RATE, Problem, Theory, integer, number
from tessella.problems.shared import departure


def _two_class_server_model(
    longest: int = integer(15, "where each queue is full", low=1, high=2000),
    first_arrivals: float = number(0.3, "lambda_1: arrivals of the first class", **RATE),
    second_arrivals: float = number(0.3, "lambda_2: of the second", **RATE),
    first_service: float = number(1.0, "mu_1: rate at which the first class is served", **RATE),
    second_service: float = number(1.5, "mu_2: the second", **RATE),
    first_cost: float = number(1.0, "c_1: of one waiting, per unit of time", **PRICE),
    second_cost: float = number(1.0, "c_2: of the second class", **PRICE),
    loss_cost: float = number(10.0, "of a customer lost", **PRICE),
    interest: float = number(0.05, "per unit of time", above=0.0, high=100.0),
) -> MDP:
    """One server, two classes of customers: whom to serve (the c-mu rule; Cox and Smith 1961).

    State: the two queues. Class k arrives at rate lambda_k, costs c_k per customer and unit of
    time, and is served at rate mu_k. Serving the class with the larger c_k mu_k that is present is
    best, whatever the arrivals. A customer who finds the queue full is lost, at a cost.
    """

    def arrives(name: str, rate: float) -> Event:
        def full(**names):
            return names[name] == longest

        def to(**names):
            return {name: names[name] + ~full(**names)}

        def costs(**names):
            return loss_cost * full(**names)

        counts = {"arrivals": 1.0, "rejected": full}
        return Event(f"{name} arrives", rate, to=to, costs=costs, counts=counts)

    return MDP.from_rates(
        {"first": range(longest + 1), "second": range(longest + 1)},
        ("first", "second"),
        [
            arrives("first", first_arrivals),
            arrives("second", second_arrivals),
            departure(
                "first served",
                "first",
                lambda first, serve: first_service * ((serve == "first") & (first > 0)),
            ),
            departure(
                "second served",
                "second",
                lambda second, serve: second_service * ((serve == "second") & (second > 0)),
            ),
        ],
        interest,
        costs_rate=lambda first, second: first_cost * first + second_cost * second,
        counts_rate={"present": lambda first, second: first + second},
        action_name="serve",
    ).with_measures(rejection="rejected / arrivals")


two_class_server = Problem(
    "two_class_server",
    "Which of two classes to serve: the c-mu rule",
    _two_class_server_model,
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


def _parallel_queues_model(
    longest: int = integer(20, "where each queue is full", low=1, high=2000),
    arrivals: float = number(1.2, "lambda: customers per unit of time", **RATE),
    first_service: float = number(1.0, "mu_1: rate of the first server", above=0.0, high=1000.0),
    second_service: float = number(0.5, "mu_2: rate of the second", above=0.0, high=1000.0),
    holding_cost: float = number(1.0, "h: of a customer, per unit of time", **PRICE),
    loss_cost: float = number(100.0, "of a customer lost", **PRICE),
    interest: float = number(0.02, "per unit of time", above=0.0, high=100.0),
) -> MDP:
    """Routing to the shorter, or the quicker, of two queues (Winston 1977, Hajek 1984).

    State: the two queues. Customers arrive at rate lambda and are sent to one of them, each served
    at its own rate; a customer waits at cost h per unit of time. One who finds both queues full is
    lost, at a cost; a full queue takes nobody.
    """

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
                counts={"arrivals": 1.0, "rejected": full},
            ),
            departure("first served", "first", lambda first: first_service * (first > 0)),
            departure("second served", "second", lambda second: second_service * (second > 0)),
        ],
        interest,
        costs_rate=lambda first, second: holding_cost * (first + second),
        counts_rate={"present": lambda first, second: first + second},
        feasible=feasible,
        action_name="route",
    ).with_measures(rejection="rejected / arrivals")


parallel_queues = Problem(
    "parallel_queues",
    "Which of two queues to join (Winston 1977, Hajek 1984)",
    _parallel_queues_model,
    axes={"first": "customers at the first server", "second": "customers at the second server"},
    theory=(
        Theory("threshold in first", "a switching curve that rises in both queues (Hajek 1984)"),
        Theory("threshold in second", "the longer the second queue, the more go to the first"),
    ),
)


def _traffic_intersection_model(
    max_cars: int = integer(5, "cars that fit on each side", low=0, high=100),
    max_wait: int = integer(5, "where the count of red periods ends", low=0, high=30),
    arrivals_left: float = number(0.1, "mean arrivals from the left", **MEAN),
    arrivals_right: float = number(0.5, "mean arrivals from the right", **MEAN),
    wait_cost: float = number(0.1, "of a car on red, times 2^wait", **PRICE),
    switch_cost: float = number(2.0, "cost of a switch", **PRICE),
    discount: float = number(0.99, "worth of the next period", **DISCOUNT),
) -> MDP:
    """Traffic lights at a crossing of two one-way streets.

    State (green, left, right, wait): which side has green, cars on each, and how long red has
    lasted. One car passes on green (+1), also in the period of a switch; then cars arrive, Poisson
    given that they fit. A period pays passed - 0.1 (cars on red) 2^wait - 2 (switched); wait' is 1
    after a switch.
    """

    def pays(green, left, right, wait, lights):
        on_green = np.where(green == "left", left, right)
        waiting = wait_cost * (left + right - on_green) * 2.0**wait
        return (on_green > 0) - waiting - switch_cost * (lights == "switch")

    cars = range(max_cars + 1)
    mdp = MDP.staged(
        {"green": ("left", "right"), "left": cars, "right": cars, "wait": range(max_wait + 1)},
        ("keep", "switch"),
        discount,
        [
            Pay(pays),
            Decide("left", to=lambda left, green: np.maximum(left - (green == "left"), 0)),
            Decide("right", to=lambda right, green: np.maximum(right - (green == "right"), 0)),
            Decide(
                "green",
                to=lambda green, lights: np.where(
                    (green == "left") == (lights == "keep"), "left", "right"
                ),
            ),
            Decide(
                "wait",
                to=lambda wait, lights: np.where(
                    lights == "switch", min(1, max_wait), np.minimum(wait + 1, max_wait)
                ),
            ),
            Shift(
                "left",
                Noise("come", cars, lambda left: _arrival_probabilities(arrivals_left, left, cars)),
            ),
            Shift(
                "right",
                Noise(
                    "come", cars, lambda right: _arrival_probabilities(arrivals_right, right, cars)
                ),
            ),
        ],
        action_name="lights",
    )
    return mdp.with_start(0)


def _arrival_probabilities(mean: float, there: np.ndarray, cars: range) -> np.ndarray:
    """(..., cars) Poisson probabilities of k more cars, given that there is space for them."""
    k = np.array(cars)
    weights = np.cumprod(np.where(k > 0, mean / np.maximum(k, 1), 1.0))
    weights = np.where(there + k <= k[-1], weights, 0.0)  # there: (..., 1)
    return weights / weights.sum(axis=-1, keepdims=True)


traffic_intersection = Problem(
    "traffic_intersection",
    "When to switch the lights at a crossing",
    _traffic_intersection_model,
    axes={
        "green": "the side that has green",
        "left": "cars on the left side",
        "right": "cars on the right side",
        "wait": "periods that red has lasted",
    },
)
