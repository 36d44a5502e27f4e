"""Learning policies from labelled samples: one boundary learner per file, trained in bulk."""

from tessella.learn.fit import fit, fit_batch
from tessella.learn.learner import FeatureMap, Features
from tessella.learn.linear import LinearBoundary
from tessella.learn.local import LocalBoundary
from tessella.learn.neural import MarginBoundary, NeuralBoundary
from tessella.learn.sample import ByOccupancy, Sample, Stratified, Uniform, draw

__all__ = [
    "ByOccupancy",
    "FeatureMap",
    "Features",
    "LinearBoundary",
    "LocalBoundary",
    "MarginBoundary",
    "NeuralBoundary",
    "Sample",
    "Stratified",
    "Uniform",
    "draw",
    "fit",
    "fit_batch",
]
