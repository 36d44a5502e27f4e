"""Studies as separate processes, the way a person starts them; their imports are done before."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from support import warm

from tessella.errors import StudyError
from tessella.runner.record import Record
from tessella.runner.store import Store

HERE = Path(__file__).parent
PATIENCE = 300  # seconds; no more than a guard against hanging


@dataclass
class Shell:
    """Starts commands, watches their stores, and ends what is left of them."""

    compiled: Path
    started: list[warm.Process] = field(default_factory=list)

    def start(
        self, *words: str, main: str = "tessella.cli", first: str = "", **options
    ) -> warm.Process:
        """Start ``main`` with these words, after the code ``first``."""
        code = f"{first}; import sys; from {main} import main; sys.exit(main())".lstrip("; ")
        ours = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        cache = {"JAX_COMPILATION_CACHE_DIR": str(self.compiled)}
        found = {"PYTHONPATH": os.pathsep.join([str(HERE), *ours])}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = warm.start_process(
            code, *words, env={**os.environ, **cache, **found}, **{**pipes, **options}
        )
        self.started.append(process)
        return process

    def paper(self, folder: Path, *words: str, **options) -> warm.Process:
        """Start a study without its report."""
        return self.start("paper", "--no-report", "--out", str(folder), *words, **options)

    def finish(self, process: warm.Process) -> tuple[int, str]:
        """Exit status and output."""
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()

    @staticmethod
    def until(condition: Callable[[], object], process: warm.Process) -> None:
        """Wait for ``condition()``; that the process ends first is an error."""
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < limit, "waited too long"
            assert process.poll() is None, f"ended too early: {process.communicate()[0]}"
            time.sleep(0.02)

    @staticmethod
    def stored(folder: Path) -> int:
        """How many records there are."""
        try:
            with Store.reader(folder) as store:
                return len(store.failure_reasons())
        except StudyError:  # not yet
            return 0

    @staticmethod
    def records(folder: Path) -> list[Record]:
        with Store.reader(folder) as store:
            return store.records()

    @staticmethod
    def workers(process: warm.Process) -> list[psutil.Process]:
        """The worker processes of a study on this machine."""
        children = psutil.Process(process.pid).children(recursive=True)
        return [c for c in children if "spawn_main" in " ".join(c.cmdline())]


@pytest.fixture(scope="session")
def compiled() -> Path:
    """The session's folder of compiled code: see ``tests/conftest.py``."""
    return Path(os.environ["JAX_COMPILATION_CACHE_DIR"])


@pytest.fixture(scope="session")
def shells(compiled: Path) -> Callable[[], Shell]:
    """A function that makes a shell, for whoever closes it."""
    return lambda: Shell(compiled)


@pytest.fixture
def shell(shells: Callable[[], Shell]) -> Iterator[Shell]:
    opened = shells()
    yield opened
    opened.close()
