"""Solve time by discount: staged models from 0.9 to 0.9999 and the average, in one run.

    python benchmarks/discounts.py [--former FOLDER] [--sizes 20301 501501] [--models NAME ...]
    python benchmarks/discounts.py --accelerator [100000000:0.999 1000000000:0.95 ...]

Each model is solved once to compile, then timed in seconds of the processor, by ``ts.solve`` to
``tol = 5e-8 / (1 - discount)``, and 5e-8 for the gain of an average. FOLDER is a checkout of a
former version, which runs the same in a process of its own. With ``--accelerator``, inventory
models are timed in wall seconds, one line for each: a second solve, after one that compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import tessella as ts

SIZES = {20_301: (200, 100), 501_501: (1000, 500)}
DISCOUNTS = (0.9, 0.95, 0.99, 0.999, 0.9999, 1.0)  # 1: the average
ERROR_PER_PERIOD = 5e-8
TIME_LIMIT_SECONDS = 400.0  # of one solve, by a callback
# Stock and regimes, multiples of 128, for about as many states.
ACCELERATOR_SIZES = {
    1_000_000: (1024, 1024),
    10_000_000: (3200, 3200),
    100_000_000: (10_240, 10_240),
    1_000_000_000: (31_744, 31_744),
}
ACCELERATOR_RUNS = (
    "100000000:0.95",
    "100000000:0.99",
    "100000000:0.999",
    "100000000:0.9999",
    "1000000000:0.95",
)


def inventory(length: int, width: int, discount: float) -> ts.MDP:
    slope = 0.36 * 24 / width  # the same demand range at every size
    return ts.inventory(max_stock=length, max_regime=width, demand_slope=slope, discount=discount)


def queue_admission(length: int, width: int, discount: float) -> ts.MDP:
    return ts.queue_admission(
        max_queue=length, max_regime=width, arrival_slope=7 / width, discount=discount
    )


def maintenance(length: int, width: int, discount: float) -> ts.MDP:
    return ts.problem("maintenance").build(max_wear=length, max_load=width, discount=discount)


def periodic(length: int, width: int, discount: float) -> ts.MDP:
    """Stock on a ring of seasons that always move on: every chain is periodic."""
    peak = 4 + 3 * np.sin(2 * np.pi * np.arange(width + 1) / (width + 1))

    def demand(season):
        return ts.truncated_poisson(peak[np.asarray(season, int)], 12)

    order = ts.Decide(
        "stock",
        to=lambda stock, order: np.minimum(stock + 12 * order, length),
        pays=lambda order: -6.0 * (order > 0) - 2.0 * order,
    )
    sell = ts.Shift(
        "stock",
        ts.Noise("demand", -np.arange(13), demand),
        edge="clip",
        pays=lambda stock, demand: 3.0 * np.minimum(stock, -demand) - 0.02 * stock,
    )
    advance = ts.Decide("season", to=lambda season: (season + 1) % (width + 1))
    return ts.MDP.staged(
        {"stock": range(length + 1), "season": range(width + 1)},
        range(3),
        discount,
        [order, sell, advance],
        action_name="order",
    )


MODELS = {build.__name__: build for build in (inventory, queue_admission, maintenance, periodic)}


def build_model(name: str, size: int, discount: float) -> tuple[ts.MDP, float]:
    """(the model, the tolerance of its solve)."""
    if discount < 1:
        return MODELS[name](*SIZES[size], discount), ERROR_PER_PERIOD / (1 - discount)
    mdp = MODELS[name](*SIZES[size], 0.95)
    return mdp.with_criterion(ts.Average()), ERROR_PER_PERIOD


def measure(name: str, size: int, discount: float) -> dict:
    """Processor seconds of a solve that compiles nothing, and what it reached."""
    mdp, tol = build_model(name, size, discount)
    seconds = []
    solution = None
    for _ in range(4 if size < 100_000 else 2):
        start = time.process_time()

        def stop(progress, start=start):
            return time.process_time() - start > TIME_LIMIT_SECONDS

        callback = stop if seconds and seconds[0] > TIME_LIMIT_SECONDS / 4 else None
        solution = ts.solve(mdp, tol=tol, callback=callback, partial=True)
        seconds.append(time.process_time() - start)
        if seconds[0] > TIME_LIMIT_SECONDS / 4:
            break
    assert solution is not None
    return {
        "seconds": min(seconds[1:] or seconds),
        "method": solution.method,
        "sweeps": solution.sweeps,
        "bound": solution.error_bound / tol,
    }


def measure_in_process(source: Path, job: tuple[str, int, float]) -> dict:
    settings = os.environ | {"PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--one", *map(str, job)]
    result = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def compare(models: list[str], sizes: list[int], former: Path | None) -> None:
    print("| model | states | discount | method | sweeps | CPU s | of 0.95 | former | ratio |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    source = Path(__file__).resolve().parents[1] / "src"
    for name in models:
        for size in sizes:
            seconds = {}
            for discount in DISCOUNTS:
                job = name, size, discount
                result = measure_in_process(source, job)
                seconds[discount] = result["seconds"]
                cells = [name, f"{size:,}", "average" if discount == 1 else f"{discount}"]
                cells += [result["method"], f"{result['sweeps']}", f"{result['seconds']:.2f}"]
                cells.append(f"{result['seconds'] / seconds.get(0.95, np.nan):.1f}")
                if former is not None:
                    former_seconds = measure_in_process(former / "src", job)["seconds"]
                    cells += [f"{former_seconds:.2f}", f"{result['seconds'] / former_seconds:.2f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


def run_on_accelerator(runs: list[str]) -> None:
    import jax

    device = jax.devices()[0]
    print(f"JAX {jax.__version__}, {device.device_kind}", flush=True)
    for run in runs:
        size, discount = int(run.split(":")[0]), float(run.split(":")[1])
        stock, regimes = ACCELERATOR_SIZES[size]
        mdp = inventory(stock - 1, regimes - 1, discount)
        tol = ERROR_PER_PERIOD / (1 - discount)
        seconds, histories = [], []
        for _ in range(2):
            start = time.perf_counter()
            solution = ts.solve(mdp, tol=tol)
            jax.block_until_ready(solution.get_raw("value"))
            seconds.append(time.perf_counter() - start)
            histories.append(solution.history)
            del solution
        history = histories[-1]
        peak = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
        bounds = np.array2string(history.bound, precision=1, max_line_width=1000)
        print(
            f"{mdp.n_states:,} states, discount {discount}: first {seconds[0]:.2f} s, solve "
            f"{seconds[1]:.2f} s, {len(history.bound)} sweeps, peak {peak:.1f} GB, bounds {bounds},"
            f" at seconds {np.array2string(history.seconds, precision=2, max_line_width=1000)}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--former", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--accelerator", nargs="*")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one is not None:
        name, size, discount = options.one
        print(json.dumps(measure(name, int(size), float(discount))))
    elif options.accelerator is not None:
        run_on_accelerator(options.accelerator or list(ACCELERATOR_RUNS))
    else:
        compare(options.models, options.sizes, options.former)


if __name__ == "__main__":
    main()
