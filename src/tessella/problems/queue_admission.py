"""Admission to a queue under an arrival regime.

State (q, l): queue length and regime. The action a admits (1) or rejects (0) all arrivals of the
period. Service S ~ Poisson(mu) first, then arrivals D ~ Poisson(lam(l)), both truncated:

    y = max(q - S, 0) + a D,   O = max(y - q_max, 0),   q' = min(y, q_max),
    reward = r_a a (D - O) - c_rej (1 - a) D - c_ov 1{O > 0} - h q,
    lam(l) = max(lambda_0 + beta l + strength g(l / l_max), 0.05).
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Noise, Pay, Shift, truncated_poisson
from tessella.problems.problem import (
    MEAN,
    PRICE,
    SIZE,
    SLOPE,
    Choice,
    Integer,
    Number,
    Problem,
    Theory,
)
from tessella.problems.shared import LAZY_WALK, NONLINEARITIES, regime_mean


def _model(
    max_queue: int,
    max_regime: int,
    arrival_base: float,
    arrival_slope: float,
    nonlinearity: str,
    strength: float,
    max_arrivals: int,
    service_rate: float,
    max_service: int,
    admission_reward: float,
    holding_cost: float,
    overflow_cost: float,
    rejection_cost: float,
    discount: float,
) -> MDP:
    def arrival_probabilities(regime):
        mean = regime_mean(regime, max_regime, arrival_base, arrival_slope, nonlinearity, strength)
        return truncated_poisson(mean, max_arrivals)

    def admission_pays(queue, arrivals, admit):
        overflow = np.maximum(queue + admit * arrivals - max_queue, 0)
        admitted = admission_reward * admit * (arrivals - overflow)
        return admitted - rejection_cost * (1 - admit) * arrivals - overflow_cost * (overflow > 0)

    return MDP.staged(
        {"queue": range(max_queue + 1), "regime": range(max_regime + 1)},
        (0, 1),
        discount,
        [
            Pay(lambda queue: -holding_cost * queue),
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
            ),
            Shift("regime", Noise("drift", *LAZY_WALK)),
        ],
        action_name="admit",
    )


queue_admission = Problem(
    "queue_admission",
    "Admission to a queue under an arrival regime; the defaults are QUE-Mix",
    _model,
    family="queue",
    parameters=(
        Integer("max_queue", 30, "q_max: the queue is 0..q_max", **SIZE),
        Integer("max_regime", 20, "l_max: the regime is 0..l_max", **SIZE),
        Number("arrival_base", 1.0, "lambda_0: mean arrivals in regime 0", **MEAN),
        Number("arrival_slope", 0.35, "beta_lambda: what a regime adds to them", **SLOPE),
        Choice("nonlinearity", "mixed", "g: how arrivals bend", tuple(NONLINEARITIES)),
        Number("strength", 2.5, "the factor of g; the paper gives none, 2.5 is ours", **SLOPE),
        Integer("max_arrivals", 45, "d_max: the tail of the arrivals is put on it", **SIZE),
        Number("service_rate", 4.0, "mu: mean services", above=0.0, high=MEAN["high"]),
        Integer("max_service", 20, "s_max: the tail of the services is put on it", **SIZE),
        Number("admission_reward", 2.0, "r_a: reward of an arrival that is let in", **PRICE),
        Number("holding_cost", 0.10, "h: cost of a place in the queue", **PRICE),
        Number("overflow_cost", 4.0, "c_ov: cost of a period with an overflow", **PRICE),
        Number("rejection_cost", 0.40, "c_rej: cost of an arrival turned away", **PRICE),
        Number("discount", 0.95, "worth of the next period", low=0.0, below=1.0),
    ),
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
