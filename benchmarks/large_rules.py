"""A small rule for half a million states: seconds, processor seconds and peak memory.

    python benchmarks/large_rules.py [loss ...]           0.01 by default

Inventory with 1,001 levels of stock and 501 regimes, five actions. Most of the time goes
into evaluating single rules. The figures include the certificate of the result, and not the
solution. The limit is two minutes.
"""

from __future__ import annotations

import resource
import sys
import time

import tessella as ts

LIMIT_SECONDS = 120.0


def read_peak() -> float:
    """The most memory so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    losses = [float(word) for word in sys.argv[1:]] or [0.01]
    solution = ts.solve(ts.problem("inventory").build(max_stock=1000, max_regime=500))
    print(
        f"{solution.mdp.n_states:,} states; solved with a peak of {read_peak():.2f} GB", flush=True
    )
    print("| loss target | rule | numbers | certified | s | cpu s | peak GB |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for loss in losses:
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        rule = ts.compress(solution, loss, time_limit=LIMIT_SECONDS)
        seconds, cpu_start = time.perf_counter() - wall_start, time.process_time() - cpu_start
        row = [f"{loss:.2%}", rule.kind, f"{rule.size:,}", f"{rule.facts['relative_loss']:.3%}"]
        row += [f"{seconds:.0f}", f"{cpu_start:.0f}", f"{read_peak():.2f}"]
        print(f"| {' | '.join(row)} |", flush=True)
        print(*(f"    {outcome}" for outcome in rule.outcomes), sep="\n", flush=True)


if __name__ == "__main__":
    main()
