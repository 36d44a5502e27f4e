"""One model, all contenders: each in a process of its own, taking turns.

Each builds and solves the model in its turn, and those that were quick keep their process and solve
again, round after round, so that what else the machine does meets all of them alike. Bounds for
each process: processor seconds until its first answer, and memory, so that all who are still
there fit into the machine together.
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
TOL = 1e-6
SHARE = 0.85  # of the machine's memory, for all contenders together
MOST = 10 << 30  # bytes for one of them
LIMITS = ((1_000, 15), (50_000, 25), (200_000, 35), (np.inf, 120))  # states below, seconds
QUICK = 5.0  # processor seconds, beyond which a contender is not asked again
TURN = 30.0  # processor seconds for one more turn
LOOK = 0.1  # seconds between two looks at what a process has used
LONGEST = 140  # characters of what a process said
CROWDED = 4  # times its processor seconds: what a process may take by the clock


@dataclass
class Contender:
    """A process that has a model."""

    rival: Rival
    process: subprocess.Popen
    said: IO[str]
    figures: dict[str, Any] = field(default_factory=dict)
    stopped: str = ""  # for what

    def listen(self, seconds: float) -> dict:
        """Its next line of figures, or why there is none."""
        answered = threading.Event()
        watch = threading.Thread(target=self._watch, args=(answered, seconds))
        watch.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        answered.set()
        watch.join()
        if line:
            return json.loads(line)
        self.process.wait()
        self.said.seek(0)
        return {"failed": self.stopped or reason(self.process.returncode, self.said.read())}

    def _watch(self, answered: threading.Event, seconds: float) -> None:
        """Stop the process when it has used its time.

        By looking from time to time: a limit of the system's own would make its clock coarse.
        """
        began = time.monotonic()
        while not answered.wait(LOOK):
            used, passed = processor(self.process.pid), time.monotonic() - began
            if used > seconds or passed > CROWDED * seconds:
                clock = "" if used > seconds else " by the clock"
                self.stopped = f"no answer in {passed if clock else seconds:.0f} s{clock}"
                self.process.kill()
                return

    def again(self) -> None:
        """One more turn; the best of all counts, and who ends in one has had its last."""
        if self.process.poll() is not None:
            return
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        told = self.listen(processor(self.process.pid) + TURN)
        for key in ("solve_s", "solve_cpu"):
            self.figures[key] = min(self.figures[key], told.get(key, np.inf))

    def leave(self) -> None:
        self.process.kill()
        self.process.wait()
        self.said.close()


def processor(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it is gone
        return 0.0
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def reason(status: int, said: str) -> str:
    """Why a process has no answer, in a line."""
    lines = said.strip().splitlines()
    if any(word in said for word in ("MemoryError", "bad_alloc", "RESOURCE_EXHAUSTED")):
        return "out of memory"
    if status < 0:
        return f"died of signal {-status}"
    last = next((line for line in reversed(lines) if line.strip()), "ended without a word")
    if last.startswith("NotImplementedError"):
        return "cannot state it"
    bare = re.sub(r"(^|\s)[\w.]+\.(?=\w+(Error|Exception))|/\S+/", r"\1", last.strip())
    return bare if len(bare) <= LONGEST else bare[: LONGEST - 3] + "..."


def memory() -> int:
    """Bytes of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def seconds(model: Model) -> int:
    """Processor seconds until a first answer, imports included."""
    return next(limit for states, limit in LIMITS if model.states < states)


def enter(
    rival: Rival, home: Environment, model: Model, folder: Path, room: int
) -> tuple[Contender, dict]:
    """A contender with its first figures, answer included, or with what went wrong."""
    told, answer = folder / f"{rival.name}.json", folder / f"{rival.name}.npz"
    limits = {"tol": TOL, "bytes": room}
    told.write_text(json.dumps(asdict(model) | limits))
    answer.unlink(missing_ok=True)
    said = (folder / f"{rival.name}.txt").open("w+")
    process = subprocess.Popen(
        [home.python, str(HERE / "contend.py"), rival.name, str(told), str(answer)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        text=True,
        cwd=HERE,
    )
    contender = Contender(rival, process, said)
    figures = contender.listen(seconds(model))
    if "failed" not in figures:
        with np.load(answer) as found:
            figures |= {"value": found["value"], "policy": found["policy"]}
    contender.figures = figures
    return contender, figures


def contest(
    model: Model, able: list[Rival], homes: dict[str, Environment], folder: Path, rounds: int
) -> dict[str, dict]:
    """Figures and answer of each contender, or what went wrong."""
    staying: list[Contender] = []
    row: dict[str, dict] = {}
    room = int(SHARE * memory())
    for rival in able:
        one, figures = enter(rival, homes[rival.name], model, folder, min(room, MOST))
        row[rival.name] = figures
        if "failed" in figures or figures["build_cpu"] + figures["solve_cpu"] > QUICK:
            one.leave()
        else:
            staying.append(one)
            room -= figures["memory"]
    for _ in range(rounds):
        for one in staying:
            one.again()
    for one in staying:
        one.leave()
    return row


def answer_of(model: Model, rival: Rival, home: Environment, folder: Path) -> dict:
    """One answer, not for its time."""
    one, figures = enter(rival, home, model, folder, MOST)
    one.leave()
    return figures
