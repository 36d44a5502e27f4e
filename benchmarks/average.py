"""Average reward against discounted reward on the same model, in one run.

    python benchmarks/average.py [--stock 1000] [--regimes 500]

Prints processor seconds for both criteria, each solved once to compile and then timed, and their
ratio; then those that bounding relative values takes on top, which happens when they are asked for.
"""

from __future__ import annotations

import argparse
import time

import tessella as ts


def seconds(mdp: ts.MDP) -> tuple[float, ts.Solution]:
    ts.solve(mdp)  # compiles
    began = time.process_time()
    found = ts.solve(mdp)
    return time.process_time() - began, found


def relative(found: ts.Solution) -> float:
    began = time.process_time()
    print(f"relative values are off by at most {found.value_error:.2g}")
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stock", type=int, default=1000)
    parser.add_argument("--regimes", type=int, default=500)
    asked = parser.parse_args()
    for name, settings in (
        ("inventory", {"max_stock": asked.stock, "max_regime": asked.regimes}),
        ("queue_admission", {"max_queue": asked.stock, "max_regime": asked.regimes}),
    ):
        mdp = ts.problem(name).build(**settings)
        discounted, first = seconds(mdp)
        average, second = seconds(mdp.with_criterion(ts.Average()))
        print(first, second, sep="\n")
        print(f"{name}, {mdp.n_states:,} states: discounted {discounted:.1f} s, average", end=" ")
        print(f"{average:.1f} s, {average / discounted:.2f} times", flush=True)
        relative(ts.solve(second.mdp))  # compiles
        print(f"relative values: {relative(second):.1f} s more", flush=True)


if __name__ == "__main__":
    main()
