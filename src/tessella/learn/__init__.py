"""Learning policies from labelled samples: one boundary learner per file."""

from typing import Any

from tessella.learn.learner import FeatureMap, Features, fit, fit_batch
from tessella.learn.linear import LinearBoundary
from tessella.learn.local import LocalBoundary
from tessella.learn.neural import MarginBoundary, NeuralBoundary
from tessella.learn.sample import ByOccupancy, Sample, Stratified, Uniform, draw

LEARNERS = {
    "linear": LinearBoundary,
    "neural": NeuralBoundary,
    "margin": MarginBoundary,
    "local": LocalBoundary,
}


def make_learner(name: str, seed: int) -> Any:
    """The learner called ``name`` in `LEARNERS`, with this seed where it takes one."""
    learner_class = LEARNERS[name]
    takes_seed = "random_state" in learner_class().get_params()
    return learner_class(random_state=seed) if takes_seed else learner_class()
