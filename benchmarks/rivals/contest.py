"""Run all contenders on one model, each in its own process, in turns.

Each contender builds and solves the model. Fast contenders keep their process and solve again in
several rounds, so that other load on the machine affects all of them alike. Each process has a
limit of processor seconds until its first answer, and a limit of memory; the processes that remain
fit into the machine together.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from environments import Environment, Rival
from models import Model

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-6
MEMORY_SHARE = 0.85  # of the machine, for all contenders together
PROCESS_MAX_BYTES = 10 << 30
TIME_LIMITS = ((1_000, 15), (50_000, 25), (200_000, 35), (np.inf, 120))  # (states below, seconds)
REPEAT_MAX_CPU_SECONDS = 5.0  # a slower contender does not solve again
TURN_CPU_SECONDS = 30.0  # limit of one more turn
POLL_SECONDS = 0.1  # between two readings of a process's time
MESSAGE_MAX_CHARACTERS = 140  # of an error message in the report
WALL_TO_CPU_MAX_RATIO = 4  # limit of wall-clock time, as a multiple of processor time


@dataclass
class Contender:
    """A process that solves one model."""

    rival: Rival
    process: subprocess.Popen
    stderr: IO[str]
    figures: dict[str, Any] = field(default_factory=dict)
    stop_reason: str = ""  # set when the process is stopped at a limit

    def read_figures(self, seconds: float) -> dict:
        """Read the next line of figures, or the reason why there is none."""
        is_answered = threading.Event()
        watch = threading.Thread(target=self._watch, args=(is_answered, seconds))
        watch.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        is_answered.set()
        watch.join()
        if line:
            return json.loads(line)
        self.process.wait()
        self.stderr.seek(0)
        return {
            "failed": self.stop_reason
            or explain_failure(self.process.returncode, self.stderr.read())
        }

    def _watch(self, is_answered: threading.Event, seconds: float) -> None:
        """Stop the process when its time is used up.

        It polls, because a limit set in the system makes the process's own clock coarse.
        """
        start = time.monotonic()
        while not is_answered.wait(POLL_SECONDS):
            cpu_seconds, wall_seconds = read_cpu_seconds(self.process.pid), time.monotonic() - start
            if cpu_seconds > seconds or wall_seconds > WALL_TO_CPU_MAX_RATIO * seconds:
                clock = "" if cpu_seconds > seconds else " by the clock"
                self.stop_reason = f"no answer in {wall_seconds if clock else seconds:.0f} s{clock}"
                self.process.kill()
                return

    def repeat_solve(self) -> None:
        """Run one more turn; the best turn counts. A process that has ended is skipped."""
        if self.process.poll() is not None:
            return
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        figures = self.read_figures(read_cpu_seconds(self.process.pid) + TURN_CPU_SECONDS)
        for key in ("solve_s", "solve_cpu"):
            self.figures[key] = min(self.figures[key], figures.get(key, np.inf))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stderr.close()


def read_cpu_seconds(pid: int) -> float:
    """Processor seconds that a process has used; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def explain_failure(status: int, output: str) -> str:
    """Why a process gave no answer, in one line."""
    lines = output.strip().splitlines()
    if any(word in output for word in ("MemoryError", "bad_alloc", "RESOURCE_EXHAUSTED")):
        return "out of memory"
    if status < 0:
        return f"died of signal {-status}"
    last = next((line for line in reversed(lines) if line.strip()), "ended without a word")
    if last.startswith("NotImplementedError"):
        return "cannot state it"
    message = re.sub(r"(^|\s)[\w.]+\.(?=\w+(Error|Exception))|/\S+/", r"\1", last.strip())
    return (
        message
        if len(message) <= MESSAGE_MAX_CHARACTERS
        else message[: MESSAGE_MAX_CHARACTERS - 3] + "..."
    )


def count_machine_bytes() -> int:
    """Bytes of memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def find_time_limit(model: Model) -> int:
    """Limit of processor seconds until the first answer, imports included."""
    return next(limit for states, limit in TIME_LIMITS if model.states < states)


def start_contender(
    rival: Rival, home: Environment, model: Model, folder: Path, max_bytes: int
) -> tuple[Contender, dict]:
    """A running contender, and its first figures with the answer, or the reason of its failure."""
    model_path, answer_path = folder / f"{rival.name}.json", folder / f"{rival.name}.npz"
    limits = {"tol": TOLERANCE, "bytes": max_bytes}
    model_path.write_text(json.dumps(asdict(model) | limits))
    answer_path.unlink(missing_ok=True)
    stderr = (folder / f"{rival.name}.txt").open("w+")
    process = subprocess.Popen(
        [
            home.python,
            str(HERE / "run_contender.py"),
            rival.name,
            str(model_path),
            str(answer_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=HERE,
    )
    contender = Contender(rival, process, stderr)
    figures = contender.read_figures(find_time_limit(model))
    if "failed" not in figures:
        with np.load(answer_path) as answer:
            figures |= {"value": answer["value"], "policy": answer["policy"]}
    contender.figures = figures
    return contender, figures


def run_contest(
    model: Model, contenders: list[Rival], homes: dict[str, Environment], folder: Path, rounds: int
) -> dict[str, dict]:
    """Figures and answer of each contender, or the reason of its failure."""
    repeating: list[Contender] = []
    figures_by_name: dict[str, dict] = {}
    free_bytes = int(MEMORY_SHARE * count_machine_bytes())
    for rival in contenders:
        contender, figures = start_contender(
            rival, homes[rival.name], model, folder, min(free_bytes, PROCESS_MAX_BYTES)
        )
        figures_by_name[rival.name] = figures
        if (
            "failed" in figures
            or figures["build_cpu"] + figures["solve_cpu"] > REPEAT_MAX_CPU_SECONDS
        ):
            contender.stop()
        else:
            repeating.append(contender)
            free_bytes -= figures["memory"]
    for _ in range(rounds):
        for contender in repeating:
            contender.repeat_solve()
    for contender in repeating:
        contender.stop()
    return figures_by_name


def request_answer(model: Model, rival: Rival, home: Environment, folder: Path) -> dict:
    """The answer of one contender, without repeated solves."""
    contender, figures = start_contender(rival, home, model, folder, PROCESS_MAX_BYTES)
    contender.stop()
    return figures
