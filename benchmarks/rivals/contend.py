"""One contender, one model, one process:  python contend.py CONTENDER MODEL.json ANSWER.npz

It builds and solves the model once, and then takes a turn for each line that comes in. For each it
answers with a line of JSON: seconds and processor seconds of building and of solving (of a turn,
the best and the median; the very first apart, it may compile), and peaks of memory over what the
process held before: of all of it, the compiler's own included, and of a model that is built and
solved once more.
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

import faults  # noqa: F401 - adds its kind to the models
import numpy as np
from models import Model

TURN = 0.2  # seconds of repeated solves in a turn
LONG = 10.0  # processor seconds of building and solving, beyond which it is not done over


def timed(function, *args):
    wall, cpu = time.perf_counter(), time.process_time()
    made = function(*args)
    return made, time.perf_counter() - wall, time.process_time() - cpu


def memory(what: str) -> int:
    """Bytes resident now (VmRSS) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))


def held() -> int:
    """Bytes resident, from where the next peak is counted."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def first(contender, model: Model, tol: float):
    """(built, answer, figures) of the first time, and of a second where that is short."""
    before = held()
    built, build_s, build_cpu = timed(contender.build, model)
    answer, first_s, first_cpu = timed(contender.solve, built, tol)
    figures = {
        "build_s": build_s,
        "build_cpu": build_cpu,
        "first_s": first_s,
        "solve_s": first_s,
        "solve_cpu": first_cpu,
        "memory": memory("VmHWM") - before,
    }
    if build_cpu + first_cpu < LONG:
        del built
        before = held()
        built, build_s, build_cpu = timed(contender.build, model)
        _, solve_s, solve_cpu = timed(contender.solve, built, tol)
        figures |= {
            "build_s": min(build_s, figures["build_s"]),
            "build_cpu": min(build_cpu, figures["build_cpu"]),
            "solve_s": min(solve_s, first_s),
            "solve_cpu": min(solve_cpu, first_cpu),
            "warm_memory": memory("VmHWM") - before,
        }
    return built, answer, figures


def turn(contender, model: Model, built, tol: float) -> dict:
    """As many solves as fit in a turn; what solves once is built anew for each."""
    walls, cpus = [], []
    until = time.perf_counter() + TURN
    while not walls or time.perf_counter() < until:
        again = contender.build(model) if getattr(contender, "ONCE", False) else built
        _, wall, cpu = timed(contender.solve, again, tol)
        walls.append(wall)
        cpus.append(cpu)
    return {"solve_s": min(walls), "solve_cpu": float(np.median(cpus))}


def main() -> None:
    name, told, answer = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a package prints is no answer
    given = json.loads(Path(told).read_text())
    tol, most = given.pop("tol"), given.pop("bytes")
    model = Model(**{**given, "settings": tuple(given["settings"])})
    contender = importlib.import_module(f"contenders.with_{name}")
    if model.name.endswith("all settings as they come"):
        contender.CAP = None
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    built, (value, policy), figures = first(contender, model, tol)
    np.savez(answer, value=value, policy=policy)
    print(json.dumps(figures), file=out, flush=True)
    for _ in sys.stdin:
        print(json.dumps(turn(contender, model, built, tol)), file=out, flush=True)


if __name__ == "__main__":
    main()
