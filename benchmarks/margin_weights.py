"""Do margin weights help a network, as the paper reports? By eta, noise, sample size and training.

    python benchmarks/margin_weights.py [--seeds 15] [--n 100 400 1600 6400] [--plans PLAN ...]

The paper's Margin Boundary weighs an observation by 1 / (margin + eta) and does not give eta. This
script trains it and the plain network on the same samples from the same starts, for values of eta
over five orders of magnitude, and prints Margin minus Neural: the mean paired difference in policy
error over seeds, with Student's 95 % interval. Four ways to train: the study's; 8 epochs, which
reach about the errors that the paper prints for its plain network; small steps that end before the
loss does; and a network too small for the boundary.

A setting in which the interval lies below zero is run again on as many fresh seeds: where there is
no difference, one interval in forty lies below zero by chance. "Effective" is Kish's share of the
sample that is left by the weights, (sum w)^2 / (n sum w^2).

Takes about eight minutes of one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

import tessella as ts
from tessella.learn import MarginBoundary, NeuralBoundary, draw, fit_batch

ETAS = (0.001, 0.01, 0.1, 1.0, 10.0)
CASES = (("INV-Mix", 0.0), ("INV-Mix", 0.45), ("INV-Mix", 0.8), ("QUE-Lin", 0.25))
PLANS = {
    "as in the study": {},
    "8 epochs": {"epochs": 8, "min_steps": 256},
    "steps of 0.001": {"learning_rate": 1e-3},
    "one layer of 8": {"hidden": (8,)},
}
FIRST_SEED = 5000  # no study and no tuning uses these
FRESH_SEED = 6000  # of the second look


@dataclass(frozen=True)
class Setting:
    label: str
    noise: float
    n: int
    plan: str

    def errors(self, learner: NeuralBoundary, seeds: Sequence[int]) -> NDArray[np.float64]:
        """(seeds,) policy errors."""
        solution = solve(self.label)
        samples = [draw(solution, self.n, noise=self.noise, rng=seed) for seed in seeds]
        policies = fit_batch(learner, samples, list(seeds))
        return np.array([(p.table != solution.policy.table).mean() for p in policies])

    def compare(self, eta: float, plain: NDArray, seeds: Sequence[int]) -> NDArray[np.float64]:
        """(mean, low, high) of Margin minus Neural."""
        margin = self.errors(MarginBoundary(eta=eta, **PLANS[self.plan]), seeds)
        difference = margin - plain
        half = t.ppf(0.975, len(seeds) - 1) * difference.std(ddof=1) / len(seeds) ** 0.5
        return difference.mean() + half * np.array([0.0, -1.0, 1.0])

    def __str__(self) -> str:
        return f"| {self.label} | {self.noise:g} | {self.n:,} | {self.plan} "


@cache
def solve(label: str) -> ts.Solution:
    return ts.solve(ts.benchmark(label))


def compute_effective_share(label: str, eta: float) -> float:
    weights = 1 / (solve(label).margin.ravel() + eta)
    return weights.sum() ** 2 / (weights.size * (weights**2).sum())


def format_difference(values: NDArray) -> str:
    """In percent of the states; bold where the interval leaves out zero."""
    mean, low, high = 100 * values
    text = f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"
    return f"**{text}**" if low * high > 0 else text


def print_first_table(options: argparse.Namespace, seeds: range) -> list[tuple[Setting, float]]:
    """Print all differences; returns the settings and etas whose interval lies below zero."""
    print("\nMargin minus Neural Boundary, policy error in percent of the states\n")
    print("| problem | noise | n | training | Neural |" + "".join(f" eta {e:g} |" for e in ETAS))
    print("| --- | ---: | ---: | --- | ---: |" + " ---: |" * len(ETAS))
    n_above, below = 0, []
    for plan, (label, noise), n in product(options.plans, CASES, options.n):
        setting = Setting(label, noise, n, plan)
        plain = setting.errors(NeuralBoundary(**PLANS[plan]), seeds)
        differences = {eta: setting.compare(eta, plain, seeds) for eta in ETAS}
        below += [(setting, eta) for eta, d in differences.items() if d[2] < 0]
        n_above += sum(d[1] > 0 for d in differences.values())
        cells = " | ".join(map(format_difference, differences.values()))
        print(f"{setting}| {100 * plain.mean():.2f} | {cells} |", flush=True)
    total = len(options.plans) * len(CASES) * len(options.n) * len(ETAS)
    print(f"\n{total} intervals: {len(below)} below zero, {n_above} above\n")
    return below


def print_second_table(below: list[tuple[Setting, float]], seeds: range) -> None:
    print("Again on fresh seeds, where the interval lay below zero\n")
    print("| problem | noise | n | training | eta | Neural | difference |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: |")
    for setting, eta in below:
        plain = setting.errors(NeuralBoundary(**PLANS[setting.plan]), seeds)
        difference = format_difference(setting.compare(eta, plain, seeds))
        print(f"{setting}| {eta:g} | {100 * plain.mean():.2f} | {difference} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--n", type=int, nargs="*", default=[100, 400, 1600, 6400])
    parser.add_argument("--plans", nargs="*", choices=list(PLANS), default=list(PLANS))
    options = parser.parse_args()
    for label in dict.fromkeys(label for label, _ in CASES):
        shares = ", ".join(f"{compute_effective_share(label, eta):.0%} at {eta:g}" for eta in ETAS)
        print(f"effective share of a sample, {label}, by eta: {shares}")
    below = print_first_table(options, range(FIRST_SEED, FIRST_SEED + options.seeds))
    print_second_table(below, range(FRESH_SEED, FRESH_SEED + options.seeds))


if __name__ == "__main__":
    main()
