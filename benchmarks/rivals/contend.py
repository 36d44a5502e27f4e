"""One contender, one model, one process:  python contend.py CONTENDER MODEL.json ANSWER.npz

Prints a line of JSON: seconds and processor seconds of building and solving (the best of several
solves where they are short; the first apart, it may compile), and the peak of memory over what the
process held before.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path

import faults  # noqa: F401 - adds its kind to the models
import numpy as np
from models import Model

ENOUGH = 1.0  # seconds of repeated solves ...
LONG = 30.0  # ... after a first that took less than this
MEMORY = 14 << 30  # bytes that a process may address beyond which it is stopped


def timed(function, *args):
    wall, cpu = time.perf_counter(), time.process_time()
    made = function(*args)
    return made, time.perf_counter() - wall, time.process_time() - cpu


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    name, told, answer = sys.argv[1:]
    given = json.loads(Path(told).read_text())
    tol, model = given.pop("tol"), Model(**{**given, "settings": tuple(given["settings"])})
    contender = importlib.import_module(f"contenders.with_{name}")
    if model.name.endswith("all settings as they come"):
        contender.CAP = None
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    before = peak()
    built, build_s, build_cpu = timed(contender.build, model)
    (value, policy), first_s, first_cpu = timed(contender.solve, built, tol)
    best_s, best_cpu, spent = first_s, first_cpu, 0.0
    while first_s < LONG and spent < ENOUGH and not getattr(contender, "ONCE", False):
        _, wall, cpu = timed(contender.solve, built, tol)
        best_s, best_cpu, spent = min(best_s, wall), min(best_cpu, cpu), spent + wall
    np.savez(answer, value=value, policy=policy)
    figures = {
        "build_s": build_s,
        "build_cpu": build_cpu,
        "first_s": first_s,
        "solve_s": best_s,
        "solve_cpu": best_cpu,
        "memory": peak() - before,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
