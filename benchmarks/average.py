"""Average reward against discounted reward on the same model, in one run.

    python benchmarks/average.py [MODEL ...] [--sizes 200x100 1000x500] [--no-values]

Each model is solved once to compile and then timed, by both criteria, in processor seconds; then it
bounds the relative values, which happens when they are asked for (``--no-values`` leaves that out).
The table is docs/generated/averages.md; a run replaces the lines that it measures, one by one, and
keeps the others.
"""

from __future__ import annotations

import argparse
import time

from tables import Table

import tessella as ts

HEAD = """# Averages beside discounts

Written by `benchmarks/average.py`. [Benchmarks](../benchmarks.md) says what is measured.
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


def seconds(mdp: ts.MDP) -> tuple[float, ts.Solution]:
    ts.solve(mdp)  # compiles
    began = time.process_time()
    found = ts.solve(mdp)
    return time.process_time() - began, found


def relative(found: ts.Solution) -> tuple[str, str]:
    """Processor seconds for bounding the relative values, compilation included, and the bound."""
    began = time.process_time()
    error = found.value_error
    return f"{time.process_time() - began:.1f}", f"{error:.1g}"


def line(name: str, size: str, values: bool) -> list[str]:
    """One line of the table, measured now."""
    settings = dict(zip(SIZES[name], map(int, size.split("x")), strict=True))
    mdp = ts.problem(name).build(**settings)
    discounted, _ = seconds(mdp)
    average, found = seconds(mdp.with_criterion(ts.Average()))
    cells = [name, f"{mdp.n_states:,}", f"{discounted:.2f}", f"{average:.2f}"]
    cells += [f"{average / discounted:.2f}", f"{found.error_bound:.1g}"]
    return cells + (list(relative(found)) if values else ["not measured", ""])


def by_size(row: list[str]) -> tuple[int, str]:
    return int(row[1].replace(",", "")), row[0]


TABLE = Table("averages", COLUMNS, keys=2, order=by_size, head=HEAD)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", default=["200x100", "1000x500"])
    parser.add_argument("--no-values", dest="values", action="store_false")
    asked = parser.parse_args()
    for size in asked.sizes:
        for name in asked.models:
            TABLE.put(line(name, size, asked.values))


if __name__ == "__main__":
    main()
