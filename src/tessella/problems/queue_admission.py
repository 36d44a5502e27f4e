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
from tessella.problems.nonlinearity import LAZY_WALK, regime_mean


def queue_admission(
    *,
    max_queue: int = 30,
    max_regime: int = 20,
    arrival_base: float = 1.0,
    arrival_slope: float = 0.35,
    nonlinearity: str = "mixed",
    strength: float = 2.5,
    max_arrivals: int = 45,
    service_rate: float = 4.0,
    max_service: int = 20,
    admission_reward: float = 2.0,
    holding_cost: float = 0.10,
    overflow_cost: float = 4.0,
    rejection_cost: float = 0.40,
    discount: float = 0.95,
    observation_noise: float = 0.25,
    name: str = "queue admission",
) -> MDP:
    """The paper's queue-admission model; the defaults are QUE-Mix.

    Args:
        max_queue, max_regime: q_max and l_max.
        arrival_base, arrival_slope: lambda_0 and beta_lambda of the mean arrivals.
        nonlinearity, strength: g and its factor; the paper gives no factor, 2.5 is ours.
        max_arrivals, max_service: d_max and s_max; tails are put on them.
        service_rate: mu.
        admission_reward, holding_cost, overflow_cost, rejection_cost: r_a, h, c_ov, c_rej.
        observation_noise: sigma of the coordinates in a training sample; not part of the model.
    """
    parameters = {key: value for key, value in locals().items() if key != "name"}

    def arrival_law(regime):
        mean = regime_mean(regime, max_regime, arrival_base, arrival_slope, nonlinearity, strength)
        return truncated_poisson(mean, max_arrivals)

    def admission_pays(queue, arrivals, admit):
        overflow = np.maximum(queue + admit * arrivals - max_queue, 0)
        admitted = admission_reward * admit * (arrivals - overflow)
        return admitted - rejection_cost * (1 - admit) * arrivals - overflow_cost * (overflow > 0)

    steps, probabilities = LAZY_WALK
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
                Noise("arrivals", range(max_arrivals + 1), arrival_law),
                by=lambda arrivals, admit: admit * arrivals,
                pays=admission_pays,
            ),
            Shift("regime", Noise("drift", steps, probabilities)),
        ],
        action_name="admit",
        name=name,
        parameters=parameters,
    )
