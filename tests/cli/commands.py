"""Running a command as a user does: a process of its own, in a pipe or in a terminal.

Its imports are done before (``support.warm``), unless it is asked to begin ``afresh``.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import warm

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours, and moves of the cursor
PATIENCE = 300  # seconds; no more than a guard against hanging
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


CODE = "from tessella.cli import main; main(prog_name='tessella')"


def tessella(
    *words: str, cwd: Path, kept: Path, terminal: bool = False, afresh: bool = False
) -> Done:
    """Run ``tessella words`` in ``cwd``; solutions are kept in ``kept``."""
    environment = os.environ | {"TESSELLA_CACHE": str(kept), "COLUMNS": "100"}
    where = {"cwd": cwd, "env": environment}
    if afresh:
        command = [sys.executable, "-m", "tessella", *words]
        done = subprocess.run(command, **where, capture_output=True, text=True, timeout=PATIENCE)
        return Done(done.returncode, done.stdout, done.stderr)
    if not terminal:
        process = warm.start_process(CODE, *words, **where)
        out, err = process.communicate(timeout=PATIENCE)
        return Done(process.wait(), out, err)
    ours, theirs = pty.openpty()
    said: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            said.append(part)

    listener = threading.Thread(target=listen)
    process = warm.start_process(CODE, *words, **where, stdout=theirs, stderr=theirs)
    os.close(theirs)
    listener.start()
    status = process.wait(timeout=PATIENCE)
    listener.join(timeout=60)
    os.close(ours)
    return Done(status, b"".join(said).decode(), "")
