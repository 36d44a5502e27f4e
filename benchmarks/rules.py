"""How small a rule can be: numbers needed at four losses, on average and from the worst state.

    python benchmarks/rules.py [benchmark ...]

Each entry is the size of the smallest rule that was found and its class, then what is proven
necessary in that class (nothing, where the class is searched and not solved). Seconds are those of
the search at 1 % on average, and processor seconds of all eight.
"""

from __future__ import annotations

import sys
import time

import tessella as ts

LOSSES = (0.0, 0.001, 0.01, 0.05)
SHORT = {
    "one action": "one action",
    "order up to": "order-up-to",
    "linear index": "index",
    "run-length table": "table",
    "axis tree": "tree",
    "rule with exceptions": "exceptions",
    "staircase": "staircase",
}


def cell(rule: ts.Rule) -> str:
    proven = f", >= {rule.size_needed}" if rule.size_needed else ""
    return f"{rule.size} {SHORT.get(rule.kind, rule.kind)}{proven}"


def main() -> None:
    names = sys.argv[1:] or list(ts.BENCHMARKS)
    heads = [f"{loss:.1%}" for loss in LOSSES] + [f"{loss:.1%} worst" for loss in LOSSES]
    print(f"| benchmark | {' | '.join(heads)} | s at 1 % | cpu s, all |")
    print("| --- |" + " ---: |" * 10)
    for name in names:
        solution = ts.solve(ts.benchmark(name))
        begun, cells, seconds = time.process_time(), [], 0.0
        for worst in (False, True):
            for loss in LOSSES:
                rule = ts.compress(solution, loss, worst=worst)
                cells.append(cell(rule))
                seconds = rule.seconds if loss == 0.01 and not worst else seconds
        used = time.process_time() - begun
        print(f"| {name} | {' | '.join(cells)} | {seconds:.1f} | {used:.0f} |", flush=True)


if __name__ == "__main__":
    main()
