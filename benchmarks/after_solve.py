"""What comes after a solve, at 10^8 states: seconds, and the most memory of host and device.

    python benchmarks/after_solve.py [100000000]

A rule of two numbers is compared with the optimum: its exact loss, its certificate in blocks, the
geometry and structure of the policy, and samples for learners.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from pathlib import Path

import jax
import numpy as np
from billion import SIZES, build

import tessella as ts


def host_peak() -> float:
    """GB of this process at most, since ``forget``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def forget() -> None:
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def device_peak() -> float:
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000_000
    mdp = build(size) if size in SIZES else ts.inventory(max_stock=size // 25 - 1)
    regimes = mdp.grid.shape[1] - 1

    def rule(stock, regime):
        wanted = 7.6 + 9.8 * regime / regimes - stock
        return 4 * np.clip(np.floor(wanted / 4), 0, 4)

    made: dict[str, object] = {}
    print(f"{mdp.n_states:,} states, {jax.devices()[0].device_kind}")
    print("| what | s | host GB | device GB |\n| --- | ---: | ---: | ---: |", flush=True)

    def measured(name, work):
        forget()
        began = time.perf_counter()
        try:
            made[name] = work()
        except Exception as error:  # what is not possible is a finding
            made[name] = f"{type(error).__name__}: {str(error)[:200]}"
            print(made[name])
        spent = time.perf_counter() - began
        print(f"| {name} | {spent:.1f} | {host_peak():.1f} | {device_peak():.1f} |", flush=True)

    measured("solve", lambda: ts.solve(mdp, tol=1e-6))
    solution = made["solve"]
    assert isinstance(solution, ts.Solution)
    measured("certificate in blocks", lambda: ts.certify(solution, rule, blocks=True))
    print(made["certificate in blocks"])
    measured("loss of a rule", lambda: ts.loss(solution, rule))
    print(made.pop("loss of a rule"))
    measured("sample of 6,400", lambda: len(ts.draw(solution, 6400, noise=0.45, rng=1).states))
    measured("tessellation", lambda: ts.tessellate(solution))
    print(made["tessellation"])
    measured("geometry", lambda: ts.measure(made["tessellation"]))
    measured("structure", lambda: ts.examine(made["tessellation"]))
    print(str(made["structure"])[:600])


if __name__ == "__main__":
    main()
