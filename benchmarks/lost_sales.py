"""Lost sales with a lead time: Zipkin's (2008) eight optimal average costs compared with ours.

    python benchmarks/lost_sales.py            lead times 2 and 4
    python benchmarks/lost_sales.py 6          another lead time, Poisson demand, penalty 4
    python benchmarks/lost_sales.py 6 34 5     a capped base-stock policy there: its two levels

The cost is enclosed: for any h the optimal gain lies between min and max of T h - h, rounding
included. Relative values are not requested, since their bounds would take longest.
Axes end at Morton's bounds (see ``tessella.problems.inventory``), so nothing is cut off.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import tessella as ts

PUBLISHED = {  # demand, penalty: lead times 2 and 4
    ("Poisson", 4): (4.40, 4.73),
    ("Poisson", 19): (7.66, 8.89),
    ("geometric", 4): (10.24, 10.61),
    ("geometric", 19): (20.89, 22.95),
}
METHOD = ts.ModifiedPolicyIteration(partial_sweeps=2, tol=5e-6)


def solve(lead_time: int, demand: str, penalty: float, callback=None) -> tuple[ts.MDP, Any, float]:
    """Model, gain with its bound, seconds."""
    problem = ts.problem("lost_sales")
    mdp = problem.build(lead_time=lead_time, demand=demand, penalty=penalty)
    start = time.perf_counter()
    solution = ts.solve(mdp, METHOD, callback=callback, partial=True)
    return mdp, solution, time.perf_counter() - start


def print_row(lead_time: int, demand: str, penalty: float, published: str, callback=None) -> None:
    mdp, solution, seconds = solve(lead_time, demand, penalty, callback)
    cost = f"{-solution.gain:.6f} ± {solution.error_bound:.1e}"
    cells = [demand, penalty, lead_time, f"{mdp.n_states:,}", published, cost, f"{seconds:.0f}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def evaluate_capped(lead_time: int, level: int, max_order: int) -> float:
    """The average cost of ordering up to ``level``, at most ``most``: by evaluation."""
    mdp = ts.problem("lost_sales").build(lead_time=lead_time)
    position = sum(np.ix_(*mdp.grid.values))
    table = np.clip(level - position, 0, max_order)
    gain = ts.evaluate(mdp, table, tol=1e-4).gain
    assert gain is not None
    return -gain


def main() -> None:
    if len(sys.argv) == 4:
        print(f"{evaluate_capped(*map(int, sys.argv[1:])):.4f}")
        return
    print("| demand | p | L | states | printed | ours | s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    if len(sys.argv) > 1:
        print_row(
            int(sys.argv[1]),
            "Poisson",
            4,
            "",
            lambda p: print(p.sweep, p.bound, round(p.seconds), file=sys.stderr, flush=True),
        )
        return
    for (demand, penalty), costs in PUBLISHED.items():
        for lead_time, published in zip((2, 4), costs, strict=True):
            print_row(lead_time, demand, penalty, f"{published:.2f}")


if __name__ == "__main__":
    main()
