"""The progress of a long computation: one line in a terminal, a line now and then in a pipe."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

PLAIN_LINE_INTERVAL_SECONDS = 5.0  # seconds between plain lines


@contextmanager
def status_line(stream: IO[str]) -> Iterator[Callable[[str], None]]:
    """A function that shows a line; nothing stays of it in a terminal."""
    last_time = [time.monotonic()]

    def print_line(line: str) -> None:
        now = time.monotonic()
        if now - last_time[0] >= PLAIN_LINE_INTERVAL_SECONDS:
            last_time[0] = now
            print(line, file=stream, flush=True)

    def replace_line(line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{line[:width]}", end="", file=stream, flush=True)

    terminal = stream.isatty()
    try:
        yield replace_line if terminal else print_line
    finally:
        if terminal:
            print("\r\x1b[K", end="", file=stream, flush=True)
