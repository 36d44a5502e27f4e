"""One turn of one kind in its own process, which reports its cases line by line.

The process prints a line of JSON when a case starts and when it ends. If it dies or hangs, the last
case has a start and no end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

CASE_MAX_EXTRA_SECONDS = 300  # a case may take this long beyond its turn
KINDS_WITH_SHARED_CODE = (
    "building",
    "certificates",
    "checker",
    "lies",
    "criteria",
    "gains",
    "totals",
    "rules",
    "proofs",
    "exports",
    "hostile files",
)  # their models have few shapes


@dataclass
class Tally:
    """Counts and faults of the cases of one kind."""

    cases: int = 0
    seconds: float = 0.0
    faults: list[tuple[int, str]] = field(default_factory=list)  # (seed, description)


def run_seeds(name: str, first: int, seconds: float) -> None:
    """Run seeds from ``first`` on for ``seconds``, in this process."""
    from soak.kinds import KINDS

    kind, kill = KINDS[name], time.monotonic() + seconds
    for seed in range(first, first + kind.cases):
        report_case(seed)
        report_case(seed, run_case(name, seed))
        if time.monotonic() >= kill:
            return


def run_case(name: str, seed: int) -> list[str]:
    """The faults of one case; an exception is a fault."""
    from soak.kinds import KINDS

    try:
        with contextlib.redirect_stdout(sys.stderr):
            return KINDS[name].faults(seed)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def report_case(seed: int, faults: list[str] | None = None) -> None:
    print(json.dumps([seed, faults]), flush=True)


def run_turn(name: str, first: int, seconds: float, cache_folder: str) -> Tally:
    """Run a turn in a new process; ``cache_folder`` is a folder for compiled code."""
    start = time.monotonic()
    arguments = ["--kind", name, "--seed", str(first), "--turn", str(seconds)]
    process = subprocess.Popen(
        [sys.executable, "-m", "soak", *arguments],
        cwd=Path(__file__).parents[1],
        env={
            **os.environ,
            **(make_cache_settings(cache_folder) if name in KINDS_WITH_SHARED_CODE else {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds + CASE_MAX_EXTRA_SECONDS)
        last_line = errors.strip().splitlines()[-1:]
        failure = " ".join([f"the process died with status {process.returncode}", *last_line])
    except subprocess.TimeoutExpired:
        failure = f"no answer after {seconds + CASE_MAX_EXTRA_SECONDS:.0f} seconds"
        kill(process)
        output, _ = process.communicate()
    finally:
        kill(process)
    return count_cases(output, time.monotonic() - start, failure if process.returncode else "")


def make_cache_settings(folder: str) -> dict[str, str]:
    """Environment variables that make JAX keep all compiled code in ``folder``."""
    return {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def kill(process: subprocess.Popen) -> None:
    """Kill a process and those that it started, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def count_cases(output: str, seconds: float, failure: str) -> Tally:
    """The tally of a turn from its output; ``failure`` is empty if it ended well."""
    tally, open_seed = Tally(seconds=seconds), None
    for line in output.splitlines():
        seed, faults = json.loads(line)
        open_seed = seed if faults is None else None
        if faults is not None:
            tally.cases += 1
            tally.faults += [(seed, fault) for fault in faults]
    if open_seed is not None:
        tally.cases += 1
    if failure:
        tally.faults.append((-1 if open_seed is None else open_seed, failure))
    return tally
