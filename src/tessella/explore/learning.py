"""Policies learned for the page: from labels of states, or from transitions of a simulator."""

from __future__ import annotations

from tessella.baselines import DoubleQ, FittedQ, TabularQ, train
from tessella.explore.asked import Asked
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

MOST_SAMPLES = 20_000
LEARNERS = {
    "linear": LinearBoundary,
    "neural": NeuralBoundary,
    "margin": MarginBoundary,
    "local": LocalBoundary,
}
BASELINES = {"tabular": TabularQ, "double": DoubleQ, "fitted": FittedQ}


def learned(solution: Solution, asked: Asked) -> Policy:
    """The policy that a request describes: learner, samples (or transitions), noise, seed."""
    name = asked.choice("learner", (*LEARNERS, *BASELINES), "margin")
    told = asked.whole("samples", 400, 1, MOST_SAMPLES)
    seed = asked.whole("seed", 0, 0, 2**31)
    if name in BASELINES:
        return train(BASELINES[name](), solution.mdp, told, rng=seed)
    noise = asked.number("noise", 0.0, 0.0, 100.0) if asked.has("noise") else None
    kind = LEARNERS[name]
    seeded = "random_state" in kind().get_params()
    sample = draw(solution, told, noise=noise, rng=seed)
    return fit(kind(random_state=seed) if seeded else kind(), sample)
