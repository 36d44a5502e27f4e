"""Average reward against discounted reward on the same model, in one run.

    python benchmarks/average.py [MODEL ...] [--sizes 200x100 1000x500] [--no-values]

Each model is solved once to compile and then timed, by both criteria, in processor seconds; then it
bounds the relative values, which a solve does only on request (``--no-values`` leaves that out).
The table is docs/generated/averages.md; a run replaces the lines that it measures, one by one, and
keeps the others.
"""

from __future__ import annotations

import argparse
import time

from tables import Table

import tessella as ts

INTRODUCTION = """# Averages and discounts compared

Written by `benchmarks/average.py`. [Results](../results/speed.md) explains what is measured.
"""
SIZES = {"inventory": ("max_stock", "max_regime"), "queue_admission": ("max_queue", "max_regime")}
COLUMNS = (
    "model",
    "states",
    "discounted, CPU s",
    "average, CPU s",
    "ratio",
    "gain off by",
    "relative values, CPU s",
    "off by",
)


def time_solve(mdp: ts.MDP) -> tuple[float, ts.Solution]:
    ts.solve(mdp)  # compiles
    start = time.process_time()
    solution = ts.solve(mdp)
    return time.process_time() - start, solution


def measure_relative_values(solution: ts.Solution) -> tuple[str, str]:
    """Processor seconds for bounding the relative values, compilation included, and the bound."""
    start = time.process_time()
    error = solution.value_error
    return f"{time.process_time() - start:.1f}", f"{error:.1g}"


def measure_row(name: str, size: str, with_values: bool) -> list[str]:
    """One line of the table, measured now."""
    settings = dict(zip(SIZES[name], map(int, size.split("x")), strict=True))
    mdp = ts.problem(name).build(**settings)
    discounted, _ = time_solve(mdp)
    average, solution = time_solve(mdp.with_criterion(ts.Average()))
    cells = [name, f"{mdp.n_states:,}", f"{discounted:.2f}", f"{average:.2f}"]
    cells += [f"{average / discounted:.2f}", f"{solution.error_bound:.1g}"]
    return cells + (
        list(measure_relative_values(solution)) if with_values else ["not measured", ""]
    )


def get_sort_key(row: list[str]) -> tuple[int, str]:
    return int(row[1].replace(",", "")), row[0]


TABLE = Table("averages", COLUMNS, keys=2, order=get_sort_key, head=INTRODUCTION)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", default=["200x100", "1000x500"])
    parser.add_argument("--no-values", dest="values", action="store_false")
    options = parser.parse_args()
    for size in options.sizes:
        for name in options.models:
            TABLE.put(measure_row(name, size, options.values))


if __name__ == "__main__":
    main()
