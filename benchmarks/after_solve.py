"""Time and peak memory of what follows a solve of 10^8 states, on host and device.

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


def read_host_peak() -> float:
    """Peak memory of this process in GB, since ``reset_host_peak``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def reset_host_peak() -> None:
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def read_device_peak() -> float:
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000_000
    mdp = build(size) if size in SIZES else ts.inventory(max_stock=size // 25 - 1)
    regimes = mdp.grid.shape[1] - 1

    def rule(stock, regime):
        order = 7.6 + 9.8 * regime / regimes - stock
        return 4 * np.clip(np.floor(order / 4), 0, 4)

    results: dict[str, object] = {}
    print(f"{mdp.n_states:,} states, {jax.devices()[0].device_kind}")
    print("| what | s | host GB | device GB |\n| --- | ---: | ---: | ---: |", flush=True)

    def measure(name, work):
        reset_host_peak()
        start = time.perf_counter()
        try:
            results[name] = work()
        except Exception as error:  # a failure is a result too
            results[name] = f"{type(error).__name__}: {str(error)[:200]}"
            print(results[name])
        seconds = time.perf_counter() - start
        print(
            f"| {name} | {seconds:.1f} | {read_host_peak():.1f} | {read_device_peak():.1f} |",
            flush=True,
        )

    measure("solve", lambda: ts.solve(mdp, tol=1e-6))
    solution = results["solve"]
    assert isinstance(solution, ts.Solution)
    measure("certificate in blocks", lambda: ts.certify(solution, rule, blocks=True))
    print(results["certificate in blocks"])
    measure("loss of a rule", lambda: ts.loss(solution, rule))
    print(results.pop("loss of a rule"))
    measure("sample of 6,400", lambda: len(ts.draw(solution, 6400, noise=0.45, rng=1).states))
    measure("tessellation", lambda: ts.tessellate(solution))
    print(results["tessellation"])
    measure("geometry", lambda: ts.measure(results["tessellation"]))
    measure("structure", lambda: ts.examine(results["tessellation"]))
    print(str(results["structure"])[:600])


if __name__ == "__main__":
    main()
