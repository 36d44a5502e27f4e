"""One turn of one kind, in a process of its own, which says what it does and what it found.

A line of JSON for each case as it begins and as it ends: a process that dies or hangs leaves the
seed of its last case without an end.
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

GRACE = 300  # seconds that a case may take beyond its turn
FEW_SHAPES = (
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
)  # whose turns share compiled code


@dataclass
class Tally:
    """What came of the cases of one kind."""

    cases: int = 0
    seconds: float = 0.0
    faults: list[tuple[int, str]] = field(default_factory=list)  # seed, words


def serve(name: str, first: int, seconds: float) -> None:
    """Judge seeds from ``first`` on, for so long; in the turn's own process."""
    from soak.kinds import KINDS

    kind, end = KINDS[name], time.monotonic() + seconds
    for seed in range(first, first + kind.cases):
        say(seed)
        say(seed, judged(name, seed))
        if time.monotonic() >= end:
            return


def judged(name: str, seed: int) -> list[str]:
    """The faults of one case; an error is one."""
    from soak.kinds import KINDS

    try:
        with contextlib.redirect_stdout(sys.stderr):
            return KINDS[name].faults(seed)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def say(seed: int, faults: list[str] | None = None) -> None:
    print(json.dumps([seed, faults]), flush=True)


def take(name: str, first: int, seconds: float, compiled: str) -> Tally:
    """Start a turn, wait for its end, and count; ``compiled`` is a folder for compiled code."""
    began = time.monotonic()
    words = ["--kind", name, "--seed", str(first), "--turn", str(seconds)]
    process = subprocess.Popen(
        [sys.executable, "-m", "soak", *words],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **(caching(compiled) if name in FEW_SHAPES else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds + GRACE)
        last = errors.strip().splitlines()[-1:]
        ended = " ".join([f"the process died with status {process.returncode}", *last])
    except subprocess.TimeoutExpired:
        ended = f"no answer after {seconds + GRACE:.0f} seconds"
        end(process)
        output, _ = process.communicate()
    finally:
        end(process)
    return counted(output, time.monotonic() - began, ended if process.returncode else "")


def caching(folder: str) -> dict[str, str]:
    """The environment in which compiled code, however quickly compiled, is kept in ``folder``."""
    return {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def end(process: subprocess.Popen) -> None:
    """Kill it with all that it has started, if it is still there."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def counted(output: str, seconds: float, ended: str) -> Tally:
    """The tally of what a turn said; ``ended`` is why it ended, if not well."""
    tally, open_seed = Tally(seconds=seconds), None
    for line in output.splitlines():
        seed, faults = json.loads(line)
        open_seed = seed if faults is None else None
        if faults is not None:
            tally.cases += 1
            tally.faults += [(seed, fault) for fault in faults]
    if open_seed is not None:
        tally.cases += 1
    if ended:
        tally.faults.append((-1 if open_seed is None else open_seed, ended))
    return tally
