"""Memory of one process that solves and certifies a thousand models of different shapes.

    python benchmarks/shapes.py [--shapes 1000] [--threads 2] [--as-users-compile]

Of ten, eight are walks on a line, one is an inventory and one a queue; no two have the same shape,
so each is compiled. (Small models go as tables, which are not compiled and would show nothing
here: the script has all of them go through stages, as large ones do.) Compiling for speed takes
several seconds a shape; by default the script asks its own process for quick
compilation, which leaves as many memory maps. Ends with a verdict, and with status 1 where it is
not met: maps below a quarter of what Linux allows, and memory that no longer grows once the
engine's table is full.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
MAX_MAPS = 65_530  # memory maps of a process, by default
MAX_GROWTH = 1.15  # memory at the end, as a multiple of what it was at a fifth of the way


def build_walk(i: int):
    """A walk that can be pushed along."""
    import tessella as ts

    last = 3 + i
    return ts.MDP.staged(
        {"x": range(last + 1)},
        actions=(0, 1),
        action_name="push",
        discount=0.9,
        stages=[
            ts.Decide(
                "x", to=lambda x, push: np.minimum(x + push, last), pays=lambda push: -0.5 * push
            ),
            ts.Shift("x", ts.Noise("wind", [-1, 0, 1], [0.4, 0.3, 0.3]), pays=lambda x: 0.1 * x),
        ],
    )


def build_inventory(i: int):
    import tessella as ts

    return ts.inventory(max_stock=10 + i, max_regime=3, orders=(0, 4))


def build_queue(i: int):
    import tessella as ts

    return ts.queue_admission(max_queue=5 + i, max_regime=2)


def build_model(k: int):
    """The k-th shape."""
    turn, place = divmod(k, 10)
    if place < 8:
        return build_walk(8 * turn + place)
    return (build_inventory, build_queue)[place - 8](turn)


def certify_shape(k: int) -> float:
    """What the first action everywhere loses in the k-th shape, from a uniform start."""
    import tessella as ts
    from tessella.solvers.execution_plan import make_plan

    mdp = build_model(k)
    plan = make_plan(mdp, representation="stages")  # every shape is compiled
    certificate = ts.certify(ts.solve(mdp, plan=plan), np.zeros(mdp.grid.shape, dtype=int))
    loss = certificate.mean_loss
    if not (loss.upper >= 0 and loss.upper - loss.lower < 1e-6 * (1 + abs(loss))):
        raise AssertionError(f"shape {k}: a loss of {loss}")
    return loss


def read_resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--as-users-compile", action="store_true")
    options = parser.parse_args()
    if options.shapes < 100:
        parser.error("--shapes must be at least 100: the table must be full at a fifth of the way")
    if not options.as_users_compile:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_COMPILATION}"
    from tessella.mdp.compilation import COMPILATION_CACHE, count_memory_maps

    step = max(1, options.shapes // 10)
    print("| shapes | pieces kept | maps | resident MB | minutes |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    start, largest, memory = time.perf_counter(), 0, []
    with ThreadPoolExecutor(options.threads) as pool:
        for first in range(0, options.shapes, step):
            shapes = range(first, min(first + step, options.shapes))
            for _ in pool.map(certify_shape, shapes):
                largest = max(largest, count_memory_maps())
            memory.append(read_resident_mb())
            minutes = (time.perf_counter() - start) / 60
            row = f"| {shapes[-1] + 1:,} | {len(COMPILATION_CACHE)} | {count_memory_maps():,} "
            print(f"{row}| {memory[-1]:.0f} | {minutes:.1f} |", flush=True)
    growth = max(memory) / memory[min(1, len(memory) - 1)]
    is_within_limits = largest < MAX_MAPS / 4 and growth < MAX_GROWTH
    print(
        f"\n{options.shapes:,} shapes solved and certified in one process: at most "
        f"{largest:,} maps of {MAX_MAPS:,} and {max(memory):.0f} MB, {growth:.2f} times that of "
        f"{2 * step:,} shapes: "
        f"{'HELD' if is_within_limits else 'NOT HELD'}"
    )
    return 0 if is_within_limits else 1


if __name__ == "__main__":
    sys.exit(main())
