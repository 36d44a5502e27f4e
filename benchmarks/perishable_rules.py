"""Perishable stock: what rules of a handful of numbers lose, where base stock loses 0.5 to 2.5 %.

    python benchmarks/perishable_rules.py [life ...]

For the published cases (see ``perishable.py``; life 2 unless others are named): the loss of the
best base-stock level, and the least loss of any rule with 1 to 6 numbers that was found within
``SECONDS`` of the processor, as shares of the optimal value from empty. Losses are by evaluation.
The table is docs/generated/perishable_rules.md; a run replaces the lines that it measures. The
published measure, of the rule with at most 6 numbers, is the loss over 365 days after 100 from
empty. (A start that is stationary under the optimal policy would not do: some rules are optimal in
the few states that it visits, and never come there by themselves.)
"""

from __future__ import annotations

import sys
import time

import numpy as np
from perishable import CASES, DEMAND, MOST, measured
from tables import Table

import tessella as ts

SECONDS, NUMBERS = 12.0, 6
SIZES = range(1, NUMBERS + 1)
COLUMNS = ("life", "lead time", "waste", "issuing", "base stock", *map(str, SIZES))
HEAD = """# Perishable stock by rules

Written by `benchmarks/perishable_rules.py`. [Small rules](../rules.md) says what is measured.
"""
COLUMNS_OF_ALL = *COLUMNS, "its class", "published measure", "s"
TABLE = Table("perishable_rules", COLUMNS_OF_ALL, keys=4, head=HEAD)


def main() -> None:
    lives = {int(word) for word in sys.argv[1:]} or {2}
    time.perf_counter = time.process_time  # so that limits are the same on a busy machine
    for case in CASES:
        if case.life not in lives:
            continue
        begun = time.perf_counter()
        mdp = ts.problem("perishable").build(
            life=case.life,
            lead_time=case.lead_time,
            waste_cost=case.waste,
            issuing=case.issuing,
            max_demand=DEMAND,
        )
        solution = ts.solve(mdp)
        found = ts.frontier(solution, NUMBERS, start=0, time_limit=SECONDS)
        levels = [ts.loss(solution, base_stock(mdp, level), 0).mean for level in range(MOST + 1)]
        simple = min(levels) / abs(float(solution.value.flat[0]))
        least = [min((p.loss for p in found.points if p.size <= n), default=np.nan) for n in SIZES]
        best = found.points[-1]
        worth = [
            measured(case, lambda states, t=t: t[tuple(states.T)])
            for t in (solution.policy.table, best.table.reshape(mdp.grid.shape))
        ]
        cells = [*map(str, case), f"{simple:.2%}", *(f"{max(loss, 0.0):.2%}" for loss in least)]
        cells += [best.kind, f"{(worth[0] - worth[1]) / abs(worth[0]):.2%}"]
        TABLE.put([*cells, f"{time.perf_counter() - begun:.0f}"])


def base_stock(mdp: ts.MDP, level: int) -> np.ndarray:
    """(S,) orders up to a level of all that is there or on its way."""
    return np.clip(level - mdp.grid.points.sum(axis=1), 0, MOST).astype(int)


if __name__ == "__main__":
    main()
