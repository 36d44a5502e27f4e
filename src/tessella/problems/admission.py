"""Whom to let in: admission to queues and to servers."""

from __future__ import annotations

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Event, Noise, Pay, Shift, truncated_poisson
from tessella.problems.problem import (
    MEAN,
    PRICE,
    RATE,
    SIZE,
    SLOPE,
    Problem,
    Theory,
    choice,
    integer,
    number,
)
from tessella.problems.shared import LAZY_WALK, NONLINEARITIES, departure, regime_mean


def _queue_admission_model(
    max_queue: int = integer(30, "q_max: the queue is 0..q_max", **SIZE),
    max_regime: int = integer(20, "l_max: the regime is 0..l_max", **SIZE),
    arrival_base: float = number(1.0, "lambda_0: mean arrivals in regime 0", **MEAN),
    arrival_slope: float = number(0.35, "beta_lambda: what a regime adds to them", **SLOPE),
    nonlinearity: str = choice("mixed", "g: how arrivals bend", tuple(NONLINEARITIES)),
    strength: float = number(2.5, "the factor of g; the paper gives none, 2.5 is ours", **SLOPE),
    max_arrivals: int = integer(45, "d_max: the tail of the arrivals is put on it", **SIZE),
    service_rate: float = number(4.0, "mu: mean services", above=0.0, high=MEAN["high"]),
    max_service: int = integer(20, "s_max: the tail of the services is put on it", **SIZE),
    admission_reward: float = number(2.0, "r_a: reward of an arrival that is let in", **PRICE),
    holding_cost: float = number(0.10, "h: cost of a place in the queue", **PRICE),
    overflow_cost: float = number(4.0, "c_ov: cost of a period with an overflow", **PRICE),
    rejection_cost: float = number(0.40, "c_rej: cost of an arrival turned away", **PRICE),
    discount: float = number(0.95, "worth of the next period", low=0.0, below=1.0),
) -> MDP:
    """Admission to a queue under an arrival regime.

    State (q, l): queue length and regime. The action a admits (1) or rejects (0) all arrivals of
    the period. Service S ~ Poisson(mu) first, then arrivals D ~ Poisson(lam(l)), both truncated:

        y = max(q - S, 0) + a D,   O = max(y - q_max, 0),   q' = min(y, q_max),
        reward = r_a a (D - O) - c_rej (1 - a) D - c_ov 1{O > 0} - h q,
        lam(l) = max(lambda_0 + beta l + strength g(l / l_max), 0.05).
    """

    def arrival_probabilities(regime):
        mean = regime_mean(regime, max_regime, arrival_base, arrival_slope, nonlinearity, strength)
        return truncated_poisson(mean, max_arrivals)

    def admission_pays(queue, arrivals, admit):
        overflow = np.maximum(queue + admit * arrivals - max_queue, 0)
        admitted = admission_reward * admit * (arrivals - overflow)
        return admitted - rejection_cost * (1 - admit) * arrivals - overflow_cost * (overflow > 0)

    def rejected(queue, arrivals, admit):
        return np.maximum(arrivals - admit * (max_queue - queue), 0)

    return MDP.staged(
        {"queue": range(max_queue + 1), "regime": range(max_regime + 1)},
        (0, 1),
        discount,
        [
            Pay(lambda queue: -holding_cost * queue, counts={"waiting": lambda queue: queue}),
            Shift(
                "queue",
                Noise(
                    "service", range(max_service + 1), truncated_poisson(service_rate, max_service)
                ),
                by=lambda service: -service,
            ),
            Shift(
                "queue",
                Noise("arrivals", range(max_arrivals + 1), arrival_probabilities),
                by=lambda arrivals, admit: admit * arrivals,
                pays=admission_pays,
                counts={"arrivals": lambda arrivals: arrivals, "rejected": rejected},
            ),
            Shift("regime", LAZY_WALK),
        ],
        action_name="admit",
    ).with_measures(rejection="rejected / arrivals")


queue_admission = Problem(
    "queue_admission",
    "Admission to a queue under an arrival regime; the defaults are QUE-Mix",
    _queue_admission_model,
    family="queue",
    axes={
        "queue": "customers in the queue",
        "regime": "state of the market, on which arrivals depend",
    },
    observation_noise=0.25,
    theory=(
        Theory("monotone in queue", "the longer the queue, the less is let in"),
        Theory("threshold in queue", "admit up to a length that the regime decides (Naor 1969)"),
    ),
)


