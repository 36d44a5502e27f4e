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
LIMITS = ((1_000, 10), (50_000, 20), (200_000, 30), (np.inf, 120))  # states below, seconds
QUICK = 5.0  # processor seconds, beyond which a contender is not asked again
LONGEST = 140  # characters of what a process said
CROWDED = 4  # times its processor seconds: what a process may take by the clock


@dataclass
class Contender:
    """A process that has a model."""

    rival: Rival
    process: subprocess.Popen
    said: IO[str]
    patience: float
    figures: dict[str, Any] = field(default_factory=dict)
    stopped: bool = False  # for taking too long

    def listen(self) -> dict:
        """Its next line of figures, or why there is none."""
        late = threading.Timer(self.patience, self._stop)
        late.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        late.cancel()
        if line:
            return json.loads(line)
        self.process.wait()
        if self.stopped:
            return {"failed": f"no answer in {self.patience:.0f} s by the clock"}
        self.said.seek(0)
        return {"failed": reason(self.process.returncode, self.said.read(), self.patience)}

    def _stop(self) -> None:
        self.stopped = True
        self.process.kill()

    def again(self) -> None:
        """One more turn; the best of all counts."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        told = self.listen()
        for key in ("solve_s", "solve_cpu"):
            self.figures[key] = min(self.figures[key], told.get(key, np.inf))

    def leave(self) -> None:
        self.process.kill()
        self.process.wait()
        self.said.close()


def reason(status: int, said: str, patience: float) -> str:
    """Why a process has no answer, in a line."""
    if status == -24:
        return f"no answer in {patience / CROWDED:.0f} s"
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
    """Processor seconds until a first answer."""
    return next(limit for states, limit in LIMITS if model.states < states)


def enter(
    rival: Rival, home: Environment, model: Model, folder: Path, room: int
) -> tuple[Contender, dict]:
    """A contender with its first figures, answer included, or with what went wrong."""
    told, answer = folder / f"{rival.name}.json", folder / f"{rival.name}.npz"
    limits = {"tol": TOL, "bytes": room, "seconds": seconds(model)}
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
    contender = Contender(rival, process, said, CROWDED * seconds(model))
    figures = contender.listen()
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
