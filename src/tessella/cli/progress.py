"""How far a long work is: one line that changes in a terminal, a line now and then in a pipe."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

EVERY = 5.0  # seconds between plain lines


@contextmanager
def telling(stream: IO[str]) -> Iterator[Callable[[str], None]]:
    """A function that shows a line; nothing stays of it in a terminal."""
    last = [time.monotonic()]

    def plain(line: str) -> None:
        now = time.monotonic()
        if now - last[0] >= EVERY:
            last[0] = now
            print(line, file=stream, flush=True)

    def changing(line: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{line[:room]}", end="", file=stream, flush=True)

    terminal = stream.isatty()
    try:
        yield changing if terminal else plain
    finally:
        if terminal:
            print("\r\x1b[K", end="", file=stream, flush=True)