def _naor_admission_model(
    longest: int = integer(40, "where nobody is let in any more", low=1, high=100_000),
    servers: int = integer(1, "c: servers", low=1, high=1000),
    arrivals: float = number(0.9, "lambda: customers per unit of time", **RATE),
    service: float = number(1.0, "mu: rate of a server", above=0.0, high=1000.0),
    admission_reward: float = number(10.0, "R: what a customer pays", **PRICE),
    waiting_cost: float = number(1.0, "C: of a customer present, per unit of time", **PRICE),
) -> MDP:
    """Admission to an M/M/c queue, stated in rates (Naor 1969; Stidham 1985).

    State: customers present. They arrive at rate lambda, c servers work at rate mu each; one who is
    let in pays R, everyone present costs C per unit of time. Reward per unit of time. The best is
    to let in up to n customers; with rho = lambda / mu and c = 1, n is the largest whole number
    with

        (n (1 - rho) - rho (1 - rho^n)) / (1 - rho)^2 <= R mu / C,

    while customers who decide for themselves join up to R mu / C.
    """
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
            departure("service", "present", lambda present: service * np.minimum(present, servers)),
        ],
        Average(),
        pays_rate=lambda present: -waiting_cost * present,
        counts_rate={
            "arrivals": arrivals,
            "rejected": lambda present, admit: arrivals * ((admit == 0) | (present == longest)),
            "present": lambda present: present,
            "busy": lambda present: np.minimum(present, servers),
        },
        action_name="admit",
    ).with_measures(
        rejection="rejected / arrivals",
        time_present="present / (arrivals - rejected)",
        utilisation=f"busy / {servers}",
    )


naor_admission = Problem(
    "naor_admission",
    "Admission to an M/M/c queue, in rates (Naor 1969)",
    _naor_admission_model,
    axes={"present": "customers in the system, those in service included"},
    theory=(Theory("threshold in present", "let in up to a number present (Naor 1969)"),),
)


def _two_class_admission_model(
    servers: int = integer(12, "c: how many are served at once", low=1, high=1000),
    first_arrivals: float = number(5.0, "lambda_1: arrivals of the first class", **RATE),
    second_arrivals: float = number(8.0, "lambda_2: of the second", **RATE),
    first_pays: float = number(6.0, "R_1: what one of the first class pays", **PRICE),
    second_pays: float = number(1.0, "R_2: of the second", **PRICE),
    first_service: float = number(1.0, "mu_1: rate at which one is served", above=0.0, high=1000.0),
    second_service: float = number(1.0, "mu_2: of the second", above=0.0, high=1000.0),
) -> MDP:
    """Two classes of customers at c servers: whom to let in (Miller 1969).

    State: customers of each class being served. Customers of class k arrive at rate lambda_k and
    pay R_k when let in; each is served at rate mu_k; nobody waits. Let in none (0), the first class
    alone (1), or both (2); nobody who finds all servers busy is let in. Reward per unit of time.
    """

    def let_in(rate: float, least: int):
        def at(first, second, admit):
            return rate * ((first + second < servers) & (admit >= least))

        return at

    let_first_in = let_in(first_arrivals, 1)
    let_second_in = let_in(second_arrivals, 2)

    return MDP.from_rates(
        {"first": range(servers + 1), "second": range(servers + 1)},
        (0, 1, 2),
        [
            Event(
                "first arrives",
                let_first_in,
                to=lambda first: {"first": first + 1},
                pays=first_pays,
            ),
            Event(
                "second arrives",
                let_second_in,
                to=lambda second: {"second": second + 1},
                pays=second_pays,
            ),
            departure("first leaves", "first", lambda first: first_service * first),
            departure("second leaves", "second", lambda second: second_service * second),
        ],
        Average(),
        counts_rate={
            "first_arrivals": first_arrivals,
            "second_arrivals": second_arrivals,
            "first_admitted": let_first_in,
            "second_admitted": let_second_in,
            "busy": lambda first, second: first + second,
        },
        action_name="admit",
    ).with_measures(
        first_rejection="1 - first_admitted / first_arrivals",
        second_rejection="1 - second_admitted / second_arrivals",
        utilisation=f"busy / {servers}",
    )


two_class_admission = Problem(
    "two_class_admission",
    "Two classes of customers at c servers: whom to let in (Miller 1969)",
    _two_class_admission_model,
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
