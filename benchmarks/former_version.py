"""Compare the solve times of this version and of a former one, in turn.

    python benchmarks/former_version.py FOLDER OF THE FORMER VERSION'S SOURCES [ROUNDS]

Each solve runs in a process of its own, is compiled by a first one, and is timed in seconds of the
processor; the output has the least time of each version, and their ratio.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SIZES = {825: (32, 24, 200), 20_301: (200, 100, 10), 501_501: (1000, 500, 1)}
PROGRAM = """
import sys, time
import tessella as ts
stock, regimes, times = map(int, sys.argv[1:])
mdp = ts.inventory(max_stock=stock, max_regime=regimes, demand_slope=0.36 * 24 / regimes)
ts.solve(mdp, tol=1e-6)
began = time.process_time()
for _ in range(times):
    ts.solve(mdp, tol=1e-6)
print((time.process_time() - began) / times)
"""


def time_solve(source: Path, arguments: tuple[int, ...]) -> float:
    settings = os.environ | {"PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    result = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return float(result.stdout)


def main() -> None:
    former, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    current = Path(__file__).resolve().parents[1] / "src"
    print("| states | former, CPU s | now, CPU s | ratio |\n| ---: | ---: | ---: | ---: |")
    for states, arguments in SIZES.items():
        pairs = [
            (time_solve(former, arguments), time_solve(current, arguments)) for _ in range(rounds)
        ]
        former_seconds, current_seconds = (min(side) for side in zip(*pairs, strict=True))
        print(
            f"| {states:,} | {former_seconds:.4f} | {current_seconds:.4f} | "
            f"{current_seconds / former_seconds:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
