"""Whether a change costs a processor anything: solves of this version and of a former one, in turn.

    python benchmarks/beside_former.py FOLDER OF THE FORMER VERSION'S SOURCES [ROUNDS]

Each solve runs in a process of its own, is compiled by a first one, and is timed in seconds of the
processor; what is told is the least of each version, and their ratio.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SIZES = {825: (32, 24, 200), 20_301: (200, 100, 10), 501_501: (1000, 500, 1)}
TIMED = """
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


def seconds(source: Path, numbers: tuple[int, ...]) -> float:
    settings = os.environ | {"PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", TIMED, *map(str, numbers)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    former, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    now = Path(__file__).resolve().parents[1] / "src"
    print("| states | former, CPU s | now, CPU s | ratio |\n| ---: | ---: | ---: | ---: |")
    for states, numbers in SIZES.items():
        pairs = [(seconds(former, numbers), seconds(now, numbers)) for _ in range(rounds)]
        before, after = (min(side) for side in zip(*pairs, strict=True))
        print(f"| {states:,} | {before:.4f} | {after:.4f} | {after / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
