"""Processes that begin with their imports done: forked from one that has done nothing else.

A command so started is a process of its own, with its own folder, environment, pipes or terminal,
signals and exit status, and what it starts is its own too; only the second or two in which Python
loads JAX and the rest is not spent again for each. What must be seen from an empty interpreter on
(that a command loads what it needs, and no more) is started as usual.

    python warm.py FD    serves what comes in at the socket FD, until its other end is closed

What comes in is a socket for each request: a line of JSON goes there, with the standard streams,
and a line with the number of the process comes back, and one with its exit status when it ends.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import multiprocessing.process
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from types import ModuleType
from typing import IO

HEAVY = ("distributed", "netCDF4", "numpy", "pandas", "rich.live", "scipy.optimize", "scipy.sparse")


@dataclass(eq=False)
class Process:
    """A process that was started here: as much of ``subprocess.Popen`` as is needed."""

    pid: int
    stdout: IO[str] | None
    stderr: IO[str] | None
    _ending: socket.socket
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._ending], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._ending.settimeout(timeout)
            try:
                self.returncode = int(_line(self._ending))
            except TimeoutError:
                raise subprocess.TimeoutExpired("a warm process", timeout or 0.0) from None
            self._ending.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it says until it ends."""
        said: dict[int, str] = {}
        streams = [stream for stream in (self.stdout, self.stderr) if stream is not None]

        def listen(stream: IO[str]) -> None:
            said[id(stream)] = "" if stream.closed else stream.read()
            stream.close()

        ears = [threading.Thread(target=listen, args=(s,), daemon=True) for s in streams]
        for ear in ears:
            ear.start()
        self.wait(timeout)
        for ear in ears:
            ear.join(timeout)
        return said.get(id(self.stdout), ""), said.get(id(self.stderr), "")

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def start(
    code: str,
    *words: str,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    stderr: int = PIPE,
    start_new_session: bool = False,
) -> Process:
    """A process that runs ``code`` with these words as its arguments."""
    asked = {
        "code": code,
        "words": words,
        "cwd": str(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
        "session": start_new_session,
    }
    line, other = socket.socketpair()
    with other:
        socket.send_fds(_warm(), [b"."], [other.fileno()])
    heard: dict[str, IO[str]] = {}
    with ExitStack() as theirs:  # ends that are the process's alone once it has them

        def end(name: str, given: int) -> int:
            if given == DEVNULL:
                return theirs.enter_context(open(os.devnull, "r+b", buffering=0)).fileno()
            if given != PIPE:
                return given
            ours, other = os.pipe()
            heard[name] = os.fdopen(ours)
            theirs.callback(os.close, other)
            return other

        first = end("stdout", stdout)
        last = first if stderr == STDOUT else end("stderr", stderr)
        socket.send_fds(line, [b"."], [end("stdin", stdin), first, last])
        line.sendall(json.dumps(asked).encode() + b"\n")
    return Process(int(_line(line)), heard.get("stdout"), heard.get("stderr"), line)


def _line(source: socket.socket) -> bytes:
    """The next line, and nothing beyond it."""
    read = b""
    while not read.endswith(b"\n"):
        part = source.recv(1)
        assert part, "the warm process is gone"
        read += part
    return read


@cache
def _warm() -> socket.socket:
    """A line to the warm process of this one, which ends with it."""
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        command = [sys.executable, __file__, str(number)]
        process = subprocess.Popen(command, stdin=DEVNULL, pass_fds=[number])
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


@dataclass
class Asked:
    """One request: what to run, and the streams that it came with."""

    code: str
    words: list[str]
    cwd: str
    env: dict[str, str]
    session: bool
    streams: list[int] = field(default_factory=list)

    @staticmethod
    def on(line: socket.socket) -> Asked:
        _, streams, _, _ = socket.recv_fds(line, 1, 3)
        return Asked(**json.loads(line.makefile().readline()), streams=streams)

    def take_over(self) -> None:
        """Make this process the one that was asked for, as if it had begun so."""
        import dask.config
        import jax

        if self.session:
            os.setsid()
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(self.cwd)
        multiprocessing.process.ORIGINAL_DIR = self.cwd  # where processes that it starts begin
        os.environ.clear()
        os.environ.update(self.env)
        dask.config.refresh()  # read from the environment when it was imported, as is the folder
        jax.config.update("jax_compilation_cache_dir", self.env.get("JAX_COMPILATION_CACHE_DIR"))
        importlib.invalidate_caches()
        sys.argv = ["tessella", *self.words]
        first = [p for p in self.env.get("PYTHONPATH", "").split(os.pathsep) if p not in sys.path]
        sys.path[:1] = ["", *filter(None, first)]
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            lines = number == 2 or os.isatty(number)
            buffering = 1 if lines else -1
            text = os.fdopen(number, "w" if number else "r", buffering, closefd=False)
            setattr(sys, name, text)
            setattr(sys, f"__{name}__", text)

    def run(self) -> None:
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(self.code, main.__dict__)


def serve(requests: socket.socket) -> Asked:
    """Fork for each request; returns in the processes that run what was asked."""
    while True:
        _, lines, _, _ = socket.recv_fds(requests, 1, 1)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not lines:
            os._exit(0)
        with socket.socket(fileno=lines[0]) as line:
            if os.fork() == 0:
                requests.close()
                return _keep(line)


def _keep(line: socket.socket) -> Asked:
    """Fork once more: the one between tells the number and waits for the end."""
    asked = Asked.on(line)
    pid = os.fork()
    if pid == 0:
        return asked
    for stream in asked.streams:
        os.close(stream)
    try:
        line.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    finally:  # whoever asked may be gone
        os._exit(0)


def load() -> None:
    """Import what commands use, and every module of the package."""
    for name in HEAVY:
        importlib.import_module(name)
    import tessella

    for module in pkgutil.walk_packages(tessella.__path__, "tessella."):
        if not module.name.startswith(("tessella.explore", "tessella.__main__")):
            importlib.import_module(module.name)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.path.remove(str(Path(__file__).parent))  # modules here are not those of a command
    sys.path.insert(0, "")
    load()
    gc.collect()
    gc.freeze()  # what is shared with every process is not looked at again in each
    assert threading.active_count() == 1, "threads do not survive a fork"
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    asked.take_over()
    asked.run()


if __name__ == "__main__":
    main()
