"""Policies learned for the page: from labels of states, or from transitions of a simulator."""

from __future__ import annotations

from tessella.baselines import DoubleQ, FittedQ, TabularQ, train
from tessella.explore.request import RequestFields
from tessella.learn import (
    LinearBoundary,
    LocalBoundary,
    MarginBoundary,
    NeuralBoundary,
    draw,
    fit,
)
from tessella.mdp.policy import Policy
from tessella.solvers.solution import Solution

LEARNING_MAX_SAMPLES = 20_000  # labels, or simulator calls
LEARNERS = {
    "linear": LinearBoundary,
    "neural": NeuralBoundary,
    "margin": MarginBoundary,
    "local": LocalBoundary,
}
BASELINES = {"tabular": TabularQ, "double": DoubleQ, "fitted": FittedQ}


def learn_policy(solution: Solution, request: RequestFields) -> Policy:
    """The policy that a request describes: learner, samples (or transitions), noise, seed."""
    name = request.choice("learner", (*LEARNERS, *BASELINES), "margin")
    n_samples = request.integer("samples", 400, 1, LEARNING_MAX_SAMPLES)
    seed = request.integer("seed", 0, 0, 2**31)
    if name in BASELINES:
        return train(BASELINES[name](), solution.mdp, n_samples, rng=seed)
    noise = request.number("noise", 0.0, 0.0, 100.0) if request.has("noise") else None
    learner_class = LEARNERS[name]
    takes_seed = "random_state" in learner_class().get_params()
    sample = draw(solution, n_samples, noise=noise, rng=seed)
    return fit(learner_class(random_state=seed) if takes_seed else learner_class(), sample)
