"""Perishable stock: the loss of rules with few parameters, where base stock loses 0.5 to 2.5 %.

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
from perishable import CASES, MAX_DEMAND, MAX_ORDER, Case, compute_measure
from tables import Table

import tessella as ts

LIMIT_SECONDS, MAX_PARAMETERS = 12.0, 6
SIZES = range(1, MAX_PARAMETERS + 1)
COLUMNS = ("life", "lead time", "waste", "issuing", "base stock", *map(str, SIZES))
INTRODUCTION = """# Simple rules for perishable stock

Written by `benchmarks/perishable_rules.py`. [Small rules](../rules.md) explains what is measured.
"""
COLUMNS_OF_ALL = *COLUMNS, "its class", "published measure", "s"
TABLE = Table("perishable_rules", COLUMNS_OF_ALL, keys=4, head=INTRODUCTION)


def measure_row(case: Case) -> list[str]:
    """A line of the table."""
    start = time.perf_counter()
    mdp = ts.problem("perishable").build(
        life=case.life,
        lead_time=case.lead_time,
        waste_cost=case.waste,
        issuing=case.issuing,
        max_demand=MAX_DEMAND,
    )
    solution = ts.solve(mdp)
    points = ts.frontier(solution, MAX_PARAMETERS, start=0, time_limit=LIMIT_SECONDS).points
    tables = [compute_base_stock(mdp, level) for level in range(MAX_ORDER + 1)]
    losses = [ts.loss(solution, table, 0).mean for table in tables]
    base_stock_loss = min(losses) / abs(float(solution.value.flat[0]))
    least = [min((p.loss for p in points if p.size <= n), default=np.nan) for n in SIZES]
    best = points[-1]
    optimum = measure_table(case, solution.policy.table)
    difference = optimum - measure_table(case, best.table.reshape(mdp.grid.shape))
    cells = [*map(str, case), f"{base_stock_loss:.2%}"]
    cells += [f"{max(loss, 0.0):.2%}" for loss in least]
    cells += [best.kind, f"{difference / abs(optimum):.2%}"]
    return [*cells, f"{time.perf_counter() - start:.0f}"]


def measure_table(case: Case, table: np.ndarray) -> float:
    """The published measure of a table of orders."""
    return compute_measure(case, lambda states: table[tuple(states.T)])


def main() -> None:
    lives = {int(word) for word in sys.argv[1:]} or {2}
    time.perf_counter = time.process_time  # so that limits are the same on a busy machine
    for case in CASES:
        if case.life in lives:
            TABLE.put(measure_row(case))


def compute_base_stock(mdp: ts.MDP, level: int) -> np.ndarray:
    """(S,) orders up to a level of all that is there or on its way."""
    return np.clip(level - mdp.grid.points.sum(axis=1), 0, MAX_ORDER).astype(int)


if __name__ == "__main__":
    main()
