"""Run one contender on one model:  python run_contender.py CONTENDER MODEL.json ANSWER.npz

The process builds and solves the model once, then runs one turn of repeated solves for each line
on its standard input. After each it prints a line of JSON: wall and processor seconds of building
and solving (for a turn, the best wall time and the median processor time; the first solve, which
may compile, separately), and peaks of memory above what the process held before. One peak includes
the compiler; the other belongs to a model that is built and solved a second time.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path

import faults  # noqa: F401 - registers its kind of model
import numpy as np
from models import Model

TURN_SECONDS = 0.2  # of repeated solves
REPEAT_MAX_CPU_SECONDS = 10.0  # a longer build and solve is not repeated


def measure_time(function, *args):
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*args)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def read_memory(field: str) -> int:
    """Bytes resident now (VmRSS) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def reset_peak_memory() -> int:
    """Reset the peak of memory; returns the bytes resident now."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return read_memory("VmRSS")


def run_first(contender, model: Model, tol: float):
    """(built, answer, figures) of a build and solve, done twice if the first is short."""
    before = reset_peak_memory()
    built, build_s, build_cpu = measure_time(contender.build, model)
    answer, first_s, first_cpu = measure_time(contender.solve, built, tol)
    figures = {
        "build_s": build_s,
        "build_cpu": build_cpu,
        "first_s": first_s,
        "solve_s": first_s,
        "solve_cpu": first_cpu,
        "memory": read_memory("VmHWM") - before,
    }
    if build_cpu + first_cpu < REPEAT_MAX_CPU_SECONDS:
        del built
        before = reset_peak_memory()
        built, build_s, build_cpu = measure_time(contender.build, model)
        _, solve_s, solve_cpu = measure_time(contender.solve, built, tol)
        figures |= {
            "build_s": min(build_s, figures["build_s"]),
            "build_cpu": min(build_cpu, figures["build_cpu"]),
            "solve_s": min(solve_s, first_s),
            "solve_cpu": min(solve_cpu, first_cpu),
            "warm_memory": read_memory("VmHWM") - before,
        }
    return built, answer, figures


def run_turn(contender, model: Model, built, tol: float) -> dict:
    """Solve repeatedly for one turn; a package that cannot repeat a solve builds each time."""
    walls, cpus = [], []
    end = time.perf_counter() + TURN_SECONDS
    while not walls or time.perf_counter() < end:
        fresh = contender.build(model) if getattr(contender, "SOLVES_ONCE", False) else built
        _, wall, cpu = measure_time(contender.solve, fresh, tol)
        walls.append(wall)
        cpus.append(cpu)
    return {"solve_s": min(walls), "solve_cpu": float(np.median(cpus))}


def main() -> None:
    name, model_path, answer_path = sys.argv[1:]
    figures_stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a package prints is not part of the answer
    settings = json.loads(Path(model_path).read_text())
    tol, max_bytes = settings.pop("tol"), settings.pop("bytes")
    model = Model(**{**settings, "settings": tuple(settings["settings"])})
    contender = importlib.import_module(f"contenders.with_{name}")
    if model.name.endswith("all settings as they come"):
        contender.MAX_ITERATIONS = None
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))
    built, (value, policy), figures = run_first(contender, model, tol)
    np.savez(answer_path, value=value, policy=policy)
    print(json.dumps(figures), file=figures_stream, flush=True)
    for _ in sys.stdin:
        print(json.dumps(run_turn(contender, model, built, tol)), file=figures_stream, flush=True)


if __name__ == "__main__":
    main()
