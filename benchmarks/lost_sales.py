"""Lost sales with a lead time: Zipkin's (2008) eight optimal average costs beside ours.

    python benchmarks/lost_sales.py            lead times 2 and 4
    python benchmarks/lost_sales.py 6          another lead time, Poisson demand, penalty 4
    python benchmarks/lost_sales.py 6 34 5     a capped base-stock policy there: its two levels

The cost is enclosed: for any h the optimal gain lies between min and max of T h - h, rounding
included. Relative values are not asked for, and so not bounded: that would take the longest.
Axes end at Morton's bounds (see ``tessella.problems.inventory``), so nothing is cut off.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import tessella as ts

PRINTED = {  # demand, penalty: lead times 2 and 4
    ("Poisson", 4): (4.40, 4.73),
    ("Poisson", 19): (7.66, 8.89),
    ("geometric", 4): (10.24, 10.61),
    ("geometric", 19): (20.89, 22.95),
}
METHOD = ts.ModifiedPolicyIteration(partial_sweeps=2, tol=5e-6)


def solved(lead_time: int, demand: str, penalty: float, watch=None) -> tuple[ts.MDP, Any, float]:
    """Model, gain with its bound, seconds."""
    problem = ts.problem("lost_sales")
    mdp = problem.build(lead_time=lead_time, demand=demand, penalty=penalty)
    clock = time.perf_counter()
    found = ts.solve(mdp, METHOD, callback=watch, partial=True)
    return mdp, found, time.perf_counter() - clock


def line(lead_time: int, demand: str, penalty: float, printed: str, watch=None) -> None:
    mdp, found, seconds = solved(lead_time, demand, penalty, watch)
    cost = f"{-found.gain:.6f} ± {found.error_bound:.1e}"
    cells = [demand, penalty, lead_time, f"{mdp.n_states:,}", printed, cost, f"{seconds:.0f}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def capped(lead_time: int, level: int, most: int) -> float:
    """The average cost of ordering up to ``level``, at most ``most``: by evaluation."""
    mdp = ts.problem("lost_sales").build(lead_time=lead_time)
    position = sum(np.ix_(*mdp.grid.values))
    table = np.clip(level - position, 0, most)
    gain = ts.evaluate(mdp, table, tol=1e-4).gain
    assert gain is not None
    return -gain


def main() -> None:
    if len(sys.argv) == 4:
        print(f"{capped(*map(int, sys.argv[1:])):.4f}")
        return
    print("| demand | p | L | states | printed | ours | s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    if len(sys.argv) > 1:
        line(
            int(sys.argv[1]),
            "Poisson",
            4,
            "",
            lambda p: print(p.sweep, p.bound, round(p.seconds), file=sys.stderr, flush=True),
        )
        return
    for (demand, penalty), costs in PRINTED.items():
        for lead_time, printed in zip((2, 4), costs, strict=True):
            line(lead_time, demand, penalty, f"{printed:.2f}")


if __name__ == "__main__":
    main()
