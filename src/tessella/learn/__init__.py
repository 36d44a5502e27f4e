"""Learning policies from labelled samples: one boundary learner per file, trained in bulk."""

from tessella.learn.features import FeatureMap, Features
from tessella.learn.fit import fit, fit_batch
from tessella.learn.linear import LinearBoundary
from tessella.learn.local import LocalBoundary
from tessella.learn.margin import MarginBoundary
from tessella.learn.neural import NeuralBoundary
from tessella.learn.sample import Sample, draw
from tessella.learn.schemes import ByOccupancy, Stratified, Uniform

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
