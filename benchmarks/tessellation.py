"""Tessellate and measure ten million states: wall time, processor time, peak memory.

    python benchmarks/tessellation.py [--side 3163] [--actions 5]

Each map runs in a process of its own, so that its peak memory is its own. "policy" is a smooth
switching map like an optimal policy; "checkerboard" has one cell for each state and "random" has
millions, which no optimal policy does: they are the worst the code can meet. "baseline" is the
process with the map alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from tessella.grid import StateGrid
from tessella.tessellation import measure, tessellate


def make(kind: str, side: int, actions: int) -> np.ndarray:
    if kind == "random":
        return np.random.default_rng(0).integers(0, actions, (side, side), dtype=np.int32)
    i, j = np.ogrid[:side, :side]
    if kind == "checkerboard":
        return ((i + j) % 2).astype(np.int32)
    bend = side / 12 * np.sin(j * 4 * np.pi / side)
    return np.clip((i + bend) * actions / side, 0, actions - 1).astype(np.int32)


def run(kind: str, side: int, actions: int) -> None:
    table = make("policy" if kind == "baseline" else kind, side, actions)
    grid = StateGrid(x=range(side), y=range(side))
    model: Any = SimpleNamespace(
        grid=grid, actions=tuple(range(actions)), action_name="act", name=""
    )
    wall, cpu = time.perf_counter(), time.process_time()
    diagnostics = ""
    if kind != "baseline":
        geometry = measure(tessellate(model, table))
        diagnostics = ", ".join(
            f"{k} {v:,}" if isinstance(v, int) else f"{k} {v:.5f}"
            for k, v in geometry.diagnostics.items()
        )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    scale = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e9
    print(f"{kind:13}{wall:7.2f} s wall{cpu:7.2f} s processor{peak:7.2f} GB peak   {diagnostics}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", type=int, default=3163)
    parser.add_argument("--actions", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.side**2:,} states, {options.actions} actions")
    for kind in ("baseline", "policy", "random", "checkerboard"):
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=run, args=(kind, options.side, options.actions))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{kind} failed")


if __name__ == "__main__":
    main()
