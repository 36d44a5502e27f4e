"""Compares training in bulk with scikit-learn's network, fit after fit, on the same samples.

    python benchmarks/training.py [--label INV-Mix] [--n 6400] [--fits 15]

Both see standardised coordinates and have two hidden layers of 64. Policy error is the share of
grid states with another action than the exact policy, averaged over the samples. The ratio is fits
per second against scikit-learn's fastest run whose policy error is not lower. Both keep to one
core, where these small matrices are quickest, and time is CPU time, so that other work on the
machine does not decide the ratio.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import tessella as ts
from tessella.learn import NeuralBoundary, Sample, draw, fit, fit_batch
from tessella.solvers.solution import Solution

HIDDEN_LAYERS = (64, 64)


@dataclass(frozen=True)
class Row:
    """One way to train, measured."""

    name: str
    fits: int
    seconds: float
    error: float

    @property
    def rate(self) -> float:
        return self.fits / self.seconds


def measure(
    name: str,
    solution: Solution,
    samples: Sequence[Sample],
    train: Callable[[Sequence[Sample]], list[ts.Policy]],
) -> Row:
    clock = time.process_time()
    with threadpool_limits(1):
        policies = train(samples)
    seconds = time.process_time() - clock
    errors = [(p.table != solution.policy.table).mean() for p in policies]
    return Row(name, len(samples), seconds, float(np.mean(errors)))


def train_one_by_one(**settings) -> Callable[[Sequence[Sample]], list[ts.Policy]]:
    def train(samples: Sequence[Sample]) -> list[ts.Policy]:
        policies = []
        for seed, sample in enumerate(samples):
            network = MLPClassifier(HIDDEN_LAYERS, random_state=seed, **settings)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                policies.append(fit(make_pipeline(StandardScaler(), network), sample))
        return policies

    return train


def train_in_bulk(learner: NeuralBoundary) -> Callable[[Sequence[Sample]], list[ts.Policy]]:
    return lambda samples: fit_batch(learner, samples, range(len(samples)))


def run(label: str, n: int, fits: int) -> list[Row]:
    solution = ts.solve(ts.benchmark(label))
    samples = [draw(solution, n, rng=seed) for seed in range(2000, 2000 + fits)]
    few = samples[: max(1, fits // 3)]
    long = {"max_iter": 400, "n_iter_no_change": 400}
    short = NeuralBoundary(epochs=12, min_steps=384)
    return [
        measure("MLPClassifier, defaults", solution, few, train_one_by_one()),
        measure("MLPClassifier, 400 epochs", solution, few[:3], train_one_by_one(**long)),
        measure("NeuralBoundary, first call", solution, samples, train_in_bulk(NeuralBoundary())),
        measure("NeuralBoundary", solution, samples, train_in_bulk(NeuralBoundary())),
        measure("NeuralBoundary, 12 epochs", solution, samples, train_in_bulk(short)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--label", default="INV-Mix")
    parser.add_argument("--n", type=int, default=6400)
    parser.add_argument("--fits", type=int, default=15)
    options = parser.parse_args()
    rows = run(options.label, options.n, options.fits)
    print(f"{options.label}, n = {options.n:,}")
    print(f"{'':28s}{'fits':>6s}{'s a fit':>10s}{'fits/s':>9s}{'policy error':>14s}{'ratio':>8s}")
    rivals = [row for row in rows if row.name.startswith("MLP")]
    for row in rows:
        slower_rates = [
            rival.rate for rival in rivals if rival.error >= row.error and rival is not row
        ]
        ratio = f"{row.rate / max(slower_rates):8.1f}" if slower_rates and row not in rivals else ""
        figures = f"{row.fits:6d}{row.seconds / row.fits:10.3f}{row.rate:9.2f}{row.error:14.4f}"
        print(f"{row.name:28s}{figures}{ratio}", flush=True)


if __name__ == "__main__":
    main()
