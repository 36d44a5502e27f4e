"""Times one solve of the inventory model at three sizes, and what it takes in memory.

    python benchmarks/solve.py

Every size runs in a process of its own. Memory is the peak above what the process held after its
imports, the compiler's own included. Warm figures are medians of repeated solves of freshly built
models, so they show that a new model of a known shape compiles nothing.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time

SIZES = {825: (32, 24), 20_301: (200, 100), 501_501: (1000, 500)}
TOLERANCE = 1e-6


def build(states: int, discount: float):
    import tessella as ts

    max_stock, max_regime = SIZES[states]
    slope = 0.36 * 24 / max_regime  # the same demand range at every size
    return ts.inventory(
        max_stock=max_stock, max_regime=max_regime, demand_slope=slope, discount=discount
    )


def measure(states: int, method_name: str, discount: float, repeats: int) -> dict:
    import jax

    import tessella as ts
    from tessella.solvers.execution_plan import make_plan
    from tessella.solvers.solve import solve

    jax.devices()
    build(825, discount)  # building imports what a model needs; nothing is compiled yet
    resident = _read_resident_mb()
    start = time.perf_counter()
    model = build(states, discount)
    build_seconds = time.perf_counter() - start
    method = (
        make_plan(model, tol=TOLERANCE).method
        if method_name == "auto"
        else getattr(ts, method_name)(TOLERANCE)
    )
    start = time.perf_counter()
    solution = solve(model, method)
    first_seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - resident
    walls, cpus = [], []
    for _ in range(repeats):
        model = build(states, discount)
        start, cpu = time.perf_counter(), time.process_time()
        solution = solve(model, method)
        walls.append(time.perf_counter() - start)
        cpus.append(time.process_time() - cpu)
    return {
        "states": states,
        "discount": discount,
        "method": type(method).__name__,
        "sweeps": solution.sweeps,
        "bound": solution.error_bound,
        "build_ms": 1e3 * build_seconds,
        "first_s": first_seconds,
        "wall_ms": 1e3 * statistics.median(walls),
        "best_ms": 1e3 * min(walls),
        "cpu_ms": 1e3 * statistics.median(cpus),
        "peak_mb": peak,
    }


def _read_resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    jobs = [
        (825, "auto", 0.95, 50),
        (20_301, "auto", 0.95, 9),
        (501_501, "auto", 0.95, 3),
        (825, "ValueIteration", 0.95, 50),
        (501_501, "ValueIteration", 0.95, 3),
        (20_301, "auto", 0.999, 3),
        (20_301, "ValueIteration", 0.999, 1),
    ]
    print(
        "| states | discount | method | sweeps | bound | build ms | first s | "
        "wall ms (median, best) | cpu ms | peak MB |"
    )
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for job in jobs:
        command = [sys.executable, __file__, "--one", *map(str, job)]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        r = json.loads(result.stdout.splitlines()[-1])
        rows.append(r)
        print(
            f"| {r['states']:,} | {r['discount']} | {r['method']} | {r['sweeps']:,} | "
            f"{r['bound']:.1e} | {r['build_ms']:.1f} | {r['first_s']:.2f} | "
            f"{r['wall_ms']:.1f}, {r['best_ms']:.1f} | {r['cpu_ms']:.1f} | {r['peak_mb']:.0f} |",
            flush=True,
        )
    ratio = rows[-1]["best_ms"] / rows[-2]["best_ms"]
    print(f"\ndiscount 0.999: {ratio:.1f} times faster than value iteration")


if __name__ == "__main__":
    if "--one" in sys.argv:
        size, name, discount, repeats = sys.argv[2:]
        print(json.dumps(measure(int(size), name, float(discount), int(repeats))))
    else:
        main()
