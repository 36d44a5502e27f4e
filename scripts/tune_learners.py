"""Choose the learners' settings, and report what the chosen ones reach.

python scripts/tune_learners.py [--only NAME ...] [--n N] [--seeds COUNT]    try the candidates
python scripts/tune_learners.py --report [--seeds COUNT]              the defaults, beside the paper

Candidates are judged on seeds from 1000 on, which no study uses; the report is on seeds 0, 1, ....
A figure is the mean over a family's environments and over the seeds, at n labels or updates. CPU
seconds are for one fit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tessella as ts
from tessella.baselines import ConstantStep, DecayingStep, DoubleQ, FittedQ, TabularQ, train_batch
from tessella.learn import (
    LinearBoundary,
    LocalBoundary,
    MarginBoundary,
    NeuralBoundary,
    draw,
    fit_batch,
)
from tessella.problems.registry import BENCHMARKS
from tessella.solvers.solution import Solution

CANDIDATES: dict[str, list[Any]] = {
    "LinearBoundary": [LinearBoundary(C=C) for C in (0.1, 1.0, 10.0, 100.0)],
    "NeuralBoundary": [
        *(NeuralBoundary(learning_rate=rate) for rate in (0.5e-2, 1e-2, 2e-2, 3e-2)),
        *(NeuralBoundary(epochs=epochs, min_steps=32 * epochs) for epochs in (10, 20, 60)),
        *(NeuralBoundary(batch_size=size) for size in (100, 400)),
    ],
    "MarginBoundary": [MarginBoundary(eta=eta) for eta in (0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0)],
    "LocalBoundary": [LocalBoundary(k=k) for k in (1, 2, 5, 10, 15, 20, 30, 50, None)],
    "TabularQ": [
        *(TabularQ(step=ConstantStep(size)) for size in (0.05, 0.1, 0.3, 1.0)),
        *(TabularQ(step=DecayingStep(power)) for power in (0.6, 1.0)),
    ],
    "DoubleQ": [
        *(DoubleQ(step=ConstantStep(size)) for size in (0.05, 0.1, 0.3, 1.0)),
        *(DoubleQ(step=DecayingStep(power)) for power in (0.6, 1.0)),
    ],
    "FittedQ": [
        FittedQ(leaf=leaf, iterations=k)
        for leaf, k in (
            (1, 10),
            (2, 5),
            (2, 10),
            (2, 12),
            (2, 20),
            (5, 10),
            (10, 10),
            (10, 5),
            (20, 5),
        )
    ],
}

# Policy error and value gap at n = 6,400: inventory, then queue admission.
PAPER = {
    "LinearBoundary": (0.0408, 0.099, 0.0148, 0.030),
    "NeuralBoundary": (0.0117, 0.008, 0.0038, 0.004),
    "MarginBoundary": (0.0083, 0.010, 0.0003, 0.001),
    "LocalBoundary": (0.0098, 0.015, 0.0000, 0.000),
    "TabularQ": (0.6118, 24.609, 0.1318, 2.928),
    "DoubleQ": (0.6236, 24.933, 0.1245, 2.303),
    "FittedQ": (0.2101, 1.144, 0.1250, 2.303),
}


@cache
def solve(label: str) -> Solution:
    return ts.solve(ts.benchmark(label))


def train_policies(method: Any, label: str, n: int, seeds: Sequence[int]) -> list[ts.Policy]:
    """One policy for each seed; environments do not share random numbers."""
    own_seeds = [1_000_000 * (1 + list(BENCHMARKS).index(label)) + seed for seed in seeds]
    if isinstance(method, TabularQ | FittedQ):
        policies = train_batch(method, solve(label).mdp, [n], own_seeds)
        return [policies[seed, n] for seed in own_seeds]
    return fit_batch(method, [draw(solve(label), n, rng=seed) for seed in own_seeds], own_seeds)


def evaluate(label: str, policy: ts.Policy) -> tuple[float, float]:
    """Policy error and the paper's value gap."""
    exact = solve(label)
    chosen_values = np.take_along_axis(exact.q, policy.table[..., None], axis=-1)[..., 0]
    gap = (exact.value - chosen_values).mean() / (1 - exact.mdp.discount)
    return float((policy.table != exact.policy.table).mean()), float(gap)


def measure_families(method: Any, n: int, seeds: Sequence[int]) -> tuple[NDArray, NDArray, float]:
    """(4,) means and standard deviations over seeds of family averages; CPU seconds a fit."""
    columns, cpu_seconds, fits = [], 0.0, 0
    for family in ("inventory", "queue"):
        labels = [label for label, benchmark in BENCHMARKS.items() if benchmark.family == family]
        scores = []
        for label in labels:
            solve(label)
            start = time.process_time()
            policies = train_policies(method, label, n, seeds)
            cpu_seconds, fits = cpu_seconds + time.process_time() - start, fits + len(policies)
            scores.append([evaluate(label, policy) for policy in policies])
        columns.append(np.mean(scores, axis=0))
    table = np.concatenate(columns, axis=1)
    return table.mean(axis=0), table.std(axis=0, ddof=1), cpu_seconds / fits


def tune(names: Sequence[str], n: int, seeds: Sequence[int]) -> None:
    print(f"n = {n:,}, seeds {seeds[0]}..{seeds[-1]}")
    print(f"{'inventory PE':>57s}{'gap':>9s}{'queue PE':>10s}{'gap':>8s}{'CPU s':>8s}")
    for name in names:
        for method in CANDIDATES[name]:
            m, _, seconds = measure_families(method, n, seeds)
            row = f"{m[0]:12.4f}{m[1]:9.3f}{m[2]:10.4f}{m[3]:8.3f}{seconds:8.3f}"
            print(f"{_short(method):45s}{row}", flush=True)


def report(n: int, seeds: Sequence[int]) -> None:
    print(f"defaults at n = {n:,}, seeds {seeds[0]}..{seeds[-1]}; the paper's in brackets")
    heads = ("inventory policy error", "value gap", "queue policy error", "value gap")
    print(f"| method | {' | '.join(heads)} | CPU s |")
    print("| --- |" + " --- |" * 5)
    for name, paper in PAPER.items():
        m, s, seconds = measure_families(_default(name), n, seeds)
        cells = [
            f"{a:.{d}f} ± {b:.{d}f} ({c:.{d}f})"
            for a, b, c, d in zip(m, s, paper, (4, 3, 4, 3), strict=True)
        ]
        print(f"| {name} | {' | '.join(cells)} | {seconds:.3f} |", flush=True)


def _default(name: str) -> Any:
    return type(CANDIDATES[name][0])()


def _short(method: Any) -> str:
    text = repr(method).replace("sampling=UniformPairs(), ", "").replace(", start=0.0", "")
    return text.replace("trees=60, ", "").replace(", sampling=UniformPairs()", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CANDIDATES), default=list(CANDIDATES))
    parser.add_argument("--n", type=int, default=6400)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.report:
        report(options.n, range(options.seeds))
    else:
        tune(options.only, options.n, range(1000, 1000 + options.seeds))


if __name__ == "__main__":
    main()
