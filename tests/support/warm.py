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

HEAVY_MODULES = (
    "distributed",
    "netCDF4",
    "numpy",
    "pandas",
    "rich.live",
    "scipy.optimize",
    "scipy.sparse",
)


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
                self.returncode = int(_read_line(self._ending))
            except TimeoutError:
                raise subprocess.TimeoutExpired("a warm process", timeout or 0.0) from None
            self._ending.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it says until it ends."""
        outputs: dict[int, str] = {}
        streams = [stream for stream in (self.stdout, self.stderr) if stream is not None]

        def read_stream(stream: IO[str]) -> None:
            outputs[id(stream)] = "" if stream.closed else stream.read()
            stream.close()

        readers = [threading.Thread(target=read_stream, args=(s,), daemon=True) for s in streams]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return outputs.get(id(self.stdout), ""), outputs.get(id(self.stderr), "")

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def start_process(
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
    request = {
        "code": code,
        "words": words,
        "cwd": str(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
        "session": start_new_session,
    }
    connection, remote = socket.socketpair()
    with remote:
        socket.send_fds(_start_server(), [b"."], [remote.fileno()])
    outputs: dict[str, IO[str]] = {}
    with ExitStack() as remote_ends:  # ends that are the process's alone once it has them

        def open_stream(name: str, kind: int) -> int:
            if kind == DEVNULL:
                return remote_ends.enter_context(open(os.devnull, "r+b", buffering=0)).fileno()
            if kind != PIPE:
                return kind
            read_end, remote = os.pipe()
            outputs[name] = os.fdopen(read_end)
            remote_ends.callback(os.close, remote)
            return remote

        standard_output = open_stream("stdout", stdout)
        standard_error = standard_output if stderr == STDOUT else open_stream("stderr", stderr)
        socket.send_fds(
            connection, [b"."], [open_stream("stdin", stdin), standard_output, standard_error]
        )
        connection.sendall(json.dumps(request).encode() + b"\n")
    return Process(
        int(_read_line(connection)), outputs.get("stdout"), outputs.get("stderr"), connection
    )


def _read_line(source: socket.socket) -> bytes:
    """The next line, and nothing beyond it."""
    read = b""
    while not read.endswith(b"\n"):
        byte = source.recv(1)
        assert byte, "the warm process is gone"
        read += byte
    return read


@cache
def _start_server() -> socket.socket:
    """A line to the warm process of this one, which ends with it."""
    connection, remote = socket.socketpair()
    with remote:
        descriptor = remote.fileno()
        command = [sys.executable, __file__, str(descriptor)]
        process = subprocess.Popen(command, stdin=DEVNULL, pass_fds=[descriptor])
    atexit.register(process.wait)
    atexit.register(connection.close)
    return connection


@dataclass
class Request:
    """One request: what to run, and the streams that it came with."""

    code: str
    words: list[str]
    cwd: str
    env: dict[str, str]
    session: bool
    streams: list[int] = field(default_factory=list)

    @staticmethod
    def receive(line: socket.socket) -> Request:
        _, streams, _, _ = socket.recv_fds(line, 1, 3)
        return Request(**json.loads(line.makefile().readline()), streams=streams)

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


def serve_requests(requests: socket.socket) -> Request:
    """Fork for each request; returns in the processes that run what was asked."""
    while True:
        _, descriptors, _, _ = socket.recv_fds(requests, 1, 1)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not descriptors:
            os._exit(0)
        with socket.socket(fileno=descriptors[0]) as connection:
            if os.fork() == 0:
                requests.close()
                return _fork_again(connection)


def _fork_again(connection: socket.socket) -> Request:
    """Fork once more: the one between tells the number and waits for the end."""
    request = Request.receive(connection)
    pid = os.fork()
    if pid == 0:
        return request
    for stream in request.streams:
        os.close(stream)
    try:
        connection.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    finally:  # whoever asked may be gone
        os._exit(0)


def import_modules() -> None:
    """Import what commands use, and every module of the package."""
    for name in HEAVY_MODULES:
        importlib.import_module(name)
    import tessella

    for module in pkgutil.walk_packages(tessella.__path__, "tessella."):
        if not module.name.startswith(("tessella.explore", "tessella.__main__")):
            importlib.import_module(module.name)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.path.remove(str(Path(__file__).parent))  # modules here are not those of a command
    sys.path.insert(0, "")
    import_modules()
    gc.collect()
    gc.freeze()  # what is shared with every process is not looked at again in each
    assert threading.active_count() == 1, "threads do not survive a fork"
    request = serve_requests(socket.socket(fileno=int(sys.argv[1])))
    request.take_over()
    request.run()


if __name__ == "__main__":
    main()
